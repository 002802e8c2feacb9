"""The demo, small: every stage leaves what the next one finds, and a stopped demo goes on."""

import json
import re
from functools import partial

import numpy as np
import pytest

from samespot.demo import RECIPES, demo_options, labelled, run_demo, training_photos, whitened_sizes
from samespot.evaluation.results import Evaluation
from samespot.maps import build
from samespot.maps.map import open_map
from samespot.places.table import Places

SMALL = {"visits": 2, "photos_per_visit": 90, "steps": 3}


class StoppedError(Exception):
    pass


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Stopped as the second training begins, and called again; its map asks itself about few photos."""
    out = tmp_path_factory.mktemp("demo")
    seen = []

    def stop_at_the_second(what):
        seen.append(what)
        if sum("Training" in one for one in seen) == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        run_demo(out, stage=stop_at_the_second, **SMALL)
    kept = {path: path.read_bytes() for path in (out / "graded" / "last").glob("*.safetensors")}
    photos = {path: path.stat().st_mtime_ns for path in (out / "town" / "photos").rglob("*.jpg")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "calibrate", partial(build.calibrate, questions=8))
        return out, run_demo(out, **SMALL), kept, photos


def test_a_stopped_demo_goes_on_where_it_was(demo):
    _, _, kept, photos = demo
    assert photos
    assert all(path.stat().st_mtime_ns == when for path, when in photos.items())
    assert kept
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_only_the_labels_differ():
    one, other = (demo_options(name).to_dict() for name in RECIPES)
    assert {key for key in one if one[key] != other[key]} == {"batches"}


def test_the_result_is_what_the_files_say(demo):
    out, result, _, _ = demo
    for name, evaluation in result.evaluations.items():
        saved = Evaluation.load(out / name / "evaluation")
        np.testing.assert_array_equal(
            saved.variant().outcomes["first_hit"], evaluation.variant().outcomes["first_hit"]
        )
    assert [name.split()[0] for name in result.differences] == ["1280", "32"]
    for descriptor, comparison in result.differences.items():
        first = comparison.differences[0]
        recalls = [
            result.evaluations[name].variant(descriptor).metrics[first.metric].value for name in RECIPES
        ]
        assert first.difference.value == pytest.approx(recalls[0] - recalls[1])


def test_it_is_whitened_on_the_map_and_on_the_training_quarter(demo):
    _, result, _, _ = demo
    for evaluation in result.evaluations.values():
        found = {(one.dims, one.whitened_on) for one in evaluation.variants}
        assert {(1280, None), (32, "the map")} < found
        assert len(found) == 3


def test_a_small_town_is_whitened_to_what_its_photos_span():
    assert [whitened_sizes(photos) for photos in (18, 32, 33, 674)] == [[], [], [32], [32, 128, 256]]


def test_training_and_test_streets_are_disjoint(demo):
    out, _, _, _ = demo
    photos = Places.read(out / "town" / "places.csv")
    trained_on = set(training_photos(photos).table["image"])
    asked = json.loads((out / "graded" / "evaluation" / "evaluation.json").read_text())["queries"]["name"]
    assert trained_on.isdisjoint(asked)


def test_the_report_holds_both_runs_and_needs_no_network(demo):
    out, result, _, _ = demo
    page = result.report.read_text()
    assert "graded" in page
    assert "binary" in page
    # addresses inside plotly's own script are never asked for: the page's policy forbids it, and a browser test sees it
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=.http", page)
    assert "connect-src 'none'" in page or "default-src 'none'" in page
    assert (out / "report.html").stat().st_size < 15_000_000


def test_the_map_is_of_streets_that_were_not_learned_and_answers_about_them(demo):
    out, result, _, _ = demo
    photos = Places.read(out / "town" / "places.csv")
    there = open_map(result.map)
    assert set(there.generation.places.table["image"]) == set(photos.of_split("map").table["image"])
    example = result.example
    assert example.photo in photos.of_split("query").images
    assert there.locate(example.photo) == example.answer
    row = photos.images.index(example.photo)
    true = photos.centres[row, :2]
    assert example.error == pytest.approx(
        np.hypot(example.answer.position.easting - true[0], example.answer.position.northing - true[1])
    )


def test_labels_of_other_photos_are_made_anew(demo, tmp_path):
    out, _, _, _ = demo
    photos = Places.read(out / "town" / "places.csv")
    labelled(photos, tmp_path)
    moved = Places(photos.root, photos.table.assign(easting=photos.table["easting"] + 3.0))
    again = labelled(moved, tmp_path)
    again["graded"].labels.check(training_photos(moved), training_photos(moved))
