"""Train, map and query: shares, gaps and order as asked for, and nothing in two tables."""

import numpy as np
import pytest

from samespot import InputError, Places
from samespot.places.splitting import split_places


def photos(n=200, seed=0, **columns):
    dice = np.random.default_rng(seed)
    table = {
        "image": [f"{i:03d}.jpg" for i in range(n)],
        "easting": dice.uniform(0, 1000, n),
        "northing": dice.uniform(0, 300, n),
        "heading": 0.0,
        **columns,
    }
    return Places.build("photos", table, missing_images="ignore")


def names(places):
    return set(places.table["image"])


@pytest.mark.parametrize("by", ["area", "sequence", "time"])
def test_no_photo_is_in_two_tables_and_shares_are_near_what_was_asked(by):
    sequence = [f"s{i // 10}" for i in range(200)]
    time = [f"2024-05-{1 + i // 10:02d}" for i in range(200)]
    done = split_places(photos(sequence=sequence, time=time), by, train=0.6, queries=0.25)
    parts = [names(one) for one in (done.train, done.map, done.query)]
    assert not (parts[0] & parts[1])
    assert not (parts[0] & parts[2])
    assert not (parts[1] & parts[2])
    assert len(done.train) == pytest.approx(120, abs=15)
    assert len(done.query) / (len(done.map) + len(done.query)) == pytest.approx(0.25, abs=0.08)


def test_by_area_no_evaluated_photo_is_nearer_than_the_gap():
    done = split_places(photos(), "area", gap=60.0)
    west, east = done.train.positions[:, 0], done.map.positions[:, 0]
    assert west.max() + 60 <= min(east.min(), done.query.positions[:, 0].min())
    assert "west of it is train" in done.notes[0]


def test_sequences_stay_whole_and_time_goes_forward():
    whole = photos(sequence=[f"s{i % 7}" for i in range(200)])
    done = split_places(whole, "sequence")
    tables = [set(one.table["sequence"]) for one in (done.train, done.map, done.query)]
    assert not (tables[0] & tables[1])
    assert not (tables[0] & tables[2])
    assert not (tables[1] & tables[2])
    assert sum(map(len, tables)) == 7
    timed = split_places(photos(time=[f"{1000 + 3 * i}" for i in range(200)]), "time")
    assert timed.train.table["time"].max() < timed.map.table["time"].min()
    assert timed.map.table["time"].max() < timed.query.table["time"].min()


@pytest.mark.parametrize(
    ("columns", "named", "said"),
    [
        ({}, {"by": "sequence"}, "no column sequence"),
        ({}, {"by": "time"}, "not every photo has a time"),
        ({"sequence": "one"}, {"by": "sequence"}, "three are needed"),
        ({}, {"train": 1.5}, "`train` 1.5 must be below 1"),
        ({}, {"by": "areas"}, "`by` 'areas' is unknown; choose one of area, sequence, time"),
        ({}, {"gap": -50.0}, "`gap` -50 must be at least 0"),
        ({}, {"gap": 5000.0}, "no photo is left for train and map and query"),
    ],
)
def test_what_cannot_be_cut_is_told(columns, named, said):
    with pytest.raises(InputError, match=said):
        split_places(photos(**columns), **named)


def test_the_tables_on_disk_find_their_photos(samespot, tmp_path):
    table = photos()
    for image in table.table["image"]:
        (tmp_path / image).touch()
    Places(tmp_path, table.table).save(tmp_path / "places.csv")
    code, out, err = samespot("split", tmp_path / "places.csv", "--out", tmp_path / "tables" / "here")
    assert code == 0, err
    assert "train.csv.meta.json" in out
    train = Places.read(tmp_path / "tables" / "here" / "train.csv", missing_images="error")
    assert names(train) == names(split_places(table).train)
