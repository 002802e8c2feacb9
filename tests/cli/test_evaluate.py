"""Describing, evaluating and comparing as a user does it, on pictures whose nearest neighbours are known.

A picture is noise of a seed. The same picture twice has the same descriptor, whatever the weights of the network, so
that a query that shows picture 3 finds the map image that shows picture 3, and every share is worked out by hand.
"""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file

from samespot import Places
from samespot.cli import console
from samespot.evaluation.results import Evaluation
from samespot.evaluation.submission import keys_of, read_poses, read_predictions
from samespot.figures import evaluation as evaluation_figures
from samespot.model.network import PlaceNet
from samespot.overlap.sector import sector_overlap
from samespot.places.catalogue import protocol_names
from samespot.places.msls import SUBTASKS
from samespot.retrieval import describe
from samespot.retrieval.descriptors import Descriptors
from samespot.whitening.whitening import Whitening


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a tiny network of random weights."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    PlaceNet("test_resnet.r160_in1k", "gem", pretrained=False, image_size=(32, 32)).save(folder / "tiny")
    return folder / "tiny"


@pytest.fixture(scope="module", autouse=True)
def quick(one_thread):
    """Tiny networks: folding takes longer than it saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(describe, "fold_batch_norms", lambda stages: stages.eval().requires_grad_(False))
        yield


@pytest.fixture(autouse=True)
def narrow(monkeypatch, request):
    """A screen of 80 columns; for the sake of time no figures but where a test says so."""
    monkeypatch.setattr(console.out, "_width", 80)
    monkeypatch.setattr(console.err, "_width", 80)
    if "figures" not in request.fixturenames:
        monkeypatch.setattr(evaluation_figures, "_figures", lambda done, out: [])


@pytest.fixture
def figures():
    """For a test that looks at the figures."""


def picture(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "png")


def table(folder, name, pictures, easting, **columns):
    """A table of level cameras on a street, all looking north unless told."""
    names = [f"{name}/{i}.png" for i in range(len(pictures))]
    for image, number in zip(names, pictures, strict=True):
        picture(folder / image, number)
    columns = {"northing": 0.0, "heading": 0.0, **columns}
    Places.build(folder, {"image": names, "easting": easting, **columns}).save(folder / f"{name}.csv")
    return folder / f"{name}.csv"


def shares(result, variant=None):
    """Metric -> value in the file that an evaluation left."""
    return {name: one.value for name, one in result.variant(variant).metrics.items()}


# ---- describe ----


def test_a_described_table_is_not_read_again(samespot, model, tmp_path):
    places = table(tmp_path, "map", [0, 1, 0], [0, 1, 2])
    code, out, err = samespot(
        "describe", model, places, "--out", tmp_path / "d", "--json", tmp_path / "d.json"
    )
    assert code == 0, err
    assert "3 images described" in out
    assert "96 dims, float32" in out
    told = json.loads((tmp_path / "d.json").read_text())
    assert (told["images"], told["dims"], told["bad"], told["backbone"]) == (
        3,
        96,
        {},
        "test_resnet.r160_in1k",
    )
    before = Descriptors.open(tmp_path / "d").vectors
    np.testing.assert_allclose(np.linalg.norm(before, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(before[0], before[2], atol=1e-6)
    assert np.linalg.norm(before[0] - before[1]) > 0.01
    for image in (tmp_path / "map").iterdir():
        image.unlink()
    code, _, err = samespot("describe", model, places, "--out", tmp_path / "d")
    assert code == 0, err


def test_a_description_that_stopped_goes_on(samespot, model, tmp_path):
    places = table(tmp_path, "map", [0, 1, 2, 3, 4], range(5))
    words = ("describe", model, places, "--batch-size", 2, "--out")
    samespot(*words, tmp_path / "whole")
    (tmp_path / "map" / "4.png").write_bytes(b"broken")
    code, _, err = samespot(*words, tmp_path / "d")
    assert (code, err.count("\n")) == (2, 1)
    assert "4.png" in err
    picture(tmp_path / "map" / "4.png", 4)
    (tmp_path / "map" / "0.png").unlink()  # its block was done
    code, _, err = samespot(*words, tmp_path / "d")
    assert code == 0, err
    whole, stopped = (Descriptors.open(tmp_path / name).vectors for name in ("whole", "d"))
    np.testing.assert_array_equal(stopped, whole)


# ---- tables of one's own ----


def write_street(folder):
    """Map images at 0, 100, 200 and 300 m. Of the queries, the first shows its place; the second that 100 m on; the
    third is nowhere near; the fourth shows its place, but by its compass it looks back."""
    columns = {"frame": [0, 10, 20, 30], "time": [0, 100, 200, 300]}
    table(folder, "map", [0, 1, 2, 3], [0, 100, 200, 300], **columns)
    columns = {"frame": [0, 10, 11, 30], "time": [5, 1000, 1000, 1000], "heading": [0, 0, 0, 180]}
    table(folder, "queries", [0, 2, 0, 3], [10, 110, 5000, 300], **columns)
    return folder


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    """One for all tests that leave it as it is: it is described once."""
    return write_street(tmp_path_factory.mktemp("street"))


def own(samespot, model, folder, *words, queries=True):
    tables = ["--map", folder / "map.csv"] + (["--queries", folder / "queries.csv"] if queries else [])
    (folder / "e" / "evaluation.json").unlink(missing_ok=True)  # of another question; the descriptors stay
    code, out, err = samespot("evaluate", model, *tables, "--out", folder / "e", "--gallery", 0, *words)
    assert code == 0, err
    return Evaluation.load(folder / "e"), out, err


@pytest.mark.parametrize(
    ("rule", "counted", "hits"),
    [
        (["--within", "25m"], [True, True, False, True], [0, 3]),
        (["--within", "25m,40deg"], [True, True, False, False], [0]),
        (["--frames", "1"], [True, True, True, True], [0, 3]),
        (["--overlap", "0.5"], [True, True, False, False], [0]),
        # the first query was taken 5 s after the only map image near it, which so cannot be found
        (["--time-gap", "10"], [False, True, False, True], [3]),
        (["--time-gap", "5"], [True, True, False, True], [0, 3]),  # exactly that far apart is far enough
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) and isinstance(words[0], str) else None,
)
def test_what_counts_and_what_is_found_by_each_rule(samespot, model, street, rule, counted, hits):
    result, out, _ = own(samespot, model, street, *rule)
    assert result.queries.counted.tolist() == counted
    ranks = result.variant().outcomes["first_hit"]
    assert np.flatnonzero(ranks == 1).tolist() == hits
    assert shares(result)["R@1"] == pytest.approx(len(hits) / sum(counted), abs=1e-6)
    assert shares(result)["R@10"] == 1  # the map has 4 images: whatever can be found, is
    assert f"{sum(counted)} of 4 queries count, 4 map images" in out


def test_what_a_time_gap_keeps_out_is_not_retrieved(samespot, model, street):
    result, _, _ = own(samespot, model, street, "--time-gap", "10")
    top = result.variant().outcomes["top"].tolist()
    assert top[0] != "map/0.png"
    assert top[1:] == ["map/2.png", "map/0.png", "map/3.png"]


def test_overlap_of_the_top_match_is_of_the_queries_that_count(samespot, model, street):
    """The first query shares a part of its view with its match, the second and the fourth nothing."""
    result, _, _ = own(samespot, model, street, "--theta", 60, "--radius", 40)
    one = float(sector_overlap(np.array([10.0, 0, 0]), np.array([0.0, 0, 0]), 60, 40))
    assert 0.3 < one < 0.9
    assert shares(result)["overlap@1"] == pytest.approx(one / 3, abs=1e-5)
    # only the first two see anything of the map; the second finds its place at some rank r, which counts 1/log2(r + 1)
    rank = result.variant().outcomes["first_hit"][1]
    assert shares(result)["nDCG@10"] == pytest.approx((1 + 1 / np.log2(rank + 1)) / 2, abs=1e-5)
    assert result.variant().metrics["nDCG@10"].n == 2


def test_a_map_against_itself_finds_everything_but_itself(samespot, model, tmp_path):
    """0 and 1 are neighbours and look alike; 2 and 3 are neighbours, but look like 4 and 5, which are alone."""
    table(tmp_path, "map", [1, 1, 2, 3, 2, 3], [0, 5, 100, 105, 300, 400])
    result, out, err = own(samespot, model, tmp_path, queries=False)
    assert result.variant().outcomes["top"].tolist() == [f"map/{i}.png" for i in (1, 0, 4, 5, 2, 3)]
    assert result.queries.counted.tolist() == [True] * 4 + [False] * 2
    assert shares(result)["R@1"] == 0.5
    assert "the query itself" in out
    assert "6 of 6 queries are in the map; none of them can find itself" in err
    assert [path.name for path in (tmp_path / "e" / "descriptors").iterdir()] == [
        "table-map"
    ]  # described once


def test_an_image_that_cannot_be_read_finds_nothing_and_is_told(samespot, model, tmp_path):
    street = write_street(tmp_path)
    (street / "queries" / "0.png").write_bytes(b"broken")
    result, _, err = own(samespot, model, street, "--on-bad-image", "skip")
    assert shares(result)["R@1"] == pytest.approx(1 / 3, abs=1e-6)
    assert result.variant().outcomes["top"][0] == ""
    assert "images that could not be read: 1; such a query finds nothing" in err
    assert "table queries row 0" in result.settings["images that could not be read"]


def test_answers_in_a_wide_circle_are_not_taken_for_wrong_ones(samespot, model, tmp_path):
    """With 150 m allowed, what lies 120 m away is right: it must leave the map, too, when a query is to be absent."""
    table(tmp_path, "map", [0, 1], [0, 1000])
    table(tmp_path, "queries", [0, 1], [120, 1000])
    result, _, _ = own(samespot, model, tmp_path, "--within", "150m")
    at = result.variant().curves["acceptance"]["at"]
    # asked without their place, both find the other image, at the distance of the two pictures
    assert (at["recall"], at["false_accepts"]) == (1, 0)


def test_the_screen_cuts_no_number_off(samespot, model, tmp_path):
    """Seven columns of metrics and long names of descriptors, on 80 columns."""
    table(tmp_path, "map", range(12), np.arange(12) * 100)
    table(tmp_path, "queries", range(12), np.arange(12) * 100 + 5, condition=["night", "day"] * 6)
    words = ("--whiten", "2,4", "--train", tmp_path / "queries.csv")
    result, out, _ = own(samespot, model, tmp_path, *words)
    assert "…" not in out
    tables = [line for line in out.splitlines() if re.search(r"\d–\d|@\d|──", line)]
    assert max(map(len, tables)) <= 80
    for name in ("R@1", "R@5", "R@10", "mAP@10", "overlap@1", "nDCG@10"):
        assert name in out
        value, low, high = (
            100 * getattr(result.variant().metrics[name], x) for x in ("value", "low", "high")
        )
        assert f"{value:.1f}" in out
        assert f"{low:.1f}–{high:.1f}" in out
    assert "by condition, descriptor 96 dims, as described" in out


# ---- protocols ----

CSVS = {
    "seq_info.csv": ["key", "sequence_key", "frame_number"],
    "raw.csv": ["key", "lon", "lat", "ca", "captured_at", "pano"],
    "postprocessed.csv": ["key", "easting", "northing", "night", "view_direction"],
    "subtask_index.csv": ["key", *SUBTASKS],
}
UNTOLD = ("raw.csv", "postprocessed.csv")  # of the test cities


def city(root, name, secret=False, **sides):
    """A city of MSLS: for each side (key, picture, easting, subtasks) of its images, consecutive frames of one ride."""
    for side, images in sides.items():
        folder = root / ("test" if secret else "train_val") / name / side
        rows = []
        for frame, (key, number, easting, subtasks) in enumerate(images):
            picture(folder / "images" / f"{key}.jpg", number)
            ride = {"key": key, "sequence_key": f"{name}-{side}", "frame_number": frame}
            place = {"easting": easting, "northing": 0.0, "lon": 8.5, "lat": 47.4, "ca": 0.0}
            rest = {"captured_at": "2018-05-11", "pano": False, "night": False, "view_direction": "Forward"}
            rows.append({**ride, **place, **rest, **{task: task in subtasks.split() for task in SUBTASKS}})
        for file, columns in CSVS.items():
            if not (secret and file in UNTOLD):
                pd.DataFrame(rows)[columns].to_csv(folder / file)


@pytest.fixture
def msls(tmp_path):
    """Copenhagen: one query finds its place, one looks like another, one is far from all. San Francisco: one finds."""
    city(
        tmp_path / "MSLS",
        "cph",
        query=[("right", 1, 0, "all d2n"), ("wrong", 1, 500, "all"), ("lost", 2, 9000, "all")],
        database=[("c1", 1, 10, "all d2n"), ("c2", 2, 500, "all d2n"), ("c3", 3, 600, "all")],
    )
    city(
        tmp_path / "MSLS",
        "sf",
        query=[("sf-q", 4, 0, "all")],
        database=[("s1", 5, 900, "all"), ("s2", 4, 3, "all")],
    )
    return tmp_path


def by_protocol(samespot, model, folder, name, *words):
    (folder / "e" / "evaluation.json").unlink(missing_ok=True)
    words = ("--root", folder, "--out", folder / "e", "--gallery", 0, *words)
    code, out, err = samespot("evaluate", model, name, *words)
    assert code == 0, err
    return Evaluation.load(folder / "e"), out, err


def test_msls_by_city(samespot, model, msls):
    result, out, _ = by_protocol(samespot, model, msls, "msls-val")
    assert "3 of 4 queries count, 5 map images" in out
    assert shares(result)["R@1"] == pytest.approx(2 / 3, abs=1e-6)
    by = {name: one["R@1"].value for name, one in result.variant().by["case"].items()}
    assert by == {"cph": 0.5, "sf": 1.0}
    written = read_predictions(
        msls / "e" / "predictions-96.csv", ["right", "wrong", "lost", "sf-q"], ["c1", "c2", "c3", "s1", "s2"]
    )
    assert written.shape == (4, 5)  # all lines are equally long, up to the number of all map images
    assert written[:, 0].tolist() == [0, 0, 1, 4]
    assert sorted(written[3, :2].tolist()) == [3, 4]  # the two of San Francisco, then those of Copenhagen
    assert sorted(written[3, 2:].tolist()) == [0, 1, 2]


def test_a_city_without_queries_of_the_subtask_is_left_out(samespot, model, msls):
    result, _, err = by_protocol(samespot, model, msls, "msls-val", "--subtask", "d2n")
    assert result.queries.names == ["train_val/cph/query/images/right.jpg"]
    assert result.protocol["options"]["subtask"] == "d2n"
    assert "sf: left out, without queries or without a map in d2n" in err
    assert shares(result)["R@1"] == 1


def test_a_query_that_cannot_be_read_still_has_a_line_for_the_server(samespot, model, msls):
    (msls / "MSLS/train_val/cph/query/images/wrong.jpg").write_bytes(b"broken")
    result, _, _ = by_protocol(samespot, model, msls, "msls-val", "--on-bad-image", "skip")
    assert shares(result)["R@1"] == pytest.approx(2 / 3, abs=1e-6)
    lines = (msls / "e" / "predictions-96.csv").read_text().splitlines()
    (line,) = (line.split() for line in lines if line.startswith("wrong"))
    assert line[1:3] == ["s1", "s2"]  # of another city, so never right
    assert line[-1] == "c2"  # the right one last: there are no more than five images


def test_sequences_in_sequences(samespot, model, tmp_path):
    """Frames at 0, 10 and 20 m; then frames from 45 m on, of which the first is 25 m from the last, and elsewhere."""
    near = [(f"a{i}", 10 + i, 45 + 10 * i, "all") for i in range(3)]
    far = [(f"b{i}", 20 + i, 900 + 10 * i, "all") for i in range(3)]
    city(
        tmp_path,
        "zurich",
        query=[(f"q{i}", 10 + i, 10 * i, "all") for i in range(3)],
        database=[*near, *far],
    )
    words = ("--task", "seq2seq", "--cities", "zurich")
    result, out, _ = by_protocol(samespot, model, tmp_path, "msls-val", *words)
    names = [",".join(f"train_val/zurich/query/images/q{i}.jpg" for i in range(3))]
    assert result.queries.names == names
    assert shares(result)["R@1"] == 1
    # all windows of three: the frames are of one sequence
    frames = ["a0", "a1", "a2", "b0", "b1", "b2"]
    keys = [",".join(frames[i : i + 3]) for i in range(4)]
    written = read_predictions(tmp_path / "e" / "predictions-96.csv", ["q0,q1,q2"], keys)
    assert written[0, 0] == 0
    assert "…" not in out


def test_a_secret_truth_is_said_and_the_predictions_are_written(samespot, model, tmp_path):
    city(
        tmp_path,
        "miami",
        secret=True,
        query=[("q1", 1, 0, "all"), ("q2", 2, 0, "all")],
        database=[("m1", 2, 0, "all"), ("m2", 1, 0, "all"), ("m3", 3, 0, "all")],
    )
    result, out, _ = by_protocol(samespot, model, tmp_path, "msls-test", "--cities", "miami")
    assert result.variant().metrics == {}
    assert "the truth is secret" in out
    assert "queries count" not in out
    assert "──" not in out  # no empty table
    assert "predictions-96.csv" in out
    written = read_predictions(tmp_path / "e" / "predictions-96.csv", ["q1", "q2"], ["m1", "m2", "m3"])
    assert written[:, 0].tolist() == [1, 0]
    assert keys_of(result.variant().outcomes["top"].tolist()) == ["m2", "m1"]


def test_whitening_on_the_map_and_on_training_places(samespot, model, tmp_path):
    """Copies of a picture stay copies however they are whitened: the second query looks like the wrong place."""
    split = ["train"] * 8 + ["query"] * 2 + ["map"] * 6
    numbers = [*range(20, 28), 0, 2, 0, 1, 2, 3, 4, 5]
    easting = [*np.arange(8) * 20, 2, 102, 0, 100, 200, 300, 400, 500]
    times = [f"15:{i:02d}" for i in range(len(split))]
    (tmp_path / "campus").mkdir()
    table(tmp_path / "campus", "places", numbers, easting, split=split, time=times)
    train = ("--train", tmp_path / "campus" / "places.csv", "--train-split", "train")
    result, _, err = by_protocol(samespot, model, tmp_path, "campus-east", "--whiten", "2,4,6", *train)
    kinds = [
        "96",
        *(f"{d} whitened on {s}" for s, ds in (("the map", "24"), ("training places", "246")) for d in ds),
    ]
    assert [variant.name for variant in result.variants] == kinds
    assert {shares(result, name)["R@1"] for name in kinds} == {0.5}
    assert "not whitened on the map to 6 dims: its images span only 5" in err
    fitted = {
        name: Whitening.load(tmp_path / "e" / f"whitening-{name}.safetensors")
        for name in ("the-map", "training-places")
    }
    assert {name: (one.images, one.rank) for name, one in fitted.items()} == {
        "the-map": (6, 5),
        "training-places": (8, 7),
    }
    vectors = Descriptors.open(tmp_path / "e" / "descriptors" / "east-map").vectors
    white = fitted["the-map"].sweep(vectors, [5])[5]
    assert white.shape == (6, 5)
    only_map, _, _ = by_protocol(
        samespot, model, tmp_path, "campus-east", "--whiten", "4", "--whiten-on", "map", *train
    )
    assert [variant.name for variant in only_map.variants] == ["96", "4 whitened on the map"]
    assert "calibration, isotonic" in only_map.variant().curves  # --train still has this effect


def test_whitening_damped_and_learned(samespot, model, tmp_path):
    """As the help says them: the names tell the ways apart, and so do the files that are kept."""
    split = ["train"] * 8 + ["query"] * 2 + ["map"] * 6
    easting = [*np.arange(8) * 20, 2, 102, 0, 100, 200, 300, 400, 500]
    times = [f"15:{i:02d}" for i in range(len(split))]
    (tmp_path / "campus").mkdir()
    table(
        tmp_path / "campus",
        "places",
        [*range(20, 28), 0, 2, 0, 1, 2, 3, 4, 5],
        easting,
        split=split,
        time=times,
    )
    train = ("--train", tmp_path / "campus" / "places.csv", "--train-split", "train", "--whiten-on", "map")
    words = ("--whiten", "2,auto,full:damped=0.5,3:learned")
    result, out, err = by_protocol(samespot, model, tmp_path, "campus-east", *words, *train)
    kinds = [
        "2 whitened on the map",
        "5 whitened on the map, damped",
        "5 whitened on the map, damping 0.5",
    ]
    kinds = ["96", *kinds, "3 whitened on training places, learned"]
    assert [variant.name for variant in result.variants] == kinds
    assert {shares(result, name)["R@1"] for name in kinds} == {0.5}
    assert "damping 0.5" in " ".join(out.split())
    assert "whitened on the map to at most 5 dims: its images span no more" in " ".join(err.split())
    assert sorted(path.name for path in (tmp_path / "e").glob("whitening-*")) == [
        "whitening-the-map-damping-0.5.safetensors",
        "whitening-the-map-damping-3.safetensors",
        "whitening-the-map.safetensors",
        "whitening-training-places-learned.safetensors",
    ]


def test_whitening_with_a_file(samespot, model, tmp_path):
    """Fitted on other pictures by one evaluation, used by the next; by hand from its axes the same photos are found."""
    table(tmp_path, "map", range(8), np.arange(8) * 100)
    table(tmp_path, "queries", [0, 1, 2, 9, 10, 11], [0, 100, 200, 300, 400, 500])
    table(tmp_path, "train", range(20, 30), np.arange(10) * 100)
    train = ("--train", tmp_path / "train.csv", "--whiten-on", "train", "--whiten", 4)
    own(samespot, model, tmp_path, *train)
    file = (tmp_path / "e" / "whitening-training-places.safetensors").rename(tmp_path / "streets.safetensors")
    words = ("--whiten", 2, "--whiten-with", file)
    result, out, err = own(samespot, model, tmp_path, *words)
    white = "9 whitened with streets.safetensors"
    names = ["96", "2 whitened on the map", "2 whitened with streets.safetensors", white]
    assert [variant.name for variant in result.variants] == names
    stored = {
        one["name"]: one for one in json.loads((tmp_path / "e" / "evaluation.json").read_text())["variants"]
    }
    assert stored[white]["whitened_on"] == "training places"
    assert stored[white]["whitened_with"] == "streets.safetensors"
    tables = [line for line in out.splitlines() if re.search(r"\d–\d|@\d|──", line)]
    assert max(map(len, tables)) <= 80
    assert "streets.safetensors" in out
    assert "by its own record on training places" in " ".join(err.split())
    fitted = load_file(file)
    asked, there = (
        Descriptors.open(tmp_path / "e" / "descriptors" / f"table-{name}").vectors.astype(np.float64)
        for name in ("queries", "map")
    )
    found = [(x - fitted["mean"]) @ fitted["axes"].T / np.sqrt(fitted["variances"]) for x in (asked, there)]
    asked, there = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in found)
    nearest = (asked @ there.T).argmax(axis=1)
    assert result.variant(white).outcomes["top"].tolist() == [f"map/{i}.png" for i in nearest]
    assert result.variant(white).metrics["R@1"].value == pytest.approx((nearest == np.arange(6)).mean())
    kept = [path.name for path in (tmp_path / "e").glob("whitening-*")]
    assert kept == ["whitening-the-map.safetensors"]  # the given one is where it was


def test_a_whitening_of_another_network_is_refused_before_photos_are_read(samespot, model, street, tmp_path):
    file = Whitening.fit(np.random.default_rng(0).normal(size=(9, 32)), "x").save(tmp_path / "w.safetensors")
    words = ("--map", street / "map.csv", "--within", "1000m", "--whiten-with", file, "--out", tmp_path / "e")
    code, out, err = samespot("evaluate", model, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{file}: whitens descriptors of 32 dims, but this network gives 96; give the whitening" in err
    assert not (tmp_path / "e" / "descriptors").exists()


def test_seven_scenes(samespot, model, wall_scene):
    """Every picture is black, so the first map frame comes first; both show more than half of what the query shows."""
    result, out, _ = by_protocol(samespot, model, wall_scene, "7scenes")
    assert shares(result)["R@1"] == 1
    assert result.variant().curves["pairs"]["heads"]["average precision"] == 1
    assert result.variant().curves["pairs"]["heads"]["pairs"] == 2
    assert result.variant().metrics["overlap@1"].value == pytest.approx(1, abs=1e-3)
    assert "Average precision over all pairs" in out
    assert "…" not in out


NORTH = "0.5 -0.5 -0.5 -0.5"  # world-to-camera of a level camera that looks north
AHEAD = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])


def robotcar(root):
    """Two map images 100 m apart; queries 0.2 m and 1°, 0.3 m and 4°, 3 m and 0°, 0 m and 11° from what they show."""
    frames = [(f"overcast-reference/rear/141717885300000{i}", 100 * (i - 1)) for i in (1, 2)]
    lines = [f"./{name}.png 400 {NORTH} {x} 0 0 0 0\n" for name, x in frames]
    (root / "3D-models/all-merged").mkdir(parents=True)
    (root / "3D-models/all-merged/all.nvm").write_text(f"NVM_V3\n\n2\n{''.join(lines)}\n0\n")
    for number, (name, _) in enumerate(frames):
        picture(root / "images" / f"{name}.jpg", number)
    queries = [("dawn", 0, (0.2, 0, 0), 1), ("sun", 1, (100, 0.3, 0), 4), ("night", 0, (0, 3, 0), 0)]
    queries.append(("night-rain", 0, (0, 0, 0), 11))
    train = ""
    for i, (condition, number, centre, turned) in enumerate(queries):
        a, pose, name = np.deg2rad(turned), np.eye(4), f"{condition}/rear/141823679200000{i}.jpg"
        turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
        pose[:3, :3], pose[:3, 3] = turn @ AHEAD, centre
        train += f"{name} {' '.join(map(str, pose.ravel()))}\n"
        picture(root / "images" / name, number)
    (root / "robotcar_v2_train.txt").write_text(train)
    (root / "robotcar_v2_test.txt").write_text("dusk/rear/1424450350000000.jpg\n")
    picture(root / "images/dusk/rear/1424450350000000.jpg", 1)


def test_poses_of_best_matches(samespot, model, tmp_path):
    robotcar(tmp_path)
    result, out, _ = by_protocol(samespot, model, tmp_path, "robotcar-seasons-v2", "--split", "train")
    assert shares(result) == {"0.25 m, 2°": 0.25, "0.5 m, 5°": 0.5, "5 m, 10°": 0.75}
    assert {k: v["5 m, 10°"].value for k, v in result.variant().by["light"].items()} == {
        "day-all": 1.0,
        "night-all": 0.5,
    }
    assert "4 of 4 queries count" in out
    names, centres, _ = read_poses(tmp_path / "e" / "poses-96.txt")
    assert names == [f"rear/141823679200000{i}.jpg" for i in range(4)]
    np.testing.assert_allclose(centres, [[0, 0, 0], [100, 0, 0], [0, 0, 0], [0, 0, 0]], atol=1e-9)
    result, out, _ = by_protocol(samespot, model, tmp_path, "robotcar-seasons-v2")
    assert "the truth is secret" in out
    assert "──" not in out
    assert read_poses(tmp_path / "e" / "poses-96.txt")[0] == ["rear/1424450350000000.jpg"]


# ---- files ----


def test_figures_whitening_and_gallery_are_left_in_the_folder(samespot, figures, model, street):
    words = ["evaluate", model, "--map", street / "map.csv", "--queries", street / "queries.csv"]
    words += ["--whiten", "2,3", "--out", street / "e", "--json", street / "copy.json"]
    (street / "e" / "evaluation.json").unlink(missing_ok=True)
    code, out, err = samespot(*words)
    assert code == 0, err
    told = [line.split()[-1] for line in out.splitlines() if line.startswith("wrote")]
    names = {path.rsplit("/", 1)[1] for path in told}
    curves = {f"{name}.png" for name in ("recall", "recall-over-dimensions", "recall-over-distance")}
    curves |= {"recall-over-overlap.png", "acceptance.png", "calibration.png", "gallery.png"}
    assert names == {"evaluation.json", "matches.safetensors", "whitening-the-map.safetensors", *curves}
    for name in curves:
        with Image.open(street / "e" / name) as image:
            assert min(image.size) > 200
    saved = [
        json.loads(path.read_text()) for path in (street / "copy.json", street / "e" / "evaluation.json")
    ]
    assert saved[0] == saved[1]


# ---- compare, protocols ----


def test_a_comparison_is_of_means_over_the_same_queries(samespot, model, street, tmp_path):
    """Against a copy in which the second query found its place at once: one of three queries more."""
    result, _, _ = own(samespot, model, street)
    first = street / "e" / "evaluation.json"
    better = json.loads(first.read_text())
    better["variants"][0]["per_query"]["first_hit"][1] = 1
    other = tmp_path / "a" / "very" / "deeply" / "buried" / "evaluation.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps(better))
    code, out, err = samespot("compare", other, first.parent, "--json", tmp_path / "c.json")
    assert code == 0, err
    told = json.loads((tmp_path / "c.json").read_text())
    one = next(line for line in told["differences"] if line["metric"] == "R@1")
    assert (one["first"], one["second"], one["n"]) == (1, pytest.approx(2 / 3, abs=1e-6), 3)
    assert one["difference"] == pytest.approx(1 / 3, abs=1e-6)
    assert one["p"] == 1  # one query found by one of them only
    assert told["queries"] == 3
    assert "A …/deeply/buried/evaluation.json; descriptor: 96 dims, as described" in out
    assert "3 queries count" in out
    assert re.search(r"R@1 +100\.0 +66\.7 +\+33\.3 \[0\.0, \+\d+\.\d\] +1 +inconclusive", out)
    seeds = f"{first},{other}"
    code, out, err = samespot("compare", seeds, first, "--json", tmp_path / "s.json")
    assert code == 0, err
    assert "and 1 more" in out
    one = json.loads((tmp_path / "s.json").read_text())["differences"][0]
    assert one["difference"] == pytest.approx(1 / 6, abs=1e-6)
    assert max(map(len, out.splitlines())) <= 120
    assert result.variant().outcomes["first_hit"][1] != 1


def test_what_cannot_be_compared_is_said(samespot, model, tmp_path):
    street = write_street(tmp_path)
    own(samespot, model, street)
    first = (tmp_path / "e" / "evaluation.json").rename(tmp_path / "first.json")
    own(samespot, model, street, "--radius", 20)
    (tmp_path / "e" / "evaluation.json").rename(tmp_path / "view.json")
    table(street, "map", [0, 1, 2, 3, 4], [0, 100, 200, 300, 400])
    shutil.rmtree(tmp_path / "e")
    own(samespot, model, street)
    (tmp_path / "e" / "evaluation.json").rename(tmp_path / "larger.json")
    for second, words in (
        ("view.json", "options is"),
        ("larger.json", "the map of table has 4 images in one and 5 in another"),
        ("nowhere.json", "no such file"),
        (f"first.json,{first}", "give as many of each"),
        ("map.csv", "not an evaluation of samespot"),
    ):
        a = ",".join([str(first)] * 3) if "," in second else first
        code, _, err = samespot("compare", a, ",".join(str(tmp_path / word) for word in second.split(",")))
        assert (code, err.count("\n")) == (2, 1), err
        assert words in err


def test_protocols_are_listed_and_explained(samespot, tmp_path):
    code, out, _ = samespot("protocols", "--json", tmp_path / "p.json")
    assert code == 0
    assert [one["name"] for one in json.loads((tmp_path / "p.json").read_text())] == protocol_names()
    assert all(name in out for name in protocol_names())
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = samespot("protocols", "msls-val")
    assert code == 0
    for words in ("--subtask, by default all", "Warburg", "at most 25 m away"):
        assert words in out


# ---- mistakes ----


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("evaluate MODEL nosuch", "PROTOCOL 'nosuch' is unknown; choose one of msls-val"),
        ("evaluate MODEL pitts30k-test --root HERE", "pitts30k-test needs pittsburgh, which is not there"),
        ("evaluate MODEL pitts30k-test --root HERE/none", "no such folder"),
        ("evaluate MODEL", "name a protocol"),
        ("evaluate MODEL --queries HERE/map.csv", "name a protocol"),
        ("evaluate HERE/none --map HERE/map.csv", "no such folder, and no network"),
        ("evaluate HERE --map HERE/map.csv", "no model here"),
        ("evaluate nosuch-gem --map HERE/map.csv --within 1000m", "nosuch"),
        ("evaluate MODEL --map HERE/none.csv", "no such file"),
        ("evaluate MODEL --map HERE/map.csv --whiten 0", "--whiten '0': '0' is not a number of dims"),
        ("evaluate MODEL --map HERE/map.csv --whiten 4,x", "--whiten '4,x'"),
        ("evaluate MODEL --map HERE/map.csv --whiten 4 --whiten-on train", "--whiten-on train needs --train"),
        ("evaluate MODEL --map HERE/map.csv --whiten 4 --whiten-on moon", "--whiten-on 'moon' is unknown"),
        ("evaluate MODEL --map HERE/map.csv --whiten-on map", "--whiten-on has no effect without --whiten"),
        ("evaluate MODEL --map HERE/map.csv --whiten-with HERE/none", "none: no such whitening"),
        (
            "evaluate MODEL --map HERE/map.csv --whiten-with HERE/map.csv",
            "map.csv: not a complete safetensors",
        ),
        (
            "evaluate MODEL --map HERE/map.csv --queries HERE/queries.csv --whiten 99",
            "4 images span 3 dims, too few for 99",
        ),
        (
            "evaluate MODEL --map HERE/map.csv --train-split train",
            "--train-split has no effect without --train",
        ),
        ("evaluate MODEL --map HERE/map.csv --train HERE/map.csv --train-split x", "no column split"),
        ("evaluate MODEL --map HERE/map.csv --root HERE", "--root has no effect without a protocol"),
        ("evaluate MODEL --map HERE/map.csv --subtask all", "--subtask has no effect without a protocol"),
        (
            "evaluate MODEL campus-east --map HERE/map.csv",
            "--map has no effect with the protocol campus-east",
        ),
        ("evaluate MODEL campus-east --frames 0", "--frames has no effect with the protocol campus-east"),
        ("evaluate MODEL campus-east --subtask all", "protocol campus-east has no option 'subtask'"),
        ("evaluate MODEL msls-val --subtask x2y --root HERE", "msls-val needs msls"),
        (
            "evaluate MODEL --map HERE/map.csv --within 25m --frames 5",
            "give one of --within, --frames and --overlap",
        ),
        ("evaluate MODEL --map HERE/map.csv --within 25", "neither metres (25m) nor degrees"),
        ("evaluate MODEL --map HERE/map.csv --within 1m", "none of the 4 queries has anything to find"),
        ("evaluate MODEL --map HERE/map.csv --overlap 2", "--overlap 2 must be at most 1"),
        ("evaluate MODEL --map HERE/map.csv --frames -1", "--frames -1 must be at least 0"),
        ("evaluate MODEL --map HERE/map.csv --time-gap nan", "--time-gap nan is not a finite number"),
        ("evaluate MODEL --map HERE/map.csv --time-gap -1", "--time-gap -1 must be at least 0"),
        ("evaluate MODEL --map HERE/map.csv --radius 0", "--radius 0 must be above 0"),
        ("evaluate MODEL --map HERE/map.csv --accept-precision 2", "--accept-precision 2 must be at most 1"),
        (
            "evaluate MODEL --map HERE/map.csv --no-acceptance --accept-precision 0.9",
            "--accept-precision has no effect",
        ),
        ("evaluate MODEL --map HERE/map.csv --gallery -1", "--gallery"),
        ("evaluate MODEL --map HERE/map.csv --precision 8", "--precision '8' is unknown"),
        (
            "evaluate MODEL --map HERE/map.csv --queries HERE/queries.csv --batch-size 0",
            "--batch-size 0 must be at least 1",
        ),
        ("evaluate MODEL --map HERE/map.csv --out HERE/map.csv", "is a file"),
        ("describe MODEL HERE/map.csv --dtype int8", "--dtype 'int8' is unknown"),
        ("describe HERE/none HERE/map.csv", "no such folder, and no network of that name"),
        ("describe HERE HERE/map.csv", "no model here"),
        ("compare HERE/none HERE/none", "no such file"),
        ("protocols nosuch", "protocol 'nosuch' is unknown"),
    ],
)
def test_a_mistake_is_one_line(samespot, model, street, words, said, monkeypatch):
    monkeypatch.chdir(street)
    typed = [word.replace("MODEL", str(model)).replace("HERE", str(street)) for word in words.split()]
    code, out, err = samespot(*typed)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err
