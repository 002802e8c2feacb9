"""What is learned from a batch? The losses by name: each file in this folder is one, and describes itself.

| kind   | a batch holds                                   | the loss sees                               |
|--------|-------------------------------------------------|---------------------------------------------|
| pairs  | n pairs and their similarity                    | each pair for itself                        |
| batch  | n pairs and the similarity of all 2n images     | every descriptor of the batch with all others |
| tuples | n queries, a positive and N negatives for each  | each tuple for itself                       |

A new loss is a new file here with a `Loss` in it. Options are read before torch is loaded, so a file of this folder
imports torch inside its functions.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from samespot.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.training.whole_batch import BatchResult

Kind = Literal["pairs", "batch", "tuples"]
_KINDS = ("pairs", "batch", "tuples")
_TRAINED_WITH = "trained with the loss"


@dataclass(frozen=True)
class Loss:
    """A loss and what it needs. It has the function of its kind; the contrastive loss is of two kinds.

    pairs:  (x (n, d), y (n, d), similarity (n,)) -> (n,) losses
    batch:  (descriptors (n, d), similarity (n, n), NaN where a pair does not count) -> BatchResult
    tuples: (queries (n, d), positives (n, d), negatives (n, N, d), counted (n, N)) -> (n,) losses

    Each also takes the training options that `options` names, by keyword.
    """

    name: str
    source: str  # who proposed it, to cite
    pairs: Callable[..., Tensor] | None = None
    batch: Callable[..., BatchResult] | None = None
    tuples: Callable[..., Tensor] | None = None
    # first learning rate; None: the paper's. With SGD, a first step about as long as that of the paper's loss with
    # batches A at 0.1 (measured, see docs/comparators.md)
    rate: float | None = None
    batches: str = "A"  # that it gets where no others are asked for
    options: tuple[str, ...] = ()  # that this loss uses, and not every other
    predicts_overlap: bool = False  # whether a pair comes to rest at d = τ(1−ψ)
    soft_labels: bool = False  # whether its source labels by distance alone, where a data set has positions
    needs_degrees: bool = False  # whether binary labels are graded by distance for it
    package: str | None = None  # that must be installed

    @property
    def kind(self) -> Kind:
        """What it learns from, unless batches of all pairs are asked for."""
        return "pairs" if self.pairs else "batch" if self.batch else "tuples"

    def require_package(self) -> None:
        """Raise where its package is not installed. Looks for it and does not import it."""
        if self.package is not None and find_spec(self.package) is None:
            raise InputError(
                f"`loss={self.name}` needs {self.package.replace('_', '-')}; install it with "
                "pip install 'samespot[comparators]'"
            )

    def notes(self, notes: tuple[str, ...]) -> tuple[str, ...]:
        """A model's notes with what this loss makes of distances. A note of an earlier training goes."""
        kept = tuple(note for note in notes if not note.startswith(_TRAINED_WITH))
        if self.predicts_overlap:
            return kept
        note = f"{_TRAINED_WITH} {self.name} ({self.source})"
        return (*kept, f"{note}: 1 − d/τ does not predict the overlap; use the calibrated prediction")


@cache
def losses() -> dict[str, Loss]:
    """Every loss by its name: of pairs, of batches, of tuples."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Loss)]
    return {one.name: one for one in sorted(found, key=lambda one: (_KINDS.index(one.kind), one.name))}


def loss_names(kind: Kind | None = None) -> list[str]:
    return [one.name for one in losses().values() if kind in (None, one.kind)]
