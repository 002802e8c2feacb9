"""What is learned from a batch? The paper's loss, or one of those that it is compared with, by its name.

An objective says which batches it wants and turns their descriptors into a loss. There are three kinds:

| kind   | a batch holds                                   | the loss sees                               |
|--------|-------------------------------------------------|---------------------------------------------|
| pairs  | n pairs and their similarity                    | each pair for itself                        |
| batch  | n pairs and the similarity of all 2n images     | every descriptor of the batch with all others |
| tuples | n queries, a positive and N negatives for each  | each tuple for itself                       |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from samespot.training.loss import all_pairs_loss, pair_losses
from samespot.training.options import TrainingOptions
from samespot.training.strategies import strategy_named

Kind = Literal["pairs", "batch", "tuples"]
PairLoss = Callable[[Tensor, Tensor, Tensor, TrainingOptions], Tensor]
BatchLoss = Callable[[Tensor, Tensor, TrainingOptions], "BatchResult"]
TupleLoss = Callable[[Tensor, Tensor, Tensor, TrainingOptions], Tensor]


@dataclass(frozen=True)
class BatchResult:
    """Of a loss over a whole batch. Tensors, so that nothing waits for the device."""

    loss: Tensor  # ()
    zero_share: Tensor  # () share of its terms that are 0: they teach nothing


@dataclass(frozen=True)
class Objective:
    """One of the three functions is there, that of its kind.

    pairs:  (x (n, d), y (n, d), similarity (n,), options) -> (n,) losses
    batch:  (descriptors (n, d), similarity (n, n), NaN where a pair does not count, options) -> BatchResult
    tuples: (queries (n, d), positives (n, d), negatives (n, N, d), options) -> (n,) losses
    """

    name: str
    source: str  # who proposed it, to cite
    pairs: PairLoss | None = None
    batch: BatchLoss | None = None
    tuples: TupleLoss | None = None

    @property
    def kind(self) -> Kind:
        return "pairs" if self.pairs else "batch" if self.batch else "tuples"


def _contrastive(x: Tensor, y: Tensor, similarity: Tensor, options: TrainingOptions) -> Tensor:
    return pair_losses(x, y, similarity, options.margin)


def _contrastive_all(descriptors: Tensor, similarity: Tensor, options: TrainingOptions) -> BatchResult:
    result = all_pairs_loss(descriptors, similarity, options.margin, options.class_weights)
    return BatchResult(result.loss, result.zero_share)


OBJECTIVES = {
    one.name: one
    for one in (
        Objective("contrastive", "Leyva-Vallina et al. 2021", pairs=_contrastive),
        Objective("contrastive, all pairs", "samespot", batch=_contrastive_all),
    )
}


def objective_of(options: TrainingOptions) -> Objective:
    """By `options.loss`; the contrastive loss is of either kind, as its batches say."""
    name: str = options.loss
    if name == "contrastive" and strategy_named(options.batches).all_pairs:
        name = "contrastive, all pairs"
    return OBJECTIVES[name]
