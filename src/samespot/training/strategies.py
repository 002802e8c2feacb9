"""Which kinds of pairs make up a batch? The paper's strategies A to D, binary pairs, all pairs, or your own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samespot.errors import InputError
from samespot.overlap.classes import HARD_POSITIVE, POSITIVE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ABOVE_ZERO = 2.0**-126  # the smallest normal float32


@dataclass(frozen=True)
class PairClass:
    """The pairs with low <= ψ < high."""

    name: str
    low: float
    high: float


CLASSES = {
    "pos": PairClass("positive", POSITIVE, math.inf),
    "hardpos": PairClass("hard positive", HARD_POSITIVE, math.inf),
    "softpos": PairClass("soft positive", POSITIVE, HARD_POSITIVE),
    "soft": PairClass("soft negative", _ABOVE_ZERO, POSITIVE),
    "hard": PairClass("hard negative", 0.0, _ABOVE_ZERO),
    "neg": PairClass("negative", 0.0, POSITIVE),
}
MIXTURES = {
    "A": {"pos": 1 / 2, "soft": 1 / 4, "hard": 1 / 4},
    "B": {"hardpos": 1 / 4, "softpos": 1 / 4, "soft": 1 / 4, "hard": 1 / 4},
    "C": {"pos": 1 / 3, "soft": 1 / 3, "hard": 1 / 3},
    "D": {"pos": 1 / 2, "neg": 1 / 2},
    "binary": {"pos": 1 / 2, "neg": 1 / 2},
}
HOW = (
    "choose A, B, C, D, binary, all, all:C, or fractions that sum to 1 such as pos=0.5,soft=0.25,hard=0.25 "
    f"(of {', '.join(CLASSES)})"
)


@dataclass(frozen=True)
class Strategy:
    """A mixture of pair classes. `binary`: ψ is rounded to 0 or 1. `all_pairs`: the loss sees every pair of
    the batch's images, and the mixture only says how the images are drawn."""

    name: str
    classes: tuple[PairClass, ...]
    fractions: tuple[float, ...]
    binary: bool = False
    all_pairs: bool = False

    def counts(self, pairs: int, dice: float) -> NDArray[np.int64]:
        """(classes,) number of pairs of each class. Fractions that do not divide `pairs` are rounded up or
        down by `dice` in [0, 1), so that over many batches they are met exactly."""
        import numpy as np

        ends = np.round(np.cumsum(self.fractions) * pairs, 9)
        ends[-1] = pairs
        rounded = np.floor(ends + dice).astype(np.int64)
        return np.diff(np.minimum(rounded, pairs), prepend=0)


def strategy_named(text: str) -> Strategy:
    """A strategy from its name, or from fractions such as "pos=0.5,soft=0.25,hard=0.25"."""
    name = text.strip()
    all_pairs = name == "all" or name.startswith("all:")
    if name == "all:binary":
        raise InputError(
            f"`batches` {text!r}: all pairs keep the similarity of the labels, nothing is rounded; use binary, "
            "or binary labels with all:D"
        )
    mixture = _mixture(name.partition(":")[2] or "A" if all_pairs else name, text)
    return Strategy(
        name,
        tuple(CLASSES[key] for key in mixture),
        tuple(mixture.values()),
        binary=name == "binary",
        all_pairs=all_pairs,
    )


def _mixture(name: str, text: str) -> dict[str, float]:
    if name in MIXTURES:
        return MIXTURES[name]
    mixture: dict[str, float] = {}
    for part in name.split(","):
        key, equals, share = part.partition("=")
        key = key.strip()
        if not equals or key not in CLASSES or key in mixture:
            raise InputError(f"`batches` {text!r}: {part.strip()!r} is not understood; {HOW}")
        try:
            mixture[key] = float(share)
        except ValueError:
            raise InputError(f"`batches` {text!r}: {share.strip()!r} is not a number; {HOW}") from None
    total = sum(mixture.values())
    if min(mixture.values()) < 0 or not abs(total - 1.0) < 1e-3:
        raise InputError(f"`batches` {text!r}: the fractions sum to {total:g}, not to 1; {HOW}")
    return {key: share / total for key, share in mixture.items() if share > 0}
