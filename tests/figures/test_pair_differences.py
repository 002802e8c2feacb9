"""The sample over ψ against what the labels hold, and layouts of spaces whose shape is known."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.figures import pair_differences as module
from samespot.figures.pair_differences import (
    PairDifferences,
    pair_differences,
    pair_differences_figure,
    perplexity_for,
    sample_over_overlap,
)
from samespot.overlap.labels import PairLabels


def labels_of(matrix, **meta):
    matrix = np.asarray(matrix, dtype=np.float32)
    rows, columns = np.nonzero(matrix)
    indptr = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int64)
    return PairLabels(indptr, columns.astype(np.int32), matrix[rows, columns], matrix.shape, meta)


@pytest.fixture
def ring():
    """60 × 80 pairs: a third share nothing, the others have any ψ."""
    rng = np.random.default_rng(3)
    return labels_of(np.where(rng.random((60, 80)) < 0.33, 0, rng.random((60, 80))))


def test_half_are_positive_and_each_stratum_has_its_share(ring):
    queries, places, overlap = sample_over_overlap(ring, 800, seed=1)
    np.testing.assert_array_equal(overlap.astype(np.float32), ring.lookup(queries, places))
    assert (overlap == 0).sum() == 200
    soft = overlap[(overlap > 0) & (overlap < 0.5)]
    assert (soft < 0.25).sum() == (soft >= 0.25).sum() == 100
    assert ((overlap >= 0.5) & (overlap < 0.75)).sum() == (overlap >= 0.75).sum() == 200
    assert len(set(zip(queries, places, strict=True))) == 800


def test_what_a_stratum_lacks_the_others_give():
    matrix = np.zeros((20, 20))
    matrix[0, :3] = 0.9  # the only pairs that share anything
    _, _, overlap = sample_over_overlap(labels_of(matrix), 100)
    assert (overlap > 0).sum() == 3
    assert len(overlap) == 100
    _, _, all_there_are = sample_over_overlap(labels_of(matrix), 1000)
    assert len(all_there_are) == 400


def test_a_pair_of_exactly_one_half_is_a_positive():
    matrix = np.full((10, 10), 0.5)
    matrix[:5] = 0.49
    _, _, overlap = sample_over_overlap(labels_of(matrix), 24)
    assert (overlap == 0.5).sum() == 16  # ψ in [.5, .75) is a quarter of the shares, [.25, .5) an eighth


def test_no_photo_is_paired_with_itself():
    matrix = np.eye(12) + 0.6 * np.roll(np.eye(12), 1, axis=1)
    queries, places, _ = sample_over_overlap(labels_of(matrix, same_table=True), 200)
    assert (queries != places).all()
    assert len(queries) == 12 * 11


def test_differences_are_map_less_query_of_the_sampled_pairs(ring, monkeypatch):
    rng = np.random.default_rng(0)
    q, m = rng.normal(size=(60, 5)).astype(np.float32), rng.normal(size=(80, 5)).astype(np.float32)
    m[7] = 0  # could not be read
    monkeypatch.setattr(module, "_on_a_plane", lambda differences, seed: differences)
    found = pair_differences(q, m, ring, n=300, seed=4)
    queries, places, overlap = sample_over_overlap(ring, 300, seed=4)
    readable = places != 7
    assert (~readable).sum() > 0
    np.testing.assert_allclose(found.points, (m[places] - q[queries])[readable], rtol=1e-6)
    np.testing.assert_array_equal(found.overlap, overlap[readable])


def test_pairs_that_differ_alike_lie_together():
    """Queries at the origin, map images of two kinds far from each other: two islands, told apart by ψ."""
    rng = np.random.default_rng(0)
    matrix = np.zeros((12, 40))
    matrix[:, 20:] = 1.0
    q = 0.01 * rng.normal(size=(12, 64))
    m = 0.05 * rng.normal(size=(40, 64)) + np.where(np.arange(40) < 20, -1.0, 1.0)[:, None]
    found = pair_differences(q, m, labels_of(matrix), n=120)
    islands = [found.points[found.overlap == psi] for psi in (0.0, 1.0)]
    assert [len(one) for one in islands] == [60, 60]
    middles = [one.mean(axis=0) for one in islands]
    reach = max(
        np.linalg.norm(one - middle, axis=1).max() for one, middle in zip(islands, middles, strict=True)
    )
    assert np.linalg.norm(middles[0] - middles[1]) > reach
    again = pair_differences(q, m, labels_of(matrix), n=120)
    np.testing.assert_array_equal(again.points, found.points)


def test_perplexity_is_below_the_number_of_pairs():
    assert perplexity_for(1000) == 30
    assert perplexity_for(31) == 10
    assert perplexity_for(8) == pytest.approx(7 / 3)


def test_descriptors_of_another_table_are_refused(ring):
    with pytest.raises(InputError, match="60 queries × 80 map images"):
        pair_differences(np.ones((60, 4)), np.ones((60, 4)), ring)
    with pytest.raises(InputError, match="readable"):
        pair_differences(np.zeros((60, 4)), np.ones((80, 4)), ring)


def test_the_figure_has_a_panel_a_model_with_colours_by_overlap(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(module, "save", lambda figure, path: kept.append(figure) or path)
    some = PairDifferences(np.arange(12.0).reshape(6, 2), np.linspace(0, 1, 6))
    pair_differences_figure({"CL": some, "GCL": some}, tmp_path / "unused.pdf")
    panels = [axes for axes in kept[0].axes if axes.get_title(loc="left")]
    assert [panel.get_title(loc="left") for panel in panels] == ["CL", "GCL"]
    dots = panels[0].collections[0]
    np.testing.assert_array_equal(dots.get_array(), some.overlap)
    red, blue = dots.cmap(0.0), dots.cmap(1.0)
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    with pytest.raises(InputError, match="nothing to draw"):
        pair_differences_figure({}, tmp_path / "unused.pdf")
