"""What a report is made of: run folders and evaluations as they lie on disk, and what others measured for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.calibration import IsotonicCalibration, predicted_overlap
from samespot.evaluation.results import NAME, Evaluation
from samespot.overlap.rules import Measure
from samespot.overlap.sector import sector_overlap
from samespot.places.table import Places
from samespot.retrieval import exclusion
from samespot.retrieval.descriptors import META, PLACES, Descriptors
from samespot.retrieval.search import Found, search
from samespot.training.logbook import read_metrics

Floats = NDArray[np.float64]
TrueOverlap = Callable[[Places, Places], Floats]  # queries (q), map photos (m) -> (q, m) in [0, 1]

DEPTH = 10  # matches of a query that are looked up again
# opening angle [deg] and radius [m] of the presets: tried where an evaluation does not say what its labels were made of
USUAL_RULES = ((90.0, 50.0), (90.0, 30.0), (90.0, 25.0), (90.0, 3.5))
MEASURED = "true visual overlap"  # kind of labels that are no sectors
CLOSE = 2e-3  # overlaps are saved with six digits; far less than another rule would change them


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


@dataclass(frozen=True)
class SectorRule:
    """What a camera sees on the ground: opening angle [deg], radius [m]."""

    theta: float
    radius: float
    measure: Measure = "overlap"

    def overlap(self, queries: Places, places: Places) -> Floats:
        """(q, m) labels of all pairs."""
        return self._of(queries, places, (slice(None), None), (None, slice(None)))

    def overlap_of_pairs(self, queries: Places, places: Places) -> Floats:
        """(n,) labels of the n-th query with the n-th map photo."""
        return self._of(queries, places, (slice(None),), (slice(None),))

    def _of(self, queries: Places, places: Places, rows: Any, columns: Any) -> Floats:
        opening = [np.where(table.panoramas, 360.0, self.theta) for table in (queries, places)]
        return sector_overlap(
            _seeing(queries)[rows],
            _seeing(places)[columns],
            opening[0][rows],
            self.radius,
            self.measure,
            theta_b=opening[1][columns],
        )


def _seeing(table: Places) -> Floats:
    """Positions of a table, in which a panorama needs no heading."""
    at = table.positions
    at[:, 2] = np.where(table.panoramas, np.nan_to_num(at[:, 2]), at[:, 2])
    return at


@dataclass(frozen=True, eq=False)
class Described:
    """One case of an evaluation with its photos and their vectors; `first` is the row of its first query."""

    name: str
    first: int
    queries: Places
    places: Places
    query_vectors: NDArray[Any]  # (q, d)
    place_vectors: NDArray[Any]  # (m, d)

    @cached_property
    def found(self) -> Found:
        """The nearest map photos, searched again. A photo that is in the map itself does not find itself."""
        files = [
            np.array([str(path.absolute()) for path in table.images]) for table in (self.queries, self.places)
        ]
        never = exclusion.same_name(*files) if np.isin(files[0], files[1]).any() else None
        k = min(DEPTH, len(self.places))
        return search(self.query_vectors, self.place_vectors, k, excluded=never, device="cpu")

    @cached_property
    def place_names(self) -> NDArray[np.str_]:
        return self.places.table["image"].to_numpy(dtype=np.str_)

    @cached_property
    def place_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.place_names.tolist())}

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

    @cached_property
    def rule(self) -> SectorRule | None:
        """The sectors that its labels were made of: the first of those it may be that gives the recorded overlaps.

        Where the recorded ones were measured rather than labelled, the first that is named anywhere.
        """
        said = {} if self.evaluation is None else self.evaluation.settings.get("overlap") or {}
        if said.get("kind") == MEASURED:
            return next(self._rules(), None)
        return next((rule for rule in self._rules() if self._explains(rule)), None)

    def _rules(self) -> Iterator[SectorRule]:
        if self.evaluation is None:
            return
        said = self.evaluation.settings.get("overlap") or {}
        for source in (said, *self.config.get("sets", ())):
            if source.get("theta") and source.get("radius"):
                yield SectorRule(
                    float(source["theta"]), float(source["radius"]), source.get("measure", "overlap")
                )
        words = " ".join([*self.evaluation.protocol.get("notes", ()), *self.evaluation.notes])
        for theta, radius in re.findall(r"θ = ([\d.]+)°, r = ([\d.]+) m", words):
            yield SectorRule(float(theta), float(radius))
        yield from (SectorRule(*usual) for usual in USUAL_RULES)

    def _explains(self, rule: SectorRule) -> bool:
        assert self.evaluation is not None
        outcomes = self.evaluation.variant().outcomes
        if "overlap" not in outcomes:
            return False
        seen = False
        for case in self.described:
            mine = slice(case.first, case.first + len(case.queries))
            places = np.array([case.place_rows.get(name, -1) for name in outcomes["top"][mine].tolist()])
            some = np.flatnonzero(places >= 0)
            labels = rule.overlap_of_pairs(case.queries.select(some), case.places.select(places[some]))
            recorded = np.asarray(outcomes["overlap"][mine], dtype=np.float64)[some]
            if not (np.abs(labels - recorded) < CLOSE).all():
                return False
            seen |= bool(len(some))
        return seen


def load_runs(folders: Sequence[str | Path]) -> list[ReportRun]:
    """Run folders of `samespot train`, folders that `samespot evaluate` wrote, or single evaluation files."""
    if not folders:
        raise InputError("name at least one run: a folder of `samespot train` or `samespot evaluate`")
    paths = [Path(folder) for folder in folders]
    runs = [_load(path, name) for path, name in zip(paths, _names(paths), strict=True)]
    return runs


def model_folder(run: ReportRun) -> Path | None:
    """Where the network of a run is: the best one, or else the last."""
    from samespot.model.checkpoint import WEIGHTS

    homes = (run.folder / "best", run.folder / "last", run.folder)
    return next((home for home in homes if (home / WEIGHTS).is_file()), None)


def _load(path: Path, name: str) -> ReportRun:
    if path.is_file():
        return ReportRun(name, path.parent, Evaluation.load(path))
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; name one of `samespot train` or `samespot evaluate`")
    config = _json(path / "config.json")
    metrics = read_metrics(path)
    home = next((at for at in (path / "evaluation", path) if (at / NAME).is_file()), None)
    if home is None and not metrics:
        raise InputError(
            f"{path}: neither a run nor an evaluation; `samespot evaluate --out {path}` makes an {NAME} there"
        )
    evaluation = None if home is None else Evaluation.load(home)
    described = (
        [] if home is None or evaluation is None else list(_described(home / "descriptors", evaluation))
    )
    return ReportRun(
        name,
        path,
        evaluation,
        config,
        metrics,
        _json(path / "batches.json"),
        described,
        None if home is None or evaluation is None else _calibration(home, evaluation),
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
        raise InputError(f"{path}: not valid json ({error}); delete it, or mend it") from None
    return content if isinstance(content, dict) else {}


def _described(folder: Path, evaluation: Evaluation) -> Iterator[Described]:
    """The cases whose descriptors are still there, and are of the very photos that were evaluated."""
    names, first = evaluation.queries.names, 0
    for case in evaluation.cases:
        word = str(case["name"]).replace("/", "-").replace(" ", "-")
        sides = [folder / f"{word}-{side}" for side in ("queries", "map")]
        if all((side / META).is_file() and (side / PLACES).is_file() for side in sides):
            vectors = [Descriptors.open(side) for side in sides]
            tables = [
                Places.read(side / PLACES, missing_images="ignore", unknown_positions=True) for side in sides
            ]
            same = [one.meta.get("places") for one in vectors] == list(case["digests"])
            # of sequences there are more photos than queries
            alike = names[first : first + int(case["queries"])] == tables[0].table["image"].tolist()
            if same and alike and len(tables[1]) == case["map images"]:
                both = vectors[0].vectors, vectors[1].vectors
                yield Described(str(case["name"]), first, tables[0], tables[1], *both)
        first += int(case["queries"])


def _calibration(home: Path, evaluation: Evaluation) -> IsotonicCalibration | None:
    path = home / "calibration" / f"{'-'.join(evaluation.variant().name.split())}.json"
    return IsotonicCalibration.load(path) if path.is_file() else None
