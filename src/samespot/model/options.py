"""How a model is named in a command. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from samespot.options import Options, option


@dataclass(frozen=True)
class ModelOptions(Options):
    model: str = option(
        ...,
        "A model or run folder, or a model by name such as megaloc or resnet50-gem; `samespot models` lists them.",
        argument=True,
        metavar="MODEL",
    )
    weights: Path | None = option(
        None, "File with the weights of a model by name.", default="from the cache, or fetched"
    )

    def __post_init__(self) -> None:
        """A name that can mean nothing is refused before torch is loaded."""
        super().__post_init__()
        from samespot.model.naming import named_model

        named_model(self.model, self.weights)
