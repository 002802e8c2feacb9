"""Runs read back from their folders: names, rules, matches, all as they were written."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.calibration import IsotonicCalibration
from samespot.figures.report_runs import Described, ReportRun, load_runs
from samespot.overlap.rules import Sectors

THETA, RADIUS = 80.0, 40.0  # of the fixture


@pytest.fixture
def copied(two_runs, tmp_path):
    """A run of one's own to break."""
    return shutil.copytree(two_runs.folders["graded"], tmp_path / "graded")


def test_a_run_brings_all_that_its_folder_holds(two_runs):
    run, other = load_runs([two_runs.folders["graded"], two_runs.folders["binary"]])
    assert (run.name, run.binary, other.binary) == ("graded", False, True)
    measured = two_runs.done["graded"].evaluation.variant().metrics["R@1"]
    assert run.evaluation.variant().metrics["R@1"].value == pytest.approx(measured.value, abs=1e-6)
    assert len(run.metrics) == 40
    assert run.batches["strategies"] == {"A": [70, 0, 10, 20, 30]}
    assert [case.name for case in run.described] == ["street"]


def test_names_are_short_and_never_alike(two_runs, tmp_path):
    (tmp_path / "seeds").mkdir()
    lone = shutil.copy(
        two_runs.folders["graded"] / "evaluation" / "evaluation.json", tmp_path / "seeds" / "A-0.json"
    )
    again = shutil.copytree(two_runs.folders["graded"], tmp_path / "seeds" / "graded")
    runs = load_runs([two_runs.folders["graded"] / "evaluation", again, lone, lone])
    above = two_runs.root.name
    assert [run.name for run in runs] == [f"{above}/graded", "seeds/graded", "seeds/A-0", "seeds/A-0 (4)"]
    assert not runs[2].described


def test_what_is_no_run_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        load_runs([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="neither a run nor an evaluation"):
        load_runs([tmp_path])
    with pytest.raises(InputError, match="at least one"):
        load_runs([])


def test_matches_are_those_of_brute_force_and_agree_with_what_was_recorded(two_runs):
    (run,) = load_runs([two_runs.folders["binary"]])
    (case,) = run.described
    apart = np.linalg.norm(
        case.query_vectors[:, None].astype(np.float64) - case.place_vectors[None].astype(np.float64), axis=2
    )
    np.testing.assert_array_equal(case.matches.rows[:, :3], np.argsort(apart, axis=1)[:, :3])
    outcomes = run.evaluation.variant().outcomes
    np.testing.assert_array_equal(case.place_names[case.matches.rows[:, 0]], outcomes["top"])
    np.testing.assert_allclose(case.matches.distances[:, 0], outcomes["distance"], atol=2e-6)
    some = np.array([3, 1]), np.array([5, 0, 2])
    np.testing.assert_allclose(case.distances(*some), apart[np.ix_(*some)], atol=1e-7)


def test_an_unread_photo_has_no_distance(two_runs):
    places = two_runs.case.places
    vectors = np.eye(len(places), dtype=np.float32)
    vectors[4] = 0
    one = Described("self", 0, places, places, vectors, vectors)
    apart = one.distances(np.array([4, 5]), np.array([4, 6]))
    assert np.isnan(apart[0]).all()
    assert np.isnan(apart[1, 0])
    assert apart[1, 1] == pytest.approx(np.sqrt(2))


def test_the_rule_is_that_of_the_truth_or_else_of_what_was_learned_from(two_runs, copied):
    """Recorded, never guessed: without a word of it there is none."""
    (run,) = load_runs([two_runs.folders["graded"]])
    assert run.rule == Sectors(THETA, RADIUS)
    file = copied / "evaluation" / "evaluation.json"
    said = json.loads(file.read_text())
    said["settings"]["overlap"] = {"measure": "shared view", "kind": "true visual overlap"}
    file.write_text(json.dumps(said))
    config = json.loads((copied / "config.json").read_text())
    config["sets"] = [
        {"measure": "within", "metres": 15, "degrees": 40},
        {**config["sets"][0], "radius": 7.0},
    ]
    (copied / "config.json").write_text(json.dumps(config))
    assert load_runs([copied])[0].rule == Sectors(THETA, 7.0)
    (copied / "config.json").unlink()
    assert load_runs([copied])[0].rule is None


def test_an_evaluation_of_the_old_format_has_no_matches(copied):
    """As samespot 0.1 wrote it: names of folders instead of paths, and a part of the rule."""
    file = copied / "evaluation" / "evaluation.json"
    said = json.loads(file.read_text())
    said["format"] = 1
    del said["matches"]
    for case in said["cases"]:
        del case["descriptors"]
    for key in ("unknown_heading", "panoramas"):
        del said["settings"]["overlap"][key]
    file.write_text(json.dumps(said))
    (run,) = load_runs([copied])
    (case,) = run.described
    assert case.matches is None
    assert run.rule == Sectors(THETA, RADIUS)


def test_matches_of_another_evaluation_are_not_taken_for_its_own(two_runs, copied):
    """As after a kill between the two files."""
    shutil.copy(two_runs.folders["binary"] / "evaluation" / "matches.safetensors", copied / "evaluation")
    assert load_runs([copied])[0].described[0].matches is None


def test_an_evaluation_can_be_moved(two_runs, tmp_path):
    moved = shutil.copytree(two_runs.folders["graded"] / "evaluation", tmp_path / "elsewhere")
    (run,) = load_runs(moved / "evaluation.json")
    assert run.name == "elsewhere"
    assert run.described[0].matches is not None


def test_what_evaluate_returned_is_a_run(two_runs):
    done = two_runs.done["graded"]
    (bare,) = load_runs(done)
    assert (bare.evaluation, list(bare.described)) == (done.evaluation, [])
    written = SimpleNamespace(files=[two_runs.folders["graded"] / "evaluation" / "evaluation.json"])
    (run,) = load_runs([written])
    assert run.described[0].matches is not None
    trained = SimpleNamespace(run=two_runs.folders["graded"])
    assert load_runs([trained])[0].metrics


def test_descriptors_of_other_photos_are_left_aside(two_runs, copied):
    folder = copied / "evaluation" / "descriptors" / "street-map"
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "places": "of another table"}))
    assert load_runs([copied])[0].described == []


def test_predicted_overlap_is_by_the_margin_or_by_a_fitted_curve(copied):
    (run,) = load_runs([copied])
    np.testing.assert_allclose(run.predicted([0.0, 0.2, 0.9]), [1.0, 0.6, 0.0])
    curve = IsotonicCalibration(np.array([0.1, 0.3]), np.array([0.8, 0.2]), "other places", 5)
    curve.save(copied / "evaluation" / "calibration" / "16.json")
    (run,) = load_runs([copied])
    np.testing.assert_allclose(run.predicted([0.05, 0.2, 0.9]), [0.8, 0.5, 0.2])


def test_options_come_from_the_model_where_there_is_no_run(two_runs):
    evaluation = two_runs.done["graded"].evaluation
    model = {"training": {"options": {"batches": "binary"}}}
    bare = ReportRun("x", two_runs.root, replace(evaluation, model=model))
    assert bare.binary
    assert not ReportRun("y", two_runs.root, evaluation).options
