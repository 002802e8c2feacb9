"""The demo's generated places: two drives along the same streets."""

import numpy as np
from scipy.spatial import cKDTree

from samespot.demo import COMPASS_NOISE, GPS_NOISE, drive, run_demo


def test_two_drives_follow_the_same_streets_with_noise():
    first, second = drive(7, 0), drive(7, 1)
    assert drive(7, 0).digest() == first.digest()  # from the seed alone
    assert first.digest() != second.digest()
    assert drive(8, 0).digest() != first.digest()
    gap, nearest = cKDTree(first.positions[:, :2]).query(second.positions[:, :2])
    assert np.median(gap) < 2 * GPS_NOISE
    turn = np.abs((first.positions[nearest, 2] - second.positions[:, 2] + 180) % 360 - 180)
    along = np.minimum(np.minimum(turn, 180 - turn), np.abs(turn - 90))  # the same street, or a crossing one
    assert np.median(along) < 2 * COMPASS_NOISE


def test_the_demo_writes_what_it_says(tmp_path):
    result = run_demo(tmp_path)
    assert all(f.exists() for f in result.files)
    assert result.summary["positive"] > 10_000
    assert (tmp_path / "figures" / "town.png").is_file()
