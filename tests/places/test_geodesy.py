"""Latitude and longitude to metres, against published UTM values and PROJ's own choice of zone."""

import numpy as np
import pytest
from pyproj import Geod
from pyproj.database import query_utm_crs_info

from samespot.errors import InputError
from samespot.places.geodesy import (
    choose_projection,
    far_apart,
    grid_headings,
    move,
    same_plane,
    to_degrees,
    to_metres,
    utm_zone,
)

WGS84 = Geod(ellps="WGS84")


def test_the_central_meridian_on_the_equator_is_500_km_east_and_0_north():
    easting, northing, projection = to_metres([0.0], [9.0])
    assert projection == "EPSG:32632"
    assert easting[0] == pytest.approx(500_000.0, abs=1e-6)
    assert northing[0] == pytest.approx(0.0, abs=1e-6)


def test_the_southern_half_counts_down_from_10_000_km():
    _, northing, projection = to_metres([-0.001], [9.0])
    assert projection == "EPSG:32732"
    # one thousandth of a degree of the meridian at the equator is 110.574 m, times the scale 0.9996
    assert northing[0] == pytest.approx(1e7 - 110.574 * 0.9996, abs=0.01)


@pytest.mark.parametrize(
    ("latitude", "longitude", "code", "easting", "northing"),
    [
        (
            43.642567,
            -79.387139,
            32617,
            630_084.30,
            4_833_438.59,
        ),  # the CN Tower, the example of Wikipedia's UTM page
        (35.656129, 139.685074, 32654, 380_973.115, 3_946_605.472),  # Tokyo Time Machine's first map image
    ],
)
def test_known_utm_values(latitude, longitude, code, easting, northing):
    east, north, projection = to_metres([latitude], [longitude])
    assert projection == f"EPSG:{code}"
    assert east[0] == pytest.approx(easting, abs=0.02)
    assert north[0] == pytest.approx(northing, abs=0.02)


NORWAY_AND_SVALBARD = [
    (60.39, 5.32, 32632),  # Bergen, in the widened 32V
    (55.99, 5.32, 32631),  # just south of it
    (64.0, 5.32, 32631),  # just north of it
    (60.0, 2.99, 32631),  # what is left of 31V
    (78.22, 15.65, 32633),  # Longyearbyen, in the widened 33X
    (75.0, 8.99, 32631),
    (75.0, 9.0, 32633),
    (75.0, 20.99, 32633),
    (75.0, 21.0, 32635),
    (75.0, 33.0, 32637),
    (75.0, 41.99, 32637),
    (75.0, 42.0, 32638),
    (84.0, 15.65, 32633),
    (71.99, 15.65, 32633),
    (71.99, 8.0, 32632),
]


@pytest.mark.parametrize(("latitude", "longitude", "code"), NORWAY_AND_SVALBARD)
def test_the_exceptions_of_norway_and_svalbard(latitude, longitude, code):
    assert utm_zone(latitude, longitude) == code


def test_zones_are_those_of_proj_which_knows_no_exceptions():
    rng = np.random.default_rng(5)
    latitude = np.concatenate(
        [rng.uniform(-79, 83, 1500), rng.uniform(56, 64, 150), rng.uniform(72, 84, 150)]
    )
    longitude = np.concatenate(
        [rng.uniform(-180, 180, 1500), rng.uniform(0, 12, 150), rng.uniform(0, 42, 150)]
    )
    plain = np.zeros(len(latitude), dtype=int)
    for info in query_utm_crs_info(datum_name="WGS 84"):
        west, south, east, north = info.area_of_use.bounds
        plain[(west <= longitude) & (longitude < east) & (south <= latitude) & (latitude < north)] = int(
            info.code
        )
    norway = (latitude >= 56) & (latitude < 64) & (longitude >= 0) & (longitude < 12)
    svalbard = (latitude >= 72) & (longitude >= 0) & (longitude < 42)
    apart = np.abs(utm_zone(latitude, longitude) - plain)
    assert (plain > 0).all()
    assert (apart[~norway & ~svalbard] == 0).all()
    assert set(apart[norway | svalbard]) == {0, 1}  # a widened zone takes from its neighbour only


def test_longitudes_may_run_past_the_date_line():
    assert list(utm_zone([10, 10, 10, 10], [-180.0, 180.0, 179.9, 181.0])) == [32601, 32601, 32660, 32601]


def test_one_zone_keeps_utm_and_two_zones_share_a_local_projection():
    assert choose_projection([51.5, 51.6], [0.1, 0.2]) == "EPSG:32631"
    assert choose_projection([51.5, 51.6], [-0.1, 0.1]).startswith(
        "+proj=aeqd +lat_0=51.550000 +lon_0=0.000000"
    )
    assert choose_projection([0.1, -0.1], [9.0, 9.0]).startswith("+proj=aeqd")  # across the equator


def test_distances_of_a_set_that_spans_zones_are_true_to_a_thousandth():
    rng = np.random.default_rng(1)
    latitude, longitude = (
        51.5 + rng.uniform(-0.3, 0.3, 60),
        rng.uniform(-0.4, 0.4, 60),
    )  # London, zones 30 and 31
    easting, northing, _ = to_metres(latitude, longitude)
    a, b = rng.integers(0, 60, (2, 300))
    a, b = a[a != b], b[a != b]
    flat = np.hypot(easting[a] - easting[b], northing[a] - northing[b])
    true = WGS84.inv(longitude[a], latitude[a], longitude[b], latitude[b])[2]
    np.testing.assert_allclose(flat, true, rtol=1e-3)


def test_streets_are_true_to_a_thousandth_490_km_from_the_middle():
    latitude, longitude = (
        [0.0, 0.0, 0.001, 0.001],
        [-4.35, 4.35, 4.35, 4.351],
    )  # 484 km either side of zone 30 | 31
    easting, northing, projection = to_metres(latitude, longitude)
    assert projection.startswith("+proj=aeqd")
    flat = np.hypot(np.diff(easting), np.diff(northing))[1:]
    true = WGS84.inv(longitude[1:3], latitude[1:3], longitude[2:], latitude[2:])[2]
    np.testing.assert_allclose(flat, true, rtol=1.05e-3)


def test_a_set_across_the_date_line_stays_together():
    easting, northing, projection = to_metres([-16.8, -16.8], [179.99, -179.99])  # Taveuni, Fiji
    assert "+lon_0=180.000000" in projection or "+lon_0=-180.000000" in projection
    true = WGS84.inv(179.99, -16.8, -179.99, -16.8)[2]
    assert np.hypot(*np.diff([easting, northing])).item() == pytest.approx(true, rel=1e-4)
    assert true < 2200


@pytest.mark.parametrize(
    ("latitude", "longitude"),
    [([63.4], [10.4]), ([-33.9], [151.2]), ([51.5, 51.5], [-0.1, 0.1]), ([16.8] * 2, [179.9, -179.9])],
)
def test_there_and_back_is_within_a_tenth_of_a_millimetre(latitude, longitude):
    easting, northing, projection = to_metres(latitude, longitude)
    lat, lon = to_degrees(easting, northing, projection)
    np.testing.assert_allclose(lat, latitude, atol=1e-9)
    np.testing.assert_allclose(lon, longitude, atol=1e-9)


def test_unknown_positions_stay_unknown_both_ways_and_do_not_sway_the_choice():
    easting, northing, projection = to_metres([48.1, np.nan, 48.2], [11.5, 20.0, np.nan])
    assert projection == "EPSG:32632"
    assert np.isfinite(easting).tolist() == [True, False, False] == np.isfinite(northing).tolist()
    lat, lon = to_degrees(easting, northing, projection)
    assert np.isnan(lat).tolist() == [False, True, True] == np.isnan(lon).tolist()


def test_a_second_set_goes_onto_the_plane_of_the_first():
    _, _, projection = to_metres([48.1], [11.9])
    alone = to_metres([48.1], [12.1])
    joined = to_metres([48.1], [12.1], projection)
    assert (alone[2], joined[2]) == ("EPSG:32633", "EPSG:32632")
    assert abs(alone[0][0] - joined[0][0]) > 400_000  # the eastings of neighbouring zones do not compare
    assert joined[0][0] - to_metres([48.1], [11.9], projection)[0][0] == pytest.approx(14_888, abs=20)


def test_no_position_at_all_is_refused():
    with pytest.raises(ValueError, match="no finite latitude and longitude"):
        choose_projection([np.nan], [1.0])
    with pytest.raises(ValueError, match="needs a finite latitude"):
        utm_zone([np.nan], [1.0])


@pytest.mark.parametrize(
    ("projection", "fault"),
    [
        ("EPSG:99999999", "projection 'EPSG:99999999' is not known"),
        ("nonsense", "projection 'nonsense' is not known"),
        ("EPSG:4326", "projection 'EPSG:4326' is not in metres on a plane"),
        ("EPSG:2263", "projection 'EPSG:2263' is not in metres on a plane"),  # New York in feet
    ],
)
def test_a_projection_that_is_not_in_metres_is_refused(projection, fault):
    with pytest.raises(InputError) as error:
        to_metres([40.7], [-74.0], projection)
    assert str(error.value) == f"{fault}; give one like EPSG:32633, or none to have it chosen"
    with pytest.raises(InputError):
        to_degrees([0.0], [0.0], projection)


LONDON = "+proj=aeqd +lat_0=51.5 +lon_0=0 +datum=WGS84"  # as chosen for a city on two zones


@pytest.mark.parametrize(
    ("latitude", "longitude", "projection", "convergence"),
    [
        (60.0, 11.9, "EPSG:32632", 2.512),
        (48.137, 11.575, "EPSG:32632", 1.918),
        (60.0, 6.1, "EPSG:32632", -2.512),
        (-40.0, 149.0, "EPSG:32756", 2.572),
        (51.7, 0.4, LONDON, 0.314),
    ],
)
def test_a_true_bearing_is_the_grid_heading_of_a_walk_that_way(latitude, longitude, projection, convergence):
    for bearing in (0.0, 30.0, 135.0, 271.0):
        lon, lat, _ = WGS84.fwd(longitude, latitude, bearing, 10.0)
        easting, northing, _ = to_metres([latitude, lat], [longitude, lon], projection)
        walked = np.rad2deg(np.arctan2(np.diff(easting), np.diff(northing))) % 360
        turned = grid_headings([bearing], [latitude], [longitude], projection)
        np.testing.assert_allclose(turned, walked, atol=1e-3)
        assert (bearing - turned[0] + 180) % 360 - 180 == pytest.approx(convergence, abs=2e-3)


def test_unknown_headings_stay_unknown_and_none_turns_where_the_position_is():
    turned = grid_headings([np.nan, 350.0, 0.0], [60.0, np.nan, 60.0], [11.9, 11.9, 11.9], "EPSG:32632")
    np.testing.assert_allclose(turned, [np.nan, 350.0, 360 - 2.512], atol=1e-3)


def test_a_move_to_another_plane_keeps_distances_and_relative_bearings():
    """What one camera sees of another, its distance and the angle off its heading, does not change."""
    rng = np.random.default_rng(3)
    easting, northing = 690_000 + rng.uniform(0, 500, 20), 5_330_000 + rng.uniform(0, 500, 20)
    heading = rng.uniform(0, 360, 20)
    moved = move(easting, northing, heading, "EPSG:32632", "EPSG:32633")
    assert np.abs(moved[0] - easting).min() > 400_000

    def seen(x, y, h):
        dx, dy = x[1:] - x[0], y[1:] - y[0]
        return np.hypot(dx, dy), (np.rad2deg(np.arctan2(dx, dy)) - h[0]) % 360, (h[1:] - h[0]) % 360

    before, after = seen(easting, northing, heading), seen(*moved)
    np.testing.assert_allclose(after[0], before[0], rtol=2e-3)  # the scales of the two zones differ
    np.testing.assert_allclose(after[1], before[1], atol=0.01)
    np.testing.assert_allclose(after[2], before[2], atol=0.01)
    back = move(*moved, "EPSG:32633", "EPSG:32632")
    np.testing.assert_allclose(back, [easting, northing, heading], atol=1e-4)


def test_one_plane_may_have_several_names():
    assert same_plane("EPSG:32632", "epsg:32632")
    assert same_plane("EPSG:32632", "+proj=utm +zone=32 +datum=WGS84 +type=crs")
    assert not same_plane("EPSG:32632", "EPSG:32633")


def test_a_grid_that_counts_westwards_is_refused():
    with pytest.raises(InputError, match="projection 'EPSG:2046' counts westwards; give one like"):
        to_metres([-30.0], [15.0], "EPSG:2046")  # South Africa


def test_what_lies_far_from_the_median_is_found():
    rows, metres = far_apart([0.0, 10.0, 5_800_000.0, np.nan, 20.0], [0.0, 0.0, 0.0, 0.0, 0.0])
    assert rows.tolist() == [2]
    assert metres == pytest.approx(5_800_000, abs=30)
    assert len(far_apart([0.0, 499e3], [0.0, 0.0])[0]) == 0
