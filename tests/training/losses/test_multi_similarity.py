"""Multi-similarity: pairs chosen as the package's own miner does, and the loss against loops."""

import math

import numpy as np
import pytest
import torch

from samespot.training.losses.multi_similarity import EPSILON, informative_pairs, multi_similarity_loss
from samespot.training.whole_batch import cosines

pytest.importorskip("pytorch_metric_learning")


def by_loops(x: np.ndarray, psi: np.ndarray) -> float:
    anchors = []
    for a in range(len(x)):
        near = x @ x[a]
        positives = [j for j in range(len(x)) if j != a and psi[a, j] >= 0.5]
        negatives = [j for j in range(len(x)) if j != a and psi[a, j] == 0]
        pull = push = 0.0
        if positives and negatives:
            hard, least = max(near[j] for j in negatives), min(near[j] for j in positives)
            pull = sum(math.exp(2 * (0.5 - near[j])) for j in positives if near[j] - 0.1 < hard)
            push = sum(math.exp(50 * (near[j] - 0.5)) for j in negatives if near[j] + 0.1 > least)
        anchors.append(math.log1p(pull) / 2 + math.log1p(push) / 50)
    return float(np.mean(anchors))


@pytest.mark.parametrize("seed", range(3))
def test_against_loops(seed, some_batch):
    x, psi = some_batch(12, seed)
    assert multi_similarity_loss(x, psi).loss.item() == pytest.approx(
        by_loops(x.numpy(), psi.numpy()), rel=1e-9
    )


def test_the_package_s_miner_chooses_the_same_pairs(some_batch):
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    x, _ = some_batch(20, seed=4)
    classes = torch.tensor([0, 1, 2, 3] * 4 + [4, 5, 6, 6])  # two photos are alone in their class
    same = classes[:, None] == classes[None, :]
    ours = informative_pairs(cosines(x), same & ~torch.eye(20, dtype=torch.bool), ~same)
    theirs = MultiSimilarityMiner(epsilon=EPSILON)(x, classes)
    for mask, (anchors, others) in zip(ours, (theirs[:2], theirs[2:]), strict=True):
        chosen = torch.zeros(20, 20, dtype=torch.bool)
        chosen[anchors, others] = True
        assert torch.equal(mask, chosen)
        assert 0 < mask.sum() < mask.numel()


def test_soft_negatives_are_neither_pulled_nor_pushed(some_batch):
    x, psi = some_batch(10, seed=5)
    soft = (psi > 0) & (psi < 0.5)
    assert soft.any()
    without = torch.where(soft, math.nan, psi)
    assert multi_similarity_loss(x, psi).loss.item() == multi_similarity_loss(x, without).loss.item()


def test_gradient_agrees_with_finite_differences(some_batch):
    x, psi = some_batch(8, seed=6)
    assert torch.autograd.gradcheck(lambda a: multi_similarity_loss(a, psi).loss, x.requires_grad_())


def test_the_order_of_images_does_not_matter(some_batch):
    x, psi = some_batch(9, seed=7)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    expected = multi_similarity_loss(x, psi).loss.item()
    assert multi_similarity_loss(x[order], psi[order][:, order]).loss.item() == pytest.approx(
        expected, rel=1e-9
    )


def test_a_batch_without_positives_teaches_nothing(some_batch):
    x, _ = some_batch(6)
    leaves = x.requires_grad_()
    result = multi_similarity_loss(leaves, torch.zeros(6, 6, dtype=torch.float64))
    result.loss.backward()
    assert result.loss.item() == 0.0
    assert torch.equal(leaves.grad, torch.zeros_like(leaves))
    assert result.zero_share.item() == 1.0
