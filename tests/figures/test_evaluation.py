"""Which lines the figures of an evaluation have."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from PIL import Image

from samespot.evaluation.results import Variant
from samespot.figures import evaluation as evaluation_figures
from samespot.figures import recall_curves
from samespot.statistics.intervals import wilson


def variant(dims, on=None, by=None, hits=50):
    metrics = {f"R@{k}": wilson(hits + k, 100) for k in (1, 5)}
    curves = {"distance": {"thresholds": [5, 25], "recall": [0.1, hits / 100], "k": 5}}
    return Variant(dims, on, metrics, {}, {}, curves, by)


@pytest.fixture
def drawn(monkeypatch):
    """Name of the figure -> what it was given: its series, and which of them are re-ranked."""
    found = {}

    def at_k(series, path, again):
        found["recall"] = (series, again)
        return path

    def over(series, thresholds, path, axis, k, again):
        found[f"over {axis}"] = (series, again)
        return path

    monkeypatch.setattr(evaluation_figures, "recall_at_k_figure", at_k)
    monkeypatch.setattr(evaluation_figures, "recall_over_figure", over)
    monkeypatch.setattr(evaluation_figures, "recall_over_dims_figure", lambda series, path, k: path)
    return found


def figures_of(variants, out):
    evaluation = SimpleNamespace(variants=variants, variant=lambda: variants[0], settings={})
    return evaluation_figures._figures(SimpleNamespace(evaluation=evaluation, pair_curves={}), out)


@pytest.mark.parametrize("of", [0, 4])
def test_re_ranked_lists_and_what_they_were_made_of_are_never_left_out(drawn, tmp_path, of):
    """Of ten descriptors six are drawn, which the two may not be among."""
    variants = [variant(512), *(variant(2**i, "the map", hits=50 + i) for i in range(9))]
    better = replace(variants[of], reranked_by="xfeat")
    figures_of([*variants[: of + 1], better, *variants[of + 1 :]], tmp_path)
    for series, again in drawn.values():
        assert again == {better.title: variants[of].title}
        assert better.title in series
        assert variants[of].title in series
        assert 7 <= len(series) <= 8
        assert next(iter(series)) == "512 dims, as described"
    assert drawn.keys() == {"recall", "over distance"}


def test_the_re_ranked_line_is_dashed_and_named(monkeypatch, tmp_path):
    lines = {}

    def read_back(figure, path):
        lines[path.stem] = {line.get_label(): line.get_linestyle() for line in figure.axes[0].lines}
        return real(figure, path)

    real = recall_curves.save
    monkeypatch.setattr(recall_curves, "save", read_back)
    files = figures_of([variant(512), variant(512, by="xfeat", hits=80), variant(64, "the map")], tmp_path)
    assert [path.name for path in files] == ["recall.png", "recall-over-distance.png"]
    for path in files:
        with Image.open(path) as image:
            assert min(image.size) > 400
    assert lines["recall"] == {
        "512 dims, as described, R@1: 51.0": "-",
        "512 dims, as described, re-ranked by xfeat, R@1: 81.0": "--",
        "64 dims, whitened on the map, R@1: 51.0": "-",
    }
    assert list(lines["recall-over-distance"].items())[-2] == (
        "512 dims, as described, re-ranked by xfeat",
        "--",
    )
