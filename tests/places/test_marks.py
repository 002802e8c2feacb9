"""Photos that were seen before are recognised: exactly in small sets, about in large ones."""

import json

import numpy as np
import pytest

from samespot import Places
from samespot.places import marks
from samespot.places.marks import photo_facts, photos_in_common


def photos(n, start=0, folder="photos", root="."):
    rows = np.arange(start, start + n)
    table = {
        "image": [f"{folder}/{i}.jpg" for i in rows],
        "easting": rows * 1.5,
        "northing": 7.0,
        "heading": 0.0,
    }
    return Places.build(root, table, missing_images="ignore")


def test_the_same_table_is_known_by_its_digest_and_a_part_of_it_by_its_marks():
    facts = json.loads(json.dumps(photo_facts([photos(100), photos(50, 80)])))
    assert facts["photos"] == 130  # each once
    assert photos_in_common(photos(100), facts) == (100, True)
    assert photos_in_common(photos(30, 120), facts) == (10, True)
    assert photos_in_common(photos(30, 1000), facts) == (0, True)


def test_a_photo_is_its_file_name_and_place_wherever_it_is_stored():
    facts = photo_facts([photos(20)])
    assert photos_in_common(photos(20, folder="copy/of"), facts) == (20, True)
    elsewhere = photos(20)
    elsewhere.table["northing"] += 30.0  # 0.jpg of another camera
    assert photos_in_common(elsewhere, facts) == (0, True)


@pytest.mark.parametrize("part", [0.0, 0.25, 1.0])
def test_of_many_photos_a_part_is_estimated(monkeypatch, part):
    monkeypatch.setattr(marks, "KEPT", 512)
    facts = photo_facts([photos(20_000)])
    assert len(facts["marks"]) < 4 * 5 * 512 / 3 + 5
    table = photos(4_000, round(20_000 - part * 4_000))
    count, exact = photos_in_common(table, facts)
    assert not exact
    assert count == pytest.approx(part * 4_000, abs=600)
    assert (count == 0) == (part == 0)


@pytest.mark.parametrize("facts", [{}, {"marks": "no base64!", "photos": 3}, {"marks": "YWJj", "photos": 3}])
def test_facts_that_say_nothing_are_no_photos(facts):
    assert photos_in_common(photos(5), facts) == (0, False)
