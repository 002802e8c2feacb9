"""The quantised average precision against loops, scikit-learn, and numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from samespot.errors import InputError
from samespot.training.losses.ap import average_precision_loss, quantised_precision


def unit(*degrees: float) -> torch.Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def some_batch(n: int, seed: int = 0, gaps: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(n, 4, generator=dice, dtype=torch.float64), dim=1)
    psi = torch.rand(n, n, generator=dice, dtype=torch.float64).triu(1) * 0.9
    psi[torch.rand(n, n, generator=dice) < 0.3] = 0.0
    psi = psi.triu(1) + psi.triu(1).T
    if gaps:
        psi[1, 4] = psi[4, 1] = psi[0, 3] = psi[3, 0] = math.nan
    return x, psi


def by_loops(x: np.ndarray, psi: np.ndarray, bins: int) -> float:
    """1 - mean AP, bin by bin, straight from the definition: triangular bins, the end ones open."""
    values = []
    for query in range(len(x)):
        others = [j for j in range(len(x)) if j != query and not np.isnan(psi[query, j])]
        relevant = [j for j in others if psi[query, j] >= 0.5]
        if not relevant:
            continue
        total = hits = value = 0.0
        for k in range(bins):
            centre, width = 1 - k / (bins - 1), 1 / (bins - 1)

            def share(j: int, query=query, centre=centre, width=width) -> float:
                score = min(max(float(x[query] @ x[j]), 0.0), 1.0)
                return max(0.0, 1 - abs(score - centre) / width)

            here = sum(share(j) for j in relevant)
            total, hits = total + sum(share(j) for j in others), hits + here
            value += hits / total * here / len(relevant) if total > 0 else 0.0
        values.append(value)
    return 1 - float(np.mean(values))


def test_by_hand_with_three_bins():
    # bin centres 1, 0.5 and 0, and one score at each: relevant, not, relevant
    scores = torch.tensor([[1.0, 0.5, 0.0]], dtype=torch.float64)
    relevant = torch.tensor([[True, False, True]])
    # precision 1 at the first bin, 1/2 at the second, 2/3 at the third; recall 1/2, 0, 1/2
    value = quantised_precision(scores, relevant, torch.ones_like(relevant), bins=3)
    assert value.item() == pytest.approx(1 / 2 + 2 / 3 / 2, abs=1e-15)
    # a score of 0.75 is half in the first bin and half in the second, with the negative at 0.5
    scores = torch.tensor([[0.75, 0.5]], dtype=torch.float64)
    value = quantised_precision(
        scores, torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool), bins=3
    )
    assert value.item() == pytest.approx(1 * 0.5 + 1 / 2 * 0.5, abs=1e-15)


@pytest.mark.parametrize("bins", [2, 7, 25])
@pytest.mark.parametrize("gaps", [False, True])
def test_against_loops(bins, gaps):
    x, psi = some_batch(12, gaps=gaps)
    result = average_precision_loss(x, psi, bins)
    assert result.loss.item() == pytest.approx(by_loops(x.numpy(), psi.numpy(), bins), abs=1e-12)


def test_many_bins_give_the_average_precision_of_a_ranking():
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.4, 0.3, 0.1]], dtype=torch.float64)
    relevant = torch.tensor([[True, False, True, False, False, True]])
    value = quantised_precision(scores, relevant, torch.ones_like(relevant), bins=1001)
    assert value.item() == pytest.approx(average_precision_score(relevant[0], scores[0]), abs=1e-12)


def test_gradient_agrees_with_finite_differences():
    x, psi = some_batch(7, seed=3)
    assert torch.autograd.gradcheck(lambda a: average_precision_loss(a, psi, 5).loss, x.requires_grad_())


def test_scores_outside_0_and_1_fall_into_the_end_bins():
    relevant = torch.tensor([[True, False]])
    for below in (0.0, -0.8):
        scores = torch.tensor([[1.0, below]], dtype=torch.float64)
        assert quantised_precision(scores, relevant, torch.ones_like(relevant)).item() == 1.0


def test_the_order_of_images_does_not_matter():
    x, psi = some_batch(10, seed=5)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    expected = average_precision_loss(x, psi).loss
    assert average_precision_loss(x[order], psi[order][:, order]).loss.item() == pytest.approx(
        expected.item()
    )


def test_an_image_without_a_positive_is_no_query_and_unknown_pairs_do_not_count():
    x, psi = unit(0, 10, 50), torch.zeros(3, 3, dtype=torch.float64)
    psi[0, 1] = psi[1, 0] = 0.5
    assert average_precision_loss(x, psi).loss.item() == pytest.approx(by_loops(x.numpy(), psi.numpy(), 25))
    alone = torch.zeros(3, 3, dtype=torch.float64)
    leaves = x.clone().requires_grad_()
    result = average_precision_loss(leaves, alone)
    result.loss.backward()
    assert result.loss.item() == 0.0
    assert torch.equal(leaves.grad, torch.zeros_like(leaves))
    # an image of which nothing is known changes nothing, wherever its descriptor lies
    more = torch.full((4, 4), math.nan, dtype=torch.float64)
    more[:3, :3] = psi
    for angle in (5.0, 180.0):
        again = average_precision_loss(torch.cat([x, unit(angle)]), more)
        assert again.loss.item() == pytest.approx(average_precision_loss(x, psi).loss.item(), abs=1e-15)


def test_a_perfect_ranking_has_no_loss():
    # each of two pairs stands apart from the other by more than a bin
    psi = torch.zeros(4, 4, dtype=torch.float64)
    psi[0, 1] = psi[1, 0] = psi[2, 3] = psi[3, 2] = 1.0
    result = average_precision_loss(unit(0, 3, 80, 83), psi)
    assert result.loss.item() == pytest.approx(0.0, abs=1e-12)
    assert result.zero_share.item() == 1.0


def test_a_wrong_shape_is_one_clear_line():
    with pytest.raises(InputError, match=r"expected \(n, d\) and \(n, n\)"):
        average_precision_loss(unit(0, 1), torch.zeros(3, 3))
