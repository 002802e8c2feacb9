"""Patch descriptors against NetVLAD itself on cut-out squares, and planted views re-ranked."""

import numpy as np
import pytest
import torch
from PIL import Image

from samespot import InputError, Places
from samespot.images.reading import read_image
from samespot.matching import map_features
from samespot.matching.mutual import mutual_nearest
from samespot.matching.options import PatchOptions
from samespot.matching.patch_netvlad import (
    PatchNetVLAD,
    fused,
    learn_projection,
    patch_descriptors,
    projected_patches,
    square_sums,
)
from samespot.matching.reranker import FeatureStore, rerank
from samespot.matching.spatial_scoring import homography_inliers, rapid_score
from samespot.model.netvlad import NetVLAD
from samespot.model.network import PlaceNet
from samespot.retrieval.search import Found

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def pool():
    """A NetVLAD of 5 clusters whose shares are neither all alike nor all or nothing."""
    torch.manual_seed(0)
    pool = NetVLAD(5, 7)
    pool.conv.weight.data *= 10
    return pool.eval()


def test_sums_over_squares_are_those_of_a_loop():
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 6, 9)))
    for size, sums in zip((1, 2, 5, 6), square_sums(values, (1, 2, 5, 6)), strict=True):
        assert sums.shape == (2, 3, 7 - size, 10 - size)
        for y in range(7 - size):
            for x in range(10 - size):
                direct = values[..., y : y + size, x : x + size].sum(dim=(-2, -1))
                torch.testing.assert_close(sums[..., y, x], direct)


def test_a_small_sum_beside_large_ones_keeps_its_digits():
    """In float32, differences of an integral map would leave nothing of it."""
    values = torch.full((1, 1, 30, 40), 1.0)
    values[..., 20:, 30:] = 1e-7
    (sums,) = square_sums(values, (5,))
    assert float(sums[0, 0, -1, -1]) == pytest.approx(25e-7, rel=1e-6)


def test_the_one_square_of_a_whole_map_has_netvlads_descriptor(pool):
    features = torch.randn(3, 7, 6, 6)
    (patches,) = patch_descriptors(features, pool, (6,))
    expected = torch.nn.functional.normalize(pool(features), dim=1)
    torch.testing.assert_close(patches[:, 0], expected.detach(), atol=1e-5, rtol=1e-4)


def test_every_square_has_the_descriptor_of_the_cut_out_map(pool):
    features = torch.randn(2, 7, 5, 8)
    for size, patches in zip((2, 4), patch_descriptors(features, pool, (2, 4)), strict=True):
        assert patches.shape == (2, (6 - size) * (9 - size), 35)
        for number in range(patches.shape[1]):
            y, x = divmod(number, 9 - size)
            cut = pool(features[..., y : y + size, x : x + size])
            expected = torch.nn.functional.normalize(cut, dim=1).detach()
            torch.testing.assert_close(patches[:, number], expected, atol=1e-5, rtol=1e-4)


def test_patches_are_projected_as_whitening_projects(pool):
    """Cluster by cluster, without the whole descriptor ever being there, and the same in the end."""
    photos = torch.nn.functional.normalize(pool(torch.randn(60, 7, 5, 8)), dim=1).detach().numpy()
    whitening = learn_projection(photos, "some photos")
    axes = whitening.axes[:10] / np.sqrt(whitening.variances[:10, None])
    features = torch.randn(2, 7, 5, 8)
    ours = projected_patches(
        features, pool, (2, 4), torch.from_numpy(axes).float(), torch.from_numpy(whitening.mean).float()
    )
    for part, whole in zip(ours, patch_descriptors(features, pool, (2, 4)), strict=True):
        expected = whitening(whole.flatten(0, 1).numpy(), 10).reshape(*whole.shape[:2], 10)
        np.testing.assert_allclose(part.numpy(), expected, atol=1e-4)


def test_a_projection_is_learned_of_at_most_so_many_photos(monkeypatch):
    monkeypatch.setattr("samespot.matching.patch_netvlad.FITTED_ON_AT_MOST", 20)
    vectors = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    assert learn_projection(vectors, "x").images == 20
    assert learn_projection(vectors[:15], "x").images == 15


def test_sizes_are_fused_by_weight_after_being_made_comparable():
    """Both sizes spread by 1 after standardising; the third tells nothing apart and adds nothing."""
    by_size = np.array([[0.0, 300.0, 5.0], [2.0, 100.0, 5.0]])
    np.testing.assert_allclose(fused(by_size, (0.7, 0.3, 9.0)), [-0.7 + 0.3, 0.7 - 0.3])


# ---- whole photos ----


@pytest.fixture(scope="module")
def net():
    """Features of an image at a stride of 32, too few for squares: a network that keeps more of them."""
    torch.manual_seed(0)
    net = PlaceNet("test_resnet.r160_in1k", "netvlad4", pretrained=False, image_size=(256, 320)).eval()
    net.pool.conv.weight.data *= 10
    return net


def world(folder, name, views):
    """Photos that are windows of wide noise pictures: (picture, pixels from the left)."""
    (folder / name).mkdir()
    for i, (picture, left) in enumerate(views):
        rng = np.random.default_rng(picture)
        coarse = Image.fromarray(rng.integers(0, 256, (32, 60, 3), dtype=np.uint8))
        wide = coarse.resize((480, 256), Image.Resampling.BICUBIC)
        wide.crop((left, 0, left + 320, 256)).save(folder / name / f"{i}.png")
    names = [f"{name}/{i}.png" for i in range(len(views))]
    columns = {"image": names, "easting": range(len(views)), "northing": 0.0, "heading": 0.0}
    return Places.build(folder, columns)


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    """Queries show pictures 0, 1, 2 from 64 pixels further right (two cells) than the map's, among others."""
    folder = tmp_path_factory.mktemp("shifted")
    places = world(folder, "map", [(picture, 0) for picture in range(8)])
    return world(folder, "queries", [(picture, 64) for picture in range(3)]), places


@pytest.mark.parametrize("scoring", ["ransac", "rapid"])
def test_the_planted_view_comes_first(net, shifted, scoring):
    queries, places = shifted
    projection = learn_projection(net.describe_images(places.images).numpy(), "the map")
    options = PatchOptions((1, 2, 3), (0.4, 0.3, 0.3), 512, scoring)
    by = PatchNetVLAD(net, projection, options)
    assert by.dims == 7  # eight photos span no more
    lists = np.array([[5, 6, 7, 3, 4, 0, 1, 2]] * 3)
    new = rerank(Found(lists, np.zeros(lists.shape)), queries, places, by)
    assert new.rows[:, 0].tolist() == [0, 1, 2]


def test_kept_patches_are_those_of_the_photo(net, shifted, tmp_path):
    _, places = shifted
    projection = learn_projection(net.describe_images(places.images).numpy(), "the map")
    by = PatchNetVLAD(net, projection, PatchOptions((2, 3), (0.5, 0.5), 4))
    kept = FeatureStore(tmp_path).features(by, places, "map")
    assert by.cells == (8, 10)
    assert kept.shape == (8, (7 * 9 + 6 * 8) * 4)
    assert by.facts["dims of a patch"] == 4
    image = net.preprocessing(read_image(places.images[5])[None])
    with torch.no_grad():
        features = torch.nn.Sequential(*net.stages.values())(image)
        twos, _ = patch_descriptors(features, net.pool, (2, 3))
    np.testing.assert_allclose(
        kept[5].reshape(-1, 4)[: 7 * 9].astype(float), projection(twos[0].numpy(), 4), atol=2e-3
    )


@pytest.mark.parametrize("scoring", ["ransac", "rapid"])
@pytest.mark.parametrize("kept", [True, False])
def test_scores_are_those_of_each_pair_and_size(net, scoring, kept, monkeypatch):
    """To the last digit, whether the device keeps the map's patches or not; 23 candidates are more than go at once."""
    monkeypatch.setattr(map_features, "fits", lambda size, device: kept)
    rng = np.random.default_rng(0)
    projection = learn_projection(rng.normal(size=(30, 4 * 96)).astype(np.float32), "noise")
    by = PatchNetVLAD(net, projection, PatchOptions((1, 3), (0.6, 0.4), 8, scoring))
    query, other = rng.normal(size=(2, by.width))
    shares = np.linspace(0, 1, 30)[:, None]
    places = ((1 - shares) * other + shares * query + rng.normal(size=(30, by.width)) / 2).astype(np.float16)
    query, rows = query.astype(np.float16), rng.permutation(30)[:23]
    expected = np.zeros((23, 2))
    for at, (grid, end) in enumerate(zip(by._grids, np.cumsum(by.counts), strict=True)):
        squares = [one.reshape(-1, 8)[end - by.counts[at] : end] for one in (query, *places[rows])]
        mine, *theirs = (torch.from_numpy(one) for one in squares)
        for candidate, them in enumerate(theirs):
            to = mutual_nearest(mine, them[None])[0].numpy()
            a, b = grid[to >= 0], grid[to[to >= 0]]
            score = (
                homography_inliers(a, b, 1.5).sum() if scoring == "ransac" else rapid_score(a, b, grid[-1])
            )
            expected[candidate, at] = score / len(grid)
    for _ in range(2):  # the second time nothing is copied any more
        assert by.scores(query, places, rows).tolist() == fused(expected, (0.6, 0.4)).tolist()
    assert len(by._map._kept) == kept
    assert by.scores(query, places, rows[:0]).shape == (0,)


def test_what_does_not_fit_is_said(net, shifted):
    _, places = shifted
    vectors = net.describe_images(places.images).numpy()
    projection = learn_projection(vectors, "the map")
    with pytest.raises(InputError, match="patches of 9 × 9 do not fit the feature map of 8 × 10"):
        PatchNetVLAD(net, projection, PatchOptions((2, 9), (1, 1)))
    with pytest.raises(InputError, match="projection of 5 numbers for NetVLAD's 4 × 96"):
        PatchNetVLAD(net, learn_projection(vectors[:, :5], "the map"))
    gem = PlaceNet("test_resnet.r160_in1k", "gem", pretrained=False, image_size=(64, 64))
    with pytest.raises(InputError, match="pools by gem; train one"):
        PatchNetVLAD(gem, projection)
    for wrong in (
        {"sizes": ()},
        {"weights": (1.0,)},
        {"dims": 0},
        {"weights": (0.0, 0.0, 0.0)},
        {"scoring": "x"},
    ):
        with pytest.raises(InputError):
            PatchOptions(**wrong)
