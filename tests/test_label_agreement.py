"""The figures of the label study, read back from the axes before they are saved."""

import numpy as np
import pytest
from PIL import Image

from benchmarks import label_agreement
from benchmarks.label_agreement import draw_label_agreement, draw_label_noise, draw_sector_sweep
from samespot.errors import InputError


def kind(r):
    """Two bins of labels; the pairs of the second spread from 0.4 to 0.8."""
    curve = {
        "label": [0.0, 0.7],
        "true": [0.05, 0.5],
        "quartiles": [[0.0, 0.02], [0.4, 0.8]],
        "pairs": [30, 4],
    }
    return {"pearson": [r, r - 0.1, r + 0.1], "density": [[30, 0], [1, 3]], "reliability": curve}


@pytest.fixture
def study():
    line = {"pearson": [[0.8, 0.8, 0.8], [0.6, 0.5, 0.7]], "misled": [[0.1, 0.1, 0.1], [0.2, 0.15, 0.3]]}
    found = {"sigma": [0, 10], "2D, 90°, 50 m": line, "binary, 25 m, 40°": line}
    table = [[0.1, 0.2, 0.3], [0.4, 0.9, 0.5]]  # by angle and radius
    return {
        "kinds": {"weak 2D": kind(0.6), "strong 2D": kind(0.7), "3D": kind(0.8)},
        "ahead": {
            "metres": [0, 10, 20],
            "pairs": [3, 3],
            "true": [0.7, 0.3],
            "strong 2D": [0.9, 0.1],
            "3D": [0.6, 0.2],
            "3D, as a share": [0.75, 0.33],
        },
        "sweep": {
            "theta": [90, 120],
            "radius": [30, 40, 50],
            "rough": [5, 20],
            "pearson": {"exact": table, "rough": table[::-1]},
            "best": {"exact": [120, 40, 0.9], "rough": [90, 40, 0.9]},
        },
        "noise": {"draws": 3, "gps": found, "compass": found},
    }


@pytest.fixture
def kept(monkeypatch):
    """Figures are handed back instead of saved."""

    def handed_back(figure, path):
        import matplotlib.pyplot as plt

        plt.close(figure)
        return figure

    monkeypatch.setattr(label_agreement, "save", handed_back)


def test_labels_run_to_the_right_and_the_truth_upwards(kept, study):
    panel = draw_label_agreement("unused.png", study).axes[0]
    pixels = panel.images[0].get_array().filled(0)
    np.testing.assert_array_equal(np.nan_to_num(pixels), [[30, 1], [0, 3]])  # rows: truth from below
    assert panel.images[0].origin == "lower"
    assert [text.get_text() for text in panel.texts] == ["r = 0.60"]


def test_the_curve_is_the_mean_and_its_bars_the_middle_half(kept, study):
    panel = draw_label_agreement("unused.png", study).axes[0]
    lines = {line.get_label(): line.get_xydata() for line in panel.lines}
    np.testing.assert_allclose(lines["mean and middle half"], [[0, 0.05], [0.7, 0.5]])
    np.testing.assert_allclose(lines["label = true"], [[0, 0], [1, 1]])
    bars = panel.collections[0].get_segments()
    np.testing.assert_allclose(
        bars[0], [[0, 0.0], [0, 0.05]]
    )  # a mean above the middle half has no bar upwards
    np.testing.assert_allclose(bars[1], [[0.7, 0.4], [0.7, 0.8]])


def test_distances_stand_in_the_middle_of_their_bins(kept, study):
    panel = draw_label_agreement("unused.png", study).axes[3]
    lines = {line.get_label(): line.get_xydata() for line in panel.lines}
    np.testing.assert_allclose(lines["true overlap"], [[5, 0.7], [15, 0.3]])
    np.testing.assert_allclose(lines["strong 2D"], [[5, 0.9], [15, 0.1]])


def test_the_best_sector_and_the_papers_are_marked_with_their_numbers(kept, study):
    exact, rough, _ = draw_sector_sweep("unused.png", study).axes
    said = [(text.get_text(), text.get_position()) for text in exact.texts]
    assert said == [("paper\n0.30", (2, 0)), ("best\n0.90", (1, 1))]
    assert [text.get_text() for text in rough.texts] == ["paper\n0.50", "best\n0.90"]
    assert [tick.get_text() for tick in exact.get_yticklabels()] == ["90", "120"]


def test_where_the_papers_sector_is_the_best_it_is_marked_once(kept, study):
    study["sweep"]["best"]["exact"] = [90, 50, 0.3]
    exact = draw_sector_sweep("unused.png", study).axes[0]
    assert [text.get_text() for text in exact.texts] == ["best\n0.30"]


def test_noise_is_drawn_as_the_mean_in_a_band_and_shares_in_percent(kept, study):
    above, _, below, _ = draw_label_noise("unused.png", study).axes
    assert [line.get_label() for line in above.lines] == [
        "2D, 90°, 50 m",
        "binary, 25 m, 40°",
        "3D, exact poses",
    ]
    np.testing.assert_allclose(above.lines[0].get_xydata(), [[0, 0.8], [10, 0.6]])
    np.testing.assert_allclose(above.lines[2].get_ydata(), 0.8)
    np.testing.assert_allclose(below.lines[0].get_ydata(), [10, 20])
    band = below.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose([band[:, 1].min(), band[:, 1].max()], [10, 30])


def test_figures_are_written_and_a_study_without_the_part_is_refused(tmp_path, study):
    for draw in (draw_label_agreement, draw_sector_sweep, draw_label_noise):
        with Image.open(draw(tmp_path / f"{draw.__name__}.png", study)) as picture:
            assert picture.size[0] > 1000
        with pytest.raises(InputError, match=r"run benchmarks/town_labels\.py again"):
            draw(tmp_path / "none.png", {})
