"""The training settings of a data set, as its record in the catalogue has them."""

from __future__ import annotations

from typing import Any

from samespot.overlap.task import preset_named
from samespot.training.options import TrainingOptions


def preset_options(name: str, **changes: Any) -> TrainingOptions:
    """The options of a preset with some of them changed."""
    return TrainingOptions(**preset_named(name).training).with_changes(**changes)
