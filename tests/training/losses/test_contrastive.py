"""The loss against numbers worked out by hand, the paper's closed forms, and autograd."""

import math

import pytest
import torch

from samespot.errors import InputError
from samespot.training.loss import GeneralizedContrastiveLoss
from samespot.training.losses.contrastive import all_pairs_loss, pair_losses


def unit(*degrees: float) -> torch.Tensor:
    """Unit vectors in the plane at these angles."""
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def test_by_hand_on_2d_angles():
    # two unit vectors 60° apart lie 1 apart, beyond the margin; 0° apart they lie 0 apart
    x, y = unit(0, 0, 0, 0), unit(60, 60, 0, 0)
    similarity = torch.tensor([0.8, 0.0, 0.8, 0.0], dtype=torch.float64)
    expected = torch.tensor([0.5 * 0.8 * 1.0, 0.0, 0.5 * 0.2 * 0.25, 0.5 * 0.25], dtype=torch.float64)
    torch.testing.assert_close(pair_losses(x, y, similarity), expected, atol=1e-15, rtol=0)
    loss = GeneralizedContrastiveLoss(margin=0.5)(x, y, similarity)
    assert loss.item() == pytest.approx(expected.mean().item(), abs=1e-15)


def test_a_pair_rests_where_the_overlap_says():
    # d* = τ(1−ψ): chord 2 sin(a/2) = 0.5 · 0.6
    similarity = torch.tensor([0.4], dtype=torch.float64)
    y = unit(math.degrees(2 * math.asin(0.15))).requires_grad_()
    pair_losses(unit(0), y, similarity).sum().backward()
    assert y.grad.abs().max().item() < 1e-15


@pytest.mark.parametrize("margin", [0.5, 0.7])
def test_gradient_is_the_papers_closed_form(margin):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(200, 5, generator=generator, dtype=torch.float64) * 0.2
    y = torch.randn(200, 5, generator=generator, dtype=torch.float64) * 0.2
    similarity = torch.rand(200, generator=generator, dtype=torch.float64)
    similarity[:20], similarity[20:40] = 0.0, 1.0
    x.requires_grad_()
    pair_losses(x, y, similarity, margin).sum().backward()
    d = (x.detach() - y).norm(dim=1)
    assert (d < margin).any()
    assert (d > margin).any()
    slope = torch.where(d < margin, d + margin * (similarity - 1), similarity * d)
    expected = slope[:, None] * (x.detach() - y) / d[:, None]
    torch.testing.assert_close(x.grad, expected, atol=1e-14, rtol=1e-12)


def test_autograd_agrees_with_finite_differences():
    x, y = unit(0, 10, 40, 70).requires_grad_(), unit(3, 35, 60, 5).requires_grad_()
    similarity = torch.tensor([0.3, 0.9, 0.0, 0.6], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: pair_losses(a, b, similarity), (x, y))


def test_gradient_at_distance_zero_is_zero_and_finite():
    x = unit(20, 20).requires_grad_()
    y = x.detach().clone()
    pair_losses(x, y, torch.tensor([0.0, 0.5], dtype=torch.float64)).sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_similarity_0_and_1_is_the_binary_contrastive_loss():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 50, 4, generator=generator, dtype=torch.float64) * 0.15
    same = torch.arange(50) % 2
    d = (x - y).norm(dim=1)
    expected = torch.where(same == 1, d**2 / 2, (0.5 - d).clamp(min=0) ** 2 / 2).mean()
    assert GeneralizedContrastiveLoss()(x, y, same).item() == pytest.approx(expected.item(), abs=1e-15)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_inputs_are_computed_in_float32(dtype):
    x, y = unit(0, 30).to(dtype), unit(5, 90).to(dtype)
    similarity = torch.tensor([0.25, 0.5])
    expected = pair_losses(x.float(), y.float(), similarity)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(pair_losses(x, y, similarity), expected)
    assert expected.dtype == torch.float32


def test_wrong_shapes_are_one_clear_line():
    with pytest.raises(InputError, match=r"expected \(n, d\), \(n, d\) and \(n,\)"):
        pair_losses(torch.zeros(3, 2), torch.zeros(4, 2), torch.zeros(3))


def test_all_pairs_by_hand():
    # distances: 0-1 and 1-2 are chords of 20°, 0-2 of 40°, 3 is beyond the margin from all
    x = unit(0, 20, 40, 180)
    psi = torch.tensor([[0, 0.6, 0.2, 0], [0, 0, 0.8, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
    psi = psi + psi.T
    near, far = 2 * math.sin(math.radians(10)), 2 * math.sin(math.radians(20))
    positive = [0.5 * p * near**2 + 0.5 * (1 - p) * (0.5 - near) ** 2 for p in (0.6, 0.8)]
    soft = 0.5 * 0.2 * far**2  # 0.684, beyond the margin
    result = all_pairs_loss(x, psi)
    assert result.loss.item() == pytest.approx(0.5 * sum(positive) / 2 + 0.25 * soft + 0.25 * 0, abs=1e-14)
    assert result.class_pairs.tolist() == [2, 1, 3]
    assert result.class_zero_share.tolist() == [0, 0, 1]
    assert result.zero_share.item() == 0.5


def test_all_pairs_of_two_images_is_the_pair_loss():
    x = unit(0, 25)
    psi = torch.full((2, 2), 0.3, dtype=torch.float64)
    expected = pair_losses(x[:1], x[1:], psi[0, :1])
    assert all_pairs_loss(x, psi).loss.item() == pytest.approx(expected.item(), abs=1e-15)


def test_all_pairs_gradient_is_that_of_a_loop_over_pairs():
    generator = torch.Generator().manual_seed(1)
    x = torch.nn.functional.normalize(torch.randn(8, 3, generator=generator, dtype=torch.float64), dim=1)
    x[5] = x[2]  # two photos alike: distance 0
    psi = torch.rand(8, 8, generator=generator, dtype=torch.float64).round(decimals=1) * 0.9
    psi = psi.triu(1) + psi.triu(1).T
    psi[3, 4] = psi[4, 3] = float("nan")
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    all_pairs_loss(a, psi, class_weights=(0.5, 0.3, 0.2)).loss.backward()

    groups: dict[int, list[torch.Tensor]] = {0: [], 1: [], 2: []}
    for i in range(8):
        for j in range(i + 1, 8):
            if not psi[i, j].isnan():
                kind = 0 if psi[i, j] >= 0.5 else 1 if psi[i, j] > 0 else 2
                groups[kind].append(pair_losses(b[i : i + 1], b[j : j + 1], psi[i, j : j + 1]))
    weights = {k: w for k, w in enumerate((0.5, 0.3, 0.2)) if groups[k]}
    total = sum(w * torch.cat(groups[k]).mean() for k, w in weights.items()) / sum(weights.values())
    total.backward()
    torch.testing.assert_close(a.grad, b.grad, atol=1e-14, rtol=1e-12)


def test_absent_classes_leave_their_weight_to_the_others():
    x, psi = unit(0, 30, 60), torch.zeros(3, 3, dtype=torch.float64)
    result = all_pairs_loss(x, psi)
    assert result.loss.item() == pytest.approx(result.class_loss[2].item(), abs=1e-16)


@pytest.mark.parametrize("wrong", [1.5, -0.1, math.nan])
def test_a_similarity_that_is_none_is_named(wrong):
    similarity = torch.tensor([1.0, 0.0, wrong], dtype=torch.float64)
    with pytest.raises(InputError, match=rf"similarity {wrong:g} of pair 2 is not in \[0, 1\]"):
        GeneralizedContrastiveLoss()(unit(0, 1, 2), unit(3, 4, 5), similarity)


def test_an_empty_batch_has_nothing_to_learn():
    x = torch.zeros(0, 3, requires_grad=True)
    loss = GeneralizedContrastiveLoss()(x, torch.zeros(0, 3), torch.zeros(0))
    loss.backward()
    assert loss.item() == 0.0
    assert x.grad.shape == (0, 3)
