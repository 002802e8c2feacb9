"""The calibration figures, read back from the axes before they are saved."""

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.figures import calibration
from samespot.figures.calibration import _apart, acceptance_figure, reliability_figure
from samespot.statistics.acceptance import acceptance_curve
from samespot.statistics.reliability import reliability


def handed_back(figure, path):
    """In the place of `save`."""
    import matplotlib.pyplot as plt

    plt.close(figure)
    return figure


@pytest.fixture
def kept(monkeypatch):
    """Figures are handed back instead of saved."""
    monkeypatch.setattr(calibration, "save", handed_back)


def test_each_bin_is_a_point_and_a_bar(kept):
    one = reliability([0.1, 0.3, 0.5, 0.9, 1.0], [0.0, 0.0, 0.3, 0.5, 1.0], bins=2)
    other = reliability([0.2, 0.2], [0.2, 0.4], bins=4)
    figure = reliability_figure({"one": one, "other": other}, "unused.png")
    axes, below = figure.axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    np.testing.assert_allclose(lines["one, ECE 0.200"], [[0.2, 0.0], [0.8, 0.6]])
    np.testing.assert_allclose(lines["other, ECE 0.100"], [[0.2, 0.3]])  # empty bins are not drawn
    np.testing.assert_allclose(lines["predicted = true"], [[0, 0], [1, 1]])
    assert [bar.get_height() for bar in below.patches] == [2, 3, 2, 0, 0, 0]


def test_bars_of_two_curves_share_their_bin_without_overlap(kept):
    curve = reliability(np.linspace(0, 1, 50), np.linspace(0, 1, 50))
    bars = reliability_figure({"a": curve, "b": curve}, "unused.png").axes[1].patches
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars)
    assert all(left[1] <= right[0] + 1e-9 for left, right in pairwise(spans))
    for i, (start, end) in enumerate(spans):
        assert curve.edges[i // 2] <= start < end <= curve.edges[i // 2 + 1]


def test_the_upper_and_lower_axes_line_up(kept):
    curve = reliability(np.linspace(0, 1, 50), np.linspace(0, 1, 50))
    figure = reliability_figure({"a": curve}, "unused.png")
    figure.draw_without_rendering()
    upper, lower = (axes.transData.transform([[0, 1], [1, 1]])[:, 0] for axes in figure.axes)
    np.testing.assert_allclose(upper, lower)


def test_acceptance_draws_its_shares_and_marks_the_threshold(kept):
    curve = acceptance_curve([0.1, 0.2, 0.3, 0.4], [True, True, True, False], [0.3, 0.9])
    figure = acceptance_figure(curve, "unused.png", precision=0.75)
    axes = figure.axes[0]
    drawn = [line for line in axes.lines if not line.get_label().startswith("_")]
    assert [line.get_label() for line in drawn] == [
        "right, of all accepted (precision)",
        "found, of all in the map (recall)",
        "accepted, of all not in the map",
    ]
    np.testing.assert_allclose(drawn[1].get_ydata(), [25, 50, 75, 75, 75])
    assert {line.get_drawstyle() for line in drawn} == {
        "steps-post"
    }  # nothing changes until the next distance
    assert [text.get_text() for text in axes.texts] == ["75.0 %", "75.0 %", "50.0 %"]
    assert {text.xy[0] for text in axes.texts} == {0.3}
    assert axes.get_title("left").startswith("Accepting up to 0.300: 4 answers, 75.0 % right [")


def test_without_a_threshold_the_title_says_so_and_nothing_is_marked(kept):
    axes = acceptance_figure(acceptance_curve([0.1, 0.2], [False, True]), "unused.png").axes[0]
    assert axes.get_title("left") == "No threshold reaches a precision of 95.0%; the best is 50.0%"
    assert not axes.texts
    assert len(axes.lines) == 2  # there are no absent queries to draw a share of


def test_numbers_beside_dots_do_not_overlap():
    np.testing.assert_allclose(_apart([95.0, 1.0, 0.0], 5), [95, 5, 0])
    np.testing.assert_allclose(_apart([50.0, np.nan, 50.0], 5), [50, np.nan, 55])


def test_the_figures_are_written_and_nothing_to_draw_is_refused(tmp_path):
    curve = reliability([0.2, 0.8], [0.3, 0.6])
    for out in (
        reliability_figure({"a": curve}, tmp_path / "deep" / "reliability.png"),
        acceptance_figure(acceptance_curve([0.1, 0.2], [True, False]), tmp_path / "acceptance.png"),
    ):
        with Image.open(out) as picture:
            assert picture.size[0] > 700
    with pytest.raises(InputError, match="no pairs to draw"):
        reliability_figure({"none": reliability([], [])}, tmp_path / "none.png")
    with pytest.raises(InputError, match="no query has a match"):
        acceptance_figure(acceptance_curve([np.inf], [False]), tmp_path / "none.png")
