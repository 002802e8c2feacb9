"""`samespot describe`, `evaluate`, `compare` and `protocols`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.cluster import joined_where_asked
from samespot.evaluation.options import EvaluateOptions
from samespot.figures.options import EvaluationFigureOptions
from samespot.matching.options import RerankOptions
from samespot.model.options import ModelOptions
from samespot.options import MOST_SEED, Options, option, split
from samespot.places.catalogue import open_places, refuse_absent
from samespot.places.options import SOURCE, PoseOptions, ReadOptions
from samespot.poses.options import SolveOptions
from samespot.retrieval.options import DescribeOptions


@dataclass(frozen=True)
class DescribedOptions(Options):
    places: Path = option(..., f"Images: {SOURCE}.", argument=True)
    out: Path = option(Path("descriptors"), "Folder for the descriptors.", writes="folder")
    whiten: bool = option(False, "Whiten them by the model's own whitening.", switch=True)


@command(app, ModelOptions, DescribedOptions, ReadOptions, PoseOptions, DescribeOptions)
def describe(typed: dict[str, Any]) -> Any:
    """One descriptor per image, into a memory-mapped file. An interrupted run resumes where it left off.

    Many GPUs: torchrun --nproc_per_node=8 -m samespot describe ...
    """
    of_model, ours, reading, pose, how = split(
        typed, ModelOptions, DescribedOptions, ReadOptions, PoseOptions, DescribeOptions
    )
    asked, describing, frame = DescribedOptions.of(ours), DescribeOptions.of(how), PoseOptions.of(pose).frame
    console.refuse_absent_machine(describing.device, describing.decode, describing.ray)
    named = ModelOptions.of(of_model)
    table = open_places(asked.places, **ReadOptions.of(reading).to_dict(), frame=frame)
    with console.progress_bar() as progress, joined_where_asked(describing.ray, progress):
        # what was wrong is told: torch may be loaded
        from samespot.model.loading import load_model
        from samespot.retrieval.describe import describe as describe_places

        net = load_model(named.model, weights=named.weights, progress=progress)
        described = describe_places(net, table, asked.out, whiten=asked.whiten, progress=progress, **how)
    if console.first_process():
        console.notes_of(table)
        console.descriptors_table(described)
        console.files_written([asked.out])
        own = () if named.weights is None else ("--weights", named.weights)
        console.next_step("evaluate", named.model, *own, "--map", asked.places)
    return described.meta


@command(
    app, ModelOptions, EvaluateOptions, EvaluationFigureOptions, DescribeOptions, RerankOptions, SolveOptions
)
def evaluate(typed: dict[str, Any]) -> Any:
    """Measure a model by a named protocol, or on tables of your own, with confidence intervals."""
    parts = (
        ModelOptions,
        EvaluateOptions,
        EvaluationFigureOptions,
        DescribeOptions,
        RerankOptions,
        SolveOptions,
    )
    of_model, what, figures, how, again, posed = split(typed, *parts)
    out = what.setdefault("out", Path("evaluation"))
    asked, drawn = EvaluateOptions.of(what), EvaluationFigureOptions.of(figures)
    further = DescribeOptions.of(how), RerankOptions.of(again), SolveOptions.of(posed)
    named = ModelOptions.of(of_model)
    console.refuse_absent_machine(further[0].device, further[0].decode, further[0].ray)
    # what is not there is told of before torch is loaded
    for table in (asked.queries, asked.map, asked.train):
        if table is not None:
            refuse_absent(table)
    with console.progress_bar() as progress:
        from samespot.evaluation.question import question_of

        question = question_of(asked, progress=progress)
        with joined_where_asked(further[0].ray, progress):
            from samespot.evaluation.run import run_evaluation  # what was wrong is told: torch may be loaded
            from samespot.figures.evaluation import draw_evaluation

            done = run_evaluation(
                named.model, asked, *further, question=question, weights=named.weights, progress=progress
            )
        pictures = draw_evaluation(done, out, gallery=drawn.gallery, seed=asked.seed, progress=progress)
    from samespot.cli.evaluation_screen import evaluation_tables

    evaluation_tables(done.evaluation)
    console.notes_of(*(table for case in done.cases for table in (case.queries, case.places)))
    console.files_written([*done.files, *pictures])
    if done.metrics:  # else the truth is secret, and what was written goes to a server
        console.next_step("report", _run_around(out), "--out", "report.html")
    return done.evaluation.to_json()


def _run_around(evaluation: Path) -> Path:
    """The run folder whose evaluation this is, which shows its training, too; else the evaluation itself."""
    run = evaluation.parent
    inside = evaluation.name == "evaluation" and (run / "metrics.jsonl").is_file()
    return run if inside else evaluation


@dataclass(frozen=True)
class CompareOptions(Options):
    first: str = option(
        ...,
        "A run or evaluation folder, or an evaluation.json; several seeds joined by commas, or in one folder.",
        argument=True,
        metavar="A",
    )
    second: str = option(..., "The same for the other model.", argument=True, metavar="B")
    descriptor: str | None = option(
        None, "Which descriptor of A and B, by its name in the tables.", default="as the network gives it"
    )
    second_descriptor: str | None = option(None, "A different one for B.")
    seed: int = option(0, "Seed of the bootstrap.", least=0, most=MOST_SEED)


@command(app, CompareOptions)
def compare(typed: dict[str, Any]) -> Any:
    """Is A better than B? Differences query by query, with 95 % intervals."""
    from samespot.cli.evaluation_screen import comparison_table
    from samespot.evaluation.compare import compare as compare_runs

    asked = CompareOptions.of(typed)
    paths = _seeds(asked.first), _seeds(asked.second)
    variants = (asked.descriptor, asked.second_descriptor or asked.descriptor)
    result = compare_runs(*paths, variants=variants, seed=asked.seed)
    comparison_table(result, paths)
    console.next_step("report", *paths[0], *paths[1], "--out", "report.html")
    return result.to_dict()


def _seeds(words: str) -> list[str]:
    """Runs joined by commas, or in a folder; a name may have a comma in it."""
    from samespot.evaluation.run_groups import runs_of

    named = [words] if Path(words).exists() else [word for word in words.split(",") if word]
    return [str(run) for one in named for run in runs_of(one)]


@dataclass(frozen=True)
class ProtocolsOptions(Options):
    name: str | None = option(None, "Show everything about this protocol.", argument=True, metavar="NAME")


@command(app, ProtocolsOptions)
def protocols(typed: dict[str, Any]) -> Any:
    """List the evaluation protocols: which queries, what counts as found, what is never retrieved."""
    from samespot.cli.evaluation_screen import protocol_page, protocols_table
    from samespot.evaluation.protocols import list_protocols, protocol_named

    name = ProtocolsOptions.of(typed).name
    chosen = list_protocols() if name is None else [protocol_named(name)]
    if name is None:
        protocols_table(chosen)
    else:
        protocol_page(chosen[0])
    return [one.to_dict() for one in chosen]
