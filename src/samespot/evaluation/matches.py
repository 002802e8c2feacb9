"""The matches that an evaluation rests on, as they were searched: nobody after it has to search again.

`matches.safetensors` beside `evaluation.json` holds for the i-th descriptor of the evaluation, over the queries of
all cases one below the other, best match first:

    i.rows       (q, k) int32     row in the map of the query's case (of sequences: the sequence), -1 for nothing
    i.distances  (q, k) float32   of the descriptors, inf for nothing
    i.hits       (q, k) bool      whether it is right by the protocol; absent where the truth is secret or a pose
    i.overlap    (q, k) float32   its graded truth; absent where that is not known
    i.scores     (q, k) float32   of the reranker; only of a re-ranked list, NaN below what was re-ranked

k is the length of the lists, at least the largest rank of the protocol. What the protocol excludes is in no list.
`evaluation.json` knows the digest of the file, so that matches of another evaluation are not taken for its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import as_safetensors
from samespot.evaluation.cases import Case
from samespot.evaluation.metrics import gains, hits
from samespot.files import write_whole
from samespot.matching.reranked import Reranked
from samespot.overlap.labels import PairLabels
from samespot.retrieval.search import Found

NAME = "matches.safetensors"


@dataclass(frozen=True)
class Matches:
    """The lists of one descriptor; see the head of this module for the arrays."""

    rows: NDArray[np.int32]
    distances: NDArray[np.float32]
    hits: NDArray[np.bool_] | None = None
    overlap: NDArray[np.float32] | None = None
    scores: NDArray[np.float32] | None = None

    def of_queries(self, first: int, count: int) -> Matches:
        """Of a run of queries only, as those of one case."""
        part = slice(first, first + count)
        return Matches(**{name: values[part] for name, values in self.arrays().items()})

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Those that there are, by name."""
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: values for name, values in every.items() if values is not None}


def matches_of(cases: Sequence[Case], found: Sequence[Found], labels: Sequence[PairLabels | None]) -> Matches:
    """What was found in each case, with the truth about it, as one."""
    right = [
        hits(one.rows, case.positives)
        for case, one in zip(cases, found, strict=True)
        if case.positives is not None
    ]
    shared = [gains(one.rows, truth) for one, truth in zip(found, labels, strict=True) if truth is not None]
    scores = [one.scores for one in found if isinstance(one, Reranked)]
    return Matches(
        np.concatenate([one.rows for one in found]).astype(np.int32),
        np.concatenate([one.distances for one in found]).astype(np.float32),
        np.concatenate(right) if len(right) == len(cases) else None,
        np.concatenate(shared).astype(np.float32) if len(shared) == len(cases) else None,
        np.concatenate(scores).astype(np.float32) if len(scores) == len(cases) else None,
    )


def save_matches(folder: Path, matches: Sequence[Matches]) -> str:
    """Write those of every descriptor, in the order of the evaluation; returns their digest."""
    arrays = {
        f"{number}.{name}": np.ascontiguousarray(values)
        for number, one in enumerate(matches)
        for name, values in one.arrays().items()
    }
    digest = _digest(arrays)
    write_whole(folder / NAME, as_safetensors(arrays, {"digest": digest}))
    return digest


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    content = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        content.update(f"{name} {values.dtype} {values.shape}\n".encode())
        content.update(values.tobytes())
    return content.hexdigest()[:16]


def load_matches(folder: Path, number: int, digest: str | None) -> Matches | None:
    """Those of the evaluation's n-th descriptor; None where they are not there, or are of another evaluation."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / NAME, framework="numpy") as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    if digest is None or _digest(arrays) != digest:  # of the arrays themselves: a header may say anything
        return None
    names = [one.name for one in fields(Matches)]
    return Matches(**{name: arrays[f"{number}.{name}"] for name in names if f"{number}.{name}" in arrays})
