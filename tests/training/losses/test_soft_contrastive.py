"""Soft contrastive learning against loops, and against the multi-similarity loss that it is with yes and no."""

import math

import numpy as np
import pytest
import torch

from samespot.training.losses.soft_contrastive import soft_contrastive_loss


def some_batch(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Descriptors in the positive quadrant, as of a network that ends with a rectifier."""
    dice = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.rand(n, 6, generator=dice, dtype=torch.float64) ** 2, dim=1)
    psi = torch.rand(n, n, generator=dice, dtype=torch.float64)
    psi[torch.rand(n, n, generator=dice) < 0.5] = 0.0
    psi = psi.triu(1) + psi.triu(1).T
    return x, psi


def by_loops(x: np.ndarray, psi: np.ndarray) -> float:
    anchors = []
    for a in range(len(x)):
        others = [j for j in range(len(x)) if j != a and not np.isnan(psi[a, j])]
        if not others:
            continue
        near = {j: max(float(x[a] @ x[j]), 0.0) for j in others}
        positives, negatives = [j for j in others if psi[a, j] > 0], [j for j in others if psi[a, j] < 1]
        hardest_negative = max([(1 - psi[a, j]) * near[j] for j in negatives], default=0.0)
        best = max([psi[a, j] * near[j] for j in positives], default=0.0)
        least = best + min([psi[a, j] * (near[j] - best) for j in positives] + [0.0])
        pull = sum(
            math.exp(-2 * (psi[a, j] * near[j] - 1))
            for j in positives
            if psi[a, j] * near[j] < hardest_negative + 0.1
        )
        push = sum(
            math.exp(50 * ((1 - psi[a, j]) * near[j] - 1))
            for j in negatives
            if (1 - psi[a, j]) * near[j] > least - 0.1
        )
        anchors.append(math.log1p(pull) / 2 + math.log1p(push) / 50)
    return float(np.mean(anchors))


@pytest.mark.parametrize("seed", range(4))
def test_against_loops(seed):
    x, psi = some_batch(10, seed)
    psi[2, 5] = psi[5, 2] = math.nan
    assert soft_contrastive_loss(x, psi).loss.item() == pytest.approx(
        by_loops(x.numpy(), psi.numpy()), rel=1e-12
    )


def test_by_hand():
    # two photos at right angles, ψ 0.25. Positive: log(1 + e²)/2; negative: log(1 + e⁻⁵⁰)/50, which is nothing
    x = torch.eye(2, dtype=torch.float64)
    psi = torch.full((2, 2), 0.25, dtype=torch.float64)
    assert soft_contrastive_loss(x, psi).loss.item() == pytest.approx(
        math.log(1 + math.exp(2)) / 2, rel=1e-12
    )


def test_with_yes_and_no_it_is_the_multi_similarity_loss():
    pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    x, _ = some_batch(12, seed=3)
    classes = torch.arange(12) // 3  # each photo has two positives, so both rules of mining are one
    psi = (classes[:, None] == classes[None, :]).double()
    expected = MultiSimilarityLoss(alpha=2, beta=50, base=1.0)(
        x, classes, MultiSimilarityMiner(0.1)(x, classes)
    )
    assert soft_contrastive_loss(x, psi).loss.item() == pytest.approx(expected.item(), rel=1e-9)


def test_gradient_agrees_with_finite_differences():
    x, psi = some_batch(6, seed=5)
    assert torch.autograd.gradcheck(lambda a: soft_contrastive_loss(a, psi).loss, x.requires_grad_())


def test_a_descent_brings_a_positive_nearer_and_a_negative_away():
    angles = torch.tensor([0.0, 40.0, 50.0], dtype=torch.float64).deg2rad().requires_grad_()
    psi = torch.zeros(3, 3, dtype=torch.float64)
    psi[0, 1] = psi[1, 0] = 0.9
    soft_contrastive_loss(torch.stack([angles.cos(), angles.sin()], dim=1), psi).loss.backward()
    assert angles.grad[1] > 0  # a step against the gradient turns the second towards the first
    assert angles.grad[2] < 0  # and the third away from the second


def test_the_order_of_images_and_unknown_photos_do_not_matter():
    x, psi = some_batch(9, seed=6)
    expected = soft_contrastive_loss(x, psi)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    again = soft_contrastive_loss(x[order], psi[order][:, order])
    assert again.loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
    more = torch.full((10, 10), math.nan, dtype=torch.float64)
    more[:9, :9] = psi
    again = soft_contrastive_loss(torch.cat([x, x[:1]]), more)
    assert again.loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
    assert again.zero_share.item() == pytest.approx(expected.zero_share.item())
