"""A run on disk: its settings, its checkpoints, its models. Written whole; one process writes, all of them read.

run/config.json      every option, what it was resolved to, what was learned from and validated on
run/metrics.jsonl    one json object a line: loss, share of zero losses, rate, forward passes, recall
run/checkpoints/     the newest ones, to resume from
run/last/, run/best/ model folders
run/result.json      what came of it
run/tensorboard/     curves
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import samespot
from samespot.errors import InputError
from samespot.files import read_json, write_json
from samespot.training.checkpoints import Checkpoints
from samespot.training.options import TrainingOptions, differences
from samespot.training.sets import LabelledSet
from samespot.training.validation_sets import Validation

if TYPE_CHECKING:  # what is wrong with a folder is told without torch
    from samespot.devices import Processes
    from samespot.model.network import PlaceNet

Say = Callable[[str], None]
# what may lie in a folder before its run begins: what earlier steps, or a first session that was cut off, left there
OURS = (
    "checkpoints",
    "frozen-features",
    "labels",
    "metrics.jsonl",
    "tensorboard",
    "evaluation",
    "last",
    "best",
)
_OF_LABELS = (
    *("measure", "kind", "theta", "radius", "metres", "degrees", "steepness"),
    *("unknown_heading", "panoramas", "occlusion"),
)


@dataclass
class TrainingResult:
    """The result of a run. Accepted wherever a run folder or a model is."""

    run: Path
    steps: int
    pairs: int  # or tuples
    loss: float | None  # mean of the last logged stretch
    pairs_per_second: float  # of this session, without start-up and validation
    redrawn: int  # queries without a match of the class drawn for them
    skipped_images: dict[str, str]  # path -> why it could not be read
    recall: dict[int, float] = field(default_factory=dict)  # at the end
    best_recall: dict[int, float] = field(default_factory=dict)
    best_step: int | None = None
    model: Path | None = None  # the best model where there was a validation, else the last
    warnings: list[str] = field(default_factory=list)
    # images through the trained part, over all sessions and processes: the price that does not depend on the machine
    learning_images: int = 0
    mining_images: int = 0  # 0 but for losses of mined tuples
    mining_seconds: float = 0.0
    training_seconds: float = 0.0  # of all sessions, mining included, without start-up and validation

    def to_dict(self) -> dict[str, Any]:
        return {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingResult:
        """Of a result.json, whose keys are text and whose paths are, too."""
        paths = {name: values[name] and Path(values[name]) for name in ("run", "model")}
        recalls = {name: {int(k): v for k, v in values[name].items()} for name in ("recall", "best_recall")}
        return cls(**{**values, **paths, **recalls})


class RunFolder:
    """The folder `path`; `say` is given lines for the reader."""

    def __init__(self, path: Path, keep: int, processes: Processes, say: Say) -> None:
        self.path, self.processes = path, processes
        self.writes = processes.first
        self.say: Say = say if self.writes else (lambda line: None)
        self.checkpoints = Checkpoints(path / "checkpoints", keep)
        self.warnings: list[str] = []
        self._validation: dict[str, Any] | None = None  # what the run was validated on

    # ---- what was there before ----

    def refuse_another_run(self, resume: bool) -> None:
        """Before any work is done."""
        self.processes.wait()
        refuse_another_run(self.path, resume)

    def earlier(self, option: str) -> Any:
        """What an option of the run was when it began; None where nothing is known."""
        if not self._begun():
            return None
        return _config(self.path).get("options", {}).get(option)

    def result(self) -> TrainingResult | None:
        """What came of the run, if it was written down."""
        path = self.path / "result.json"
        return TrainingResult.from_dict(read_json(path, "delete it")) if path.is_file() else None

    def warn(self, line: str) -> None:
        self.warnings.append(line)
        self.say(f"warning: {line}")

    def open(
        self, resume: bool, options: TrainingOptions, sets: list[LabelledSet], validation: Validation | None
    ) -> dict[str, Any] | None:
        """The state to go on from, or None. Refuses to mix two runs in one folder."""
        state = self._resumed(options, sets, validation) if resume and self._begun() else None
        if validation is not None:
            self._validation = validation.facts()
        self.processes.wait()
        if self.writes:
            self.path.mkdir(parents=True, exist_ok=True)
        self.processes.wait()
        return state

    def _begun(self) -> bool:
        return _begun(self.path)

    def _resumed(
        self, options: TrainingOptions, sets: list[LabelledSet], validation: Validation | None
    ) -> dict[str, Any] | None:
        config = _config(self.path)
        _refuse_other_settings(self.path, config, options.to_dict())
        if not _same_sets(config.get("sets"), sets_facts(sets)):
            raise InputError(f"{self.path}: cannot be resumed: it was begun with other places or labels")
        self._validation = config.get("validation")  # an older run did not say it
        if validation is not None and self._validation not in (None, validation.facts()):
            raise InputError(
                f"{self.path}: cannot be resumed with another validation, whose recall would be mixed with that so "
                "far; give the one it was begun with, or none, or choose another folder"
            )
        state, warnings = self.checkpoints.newest()
        for line in warnings:
            self.warn(line)
        return state

    # ---- what is written ----

    def write_config(
        self, options: TrainingOptions, sets: list[LabelledSet], net: PlaceNet, resolved: dict[str, Any]
    ) -> None:
        """And tell the reader."""
        import torch

        resolved = {**resolved, "torch": torch.__version__, "numpy": np.__version__}
        config = {
            "samespot": samespot.__version__,
            "options": options.to_dict(),
            "resolved": resolved,
            "sets": sets_facts(sets),
            "validation": self._validation,
            "model": net.config(),
        }
        if self.writes:
            write_json(self.path / "config.json", config)
        self.say(
            f"settings other than the defaults: {options.changed()}; all are in {self.path / 'config.json'}"
        )
        self.say("resolved to " + ", ".join(f"{name} {value}" for name, value in resolved.items()))
        self.say(net.describe_training())

    def save_model(self, name: str, net: PlaceNet, facts: dict[str, Any]) -> None:
        if self.writes:
            net.facts = facts
            net.save(self.path / name)

    def write_result(self, result: TrainingResult) -> None:
        if self.writes:
            write_json(self.path / "result.json", result.to_dict())


def said_once(say: Say | None) -> Say:
    """What the first of several processes says; the others are silent."""
    return say if say is not None and os.environ.get("RANK", "0") == "0" else lambda line: None


def refuse_another_run(path: Path, resume: bool, typed: dict[str, Any] | None = None) -> None:
    """Raise where a run may not begin or go on in a folder. typed: options that were given, as a config has them."""
    if _begun(path):
        if not resume and Checkpoints(path / "checkpoints").steps():
            raise InputError(
                f"{path}: holds a run already; pass `resume` to continue it, or choose another folder"
            )
        if resume and typed:
            _refuse_other_settings(path, _config(path), typed)
    elif path.is_dir():
        foreign = [one.name for one in path.iterdir() if one.name not in OURS and one.name[0] != "."]
        if foreign:
            raise InputError(f"{path}: exists and is not a run folder ({foreign[0]}); choose another")


def _begun(path: Path) -> bool:
    return (path / "config.json").is_file()


def _config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = read_json(path / "config.json", "delete the run folder and start again")
    return config


def _refuse_other_settings(path: Path, config: Mapping[str, Any], now: dict[str, Any]) -> None:
    changed = differences(config.get("options", {}), now)
    if changed:
        raise InputError(f"{path}: cannot be resumed with other settings: {'; '.join(changed)}")


def _same_sets(before: Any, now: list[dict[str, Any]]) -> bool:
    """By what the earlier run wrote down: an older one knew less of its labels."""
    if not isinstance(before, list) or len(before) != len(now):
        return False
    return all({**new, **old} == new for old, new in zip(before, now, strict=True))


def sets_facts(sets: list[LabelledSet]) -> list[dict[str, Any]]:
    """What a run learned from, as its config.json holds it."""
    return [
        {
            "queries": len(one.queries),
            "places": len(one.places),
            "pairs_above_0": one.labels.nonzero,
            "digests": list(one.digests),
            **{key: one.labels.meta[key] for key in _OF_LABELS if key in one.labels.meta},
        }
        for one in sets
    ]
