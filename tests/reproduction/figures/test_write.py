"""Which figures come of which runs, and what is on them: lines, colours, markers, words."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reproduction.figures import curves as paper_curves
from reproduction.figures.curves import (
    draw_precision,
    draw_sizes,
    draw_street_recall,
    draw_thresholds,
    line_looks,
    loss_of,
    model_names,
    recall_curve,
    whitened_name,
    whitened_sizes,
)
from reproduction.figures.photos import one_of_each_loss, query_with
from reproduction.figures.write import FIGURES, paper_figures
from samespot.errors import InputError
from samespot.evaluation.results import Evaluation, QueryList, Variant
from samespot.figures import pair_differences
from samespot.figures.report_runs import Described, ReportRun
from samespot.model.network import PlaceNet
from samespot.overlap.rules import Sectors, label_pairs
from samespot.places.table import Places
from samespot.statistics.intervals import wilson
from samespot.training.drawn import BINS

ALWAYS = ["fig02-siamese", "fig03-toy-data-set", "fig04-field-of-view"]


def variant(dims=512, on=None, hits=6, ranks=(1, 0, 3, 2), curves=None, **more):
    metrics = {f"R@{k}": wilson(hits + i, 10) for i, k in enumerate((1, 5))}
    return Variant(dims, on, metrics, {}, {"first_hit": np.array(ranks), **more}, curves or {})


def run_of(name, batches="A", backbone="vgg16", protocol="msls-val", variants=None, cases=("a",), **more):
    """A run of four queries, the last of which does not count."""
    options = (
        {} if batches is None else {"options": {"batches": batches, "backbone": backbone, "pool": "gem"}}
    )
    evaluation = Evaluation(
        protocol={"name": protocol, "title": protocol.upper(), "ks": [1, 5]},
        model={"backbone": backbone, "pool": "gem", "training": options},
        settings={},
        cases=[{"name": case} for case in cases],
        queries=QueryList(list("wxyz"), np.resize(np.array(cases), 4), np.array([True, True, True, False])),
        variants=variants or [variant()],
    )
    return ReportRun(name, Path("nowhere"), evaluation, **more)


@pytest.fixture
def kept(monkeypatch):
    """Figures of lines are handed back instead of saved."""
    monkeypatch.setattr(paper_curves, "save", lambda figure, path: figure)


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines}


def names_of(paths):
    return [path.stem for path in paths]


# ---- files ----


def test_without_runs_the_figures_that_need_none_are_written_as_text(tmp_path):
    paths = paper_figures([], tmp_path, format="svg")
    assert names_of(paths) == ALWAYS
    assert "Conv. backbone</text>" in paths[0].read_text()
    words = paths[2].read_text()
    # the exact shares of the two borderline pairs; the paper has 55.63 % and 45.01 %
    assert "55.56 %" in words
    assert "44.97 %" in words


def test_pdf_fonts_are_embedded_truetype_not_drawings(tmp_path):
    for path in paper_figures([], tmp_path):
        content = path.read_bytes()
        assert path.suffix == ".pdf"
        assert b"/FontFile2" in content
        assert b"/Subtype /Type3" not in content


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match="'eps'"):
        paper_figures([], tmp_path, format="eps")


def test_figures_are_numbered_as_in_the_paper_without_the_point_clouds():
    numbers = [int(re.fullmatch(r"fig(\d\d)-[a-z0-9-]+", name)[1]) for name in FIGURES]
    assert numbers == [n for n in range(1, 19) if n != 7]


def test_each_data_set_has_its_own_recall_figure(tmp_path):
    def written(*runs):
        return [name for name in names_of(paper_figures(runs, tmp_path)) if name not in ALWAYS]

    assert written(run_of("a")) == ["fig09-recall"]
    assert written(run_of("a", protocol="tb-places-w18")) == ["fig10-recall-tb-places"]
    assert written(run_of("a", protocol="7scenes", cases=("heads", "fire"))) == ["fig11-recall-7scenes"]
    secret = Variant(8, None, {}, {}, {"distance": np.ones(4)})  # no truth, no recall
    assert written(run_of("a", variants=[secret])) == []


# ---- names and looks ----


def test_runs_are_named_by_backbone_pooling_and_loss():
    runs = [run_of("one"), run_of("two", "binary"), run_of("three", None, "resnext101")]
    assert [loss_of(run) for run in runs] == ["GCL", "CL", "off-the-shelf"]
    assert list(model_names(runs).values()) == ["VGG16-GeM-GCL", "VGG16-GeM-CL", "ResNeXt-GeM off-the-shelf"]
    alike = model_names([run_of("one"), run_of("two"), run_of("three", "binary")])
    assert alike == {"one": "VGG16-GeM-GCL (one)", "two": "VGG16-GeM-GCL (two)", "three": "VGG16-GeM-CL"}
    assert whitened_name(alike["one"]) == "VGG16-GeM-GCL-PCA$_w$ (one)"


def test_colour_says_loss_and_marker_backbone():
    runs = [
        run_of("g", "A"),
        run_of("b", "binary"),
        run_of("n", None),
        run_of("g2", "B"),
        run_of("r", "C", "resnet50"),
    ]
    looks = line_looks(runs, paper_curves.STREET_MARKERS)
    assert [look["color"] for look in looks.values()] == ["red", "blue", "black", "red", "red"]
    markers = [look["marker"] for look in looks.values()]
    assert markers[:3] == ["^", "^", "^"]
    assert markers[4] == "s"
    assert len({markers[0], markers[3], markers[4]}) == 3  # of one colour, none alike
    filled = line_looks([run_of("f", "A", "resnet152")], paper_curves.STREET_MARKERS)["f"]
    assert (filled["marker"], filled["markerfacecolor"]) == ("o", "red")


# ---- lines ----


def test_recall_is_over_the_queries_that_count():
    run = run_of("one", cases=("a", "b"))
    third = 100 / 3
    found = recall_curve(run.evaluation, run.evaluation.variant())
    np.testing.assert_allclose(found, [third, third, 2 * third, 2 * third, 2 * third])
    of_a = recall_curve(run.evaluation, run.evaluation.variant(), "a")  # queries w and y: ranks 1 and 3
    np.testing.assert_allclose(of_a, [50, 50, 100, 100, 100])
    assert recall_curve(run.evaluation, run.evaluation.variant(), "nowhere") is None


def test_street_recall_is_dashed_raw_and_solid_whitened(kept):
    variants = [
        variant(),
        variant(32, "the map", ranks=(1, 1, 0, 0)),
        variant(16, "the map"),
        variant(64, "streets"),
    ]
    figure = draw_street_recall([run_of("one", variants=variants)], Path("unused"))
    lines = lines_of(figure.axes[0])
    assert [line.get_linestyle() for line in lines.values()] == ["--", "-"]
    whitened = lines["VGG16-GeM-GCL-PCA$_w$"]
    np.testing.assert_allclose(whitened.get_ydata(), [200 / 3] * 5)  # the largest on the map
    assert figure.axes[0].get_xlabel().splitlines() == ["K", "(a) MSLS-VAL"]
    assert figure.axes[0].get_ylabel() == "Recall@K (%)"


def test_whitening_on_the_map_goes_first():
    both = run_of("x", variants=[variant(), variant(16, "streets"), variant(32, "the map")])
    assert list(whitened_sizes(both.evaluation)) == [32]
    other = run_of("x", variants=[variant(), variant(16, "streets")])
    assert list(whitened_sizes(other.evaluation)) == [16]
    filed = replace(variant(64, "the map"), whitened_with="w.safetensors")  # which map, is not known
    mixed = run_of("x", variants=[variant(), filed, variant(32, "the map")])
    assert list(whitened_sizes(mixed.evaluation)) == [32]
    assert whitened_sizes(run_of("x").evaluation) == {}


def test_sizes_are_of_graded_runs_with_the_raw_one_filled(kept):
    variants = [variant(), variant(64, "the map", hits=5), variant(32, "the map", hits=3)]
    runs = [run_of("g", variants=variants), run_of("b", "binary", variants=variants)]
    axes = draw_sizes(runs, Path("unused")).axes[0]
    raw, whitened = axes.lines
    np.testing.assert_allclose(raw.get_xydata(), [[512, 70]])
    np.testing.assert_allclose(whitened.get_xydata(), [[32, 40], [64, 60]])
    assert (raw.get_color(), raw.get_marker(), whitened.get_markerfacecolor()) == ("teal", "^", "none")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["32", "64", "128", "256", "512"]


def test_thresholds_have_two_panels_with_dashes_by_backbone(kept):
    curves = {
        "distance": {"k": 5, "thresholds": [5, 25], "recall": [0.2, 0.6]},
        "overlap": {"k": 5, "thresholds": [0.0, 0.5], "recall": [0.9, None]},
    }
    runs = [
        run_of(name, variants=[variant(curves=curves)], backbone=name) for name in ("resnet50", "resnet152")
    ]
    metres, overlap = draw_thresholds(runs, Path("unused")).axes
    np.testing.assert_allclose(metres.lines[0].get_xydata(), [[5, 20], [25, 60]])
    assert [line.get_linestyle() for line in metres.lines] == ["-.", "-"]
    assert np.isnan(overlap.lines[0].get_ydata()[1])
    assert metres.get_xlabel().splitlines() == ["Distance (m)", "(a)"]
    assert draw_thresholds([run_of("none")], Path("unused")) is None


def test_precision_has_a_panel_a_scene(kept):
    pairs = {scene: {"recall": [1.0, 0.5, 0.0], "precision": [0.2, 0.7, 1.0]} for scene in ("heads", "fire")}
    run = run_of("b", "binary", "resnet18", "7scenes", [variant(curves={"pairs": pairs})], ("heads", "fire"))
    panels = draw_precision([run], Path("unused")).axes
    assert [panel.get_xlabel().splitlines()[1] for panel in panels] == ["(a) heads", "(b) fire"]
    assert panels[0].lines[0].get_color() == "blue"
    np.testing.assert_allclose(panels[1].lines[0].get_xydata(), [[1, 0.2], [0.5, 0.7], [0, 1]])


@pytest.mark.parametrize("at_zero", [[], [7]])
def test_batches_are_drawn_from_their_counts(at_zero):
    kept = [3 * i for i in range(len(BINS) - 1)]
    zero, above = paper_curves._counted(BINS.tolist(), at_zero + kept)
    assert zero == sum(at_zero)
    assert above.tolist() == kept


# ---- photos ----


def table_of(folder, northing, heading):
    for i in range(len(northing)):
        Image.new("RGB", (32, 24), (8 * i % 256, 90, 120)).save(folder / f"{len(northing)}-{i}.png")
    columns = {"image": [f"{len(northing)}-{i}.png" for i in range(len(northing))], "easting": 0.0}
    return Places.build(folder, pd.DataFrame({**columns, "northing": northing, "heading": heading}))


@pytest.fixture
def street(tmp_path):
    """Two runs on 8 queries and 20 map photos along a street; the map looks back at its end."""
    queries = table_of(tmp_path, 9.0 * np.arange(8), np.zeros(8))
    places = table_of(tmp_path, 4.0 * np.arange(20), np.where(np.arange(20) < 15, 0.0, 180.0))
    overlap = label_pairs(queries, places).dense()
    top = overlap.argmax(axis=1)
    rng = np.random.default_rng(0)
    q, m = rng.normal(size=(8, 6)), rng.normal(size=(20, 6))
    outcomes = {
        "top": places.table["image"].to_numpy(dtype=np.str_)[top],
        "overlap": overlap.max(axis=1),
        "first_hit": np.ones(8, dtype=int),
    }
    evaluation = Evaluation(
        {"name": "street", "title": "Street", "ks": [1, 5]},
        {"backbone": "vgg16", "pool": "gem"},
        {"overlap": Sectors().to_dict()},
        [{"name": "street"}],
        QueryList(queries.table["image"].tolist(), np.full(8, "street"), np.ones(8, dtype=bool)),
        [Variant(6, None, {}, {}, outcomes)],
    )
    described = [Described("street", 0, queries, places, q, m)]

    def run(name, batches):
        options = {"batches": batches, "backbone": "vgg16", "pool": "gem"}
        return ReportRun(name, tmp_path / name, evaluation, {"options": options}, described=described)

    return [run("graded", "A"), run("binary", "binary")]


def test_a_run_with_photos_and_a_model_gives_its_pictures(street, tmp_path, monkeypatch):
    monkeypatch.setattr(pair_differences, "ROUNDS", 250)
    net = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(64, 64))
    for run in street:
        net.save(run.folder / "last")
    paths = paper_figures(street, tmp_path / "out", format="svg")
    pictures = ["fig01-degrees-of-similarity", *ALWAYS, "fig05-overlap-examples", "fig08-trajectories"]
    pictures += ["fig09-recall", "fig14-pair-differences", "fig15-activations", "fig18-overlap-distance-turn"]
    assert names_of(paths) == pictures
    words = {path.stem: path.read_text() for path in paths}
    shares = [int(share) for share in re.findall(r"(\d+)% overlap", words["fig01-degrees-of-similarity"])]
    assert shares[0] > 80
    assert shares[2] == 0
    assert "Hard negative match" in words["fig05-overlap-examples"]
    assert "FoV overlap 0.0%" in words["fig05-overlap-examples"]
    assert words["fig14-pair-differences"].index("(a) VGG16-GeM-CL") < words["fig14-pair-differences"].index(
        "(b)"
    )
    assert words["fig15-activations"].count("<image") >= 3 * 8  # three rows of four pairs


def test_a_table_without_its_photos_still_has_places(street, tmp_path):
    for image in tmp_path.glob("*.png"):
        image.unlink()
    found = names_of(paper_figures(street[:1], tmp_path / "out", format="svg"))
    assert "fig08-trajectories" in found
    assert "fig18-overlap-distance-turn" in found
    assert not {"fig01-degrees-of-similarity", "fig05-overlap-examples", "fig15-activations"} & set(found)


def test_the_query_whose_matches_come_closest(street):
    case = street[0].described[0]
    labels = label_pairs(case.queries, case.places)
    query, matches = query_with(labels, (0.86, 0.52))
    cost = np.abs(labels.dense()[:, :, None] - [0.86, 0.52]).min(axis=1).sum(axis=1)
    assert query == cost.argmin()
    assert [np.abs(labels.dense()[query] - wanted).argmin() for wanted in (0.86, 0.52)] == matches


def test_one_run_of_each_loss_from_the_protocol_that_has_both():
    runs = [run_of("g1", protocol="x"), run_of("b", "binary"), run_of("g2"), run_of("g3")]
    assert [run.name for run in one_of_each_loss(runs)] == ["b", "g2"]
    assert [run.name for run in one_of_each_loss([run_of("n", None)])] == ["n"]
    assert one_of_each_loss([]) == []
