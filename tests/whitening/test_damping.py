"""Damping: nothing at 0, only a turn in the limit, the sum of the textbook in between."""

import math

import numpy as np
import pytest

from samespot import InputError
from samespot.whitening.damping import AUTO
from samespot.whitening.whitening import Whitening


def descriptors(n, d, seed=0):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, d)) * np.geomspace(1, 0.02, d) + 3
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "d"), [(300, 24), (16, 60)])
def test_no_damping_is_pca_whitening_to_the_last_bit(n, d):
    x, others = descriptors(n, d), descriptors(40, d, 1)
    plain = Whitening.fit(x, "map")
    for same in (Whitening.fit(x, "map", damping=0), plain.damped(3).damped(0.0)):
        np.testing.assert_array_equal(same(others), plain(others))
        assert (same.digest(), same.how) == (plain.digest(), "")


@pytest.mark.parametrize(("n", "d"), [(300, 24), (16, 60)])
def test_by_numpy(n, d):
    """A share of the mean of all variances, that of n - 1 axes where n images span no more, is added to each."""
    x, others = descriptors(n, d), descriptors(40, d, 1)
    exact = x.astype(np.float64)
    variances, axes = np.linalg.eigh(np.cov(exact.T))
    rank = min(n - 1, d)
    variances, axes = variances[::-1][:rank], axes.T[::-1][:rank]
    damped = variances + 0.7 * np.trace(np.cov(exact.T)) / rank
    expected = unit((others - exact.mean(axis=0)) @ axes.T / np.sqrt(damped))
    found = Whitening.fit(x, "map", damping=0.7)(others)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)


@pytest.mark.parametrize(("n", "d"), [(300, 24), (16, 60)])
def test_the_limit_is_the_centred_descriptor(n, d):
    """At full size the axes only turn: the order of a list is that of centred descriptors in the span."""
    x = descriptors(n, d)
    found = Whitening.fit(x, "map", damping=1e9)(x)
    centred = unit(x.astype(np.float64) - x.astype(np.float64).mean(axis=0))
    np.testing.assert_allclose(found @ found.T, centred @ centred.T, atol=1e-5)


def test_the_strength_does_not_depend_on_how_many_axes_are_kept():
    x, others = descriptors(300, 24), descriptors(40, 24, 1)
    whole, some = Whitening.fit(x, "map", damping=2), Whitening.fit(x, "map", damping=2, most=5)
    np.testing.assert_allclose(some(others), whole(others, 5), atol=1e-6)


def test_the_strength_does_not_depend_on_the_scale_of_descriptors():
    x, others = descriptors(300, 24), descriptors(40, 24, 1)
    one, ten = Whitening.fit(x, "map", damping=2), Whitening.fit(10 * x, "map", damping=2)
    np.testing.assert_allclose(ten(10 * others), one(others), atol=1e-5)


def test_auto_is_the_usual_strength_and_is_told():
    w = Whitening.fit(descriptors(300, 24), "map", damping="auto")
    assert (w.damping, w.how) == (AUTO, "damping 3")
    assert w.to_dict()["damping"] == AUTO


def test_a_file_brings_the_damping_back(tmp_path):
    x = descriptors(60, 16)
    w = Whitening.fit(x, "map", damping=0.3, most=7)
    again = Whitening.load(w.save(tmp_path / "w.safetensors"))
    np.testing.assert_array_equal(again(x), w(x))
    assert (again.damping, again.mean_variance, again.kind) == (0.3, w.mean_variance, "pca")
    assert again.digest() == w.digest()
    assert w.digest() != w.damped(0.4).digest()
    np.testing.assert_array_equal(again.damped(0)(x), Whitening.fit(x, "map", most=7)(x))


def test_rounded_axes_make_a_smaller_file(tmp_path):
    x = descriptors(400, 64)
    w = Whitening.fit(x, "map", damping="auto")
    sizes = [w.save(tmp_path / "w.safetensors").stat().st_size]
    for dtype, near in (("float32", 1e-6), ("float16", 5e-3)):
        short = w.rounded(dtype)
        sizes.append(short.save(tmp_path / "short.safetensors").stat().st_size)
        again = Whitening.load(tmp_path / "short.safetensors")
        assert again.digest() == short.digest() != w.digest()
        np.testing.assert_array_equal(again(x), short(x))
        np.testing.assert_allclose(short(x), w(x), atol=near)
    assert sizes[0] > 1.8 * sizes[1] > 3 * sizes[2]


def test_files_from_before_there_was_damping_are_read(tmp_path):
    from safetensors.numpy import save_file

    w = Whitening.fit(descriptors(60, 16), "map")
    tensors = {name: np.ascontiguousarray(getattr(w, name)) for name in ("axes", "mean", "variances")}
    about = {"format": "samespot whitening 1", "fitted_on": "map", "images": "60", "left_out": "0"}
    save_file(tensors, tmp_path / "old.safetensors", metadata=about)
    old = Whitening.load(tmp_path / "old.safetensors")
    np.testing.assert_array_equal(old(descriptors(9, 16)), w(descriptors(9, 16)))
    with pytest.raises(InputError, match="cannot be damped afterwards; fit it again with `damping`"):
        old.damped()


@pytest.mark.parametrize(
    "about",
    [{"damping": "-1"}, {"damping": "nan"}, {"damping": "1", "mean_variance": "nan"}, {"kind": "ica"}],
)
def test_files_with_impossible_damping_are_refused(about, tmp_path):
    from safetensors.numpy import load_file, save_file

    path = Whitening.fit(descriptors(60, 16), "map").save(tmp_path / "w.safetensors")
    told = {"format": "samespot whitening 2", "fitted_on": "map", "images": "60", "left_out": "0", **about}
    save_file(load_file(path), path, metadata=told)
    with pytest.raises(InputError, match="holds impossible values"):
        Whitening.load(path)


@pytest.mark.parametrize("damping", [-1, -0.01, math.nan, math.inf, "much", True, None, [1]])
def test_impossible_strengths_are_refused(damping):
    with pytest.raises(InputError, match="`damping`"):
        Whitening.fit(descriptors(30, 8), "map", damping=damping)


@pytest.mark.parametrize("most", [0, -3])
def test_no_axes_at_all_are_refused(most):
    with pytest.raises(InputError, match="give at least 1"):
        Whitening.fit(descriptors(30, 8), "map", most=most)


def test_two_images_are_enough():
    x = descriptors(2, 8)
    np.testing.assert_allclose(np.abs(Whitening.fit(x, "map", damping="auto")(x)), [[1], [1]])
