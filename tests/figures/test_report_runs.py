"""Runs read back from their folders: names, sectors found out from recorded overlaps, lists searched again."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.calibration import IsotonicCalibration
from samespot.figures.report_runs import Described, ReportRun, SectorRule, load_runs
from samespot.overlap.rules import label_pairs
from samespot.places.table import Places


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


def test_lists_are_those_of_brute_force_and_agree_with_what_was_recorded(two_runs):
    (run,) = load_runs([two_runs.folders["binary"]])
    (case,) = run.described
    apart = np.linalg.norm(
        case.query_vectors[:, None].astype(np.float64) - case.place_vectors[None].astype(np.float64), axis=2
    )
    np.testing.assert_array_equal(case.found.rows[:, :3], np.argsort(apart, axis=1)[:, :3])
    outcomes = run.evaluation.variant().outcomes
    np.testing.assert_array_equal(case.place_names[case.found.rows[:, 0]], outcomes["top"])
    np.testing.assert_allclose(case.found.distances[:, 0], outcomes["distance"], atol=2e-6)
    some = np.array([3, 1]), np.array([5, 0, 2])
    np.testing.assert_allclose(case.distances(*some), apart[np.ix_(*some)], atol=1e-7)


def test_a_photo_never_finds_itself_and_an_unread_one_has_no_distance(two_runs):
    places = two_runs.case.places
    vectors = np.eye(len(places), dtype=np.float32)
    vectors[4] = 0
    one = Described("self", 0, places, places, vectors, vectors)
    assert not (one.found.rows == np.arange(len(places))[:, None]).any()
    assert (one.found.rows[4] == -1).all()
    apart = one.distances(np.array([4, 5]), np.array([4, 6]))
    assert np.isnan(apart[0]).all()
    assert np.isnan(apart[1, 0])
    assert apart[1, 1] == pytest.approx(np.sqrt(2))


def test_the_sectors_are_found_out_from_the_recorded_overlaps(two_runs, copied):
    (run,) = load_runs([two_runs.folders["graded"]])
    assert run.rule == SectorRule(80.0, 40.0)
    # without its training set's word for it, only a usual rule could do, and none explains these overlaps
    (copied / "config.json").unlink()
    said = json.loads((copied / "evaluation" / "evaluation.json").read_text())
    del said["settings"]["overlap"]
    (copied / "evaluation" / "evaluation.json").write_text(json.dumps(said))
    assert load_runs([copied])[0].rule is None
    said["settings"]["overlap"] = {"theta": 80, "radius": 40}
    (copied / "evaluation" / "evaluation.json").write_text(json.dumps(said))
    assert load_runs([copied])[0].rule == SectorRule(80.0, 40.0)
    for variant in said["variants"]:
        variant["per_query"]["overlap"][0] = 0.123
    (copied / "evaluation" / "evaluation.json").write_text(json.dumps(said))
    assert load_runs([copied])[0].rule is None


def test_labels_of_all_pairs_are_those_of_label_pairs(tmp_path):
    dice = np.random.default_rng(0)
    table = {
        "image": [f"{i}.png" for i in range(20)],
        "easting": dice.uniform(0, 60, 20),
        "northing": dice.uniform(0, 60, 20),
        "heading": dice.uniform(0, 360, 20),
        "pano": dice.random(20) < 0.3,
    }
    table["heading"][np.flatnonzero(table["pano"])[0]] = np.nan
    places = Places.build(tmp_path, table, missing_images="ignore")
    expected = label_pairs(places, places, 70.0, 25.0).dense()
    rule = SectorRule(70.0, 25.0)
    apart = ~np.eye(20, dtype=bool)
    np.testing.assert_allclose(rule.overlap(places, places)[apart], expected[apart], atol=1e-6)
    pairs = rule.overlap_of_pairs(places.select(np.arange(19)), places.select(np.arange(1, 20)))
    np.testing.assert_allclose(pairs, expected[np.arange(19), np.arange(1, 20)], atol=1e-6)


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
