"""How large is the next step? The learning rate by the number of pairs seen, so that batch size does not matter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from samespot.training.options import TrainingOptions


@dataclass(frozen=True)
class Schedule:
    """`schedule(pairs)` is the learning rate after so many pairs."""

    kind: str
    first_rate: float
    total_pairs: int
    drop_pairs: int | None
    drop_factor: float
    warmup_pairs: int = 0

    def __call__(self, pairs: int) -> float:
        rate = self.first_rate
        if self.kind == "step" and self.drop_pairs is not None:
            rate *= self.drop_factor ** (pairs // self.drop_pairs)
        elif self.kind == "cosine":
            rate *= 0.5 * (1.0 + math.cos(math.pi * min(pairs / self.total_pairs, 1.0)))
        if pairs < self.warmup_pairs:
            rate *= (pairs + 1) / (self.warmup_pairs + 1)
        return rate


def total_steps(options: TrainingOptions, query_count: int) -> int:
    """Length of the run; an epoch is every query once."""
    return options.steps or max(1, math.ceil(options.epochs * query_count / options.batch_pairs))


def schedule_of(options: TrainingOptions, query_count: int) -> Schedule:
    drop_pairs = options.drop_pairs
    if options.drop_epochs is not None:
        drop_pairs = max(1, round(options.drop_epochs * query_count))
    return Schedule(
        options.schedule,
        options.first_rate,
        total_steps(options, query_count) * options.batch_pairs,
        drop_pairs,
        options.drop_factor,
        options.warmup_pairs,
    )
