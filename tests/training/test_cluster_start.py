"""k-means against brute force, and NetVLAD runs that start at what it found."""

import itertools
import json

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.model.netvlad import NetVLAD
from samespot.model.network import PlaceNet
from samespot.training.cluster_start import k_means, sample_features, start_clusters
from samespot.training.loop import train_network


def blobs(n: int = 300, d: int = 5, centres: int = 6, seed: int = 0) -> torch.Tensor:
    dice = np.random.default_rng(seed)
    means = dice.standard_normal((centres, d)) * 2
    points = means[dice.integers(centres, size=n)] + dice.standard_normal((n, d))
    return torch.from_numpy(points.astype(np.float32))


def inertia(points: torch.Tensor, centroids: torch.Tensor) -> float:
    apart = points.double().numpy()[:, None] - centroids.double().numpy()[None]
    return float((apart**2).sum(axis=2).min(axis=1).sum())


def test_few_points_are_clustered_as_well_as_can_be():
    """The best of all ways to cut 9 points in two, for a start on either side of it."""
    points = blobs(9, 2, 2, seed=4)
    x = points.double().numpy()

    def spread(part: np.ndarray) -> float:
        return float(((part - part.mean(axis=0)) ** 2).sum())

    cuts = [np.array(bits) for bits in itertools.product((False, True), repeat=9) if 0 < sum(bits) < 9]
    best = min(spread(x[cut]) + spread(x[~cut]) for cut in cuts)
    found = min((k_means(points, 2, seed) for seed in range(5)), key=lambda one: one.inertia)
    assert found.inertia == pytest.approx(best, rel=1e-5)
    assert found.inertia == pytest.approx(inertia(points, found.centroids), rel=1e-5)


def test_a_seed_gives_the_same_centres_and_another_one_others():
    points = blobs(seed=5)
    assert torch.equal(k_means(points, 10, 3).centroids, k_means(points, 10, 3).centroids)
    assert not torch.equal(k_means(points, 10, 3).centroids, k_means(points, 10, 4).centroids)


@pytest.mark.parametrize("points", [torch.ones(50, 3), torch.eye(3)])
def test_fewer_different_features_than_clusters_are_refused(points):
    with pytest.raises(InputError, match=r"different local features.*at least its 4 clusters"):
        k_means(points, 4, 0)


# ---- features of photos ----


def numbered_maps(numbers: np.ndarray) -> torch.Tensor:
    """Image i holds at position p the feature (i + 1, p): its direction tells both. One image has a zero."""
    maps = torch.zeros(len(numbers), 2, 3, 4)
    maps[:, 0] = torch.from_numpy(numbers + 1.0).float()[:, None, None]
    maps[:, 1] = torch.arange(12.0).reshape(3, 4)
    return maps


def test_so_many_different_positions_of_each_photo_are_taken():
    found = sample_features(numbered_maps, np.arange(40), 5, seed=0, at_once=7)
    assert found.shape == (200, 2)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(200))
    image = np.repeat(np.arange(40), 5)
    position = (found[:, 1] / found[:, 0]).numpy() * (image + 1)
    np.testing.assert_allclose(position, position.round(), atol=1e-3)
    whole = position.round().reshape(40, 5)
    assert all(len(set(row)) == 5 for row in whole)
    assert len(np.unique(whole)) == 12  # not the same ones in each photo
    again = sample_features(numbered_maps, np.arange(40), 5, seed=0, at_once=40)
    assert torch.equal(found, again)


def test_features_of_zeros_are_left_out():
    found = sample_features(lambda numbers: torch.zeros(len(numbers), 2, 2, 2), np.arange(3), 4, seed=0)
    assert len(found) == 0


def test_the_pool_starts_at_centres_of_the_features():
    pool = NetVLAD(3, 2)
    asked = []

    def maps_of(numbers):
        asked.extend(numbers.tolist())
        return numbered_maps(numbers)

    start = start_clusters(pool, maps_of, 100, seed=1, photos=20, per_photo=6)
    assert len(set(asked)) == 20
    assert max(asked) > 50  # from all over the set
    assert (start.photos, start.features, start.clusters) == (20, 120, 3)
    features = sample_features(numbered_maps, np.array(asked), 6, seed=1)
    assert start.distance == pytest.approx(
        (inertia(features, pool.centroids.detach()) / 120) ** 0.5, rel=1e-4
    )
    assert pool.started


# ---- runs ----


def parameters(model) -> dict[str, torch.Tensor]:
    net = PlaceNet.load(model)
    return {name: tensor for name, tensor in net.state_dict().items() if name.startswith("pool.")}


def test_a_run_of_one_seed_starts_at_the_same_clusters_every_time(photo_set, tiny, tmp_path):
    options = tiny.with_changes(pool="netvlad4", steps=1, learning_rate=1e-12)
    said: list[str] = []
    for name, changes in (("a", {}), ("b", {}), ("c", {"seed": 1})):
        train_network(options.with_changes(**changes), [photo_set], tmp_path / name, say=said.append)
    a, b, c = (parameters(tmp_path / name / "last") for name in "abc")
    for name in a:
        assert torch.equal(a[name], b[name])
        assert not torch.allclose(a[name], c[name], rtol=1e-2, atol=1e-3)
    assert sum("NetVLAD starts at the 4 centres" in line for line in said) == 3


def test_clusters_that_came_with_a_model_stay(photo_set, tiny, tmp_path):
    options = tiny.with_changes(pool="netvlad4", steps=1, learning_rate=1e-12)
    train_network(options, [photo_set], tmp_path / "first")
    went_on = tiny.with_changes(model=str(tmp_path / "first" / "last"), steps=1, learning_rate=1e-12, seed=5)
    said: list[str] = []
    train_network(went_on, [photo_set], tmp_path / "second", say=said.append)
    first, second = (parameters(tmp_path / run / "last") for run in ("first", "second"))
    for name in first:
        torch.testing.assert_close(second[name], first[name], rtol=0, atol=1e-5)
    assert not any("NetVLAD starts" in line for line in said)


def test_a_resumed_run_is_the_run_that_was_not_interrupted(photo_set, tiny, tmp_path):
    options = tiny.with_changes(pool="netvlad4", steps=6)
    train_network(options, [photo_set], tmp_path / "whole")
    train_network(options.with_changes(steps=3), [photo_set], tmp_path / "cut")
    train_network(options, [photo_set], tmp_path / "cut", resume=True)
    whole, cut = (PlaceNet.load(tmp_path / run / "last").state_dict() for run in ("whole", "cut"))
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


def test_netvlad_learns_graded_similarities(photo_set, tiny, tmp_path):
    options = tiny.with_changes(
        pool="netvlad4", steps=40, learning_rate=0.01, cache_frozen="memory", checkpoint_every=40
    )
    train_network(options, [photo_set], tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert np.mean(losses[-8:]) < 0.7 * np.mean(losses[:8])
