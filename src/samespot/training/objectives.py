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

from samespot.training.average_precision_loss import average_precision_loss
from samespot.training.log_ratio_loss import log_ratio_loss
from samespot.training.loss import all_pairs_loss, pair_losses
from samespot.training.multi_similarity_loss import multi_similarity_loss, require_metric_learning
from samespot.training.options import TrainingOptions
from samespot.training.soft_contrastive_loss import soft_contrastive_loss
from samespot.training.strategies import strategy_named
from samespot.training.tuple_losses import sare_independent_losses, sare_joint_losses, triplet_losses
from samespot.training.whole_batch import BatchResult

_TRAINED_WITH = "trained with the loss"
Kind = Literal["pairs", "batch", "tuples"]
PairLoss = Callable[[Tensor, Tensor, Tensor, TrainingOptions], Tensor]
BatchLoss = Callable[[Tensor, Tensor, TrainingOptions], BatchResult]
TupleLoss = Callable[[Tensor, Tensor, Tensor, Tensor, TrainingOptions], Tensor]


@dataclass(frozen=True)
class Objective:
    """One of the three functions is there, that of its kind.

    pairs:  (x (n, d), y (n, d), similarity (n,), options) -> (n,) losses
    batch:  (descriptors (n, d), similarity (n, n), NaN where a pair does not count, options) -> BatchResult
    tuples: (queries (n, d), positives (n, d), negatives (n, N, d), counted (n, N), options) -> (n,) losses
    """

    name: str
    source: str  # who proposed it, to cite
    pairs: PairLoss | None = None
    batch: BatchLoss | None = None
    tuples: TupleLoss | None = None

    @property
    def kind(self) -> Kind:
        return "pairs" if self.pairs else "batch" if self.batch else "tuples"


def _margin(options: TrainingOptions) -> float:
    assert options.margin is not None, "`of_network` settles it"
    return options.margin


def _contrastive(x: Tensor, y: Tensor, similarity: Tensor, options: TrainingOptions) -> Tensor:
    return pair_losses(x, y, similarity, _margin(options))


def _contrastive_all(descriptors: Tensor, similarity: Tensor, options: TrainingOptions) -> BatchResult:
    result = all_pairs_loss(descriptors, similarity, _margin(options), options.class_weights)
    return BatchResult(result.loss, result.zero_share)


def _average_precision(descriptors: Tensor, similarity: Tensor, options: TrainingOptions) -> BatchResult:
    return average_precision_loss(descriptors, similarity, options.ap_bins)


def _soft_contrastive(descriptors: Tensor, similarity: Tensor, options: TrainingOptions) -> BatchResult:
    return soft_contrastive_loss(descriptors, similarity)


def _log_ratio(descriptors: Tensor, similarity: Tensor, options: TrainingOptions) -> BatchResult:
    return log_ratio_loss(descriptors, similarity)


def _multi_similarity(descriptors: Tensor, similarity: Tensor, options: TrainingOptions) -> BatchResult:
    return multi_similarity_loss(descriptors, similarity)


def _triplet(q: Tensor, p: Tensor, negatives: Tensor, counted: Tensor, options: TrainingOptions) -> Tensor:
    return triplet_losses(q, p, negatives, counted, options.triplet_margin)


def _sare_ind(q: Tensor, p: Tensor, negatives: Tensor, counted: Tensor, options: TrainingOptions) -> Tensor:
    return sare_independent_losses(q, p, negatives, counted)


def _sare_joint(q: Tensor, p: Tensor, negatives: Tensor, counted: Tensor, options: TrainingOptions) -> Tensor:
    return sare_joint_losses(q, p, negatives, counted)


OBJECTIVES = {
    one.name: one
    for one in (
        Objective("contrastive", "Leyva-Vallina et al. 2021", pairs=_contrastive),
        Objective("contrastive, all pairs", "samespot", batch=_contrastive_all),
        Objective("ap", "Revaud et al. 2019", batch=_average_precision),
        Objective("soft-contrastive", "Thoma et al. 2020", batch=_soft_contrastive),
        Objective("log-ratio", "Kim et al. 2019", batch=_log_ratio),
        Objective("multi-similarity", "Wang et al. 2019", batch=_multi_similarity),
        Objective("triplet", "Arandjelović et al. 2016", tuples=_triplet),
        Objective("sare-ind", "Liu et al. 2019", tuples=_sare_ind),
        Objective("sare-joint", "Liu et al. 2019", tuples=_sare_joint),
    )
}


def objective_of(options: TrainingOptions) -> Objective:
    """By `options.loss`; the contrastive loss is of either kind, as its batches say."""
    name: str = options.loss
    if name == "contrastive" and strategy_named(options.batches).all_pairs:
        name = "contrastive, all pairs"
    if name == "multi-similarity":
        require_metric_learning()
    return OBJECTIVES[name]


def model_notes(notes: tuple[str, ...], options: TrainingOptions) -> tuple[str, ...]:
    """A model's notes with what its loss makes of distances: only the contrastive loss lets a pair rest where its
    overlap says. A note of an earlier training goes."""
    kept = tuple(note for note in notes if not note.startswith(_TRAINED_WITH))
    if options.loss == "contrastive":
        return kept
    note = f"{_TRAINED_WITH} {options.loss} ({OBJECTIVES[options.loss].source})"
    return (*kept, f"{note}: 1 − d/τ does not predict the overlap; use the calibrated prediction")
