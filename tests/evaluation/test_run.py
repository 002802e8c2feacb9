"""The front door in Python, on pictures whose nearest neighbours are known: the same picture, the same descriptor."""

import copy
import json
import os

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from samespot import InputError, Places
from samespot.evaluation.compare import compare
from samespot.evaluation.matches import load_matches
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.protocols.tables import table_case
from samespot.evaluation.results import Evaluation
from samespot.evaluation.run import evaluate, evaluate_cases
from samespot.evaluation.variants import Other
from samespot.model.network import PlaceNet
from samespot.overlap.rules import Sectors, Within, rule_of
from samespot.overlap.sector import sector_overlap
from samespot.places.marks import photo_facts
from samespot.retrieval import describe
from samespot.retrieval.descriptors import Descriptors


@pytest.fixture(scope="module", autouse=True)
def quick(one_thread):
    """Tiny networks: folding takes longer than it saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(describe, "fold_batch_norms", lambda stages: stages.eval().requires_grad_(False))
        yield


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return PlaceNet("test_resnet.r160_in1k", "gem", pretrained=False, image_size=(32, 32)).eval()


def table(folder, name, pictures, easting, **columns):
    names = [f"{name}/{i}.png" for i in range(len(pictures))]
    (folder / name).mkdir(parents=True)
    for image, number in zip(names, pictures, strict=True):
        pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / image)
    places = Places.build(
        folder, {"image": names, "easting": easting, "northing": 0.0, "heading": 0.0, **columns}
    )
    places.save(folder / f"{name}.csv")
    return places


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    """Of four queries beside their places, three show theirs and the last one shows another."""
    folder = tmp_path_factory.mktemp("street")
    places = table(folder, "map", [0, 1, 2, 3], [0, 100, 200, 300])
    queries = table(
        folder, "queries", [0, 1, 2, 0], [5, 105, 205, 305], condition=["day"] * 2 + ["night"] * 2
    )
    return folder, places, queries


def test_tables_and_paths_networks_and_folders_give_the_same(net, street, tmp_path):
    folder, places, queries = street
    net.save(tmp_path / "run" / "last")
    held = evaluate(net, map=places, queries=queries, within="25m,40deg")
    opened = evaluate(tmp_path / "run", map=folder / "map.csv", queries=str(folder / "queries.csv"))
    for one in (held, opened):
        assert one.metrics["R@1"].value == 0.75
        assert one.evaluation.variant().by["condition"]["night"]["R@1"].value == 0.5
        assert one.found["96"][0].rows[:, 0].tolist() == [0, 1, 2, 0]
        assert one.files == []
    assert held.evaluation.protocol["positive"] == "within 25 m and 40°"
    assert opened.evaluation.protocol["positive"] == "within 25 m"
    assert opened.evaluation.model["model"] == str(tmp_path / "run")
    assert held.evaluation.model["digest"] == opened.evaluation.model["digest"]


def test_the_folder_keeps_matches_rule_and_tables(net, street, tmp_path):
    _, places, queries = street
    out = tmp_path / "e"
    done = evaluate(net, map=places, queries=queries, whiten=2, theta=60, radius=40, out=out)
    assert done.files[0] == out / "evaluation.json"
    again = Evaluation.load(out)
    assert again.matches == done.evaluation.matches
    assert rule_of(again.settings["overlap"]) == Sectors(60.0, 40.0)
    assert again.cases[0]["descriptors"] == {
        "queries": "descriptors/table-queries",
        "map": "descriptors/table-map",
    }
    for number, variant in enumerate(again.variants):
        kept, found = load_matches(out, number, again.matches), done.found[variant.name][0]
        np.testing.assert_array_equal(kept.rows, found.rows)
        np.testing.assert_allclose(kept.distances, found.distances, rtol=1e-6)
        expected = [[row == query for row in line] for query, line in enumerate(found.rows.tolist())]
        np.testing.assert_array_equal(kept.hits, expected)
        shared = sector_overlap(queries.positions[0], places.positions[0], 60.0, 40.0)
        np.testing.assert_allclose(kept.overlap, np.where(expected, shared, 0), atol=1e-6)
        assert kept.scores is None
    assert load_matches(out, 0, "of another evaluation") is None
    assert load_matches(tmp_path, 0, again.matches) is None


def test_a_second_call_describes_nothing_again(net, street, tmp_path, monkeypatch):
    _, places, queries = street
    asked = {"map": places, "queries": queries, "out": tmp_path / "e"}
    first = evaluate(net, **asked)
    monkeypatch.setattr(describe.FileImages, "load", lambda self, rows: 1 / 0)
    assert evaluate(net, **asked).metrics == first.metrics


def test_an_evaluation_is_never_replaced_by_one_that_says_something_else(net, street, tmp_path):
    _, places, queries = street
    asked = {"map": places, "queries": queries, "out": tmp_path / "e"}
    evaluate(net, **asked)
    before = (tmp_path / "e" / "evaluation.json").read_bytes()
    other = PlaceNet("test_resnet.r160_in1k", "gap", pretrained=False, image_size=(32, 32))
    for model, change, said in (
        (other, {}, "another model"),
        (net, {"within": "5m"}, r"another rule of what is right \(within 25 m, now within 5 m\)"),
        (net, {"radius": 20}, r"another radius \(50.0, now 20.0\)"),
        (net, {"queries": queries.select(np.arange(3))}, "another table of queries or map"),
    ):
        with pytest.raises(
            InputError, match=f"holds an evaluation of {said}.*; choose another folder with `out`"
        ):
            evaluate(model, **{**asked, **change})
    assert (tmp_path / "e" / "evaluation.json").read_bytes() == before
    assert (
        len(evaluate(net, **asked, whiten=2).evaluation.variants) == 2
    )  # the same question, answered further


def test_descriptors_of_an_evaluation_that_was_cut_off_are_not_lost_either(net, street, tmp_path):
    _, places, queries = street
    asked = {"map": places, "queries": queries, "out": tmp_path / "e"}
    evaluate(net, **asked)
    (tmp_path / "e" / "evaluation.json").unlink()
    other = PlaceNet("test_resnet.r160_in1k", "gap", pretrained=False, image_size=(32, 32))
    with pytest.raises(
        InputError, match=r"table-map: holds descriptors made with another model .*choose another"
    ):
        evaluate(other, **asked)


def test_a_split_may_be_a_number(net, street, tmp_path):
    """A column of 0 and 1 is read as numbers, and was never equal to the words typed."""
    folder, places, queries = street
    train = pd.read_csv(folder / "map.csv").assign(split=[0, 1, 1, 1])
    train.to_csv(folder / "train.csv", index=False)
    for split in ("1", 1):
        done = evaluate(
            net, map=places, queries=queries, whiten=2, train=folder / "train.csv", train_split=split
        )
        assert done.evaluation.settings["other set"] == {"name": "training places", "images": 3}
    with pytest.raises(InputError, match="no image with split '7'"):
        evaluate(net, map=places, queries=queries, train=folder / "train.csv", train_split="7")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name a protocol"),
        ({"protocol": "nosuch"}, "'nosuch' is unknown"),
        ({"map": "nowhere.csv"}, "no such file"),
        ({"map": "m.csv", "batchsize": 4}, "unknown option 'batchsize'; did you mean `batch_size`"),
        ({"map": "m.csv", "batch_size": 0}, "`batch_size` 0 must be at least 1"),
        ({"map": "m.csv", "rerank_top": 3}, "`rerank_top` has no effect without `rerank`"),
        ({"map": "m.csv", "device": "cuda:77"}, "torch sees"),
    ],
)
def test_a_mistake_is_told_before_any_work(net, options, said):
    with pytest.raises(InputError, match=said):
        evaluate(net, **options)


def test_evaluations_are_compared_wherever_they_are(net, street, tmp_path):
    _, places, queries = street
    torch.manual_seed(1)
    other = PlaceNet("test_resnet.r160_in1k", "gap", pretrained=False, image_size=(32, 32)).eval()
    first = evaluate(net, map=places, queries=queries, out=tmp_path / "run" / "evaluation")
    second = evaluate(other, map=places, queries=queries)
    expected = compare([first.evaluation], [second.evaluation]).to_dict()
    folder = tmp_path / "run"
    for a in (first, folder, str(folder), folder / "evaluation", folder / "evaluation" / "evaluation.json"):
        for metric, one in zip(compare(a, second).differences, expected["differences"], strict=True):
            assert metric.metric == one["metric"]
            assert metric.difference.value == pytest.approx(one["difference"], abs=1e-6)
    assert compare([folder, first], [second, second]).runs == (2, 2)
    with pytest.raises(InputError, match="at least one"):
        compare([], first)


def test_the_calibrated_truth_is_that_of_the_rule_for_panoramas_too():
    """By the sectors of ordinary photos, a panorama looking the other way shares nothing with its neighbour."""
    rng = np.random.default_rng(0)
    count = 30
    columns = {
        "image": [f"{i}.png" for i in range(count)],
        "easting": np.repeat(np.arange(count / 2) * 1000, 2),
        "northing": np.tile([0.0, 10.0], count // 2),
        "heading": np.tile([0.0, 180.0], count // 2),
        "pano": np.tile([False, True], count // 2),
    }
    train = Places.build(".", columns, missing_images="ignore")
    ends = Places.build(".", {**columns, "pano": False}, missing_images="ignore")
    spots = rng.normal(size=(count // 2, 16))
    vectors = np.repeat(spots, 2, axis=0) + 0.01 * rng.normal(size=(count, 16))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    case = table_case(ends, ends, within=Within(25.0, None), radius=40.0)
    protocol = Protocol("mini", "Mini", "places", "all", "near", "", "", make=lambda root: [])

    def described(places, name):
        return Descriptors(None, vectors, {"bad": {}})

    known = {"margin": 0.5, "model": {}, "other": Other("training places", train)}
    done = evaluate_cases(protocol, [case], described, **known)
    nearest = float(sector_overlap([0, 0, 0.0], [0, 10, 180.0], 90.0, 40.0, theta_b=360.0))
    assert nearest > 0.9
    assert float(sector_overlap([0, 0, 0.0], [0, 10, 180.0], 90.0, 40.0)) < 0.1
    close = np.linalg.norm(vectors[0] - vectors[1])
    assert done.calibrations["16"](close) == pytest.approx(nearest, abs=1e-6)


# ---- photos that the model was trained on ----


def test_photos_that_the_model_was_trained_on_are_noted(net, street, tmp_path):
    """In the result, so on the screen and in the report; by the model folder itself, and by the run around it."""
    _, places, queries = street
    assert not any("trained on" in note for note in evaluate(net, map=places, queries=queries).notes)
    learned = copy.deepcopy(net)
    learned.facts = {"steps": 1, "photos": photo_facts([places])}
    learned.save(tmp_path / "model")
    done = evaluate(tmp_path / "model", map=places, queries=queries, out=tmp_path / "e")
    note = "the model was trained on photos of table: all 4 map images; expect worse on photos that it has not seen"
    assert note in done.notes
    assert note in json.loads((tmp_path / "e" / "evaluation.json").read_text())["notes"]
    some = evaluate(tmp_path / "model", map=places, queries=places.select([1, 2]), within="150m")
    assert "trained on photos of table: all 2 queries and all 4 map images" in " ".join(some.notes)


def test_an_older_run_is_known_by_its_tables(net, street, tmp_path):
    _, places, queries = street
    learned = copy.deepcopy(net)
    learned.facts = {"steps": 1}
    learned.save(tmp_path / "run" / "last")
    sets = [{"digests": [queries.digest(), places.digest()]}]
    (tmp_path / "run" / "config.json").write_text(json.dumps({"sets": sets}))
    for model in (tmp_path / "run", tmp_path / "run" / "last"):
        notes = evaluate(model, map=places, queries=queries).notes
        assert "all 4 queries and all 4 map images" in " ".join(notes)
    (tmp_path / "run" / "config.json").write_text('{"sets": 7}')
    assert not any("trained on" in note for note in evaluate(model, map=places, queries=queries).notes)


def test_photos_that_were_replaced_are_described_again(net, tmp_path):
    """Under their old names; the figures of before would be of other photos."""
    places = table(tmp_path, "map", [0, 1, 2, 3], [0, 100, 200, 300])
    queries = table(tmp_path, "queries", [0, 1, 2, 3], [5, 105, 205, 305])
    asked = {"map": places, "queries": queries, "out": tmp_path / "e"}
    assert evaluate(net, **asked).metrics["R@1"].value == 1.0
    first, second = queries.images[:2]
    first.rename(tmp_path / "aside.png")
    second.rename(first)
    (tmp_path / "aside.png").rename(second)
    for path in (first, second):
        os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert evaluate(net, **asked).metrics["R@1"].value == 0.5
