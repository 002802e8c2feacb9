"""Where was each photo of a sequence taken? Evidence is summed over time: a camera moves only so fast.

A hidden Markov model. At each moment the camera is at one of the places that the photo may show, or at none of them:
outside the map, or not found. What one photo says by itself is the calibration's word (`Moment.alone`). How likely a
step is, is told as a ratio: how many times as likely it makes a place as it would be without knowing the photo before.
So a single photo, or photos so long apart that anything can be reached, are believed as they are one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOSES = 0.3  # how many times as likely none of the places is after a photo at one of them
FINDS = 0.5  # how many times as likely a place is after a photo at none
MOST = 10.0  # no step makes a place more than so many times as likely: calibrations are not that exact
LOST = 1e-3  # the same of a place that cannot be reached: times may be wrong, and positions


@dataclass(frozen=True)
class Moment:
    """One photo of a sequence. Its candidates are different places: photos of one place are one candidate."""

    time: float  # [s]
    positions: Floats  # (k, 2) [m] of the candidates
    alone: Floats  # (k + 1,) the chance of each by this photo alone, and at the end of none of them


@dataclass(frozen=True)
class Steps:
    """How a camera moves: what `speed` [m/s] it never exceeds, how far [m] positions of one place may differ, which
    places (m, 2) there are, and what share of the photos are not in the map."""

    speed: float
    slack: float
    places: Floats
    outside: float

    def __call__(self, before: Moment, after: Moment) -> Floats:
        """(k + 1, l + 1) how many times as likely each candidate of a photo is made by each of the photo before."""
        reach = self.slack + self.speed * max(after.time - before.time, 0.0)
        apart = np.linalg.norm(before.positions[:, None] - after.positions[None, :], axis=2)
        inside = (1 - self.outside * LOSES) / (1 - self.outside)
        ratios = np.full((len(before.alone), len(after.alone)), FINDS)
        ratios[:-1, :-1] = np.where(
            apart <= reach, inside * self._fewer(before.positions, reach)[:, None], LOST
        )
        ratios[:-1, -1] = LOSES
        ratios[-1, -1] = (1 - FINDS * (1 - self.outside)) / self.outside
        return ratios

    def _fewer(self, positions: Floats, reach: float) -> Floats:
        """(k,) how many times as many places there are as can be reached from each position, MOST at most."""
        apart = np.linalg.norm(positions[:, None] - self.places[None, :], axis=2)
        times: Floats = len(self.places) / np.maximum((apart <= reach).sum(axis=1), 1)
        return np.minimum(times, MOST)


def distinct_places(positions: Floats, side: float) -> Floats:
    """(m, 2) one position for each square of so many metres that any of the positions (n, 2) lies in."""
    squares = np.unique(np.floor(positions / side), axis=0)
    return np.asarray((squares + 0.5) * side)


class Follower:
    """Takes photos one after the other and believes only what it has seen so far: for live use."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._last: tuple[Moment, Floats] | None = None

    def __call__(self, moment: Moment) -> Floats:
        """(k + 1,) the chance of each candidate of this photo, and of none of them."""
        belief: Floats = moment.alone
        if self._last is not None:
            before, believed = self._last
            belief = belief * (believed @ self._steps(before, moment))
        belief = belief / belief.sum()
        self._last = moment, belief
        return belief


def smoothed(moments: Sequence[Moment], steps: Steps) -> list[Floats]:
    """The same of a whole sequence: later photos tell about earlier ones, too."""
    follower = Follower(steps)
    beliefs = [follower(moment) for moment in moments]
    later = np.ones(len(beliefs[-1])) if beliefs else np.ones(1)
    for at in range(len(moments) - 2, -1, -1):
        later = steps(moments[at], moments[at + 1]) @ (moments[at + 1].alone * later)
        later = later / later.max()
        beliefs[at] = beliefs[at] * later
        beliefs[at] = beliefs[at] / beliefs[at].sum()
    return beliefs
