"""The area under the drawn steps is the average precision that the legend claims."""

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score

from samespot.errors import InputError
from samespot.evaluation.pair_curve import pair_curve
from samespot.figures import pair_curves
from samespot.figures.pair_curves import DRAWN, pair_curve_figure


def handed_back(figure, path):
    """In the place of `save`."""
    import matplotlib.pyplot as plt

    plt.close(figure)
    return figure


def curve_of(separation, pairs=3000, seed=0):
    dice = np.random.default_rng(seed)
    truth = dice.random(pairs) < 0.1
    scores = dice.normal(size=pairs) + separation * truth
    return pair_curve(lambda: iter([(scores, truth)])), average_precision_score(truth, scores)


def area_under(line):
    """Of what is painted: the corners of the steps, not their data."""
    from matplotlib.cbook import STEP_LOOKUP_MAP

    x, y = STEP_LOOKUP_MAP[line.get_drawstyle()](*line.get_data())
    return float(abs(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)))


def test_the_painted_area_is_the_average_precision_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(pair_curves, "save", handed_back)
    weak, strong = curve_of(0.5), curve_of(2.5)
    axes = pair_curve_figure({"weak": weak[0], "strong": strong[0]}, "unused.png").axes[0]
    first, second = axes.lines
    assert area_under(first) == pytest.approx(strong[1], abs=1e-9)
    assert area_under(second) == pytest.approx(weak[1], abs=1e-9)
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == [f"strong, AP {100 * strong[1]:.1f} %", f"weak, AP {100 * weak[1]:.1f} %"]
    assert first.get_color() != second.get_color()


def test_a_long_curve_is_thinned_and_keeps_its_area(monkeypatch):
    monkeypatch.setattr(pair_curves, "save", handed_back)
    curve, expected = curve_of(1.5, pairs=60_000)
    line = pair_curve_figure({"long": curve}, "unused.png").axes[0].lines[0]
    assert len(line.get_xdata()) <= DRAWN < len(curve.recall)
    assert area_under(line) == pytest.approx(expected, abs=2e-3)


def test_the_figure_is_written_and_nothing_to_draw_is_refused(tmp_path):
    out = pair_curve_figure({"only": curve_of(1)[0]}, tmp_path / "deep" / "pairs.png")
    with Image.open(out) as picture:
        assert picture.size[0] > 700
    with pytest.raises(InputError, match="nothing to draw"):
        pair_curve_figure({}, tmp_path / "none.png")
