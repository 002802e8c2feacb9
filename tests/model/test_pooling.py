"""Pooling against the formula and its limits."""

import pytest
import torch

from samespot.errors import InputError
from samespot.model.pooling import AGGREGATORS, GeM, make_pool
from samespot.model.pools import PATTERNS, aggregator_named


@pytest.fixture
def features():
    return torch.rand((2, 5, 4, 6), generator=torch.Generator().manual_seed(1)) * 3


def test_gem_is_the_generalised_mean(features):
    expected = ((features.double() ** 3).sum((2, 3)) / 24) ** (1 / 3)
    torch.testing.assert_close(make_pool("gem", 5)(features).double(), expected, rtol=1e-6, atol=1e-6)


def test_gem_goes_from_average_to_maximum(features):
    torch.testing.assert_close(GeM(p=1.0)(features), make_pool("gap", 5)(features))
    torch.testing.assert_close(
        GeM(p=80.0)(features / 3), make_pool("max", 5)(features / 3), rtol=0.05, atol=0
    )


def test_negative_values_count_as_eps():
    values = torch.tensor([-5.0, 0.0, 2.0, 0.0]).reshape(1, 1, 2, 2)
    assert make_pool("gem", 5)(values).item() == pytest.approx((8 / 4) ** (1 / 3))


def test_p_is_learned_with_the_right_gradient(features):
    pool = GeM()
    pool(features).sum().backward()
    x, p = features.double(), 3.0
    mean = (x**p).mean((2, 3))
    slope = mean ** (1 / p) * ((x**p * x.log()).mean((2, 3)) / (p * mean) - mean.log() / p**2)
    assert pool.p.grad.item() == pytest.approx(slope.sum().item(), rel=1e-4)


def test_autocast_does_not_reach_the_powers(features):
    # 60^3 * 24 overflows no float32, but half precision ends at 65504
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pooled = make_pool("gem", 5)(features * 20)
    assert pooled.dtype == torch.float32
    torch.testing.assert_close(pooled, make_pool("gem", 5)(features * 20))


def test_half_precision_features_do_not_overflow():
    assert make_pool("gem", 5)(torch.full((1, 1, 2, 2), 60.0, dtype=torch.float16)).item() == pytest.approx(
        60.0, rel=1e-4
    )


@pytest.mark.parametrize(
    "name", ["netvlad", "netvlad1", "netvlad064", "vlad64", "netvlad64v3", "netvlad99999"]
)
def test_unknown_pool_names_the_known_ones(name):
    with pytest.raises(InputError, match="gap, gem, max, multi, netvlad64"):
        make_pool(name, 512)


def test_netvlad_is_named_by_its_clusters():
    pool = make_pool("netvlad16", 12)
    assert (pool.clusters, pool.channels, pool.size, pool.conv.bias) == (16, 12, 192, None)
    assert make_pool("netvlad7v2", 12).conv.bias.shape == (7,)


def test_every_name_of_an_aggregator_makes_one():
    assert list(AGGREGATORS) == list(PATTERNS)
    assert all(aggregator_named(example)[0] == example for example in PATTERNS)
