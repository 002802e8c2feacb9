"""Results on disk: whole or absent, and only of what is asked for now."""

from dataclasses import replace

import numpy as np
import pytest

from reproduction.experiment import LACKS, Experiment, Failure, Store, digest_of
from samespot.errors import InputError
from samespot.training.options import TrainingOptions


def test_a_result_survives_the_way_through_json(tmp_path, result):
    made = result("campus/a", [0, 1, 7, 2], 3, whitened={"the map": (128, 0.5)}, ece=0.25)
    made = replace(
        made, truth={"counted": np.array([1.0, 0.0, 1.0, 1.0]), "metres": np.array([np.inf, 1.25, np.nan, 3])}
    )
    store = Store(tmp_path)
    store.save(made)
    back = store.load("campus/a", 3)
    assert back.plain().columns["first_hit"].tolist() == [0, 1, 7, 2]
    np.testing.assert_array_equal(back.truth["metres"], [np.inf, 1.25, np.nan, 3])
    assert back.counted.tolist() == [True, False, True, True]
    assert back.answers["128 whitened on the map"].dims == 128
    assert back.cost == made.cost
    assert back.cost.passes == 2000
    assert back.calibration == {"calibration": {"ece": 0.25}}
    assert [one.experiment for one in store.all()] == ["campus/a"]


def test_only_a_result_of_the_same_things_is_loaded(tmp_path, result):
    store = Store(tmp_path)
    store.save(result("campus/a", 0.5, digest="old"))
    assert store.load("campus/a", 0, "old") is not None
    assert store.load("campus/a", 0, "new") is None
    assert store.load("campus/a", 1, "old") is None
    assert store.load("campus/b", 0) is None


def test_a_try_with_fewer_steps_leaves_whole_results_alone(tmp_path, result):
    whole, tried = Store(tmp_path), Store(tmp_path, steps=2)
    whole.save(result("campus/a", 0.5, digest="whole"))
    tried.save(result("campus/a", 0.1, digest="tried"))
    assert whole.load("campus/a", 0, "whole") is not None
    assert [one.digest for one in whole.all()] == ["whole"]
    assert [one.digest for one in tried.all()] == ["tried"]


def test_a_broken_file_is_named(tmp_path, result):
    store = Store(tmp_path)
    path = store.save(result("campus/a", 0.5))
    path.write_text(path.read_text()[:300])
    with pytest.raises(InputError, match=r"seed-0.json: not a result .* delete it"):
        store.load("campus/a", 0)


def test_a_failure_is_no_result_and_goes_when_there_is_one(tmp_path, result):
    store = Store(tmp_path)
    path = store.save_failure(Failure("campus/a", 0, "d", "out of luck"))
    assert "out of luck" in path.read_text()
    assert store.load("campus/a", 0) is None
    assert store.all() == []
    store.save(result("campus/a", 0.5))
    assert not path.exists()
    assert len(store.all()) == 1


def test_the_digest_is_of_what_a_result_depends_on():
    one, options, data = Experiment("campus", "a", whiten=(128,)), TrainingOptions(steps=5), {"photos": "x"}
    base = digest_of(one, options, data, "w")
    same = options.with_changes(seed=2, device="cpu", workers=1, weights="elsewhere.pth", tensorboard=False)
    assert digest_of(one, same, data, "w") == base
    others = [
        digest_of(one, options.with_changes(steps=6), data, "w"),
        digest_of(one, options.with_changes(learning_rate=0.2), data, "w"),
        digest_of(one, options, {"photos": "y"}, "w"),
        digest_of(one, options, data, "v"),
        digest_of(replace(one, labels="binary"), options, data, "w"),
        digest_of(replace(one, whiten=(64,)), options, data, "w"),
        digest_of(replace(one, rerank="xfeat"), options, data, "w"),
        digest_of(replace(one, rerank="xfeat"), options, data, "w", {"top": 50}),
        digest_of(replace(one, trained=False), options, data, "w"),
    ]
    assert len({base, *others}) == len(others) + 1


def test_a_network_as_it_comes_does_not_depend_on_the_budget():
    one = Experiment("campus", "a", trained=False)
    few, many = (digest_of(one, TrainingOptions(steps=steps), {}, None) for steps in (5, 500))
    assert few == many
    assert list(one.seeds(3)) == [0]


def test_what_could_not_be_run_is_told_to_those_who_collect(tmp_path):
    store = Store(tmp_path)
    assert store.lacks() == {}
    store.save_lacks({"campus/a": "needs weights"})
    assert Store(tmp_path).lacks() == {"campus/a": "needs weights"}
    store.save_lacks({"campus/a": "needs data", "town/a": "needs weights"})  # which the first call had
    assert store.lacks() == {"campus/a": "needs data"}
    store.save_lacks({})
    assert store.lacks() == {}
    assert store.all() == []  # it is no result
    (store.folder / LACKS).write_text("[1]")
    with pytest.raises(InputError, match=r"not_run\.json: not written by python -m reproduction claims"):
        store.lacks()
