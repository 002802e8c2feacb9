"""Which negatives does the network still confuse? Tuples for NetVLAD's loss, mined with the weights of the moment.

Every so many queries the next ones of the epoch are taken; they, their positives and a pool of map photos are
described, and each query gets the positive it is nearest to and the negatives that it lies nearest to. Each photo
described is a forward pass from which nothing is learned: that is the price of mining, and it is counted.

From one mining to the next is a *stretch* of whole steps. Its queries and its pool are a function of (seed, stretch)
alone; its tuples depend on the weights, too, so they are kept in checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.errors import InputError
from samespot.images.listing import ImageList
from samespot.images.sources import in_blocks, send
from samespot.overlap.classes import POSITIVE
from samespot.training.batches import Batch, View, located, random_stream, shuffled
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet, images_of

_QUERIES_AT_ONCE = 256  # rows of the score matrix
_STREAM = 3  # of random numbers; 0 to 2 are of batches and augmentation

# (m,) image numbers, ascending -> (m, d) unit descriptors, and (m,) whether the image could be read
Describe = Callable[[NDArray[np.int64]], tuple[Tensor, NDArray[np.bool_]]]
# image numbers (q,) and (k,) -> (q, k), the higher the nearer; -inf where either cannot be read
Scores = Callable[[NDArray[np.int64], NDArray[np.int64]], Tensor]


@dataclass(frozen=True)
class Candidates:
    """Whom each of q queries may be put into a tuple with. Images by number."""

    queries: NDArray[np.int64]  # (q,)
    positives: list[NDArray[np.int64]]  # q arrays, ascending
    pool: NDArray[np.int64]  # (p,) ascending
    allowed: NDArray[np.bool_]  # (q, p) whether an image of the pool is a negative of the query

    @property
    def able(self) -> NDArray[np.bool_]:
        """(q,) whether a query has a positive and a negative at all."""
        return np.array([len(one) > 0 for one in self.positives]) & self.allowed.any(axis=1)

    def of(self, rows: NDArray[np.int64]) -> Candidates:
        """Those of some of the queries."""
        return Candidates(
            self.queries[rows], [self.positives[i] for i in rows], self.pool, self.allowed[rows]
        )

    @property
    def images(self) -> NDArray[np.int64]:
        """Every image of them once, ascending."""
        return np.unique(np.concatenate([self.queries, self.pool, *self.positives]))


@dataclass(frozen=True)
class Mined:
    """The tuples of one stretch, in order. Rows of tables as in `Batch`, negatives by image number."""

    stretch: int
    sets: NDArray[np.int64]  # (n,)
    queries: NDArray[np.int64]  # (n,)
    matches: NDArray[np.int64]  # (n,) the positives
    similarity: NDArray[np.float32]  # (n,)
    negatives: NDArray[np.int64]  # (n, N), hardest first; -1 where there are fewer
    replaced: NDArray[np.bool_]  # (n,) whether it stands for a query that has no positive or no negative

    def state(self) -> dict[str, Any]:
        """As a checkpoint holds it."""
        return {k: v if isinstance(v, int) else torch.from_numpy(v) for k, v in asdict(self).items()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Mined:
        arrays: dict[str, Any] = {k: v if isinstance(v, int) else v.numpy() for k, v in state.items()}
        return cls(**arrays)


class Tuples:
    """`tuples(step)` is the batch of that step, once its stretch is mined.

    Each query comes once an epoch, in a random order. `every`: queries from one mining to the next, at most an
    epoch, rounded down to whole steps of `count` tuples. `pool`: map images, of all sets, among which negatives are
    looked for. hard: by the descriptors of the moment; else positive and negatives are drawn at random.
    """

    def __init__(
        self,
        sets: list[LabelledSet],
        count: int = 64,
        seed: int = 0,
        *,
        negatives: int = 10,
        hard: bool = True,
        every: int = 1000,
        pool: int = 1000,
        panoramas: bool = True,
    ) -> None:
        if not sets:
            raise InputError("no labelled sets to mine tuples from; give at least one label folder")
        if not 0 <= seed < 2**63:
            raise InputError(f"seed {seed} is not in [0, 2^63)")
        self.sets, self.count, self.seed = sets, count, seed
        self.negatives, self.hard, self.pool = negatives, hard, pool
        self.images: ImageList = images_of(sets)
        self._views = [View(one, panoramas) for one in sets]
        self._starts = np.concatenate([[0], np.cumsum([len(view.queries) for view in self._views])])
        if self.query_count == 0:
            raise InputError("every query is a panorama, and panoramas are left out; pass panoramas=True")
        self.stretch_steps = max(1, min(every, self.query_count) // count)
        self._map_images = np.unique(np.concatenate([self._of_map(s) for s in range(len(sets))]))
        self.mined: Mined | None = None

    @property
    def query_count(self) -> int:
        """The length of an epoch, in tuples."""
        return int(self._starts[-1])

    def stretch(self, step: int) -> range:
        """The steps that are mined together with this one."""
        first = step - step % self.stretch_steps
        return range(first, first + self.stretch_steps)

    def __call__(self, step: int) -> Batch:
        mined = self.mined
        if mined is None or not self.is_mined(step):
            raise RuntimeError(f"the tuples of step {step} are not mined yet")
        at = (step - self.stretch(step).start) * self.count
        rows = slice(at, at + self.count)
        first = np.array(self.images.first, dtype=np.int64)
        of_set, queries, matches = mined.sets[rows], mined.queries[rows], mined.matches[rows]
        return Batch(
            step,
            of_set,
            queries,
            matches,
            mined.similarity[rows],
            first[2 * of_set] + queries,
            first[2 * of_set + 1] + matches,
            int(mined.replaced[rows].sum()),
            negatives=mined.negatives[rows],
        )

    def is_mined(self, step: int) -> bool:
        return self.mined is not None and self.mined.stretch == step // self.stretch_steps

    def mine(self, step: int, describe: Describe) -> int:
        """Mine the stretch of a step; how many images were described for it."""
        number = step // self.stretch_steps
        dice = random_stream(self.seed, number, stream=_STREAM)
        of_set, rows = located(self._views, self._starts, self._queries(number))
        candidates = self._candidates(of_set, rows, self._drawn_pool(dice))
        able = np.flatnonzero(candidates.able)
        positives = np.full(len(rows), -1, dtype=np.int64)
        negatives = np.full((len(rows), self.negatives), -1, dtype=np.int64)
        described = 0
        if len(able):
            scores, images = _random_scores(dice), candidates.of(able).images
            if self.hard:
                scores, described = nearness(images, *describe(images)), len(images)
            positives[able], negatives[able] = choose(candidates.of(able), scores, self.negatives)
        self.mined = self._filled_up(number, dice, of_set, rows, positives, negatives)
        return described

    # ---- who takes part ----

    def _queries(self, stretch: int) -> NDArray[np.int64]:
        """(n,) the queries of a stretch, by their number among all that take part."""
        slots = np.arange(self.stretch_steps * self.count) + stretch * self.stretch_steps * self.count
        epochs, at = np.divmod(slots, self.query_count)
        orders = {int(e): shuffled(self.seed, int(e), self.query_count) for e in np.unique(epochs)}
        return np.array([orders[e][a] for e, a in zip(epochs.tolist(), at, strict=True)], dtype=np.int64)

    def _of_map(self, number: int) -> NDArray[np.int64]:
        """The images of a set's map that take part."""
        width, skipped = self.sets[number].labels.shape[1], self._views[number].skipped
        rows = np.flatnonzero(~skipped) if len(skipped) else np.arange(width)
        return self.images.first[2 * number + 1] + rows

    def _drawn_pool(self, dice: np.random.Generator) -> NDArray[np.int64]:
        size = min(self.pool, len(self._map_images))
        return np.sort(dice.choice(self._map_images, size, replace=False))

    def _candidates(
        self, of_set: NDArray[np.int64], rows: NDArray[np.int64], pool: NDArray[np.int64]
    ) -> Candidates:
        first = self.images.first
        images = np.array([first[2 * s] + r for s, r in zip(of_set, rows, strict=True)], dtype=np.int64)
        positives, allowed = [], np.ones((len(rows), len(pool)), dtype=bool)
        for i, (number, row) in enumerate(zip(of_set.tolist(), rows.tolist(), strict=True)):
            columns, similarity = self.sets[number].labels.row(row)
            overlapping = first[2 * number + 1] + columns.astype(np.int64)
            wanted = (similarity >= POSITIVE) & (overlapping != images[i])
            skipped = self._views[number].skipped
            if len(skipped):
                wanted &= ~skipped[columns]
            positives.append(overlapping[wanted])
            # any overlap, however small, keeps a photo from being a negative
            allowed[i] = ~np.isin(pool, overlapping) & (pool != images[i])
        return Candidates(images, positives, pool, allowed)

    # ---- what came of it ----

    def _filled_up(
        self,
        stretch: int,
        dice: np.random.Generator,
        of_set: NDArray[np.int64],
        rows: NDArray[np.int64],
        positives: NDArray[np.int64],
        negatives: NDArray[np.int64],
    ) -> Mined:
        """Queries without a tuple give their place to others of the stretch."""
        whole = (positives >= 0) & (negatives[:, 0] >= 0)
        if not whole.any():
            raise InputError(
                f"none of {len(rows)} queries has a photo with ψ >= {POSITIVE:g} and one with ψ = 0 among "
                f"{min(self.pool, len(self._map_images))} of the map; check the labels, or raise `mine_every` and "
                "`mine_pool`"
            )
        source = np.arange(len(rows))
        source[~whole] = dice.choice(np.flatnonzero(whole), int((~whole).sum()))
        of_set, rows, positives, negatives = (x[source] for x in (of_set, rows, positives, negatives))
        first = np.array(self.images.first, dtype=np.int64)
        matches = positives - first[2 * of_set + 1]
        similarity = np.zeros(len(rows), dtype=np.float32)
        for number in np.unique(of_set):
            at = of_set == number
            similarity[at] = self.sets[number].labels.lookup(rows[at], matches[at])
        return Mined(stretch, of_set, rows, matches, similarity, negatives, ~whole)


def tuples_of(options: TrainingOptions, sets: list[LabelledSet]) -> Tuples:
    """The tuples of a run with these options."""
    return Tuples(
        sets,
        options.batch_pairs,
        options.seed,
        negatives=options.negatives,
        hard=options.mining == "hard",
        every=options.mine_every,
        pool=options.mine_pool,
        panoramas=options.panoramas,
    )


def choose(
    candidates: Candidates, scores: Scores, negatives: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each query its positive of the highest score, (q,), and its negatives of the highest scores, (q, N), best
    first; -1 where there is none. Among equals the lower image number comes first."""
    best = np.full(len(candidates.queries), -1, dtype=np.int64)
    hardest = np.full((len(candidates.queries), negatives), -1, dtype=np.int64)
    for rows in in_blocks(len(candidates.queries), _QUERIES_AT_ONCE):
        queries, some = candidates.queries[rows], [candidates.positives[i] for i in rows]
        order = _ranked(scores(queries, candidates.pool), candidates.allowed[rows], negatives)
        hardest[rows[:, None], np.arange(order.shape[1])] = np.where(order < 0, -1, candidates.pool[order])
        unique, column = np.unique(np.concatenate(some), return_inverse=True)
        theirs = np.zeros((len(rows), len(unique)), dtype=bool)
        theirs[np.repeat(np.arange(len(rows)), [len(one) for one in some]), column] = True
        at = _ranked(scores(queries, unique), theirs, 1)[:, 0]
        best[rows] = np.where(at < 0, -1, unique[at])
    return best, hardest


def _ranked(scores: Tensor, counted: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """(q, min(count, k)) the columns of the highest scores that count; -1 where there are no more."""
    scores = scores.masked_fill(send(~counted, scores.device), -torch.inf)
    high, order = scores.sort(dim=1, descending=True, stable=True)
    return torch.where(high.isfinite(), order, -1)[:, :count].cpu().numpy()


def nearness(images: NDArray[np.int64], descriptors: Tensor, good: NDArray[np.bool_]) -> Scores:
    """Scores by descriptors of unit length, whose dot product falls as their distance grows.

    images: (m,) numbers, ascending; descriptors: (m, d); good: (m,) whether the image could be read.
    """

    def scores(queries: NDArray[np.int64], others: NDArray[np.int64]) -> Tensor:
        rows, columns = np.searchsorted(images, queries), np.searchsorted(images, others)
        device = descriptors.device
        with torch.autocast(device.type, enabled=False):
            near = descriptors[send(rows, device)] @ descriptors[send(columns, device)].T
        return near.masked_fill(send(~(good[rows][:, None] & good[columns]), device), -torch.inf)

    return scores


def _random_scores(dice: np.random.Generator) -> Scores:
    return lambda queries, others: torch.from_numpy(dice.random((len(queries), len(others))))
