"""Comparisons on a narrow terminal: every word is there, no line is too long, and a loss is not praised."""

import re

import numpy as np
import pytest
from rich.console import Console

from samespot.cli import evaluation_screen
from samespot.evaluation.compare import Comparison, Difference
from samespot.evaluation.results import Evaluation, QueryList, Variant
from samespot.statistics.intervals import Interval

PATH = "/data/of/runs-of-november-with-a-name-that-goes-on-and-on/graded-resnet50-gem/evaluation.json"
TITLES = (
    "1280 dims, as described",
    "256 dims, whitened on the training photos, re-ranked by patch-netvlad",
)
DIFFERENCES = [
    Difference("R@1", 0.812, 0.734, Interval(0.078, 0.051, 0.105, 1280), 1.2e-7),
    Difference("R@5", 0.9, 1.0, Interval(-0.1, -0.1234, -0.1034, 1280), 0.00012),
    Difference("overlap@1", 0.5, 0.49, Interval(0.01, -0.1, 0.12, 1280), None),
    Difference("0.25 m, 2°", 0.5, 0.5, Interval(0.0, -0.1, 0.1, 1280), 1.0),
]


@pytest.fixture
def shown(monkeypatch):
    def show(width):
        console = Console(width=width, record=True, color_system="standard", force_terminal=True)
        monkeypatch.setattr(evaluation_screen, "out", console)
        comparison = Comparison("1280", "256 …", (2, 1), 12345, DIFFERENCES, TITLES)
        evaluation_screen.comparison_table(comparison, ([PATH, PATH], ["runs/binary"]))
        return console

    return show


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_comparison_fits_the_terminal_and_nothing_is_cut_off(shown, width):
    text = shown(width).export_text()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert text.count("…") == 1  # of the long path, which is shortened at its front
    joined = re.sub(r"\s+", "", text)
    for words in ("on-and-on", "gem/evaluation.json and 1 more", *TITLES, "12,345 queries"):
        assert words.replace(" ", "") in joined.replace("…", ""), words
    for one in DIFFERENCES:
        numbers = [
            f"{100 * one.first:.1f}",
            f"{100 * one.second:.1f}",
            *one.difference.points().split(" ", 1),
        ]
        for number in [one.metric, *numbers]:
            assert number in text
    for p in ("1.2e-07", "0.00012"):
        assert p in text
    assert "95 % interval" in text


def test_a_win_is_green_a_loss_is_red_and_the_rest_is_neither(shown):
    text = shown(100).export_text(styles=True)
    assert "\x1b[32mA is better" in text
    assert "\x1b[31mA is worse" in text
    assert text.count("\x1b[2minconclusive") == 2
    assert "significant" not in text


def test_a_descriptor_has_a_title_for_readers_and_is_found_by_it():
    nothing = {"metrics": {}, "by": {}, "outcomes": {}}
    plain = Variant(1280, None, **nothing)
    assert (plain.name, plain.title) == ("1280", "1280 dims, as described")
    again = Variant(256, "the map", **nothing, reranked_by="xfeat")
    assert again.name == "256 whitened on the map re-ranked by xfeat"
    assert again.title == "256 dims, whitened on the map, re-ranked by xfeat"
    evaluation = Evaluation({}, {}, {}, [], QueryList([], np.array([]), np.array([])), [plain, again])
    assert evaluation.variant(again.title) is evaluation.variant(again.name) is again
