"""The front door: places and labels in whatever form, options by keyword, and a result that stands for its run."""

import json

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.overlap.options import LabelOptions, label_tasks
from samespot.overlap.task import run_task
from samespot.places.table import Places
from samespot.training.logbook import read_metrics
from samespot.training.options import TrainingData, asked_for, preset_options
from samespot.training.prepared import training_data
from samespot.training.run import train
from samespot.training.validation_sets import Validation


@pytest.fixture(scope="module")
def small(tiny) -> dict:
    """Options by keyword: one step of the tiny network."""
    names = ("backbone", "pretrained", "image_size", "batch_pairs", "device", "tensorboard", "workers")
    return {**{name: getattr(tiny, name) for name in names}, "steps": 1, "log_every": 1}


@pytest.fixture(scope="module")
def on_disk(photo_set, tmp_path_factory):
    """The table, and the folder that `samespot label --out` leaves: its labels are inside."""
    folder = tmp_path_factory.mktemp("labelled")
    photo_set.labels.save(folder / "labels")
    return photo_set.queries.save(photo_set.queries.root / "places.csv"), folder


def test_objects_and_files_give_the_same_run(small, photo_set, on_disk, tmp_path):
    table, folder = on_disk
    given = [
        (photo_set.queries, photo_set.labels),
        (table, folder / "labels"),
        (str(table), str(folder)),
    ]
    results = [train(places, labels, tmp_path / str(i), **small) for i, (places, labels) in enumerate(given)]
    assert len({result.loss for result in results}) == 1
    result = results[0]
    assert (result.run, result.model) == (tmp_path / "0", tmp_path / "0" / "last")
    assert load_model(result).digest() == PlaceNet.load(result.model).digest()
    drawn = json.loads((tmp_path / "0" / "batches.json").read_text())["strategies"]
    assert {name: sum(numbers) for name, numbers in drawn.items()} == {"A": result.pairs}


def test_readers_notes_are_passed_on(small, photo_set, tmp_path):
    table = photo_set.queries
    noted = Places(table.root, table.table, table.projection, {"no such file": 3}, ("headings were wrapped",))
    said: list[str] = []
    train(noted, photo_set.labels, tmp_path / "run", say=said.append, **small)
    assert said[:2] == ["note: headings were wrapped", "dropped: 3 images: no such file"]


def test_progress_tells_steps_and_the_loss(small, photo_set, tmp_path):
    told = []
    run = tmp_path / "run"
    train(
        photo_set.queries,
        photo_set.labels,
        run,
        progress=lambda *it: told.append(it),
        images_in_memory="host",
        **{**small, "steps": 3, "log_every": 2},
    )
    assert ("reading images", 12, 12) in told
    training = [(done, total) for what, done, total in told if what.partition(" · ")[0] == "training"]
    assert training == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert f"loss {read_metrics(run)[-1]['loss']:.4f}" in told[-1][0]


def test_a_model_keeps_its_image_size_and_margin_unless_they_are_given(small, photo_set, tmp_path):
    first = {**small, "image_size": (64, 96), "margin": 0.8}
    start = train(photo_set.queries, photo_set.labels, tmp_path / "first", **first)
    plain = {name: small[name] for name in small if name not in ("backbone", "pretrained", "image_size")}
    kept = train(photo_set.queries, photo_set.labels, tmp_path / "kept", model=str(start.run), **plain)
    net = PlaceNet.load(kept.model)
    assert (net.preprocessing.size, net.margin) == ((64, 96), 0.8)
    options = json.loads((kept.run / "config.json").read_text())["options"]
    assert (options["image_size"], options["margin"]) == ([64, 96], 0.8)
    other = {**plain, "image_size": "64", "margin": 0.4}
    given = train(photo_set.queries, photo_set.labels, tmp_path / "given", model=str(start.run), **other)
    net = PlaceNet.load(given.model)
    assert (net.preprocessing.size, net.margin) == ((64, 64), 0.4)
    again = {**plain, "steps": 2}  # what was settled is the same when it goes on
    assert (
        train(photo_set.queries, photo_set.labels, kept.run, resume=True, model=str(start.run), **again).steps
        == 2
    )


def test_a_run_is_not_resumed_with_another_validation(small, photo_set, tmp_path):
    """Two recalls in one record could not be told apart."""
    table = photo_set.queries
    near, far = (Validation.within(table, table, metres, ks=(1,)) for metres in (5.0, 30.0))

    def go(steps, validation):
        more = {**small, "steps": steps}
        return train(table, photo_set.labels, tmp_path / "run", resume=True, validation=validation, **more)

    go(1, None)
    go(2, near)  # asked for later: nothing is mixed
    with pytest.raises(
        InputError, match=r"cannot be resumed with another validation.* or none, or choose another"
    ):
        go(3, far)
    go(3, None)
    with pytest.raises(InputError, match="another validation"):
        go(4, far)
    assert go(4, near).recall == {1: 1.0}
    assert [m["step"] for m in read_metrics(tmp_path / "run") if "recall@1" in m] == [2, 4]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"stepps": 3}, "unknown option 'stepps'; did you mean `steps`?"),
        ({"preset": "campus"}, "`preset` reads a whole data set: give folders for `places` and `labels`"),
        ({"preset": "campus", "map": "m.csv"}, "`map` has no effect with `preset=campus`"),
        ({"labels": None}, "`labels` is missing"),
        ({"validation": "v", "validate": "q.csv"}, "`validate` has no effect with `validation`"),
        ({"device": "cuda"}, "`device=cuda`: torch sees no GPU"),
        ({"decode": "gpu", "device": "cpu"}, "`decode=gpu` needs a CUDA device"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(photo_set, tmp_path, monkeypatch, options, complaint):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    given = {"labels": tmp_path, **options}
    with pytest.raises(InputError) as caught:
        train(photo_set.queries, run=tmp_path / "run", **given)
    assert str(caught.value).startswith(complaint)
    assert not (tmp_path / "run").exists()


def test_outdoors_the_soft_loss_learns_from_labels_by_distance(tmp_path):
    for i in range(18):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i}.jpg")
    places = Places.build(
        tmp_path,
        {
            "image": [f"{i}.jpg" for i in range(18)],
            "easting": np.arange(18) * 10.0,
            "northing": np.zeros(18),
            "heading": np.zeros(18),
            "split": ["train"] * 4 + ["map"] * 12 + ["query"] * 2,
            "time": ["15:00"] * 16 + ["16:00"] * 2,
        },
    )
    places.save(tmp_path / "places.csv")
    asked = TrainingData(tmp_path, preset="campus", labels=tmp_path / "labels")
    (soft,), _ = training_data(asked, preset_options("campus", loss="soft-contrastive"), None, print)
    assert soft.labels.meta["measure"] == "distance"
    # 10 m and 20 m apart, ½ at 15 m with 0.8 / m: e⁴ and e⁻⁴ to one; 30 m is nothing
    np.testing.assert_allclose(soft.labels.dense()[0, 1:], [0.98201, 0.01799, 0], atol=1e-5)
    (graded,), _ = training_data(asked, preset_options("campus", loss="ap"), None, print)
    assert graded.labels.meta["measure"] == "overlap"


def test_size_and_length_suit_the_photos_unless_they_are_chosen(small, photo_set, tmp_path):
    """Photos of 48 x 64 are not enlarged, and one epoch of twelve of them is no training."""
    from samespot.training.planning import LEAST_STEPS
    from samespot.training.run import suited

    said: list[str] = []
    data, options = asked_for(
        {"places": photo_set.queries, "labels": photo_set.labels, "run": tmp_path / "r"}
    )
    fitted = suited(options, data, set(), [photo_set], said.append)
    assert (fitted.image_size, fitted.steps) == ((48, 64), LEAST_STEPS)
    assert [line.split()[0] for line in said] == ["images", str(LEAST_STEPS)]
    kept = suited(options, data, {"image_size", "epochs"}, [photo_set], said.append)
    assert (kept.image_size, kept.steps) == (options.image_size, None)


def test_a_resumed_run_keeps_what_was_chosen_when_it_began(small, photo_set, tmp_path):
    chosen = {name: value for name, value in small.items() if name not in ("image_size", "steps")}
    with_steps = {**chosen, "epochs": 1.0}
    first = train(photo_set.queries, photo_set.labels, tmp_path / "run", **with_steps)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["options"]["image_size"] == [48, 64]
    before = (tmp_path / "run" / "result.json").read_bytes()
    again = train(photo_set.queries, photo_set.labels, tmp_path / "run", resume=True, **with_steps)
    assert again == first  # a finished run is left as it was
    assert (tmp_path / "run" / "result.json").read_bytes() == before


def test_a_run_too_short_to_learn_is_told(small, photo_set, tmp_path):
    result = train(photo_set.queries, photo_set.labels, tmp_path / "run", **small)
    assert "1 steps are too few to learn much; pass `steps=500` or more" in result.warnings


def test_a_network_that_calls_all_photos_alike_is_told(small, photo_set, tmp_path, monkeypatch):
    """A pooling that gives every photo the same vector."""
    import torch

    from samespot.training import gradient

    described = gradient.Learner.describe
    monkeypatch.setattr(
        gradient.Learner,
        "describe",
        lambda self, features: described(self, features) * 0 + torch.eye(1, self.net.descriptor_size)[0],
    )
    result = train(photo_set.queries, photo_set.labels, tmp_path / "run", **small)
    (line,) = [line for line in result.warnings if "collapsed" in line]
    assert "try a lower `learning_rate`" in line
    assert any("collapsed" in note for note in PlaceNet.load(tmp_path / "run" / "last").notes)


def test_memory_is_planned_and_running_out_of_it_is_one_line(small, photo_set, tmp_path, monkeypatch):
    from samespot.training import gradient, loop

    monkeypatch.setattr(loop, "free_memory", lambda device: 1)
    said: list[str] = []
    train(photo_set.queries, photo_set.labels, tmp_path / "small", say=said.append, **small)
    assert any(line.startswith("1 of ") and "as memory allows" in line for line in said)
    assert json.loads((tmp_path / "small" / "config.json").read_text())["options"]["micro_pairs"] == 1

    def full(*_):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(gradient.Learner, "backward", full)
    with pytest.raises(InputError, match=r"step 1: out of memory with 4 pairs at once; pass `micro_pairs=2`"):
        train(photo_set.queries, photo_set.labels, tmp_path / "full", **small, micro_pairs=4)


def test_two_runs_in_one_folder_and_foreign_files_are_refused(small, photo_set, tmp_path):
    from samespot.files import locked

    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").touch()
    with pytest.raises(InputError, match=r"exists and is not a run folder \(chapter1.tex\)"):
        train(photo_set.queries, photo_set.labels, tmp_path / "thesis", **small)
    with (
        locked(tmp_path / "busy", "a run"),
        pytest.raises(InputError, match="another process is writing a run there"),
    ):
        train(photo_set.queries, photo_set.labels, tmp_path / "busy", **small)


def test_a_resumed_run_keeps_its_length(small, photo_set, tmp_path):
    """Begun with two epochs and resumed without saying so: it is not cut to the default of one."""
    few = {**{name: value for name, value in small.items() if name != "steps"}, "batch_pairs": 4}
    first = train(photo_set.queries, photo_set.labels, tmp_path / "run", epochs=2.0, **few)
    assert first.steps == 6  # two epochs of twelve queries in batches of four
    assert train(photo_set.queries, photo_set.labels, tmp_path / "run", resume=True, **few).steps == 6
    assert json.loads((tmp_path / "run" / "config.json").read_text())["options"]["epochs"] == 2.0


def test_a_model_measured_on_photos_it_learned_from_is_told_so(small, photo_set, tmp_path):
    """Trained on half of a table, measured on the whole of it: the model folder remembers single photos."""
    from samespot.evaluation.run import evaluate
    from samespot.overlap.rules import label_pairs

    half = photo_set.queries.select(np.arange(6))
    run = train(
        half, label_pairs(half, half, radius=100.0), tmp_path / "run", **{**small, "batches": "pos=1"}
    )
    result = evaluate(PlaceNet.load(run.run), map=photo_set.queries, within="40m", acceptance=False)
    (note,) = [note for note in result.notes if "was trained on photos of" in note]
    assert "6 of 12" in note


def test_a_run_folder_is_a_model(small, photo_set, tmp_path):
    run = train(photo_set.queries, photo_set.labels, tmp_path / "run", **small)
    assert PlaceNet.load(tmp_path / "run").digest() == PlaceNet.load(run.model).digest()
    with pytest.raises(InputError, match=r"no model here.*give a model or run folder"):
        PlaceNet.load(tmp_path)


def test_training_reads_the_rows_and_poses_that_were_labelled(tmp_path):
    """The compass is wrong on purpose: without the pose these would be other places than those of the labels."""
    half = np.sqrt(0.5)
    table = {"image": list("abcd"), "easting": 900.0, "northing": 0.0, "heading": 7.0, "split": list("qmmq"),
             "tx": [0.0, 5.0, 10.0, 15.0], "ty": 0.0, "tz": 1.5, "qw": half, "qx": -half,
             "qy": 0.0, "qz": 0.0}  # fmt: skip
    path = Places.build(tmp_path, table, missing_images="ignore").save(tmp_path / "p.csv")
    reading = {"split": "q", "map_split": "m", "from_pose": True}
    (task,) = label_tasks(LabelOptions.of({"places": path, **reading}))
    run_task(task, tmp_path / "labels")
    data, options = asked_for({"places": path, "labels": tmp_path / "labels", **reading})
    (one,), _ = training_data(data, options, None, print)
    np.testing.assert_allclose(one.queries.positions, [[0, 0, 0], [15, 0, 0]], atol=1e-9)
    assert (one.queries.digest(), one.places.digest()) == (task.queries.digest(), task.places.digest())
    with pytest.raises(InputError, match="the labels are for 2 queries, the table has 4"):
        training_data(TrainingData(path, labels=tmp_path / "labels"), options, None, print)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"preset": "campus", "part": "x"}, "`part` has no effect with `preset=campus`"),
        ({"preset": "campus", "from_pose": True}, "`from_pose` has no effect with `preset=campus`"),
        ({"north": "x"}, "`north` has no effect without `from_pose`"),
        ({"from_pose": True, "up": "w"}, "up axis 'w' is unknown; choose one of x, y, z, -x, -y, -z"),
    ],
)
def test_reading_options_without_effect_are_refused(typed, message):
    with pytest.raises(InputError) as caught:
        asked_for({"places": "places.csv", "labels": "labels", **typed})
    assert str(caught.value) == message
