"""`samespot models`, `convert` and `export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.model.options import ModelOptions
from samespot.options import Options, option, split


@dataclass(frozen=True)
class ModelsOptions(Options):
    containing: str = option(
        "", "Only names that contain this.", argument=True, metavar="WORD", default="all"
    )


@command(app, ModelsOptions)
def models(typed: dict[str, Any]) -> Any:
    """List the models available by name: dims, licences, and whether their weights are on this machine."""
    from samespot.cli.models_screen import model_page, models_table
    from samespot.model.catalogue import list_models

    asked = ModelsOptions.of(typed)
    found = list_models(asked.containing)
    if not found:
        console.warn(f"no model has {asked.containing!r} in its name; `samespot models` lists all")
    exact = [one for one in found if one.name == asked.containing]
    if exact:
        model_page(exact[0])
    if len(found) > len(exact):
        models_table([one for one in found if one not in exact], all_variants=bool(asked.containing))
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
    asked = ConvertOptions.of(typed)
    from samespot.model.naming import refuse_no_weights

    refuse_no_weights(asked.file)
    from samespot.model.convert import convert as convert_file

    net = convert_file(asked.file, asked.out, backbone=asked.backbone, pool=asked.pool)
    console.out.print(net.describe_training(), markup=False, highlight=False)
    for note in net.notes:
        console.say(note)
    if net.whitening is not None:
        console.say(f"it brings a whitening to {net.whitening.rank} dims: `samespot evaluate --whiten model`")
    console.files_written([asked.out])
    return net.config()


@dataclass(frozen=True)
class ExportOptions(Options):
    out: Path = option(Path("model.onnx"), "ONNX file to write.", writes="file")


@command(app, ModelOptions, ExportOptions)
def export(typed: dict[str, Any]) -> Any:
    """Export a model to ONNX with a dynamic batch, and check it against onnxruntime."""
    of_model, ours = split(typed, ModelOptions, ExportOptions)
    named, asked = ModelOptions.of(of_model), ExportOptions.of(ours)
    from samespot.model.loading import load_model  # torch: not before what was typed makes sense
    from samespot.model.onnx_export import export_onnx

    with console.progress_bar() as progress:
        net = load_model(named.model, weights=named.weights, progress=progress)
    difference = export_onnx(net, asked.out)
    console.out.print(f"largest difference from torch: {difference:.1e}")
    console.files_written([asked.out])
    return {"onnx": str(asked.out), "largest difference": difference}
