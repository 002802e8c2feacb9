"""A model as one ONNX file, for programs without torch. Normalisation is inside, so nobody can get it wrong.

Input `images`: float32 (n, 3, height, width), RGB, values 0..255, already of the model's size; n is free.
Output `descriptors`: float32 (n, d), L2-normalised.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from samespot.errors import InputError
from samespot.files import whole_file
from samespot.model.network import PlaceNet

TOLERANCE = 1e-4  # largest difference of a descriptor value between torch and onnxruntime


class _FromPixels(nn.Module):
    """The network with its normalisation in front."""

    def __init__(self, net: PlaceNet) -> None:
        super().__init__()
        self.net = net
        self.preprocessing = net.preprocessing

    def forward(self, images: Tensor) -> Tensor:
        descriptors: Tensor = self.net(self.preprocessing.normalise(images))
        return descriptors


def export_onnx(net: PlaceNet, path: str | Path) -> float:
    """Write `net` to `path` and compare it with onnxruntime on noise images, in batches of one and three.

    Returns the largest difference found; a file that differs by more than 1e-4 is not kept.
    """
    _need("onnx", "onnxscript", "onnxruntime")
    path = Path(path)
    if net.preprocessing.also:
        raise InputError(
            f"{path}: a graph takes photos of one size, and this network describes them at several; export it with"
            " one, such as MODEL@224x224"
        )
    model = _FromPixels(copy.deepcopy(net)).cpu().eval()
    height, width = net.preprocessing.size
    noise = torch.rand((3, 3, height, width), generator=torch.Generator().manual_seed(0)) * 255.0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            _write(model, noise[:2], partial)
            difference = max(_difference(model, some, partial) for some in (noise[:1], noise))
            if not difference <= TOLERANCE:
                raise InputError(
                    f"{path}: onnxruntime differs from torch by {difference:.1e}; this backbone does not export"
                )
    except OSError as error:
        raise InputError(f"{path}: cannot write the ONNX file ({error.strerror or error})") from None
    return difference


def _need(*packages: str) -> None:
    from importlib.util import find_spec

    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        raise InputError(f"ONNX export needs {', '.join(absent)}; run `pip install {' '.join(absent)}`")


def _write(model: nn.Module, example: Tensor, path: Path) -> None:
    path.write_bytes(write_graph(model, example, "descriptors"))


def write_graph(model: nn.Module, example: Tensor, output: str, free_batch: bool = True) -> bytes:
    """The ONNX file of a module of `images` with one output. free_batch: for any number of images."""
    # what its optimiser leaves as it is concerns nobody
    logging.getLogger("onnxscript.optimizer").setLevel(logging.ERROR)
    program: Any = torch.onnx.export(
        model,
        (example,),
        input_names=["images"],
        output_names=[output],
        dynamic_shapes={"images": {0: torch.export.Dim("n", min=1)}} if free_batch else None,
        dynamo=True,
        verbose=False,
    )
    written: bytes = program.model_proto.SerializeToString()
    return written


def with_free_batch(graph: bytes) -> bytes:
    """A graph for a number of images, said to be for any. True only where no step inside counts them: check it."""
    import onnx

    model = onnx.load_from_string(graph)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    del model.graph.value_info[:]  # shapes in between
    written: bytes = model.SerializeToString()
    return written


def _difference(model: nn.Module, images: Tensor, path: Path) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    batch = session.get_inputs()[0].shape[0]
    if isinstance(batch, int):
        raise InputError(f"the exporter fixed the batch to {batch} images; this backbone does not export")
    with torch.inference_mode():
        expected = model(images)
    (found,) = session.run(["descriptors"], {"images": images.numpy()})
    if found.shape != tuple(expected.shape):
        return float("inf")
    return float((torch.from_numpy(found) - expected).abs().max())
