"""Where was each photo of a sequence taken? Evidence is summed over time: a camera moves only so fast.

A hidden Markov model. At each moment the camera is at one of the candidates of that photo, or outside the map. How well
a photo fits a candidate is what the calibration says; from one moment to the next, the camera moves at most as far as
its speed allows, or enters or leaves the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAVES = 0.02  # chance to enter or leave the map from one photo to the next
LOST = 1e-4  # chance that the camera was carried faster than it can go, or that times are wrong


@dataclass(frozen=True)
class Moment:
    """One photo of a sequence: when it was taken, where it may have been, and how well it fits there.

    The candidates are different places: photos of one place are one candidate.
    """

    time: float  # [s]
    positions: Floats  # (k, 2) [m] of the candidates
    odds: Floats  # (k,) how much likelier the photo is there than not, before anything else is known


class Follower:
    """Takes photos one after the other and believes only what it has seen so far: for live use.

    speed: [m/s] that the camera never exceeds. slack: [m] that positions of one place may differ.
    """

    def __init__(self, speed: float, slack: float, outside: float) -> None:
        self.speed, self.slack, self.outside = speed, slack, outside
        self._last: Moment | None = None
        self._belief = np.zeros(0)  # at the candidates of the last photo
        self.away = outside

    def __call__(self, moment: Moment) -> Floats:
        """(k,) the chance of each candidate of this photo."""
        if self._last is None:
            before, away = np.full(len(moment.odds), 1 - self.outside), self.outside
        else:
            reached = moves(self._last, moment, self.speed, self.slack)
            before = (1 - LEAVES) * (self._belief @ reached) + LEAVES * self.away
            away = (1 - LEAVES) * self.away + LEAVES * self._belief.sum()
        after = before * moment.odds
        total = after.sum() + away
        self._last, self._belief, self.away = moment, after / total, away / total
        return self._belief


def moves(before: Moment, after: Moment, speed: float, slack: float) -> Floats:
    """(k, l) how well a camera at one candidate can have come to another: 1 where its speed allows it."""
    apart = np.linalg.norm(before.positions[:, None] - after.positions[None, :], axis=2)
    reach = slack + speed * max(after.time - before.time, 0.0)
    beyond = np.maximum(apart - reach, 0.0) / max(slack, 1e-9)
    fits: Floats = LOST + (1 - LOST) * np.exp(-(beyond**2))
    return fits


def smoothed(moments: Sequence[Moment], speed: float, slack: float, outside: float) -> list[Floats]:
    """The chance of each candidate of each photo, (k,) at each moment: later photos tell about earlier ones, too."""
    if not moments:
        return []
    follower = Follower(speed, slack, outside)
    forward, away = [], []
    for moment in moments:
        forward.append(follower(moment))
        away.append(follower.away)
    beliefs: list[Floats] = [np.zeros(0)] * len(moments)
    later, later_away = np.ones(len(moments[-1].odds)), 1.0
    for t in range(len(moments) - 1, -1, -1):
        here, outside_here = forward[t] * later, away[t] * later_away
        total = here.sum() + outside_here
        beliefs[t] = here / total
        if t == 0:
            break
        told = moments[t].odds * later
        back = moves(moments[t - 1], moments[t], speed, slack)
        later = (1 - LEAVES) * (back @ told) + LEAVES * later_away
        later_away = (1 - LEAVES) * later_away + LEAVES * told.sum()
        largest = max(later.max(initial=0.0), later_away)
        later, later_away = later / largest, later_away / largest
    return beliefs
