"""Losses of tuples: against plain loops in float64, numbers worked out by hand, and their own derivatives."""

import math

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.training.losses.sare import sare_independent_losses, sare_joint_losses
from samespot.training.losses.triplet import triplet_losses


def triplet(q, p, negatives, m=0.1):
    return np.mean([max(np.sum((q - p) ** 2) + m - np.sum((q - n) ** 2), 0.0) for n in negatives])


def sare_independent(q, p, negatives):
    near = math.exp(-np.sum((q - p) ** 2))
    return np.mean([-math.log(near / (near + math.exp(-np.sum((q - n) ** 2)))) for n in negatives])


def sare_joint(q, p, negatives):
    near = math.exp(-np.sum((q - p) ** 2))
    return -math.log(near / (near + sum(math.exp(-np.sum((q - n) ** 2)) for n in negatives)))


BOTH = pytest.mark.parametrize(
    ("ours", "loop"),
    [
        (triplet_losses, triplet),
        (sare_independent_losses, sare_independent),
        (sare_joint_losses, sare_joint),
    ],
)


def some_tuples(n=5, negatives=4, d=7, seed=0):
    """Unit descriptors in float64, the negatives near enough for either side of the margin."""
    dice = torch.Generator().manual_seed(seed)
    q = torch.randn(n, d, generator=dice, dtype=torch.float64)
    p = q + 0.6 * torch.randn(n, d, generator=dice, dtype=torch.float64)
    others = q[:, None] + 0.8 * torch.randn(n, negatives, d, generator=dice, dtype=torch.float64)
    return [torch.nn.functional.normalize(x, dim=-1) for x in (q, p, others)]


@BOTH
def test_against_loops_with_some_negatives_left_out(ours, loop):
    q, p, others = some_tuples()
    counted = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 1]]).bool()
    expected = [loop(*(x.numpy() for x in (q[i], p[i], others[i][counted[i]]))) for i in range(5)]
    assert len(set(expected)) == 5
    np.testing.assert_allclose(ours(q, p, others, counted).numpy(), expected, rtol=1e-12)
    single = ours(*(x.float() for x in (q, p, others)), counted)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), expected, rtol=1e-4)


def test_by_hand():
    """On a circle the squared distance at an angle a is 2 − 2 cos a: 2 at a quarter, 4 at a half, 0 at none."""
    q, p = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    others = torch.tensor([[[0.0, -1.0], [-1.0, 0.0], [1.0, 0.0]]])  # squared 2, 4 and 0
    all_three = torch.ones(1, 3, dtype=torch.bool)
    assert triplet_losses(q, p, others, all_three).item() == pytest.approx((0.1 + 0 + 2.1) / 3)
    assert triplet_losses(q, p, others, all_three, triplet_margin=2.5).item() == pytest.approx(
        (2.5 + 0.5 + 4.5) / 3
    )
    log1p = math.log1p
    expected = (log1p(1) + log1p(math.exp(-2)) + log1p(math.exp(2))) / 3
    assert sare_independent_losses(q, p, others, all_three).item() == pytest.approx(expected)
    expected = log1p(1 + math.exp(-2) + math.exp(2))
    assert sare_joint_losses(q, p, others, all_three).item() == pytest.approx(expected)


@BOTH
def test_derivatives(ours, loop):
    q, p, others = (x.requires_grad_() for x in some_tuples(seed=3))
    counted = torch.ones(5, 4, dtype=torch.bool)
    counted[0, 1] = counted[3, 3] = False
    assert torch.autograd.gradcheck(lambda *xs: ours(*xs, counted), (q, p, others))


@BOTH
def test_a_negative_that_does_not_count_has_no_influence(ours, loop):
    q, _, others = some_tuples(n=2)
    p = -q  # as far as can be, so that every negative violates the margin
    counted = torch.tensor([[True, False, True, False], [False] * 4])
    others = others.clone().requires_grad_()
    losses = ours(q, p, others, counted)
    losses.sum().backward()
    assert losses[1].item() == 0.0  # and nothing is learned from a tuple without negatives
    assert torch.equal(others.grad.abs().sum(dim=2) > 0, counted)
    assert others.grad.isfinite().all()


def test_sare_of_one_negative_is_the_same_independent_or_joint():
    q, p, others = some_tuples(negatives=1)
    counted = torch.ones(5, 1, dtype=torch.bool)
    torch.testing.assert_close(
        sare_independent_losses(q, p, others, counted), sare_joint_losses(q, p, others, counted)
    )


@BOTH
def test_half_precision_is_not_used_inside(ours, loop):
    q, p, others = (x.float() for x in some_tuples())
    counted = torch.ones(5, 4, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        inside = ours(q, p, others, counted)
    assert torch.equal(inside, ours(q, p, others, counted))


def test_wrong_shapes_are_named():
    q, p, others = some_tuples()
    with pytest.raises(
        InputError, match=r"positives \(4, 7\).*expected \(n, d\), \(n, d\), \(n, N, d\), \(n, N\)"
    ):
        triplet_losses(q, p[:4], others, torch.ones(5, 4, dtype=torch.bool))
