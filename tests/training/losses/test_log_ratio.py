"""The log-ratio loss against its triple loop, and numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch

from samespot.training.losses.log_ratio import FLOOR, log_ratio_loss


def some_batch(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(n, 4, generator=dice, dtype=torch.float64), dim=1)
    psi = torch.rand(n, n, generator=dice, dtype=torch.float64)
    psi[torch.rand(n, n, generator=dice) < 0.3] = 0.0
    psi[0, 1] = 1.0  # nearer than the floor
    psi = psi.triu(1) + psi.triu(1).T
    psi[1, 4] = psi[4, 1] = math.nan
    return x, psi


def by_loops(x: np.ndarray, psi: np.ndarray) -> float:
    anchors = []
    for a in range(len(x)):
        others = [i for i in range(len(x)) if i != a and not np.isnan(psi[a, i])]
        d = {i: math.sqrt(sum((x[a] - x[i]) ** 2) + FLOOR**2) for i in others}
        places = {i: max(1 - psi[a, i], FLOOR) for i in others}
        terms = [
            (math.log(d[i] / d[j]) - math.log(places[i] / places[j])) ** 2
            for i in others
            for j in others
            if i < j
        ]
        if terms:
            anchors.append(np.mean(terms))
    return float(np.mean(anchors))


def test_against_the_triple_loop():
    x, psi = some_batch(11)
    assert log_ratio_loss(x, psi).loss.item() == pytest.approx(by_loops(x.numpy(), psi.numpy()), rel=1e-12)


def test_by_hand():
    # three points on a line at 0, 3 and 6, at 1 - ψ of 0.3 and 0.6: in proportion from the first, and not from the rest
    x = torch.tensor([[0.0], [3.0], [6.0]], dtype=torch.float64)
    psi = torch.tensor([[0, 0.7, 0.4], [0.7, 0, 0.4], [0.4, 0.4, 0]], dtype=torch.float64)
    # from the second: d 3 and 3, places 0.3 and 0.6 -> log(2)²; from the third: d 6 and 3, places alike -> log(2)²
    assert log_ratio_loss(x, psi).loss.item() == pytest.approx(2 * math.log(2) ** 2 / 3, rel=1e-4)


def test_descriptors_in_proportion_to_their_places_have_no_loss():
    x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    apart = torch.cdist(x, x) / 5
    assert log_ratio_loss(x, 1 - apart).loss.item() == pytest.approx(0.0, abs=1e-9)
    assert log_ratio_loss(3 * x, 1 - apart).loss.item() == pytest.approx(0.0, abs=1e-9)  # only ratios count


def test_gradient_agrees_with_finite_differences():
    x, psi = some_batch(7, seed=2)
    assert torch.autograd.gradcheck(lambda a: log_ratio_loss(a, psi).loss, x.requires_grad_())


def test_two_photos_alike_have_a_finite_gradient():
    x, psi = some_batch(6, seed=4)
    x[3] = x[2]
    leaves = x.requires_grad_()
    log_ratio_loss(leaves, psi).loss.backward()
    assert leaves.grad.isfinite().all()


def test_the_order_of_images_does_not_matter():
    x, psi = some_batch(9, seed=5)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    expected = log_ratio_loss(x, psi).loss.item()
    assert log_ratio_loss(x[order], psi[order][:, order]).loss.item() == pytest.approx(expected, rel=1e-12)


def test_unknown_pairs_and_lonely_anchors_do_not_count():
    x, psi = some_batch(6, seed=6)
    expected = log_ratio_loss(x, psi).loss.item()
    more = torch.full((7, 7), math.nan, dtype=torch.float64)
    more[:6, :6] = psi
    again = log_ratio_loss(torch.cat([x, x[:1]]), more)
    assert again.loss.item() == pytest.approx(expected, rel=1e-12)
    # two images alone have nothing to compare their distance with
    assert log_ratio_loss(x[:2], psi[:2, :2]).loss.item() == 0.0
