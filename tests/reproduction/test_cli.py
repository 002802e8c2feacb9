"""python -m reproduction claims as a user meets it: the list, the errors, the table of what is there, the exit code."""

import json
from dataclasses import replace

import numpy as np
import pytest

from reproduction.experiment import Answers, Cost, Experiment, Result, Store
from reproduction.measure_claims import command_in_words, measure_claims, of_one_kind
from reproduction.options import ClaimsOptions
from reproduction.run import Run
from reproduction.screen import Board, board
from samespot.errors import InputError


def made_up(key: str, share: float) -> Result:
    hits = (np.arange(100) < 100 * share).astype(float)
    return Result(
        key, 0, "d", "the same", {"counted": np.ones(100)}, {"512": Answers(512, None, None, {"first_hit": hits})},
        {}, Cost(1.0, 10, 20), {"device": "a machine"},
    )  # fmt: skip


@pytest.fixture
def results(tmp_path):
    store = Store(tmp_path / "out")
    store.save(made_up("campus/vgg16-gem-graded", 0.8))
    store.save(made_up("campus/vgg16-gem-D", 0.4))
    store.save(made_up("campus/vgg16-gem-last-block", 0.9))
    return tmp_path / "out"


def test_the_list_names_claims_and_experiments(reproduction, tmp_path):
    code, printed, _ = reproduction("claims", "--list", "--out", tmp_path, "--json", tmp_path / "list.json")
    assert code == 0
    assert "two-blocks" in printed
    listed = json.loads((tmp_path / "list.json").read_text())
    assert {"graded-beats-binary", "cheaper-than-mining"} <= {one["id"] for one in listed["claims"]}
    assert "campus/vgg16-netvlad64-triplet-rate-0.04" in [one["name"] for one in listed["experiments"]]
    assert not (tmp_path / "results").exists()


def test_results_that_are_there_are_judged_and_written(reproduction, results, tmp_path):
    facts, page = tmp_path / "facts.json", tmp_path / "docs" / "reproduce.md"
    code, printed, _ = reproduction("claims", "--collect", "--out", results, "--json", facts, "--page", page)
    assert code == 0
    assert "does not hold" in printed
    verdicts = {one["id"]: one for one in json.loads(facts.read_text())["claims"]}
    assert verdicts["two-blocks"]["verdict"] == "does not hold"
    assert verdicts["abc-beat-d"]["verdict"] == "inconclusive"  # B and C are not run
    assert verdicts["whitening-helps"]["verdict"] == "not run"
    first = next(one for one in verdicts["abc-beat-d"]["comparisons"] if one["verdict"] == "holds")
    assert first["interval"]["value"] == pytest.approx(0.4)
    assert "| ✗ does not hold |" in page.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "two-blocks"), "nothing can be run: the first experiment needs the data set campus"),
        (("--only", "three-blocks"), "--only three-blocks: no such claim or experiment"),
        (("--collect",), "no results below"),
        (("--data", "nowhere"), "--data nowhere: no such folder"),
        (("--root", "moon=x"), "--root moon=…: no such data set"),
        (("--root", "msls"), "--root 'msls': give NAME=FOLDER"),
        (("--weights", "vgg16=nowhere.pth"), "--weights vgg16=nowhere.pth: no such file"),
        (("--seeds", "0"), "--seeds 0 must be at least 1"),
        (("--collect", "--only", "town"), "--collect judges all that is there; leave --only out"),
        (("--explained", "why.toml"), "--explained is for the page; give --page as well"),
        (("--explained", "why.toml", "--page", "claims.md"), "why.toml: No such file"),
    ],
)
def test_a_mistake_is_one_line(reproduction, tmp_path, words, said):
    code, _, error = reproduction("claims", "--out", tmp_path / "out", *words)
    assert code == 2
    assert said in " ".join(error.split())


def test_a_failed_experiment_gives_exit_code_1(reproduction, tmp_path, monkeypatch):
    from reproduction.measure import Bench

    def broken(self, experiment, seed):
        raise InputError("the town burned down")

    monkeypatch.setattr(Bench, "run", broken)
    monkeypatch.setattr(Bench, "lacks", lambda self, one: None if one.data == "town" else "needs it")
    facts = tmp_path / "facts.json"
    words = ("--only", "town/lite0-gem-D", "--seeds", "1", "--out", tmp_path / "out", "--json", facts)
    code, _, error = reproduction("claims", *words)
    assert code == 1
    assert "the town burned down" in error
    assert json.loads(facts.read_text())["failed"] == {"town/lite0-gem-D, seed 0": "the town burned down"}
    assert Store(tmp_path / "out").lacks()["campus/vgg16-gem-B"] == "needs it"


def test_weights_are_found_beside_the_data(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "weights").mkdir()
    file = tmp_path / "weights" / "vgg16_something.safetensors"
    file.touch()
    assert ClaimsOptions(data=tmp_path / "data").weight_files() == {"vgg16": file}
    assert ClaimsOptions().weight_files() == {}


def test_the_command_in_words_is_that_of_the_results_and_names_no_folder_of_this_machine(tmp_path):
    """Whatever the last call asked for: results may be of several."""
    asked = ClaimsOptions(
        tmp_path,
        tmp_path,
        weights=(f"vgg16={tmp_path}",),
        only=("two-blocks",),
        seeds=3,
        steps=9,
    )
    results = {"msls/a": [made_up("msls/a", 0.5)] * 2, "campus/a": [made_up("campus/a", 0.5)]}
    said = (
        "python -m reproduction claims --data DATA --root msls=MSLS --weights vgg16=FILE --seeds 2 --steps 9"
    )
    assert command_in_words(asked, results) == said
    three = {"campus/a": [made_up("campus/a", 0.5)] * 3}
    assert command_in_words(ClaimsOptions(seeds=1), three) == "python -m reproduction claims --data DATA"


def test_collecting_says_why_an_experiment_lacks_where_data_is_named(results, monkeypatch):
    monkeypatch.setattr("reproduction.measure.hub_is_reachable", lambda: False)
    (results / "data").mkdir()
    with_data = ClaimsOptions(results, results / "data", collect=True, device="cpu")
    notes = {
        run.experiment.key: run.note for run in measure_claims(with_data)[1].runs if run.state == "missing"
    }
    assert notes["campus/vgg16-gem-B"] == "needs the data set campus"
    bare = ClaimsOptions(results, collect=True, device="cpu")
    notes = {run.experiment.key: run.note for run in measure_claims(bare)[1].runs if run.state == "missing"}
    assert notes["campus/vgg16-gem-B"] == "not run"
    assert "campus/vgg16-gem-graded" not in notes
    Store(results).save_lacks(
        {"campus/vgg16-gem-B": "needs more time", "campus/vgg16-gem-graded": "was there"}
    )
    notes = {run.experiment.key: run.note for run in measure_claims(bare)[1].runs if run.state == "missing"}
    assert notes["campus/vgg16-gem-B"] == "needs more time"
    assert "campus/vgg16-gem-graded" not in notes


def test_the_board_shows_a_square_for_each_run(capsys):
    from rich.console import Console

    one = Experiment("campus", "a")
    runs = [Run(one, 0, "done", "R@1 30.0", 4.0), Run(one, 1, "running"), Run(replace(one, data="town"), 0)]
    shown = Board(runs)
    shown.heard(runs[0])
    console = Console(width=100)
    console.print(shown)
    text = capsys.readouterr().out
    assert "1 of 2 ■▶" in " ".join(text.split())
    assert "▶ campus/a, seed 1" in text
    assert "R@1 30.0 4 s" in " ".join(text.split())


def test_without_a_terminal_the_board_is_a_line_a_run(capsys):
    run = Run(Experiment("campus", "a"), 0)
    with board([run]) as (_, tell, _):
        tell(run)
        run.state, run.note, run.seconds = "failed", "out of luck", 2.0
        tell(run)
    assert capsys.readouterr().err.splitlines() == ["✗ campus/a, seed 0  out of luck  2 s"]


def test_a_long_board_is_folded_not_cut(capsys):
    from rich.console import Console

    runs = [Run(Experiment("campus", f"a{i}"), 0) for i in range(261)]
    Console(width=80).print(Board(runs))
    text = capsys.readouterr().out
    assert text.count("·") == 261
    assert "…" not in text


def test_seeds_of_other_options_are_no_further_seeds(results):
    """Collected from a folder that was filled in several calls."""
    old = made_up("campus/vgg16-gem-graded", 0.9)
    new = [replace(old, seed=seed, digest="new") for seed in (1, 2)]
    assert [one.digest for one in of_one_kind([old, *new])] == ["new", "new"]
    assert of_one_kind([old, new[0]]) == [old]
    store = Store(results)
    store.save(replace(old, experiment="campus/no-longer-there"))
    judged, _ = measure_claims(ClaimsOptions(results, collect=True, device="cpu"))
    assert "campus/no-longer-there" not in judged.results


def test_collecting_needs_no_data(results):
    asked = ClaimsOptions(results, root=("msls=nowhere",), collect=True, device="cpu")
    assert measure_claims(asked)[0].results


def test_averages_are_in_the_json(reproduction, results, tmp_path):
    Store(results).save(made_up("campus/vgg16-gem-B", 0.6))
    facts = tmp_path / "facts.json"
    assert reproduction("claims", "--collect", "--out", results, "--json", facts)[0] == 0
    claims = {one["id"]: one for one in json.loads(facts.read_text())["claims"]}
    (average,) = claims["abc-beat-d"]["averages"]
    assert average["comparison"] == "campus, A, B and C − D: the average of 2"
    assert average["interval"]["value"] == pytest.approx(0.3)
    assert claims["two-blocks"]["averages"] == []


def test_only_what_is_asked_for_is_listed(reproduction, tmp_path):
    """A claim by itself with its experiments; of a data set or an experiment all claims that rest on it."""
    listed = tmp_path / "list.json"
    code, printed, _ = reproduction("claims", "--list", "--only", "two-blocks", "--json", listed)
    assert code == 0
    assert "two-blocks" in printed
    assert "calibrated-overlap" not in printed  # of campus/vgg16-gem-graded, too, but not asked for
    names = [one["name"] for one in json.loads(listed.read_text())["experiments"]]
    assert "campus/lite0-gem-all-blocks" in names
    assert "town/lite0-gem-3d" not in names
    code, _, _ = reproduction("claims", "--list", "--only", "town", "--json", listed)
    ids = [one["id"] for one in json.loads(listed.read_text())["claims"]]
    assert code == 0
    assert "better-labels" in ids
    assert "two-blocks" not in ids
    code, _, complaint = reproduction("claims", "--list", "--only", "three-blocks")
    assert code == 2
    assert "--only three-blocks" in complaint


def test_results_of_other_data_sets_are_collected_unasked(results):
    Store(results).save(made_up("msls/vgg16-gem-graded", 0.7))
    judged, _ = measure_claims(ClaimsOptions(results, collect=True, device="cpu"))
    assert "msls/vgg16-gem-graded" in judged.results
