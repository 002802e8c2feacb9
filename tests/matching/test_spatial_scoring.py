"""Planted motions of a grid of patches: what fits them is found, what does not is not."""

import numba
import numpy as np
import pytest

from samespot.matching.spatial_scoring import homography_inliers, inlier_counts, rapid_score

GRID = np.stack(np.meshgrid(np.arange(20.0), np.arange(15.0)), axis=-1).reshape(-1, 2)
TILTED = np.array([[1.1, 0.2, 3.0], [-0.1, 0.9, 2.0], [0.004, 0.008, 1.0]])


def through(homography, points):
    mapped = np.column_stack([points, np.ones(len(points))]) @ homography.T
    return mapped[:, :2] / mapped[:, 2:]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3])
def test_a_homography_is_found_with_exactly_its_matches(share):
    rng = np.random.default_rng(3)
    true = through(TILTED, GRID)
    planted = rng.random(len(GRID)) < share
    off = rng.uniform(4, 12, GRID.shape) * rng.choice([-1, 1], GRID.shape)  # never within 1.5
    matched = np.where(planted[:, None], true, true + off)
    np.testing.assert_array_equal(homography_inliers(GRID, matched, 0.5), planted)


def test_a_match_counts_up_to_the_limit():
    """The shift by (2, 1) goes through all but three matches, which are 1, 1.4 and 1.6 cells off."""
    matched = GRID + np.array([2.0, 1.0])
    matched[[0, 150, 299]] += [[1.0, 0.0], [0.0, 1.4], [-1.6, 0.0]]
    out = np.flatnonzero(~homography_inliers(GRID, matched, 0.5))
    assert out.tolist() == [0, 150, 299]
    assert homography_inliers(GRID, matched, 1.5).sum() >= len(GRID) - 1


def test_random_matches_agree_on_little():
    rng = np.random.default_rng(4)
    for _ in range(5):
        matched = GRID[rng.permutation(len(GRID))]
        assert homography_inliers(GRID, matched, 1.5).sum() < 0.15 * len(GRID)


def test_a_mirrored_view_is_no_view_of_the_same_plane():
    mirrored = GRID * (-1.0, 1.0)
    assert not homography_inliers(GRID, mirrored, 0.5).any()


def test_too_few_matches_and_matches_on_a_line_have_no_homography():
    assert homography_inliers(GRID[:3], GRID[:3], 1.0).tolist() == [False] * 3
    line = np.column_stack([np.arange(10.0), 2 * np.arange(10.0)])
    assert not homography_inliers(line, line, 1.0).any()
    assert homography_inliers(GRID[:0], GRID[:0], 1.0).shape == (0,)


def test_the_same_seed_finds_the_same():
    rng = np.random.default_rng(5)
    matched = GRID[rng.permutation(len(GRID))]
    once, again = (homography_inliers(GRID, matched, 1.5, seed=7) for _ in range(2))
    np.testing.assert_array_equal(once, again)


@pytest.fixture
def many_matches():
    """(40, 300) squares of others: shifted by a cell and partly random, wholly random, too few, none."""
    rng = np.random.default_rng(8)
    matches = np.where(rng.random((40, len(GRID))) < 0.4, rng.integers(0, len(GRID), (40, len(GRID))), -1)
    matches[:20] = np.where(
        rng.random((20, len(GRID))) < 0.3, (np.arange(len(GRID)) + 1) % len(GRID), matches[:20]
    )
    for row, left in enumerate((0, 3, 4, 5)):
        matches[20 + row, left:] = -1
    return matches


@pytest.mark.parametrize("threads", [1, 2, numba.config.NUMBA_NUM_THREADS])
def test_counts_of_many_photos_are_those_of_each_on_any_number_of_threads(many_matches, threads):
    each = [homography_inliers(GRID[one >= 0], GRID[one[one >= 0]], 1.5).sum() for one in many_matches]
    assert min(each) == 0
    assert max(each) > 60
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        for _ in range(3):  # which thread gets which photo differs from time to time
            assert inlier_counts(GRID, many_matches, 1.5).tolist() == each
    finally:
        numba.set_num_threads(before)


def test_counts_follow_tries_and_seed(many_matches):
    for tries, seed in ((50, 0), (50, 1), (1, 3)):
        settings = {"tries": tries, "seed": seed}
        each = [
            homography_inliers(GRID[one >= 0], GRID[one[one >= 0]], 0.5, **settings).sum()
            for one in many_matches
        ]
        assert inlier_counts(GRID, many_matches, 0.5, **settings).tolist() == each
    assert inlier_counts(GRID, many_matches[:0], 0.5).tolist() == []


def test_rapid_score_by_hand():
    """Shifts (1, 0), (1, 0), (4, 3): mean (2, 1), off by (1, 1), (1, 1), (2, 2); the grid reaches to 10 and 5."""
    a = np.array([[0.0, 0.0], [3.0, 1.0], [5.0, 2.0]])
    b = a + np.array([[1.0, 0.0], [1.0, 0.0], [4.0, 3.0]])
    assert rapid_score(a, b, (10, 5)) == (81 + 16) + (81 + 16) + (64 + 9)
    assert rapid_score(a[:0], b[:0], (10, 5)) == 0.0


def test_rapid_score_is_full_for_any_common_shift_and_low_for_none():
    full = rapid_score(GRID, GRID + np.array([3.0, -2.0]), (19, 14))
    assert full == pytest.approx(len(GRID) * (19**2 + 14**2))
    rng = np.random.default_rng(6)
    assert rapid_score(GRID, GRID[rng.permutation(len(GRID))], (19, 14)) < 0.7 * full
    far = GRID.copy()
    far[0] += (1000.0, 0.0)  # off by far more than the grid reaches: along x it adds nothing, and never more
    expected = 299 * ((19 - 1000 / 300) ** 2 + 14**2) + 14**2
    assert rapid_score(GRID, far, (19, 14)) == pytest.approx(expected)
