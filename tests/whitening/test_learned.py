"""Learned whitening against the equation it solves, and against what it must not depend on."""

import numpy as np
import pytest
from scipy.linalg import eigh

from samespot import InputError
from samespot.whitening.whitening import Whitening


def gram(rows):
    return rows @ rows.T


def by_hand(x, psi, damping):
    """The generalised eigenvectors, from sums over all pairs."""
    x = x.astype(np.float64)
    apart = x[:, None] - x[None]
    np.fill_diagonal(psi := psi.astype(np.float64).copy(), 0)
    within = np.einsum("ij,ijk,ijl->kl", psi, apart, apart) / psi.sum() / 2
    within += damping * np.trace(within) / len(within) * np.eye(len(within))
    values, vectors = eigh(np.cov(x.T), within)
    return values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize("damping", [0.0, 2.0])
def test_it_solves_the_equation(places, damping):
    x, labels, _ = places
    _, vectors = by_hand(x, labels.dense(), damping)
    w = Whitening.learn(x, labels, "streets", damping=damping)
    for dims in (12, 4):
        expected = (x - x.mean(axis=0, dtype=np.float64)) @ vectors[:, :dims]
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(gram(w(x, dims)), gram(expected), atol=2e-5)
    assert (w.kind, w.damping, w.images) == ("learned", damping, 200)


def test_it_puts_the_place_before_what_varies_most(places):
    x, labels, place = places
    nearest = []
    for w in (Whitening.fit(x, "streets"), Whitening.learn(x, labels, "streets", damping=0)):
        alike = gram(w(x, 5))
        np.fill_diagonal(alike, -2)
        nearest.append((place[alike.argmax(axis=1)] == place).mean())
    assert nearest[1] > 2 * nearest[0]
    most_telling = Whitening.learn(x, labels, "streets", damping=0, most=2)
    assert most_telling.rank == 2
    assert np.abs(most_telling.axes[:, :2]).max() < 0.2  # light is along the first two dims


def test_not_damped_it_does_not_depend_on_the_basis(places):
    """Descriptors that are turned and stretched give the same lists; PCA whitening of all dims does, too."""
    x, labels, _ = places
    moved = x.astype(np.float64) @ np.random.default_rng(1).standard_normal((12, 12)) + 5
    one, other = (Whitening.learn(y, labels, "streets", damping=0) for y in (x, moved))
    np.testing.assert_allclose(gram(other(moved, 5)), gram(one(x, 5)), atol=1e-4)


def test_the_limit_of_damping_is_the_principal_axes(places):
    x, labels, _ = places
    found = Whitening.learn(x, labels, "streets", damping=1e9)(x, 4)
    turned = Whitening.fit(x, "streets", damping=1e9)(x, 4)
    np.testing.assert_allclose(gram(found), gram(turned), atol=1e-4)


def test_an_image_is_no_pair_with_itself(places, labels_of):
    x, labels, _ = places
    psi = labels.dense()
    np.fill_diagonal(psi, 0)
    without = Whitening.learn(x, labels_of(psi), "streets")
    np.testing.assert_allclose(Whitening.learn(x, labels, "streets")(x), without(x), atol=1e-6)
    with pytest.raises(InputError, match="no two of the images match"):
        Whitening.learn(x, labels_of(np.eye(200)), "streets")


def test_pairs_count_as_much_as_they_are_similar(places, labels_of):
    """A pair of weight 1 is that pair twice with half the weight; one of weight 0 is none."""
    x, labels, _ = places
    half = labels_of(labels.dense() / 2)
    one, other = (Whitening.learn(x, how, "streets")(x) for how in (labels, half))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_unreadable_images_are_left_out(places, labels_of):
    x, labels, _ = places
    holes, psi = x.copy(), labels.dense()
    holes[::50] = 0
    there = holes.any(axis=1)
    w = Whitening.learn(holes, labels, "streets")
    few = Whitening.learn(x[there], labels_of(psi[there][:, there]), "streets")
    np.testing.assert_allclose(w(x), few(x), atol=1e-5)
    assert (w.images, w.left_out) == (196, 4)


def test_fewer_images_than_dims(labels_of):
    x = np.random.default_rng(0).standard_normal((10, 40)).astype(np.float32)
    psi = np.kron(np.eye(5), np.ones((2, 2)))
    w = Whitening.learn(x, labels_of(psi), "few")
    assert w(x).shape == (10, 9)
    assert np.isfinite(w(x)).all()
    with pytest.raises(InputError, match="give `damping` above 0, or more pairs"):
        Whitening.learn(x, labels_of(psi), "few", damping=0)  # 5 differences span 5 of 9 directions


def test_a_file_brings_it_back(places, tmp_path):
    x, labels, _ = places
    w = Whitening.learn(x, labels, "streets", most=6)
    again = Whitening.load(w.save(tmp_path / "w.safetensors"))
    np.testing.assert_array_equal(again(x), w(x))
    assert (again.kind, again.how, again.damping) == ("learned", "learned", 3.0)
    with pytest.raises(InputError, match="cannot be damped afterwards"):
        again.damped(1)


def test_labels_of_other_images_are_refused(places):
    x, labels, _ = places
    with pytest.raises(InputError, match="streets: labels of 200 × 200 images for 199 descriptors"):
        Whitening.learn(x[1:], labels, "streets")


@pytest.mark.parametrize("damping", [-1, float("nan"), "much"])
def test_impossible_strengths_are_refused(places, damping):
    with pytest.raises(InputError, match="`damping`"):
        Whitening.learn(*places[:2], "streets", damping=damping)


def test_it_has_no_room_for_queries():
    """What is tested on can not be fitted on by mistake: photos and their labels are all that goes in."""
    import inspect

    for way in (Whitening.fit, Whitening.learn):
        names = set(inspect.signature(way).parameters)
        assert names <= {"descriptors", "labels", "fitted_on", "damping", "most", "progress", "device"}
