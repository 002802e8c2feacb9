"""How much a whitening is damped: a share of the mean variance, added to that of each axis. No numpy in here."""

from __future__ import annotations

import math
from typing import Any, Literal

from samespot.errors import InputError

Kind = Literal["pca", "learned"]
Damping = float | Literal["auto"]
# Where nothing is known of the photos. From 1 to 5 many networks are well, with 20 photos as with 4,000; others want
# 0.3 or 10, which `retrieval.damping_choice` finds out (docs/whitening.md). What estimates a covariance best, by Ledoit
# and Wolf, is 100 times less: too little to find places.
AUTO = 3.0


def checked_damping(damping: Any) -> float:
    """The share itself; raises where it is none."""
    if isinstance(damping, str) and damping == "auto":
        return AUTO
    if isinstance(damping, bool | str) or not hasattr(damping, "__float__"):
        raise InputError(f"`damping` {damping!r} is unknown; give a number of at least 0, or 'auto'")
    share = float(damping)
    if not (math.isfinite(share) and share >= 0):
        raise InputError(f"`damping` {share:g} is not a finite number of at least 0")
    return share


def how_whitened(kind: Kind, damping: float) -> str:
    """In words, for names of descriptors and files: nothing for PCA, as in the paper."""
    strength = f"damping {damping:g}" if damping else ""
    if kind == "pca":
        return strength
    # the usual strength goes without saying: learning without any is rarely wanted
    return "learned" if damping == AUTO else f"learned, {strength or 'not damped'}"
