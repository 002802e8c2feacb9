"""A folder of runs: seeds of one recipe stand together, in the order of the seeds."""

import json

import pytest

from samespot import InputError
from samespot.evaluation.run_groups import all_runs_of, runs_of


def run(folder, **options):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"options": options}))
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    return folder


def evaluation(folder, **options):
    folder.mkdir(parents=True)
    (folder / "evaluation.json").write_text(json.dumps({"model": {"training": {"options": options}}}))
    return folder


def test_seeds_of_one_recipe_by_seed_whatever_does_not_change_a_run(tmp_path):
    made = [
        run(tmp_path / f"run{i}", seed=seed, loss="gcl", workers=i) for i, seed in enumerate((10, 9, 100))
    ]
    assert runs_of(tmp_path) == [made[1], made[0], made[2]]
    assert runs_of(str(tmp_path)) == runs_of(tmp_path)


def test_runs_of_several_settings_are_named_and_side_by_side(tmp_path):
    graded = [run(tmp_path / f"graded-seed{s}", seed=s, batches="A") for s in (0, 1)]
    binary = [run(tmp_path / "more" / f"binary_{s}", seed=s, batches="binary") for s in (1, 0)]
    with pytest.raises(InputError) as error:
        runs_of(tmp_path)
    assert "holds runs of 2 settings: graded (2 runs), binary (2 runs); name those of one" in str(error.value)
    assert all_runs_of(tmp_path) == [*graded, *binary[::-1]]
    assert runs_of(tmp_path / "more") == binary[::-1]


def test_evaluations_are_grouped_by_the_training_of_their_models(tmp_path):
    made = [evaluation(tmp_path / f"e{s}", seed=s, loss="gcl") for s in (1, 0)]
    assert runs_of(tmp_path) == made[::-1]
    evaluation(tmp_path / "resnet50-gem")  # trained by nobody here
    assert len(all_runs_of(tmp_path)) == 3
    with pytest.raises(InputError, match=r"2 settings: e \(2 runs\), resnet50-gem \(1 runs\)"):
        runs_of(tmp_path)


def test_anything_else_stands_for_itself(tmp_path):
    mine = run(tmp_path / "a", seed=0)
    something = object()
    for source in (mine, tmp_path / "a" / "config.json", tmp_path / "absent", something):
        assert runs_of(source) == [source]
        assert all_runs_of(source) == [source]
    (tmp_path / "empty").mkdir()
    assert runs_of(tmp_path / "empty") == [tmp_path / "empty"]  # the next step says what is wrong with it
