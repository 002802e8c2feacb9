"""The report as text: numbers that are in it, what is left out, names that cannot break out, photos once each."""

import json
import os
import re
import shutil
from base64 import b64decode
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.evaluation.compare import compare
from samespot.evaluation.protocols.tables import table_case
from samespot.evaluation.protocols.town import SharedView
from samespot.figures.report import write_report
from samespot.figures.report_networks import differences_of
from samespot.figures.report_runs import ActivationRow, ReportRun, RunDifferences, load_runs
from samespot.figures.report_sections.calibration import calibration
from samespot.figures.report_sections.explorer import (
    distance_bytes,
    overlap_bytes,
    sample_places,
    sample_queries,
)
from samespot.figures.report_sections.gallery import gallery, kinds_of, matches_of, shown_runs
from samespot.figures.report_sections.looks import colours, dash_of, main_variants, smoothed
from samespot.figures.report_sections.markup import embedded, percent
from samespot.figures.report_sections.network import heated
from samespot.figures.report_sections.photos import ABSENT, PhotoStore
from samespot.figures.report_sections.recall import recall, recalls_at_each_k
from samespot.figures.report_sections.summary import summary
from samespot.figures.report_sections.training import label_histograms, training_curves
from samespot.overlap.rules import Within
from samespot.retrieval.search import search


@pytest.fixture(scope="session")
def runs(two_runs):
    return load_runs([two_runs.folders["graded"], two_runs.folders["binary"]])


@pytest.fixture(scope="session")
def page(runs, tmp_path_factory):
    """The html without plotly's own script, which is 5 MB of other people's text."""
    path = write_report(runs, tmp_path_factory.mktemp("page") / "report.html")
    scripts = re.split(r"(<script>)", path.read_text())
    assert scripts.count("<script>") == 2  # plotly's once, and the page's own
    return scripts[0] + scripts[4]


def sections(html):
    return re.findall(r'<section id="([\w-]+)"', html)


def test_every_section_is_there_once_and_in_the_contents(page):
    anchors = sections(page)
    assert anchors == [
        "summary",
        "pairs",
        "labels",
        "training",
        "recall",
        "calibration",
        "gallery",
        "settings",
    ]
    for anchor in anchors:
        assert page.count(f'<a href="#{anchor}">') == 2  # beside the page, and in the menu of a phone


def test_nothing_is_fetched_from_anywhere(page):
    addresses = re.findall(r"""(?:src|href|action|poster)=["']?([^"'\s>]+)""", page.replace("onerror", ""))
    assert {address[0] for address in addresses if address != "x"} == {"#"}
    assert not re.search(r"url\(\s*[\"']?(?!#)http|@import|fetch\(|XMLHttpRequest", page)
    assert "default-src 'none'" in page


def test_the_table_has_the_numbers_of_the_evaluations_and_of_their_comparison(page, runs):
    for run in runs:
        score = run.evaluation.variant().metrics["R@1"]
        cell = f'<span class="value">{percent(score.value)}</span>'
        assert f'{cell} <span class="interval">[{percent(score.low)}, {percent(score.high)}]</span>' in page
    made = compare([runs[0].evaluation], [runs[1].evaluation])
    for one in made.differences:
        if one.metric in ("R@1", "overlap@1"):
            assert f'<span class="value">{percent(one.difference.value, signed=True)}</span>' in page
    verdicts = sum(page.count(f">{word}<") for word in ("better", "worse", "inconclusive"))
    # R@1, R@5, R@10, overlap@1, nDCG@10 of three kinds of descriptors, and the large figure
    assert verdicts >= 5 * 2 + 1


def test_a_win_is_a_tick_a_loss_is_not_and_the_rest_is_neither(runs):
    """A significant loss used to be a green tick, too."""
    first, second = (run.evaluation.variant() for run in runs)
    always, never = (np.full_like(first.outcomes["first_hit"], hit) for hit in (1, 0))

    def said(mine, theirs):
        sides = zip(runs, (first, second), (mine, theirs), strict=True)
        changed = [
            replace(
                run,
                evaluation=replace(
                    run.evaluation,
                    variants=[replace(variant, outcomes={**variant.outcomes, "first_hit": hits})],
                ),
            )
            for run, variant, hits in sides
        ]
        return re.search(r'class="card difference">.*?</div>', summary(changed).body)[0]

    assert '<span class="verdict better">better</span>' in said(always, never)
    assert '<span class="verdict worse">worse</span>' in said(never, always)
    assert '<span class="verdict open">inconclusive</span>' in said(always, always)


def test_lines_and_bars_are_explained_where_they_are_drawn(runs):
    body = recall(runs).body
    assert '<span class="swatch dots" style="--swatch:var(--grey)"' in body
    assert "usual rule: 25 m and ψ 0.5" in body
    assert "vertical dotted line marks the usual rule" in body
    evaluation, variant = runs[0].evaluation, runs[0].evaluation.variant()
    curves = {**variant.curves, "calibration, isotonic": variant.curves["calibration"]}
    both = replace(runs[0], evaluation=replace(evaluation, variants=[replace(variant, curves=curves)]))
    body = calibration([both]).body
    assert "Solid lines and bars: overlap predicted as 1 − d/τ" in body
    assert "Dotted lines and pale bars: predicted by a curve" in body
    assert body.count('class="swatch line-and-bar"') == body.count('class="swatch dots-and-pale-bar"') == 1
    assert "pale bars" not in calibration(runs).body  # there are none


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"accepted": 120},
            "accept d ≤ 0.183: 96.0\u00a0% of 120 answers were right (95\u00a0% interval 91.0–98.0\u00a0%), 60.0\u00a0%"
            " of the queries in the map are answered correctly, 3.0\u00a0% of those not in the map are accepted",
        ),
        ({"accepted": 1}, "no threshold can be named: the best rests on 1 answer, and 20 are needed"),
        ({"accepted": 20}, "of 20 answers were right"),
        ({"accepted": 99, "asked": 0.99}, "rests on 99 answers, and 100 are needed"),
        (
            {"reached": False, "distance": None},
            "no threshold on the distance is enough; the best is 90.0\u00a0%",
        ),
    ],
)
def test_a_promise_has_its_interval_and_its_number_of_answers_or_is_not_made(runs, changes, words):
    at = {
        "asked": 0.95,
        "reached": True,
        "distance": 0.183,
        "precision": 0.96,
        "recall": 0.6,
        "false_accepts": 0.03,
    }
    at |= {"low": 0.91, "high": 0.98, "accepted": 120, "best": 0.9, **changes}
    evaluation, variant = runs[0].evaluation, runs[0].evaluation.variant()
    curves = {**variant.curves, "acceptance": {**variant.curves["acceptance"], "at": at}}
    known = replace(evaluation, variants=[replace(variant, curves=curves)])
    body = calibration([replace(runs[0], evaluation=known)]).body
    assert words in body
    assert "\u00a0% of the time, " in body
    promised = "of the time, accept d" in body
    assert promised == ("circle-open" in body) == ("Rings mark" in body)


def test_names_cannot_break_out_of_the_page(page):
    assert "<img src=x" not in page
    assert "<script>window.hacked" not in page
    assert "night <b>" not in page
    assert "Two &lt;streets&gt;" in page
    assert "night \\u0026lt;b\\u0026gt;" in page  # on an axis of plotly, which reads html
    assert "Straße №7 ψ.png" in page
    for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S):
        json.loads(text)


def test_embedded_values_survive_and_cannot_end_their_element():
    value = {
        "name": "</script><!-- & \u2028",
        "numbers": [1.5, float("nan"), np.float32(0.25)],
        "rows": np.eye(2),
    }
    text = embedded(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {
        "name": "</script><!-- & \u2028",
        "numbers": [1.5, None, 0.25],
        "rows": [[1, 0], [0, 1]],
    }


def test_an_evaluation_alone_has_neither_photos_nor_training(two_runs, tmp_path):
    file = shutil.copy(two_runs.folders["graded"] / "evaluation" / "evaluation.json", tmp_path / "alone.json")
    alone = load_runs([file])
    html = write_report(alone, tmp_path / "a.html").read_text()
    assert sections(html) == ["summary", "recall", "calibration", "settings"]
    assert "not in these runs" not in html


def test_a_run_without_evaluation_shows_its_training(runs, tmp_path):
    bare = replace(runs[0], evaluation=None, described=())
    html = write_report([bare], tmp_path / "b.html").read_text()
    assert sections(html) == ["labels", "training", "settings"]


def test_of_other_protocols_nothing_is_subtracted(runs, tmp_path):
    other = replace(
        runs[1].evaluation, protocol={**runs[1].evaluation.protocol, "name": "other", "title": "Other"}
    )
    html = write_report([runs[0], replace(runs[1], evaluation=other)], tmp_path / "c.html").read_text()
    assert "Who is better?" not in html
    assert "<h3>Other</h3>" in html


def test_an_unwritable_place_is_told_in_one_line(runs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report([replace(runs[0], evaluation=None, described=())], tmp_path / "file" / "r.html")
    with pytest.raises(InputError, match="no runs"):
        write_report([], tmp_path / "r.html")


def test_pictures_of_the_network_are_shown_where_they_are_given(runs, two_runs, tmp_path):
    dots = RunDifferences(np.zeros((7, 2)), np.linspace(0, 1, 7), "graded")
    photo = two_runs.case.queries.images[5]
    row = ActivationRow(photo, {"graded": np.eye(3), "binary": np.ones((3, 3))})
    html = write_report(runs, tmp_path / "d.html", differences=[dots], activations=[row]).read_text()
    assert "network" in sections(html)
    assert "7 pairs laid out by t-SNE" in html
    assert html.count("with the activation of") == 2


def test_heat_is_brightest_where_the_activation_is():
    activation = np.zeros((4, 4))
    activation[0, 3] = 2.0
    picture = heated(np.full((80, 120, 3), 90, np.uint8), activation)
    assert picture.shape == (80, 120, 3)
    row, column = np.unravel_index(picture.sum(axis=2).argmax(), (80, 120))
    assert row < 20
    assert column >= 90
    assert np.isfinite(heated(picture, np.zeros((2, 2)))).all()


def test_graded_is_blue_and_binary_orange_whatever_the_order(runs):
    assert colours(runs) == {"graded": "c0", "binary": "c1"}
    assert colours(runs[::-1]) == {"graded": "c0", "binary": "c1"}
    eight = [SimpleNamespace(name=str(i), binary=i == 5) for i in range(8)]
    shown = colours(eight)
    assert shown["5"] == "c1"
    assert len(set(shown.values())) == 8


def test_recall_at_each_k_meets_the_evaluation_where_it_measured(runs):
    evaluation = runs[1].evaluation
    for variant in evaluation.variants:
        found = recalls_at_each_k(evaluation, variant)
        assert sorted(found) == list(range(1, 11))
        for k in (1, 5, 10):
            assert found[k].value == pytest.approx(variant.metrics[f"R@{k}"].value, abs=1e-6)
            assert found[k].low == pytest.approx(variant.metrics[f"R@{k}"].low, abs=1e-6)


def test_overlaps_and_distances_come_back_from_their_bytes():
    overlap = np.array([[0.0, 0.5], [1.0, np.nan]])
    steps = np.frombuffer(b64decode(overlap_bytes(overlap)), np.uint8)
    np.testing.assert_array_equal(steps, [0, 125, 250, 255])
    apart = np.array([[0.0, 0.12345], [2.0, np.nan]])
    steps = np.frombuffer(b64decode(distance_bytes(apart)), "<u2")
    np.testing.assert_allclose(steps[:3] / 20_000, [0.0, 0.12345, 2.0], atol=1 / 40_000)
    assert steps[3] == 65_535


def test_the_sample_has_the_gallery_then_the_best_answers(runs):
    there = shown_runs(runs)
    cases = [run.described[0] for run, _ in there]
    queries = sample_queries(there, cases[0], 6, seed=0)
    assert len(queries) == 6
    assert sorted(set(queries.tolist())) == queries.tolist()
    label = runs[0].rule.label(cases[0].queries.select(queries), cases[0].places).dense()
    places = sample_places(cases[0], cases, queries, label, 30, seed=0).tolist()
    assert places == list(range(30))  # there is room for all
    few = sample_places(cases[0], cases, queries[:2], label[:2], 6, seed=0).tolist()
    for case in cases:
        assert set(case.matches.rows[queries[:2], 0].tolist()) <= set(few)
    assert set(label[:2].argmax(axis=1).tolist()) <= set(few)


def test_kinds_of_answers_split_the_queries_that_count(runs):
    there = shown_runs(runs)
    kinds = kinds_of(there)
    right = [np.asarray(one.variant().outcomes["first_hit"]) == 1 for _, one in there]
    counted = there[0][1].queries.counted
    assert [kind.name for kind in kinds][:2] == ["only graded finds it", "only binary finds it"]
    assert len(kinds[0].queries) == (right[0] & ~right[1] & counted).sum()
    assert sum(len(kind.queries) for kind in kinds) == counted.sum()
    assert [kind.name for kind in kinds_of(there[:1])] == ["found", "missed"]


def test_matches_are_those_of_the_evaluation_with_their_truth(runs, two_runs):
    run, _ = shown_runs(runs)[1]
    case, done = run.described[0], two_runs.done["binary"]
    found, truth = done.found["16"][0], done.labels[0]
    for query in range(len(case.queries)):
        matches = matches_of(run, case, query, run.rule)
        assert [match.place for match in matches] == found.rows[query, :4].tolist()
        positives = set(two_runs.case.positives[query].tolist())
        assert [match.right for match in matches] == [match.place in positives for match in matches]
        for match in matches:
            overlap = float(truth.lookup(np.array(query), np.array(match.place)))
            assert match.label == pytest.approx(overlap, abs=1e-5)
            assert match.true is None


def test_photos_that_the_protocol_excludes_are_not_in_the_gallery(two_runs, tmp_path):
    """The report used to search again, without exclusions, and put the marks of other photos on what it found."""
    queries, places = two_runs.case.queries, two_runs.case.places
    taken = [replace(t, table=t.table.assign(time=np.arange(len(t)) * 60.0)) for t in (queries, places)]
    case = table_case(*taken, within=Within(60.0, None), time_gap=np.timedelta64(180, "s"), name="street")
    two_runs.save_run(tmp_path / "run", "A", case, 0.25, 3)
    (run,) = load_runs(tmp_path / "run")
    minutes = np.abs(np.arange(len(queries))[:, None] - np.arange(len(places))[None])
    searched_again = search(run.described[0].query_vectors, run.described[0].place_vectors, 4).rows
    barred = np.take_along_axis(minutes, searched_again, axis=1) < 3
    assert barred.sum() > 5  # without the exclusion they would be found
    for query in range(len(queries)):
        matches = matches_of(run, run.described[0], query, run.rule)
        assert len(matches) == 4
        assert all(minutes[query, match.place] >= 3 for match in matches)
        expected = [match.place in case.positives[query] for match in matches]
        assert [match.right for match in matches] == expected
    html = gallery([run], PhotoStore()).body
    named = re.findall(r"match \d, (right|wrong): ([^\"]+)\"", html)
    assert len(named) >= 8
    assert {mark for mark, _ in named} == {"right", "wrong"}


def test_a_map_against_itself_has_its_gallery_pairs_and_matches(two_runs, tmp_path):
    """Its descriptors are kept once, under the map's name."""
    places = two_runs.case.places
    case = table_case(places, places, within=Within(25.0, None), theta=80.0, radius=40.0, name="street")
    two_runs.save_run(tmp_path / "run", "A", case, 0.25, 3)
    assert [path.name for path in (tmp_path / "run/evaluation/descriptors").iterdir()] == ["street-map"]
    (run,) = load_runs(tmp_path / "run")
    html = write_report([run], tmp_path / "r.html").read_text()
    assert {"pairs", "gallery"} <= set(sections(html))
    assert 'class="answer"' in html
    (own,) = run.described
    assert not (own.matches.rows == np.arange(len(places))[:, None]).any()  # no photo finds itself
    assert differences_of([run])[0].run == "run"


def test_an_evaluation_without_matches_says_so_in_one_line(runs, tmp_path):
    cases = [replace(case, matches=None) for case in runs[0].described]
    old = replace(runs[0], described=cases)
    body = gallery([old], PhotoStore()).body
    assert "The evaluation of graded did not keep its matches: evaluate again" in body
    assert "answer" not in body.replace("answers", "")
    both = gallery([old, runs[1]], PhotoStore()).body
    assert "The evaluation of graded did not keep its matches" in both
    assert 'class="answer"' in both  # those of the other run
    assert "pairs" in sections(write_report([old], tmp_path / "o.html").read_text())


def test_measured_overlap_stands_beside_the_label(runs, tmp_path, monkeypatch):
    """Where the graded truth was measured, the label is that of the sectors that the run learned from."""
    told = {"measure": "shared view", "kind": SharedView.KIND}
    evaluation = replace(runs[0].evaluation, settings={**runs[0].evaluation.settings, "overlap": told})
    (case,) = runs[0].described
    shared = replace(case.matches, overlap=np.full(case.matches.rows.shape, 0.375, np.float32))
    run = replace(runs[0], evaluation=evaluation, described=[replace(case, matches=shared)])
    match = matches_of(run, run.described[0], 2, run.rule)[0]
    pair = np.array([[2, match.place]])
    assert match.label == run.rule.of_pairs(case.queries, case.places, pair)[0]
    assert match.true == 0.375

    def measured(self, queries, places):
        return SimpleNamespace(dense=lambda: np.full((len(queries), len(places)), 0.375))

    monkeypatch.setattr(SharedView, "unknown", lambda self, table: {})
    monkeypatch.setattr(SharedView, "label", measured)
    html = write_report([run], tmp_path / "t.html").read_text()
    assert "<span>true 0.38</span>" in html
    facts = json.loads(re.search(r'id="explorer-data">(.*?)</script>', html, re.S)[1])
    truth = np.frombuffer(b64decode(facts["cases"][0]["truth"]), np.uint8)
    assert len(truth) == 14 * 30
    assert (truth == 94).all()  # 0.375 of 250 steps, rounded


def test_photos_are_kept_once_small_and_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side
    Image.new("RGB", (400, 200)).save(tmp_path / "a.jpg", exif=exif)
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    store = PhotoStore()
    asked = [tmp_path / name for name in ("a.jpg", "broken.png", "a.jpg", "absent.png")]
    assert store.add(asked) == [0, ABSENT, 0, ABSENT]
    assert store.add(asked[:1]) == [0]
    assert len(store.pictures) == 1
    head, _, content = store.pictures[0].partition(",")
    assert head == "data:image/webp;base64"
    (tmp_path / "back.webp").write_bytes(b64decode(content))
    with Image.open(tmp_path / "back.webp") as image:
        assert image.size == (100, 200)
    assert store.shape == 0.75  # half as wide as tall, but no frame is that narrow


def test_what_is_no_photo_is_absent_and_a_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "words.jpg").write_text("no image")
    (tmp_path / "folder.jpg").mkdir()
    paths = [tmp_path / f"{name}.jpg" for name in ("pipe", "empty", "words", "folder", "nowhere")]
    assert PhotoStore().add(paths) == [ABSENT] * len(paths)


def test_histograms_have_a_bar_for_pairs_without_overlap_and_merge_by_name(runs):
    html = label_histograms(runs).body
    specs = [json.loads(text) for text in re.findall(r'class="plot-spec">(.*?)</script>', html)]
    assert [spec["data"][0]["y"] for spec in specs] == [[70, None, 10, 20, 30]] * 2
    assert specs[0]["data"][0]["x"] == [-0.05, 0.125, 0.375, 0.625, 0.875]
    kinds = [colour[1:] for colour in specs[0]["data"][0]["marker"]["color"]]
    assert kinds == ["hard-negative", "soft-negative", "soft-negative", "positive", "hard-positive"]
    twin = ReportRun("twin", runs[0].folder, batches=runs[0].batches)
    assert label_histograms([runs[0], twin]).body.count("plot-spec") == 1
    drew_more = {"bins": [0, 0.5, 1], "strategies": {"A": [5, 6]}}
    other = ReportRun("other", runs[0].folder, batches=drew_more)
    assert "A, other" in label_histograms([runs[0], other]).body


def test_a_run_that_logged_once_has_a_dot_that_can_be_seen(runs):
    once = replace(runs[0], metrics=[{"step": 4, "loss": 0.03, "zero_losses": 0.1}])
    for body, mode in ((training_curves([once]).body, "markers"), (training_curves(runs[:1]).body, "lines")):
        specs = [json.loads(text) for text in re.findall(r'class="plot-spec">(.*?)</script>', body)]
        assert {line["mode"] for spec in specs[:2] for line in spec["data"]} == {mode}


def test_a_moving_average_of_a_constant_is_that_constant():
    np.testing.assert_allclose(smoothed(np.full(30, 2.5), 5), 2.5)
    ramp = smoothed(np.arange(100.0), 10)
    assert ramp[0] == 0
    assert 88 < ramp[-1] < 92  # lags behind by about what it forgets over


def test_percent_has_a_real_minus_and_no_signed_zero():
    assert [percent(x, signed=True) for x in (0.083, -0.0412, -0.0001)] == ["+8.3", "−4.1", "0.0"]
    assert percent(0.5) == "50.0"


# ---- re-ranked lists ----


@pytest.fixture(scope="session")
def reranked(runs):
    """Both runs with the lists of their plain descriptors also re-ranked: every query finds its place first."""

    def with_better(run):
        plain = run.evaluation.variant()
        outcomes = {**plain.outcomes, "first_hit": np.ones_like(plain.outcomes["first_hit"])}
        curves = {name: plain.curves[name] for name in ("distance", "overlap")}
        metrics = {name: replace(one, value=1.0, high=1.0) for name, one in plain.metrics.items()}
        changes = {"metrics": metrics, "outcomes": outcomes, "curves": curves, "reranked_by": "xfeat"}
        better = replace(plain, **changes)
        first, *others = run.evaluation.variants
        return replace(run, evaluation=replace(run.evaluation, variants=[first, better, *others]))

    return [with_better(run) for run in runs]


def plots(section):
    found = re.findall(r'class="plot-spec">(.*?)</script>', section.body, re.S)
    return [[one for one in json.loads(text)["data"] if "name" in one] for text in found]


def test_re_ranked_lists_have_lines_of_their_own(reranked):
    section = recall(reranked)
    by_rank, by_dims, by_distance, by_overlap, *_ = plots(section)
    for lines in (by_rank, by_distance, by_overlap):
        looks = {line["name"]: (line["line"]["dash"], line["marker"]["symbol"]) for line in lines}
        assert looks["graded, 16 dims, as described"] == ("solid", "circle")
        assert looks["graded, 16 dims, as described, re-ranked by xfeat"] == ("dashdot", "circle-open")
        assert looks["graded, 8 dims, whitened on the map"] == ("dash", "circle")
        assert looks["binary, 16 dims, as described, re-ranked by xfeat"] == ("dashdot", "square-open")
        colours = {line["name"]: line["line"]["color"] for line in lines}
        assert (
            colours["graded, 16 dims, as described, re-ranked by xfeat"]
            == colours["graded, 16 dims, as described"]
        )
    better = next(
        line for line in by_rank if line["name"] == "graded, 16 dims, as described, re-ranked by xfeat"
    )
    assert set(better["y"]) == {100}
    assert not any("re-ranked" in line["name"] for line in by_dims)  # it is no matter of size
    assert section.body.count('<span class="swatch dashdot"') == 2 * 2  # in two legends, of each run
    assert "open marks: re-ranked" in section.body


def test_re_ranked_lists_stand_in_the_table_and_leave_the_headline_to_the_plain_ones(reranked, runs):
    plain, both = summary(runs).body, summary(reranked).body
    headline = re.compile(r'<p class="headline">.*?</p>')
    assert headline.search(plain)[0] == headline.search(both)[0]
    scores = re.search(r"<table[^>]*scores.*?</table>", both, re.S)[0]
    assert scores.count("16 dims, as described, re-ranked by xfeat") == 2
    assert "the largest size is shown" in both
    alone = [
        replace(run, evaluation=replace(run.evaluation, variants=run.evaluation.variants[:2]))
        for run in reranked
    ]
    assert "the largest size is shown" not in summary(alone).body  # nothing is whitened


def test_a_whitening_from_a_file_is_one_more_kind(runs):
    evaluation = runs[0].evaluation
    largest = evaluation.variant("8 whitened on the map")
    filed = replace(largest, whitened_with="w.safetensors")  # fitted on a map, too, but on which?
    known = replace(evaluation, variants=[*evaluation.variants, filed])
    assert [one.title for one in main_variants(known)] == [
        "16 dims, as described",
        "8 dims, whitened on the map",
        "8 dims, whitened with w.safetensors",
    ]
    assert [dash_of(one, known) for one in main_variants(known)] == ["solid", "dash", "dot"]
    names = [line["name"] for line in plots(recall([replace(runs[0], evaluation=known)]))[0]]
    assert names[-1] == "graded, 8 dims, whitened with w.safetensors"
