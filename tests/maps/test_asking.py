"""A map of made-up photos asks itself: what it leaves out, what it learns, and what it does when it cannot learn."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.maps import asking
from samespot.maps.asking import ask, calibrate
from samespot.maps.evidence import EVIDENCE
from samespot.maps.trust import Trust
from samespot.matching.keypoints import Keypoints
from samespot.matching.verification import Agreement
from samespot.places.table import Places
from samespot.progress import silent
from samespot.retrieval import exclusion
from samespot.storage import MissingPhotoError, StorageError

SPOTS, DIMS = 80, 32
CONTRAST = EVIDENCE.index("contrast")


class Held:
    """Photos along a street, one spot every 40 m, each photographed on two visits."""

    def __init__(self, root="photos", visits=2, noise=0.25, seed=0, **columns):
        rng = np.random.default_rng(seed)
        self.spot = np.tile(np.arange(SPOTS), visits)
        look = rng.normal(size=(SPOTS, DIMS))
        vectors = look[self.spot] + noise * np.sqrt(DIMS) * rng.normal(size=(len(self.spot), DIMS)) / 2
        self.vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        visit = np.repeat(np.arange(visits), SPOTS)
        table = {
            "image": [f"{v}-{s}.png" for v, s in zip(visit, self.spot, strict=True)],
            "easting": 40.0 * self.spot + rng.uniform(-3, 3, len(visit)),
            "northing": rng.uniform(-3, 3, len(visit)),
            "heading": np.full(len(visit), 90.0),
            **({"sequence": [f"visit{v}" for v in visit]} if visits > 1 else {}),
            **columns,
        }
        self.places = Places.build(root, table, source="made up", missing_images="ignore")

    def keypoints(self, row):
        """Its spot is all that these tell."""
        return Keypoints(np.full((1, 2), self.spot[row], np.float32), np.zeros((1, 4), np.int8), (32, 32))


class Oracle:
    """A verifier: photos of one spot agree, now and then not."""

    name = "oracle"

    def __init__(self):
        self.dice = np.random.default_rng(0)

    def facts(self):
        return {}

    def extract(self, image):
        raise AssertionError("nothing to extract")

    def verify(self, query, candidates):
        same = [one.xy[0, 0] == query.xy[0, 0] for one in candidates]
        counts = [self.dice.poisson(60 if yes and self.dice.random() < 0.8 else 9) for yes in same]
        return [Agreement(np.zeros((n, 2), np.int64), 0.0, np.zeros((n, 2), np.int64)) for n in counts]


def model(calibration=None):
    return SimpleNamespace(calibration=calibration)


def test_verified_answers_are_those_with_most_inliers():
    held = Held(noise=2.0)  # the descriptors tell little
    rows = np.arange(SPOTS)
    out = exclusion.same_name(held.places.table["sequence"][:SPOTS], held.places.table["sequence"])
    keypoints = [held.keypoints(row) for row in rows]
    found = ask(held, held.vectors[:SPOTS], keypoints, Oracle(), excluded=out)
    truth = held.places.positions[:SPOTS, :2]
    plain, verified = ((one.off(truth) <= 25).mean() for one in (found.plain, found.verified))
    assert verified > plain + 0.1
    assert np.isnan(found.plain.evidence[:, CONTRAST]).all()
    assert not np.isnan(found.verified.evidence[:, CONTRAST]).any()
    assert (found.verified.rows >= SPOTS).all()  # of the other visit


def test_a_map_learns_from_itself_whom_to_trust():
    held = Held()
    trust = calibrate(held, model(), Oracle())
    assert trust.source == "map"
    assert trust.facts["how"] == "without the photos of its own sequence"
    kind = trust.kinds["verified"]
    assert kind.strangers == 2 * SPOTS  # each photo was asked once with its surroundings taken out
    assert trust.reliability()["verified"]["auroc"] > 0.9
    assert 0 < trust.facts["median error [m]"] < 9  # photos of a spot are up to 6 m apart each way
    sure, chance = np.array([[0.5, 0.5, 1.0, 80.0, 6.0], [1.2, 1.0, 800.0, 9.0, 0.8]])
    assert trust.probability(sure)[0] > 0.9
    assert trust.probability(chance)[0] < 0.2


def test_without_a_verifier_only_plain_answers_are_learned():
    trust = calibrate(Held(noise=0.5), model(), None)
    assert set(trust.kinds) == {"unverified"}


def test_strangers_are_asked_without_anything_in_reach(monkeypatch):
    held, seen = Held(), []
    real = asking.ask

    def spy(held, vectors, keypoints, verifier, *, excluded, **how):
        found = real(held, vectors, keypoints, verifier, excluded=excluded, **how)
        seen.append(found)
        return found

    monkeypatch.setattr(asking, "ask", spy)
    calibrate(held, model(), None, within=25.0)
    easting = held.places.positions[:, 0]
    inside, outside = (np.abs(easting[one.plain.rows] - easting) for one in seen)
    assert (outside > 100).all()
    assert (inside < 25).mean() > 0.5


@pytest.mark.parametrize(
    ("columns", "how"),
    [
        ({"sequence": ["one"] * 160}, "without the photos from its own spot"),
        (
            {"sequence": ["one"] * 160, "time": ["2024-05-01T10:00:00"] * 80 + ["2024-05-09T18:00:00"] * 80},
            "without the photos of its own hour",
        ),
        (
            {"sequence": ["one"] * 160, "time": ["10:00:00"] * 80 + ["10:20:00"] * 80},
            "without the photos of its own minute",
        ),
    ],
)
def test_what_would_answer_too_easily_is_left_out_as_far_as_the_table_tells(columns, how):
    trust = calibrate(Held(**columns), model(), None)
    assert trust.facts["how"] == how


def test_a_map_too_sparse_to_ask_itself_uses_the_models_calibration_and_says_so():
    own = calibrate(Held(), model(), Oracle()).to_dict()
    lonely = Held(visits=1)  # 40 m apart: nothing else within 25 m
    trust = calibrate(lonely, model(own), Oracle())
    assert trust.source == "model"
    assert "within 25 m" in trust.facts["why not of the map"]
    evidence = np.array([[0.5, 0.5, 1.0, 80.0, 6.0]])
    assert trust.probability(evidence) == Trust.from_dict(own).probability(evidence)


def test_a_model_without_a_calibration_borrows_that_of_the_shipped_one_and_says_so():
    trust = calibrate(Held(visits=1), model(), Oracle())
    assert trust.source == "another model"
    assert set(trust.kinds) == {"verified", "unverified"}
    sure, chance = np.array([[0.5, 0.5, 1.0, 80.0, 6.0], [1.2, 1.0, 800.0, 9.0, 0.8]])
    assert trust.probability(sure)[0] > 0.9
    assert trust.probability(chance)[0] < 0.2


def test_a_tiny_map_cannot_ask_itself():
    held = Held()
    few = SimpleNamespace(
        places=held.places.select([0, 1, SPOTS, SPOTS + 1]),
        vectors=held.vectors[[0, 1, SPOTS, SPOTS + 1]],
        keypoints=held.keypoints,
    )
    assert calibrate(few, model(), None).source == "another model"


def test_photos_are_changed_before_they_are_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "cores", lambda: 1)  # one thread: one after the other
    held = Held(root=tmp_path)
    rng = np.random.default_rng(0)
    pixels = {name: rng.integers(0, 255, (24, 32, 3), dtype=np.uint8) for name in held.places.table["image"]}
    for name, values in list(pixels.items())[1:]:  # the first photo is gone
        Image.fromarray(values).save(tmp_path / name)
    given = []

    def describe(image):
        given.append(image)
        return held.vectors[len(given)]  # in order, as rows are asked in order; the first is not read

    told = []
    trust = calibrate(held, model(), None, describe=describe, progress=lambda *words: told.append(words))
    assert len(given) == 2 * SPOTS - 1
    assert all(image.dtype == torch.uint8 and image.shape == (3, 24, 32) for image in given)
    names = list(pixels)[1:]
    same = [
        np.array_equal(image.permute(1, 2, 0).numpy(), pixels[n])
        for image, n in zip(given, names, strict=True)
    ]
    assert not any(same)
    assert trust.facts["photos changed"] is True
    assert told[-1][1:] == (4 * SPOTS, 4 * SPOTS)


def test_only_a_sample_is_asked_and_the_same_one_every_time():
    first, again = (calibrate(Held(), model(), None, questions=100) for _ in range(2))
    assert first.facts["photos asked"] == 100
    assert first.to_dict() == again.to_dict()


def test_a_photo_that_tells_no_sequence_is_asked_without_those_from_its_own_spot():
    columns = {
        "image": list("abcdef"),
        "easting": [0.0, 0.5, 0.5, 40.0, 80.0, 120.0],
        "northing": [0.0] * 6,
        "heading": [90.0] * 6,
        "sequence": [None, "one", "two", "one", "two", "one"],
    }
    places = Places.build("nowhere", columns, missing_images="ignore")
    how, out = next(iter(asking._too_easy(places, places)))
    assert "sequence" in how
    everyone = out(slice(0, 6), slice(0, 6))
    assert everyone[0].tolist() == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]  # itself, and who stands where it stands
    assert everyone[1].tolist() == [False, True, False, True, False, True]


def test_a_column_that_hardly_any_photo_fills_decides_nothing():
    columns = {
        "image": list("abcdef"),
        "easting": np.arange(6) * 40.0,
        "northing": [0.0] * 6,
        "heading": [90.0] * 6,
        "sequence": ["one", "two", None, None, None, None],
    }
    places = Places.build("nowhere", columns, missing_images="ignore")
    assert [how for how, _ in asking._too_easy(places, places)] == ["without the photos from its own spot"]


def test_a_storage_that_fails_is_no_photo_that_is_gone(monkeypatch):
    """A photo that is gone is asked as the map holds it, unchanged: far easier, and all of them would be."""
    held, rows = Held(), np.arange(3)

    def fails(path):
        raise errors.pop(0)

    monkeypatch.setattr(asking, "read_image", fails)
    errors = [MissingPhotoError("gone")] * 3
    found = asking._changed(held, rows, lambda image: np.ones(DIMS), None, 0, silent)[0]
    np.testing.assert_array_equal(found, held.vectors[rows])
    errors = [StorageError("token expired")] * 3
    with pytest.raises(StorageError, match="token expired"):
        asking._changed(held, rows, lambda image: np.ones(DIMS), None, 0, silent)
