"""`samespot models`, `convert` and `export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.options import Options, option


@dataclass(frozen=True)
class ModelsOptions(Options):
    containing: str = option(
        "", "Only names that contain this.", argument=True, metavar="WORD", default="all"
    )


@command(app, ModelsOptions)
def models(typed: dict[str, Any]) -> Any:
    """List the models available by name: dims, licence of the weights, and whether they are on this machine."""
    from samespot.model.catalogue import list_models

    asked = ModelsOptions.of(typed)
    found = list_models(asked.containing)
    if not found:
        console.warn(f"no model has {asked.containing!r} in its name; `samespot models` lists all")
    console.models_table(found)
    return [one.to_dict() for one in found]


@dataclass(frozen=True)
class ConvertOptions(Options):
    file: Path = option(
        ..., "A file of the paper's authors (.pth), or VGG16-NetVLAD (.mat, .pth.tar).", argument=True
    )
    out: Path = option(Path("model"), "Model folder to write.", writes="folder")
    backbone: str | None = option(None, "Trunk.", default="recognised from the weights")
    pool: str | None = option(None, "Pooling: gem, gap or max.", default="recognised from the weights")


@command(app, ConvertOptions)
def convert(typed: dict[str, Any]) -> Any:
    """Convert a published network into a model folder."""
    from samespot.retrieval.convert import convert_file

    asked = ConvertOptions.of(typed)
    net, written = convert_file(asked.file, asked.out, backbone=asked.backbone, pool=asked.pool)
    console.out.print(net.describe_training(), markup=False, highlight=False)
    for note in net.notes:
        console.say(note)
    console.files_written(written)
    return net.config()


@dataclass(frozen=True)
class ExportOptions(Options):
    model: str = option(..., "A model or run folder, or a network by name.", argument=True, metavar="MODEL")
    out: Path = option(Path("model.onnx"), "ONNX file to write.", writes="file")


@command(app, ExportOptions)
def export(typed: dict[str, Any]) -> Any:
    """Export a model to ONNX with a dynamic batch, and check it against onnxruntime."""
    from samespot.model.loading import load_model
    from samespot.model.onnx_export import export_onnx

    asked = ExportOptions.of(typed)
    difference = export_onnx(load_model(asked.model), asked.out)
    console.out.print(f"largest difference from torch: {difference:.1e}")
    console.files_written([asked.out])
    return {"onnx": str(asked.out), "largest difference": difference}
