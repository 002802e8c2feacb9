"""Points of keypoints are written as they come, and read back by photo."""

import numpy as np
import pytest

from samespot.maps import geometry
from samespot.maps.geometry import POINTS, Points, write_points
from samespot.matching.keypoints import Keypoints
from samespot.places.table import Places
from samespot.progress import silent


def photos(tmp_path, lengths):
    """A table, and the keypoints of each photo."""
    columns = {"image": [f"{row}.jpg" for row in range(len(lengths))], "easting": 0.0, "northing": 0.0}
    places = Places.build(tmp_path, {**columns, "heading": 0.0}, missing_images="ignore")
    empty = [Keypoints(np.zeros((n, 2), np.float32), np.zeros((n, 1), np.int8), (1, 1)) for n in lengths]
    return places, lambda row: empty[row]


@pytest.mark.parametrize("rows", [[], [0, 1, 2, 3], [1], [3], [0, 2]])
def test_photos_without_points_have_nan(tmp_path, monkeypatch, rows):
    places, keypoints = photos(tmp_path, lengths := [2, 3, 0, 1])
    made = {row: np.full((lengths[row], 3), row, np.float32) for row in rows}
    monkeypatch.setattr(geometry, "_by_poses", lambda *_: iter(made.items()))
    told = write_points("triangulate", tmp_path, places, [], keypoints, None, "", None, silent)
    total = sum(lengths[row] for row in rows)
    assert told == {"kind": "triangulate", "photos": sum(lengths[row] > 0 for row in rows), "points": total}
    points = Points.open(tmp_path, "index again")
    for row, length in enumerate(lengths):
        np.testing.assert_array_equal(points(row), made.get(row, np.full((length, 3), np.nan)))
    assert np.load(tmp_path / POINTS).dtype == np.float32


def test_no_more_of_the_file_is_there_than_was_written(tmp_path, monkeypatch):
    """A full disk then is an error; a file that was promised whole, and written through a memory map, kills."""
    places, keypoints = photos(tmp_path, [100_000] * 3)
    sizes = []

    def made(*_):
        for row in range(3):
            sizes.append((tmp_path / POINTS).stat().st_size)
            yield row, np.zeros((100_000, 3), np.float32)

    monkeypatch.setattr(geometry, "_by_poses", made)
    write_points("triangulate", tmp_path, places, [], keypoints, None, "", None, silent)
    photo = 100_000 * 3 * 4
    assert [size // photo for size in sizes] == [0, 1, 2]
    assert (tmp_path / POINTS).stat().st_size == 128 + 3 * photo
