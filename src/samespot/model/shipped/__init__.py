"""Which models come with samespot? Each is a model folder beside this file. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_MODEL = "samespot-lite"


@dataclass(frozen=True)
class Shipped:
    """A model in the wheel."""

    name: str
    backbone: str
    pool: str
    dims: int  # of its plain descriptors
    white_dims: int  # of its whitening
    image_size: tuple[int, int]
    parameters: int
    images_per_second: float | None  # through `describe` on two cores, see docs/benchmarks.md

    @property
    def folder(self) -> Path:
        return Path(__file__).parent / self.name


SHIPPED = {
    DEFAULT_MODEL: Shipped(
        DEFAULT_MODEL, "efficientnet_lite0", "multi", 1888, 256, (192, 256), 3_371_009, 175.0
    )
}
