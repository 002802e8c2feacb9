"""What `samespot convert` writes: the model folder, and the whitening that a published file brings along."""

from __future__ import annotations

from pathlib import Path

from samespot.model.convert import convert
from samespot.model.network import PlaceNet
from samespot.retrieval.whitening import Whitening

WHITENING = "whitening.safetensors"


def convert_file(
    file: Path, out: Path, *, backbone: str | None = None, pool: str | None = None
) -> tuple[PlaceNet, list[Path]]:
    """The network, and what was written: `out`, and `out/whitening.safetensors` where the file has one."""
    net, projection = convert(file, out, backbone=backbone, pool=pool)
    if projection is None:
        return net, [out]
    # by the name of the file alone, since nobody publishes which images they are
    whitening = Whitening.from_affine(projection.weight, projection.bias, f"what {file.name} was fitted on")
    return net, [out, whitening.save(out / WHITENING)]
