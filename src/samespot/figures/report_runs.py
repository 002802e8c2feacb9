"""What a report is made of: run folders and evaluations as they lie on disk, and what others measured for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.calibration import IsotonicCalibration, predicted_overlap
from samespot.evaluation.folder import file_word
from samespot.evaluation.matches import Matches, load_matches
from samespot.evaluation.protocols.town import SharedView
from samespot.evaluation.results import NAME, Evaluation, evaluation_file
from samespot.evaluation.run_groups import all_runs_of, refuse_absent
from samespot.overlap.rules import Rule, Sectors, rule_of
from samespot.places.table import Places
from samespot.retrieval.descriptors import META, PLACES, Descriptors
from samespot.training.logbook import read_metrics

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RunDifferences:
    """The difference vectors of pairs of photos, laid out in the plane, and the overlap of each pair."""

    points: Floats  # (n, 2)
    overlap: Floats  # (n,) in [0, 1]
    run: str


@dataclass(frozen=True)
class ActivationRow:
    """A photo, and by run name how much each part of it moved the descriptor: (h, w) arrays, any scale."""

    photo: Path
    maps: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Described:
    """One case of an evaluation with its photos, their vectors and the matches of its queries.

    first: the evaluation's row of its first query. matches: of the descriptors as the network gives them; None in
    an evaluation that did not keep them.
    """

    name: str
    first: int
    queries: Places
    places: Places
    query_vectors: NDArray[Any]  # (q, d)
    place_vectors: NDArray[Any]  # (m, d)
    matches: Matches | None = None

    @cached_property
    def place_names(self) -> NDArray[np.str_]:
        return self.places.table["image"].to_numpy(dtype=np.str_)

    def distances(self, queries: NDArray[np.int64], places: NDArray[np.int64]) -> Floats:
        """(q, m) between chosen rows; NaN where a photo could not be read."""
        a = np.asarray(self.query_vectors[queries], dtype=np.float64)
        b = np.asarray(self.place_vectors[places], dtype=np.float64)
        squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        apart: Floats = np.sqrt(squares.clip(0))
        apart[~a.any(axis=1)] = np.nan
        apart[:, ~b.any(axis=1)] = np.nan
        return apart


@dataclass(frozen=True, eq=False)
class ReportRun:
    """A run, an evaluation, or both; whatever is not there is empty."""

    name: str
    folder: Path
    evaluation: Evaluation | None = None
    config: Mapping[str, Any] = field(default_factory=dict)  # of training
    metrics: Sequence[Mapping[str, Any]] = ()  # records of training, by step
    batches: Mapping[str, Any] = field(default_factory=dict)  # bins and counts by strategy
    described: Sequence[Described] = ()
    calibration: IsotonicCalibration | None = None  # of descriptors as the network gives them

    @property
    def options(self) -> Mapping[str, Any]:
        """Of its training; empty where nothing is known of it."""
        if "options" in self.config:
            return dict(self.config["options"])
        training = {} if self.evaluation is None else self.evaluation.model.get("training") or {}
        return dict(training.get("options") or {})

    @property
    def binary(self) -> bool:
        return self.options.get("batches") == "binary"

    @property
    def margin(self) -> float:
        return float(self.evaluation.model.get("margin") or 0.5) if self.evaluation is not None else 0.5

    def predicted(self, distances: Any) -> Floats:
        """Overlap that it expects of pairs at these distances."""
        if self.calibration is not None:
            return self.calibration(distances)
        return predicted_overlap(distances, self.margin)

    def case(self, name: str) -> Described | None:
        return next((one for one in self.described if one.name == name), None)

    @property
    def truth(self) -> Mapping[str, Any]:
        """What the evaluation says about its graded truth; empty where there is none."""
        return {} if self.evaluation is None else self.evaluation.settings.get("overlap") or {}

    @cached_property
    def rule(self) -> Sectors | None:
        """The sectors of its labels: of the graded truth, or where that is none of sectors, of what it learned from."""
        known = (rule_of(facts) for facts in (self.truth, *self.config.get("sets", ())))
        return next((rule for rule in known if isinstance(rule, Sectors)), None)

    @cached_property
    def measured(self) -> Rule | None:
        """What measures the overlap that two photos really have, where the graded truth is that, and photos tell it."""
        tables = [table for case in self.described for table in (case.queries, case.places)]
        rule = SharedView()
        known = self.truth.get("kind") == SharedView.KIND and not any(map(rule.unknown, tables))
        return rule if known and tables and tables[0].root.is_dir() else None


def load_runs(sources: Any) -> list[ReportRun]:
    """Run folders of `samespot train`, folders that `samespot evaluate` wrote, single evaluation files, or what those
    functions returned; one, or a list. A folder of runs stands for them, seeds of one recipe side by side."""
    named = list(sources) if isinstance(sources, list | tuple) else [sources]
    given = [run for one in named for run in all_runs_of(one)]
    if not given:
        raise InputError("name at least one run: a folder of `samespot train` or `samespot evaluate`")
    homes = [_home(one) for one in given]
    names = _names([home if isinstance(home, Path) else Path(str(home.model.get("model"))) for home in homes])
    return [
        _load(home, name) if isinstance(home, Path) else ReportRun(name, Path(), home)
        for home, name in zip(homes, names, strict=True)
    ]


def _home(source: Any) -> Path | Evaluation:
    """Where a run lies; an evaluation that was not written is itself."""
    if files := getattr(source, "files", None):  # of an evaluation, its result first
        return Path(files[0])
    held = getattr(source, "evaluation", None) or getattr(source, "run", source)
    if isinstance(held, Evaluation):
        return held
    if not isinstance(held, str | Path):
        raise InputError(f"{held!r} is not a run; give a folder, or what `train` or `evaluate` returned")
    return Path(held)


def _load(path: Path, name: str) -> ReportRun:
    if path.is_file() and path.name == NAME:  # with its folder it says more
        path = path.parent
    if path.name == "evaluation" and (path.parent / "config.json").is_file():  # of a run, which says more
        path = path.parent
    if path.is_file():
        return ReportRun(name, path.parent, Evaluation.load(path))
    refuse_absent(path)
    config = _json(path / "config.json")
    metrics = read_metrics(path)
    file = evaluation_file(path)
    if not file.is_file():
        if not metrics:
            raise InputError(
                f"{path}: neither a run nor an evaluation; name a folder of `samespot train` or `samespot evaluate`"
            )
        return ReportRun(name, path, None, config, metrics, _json(path / "batches.json"))
    evaluation = Evaluation.load(file)
    return ReportRun(
        name,
        path,
        evaluation,
        config,
        metrics,
        _json(path / "batches.json"),
        list(_described(file.parent, evaluation)),
        _calibration(file.parent, evaluation),
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """A short name for each, no two alike: the folder's, with the one above it where that is not enough."""
    plain = [_own_name(path) for path in paths]
    names = [
        name if plain.count(name) == 1 else f"{_owner(path).parent.name}/{name}"
        for name, path in zip(plain, paths, strict=True)
    ]
    return [name if names.index(name) == i else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _owner(path: Path) -> Path:
    """The folder that a run is called after."""
    path = path.absolute()
    path = path.parent if path.name == NAME else path
    return path.parent if path.name == "evaluation" else path


def _own_name(path: Path) -> str:
    owner = _owner(path)
    return owner.stem if owner.suffix == ".json" else owner.name or str(owner)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid json ({error}); delete it, or fix it") from None
    return content if isinstance(content, dict) else {}


def _described(home: Path, evaluation: Evaluation) -> Iterator[Described]:
    """The cases whose descriptors are still there, and are of the very photos that were evaluated."""
    names, first = evaluation.queries.names, 0
    matches = load_matches(home, 0, evaluation.matches)
    if matches is not None and len(matches.rows) != len(names):
        matches = None
    for case in evaluation.cases:
        count = int(case["queries"])
        sides = _folders(home, case)
        if all((side / META).is_file() and (side / PLACES).is_file() for side in sides):
            vectors = [Descriptors.open(side) for side in sides]
            tables = [
                Places.read(side / PLACES, missing_images="ignore", unknown_positions=True) for side in sides
            ]
            same = [one.meta.get("places") for one in vectors] == list(case["digests"])
            # of sequences there are more photos than queries
            alike = names[first : first + count] == tables[0].table["image"].tolist()
            if same and alike and len(tables[1]) == case["map images"]:
                both = vectors[0].vectors, vectors[1].vectors
                mine = None if matches is None else matches.of_queries(first, count)
                yield Described(str(case["name"]), first, tables[0], tables[1], *both, mine)
        first += count


def _folders(home: Path, case: Mapping[str, Any]) -> list[Path]:
    """Of the descriptors of queries and map."""
    if "descriptors" not in case:  # format 1 always kept them under these names
        word = str(case["name"]).replace("/", "-").replace(" ", "-")
        return [home / "descriptors" / f"{word}-{side}" for side in ("queries", "map")]
    kept = case["descriptors"] or {}
    return [home / kept.get(side, "none") for side in ("queries", "map")]


def _calibration(home: Path, evaluation: Evaluation) -> IsotonicCalibration | None:
    path = home / "calibration" / f"{file_word(evaluation.variant().name)}.json"
    return IsotonicCalibration.load(path) if path.is_file() else None
