"""From an experiment to its result, in a tiny town with a tiny network: two experiments, one seed, two steps."""

import json

import numpy as np
import pytest
import torch

from reproduction.data_sets import Town
from reproduction.experiment import Experiment, Store
from reproduction.measure import Bench
from reproduction.run import planned, run_matrix
from reproduction.scores import OVER_DISTANCE, OVER_OVERLAP, per_query
from samespot.evaluation.protocols import protocol_named
from samespot.evaluation.run import evaluate_cases
from samespot.retrieval.descriptors import Descriptors
from samespot.training.network import build_net

TINY = {"backbone": "test_resnet.r160_in1k", "pretrained": False, "pool": "gem"}
GRADED = Experiment(
    "town", "graded", "graded", {**TINY, "learning_rate": 1.0}, (4,), whiten_on_training=True, calibrated=True
)
AS_IT_COMES = Experiment("town", "as-it-comes", changes=TINY, whiten=(1000,), trained=False)
TUPLES = {"loss": "triplet", "batch_pairs": 2, "negatives": 2}
TRIPLET = Experiment("town", "triplet", changes={**TINY, **TUPLES}, whiten=())


class TinyTown(Town):
    visits, photos_per_visit, size = 2, 40, (48, 64)

    @property
    def options(self):
        return super().options.with_changes(**TINY, batch_pairs=4, steps=2)


@pytest.fixture(scope="module")
def bench(tmp_path_factory, one_thread):
    work = tmp_path_factory.mktemp("work")
    return Bench({"town": TinyTown(work / "town", work)}, work, {}, device="cpu")


@pytest.fixture(scope="module")
def done(bench, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("out"))
    return store, run_matrix(bench, planned([GRADED, AS_IT_COMES], 1), store)


def test_both_are_done_and_their_files_hold_them(done):
    store, outcome = done
    assert [run.state for run in outcome.runs] == ["done", "done"], [run.note for run in outcome.runs]
    assert [one.experiment for one in store.all()] == ["town/as-it-comes", "town/graded"]


def test_a_second_call_runs_nothing(done, bench, monkeypatch):
    store, _ = done
    monkeypatch.setattr(bench, "run", lambda *_: pytest.fail("ran again"))
    again = run_matrix(bench, planned([GRADED, AS_IT_COMES], 1), store)
    assert again.count("done") == 2


def test_the_cost_is_counted(done):
    _, outcome = done
    graded, as_it_comes = (one.cost for one in outcome.results)
    assert (graded.pairs, graded.learning_images, graded.mining_images) == (8, 16, 0)
    assert graded.seconds > 0
    assert (as_it_comes.pairs, as_it_comes.passes, as_it_comes.seconds) == (0, 0, 0.0)


def test_answers_are_those_of_the_evaluation(done, bench):
    """Described one by one, without the bench's shortcuts."""
    _, outcome = done
    result, data = outcome.results[1], bench.sets["town"]
    torch.manual_seed(0)
    net = build_net(bench.options(AS_IT_COMES)).eval()

    def describe(places, name):
        return Descriptors(None, net.describe_images(places.images, 1).numpy(), {"bad": {}})

    expected = evaluate_cases(
        protocol_named("town"), data.cases, describe, margin=net.margin, model={}
    ).evaluation.variant()
    answers = result.plain()
    assert (answers.dims, answers.whitened_on) == (96, None)
    for k in (1, 5, 10):
        found = np.nanmean(per_query(result, answers, f"R@{k}"))
        assert found == pytest.approx(expected.metrics[f"R@{k}"].value)
    for measure, curve in ((OVER_DISTANCE, "distance"), (OVER_OVERLAP, "overlap")):
        recalls = np.asarray(expected.curves[curve]["recall"], dtype=float)
        assert np.nanmean(per_query(result, answers, measure)) == pytest.approx(np.nanmean(recalls), abs=1e-6)


def test_whitened_and_calibrated_on_what_was_asked(done):
    graded, as_it_comes = done[1].results
    kinds = [(one.dims, one.whitened_on) for one in graded.answers.values()]
    assert kinds == [(96, None), (4, "the map"), (4, "training photos")]
    assert set(graded.calibration) == {"calibration", "calibration, isotonic"}
    # of 1000 dims there are fewer: as many as there are, since a network that collapsed is a result, too
    (largest,) = [one.dims for one in as_it_comes.answers.values() if one.whitened_on]
    assert 4 < largest < 96
    assert any(f"to at most {largest} dims" in note for note in as_it_comes.facts["notes"])
    assert set(as_it_comes.calibration) == {"calibration"}


def test_frozen_features_are_computed_once(bench, done, monkeypatch):
    from samespot.training import feed

    monkeypatch.setattr(feed, "keep_features", lambda *_, **__: pytest.fail("computed again"))
    again = bench.run(GRADED, 0)
    assert again.to_dict()["answers"] == done[1].results[0].to_dict()["answers"]


def test_mining_is_counted_and_the_budget_is_the_same(bench):
    mined = bench.run(TRIPLET, 0)
    assert mined.cost.learning_images == 16  # two steps of two tuples of four photos
    assert mined.cost.pairs == 4
    assert mined.cost.mining_images > 0


def test_weights_at_hand_are_asked_for(bench, monkeypatch, tmp_path):
    other = Bench(bench.sets, tmp_path, {}, device="cpu")
    monkeypatch.setattr("reproduction.measure.hub_is_reachable", lambda: False)
    vgg = Experiment("town", "vgg", changes={"backbone": "vgg16", "pretrained": True})
    assert other.lacks(vgg) == "needs weights of vgg16: --weights vgg16=FILE"
    assert other.lacks(Experiment("moon", "vgg")) == "needs the data set moon"
    assert other.lacks(GRADED) is None
    (tmp_path / "vgg.pth").write_bytes(b"weights")
    assert Bench(bench.sets, tmp_path, {"vgg16": tmp_path / "vgg.pth"}, device="cpu").lacks(vgg) is None


def test_the_folder_of_a_run_is_left_only_while_it_runs(bench, done):
    assert not list((bench.work / "runs").rglob("config.json"))
    path = done[0].path("town/graded", 0)
    assert json.loads(path.read_text())["facts"]["options"]["steps"] == 2


def test_a_run_begun_on_another_device_or_with_weights_elsewhere_starts_anew(bench, monkeypatch):
    """Training itself would refuse to go on with it, and the run would fail for ever."""
    folder = bench.work / "runs" / GRADED.key / "seed-3"

    def stopped(options, sets, run, **_):
        run.mkdir(parents=True, exist_ok=True)
        (run / "begun").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("reproduction.measure.train_network", stopped)
    for where in ("cpu", "cpu", "cuda"):
        there = (folder / "run" / "begun").exists()
        options = bench.options(GRADED, 3).with_changes(device=where)
        kept = []
        monkeypatch.setattr(
            "reproduction.measure.train_network",
            lambda o, s, run, kept=kept, **_: (kept.append((run / "begun").exists()), stopped(o, s, run)),
        )
        with pytest.raises(KeyboardInterrupt):
            bench._trained(GRADED, options, bench.digest(GRADED), folder)
        assert kept == [there and where == "cpu"]


def test_a_gpu_is_warmed_up_once_for_each_kind_of_step(bench, monkeypatch, tmp_path):
    """What its libraries try at first is no part of the cost; another rate or seed is the same kind."""
    seen = []
    monkeypatch.setattr("reproduction.measure.train_network", lambda options, *_, **__: seen.append(options))
    other = Bench(bench.sets, tmp_path, {}, device="cpu")
    options = other.options(GRADED)
    other._warm_up(options, [])
    assert not seen
    other.where = torch.device("cuda")
    for changes in ({}, {"learning_rate": 0.5, "seed": 1}, {"batch_pairs": 6}):
        other._warm_up(options.with_changes(**changes), [])
    assert [(one.steps, one.batch_pairs) for one in seen] == [(3, 4), (3, 6)]
    assert not list(tmp_path.iterdir())


def test_a_package_that_lacks_is_named_before_anything_is_trained(bench, monkeypatch):
    import importlib.util

    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "kornia" else there(name))
    asked = Experiment("town", "x", changes=TINY, rerank="xfeat")
    assert bench.lacks(asked) == "needs the package kornia: pip install samespot[rerank]"


def test_seconds_are_not_told_of_runs_beside_others(bench, tmp_path):
    other = Bench(bench.sets, tmp_path, {}, device="cpu", beside=True)
    cost = other.run(TRIPLET, 0).cost
    assert (cost.seconds, cost.mining_seconds) == (0.0, 0.0)
    assert cost.mining_images > 0
