"""The lines and bands of the recall figures, read back from the axes before they are saved."""

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.figures import recall_curves
from samespot.figures.recall_curves import (
    looks,
    recall_at_k_figure,
    recall_over_dims_figure,
    recall_over_figure,
)
from samespot.statistics.intervals import Interval, wilson

SERIES = {
    "graded": {1: wilson(60, 100), 5: wilson(80, 100), 10: wilson(90, 100)},
    "binary": {10: wilson(70, 100), 1: wilson(50, 100), 5: wilson(65, 100)},
}


def handed_back(figure, path):
    """In the place of `save`."""
    import matplotlib.pyplot as plt

    plt.close(figure)
    return figure


@pytest.fixture
def kept(monkeypatch):
    """Figures are handed back instead of saved."""
    monkeypatch.setattr(recall_curves, "save", handed_back)


def lines_of(figure):
    return {
        line.get_label(): line.get_xydata() for line in figure.axes[0].lines if line.get_marker() != "None"
    }


def words_of(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_recall_is_drawn_in_percent_over_ascending_k(kept):
    figure = recall_at_k_figure(SERIES, "unused.png")
    graded, binary = lines_of(figure).values()
    np.testing.assert_allclose(graded, [[1, 60], [5, 80], [10, 90]])
    np.testing.assert_allclose(binary, [[1, 50], [5, 65], [10, 70]])
    assert words_of(figure) == ["graded, R@1: 60.0", "binary, R@1: 50.0"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "5", "10"]


def test_the_band_is_the_interval(kept):
    band = recall_at_k_figure(SERIES, "unused.png").axes[0].collections[0]
    corners = band.get_paths()[0].vertices
    interval = SERIES["graded"][5]
    at_five = sorted(set(np.round(corners[corners[:, 0] == 5, 1], 6)))
    np.testing.assert_allclose(at_five, [100 * interval.low, 100 * interval.high], atol=1e-5)


def test_dims_are_on_a_log2_axis_and_the_legend_names_the_longest(kept):
    series = {"on the map": {256: wilson(70, 100), 32: wilson(40, 100), 64: wilson(55, 100)}}
    axes = recall_over_dims_figure(series, "unused.png").axes[0]
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["32", "64", "256"]
    steps = np.diff(axes.transData.transform([[32, 0], [64, 0], [256, 0]])[:, 0])
    assert steps[1] == pytest.approx(2 * steps[0])  # an octave is as wide as any other
    assert axes.get_legend().get_texts()[0].get_text() == "on the map, 256 dims: 70.0"


def test_thresholds_take_plain_recalls_and_intervals(kept):
    thresholds = [5.0, 25.0, 50.0]
    series = {"plain": np.array([0.2, 0.5, np.nan]), "with bands": [Interval(0.3, 0.2, 0.4, 9)] * 3}
    figure = recall_over_figure(series, thresholds, "unused.png", axis="distance", k=5)
    found = lines_of(figure)
    np.testing.assert_allclose(found["plain"], [[5, 20], [25, 50], [50, np.nan]])
    np.testing.assert_allclose(found["with bands"][:, 1], 30)
    assert figure.axes[0].get_ylabel() == "recall@5 [%]"
    assert "[m]" in figure.axes[0].get_xlabel()
    assert [text.get_text() for text in figure.axes[0].texts] == ["usual: 25 m"]
    indoors = recall_over_figure({"plain": [0.1, 0.2]}, [0.5, 3.0], "unused.png")
    assert not indoors.axes[0].texts  # 25 m would be far off the axis


def test_many_long_names_leave_the_curves_their_room(kept):
    def room(names):
        figure = recall_at_k_figure(dict.fromkeys(names, SERIES["graded"]), "unused.png")
        figure.draw_without_rendering()
        return figure.axes[0].get_window_extent().width / figure.dpi

    names = [f"{i} whitened with a-file-of-a-long-name.safetensors" for i in range(7)]
    assert room(names) > 0.9 * room(["a", "b"])


@pytest.fixture
def reranked():
    """Two descriptors, the lists of the second also re-ranked, in the order of an evaluation."""
    recalls = {"512": 50, "128 whitened": 60, "128 whitened re-ranked by xfeat": 75}
    return {name: {1: wilson(hits, 100), 5: wilson(hits + 10, 100)} for name, hits in recalls.items()}, {
        "128 whitened re-ranked by xfeat": "128 whitened"
    }


def test_a_re_ranked_list_is_dashed_in_the_colour_of_the_plain_one(kept, reranked):
    series, again = reranked
    figure = recall_at_k_figure(series, "unused.png", again)
    first, second, better = figure.axes[0].lines
    assert words_of(figure)[2] == "128 whitened re-ranked by xfeat, R@1: 75.0"
    np.testing.assert_allclose(better.get_xydata(), [[1, 75], [5, 85]])
    assert [line.get_linestyle() for line in (first, second, better)] == ["-", "-", "--"]
    assert better.get_color() == second.get_color() != first.get_color()
    assert better.get_marker() == second.get_marker()
    assert (better.get_markerfacecolor(), second.get_markerfacecolor()) == ("white", second.get_color())
    over = recall_over_figure({name: [0.2, 0.3] for name in series}, [1, 9], "unused.png", again=again)
    assert [line.get_linestyle() for line in over.axes[0].lines] == ["-", "-", "--"]


def test_a_re_ranked_list_without_the_plain_one_is_dashed_in_a_colour_of_its_own(reranked):
    _, again = reranked
    alone = looks(["512", *again], again)
    assert [look["linestyle"] for look in alone.values()] == ["-", "--"]
    assert len({look["color"] for look in alone.values()}) == 2


def test_series_are_told_apart_without_colour():
    many = looks([str(i) for i in range(21)])
    assert len({(look["marker"], look["linestyle"]) for look in many.values()}) == 21
    assert len({(look["color"], look["linestyle"]) for look in many.values()}) == 21


def test_the_figure_is_written_and_nothing_to_draw_is_refused(tmp_path):
    out = recall_at_k_figure(SERIES, tmp_path / "deep" / "recall.png")
    with Image.open(out) as picture:
        assert picture.size[0] > 900
    with pytest.raises(InputError, match="nothing to draw"):
        recall_at_k_figure({}, tmp_path / "none.png")
    with pytest.raises(InputError, match="graded has 2 recalls for 3 thresholds"):
        recall_over_figure({"graded": [0.1, 0.2]}, [1, 2, 3], tmp_path / "none.png", axis="overlap")
    assert not (tmp_path / "none.png").exists()
