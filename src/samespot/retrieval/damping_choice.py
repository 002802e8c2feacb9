"""How much to damp a whitening, chosen on the photos of a map, whose places are known; queries have no part in it.

Each photo is looked up among the others, less those of its own sequence and of its own moment, which are too easy. The
strength that finds most is taken if it finds more than the usual one by more than chance, one standard error of the
difference over the same photos.

Photos that the network was trained on tell nothing: it knows them too well, and too much damping looks best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samespot.overlap.classes import POSITIVE
from samespot.overlap.rules import Rule
from samespot.places.table import Places
from samespot.retrieval import exclusion
from samespot.retrieval.search import search
from samespot.whitening.axes import Vectors
from samespot.whitening.damping import AUTO
from samespot.whitening.whitening import Whitening

STRENGTHS = (0.1, 0.3, 1.0, AUTO, 10.0, 30.0)
FIRST = 5  # matches of a photo among which one must be right
MOST_LOOKED_UP, MOST_PHOTOS = 1_000, 20_000  # drawn where there are more, always the same ones


@dataclass(frozen=True)
class Known:
    """Descriptors of photos (n, d), and where these were taken."""

    vectors: Vectors
    places: Places


def choose_damping(
    whitening: Whitening, known: Sequence[Known], rule: Rule, device: str = "auto"
) -> Whitening:
    """The same axes, damped as suits the photos; as usual where the rule cannot tell which show the same place.

    known: sets of photos, each looked up in itself. rule: which photos show the same place (ψ of 0.5 and more).
    """
    usual = whitening.damped()
    if any(unknown.any() for one in known for unknown in rule.unknown(one.places).values()):
        return usual
    trials = [_Trial(one, rule, MOST_LOOKED_UP // len(known)) for one in known if len(one.places) > FIRST]
    if not trials:
        return usual
    found = {
        strength: np.concatenate([trial.hits(whitening.damped(strength), device) for trial in trials])
        for strength in STRENGTHS
    }
    best = max(STRENGTHS, key=lambda strength: (found[strength].mean(), strength == AUTO))
    gain = found[best] - found[AUTO]
    by_chance = gain.std() / np.sqrt(len(gain))
    return whitening.damped(best) if gain.mean() > by_chance else usual


class _Trial:
    """Some photos of a set, to be found among the others."""

    def __init__(self, known: Known, rule: Rule, looked_up: int) -> None:
        rows = _drawn(len(known.places), MOST_PHOTOS)
        there, self.vectors = known.places.select(rows), known.vectors[rows]
        self.asked = _drawn(len(there), looked_up)
        asked = there.select(self.asked)
        self.labels = rule.label(asked, there)
        self.excluded = exclusion.any_of(*_too_easy(asked, there))

    def hits(self, whitening: Whitening, device: str) -> NDArray[np.float64]:
        """(photos looked up,) 1 where one of the first matches shows the same place."""
        whitened = whitening(self.vectors)
        rows = search(whitened[self.asked], whitened, FIRST, excluded=self.excluded, device=device).rows
        similar = self.labels.lookup(np.arange(len(rows))[:, None], np.maximum(rows, 0))
        hits: NDArray[np.float64] = ((similar >= POSITIVE) & (rows >= 0)).max(axis=1).astype(np.float64)
        return hits


def _too_easy(asked: Places, there: Places) -> Iterator[exclusion.Exclusion]:
    """The photo itself; and what shares its sequence or its moment, where the table tells and has more than one."""
    for column in ("image", "sequence", "time"):
        if column in there.table and there.table[column].nunique() > 1:
            yield exclusion.same_name(asked.table[column], there.table[column])


def _drawn(count: int, most: int) -> NDArray[np.int64]:
    rows = np.arange(count)
    return rows if count <= most else np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
