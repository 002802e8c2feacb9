"""Which photos a filter leaves, against a loop over the rows of the table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from samespot import InputError, Places
from samespot.maps.filters import FilterOptions
from samespot.maps.limits import Columns, limits_of
from samespot.places.geodesy import to_degrees

PLANE = "EPSG:32632"


def places(projection=PLANE, count=400, **columns):
    dice = np.random.default_rng(7)
    heading = dice.uniform(0, 360, count)
    heading[::7] = np.nan
    times = pd.Timestamp("2026-05-01") + pd.to_timedelta(dice.integers(0, 10**6, count), unit="s")
    table = {
        "image": [f"{i}.jpg" for i in range(count)],
        "easting": 691_000 + dice.uniform(0, 1000, count),
        "northing": 5_334_000 + dice.uniform(0, 1000, count),
        "heading": heading,
        "time": [None if i % 9 == 0 else str(one) for i, one in enumerate(times)],
        "condition": [[None, "day", "night", 'so "called" \\ dusk'][i % 4] for i in range(count)],
        **columns,
    }
    frame = pd.DataFrame({name: value for name, value in table.items() if value is not None})
    return Places(Path("photos"), frame, projection)


def allowed(there, **words):
    limits = limits_of(FilterOptions(**words), there, Columns(there), "map")
    return None if limits is None else limits.allowed


def by_hand(there, **rules):
    """Row by row."""
    kept = []
    for _, row in there.table.iterrows():
        may = True
        if "near" in rules:
            east, north, radius = rules["near"]
            may &= (row.easting - east) ** 2 + (row.northing - north) ** 2 <= radius**2
        if "area" in rules:
            (e0, n0), (e1, n1) = rules["area"]
            may &= e0 <= row.easting <= e1 and n0 <= row.northing <= n1
        if "heading" in rules:
            turn, within = rules["heading"]
            may &= not np.isnan(row.heading) and abs((row.heading - turn + 180) % 360 - 180) <= within
        if "since" in rules:
            may &= row.time is not None and pd.Timestamp(row.time) >= pd.Timestamp(rules["since"])
        if "until" in rules:
            may &= row.time is not None and pd.Timestamp(row.time) < pd.Timestamp(rules["until"])
        if "condition" in rules:
            may &= row.condition == rules["condition"]
        kept.append(bool(may))
    return np.array(kept)


CASES = [
    ({"near": "691400m,5334500m,200"}, {"near": (691400, 5334500, 200)}),
    (
        {"area": "691800m,5334900m,691100m,5334200m"},
        {"area": ((691100, 5334200), (691800, 5334900))},
    ),
    ({"heading": "5,40"}, {"heading": (5, 40)}),
    ({"heading": "350,40"}, {"heading": (350, 40)}),
    ({"heading": "180,30"}, {"heading": (180, 30)}),
    ({"heading": "12,180"}, {"heading": (12, 180)}),
    ({"since": "2026-05-04"}, {"since": "2026-05-04"}),
    ({"until": "2026-05-04T12:30"}, {"until": "2026-05-04T12:30"}),
    ({"since": "2026-05-03", "until": "2026-05-06"}, {"since": "2026-05-03", "until": "2026-05-06"}),
    ({"condition": "night"}, {"condition": "night"}),
    ({"condition": 'so "called" \\ dusk'}, {"condition": 'so "called" \\ dusk'}),
    (
        {"near": "691400m,5334500m,400", "heading": "90,90", "condition": "day", "since": "2026-05-02"},
        {"near": (691400, 5334500, 400), "heading": (90, 90), "condition": "day", "since": "2026-05-02"},
    ),
]


@pytest.mark.parametrize(("words", "rules"), CASES, ids=lambda one: " ".join(one))
def test_a_filter_leaves_what_a_loop_leaves(words, rules):
    there = places()
    expected = by_hand(there, **rules)
    assert 0 < expected.sum() < len(there)
    np.testing.assert_array_equal(allowed(there, **words), expected)


def test_degrees_and_metres_mean_the_same():
    there = places()
    latitude, longitude = to_degrees([691_400.0], [5_334_500.0], PLANE)
    np.testing.assert_array_equal(
        allowed(there, near=f"{latitude[0]!s},{longitude[0]!s},200"),
        allowed(there, near="691400m,5334500m,200"),
    )
    lat, lon = to_degrees(there.table["easting"], there.table["northing"], PLANE)
    south, west = np.quantile(lat, 0.2), np.quantile(lon, 0.3)
    np.testing.assert_array_equal(
        allowed(there, area=f"{south},{lon.max() + 1},{lat.max() + 1},{west}"), (lat >= south) & (lon >= west)
    )


def test_times_that_are_plain_seconds():
    there = places(time=np.arange(400.0))
    assert np.flatnonzero(allowed(there, since="390.5", until=395)).tolist() == [391, 392, 393, 394]


def test_nothing_asked_leaves_all_and_something_strange_leaves_nothing():
    assert allowed(places()) is None
    assert not allowed(places(), condition="fog").any()
    assert not allowed(places(), near="-77.8,166.6,500").any()  # off the plane


def test_the_filter_that_no_photo_passes_is_named():
    there = places(count=2, heading=[10.0, 200.0], condition=["day", "night"])

    def told(**words):
        return limits_of(FilterOptions(**words), there, Columns(there), "map").left_none

    assert told(heading="10,5", condition="day") is None
    fog = "no photo of this map, which has 2, passes the filter condition fog"
    assert told(condition="fog") == told(heading="10,5", condition="fog") == fog
    both = told(heading="10,5", condition="night")
    assert both.endswith("passes all of the filters heading 10,5 and condition night")
    box = "691000m,5334000.5m,691001m,5334001m"
    assert told(area=box).endswith(f"the filter area {box}")


@pytest.mark.parametrize(
    ("changes", "words", "line"),
    [
        (
            {"projection": None},
            {"near": "48.1,11.5,10"},
            "map: this map has no projection, so `near` must be in metres",
        ),
        ({"projection": None}, {"area": "48.1,11.5,48.2,11.6"}, "so `area` must be in metres"),
        ({"heading": np.full(400, np.nan)}, {"heading": "90,10"}, "no photo of this map knows its heading"),
        ({"time": None}, {"since": "2026-05-01"}, "do not tell when they were taken; leave out `since`"),
        ({"time": None}, {"until": "2026-05-01"}, "leave out `until`"),
        ({"condition": None}, {"condition": "night"}, "tell no condition"),
        ({}, {"since": "yesterday-ish"}, "`since` 'yesterday-ish' is not a time such as"),
        ({"time": np.arange(400.0)}, {"until": "2026-05-01"}, "`until` '2026-05-01' is not seconds"),
    ],
)
def test_one_line_for_what_a_map_cannot_be_filtered_by(changes, words, line):
    with pytest.raises(InputError, match=line) as caught:
        allowed(places(**changes), **words)
    assert "\n" not in str(caught.value)
