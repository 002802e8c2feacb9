"""What is tried, and what came of it: one json file for each experiment and seed, whole or absent.

out/results/campus/vgg16-gem-graded/seed-0.json          answers of every query, and what the run cost
out/results/campus/vgg16-gem-graded/seed-1.failed.json   why a run did not end; it is tried again by the next call
out/results/not_run.json                                 what cannot be run with what is at hand, and why
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import write_whole
from samespot.training.options import FREE, TrainingOptions

FORMAT = 1
SMALL_DIMS = 128  # which any network that has not collapsed spans
LACKS = "not_run.json"
Floats = NDArray[np.float64]
# options that change where and how fast a run goes, not what it learns; weights count by their content
ELSEWHERE = FREE | {"device", "precision", "cache_frozen", "cache_dtype", "compile", "weights", "seed"}


@dataclass(frozen=True)
class Experiment:
    """One way of training and describing, on one data set. Runs of it differ in their seed only."""

    data: str  # name of the data set
    name: str
    labels: str = "graded"  # a kind of label that the data set has
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the data set's training options
    whiten: tuple[int, ...] = (128,)  # sizes, fitted on the map
    whiten_on_training: bool = False  # and on the training photos
    calibrated: bool = False  # also learn on the training photos which distance means which overlap
    rerank: str | None = None  # xfeat or patch-netvlad
    trained: bool = True  # False: the network as it comes, which has no seed
    share: float = 1.0  # of the data set's budget
    rate_of: str | None = (
        None  # what it is one more learning rate of; the best of them alone has further seeds
    )

    @property
    def key(self) -> str:
        return f"{self.data}/{self.name}"

    def seeds(self, count: int) -> range:
        return range(count if self.trained else 1)


@dataclass(frozen=True)
class Cost:
    """What a run took; all 0 for a network as it comes."""

    # of training, mining among them; without reading photos and keeping frozen features. 0 where others ran beside it
    seconds: float = 0.0
    pairs: int = 0  # or tuples: queries that were learned from
    learning_images: int = 0  # through the trained part, forward and backward
    mining_images: int = 0  # through it to choose negatives, forward only
    mining_seconds: float = 0.0

    @property
    def passes(self) -> int:
        """Forward passes of the trained part."""
        return self.learning_images + self.mining_images


@dataclass(frozen=True)
class Answers:
    """What one kind of descriptor answered; a column each, one value a query.

    first_hit: rank of the first right match, 0 for none; overlap: of the first match with the query; metres, shared:
    the nearest and the most overlapping of the first five; precision: its share of average precision over all pairs.
    """

    dims: int
    whitened_on: str | None
    reranked_by: str | None
    columns: Mapping[str, Floats]


@dataclass(frozen=True)
class Result:
    """All that the claims need of one run."""

    experiment: str  # its key
    seed: int
    digest: str
    queries: str  # digest of who was asked, and of the map
    truth: Mapping[str, Floats]  # counted: whether it has a positive; metres, shared: the best in the map
    answers: Mapping[str, Answers]  # by the name that evaluations give the descriptor
    calibration: Mapping[str, Mapping[str, Any]]  # of plain descriptors: by margin, isotonic
    cost: Cost
    facts: Mapping[str, Any]  # device, version, options, loss, notes

    @property
    def counted(self) -> NDArray[np.bool_]:
        return np.asarray(self.truth["counted"]) > 0

    def plain(self) -> Answers:
        return next(iter(self.answers.values()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "experiment": self.experiment,
            "seed": self.seed,
            "digest": self.digest,
            "queries": self.queries,
            "cost": asdict(self.cost),
            "facts": dict(self.facts),
            "calibration": {how: dict(numbers) for how, numbers in self.calibration.items()},
            "truth": {name: written(column) for name, column in self.truth.items()},
            "answers": {
                name: {
                    "dims": one.dims,
                    "whitened_on": one.whitened_on,
                    "reranked_by": one.reranked_by,
                    "columns": {column: written(values) for column, values in one.columns.items()},
                }
                for name, one in self.answers.items()
            },
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Result:
        return cls(
            experiment=content["experiment"],
            seed=content["seed"],
            digest=content["digest"],
            queries=content["queries"],
            truth={name: read(words) for name, words in content["truth"].items()},
            answers={
                name: Answers(
                    one["dims"],
                    one["whitened_on"],
                    one["reranked_by"],
                    {column: read(words) for column, words in one["columns"].items()},
                )
                for name, one in content["answers"].items()
            },
            calibration=content["calibration"],
            cost=Cost(**content["cost"]),
            facts=content["facts"],
        )


def written(values: Floats) -> str:
    """A column as one string: a list would be a line a query. Four digits are finer than any query can tell."""
    return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in np.asarray(values).tolist())


def read(words: str) -> Floats:
    return np.array([float(word) for word in words.split()])


@dataclass(frozen=True)
class Failure:
    """Why a run did not end."""

    experiment: str
    seed: int
    digest: str
    reason: str


class Store:
    """The results on disk. Those of a try with fewer `steps` lie apart, and are never judged beside whole ones."""

    def __init__(self, out: Path, steps: int | None = None) -> None:
        self.folder = out / ("results" if steps is None else f"results-of-{steps}-steps")

    def path(self, experiment: str, seed: int) -> Path:
        return self.folder / experiment / f"seed-{seed}.json"

    def save(self, result: Result) -> Path:
        path = self.path(result.experiment, result.seed)
        self._write(path, result.to_dict())
        self._failed(result.experiment, result.seed).unlink(missing_ok=True)
        return path

    def save_failure(self, failure: Failure) -> Path:
        path = self._failed(failure.experiment, failure.seed)
        self._write(path, asdict(failure))
        return path

    def save_lacks(self, lacks: Mapping[str, str]) -> Path:
        """What cannot be run, and why: those who collect results elsewhere cannot know it.

        What one of several calls could run, is not lacking.
        """
        path = self.folder / LACKS
        before = self.lacks() if path.is_file() else lacks
        self._write(path, {key: why for key, why in lacks.items() if key in before})
        return path

    def lacks(self) -> dict[str, str]:
        """By experiment, as it was told last; empty where no call has ended yet."""
        path = self.folder / LACKS
        try:
            told = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            return {str(key): str(why) for key, why in told.items()}
        except (ValueError, AttributeError):
            raise InputError(f"{path}: not written by python -m reproduction claims; delete it") from None

    def load(self, experiment: str, seed: int, digest: str | None = None) -> Result | None:
        """None where there is none, or where it is of something else than `digest` says."""
        path = self.path(experiment, seed)
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            result = Result.from_dict(content) if content["format"] == FORMAT else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}: not a result of python -m reproduction claims ({type(error).__name__}: {error}); delete it"
            ) from None
        return result if result is not None and digest in (None, result.digest) else None

    def all(self) -> list[Result]:
        """Every result that is there, in the order of their names."""
        found = []
        for path in sorted(self.folder.rglob("seed-*.json")):
            seed = path.stem.removeprefix("seed-")
            if seed.isdigit():
                result = self.load(str(path.parent.relative_to(self.folder)), int(seed))
                found += [] if result is None else [result]
        return found

    def _failed(self, experiment: str, seed: int) -> Path:
        return self.path(experiment, seed).with_suffix(".failed.json")

    @staticmethod
    def _write(path: Path, content: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_plain(content), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(path, (text + "\n").encode())


def _plain(value: Any) -> Any:
    """The same without NaN and infinity, which json does not know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def digest_of(
    experiment: Experiment,
    options: TrainingOptions,
    data: Mapping[str, Any],
    weights: str | None,
    reranking: Mapping[str, Any] | None = None,
) -> str:
    """Of everything that a result depends on but its seed.

    data: what photos, labels and questions depend on; weights: digest of the file that the trunk starts from;
    reranking: the re-ranker's settings. The version of samespot and the device are told, not counted.
    """
    matters = {name: value for name, value in options.to_dict().items() if name not in ELSEWHERE}
    told = {
        "format": FORMAT,
        "options": matters if experiment.trained else {name: matters[name] for name in _AS_IT_COMES},
        "labels": experiment.labels if experiment.trained else None,
        "whiten": list(experiment.whiten),
        "whiten on training": experiment.whiten_on_training,
        "rerank": [experiment.rerank, dict(reranking or {})],
        "whiten to": "span" if max(experiment.whiten, default=0) > SMALL_DIMS else None,
        "data": dict(data),
        "weights": weights,
    }
    if experiment.calibrated:
        told["calibrated"] = True
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


_AS_IT_COMES = ("backbone", "pool", "pretrained", "image_size")
