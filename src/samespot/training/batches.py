"""Which pairs come next? Batches drawn from the labels alone: no descriptors, no mining, no dense rows.

Batch number `step` is a pure function of (seed, step): it is the same whatever ran before, in any process, after
any restart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from samespot.arrays import read_only
from samespot.errors import InputError
from samespot.images.listing import ImageList
from samespot.overlap.classes import POSITIVE
from samespot.training.in_batch import InBatchSimilarity
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet, images_of
from samespot.training.strategies import PairClass, Strategy, strategy_named

QueryOrder = Literal["uniform", "refill"]
REFILL = 10_000  # queries; MSLS's loader of the reference draws matches for so many at a time
# after so many unlucky draws a list of the queries that do have such a match is made instead
_ROUNDS = 40
_TRIES = 16  # draws of a hard negative that may hit a panorama or the photo itself


@dataclass(frozen=True)
class Batch:
    """Pairs of images, by number (see `ImageList`), and their similarity.

    `in_batch` is the similarity of all images of the batch, queries first, then matches, for the loss over all
    pairs; NaN where a pair does not count (one photo twice, or no label). `negatives` are there for losses of tuples;
    the matches are then the positives.
    """

    step: int
    sets: NDArray[np.int64]  # (n,) which labelled set
    queries: NDArray[np.int64]  # (n,) row in its table of queries
    matches: NDArray[np.int64]  # (n,) row in its map
    similarity: NDArray[np.float32]  # (n,) in [0, 1]
    query_images: NDArray[np.int64]  # (n,)
    match_images: NDArray[np.int64]  # (n,)
    redrawn: int  # queries that had no match of the class drawn for them
    in_batch: NDArray[np.float32] | None = None  # (2n, 2n)
    negatives: NDArray[np.int64] | None = None  # (n, N) image numbers, -1 where a tuple has fewer

    def __len__(self) -> int:
        return len(self.queries)

    def part(self, rank: int, processes: int) -> Batch:
        """The pairs of one of several processes. `in_batch` stays whole."""
        mine = slice(rank * len(self) // processes, (rank + 1) * len(self) // processes)
        names = ["sets", "queries", "matches", "similarity", "query_images", "match_images"]
        if self.negatives is not None:
            names.append("negatives")
        return replace(self, **{name: getattr(self, name)[mine] for name in names})

    @property
    def images(self) -> NDArray[np.int64]:
        """(2n,) queries, then matches; or (2n + nN,), then all negatives of the first query, of the second, ..."""
        pairs = [self.query_images, self.match_images]
        if self.negatives is None:
            return np.concatenate(pairs)
        # a negative that is not there is the query itself, which is read anyway, and does not count
        filled = np.where(self.negatives < 0, self.query_images[:, None], self.negatives)
        return np.concatenate([*pairs, filled.ravel()])


class Batches:
    """`batches(step)` is the batch of that step.

    order: "uniform" draws each query at random; "refill" shows every query once an epoch, in a random order that
    is worked through `refill` queries at a time. Sets are chosen in proportion to their queries. `graded`: where
    labels are binary, `in_batch` is graded by distance. `apart`: two photos taken less than so many seconds apart are
    no pair: they are too easy.
    """

    def __init__(
        self,
        sets: list[LabelledSet],
        strategy: str | Strategy = "A",
        pairs: int = 64,
        seed: int = 0,
        *,
        order: QueryOrder = "uniform",
        refill: int = REFILL,
        panoramas: bool = True,
        graded: bool = False,
        apart: float = 0.0,
    ) -> None:
        if not sets:
            raise InputError("no labelled sets to draw batches from; give at least one label folder")
        if pairs < 1 or refill < 1:
            raise InputError(
                f"a batch of {pairs} pairs, a refill of {refill} queries: both must be at least 1"
            )
        if not 0 <= seed < 2**63:
            raise InputError(f"seed {seed} is not in [0, 2^63)")
        if order not in ("uniform", "refill"):
            raise InputError(f"query order {order!r} is not known; choose uniform or refill")
        self.sets, self.pairs, self.seed, self.order, self.refill = sets, pairs, seed, order, refill
        self.strategy = strategy_named(strategy) if isinstance(strategy, str) else strategy
        self.images: ImageList = images_of(sets)
        self._views = [View(one, panoramas, apart) for one in sets]
        self._starts = np.concatenate([[0], np.cumsum([len(view.queries) for view in self._views])])
        if self.query_count == 0:
            raise InputError("every query is a panorama, and panoramas are left out; pass panoramas=True")
        self._low = np.array([c.low for c in self.strategy.classes])
        self._high = np.array([c.high for c in self.strategy.classes])
        self._in_batch = (
            InBatchSimilarity(sets, graded=graded, apart=apart) if self.strategy.all_pairs else None
        )
        self._orders: dict[int, NDArray[np.int64]] = {}
        self._with_match: dict[str, NDArray[np.int64]] = {}

    @property
    def query_count(self) -> int:
        """Queries that may be drawn: the length of an epoch, in pairs."""
        return int(self._starts[-1])

    def __call__(self, step: int) -> Batch:
        dice = random_stream(self.seed, step)
        counts = self.strategy.counts(self.pairs, dice.random())
        kinds = dice.permutation(np.repeat(np.arange(len(counts)), counts))
        queries = self._queries(step, dice)
        matches = np.full(self.pairs, -1, dtype=np.int64)
        similarity = np.zeros(self.pairs, dtype=np.float32)
        redrawn = self._draw(step, dice, kinds, queries, matches, similarity)
        return self._assembled(step, queries, matches, similarity, redrawn)

    def _draw(
        self,
        step: int,
        dice: np.random.Generator,
        kinds: NDArray[np.int64],
        queries: NDArray[np.int64],
        matches: NDArray[np.int64],
        similarity: NDArray[np.float32],
    ) -> int:
        """Fill in matches, replacing queries that have none of the class wanted; how many were replaced."""
        redrawn = 0
        pending = np.arange(self.pairs)
        for attempt in range(2 * _ROUNDS):
            matches[pending], similarity[pending] = self._match(queries[pending], kinds[pending], dice)
            pending = pending[matches[pending] < 0]
            if len(pending) == 0:
                return redrawn
            redrawn += len(pending)
            for slot in pending:
                pool = self._pool(step, int(slot)) if attempt < _ROUNDS else self._queries_with(kinds[slot])
                queries[slot] = (
                    pool[dice.integers(len(pool))] if pool is not None else dice.integers(self.query_count)
                )
        kind = self.strategy.classes[kinds[pending[0]]]
        raise InputError(
            f"step {step}: no {kind.name} pair was found in {2 * _ROUNDS} draws; too many panoramas?"
        )

    def _queries(self, step: int, dice: np.random.Generator) -> NDArray[np.int64]:
        """(pairs,) the queries of a step, by their number among all that may be drawn."""
        if self.order == "uniform":
            return dice.integers(self.query_count, size=self.pairs)
        slots = step * self.pairs + np.arange(self.pairs)
        epochs, at = np.divmod(slots, self.query_count)
        return np.array([self._shuffled(int(e))[a] for e, a in zip(epochs, at, strict=True)], dtype=np.int64)

    def _pool(self, step: int, slot: int) -> NDArray[np.int64] | None:
        """Where another query comes from: the current refill, or (None) all of them."""
        if self.order == "uniform":
            return None
        epoch, at = divmod(step * self.pairs + slot, self.query_count)
        start = at - at % self.refill
        return self._shuffled(epoch)[start : start + self.refill]

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        if epoch not in self._orders:
            if len(self._orders) > 1:  # a batch may reach from one epoch into the next
                self._orders.pop(min(self._orders))
            self._orders[epoch] = shuffled(self.seed, epoch, self.query_count)
        return self._orders[epoch]

    def _match(
        self, queries: NDArray[np.int64], kinds: NDArray[np.int64], dice: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """A match of the wanted class for each query, -1 where there is none; and the similarities."""
        rolls = dice.random((len(queries), _TRIES))
        matches = np.empty(len(queries), dtype=np.int64)
        similarity = np.empty(len(queries), dtype=np.float32)
        of_set = np.searchsorted(self._starts, queries, side="right") - 1
        low, high = self._low[kinds], self._high[kinds]
        for number in np.unique(of_set):
            at = np.flatnonzero(of_set == number)
            view = self._views[number]
            rows = view.queries[queries[at] - self._starts[number]]
            matches[at], similarity[at] = _draw_matches(view.arrays, rows, low[at], high[at], rolls[at])
        return matches, similarity

    def _queries_with(self, kind: int) -> NDArray[np.int64]:
        """Every query that has a match of this class. Reads all labels once, for classes that are rare."""
        wanted = self.strategy.classes[kind]
        if wanted.name not in self._with_match:
            found = [
                start + np.flatnonzero(_has_match(view.arrays, view.queries, wanted.low, wanted.high))
                for start, view in zip(self._starts, self._views, strict=False)
            ]
            self._with_match[wanted.name] = np.concatenate(found)
        if len(self._with_match[wanted.name]) == 0:
            raise InputError(self._no_such_pair(wanted))
        return self._with_match[wanted.name]

    def _no_such_pair(self, wanted: PairClass) -> str:
        kinds = {str(one.labels.meta.get("kind")) for one in self.sets}
        plain = "all:D" if self.strategy.all_pairs else "binary"
        # what shares nothing becomes rare where cameras see far, everything else where they see little
        radius = "smaller" if wanted.low == 0.0 else "larger"
        advice = (
            f"use `batches={plain}`"
            if kinds == {"binary"}
            else f"choose other batches, or label again with a {radius} radius"
        )
        return f"batches {self.strategy.name} need a {wanted.name} pair, and the labels hold none; {advice}"

    def _assembled(
        self,
        step: int,
        queries: NDArray[np.int64],
        matches: NDArray[np.int64],
        similarity: NDArray[np.float32],
        redrawn: int,
    ) -> Batch:
        of_set, rows = located(self._views, self._starts, queries)
        if self.strategy.binary:
            similarity = (similarity >= POSITIVE).astype(np.float32)
        first = np.array(self.images.first, dtype=np.int64)
        batch = Batch(
            step,
            of_set,
            rows,
            matches,
            similarity,
            first[2 * of_set] + rows,
            first[2 * of_set + 1] + matches,
            redrawn,
        )
        if self._in_batch is None:
            return batch
        return replace(batch, in_batch=self._in_batch(of_set, rows, matches, batch.images))


def random_stream(seed: int, step: int, stream: int = 0) -> np.random.Generator:
    """Random numbers that depend on nothing but these three: counter-based, so no step needs the ones before."""
    return np.random.Generator(np.random.Philox(key=[seed, step], counter=[0, 0, 0, stream]))


def shuffled(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """(count,) the queries of an epoch, each once, in a random order."""
    return random_stream(seed, epoch, stream=1).permutation(count)


def located(
    views: list[View], starts: NDArray[np.int64], queries: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each query, by its number among all that take part: its set, and its row there."""
    of_set = np.searchsorted(starts, queries, side="right") - 1
    rows = [views[s].queries[q - starts[s]] for s, q in zip(of_set, queries, strict=True)]
    return of_set.astype(np.int64), np.array(rows, dtype=np.int64)


def batches_of(options: TrainingOptions, sets: list[LabelledSet]) -> Batches:
    """The batches of a run with these options."""
    return Batches(
        sets,
        options.batches,
        options.batch_pairs,
        options.seed,
        order=options.order,
        refill=options.refill,
        panoramas=options.panoramas,
        graded=options.objective.needs_degrees,
        apart=options.apart,
    )


class View:
    """A labelled set as the kernels want it: plain arrays (a memory map stays one) and the queries allowed."""

    def __init__(self, one: LabelledSet, panoramas: bool, apart: float = 0.0) -> None:
        labels = one.labels
        skipped = np.zeros(0, dtype=bool) if panoramas else one.places.panoramas
        if len(skipped) and skipped.all():
            raise InputError(f"{one.places.root}: every map image is a panorama, and they are left out")
        skipped = skipped if skipped.any() else np.zeros(0, dtype=bool)
        self.skipped = skipped  # (map,) or (0,) where none is
        self.arrays: Any = (
            *map(read_only, (labels.indptr, labels.columns, labels.similarity)),
            labels.shape[1],
            one.same_table,
            read_only(skipped),
            *map(read_only, one.seconds(apart)),
            apart,
        )
        allowed = np.ones(len(one.queries), dtype=bool) if panoramas else ~one.queries.panoramas
        self.queries = np.flatnonzero(allowed)


@njit(cache=True, nogil=True)
def _excluded(labels: Any, query: int, column: int) -> bool:  # pragma: no cover - compiled
    _, _, _, _, same_table, skipped, when, taken, apart = labels
    if (same_table and column == query) or (len(skipped) > 0 and skipped[column]):
        return True
    return len(when) > 0 and abs(when[query] - taken[column]) < apart


@njit(cache=True, nogil=True)
def _draw_matches(
    labels: Any, queries: Any, low: Any, high: Any, rolls: Any
) -> Any:  # pragma: no cover - compiled
    """For each query a column with low <= ψ < high, each with the same chance, or -1; and its ψ."""
    indptr, columns, similarity, width = labels[0], labels[1], labels[2], labels[3]
    found, share = np.full(len(queries), -1, np.int64), np.zeros(len(queries), np.float32)
    for k in range(len(queries)):
        query = queries[k]
        start, end = indptr[query], indptr[query + 1]
        if low[k] > 0.0:
            count = 0
            for e in range(start, end):
                if low[k] <= similarity[e] < high[k] and not _excluded(labels, query, columns[e]):
                    count += 1
            pick = int(rolls[k, 0] * count) if count > 0 else -1
            for e in range(start, end):
                if pick < 0:
                    break
                if low[k] <= similarity[e] < high[k] and not _excluded(labels, query, columns[e]):
                    if pick == 0:
                        found[k], share[k] = columns[e], similarity[e]
                    pick -= 1
            continue
        # nearly every column qualifies: draw the n-th of those that are not ruled out by a stored ψ >= high
        ruled_out = 0
        for e in range(start, end):
            if similarity[e] >= high[k]:
                ruled_out += 1
        free = width - ruled_out
        for t in range(rolls.shape[1] if free > 0 else 0):
            column = int(rolls[k, t] * free)
            for e in range(start, end):
                if columns[e] > column:
                    break
                if similarity[e] >= high[k]:
                    column += 1
            if _excluded(labels, query, column):
                continue
            found[k] = column
            at = start + np.searchsorted(columns[start:end], column)
            if at < end and columns[at] == column:
                share[k] = similarity[at]
            break
    return found, share


@njit(cache=True, nogil=True)
def _has_match(labels: Any, queries: Any, low: float, high: float) -> Any:  # pragma: no cover - compiled
    """(queries,) whether any column has low <= ψ < high."""
    indptr, columns, similarity, width, same_table, skipped = (
        labels[0],
        labels[1],
        labels[2],
        labels[3],
        labels[4],
        labels[5],
    )
    has = np.zeros(len(queries), np.bool_)
    allowed = width - np.sum(skipped) if len(skipped) > 0 else width
    for k in range(len(queries)):
        query = queries[k]
        inside = ruled_out = 0
        for e in range(indptr[query], indptr[query + 1]):
            if _excluded(labels, query, columns[e]):
                continue
            if low <= similarity[e] < high:
                inside += 1
            else:
                ruled_out += 1
        others = allowed - ruled_out
        if same_table and not (len(skipped) > 0 and skipped[query]):
            others -= 1
        has[k] = inside > 0 if low > 0.0 else others > 0
    return has
