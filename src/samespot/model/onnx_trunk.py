"""A network's stages in onnxruntime: on a processor faster than in torch, twice so for networks of thin convolutions.

Exporting takes seconds, so it pays from some hundreds of images on. The graph is kept, in `graphs` of samespot's cache,
and used from then on whatever the number of images. Normalisation is inside; pooling stays in torch.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import warnings
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from samespot.files import locked, write_whole
from samespot.model.folding import fold_batch_norms
from samespot.model.int8 import generated_pictures, quantised
from samespot.model.network import PlaceNet
from samespot.model.onnx_export import TOLERANCE, with_free_batch, write_graph
from samespot.model.published.download import cache_folder

FORMAT = 1  # of the graphs; part of their names
WORTH = 500  # images from which on an export pays: 4 s against 8 ms an image, EfficientNet-Lite0 on two cores
ALIKE = 0.98  # least mean cosine of descriptors in int8 and in full precision
KEPT = 16  # graphs in the cache; those used longest ago go
NEEDS = ("onnx", "onnxruntime", "onnxscript")


class NoGraphError(Exception):
    """Why a network does not run in onnxruntime."""


class OnnxTrunk:
    """uint8 RGB images (n, 3, h, w) of the network's size -> the map that is pooled, float32, on the processor."""

    def __init__(self, graph: bytes, threads: int | None = None) -> None:
        import onnxruntime

        self._graph, self._threads = graph, threads
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or torch.get_num_threads()
        # between two batches the cores are for decoding
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3  # errors
        self._session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def __reduce__(self) -> tuple[Any, ...]:
        """To be sent to another process, which makes a session of its own."""
        return OnnxTrunk, (self._graph, self._threads)

    def __call__(self, images: Tensor) -> Tensor:
        (features,) = self._session.run(None, {"images": images.contiguous().numpy()})
        return torch.from_numpy(features)


def trunk_for(net: PlaceNet, images: int | None = None, precision: str = "32") -> OnnxTrunk:
    """The network's trunk for that many images; None: as many as it takes. precision: 32 or int8.

    Raises `NoGraphError`, with the reason, where torch is to be used.
    """
    absent = [name for name in NEEDS if find_spec(name) is None]
    if absent:
        raise NoGraphError(f"{', '.join(absent)} not installed")
    if net.preprocessing.also:
        raise NoGraphError("a network that describes photos at several sizes runs in torch")
    path = graph_path(net, precision)
    make = _in_integers if precision == "int8" else _exported
    try:
        kept = _kept(path)
        if kept is not None:
            return OnnxTrunk(kept)
        if images is not None and images < WORTH:
            raise NoGraphError(f"under {WORTH:,} images an export to onnxruntime does not pay")
        try:
            with locked(path.parent, "graphs", wait=True):
                graph = _kept(path)  # another process may have written it meanwhile
                if graph is None:
                    graph = make(net)
                    write_whole(path, hashlib.sha256(graph).digest() + graph)
                    _drop_oldest(path.parent)
        except OSError:  # nothing can be written there: for this time only
            graph = make(net)
        return OnnxTrunk(graph)
    except NoGraphError:
        raise
    except Exception as error:  # exporter and runtime raise errors of any kind; torch can do it, too
        raise NoGraphError(f"the network does not run in onnxruntime: {_first_line(error)}") from error


def graph_path(net: PlaceNet, precision: str = "32") -> Path:
    """Where the network's graph is kept: it depends on weights, structure and preprocessing."""
    about = [net.digest(), net.timm_name, net.pool_name, net.preprocessing.to_dict(), FORMAT]
    name = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]
    return cache_folder() / "graphs" / f"{name}{'-int8' if precision == 'int8' else ''}.onnx"


def _kept(path: Path) -> bytes | None:
    """The graph in a file, whose first 32 bytes are its digest; a file that is not whole is none."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(memoryview(content)[32:]).digest() != content[:32]:
        return None
    with suppress(OSError):
        os.utime(path)  # used just now
    return content[32:]


def _drop_oldest(folder: Path) -> None:
    graphs = sorted(folder.glob("*.onnx"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in graphs[KEPT:]:
        path.unlink(missing_ok=True)


# ---- export ----


class _FromBytes(nn.Module):
    """uint8 images -> the map that is pooled."""

    def __init__(self, net: PlaceNet) -> None:
        super().__init__()
        self.stages = fold_batch_norms(copy.deepcopy(nn.Sequential(*net.stages.values())).cpu())
        self.preprocessing = net.preprocessing

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.stages(self.preprocessing.normalise(images.float()).contiguous())
        return features


def _exported(net: PlaceNet) -> bytes:
    """The graph, held against the network itself on noise."""
    model = _FromBytes(net).eval()
    pool = copy.deepcopy(net.pool).cpu().eval()
    shape = (3, 3, *net.preprocessing.size)
    noise = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # what the exporter says to its own authors
        # five times faster than with a number that is free from the start, and the same graph for a convolutional trunk
        graph = with_free_batch(write_graph(model, noise[:2], "features", free_batch=False))
        if not _fault(graph, model, pool, noise):
            return graph
        graph = write_graph(model, noise[:2], "features")
    fault = _fault(graph, model, pool, noise)
    if fault:
        raise NoGraphError(fault)
    return graph


def _in_integers(net: PlaceNet) -> bytes:
    """The graph in int8, held against the one in full precision on pictures that were not used to make it."""
    plain = _exported(net)
    graph = quantised(plain, net.preprocessing.size)
    pictures = torch.from_numpy(generated_pictures(8, net.preprocessing.size, seed=2))
    pool = copy.deepcopy(net.pool).cpu().eval()
    with torch.inference_mode():
        one, other = (functional.normalize(pool(OnnxTrunk(g)(pictures)), dim=1) for g in (plain, graph))
        alike = float((one * other).sum(dim=1).mean())
    if not alike >= ALIKE:
        raise NoGraphError(
            f"int8 loses too much with this network: its descriptors have a cosine of {alike:.3f}"
        )
    return graph


def _fault(graph: bytes, model: nn.Module, pool: nn.Module, images: Tensor) -> str:
    """What is wrong with a graph, seen in batches of one and three; nothing where it gives torch's descriptors."""
    try:
        trunk = OnnxTrunk(graph)
        with torch.inference_mode():
            for some in (images[:1], images):
                expected, found = (
                    functional.normalize(pool(features).float(), dim=1)
                    for features in (model(some), trunk(some))
                )
                difference = float((found - expected).abs().max())
                if found.shape != expected.shape or not difference <= TOLERANCE:
                    return f"onnxruntime differs from torch by {difference:.1e}"
    except Exception as error:  # onnxruntime's errors have no common base
        return _first_line(error)
    return ""


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
