"""The loop: what is there is skipped, what fails is recorded and the others go on, a stop leaves what was done."""

import pytest

from reproduction.claims import claims
from reproduction.experiment import Experiment, Store
from reproduction.matrix import LOSSES, experiments
from reproduction.run import Run, chosen, planned, run_matrix, seconds_left
from samespot.errors import InputError
from samespot.training.stopping import StopRequested

A, B, AS_IT_COMES = Experiment("x", "a"), Experiment("x", "b"), Experiment("x", "c", trained=False)


class MadeUpBench:
    """Answers from a list; an exception in it is raised."""

    def __init__(self, result, **answers):
        self.result, self.answers, self.asked, self.version = result, answers, [], "1"

    def lacks(self, experiment):
        return self.answers.get("lacks") if experiment.name == "b" else None

    def digest(self, experiment):
        return self.version

    def run(self, experiment, seed):
        self.asked.append((experiment.name, seed))
        answer = self.answers.get(experiment.name, 0.5)
        if isinstance(answer, BaseException):
            raise answer
        return self.result(experiment.key, answer, seed, digest=self.version)


def test_seeds_come_after_each_other_and_untrained_networks_have_one():
    assert [(run.experiment.name, run.seed) for run in planned([A, AS_IT_COMES], 2)] == [
        ("a", 0),
        ("c", 0),
        ("a", 1),
    ]


def test_a_second_call_skips_what_is_there_and_a_changed_option_runs_anew(tmp_path, result):
    bench, store = MadeUpBench(result, a=0.4), Store(tmp_path)
    first = run_matrix(bench, planned([A, B], 2), store)
    assert bench.asked == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert first.count("done") == 4
    again = run_matrix(bench, planned([A, B], 3), store)
    assert bench.asked[4:] == [("a", 2), ("b", 2)]
    assert len(again.results) == 6
    assert again.runs[0].note == "R@1 40.0  R@5 40.0"
    bench.version = "2"
    run_matrix(bench, planned([A], 1), store)
    assert bench.asked[6:] == [("a", 0)]


def test_of_several_rates_only_the_best_has_further_seeds(tmp_path, result):
    base = Experiment("x", "base")
    fast, slow = (Experiment("x", name, rate_of="x/base") for name in ("fast", "slow"))
    bench, store = MadeUpBench(result, base=0.4, fast=0.6, slow=0.2), Store(tmp_path)
    outcome = run_matrix(bench, planned([base, fast, slow], 3), store)
    assert bench.asked[3:] == [("base", 1), ("fast", 1), ("base", 2), ("fast", 2)]
    spared = [run for run in outcome.runs if run.state == "spared"]
    assert [(run.experiment.name, run.seed) for run in spared] == [("slow", 1), ("slow", 2)]
    assert spared[0].note == "the first seed is better at x/fast"
    assert outcome.count("waiting") == 0
    again = run_matrix(bench, planned([base, fast, slow], 3), store)
    assert len(bench.asked) == 7
    assert again.count("spared") == 2


def test_the_best_rate_of_whitened_descriptors_goes_on_too(tmp_path, result):
    class Whitened(MadeUpBench):
        def run(self, experiment, seed):
            plain, small = self.answers[experiment.name]
            self.asked.append((experiment.name, seed))
            return self.result(experiment.key, plain, seed, whitened={"the map": (128, small)}, digest="1")

    three = [Experiment("x", name, rate_of="x/base") for name in ("low", "middle", "high")]
    bench = Whitened(result, low=(0.6, 0.5), middle=(0.5, 0.55), high=(0.4, 0.7))
    outcome = run_matrix(bench, planned(three, 2), Store(tmp_path))
    assert bench.asked[3:] == [("low", 1), ("high", 1)]
    spared = [run.note for run in outcome.runs if run.state == "spared"]
    assert spared == ["the first seed is better at x/low and x/high"]


def test_a_rate_whose_first_seed_failed_is_not_chosen(tmp_path, result):
    fast, slow = (Experiment("x", name, rate_of="x/base") for name in ("fast", "slow"))
    bench = MadeUpBench(result, fast=RuntimeError("NaN"), slow=0.2)
    run_matrix(bench, planned([fast, slow], 2), Store(tmp_path))
    assert bench.asked == [("fast", 0), ("slow", 0), ("slow", 1)]


def test_a_failure_is_recorded_and_the_others_go_on(tmp_path, result):
    bench, store = MadeUpBench(result, a=RuntimeError("CUDA ran\naway")), Store(tmp_path)
    heard = []
    outcome = run_matrix(
        bench, planned([A, B], 1), store, lambda run: heard.append((run.experiment.name, run.state))
    )
    assert [(run.state, run.note.split()[0]) for run in outcome.runs] == [("failed", "CUDA"), ("done", "R@1")]
    assert heard == [
        ("a", "waiting"),
        ("b", "waiting"),
        ("a", "running"),
        ("a", "failed"),
        ("b", "running"),
        ("b", "done"),
    ]
    assert "away" in (tmp_path / "results" / "x" / "a" / "seed-0.failed.json").read_text()
    bench.answers["a"] = 0.5  # tried again
    assert run_matrix(bench, planned([A, B], 1), store).count("done") == 2
    assert bench.asked == [("a", 0), ("b", 0), ("a", 0)]


def test_ctrl_c_ends_the_call_and_nothing_is_recorded_as_failed(tmp_path, result):
    bench, store = MadeUpBench(result, b=StopRequested("as asked")), Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_matrix(bench, planned([A, B], 1), store)
    assert [path.name for path in (tmp_path / "results").rglob("*.json")] == ["seed-0.json"]


def test_what_lacks_data_or_weights_is_not_run(tmp_path, result):
    bench = MadeUpBench(result, lacks="needs weights of vgg16")
    outcome = run_matrix(bench, planned([A, B], 1), Store(tmp_path))
    assert bench.asked == [("a", 0)]
    assert (outcome.runs[1].state, outcome.runs[1].note) == ("missing", "needs weights of vgg16")


def test_no_run_is_begun_when_the_time_is_up(tmp_path, result):
    bench = MadeUpBench(result)
    assert run_matrix(bench, planned([A, B], 1), Store(tmp_path), seconds=0).count("waiting") == 2
    assert bench.asked == []


def test_names_choose_by_claim_by_data_set_and_by_part():
    every, said = experiments(["campus", "redkitchen"]), claims()
    two_blocks = {one.key for one in chosen(every, said, ["two-blocks"])}
    assert two_blocks == set(next(claim for claim in said if claim.id == "two-blocks").experiments)
    assert {one.data for one in chosen(every, said, ["redkitchen"])} == {"redkitchen"}
    assert {one.name for one in chosen(every, said, ["campus/vgg16-gem-D", "sare-joint"])} == {
        "vgg16-gem-D",
        *(f"vgg16-gem-sare-joint-rate-{rate:g}" for rate in LOSSES["sare-joint"]),
    }
    assert chosen(every, said, []) == every
    with pytest.raises(InputError, match="`only=nothing-like-it`: no such claim or experiment"):
        chosen(every, said, ["nothing-like-it"])


def test_time_left_is_that_of_others_on_the_same_data():
    slow, quick = Experiment("y", "a"), Experiment("x", "a")
    runs = [
        Run(quick, 0, "done", seconds=2.0),
        Run(slow, 0, "done", seconds=10.0),
        Run(quick, 1),
        Run(slow, 1),
    ]
    assert seconds_left(runs) == pytest.approx(12.0)
    assert seconds_left(runs[2:]) is None
    assert seconds_left(runs[:2]) == 0.0
