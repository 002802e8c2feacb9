"""`Evaluation`: what came out, with all that it depends on; one json file, from which two runs can be compared.

protocol, model, settings    what was done
queries                      name, case and groups of each query, once
variants                     one a descriptor (its size, whitening, re-ranking): metrics with intervals, curves, and
                             per query the rank of the first hit, the top match, its distance and overlap
settings["overlap"]          the rule of the graded truth (`overlap.rules.rule_of` reads it)
cases                        maps and queries, and where their tables and descriptors are, relative to the file
matches                      digest of the lists themselves, which are in a file beside it (`evaluation.matches`)

Files of format 1 had no matches, and only a part of the rule; they are read, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import write_whole
from samespot.statistics.intervals import Interval

FORMAT = 2
READABLE = (1, 2)
NAME = "evaluation.json"
ADVICE = "give what `samespot evaluate` wrote"
RULE = ("name", "positive", "queries", "exclusions", "options")  # of a protocol: the question it asks
Metrics = dict[str, Interval]


@dataclass(frozen=True)
class QueryList:
    """Who was asked: one entry a query over all cases."""

    names: list[str]
    cases: NDArray[np.str_]
    counted: NDArray[np.bool_]  # has a positive, and so counts in recall
    groups: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def keys(self) -> list[tuple[str, str]]:
        """(case, name): what ties a query of one run to that of another."""
        return list(zip(self.cases.tolist(), self.names, strict=True))


@dataclass(frozen=True)
class Variant:
    """One kind of descriptor: as the network gives it, or whitened to `dims`; its lists as found, or re-ranked."""

    dims: int
    whitened_on: str | None  # in words where it was fitted; None: as the network gives it
    metrics: Metrics
    by: Mapping[str, Mapping[str, Metrics]]  # e.g. by["condition"]["night"]["R@1"]
    outcomes: Mapping[str, NDArray[Any]]  # a column each, one value a query
    curves: Mapping[str, Any] = field(default_factory=dict)  # plain json
    reranked_by: str | None = None  # what put the lists into another order than that of the distances
    posed_by: str | None = None  # what solved for the queries' poses, from the lists
    whitened_with: str | None = None  # name of the file, where the whitening was fitted before and elsewhere
    whitened_how: str = ""  # "damping 2" or "learned" (`whitening.damping.how_whitened`); nothing for PCA

    @property
    def whitening(self) -> str | None:
        """Which one, in words: "on the map". One of a file is named by it: its "the map" may be another map."""
        if self.whitened_with is not None:
            return f"with {self.whitened_with}"
        how = f", {self.whitened_how}" if self.whitened_how else ""
        return None if self.whitened_on is None else f"on {self.whitened_on}{how}"

    @property
    def name(self) -> str:
        whitened = "" if self.whitening is None else f" whitened {self.whitening}"
        return f"{self.dims}{whitened}{self._after(' re-ranked by', ' posed by')}"

    @property
    def as_found(self) -> bool:
        """Whether this is about lists in the order of distances, and nothing else."""
        return self.reranked_by is None and self.posed_by is None

    def _after(self, again: str, posed: str) -> str:
        reranked = "" if self.reranked_by is None else f"{again} {self.reranked_by}"
        return reranked + ("" if self.posed_by is None else f"{posed} {self.posed_by}")

    @property
    def title(self) -> str:
        """For readers; `name` is for files. Descriptors that nothing changed are called "as described"."""
        whitened = "as described" if self.whitening is None else f"whitened {self.whitening}"
        return f"{self.dims} dims, {whitened}{self._after(', re-ranked by', ', poses by')}"


@dataclass(frozen=True)
class Evaluation:
    protocol: Mapping[str, Any]
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    cases: list[dict[str, Any]]
    queries: QueryList
    variants: list[Variant]
    notes: tuple[str, ...] = ()
    matches: str | None = None

    def variant(self, name: str | None = None) -> Variant:
        """By name or title; the first one, not whitened, by default."""
        for variant in self.variants:
            if name in (None, variant.name, variant.title):
                return variant
        raise InputError(
            f"no descriptor {name!r} in this evaluation; it has {', '.join(v.name for v in self.variants)}"
        )

    def to_dict(self) -> dict[str, Any]:
        queries = self.queries
        return {
            "format": FORMAT,
            "protocol": dict(self.protocol),
            "model": dict(self.model),
            "settings": dict(self.settings),
            "cases": self.cases,
            "notes": list(self.notes),
            "matches": self.matches,
            "variants": [_variant_to_dict(variant) for variant in self.variants],
            "queries": {
                "name": queries.names,
                "case": queries.cases.tolist(),
                "counted": queries.counted.tolist(),
                "groups": {name: values.tolist() for name, values in queries.groups.items()},
            },
        }

    def to_json(self) -> Any:
        """As plain json: no arrays, and null for what is not a number."""
        return as_json(self.to_dict())

    def save(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        write_whole(path, (text + "\n").encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read what `save` wrote; a folder means its `evaluation.json`, a run folder the one in `evaluation/`."""
        path = evaluation_file(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            fault = "no such file" if isinstance(error, FileNotFoundError) else f"{error.strerror or error}"
            raise InputError(f"{path}: {fault}; {ADVICE}") from None
        except ValueError:
            raise InputError(f"{path}: not an evaluation of samespot (no json); {ADVICE}") from None
        try:
            if content["format"] not in READABLE:
                raise InputError(
                    f"{path}: evaluation of format {content['format']}, this version reads up to {FORMAT}; update"
                    " samespot, or evaluate again"
                )
            return _from_dict(content)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            reason = f"it lacks {error}" if isinstance(error, KeyError) else "it says what none would"
            raise InputError(f"{path}: not an evaluation of samespot ({reason}); {ADVICE}") from None


def evaluation_file(path: str | Path) -> Path:
    """The evaluation.json that a path means: the file, an evaluation folder, or a run folder that has one."""
    path = Path(path)
    if not path.is_dir():
        return path
    inside = path / "evaluation" / NAME
    return inside if inside.is_file() and not (path / NAME).is_file() else path / NAME


def evaluation_of(source: Any) -> Evaluation:
    """An evaluation from whatever has one: itself, what `evaluate` returned, a file, an evaluation or run folder."""
    held = getattr(source, "evaluation", None) or getattr(source, "run", source)
    if not isinstance(held, Evaluation | str | Path):
        raise InputError(f"{source!r} is not an evaluation; {ADVICE}, or what `evaluate` returned")
    return held if isinstance(held, Evaluation) else Evaluation.load(held)


def _variant_to_dict(variant: Variant) -> dict[str, Any]:
    return {
        "name": variant.name,
        "dims": variant.dims,
        "whitened_on": variant.whitened_on,
        "whitened_with": variant.whitened_with,
        "whitened_how": variant.whitened_how,
        "reranked_by": variant.reranked_by,
        **({} if variant.posed_by is None else {"posed_by": variant.posed_by}),
        "metrics": _intervals_to_dict(variant.metrics),
        "by": {
            column: {value: _intervals_to_dict(metrics) for value, metrics in values.items()}
            for column, values in variant.by.items()
        },
        "curves": dict(variant.curves),
        "per_query": {name: values.tolist() for name, values in variant.outcomes.items()},
    }


def _intervals_to_dict(metrics: Metrics) -> dict[str, Any]:
    return {
        name: {"value": one.value, "low": one.low, "high": one.high, "n": one.n}
        for name, one in metrics.items()
    }


def _from_dict(content: dict[str, Any]) -> Evaluation:
    queries = content["queries"]
    kinds = {
        "protocol": dict,
        "model": dict,
        "settings": dict,
        "cases": list,
        "variants": list,
        "notes": list,
    }
    lengths = {len(queries["name"]), len(queries["case"]), len(queries["counted"])}
    lengths |= {len(values) for values in queries["groups"].values()}
    lengths |= {len(values) for one in content["variants"] for values in one["per_query"].values()}
    of_their_kinds = all(isinstance(content[key], kind) for key, kind in kinds.items())
    if not of_their_kinds or not content["variants"] or len(lengths) > 1:
        raise ValueError("not what an evaluation holds")
    return Evaluation(
        protocol=content["protocol"],
        model=content["model"],
        settings=content["settings"],
        cases=content["cases"],
        queries=QueryList(
            queries["name"],
            np.array(queries["case"], dtype=np.str_),
            np.array(queries["counted"], dtype=bool),
            {name: np.array(values, dtype=np.str_) for name, values in queries["groups"].items()},
        ),
        variants=[_variant_from_dict(one) for one in content["variants"]],
        notes=tuple(content["notes"]),
        matches=content.get("matches"),
    )


def _variant_from_dict(content: dict[str, Any]) -> Variant:
    return Variant(
        dims=content["dims"],
        whitened_on=content["whitened_on"],
        metrics=_intervals_from_dict(content["metrics"]),
        by={
            column: {value: _intervals_from_dict(metrics) for value, metrics in values.items()}
            for column, values in content["by"].items()
        },
        outcomes={name: _column(values) for name, values in content["per_query"].items()},
        curves=content["curves"],
        reranked_by=content.get("reranked_by"),
        posed_by=content.get("posed_by"),
        whitened_with=content.get("whitened_with"),
        whitened_how=content.get("whitened_how", ""),
    )


def _intervals_from_dict(content: Mapping[str, Any]) -> Metrics:
    return {
        name: Interval(**{key: _number(value) for key, value in one.items()}) for name, one in content.items()
    }


def _number(value: Any) -> Any:
    return math.nan if value is None else value


def _column(values: list[Any]) -> NDArray[Any]:
    if any(isinstance(value, str) for value in values):
        return np.array(["" if value is None else value for value in values], dtype=np.str_)
    return np.array([_number(value) for value in values])


def as_json(value: Any) -> Any:
    """The same without NaN and infinity, which json does not know: null stands for them."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [as_json(inner) for inner in value]
    return value
