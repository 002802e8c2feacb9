"""How similar are any two photos of a batch? The rule says it for all of them, not only for the pairs drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from samespot.arrays import read_only
from samespot.overlap.rules import Within, rule_of
from samespot.training.sets import LabelledSet

Rows = NDArray[np.int64]
Matrix = Callable[[Rows, Rows], NDArray[np.float32]]  # rows of queries (n,) and of the map (n,) -> (2n, 2n)


class InBatchSimilarity:
    """Similarity matrices of batches, by the rule that the labels of each set were made with.

    Labels of a field of view or by the distance on the ground are computed from the positions, so they are known
    between two queries, too. Any other labels (3D, the reference's files) are looked up; there two queries, or two
    map photos, have a similarity only where the table was labelled against itself. Else it is unknown: NaN.
    """

    def __init__(self, sets: list[LabelledSet], *, graded: bool = False, apart: float = 0.0) -> None:
        """graded: binary labels within so many metres are graded by distance, for a loss that needs degrees.
        apart: photos taken less than so many seconds apart are no pair."""
        self._rules = [_rule(one, graded) for one in sets]
        self._seconds, self._apart = [one.seconds(apart) for one in sets], apart

    def __call__(
        self,
        of_set: NDArray[np.int64],
        queries: NDArray[np.int64],
        matches: NDArray[np.int64],
        images: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """(2n, 2n) for n pairs; queries first, then matches. `images`: (2n,) numbers, equal for one photo."""
        matrix = np.zeros((2 * len(queries), 2 * len(queries)), dtype=np.float32)
        for number in np.unique(of_set):
            at = np.flatnonzero(of_set == number)
            block = self._rules[number](queries[at], matches[at])
            if self._apart:
                ours, theirs = self._seconds[number]
                when = np.concatenate([ours[queries[at]], theirs[matches[at]]])
                block[np.abs(when[:, None] - when[None, :]) < self._apart] = np.nan
            both = np.concatenate([at, len(queries) + at])
            matrix[np.ix_(both, both)] = block
        matrix[images[:, None] == images[None, :]] = np.nan
        return matrix


def _rule(one: LabelledSet, graded: bool) -> Matrix:
    rule = rule_of(one.labels.meta)
    if rule is None:
        return _Stored(one)
    ours, theirs = rule.cameras(one.queries), rule.cameras(one.places, "map")
    matrix = rule.graded if graded and isinstance(rule, Within) else rule.matrix
    return lambda queries, matches: matrix(np.concatenate([ours[queries], theirs[matches]]))


class _Stored:
    def __init__(self, one: LabelledSet) -> None:
        labels = one.labels
        self._arrays: Any = tuple(map(read_only, (labels.indptr, labels.columns, labels.similarity)))
        self._same_table = one.same_table

    def __call__(self, queries: NDArray[np.int64], matches: NDArray[np.int64]) -> NDArray[np.float32]:
        rows = np.concatenate([queries, matches])
        if self._same_table:
            return _stored_matrix(self._arrays, rows, rows)  # type: ignore[no-any-return]
        n = len(queries)
        matrix = np.full((2 * n, 2 * n), np.nan, dtype=np.float32)
        matrix[:n, n:] = _stored_matrix(self._arrays, queries, matches)
        matrix[n:, :n] = matrix[:n, n:].T
        return matrix


@njit(cache=True, nogil=True)
def _stored_matrix(labels: Any, rows: Any, wanted: Any) -> Any:  # pragma: no cover - compiled
    indptr, columns, similarity = labels
    matrix = np.zeros((len(rows), len(wanted)), np.float32)
    for i in range(len(rows)):
        start, end = indptr[rows[i]], indptr[rows[i] + 1]
        for j in range(len(wanted)):
            at = start + np.searchsorted(columns[start:end], wanted[j])
            if at < end and columns[at] == wanted[j]:
                matrix[i, j] = similarity[at]
    return matrix
