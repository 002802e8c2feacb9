"""Graded multi-similarity: the loss against loops, and what its grades do."""

import math

import numpy as np
import pytest
import torch

from samespot.training.losses import losses
from samespot.training.losses.graded_multi_similarity import graded_multi_similarity_loss


def by_loops(x: np.ndarray, psi: np.ndarray) -> float:
    anchors = []
    for a in range(len(x)):
        pull = push = 0.0
        for b in range(len(x)):
            if a == b or math.isnan(psi[a, b]):
                continue
            near = float(x[a] @ x[b]) - 0.5
            if psi[a, b] >= 0.3:
                pull += psi[a, b] * math.exp(-2 * near)
            else:
                push += (1 - psi[a, b] / 0.3) * math.exp(40 * min(near, 0.5))
        anchors.append(math.log1p(pull) / 2 + math.log1p(push) / 40)
    return float(np.mean(anchors))


@pytest.mark.parametrize("seed", range(3))
def test_against_loops(seed, some_batch):
    x, psi = some_batch(12, seed)
    found = graded_multi_similarity_loss(x, psi).loss.item()
    assert found == pytest.approx(by_loops(x.numpy(), psi.numpy()), rel=1e-9)


def test_its_slope_is_that_of_small_differences(some_batch):
    x, psi = some_batch(8, 1)
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: graded_multi_similarity_loss(v, psi).loss, (x,))


def test_the_less_a_pair_shares_the_harder_it_is_pushed():
    x = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1]], dtype=torch.float64), dim=1)
    pushed = []
    for shared in (0.0, 0.1, 0.2, 0.29):
        psi = torch.tensor([[1.0, shared], [shared, 1.0]], dtype=torch.float64)
        y = x.clone().requires_grad_()
        graded_multi_similarity_loss(y, psi).loss.backward()
        pushed.append(float(y.grad.norm()))
    assert pushed == sorted(pushed, reverse=True)


def test_photos_without_a_positive_are_counted(some_batch):
    x, _ = some_batch(6)
    psi = torch.full((6, 6), 0.6, dtype=torch.float64)
    psi[3, :] = psi[:, 3] = 0.0
    assert graded_multi_similarity_loss(x, psi).zero_share.item() == pytest.approx(1 / 6)


def test_it_is_listed_and_says_that_distances_are_no_overlaps():
    loss = losses()["graded-multi-similarity"]
    assert loss.kind == "batch"
    assert not loss.predicts_overlap
