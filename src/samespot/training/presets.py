"""The paper's settings by the name of the data set, and campus's, as measured on its photos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from samespot.errors import InputError
from samespot.training.options import TrainingOptions


@dataclass(frozen=True)
class Preset:
    """Training options, and how the pairs of this data set are labelled."""

    options: TrainingOptions
    theta: float | None  # opening angle of the field of view [deg]; None: 3D labels
    radius: float | None  # how far a camera sees [m]
    within: tuple[float, float] | None  # what the binary counterpart calls positive: [m], [deg]


# The paper: SGD, rate 0.1 (graded) or 0.01 (binary), a tenth of it every 250k pairs (MSLS) or 15 epochs, batches A
# of 64 pairs, two last blocks, 480 x 640. It trains one epoch on MSLS, and does not say how many on the other two.
_BY_EPOCHS = TrainingOptions(drop_pairs=None, drop_epochs=15.0, epochs=30.0, order="refill")
PRESETS = {
    "msls": Preset(
        TrainingOptions(order="refill", panoramas=False, validate_every=1_000),
        theta=90.0,
        radius=50.0,
        within=(25.0, 40.0),
    ),
    "tb-places": Preset(_BY_EPOCHS, theta=90.0, radius=3.5, within=None),
    "7scenes": Preset(_BY_EPOCHS, theta=None, radius=None, within=None),
    "campus": Preset(
        TrainingOptions(
            backbone="vgg16",
            image_size=(224, 224),
            schedule="constant",
            steps=500,
            images_in_memory="host",
            checkpoint_every=100,
        ),
        theta=90.0,
        radius=30.0,
        within=(15.0, 40.0),
    ),
}


def preset(name: str) -> Preset:
    if name not in PRESETS:
        raise InputError(f"preset {name!r} is not known; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def preset_options(name: str, **changes: Any) -> TrainingOptions:
    """The options of a preset with some of them changed."""
    return preset(name).options.with_changes(**changes)
