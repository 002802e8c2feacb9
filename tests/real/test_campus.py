"""The campus photos and the GPS tracks of real rides, read as any user's table would be."""

import numpy as np
import pandas as pd
import pytest

from samespot.errors import InputError
from samespot.places.table import Places


def test_the_campus_table_reads_whole(real_data):
    places = Places.read(real_data / "campus" / "places.csv", missing_images="error")
    assert len(places) == 6805
    assert places.table["split"].value_counts().to_dict() == {
        "train": 4211,
        "map": 1519,
        "query": 524,
        "gap": 551,
    }
    assert (places.dropped, places.notes) == ({}, ())
    heading = places.table["heading"]
    assert (heading.between(0, 360, inclusive="left")).all()
    assert places.positions[0].tolist() == [452.39, 214.79, 133]
    assert places.table["time"][0] == "15:03"


def test_the_campus_table_survives_both_file_types(real_data, tmp_path):
    places = Places.read(real_data / "campus" / "places.csv", missing_images="ignore")
    for name in ("places.csv", "places.parquet"):
        again = Places.read(places.save(tmp_path / name))
        assert again.digest() == places.digest()
        assert again.notes == ()  # the images are found from the new folder too


def write_track(real_data, folder, season, *, scaled):
    ride = pd.read_csv(real_data / "geometry" / f"nordland_gps_{season}.csv.gz")
    ride = ride.rename(columns={"lat": "latitude", "lon": "longitude", "course": "heading"})
    ride.insert(0, "image", [f"{row}.jpg" for row in range(len(ride))])
    if scaled:
        ride = ride.assign(
            latitude=ride["latitude"] / 1e5, longitude=ride["longitude"] / 1e5, heading=ride["heading"] / 100
        )
    path = folder / f"{season}.csv"
    ride.to_csv(path, index=False)
    return path, ride


def test_degrees_times_100000_are_refused_at_the_first_row(real_data, tmp_path):
    path, _ = write_track(real_data, tmp_path, "fall", scaled=False)
    with pytest.raises(InputError) as error:
        Places.read(path, missing_images="ignore")
    assert str(error.value) == f"{path} row 1: latitude 6343678 is not in [-90, 90]; write it as 48.1372"


@pytest.mark.parametrize("season", ["fall", "spring", "summer", "winter"])
def test_the_bad_rows_of_a_ride_are_named_until_none_is_left(real_data, tmp_path, season):
    path, ride = write_track(real_data, tmp_path, season, scaled=True)
    bad = (
        (ride["latitude"].abs() > 90)
        | (ride["longitude"].abs() > 180)
        | ~ride["heading"].between(0, 360, inclusive="left")
    )
    assert 0 < bad.sum() < 0.05 * len(ride)
    limits = {
        "latitude": ride["latitude"].abs() > 90,
        "longitude": ride["longitude"].abs() > 180,
        "heading": bad,
    }
    column, rows = next((name, mask) for name, mask in limits.items() if mask.any())
    with pytest.raises(InputError, match=f"row {np.flatnonzero(rows)[0] + 1}: {column} "):
        Places.read(path, missing_images="ignore")
    ride[~bad].to_csv(path, index=False)
    places = Places.read(path, missing_images="ignore")
    assert len(places) == (~bad).sum()


def test_daejeon_reads_onto_its_utm_zone(real_data, tmp_path):
    counts = {}
    for side in ("database", "query"):
        table = pd.read_csv(
            real_data / "geometry" / f"daejeon520_{side}.csv.gz", names=["image", "latitude", "longitude"]
        )
        table.to_csv(tmp_path / f"{side}.csv", index=False)
        places = Places.read(tmp_path / f"{side}.csv", missing_images="ignore")
        assert places.projection == "EPSG:32652"
        assert places.table[["easting", "northing"]].std().max() < 10_000  # one city
        counts[side] = len(places)
    assert counts == {"database": 32380, "query": 500}


def test_a_table_without_a_header_is_refused(real_data):
    with pytest.raises(InputError, match=r"missing columns image, easting, northing; it has .*; needed:"):
        Places.read(real_data / "geometry" / "daejeon520_database.csv.gz")


@pytest.mark.parametrize("season", ["fall", "winter"])
def test_a_train_heads_where_it_goes_at_both_ends_of_the_line(real_data, tmp_path, season):
    """The GPS course is from true north, and grid north is turned against it by 1.8° at either end."""
    path, ride = write_track(real_data, tmp_path, season, scaled=True)
    good = (ride["latitude"].abs() <= 90) & ride["heading"].between(0, 360, inclusive="left")
    ride[good & (ride["longitude"].abs() <= 180)].to_csv(path, index=False)
    table = Places.read(path, missing_images="ignore").table
    metres = table[["easting", "northing"]].to_numpy()
    step = metres[2:] - metres[:-2]
    bearing = np.rad2deg(np.arctan2(step[:, 0], step[:, 1]))
    off = (table["heading"].to_numpy()[1:-1] - bearing + 180) % 360 - 180
    moving = (np.hypot(*step.T) > 20) & (np.hypot(*step.T) < 200)
    longitude = table["longitude"].to_numpy()[1:-1]
    for end in (longitude < 11.5, longitude > 14):
        assert (moving & end).sum() > 5000
        assert abs(np.median(off[moving & end])) < 0.1
