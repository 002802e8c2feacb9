"""From a table of places to their descriptors: files are read ahead, the network never waits, a kill costs seconds.

Under torchrun every process calls `describe` and does its share of the blocks, into one file. With `ray`, workers of a
cluster describe runs of blocks and send them back, and this process alone writes.
"""

from __future__ import annotations

import copy
import platform
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from samespot.cluster import (
    AHEAD,
    FARTHEST,
    Cluster,
    joined_where_asked,
    own_gpu,
)
from samespot.devices import (
    Processes,
    device_named,
    half_of,
    joined,
    mixed,
    one_torch_thread,
    pays_to_compile,
    precision_name,
    tuned_for,
)
from samespot.errors import InputError
from samespot.files import RESUMES
from samespot.images.listing import ImageList, Images, PathList
from samespot.images.prefetch import blocks_ahead
from samespot.images.preprocess import Normalise, at_all_sizes
from samespot.images.reading import read_image
from samespot.images.sources import BadImages, FileImages, Loaded
from samespot.memory import require_room
from samespot.model.folding import fold_batch_norms, ready
from samespot.model.network import PlaceNet
from samespot.model.onnx_trunk import NoGraphError, OnnxTrunk, trunk_for
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.descriptors import (
    STATES,
    Begun,
    Descriptors,
    DescriptorWriter,
    about,
    facts_in,
    stretches_of,
)
from samespot.retrieval.options import DescribeOptions, Dtype
from samespot.storage import AT_ONCE, StorageError, full_name, in_threads, is_address
from samespot.whitening.whitening import Whitening

SPAN = 16  # blocks that a node of a cluster describes in one go, at most: within them it reads ahead
WAITING = 32_768  # photos that may be begun beyond one that is not done, or a block for each that may
IN_FLIGHT = 2  # blocks that a GPU was given and that are not fetched yet
ON_CPU, ON_GPU, ON_LARGE_GPU = 16, 64, 256  # images at once
LARGE_GPU = 40e9  # bytes
_cuda: Any = torch.cuda  # its events carry no types
# of a block: its first row, its descriptors, and why those of them that are zero are
Write = Callable[[int, NDArray[Any], dict[int, str]], None]


def describe(
    net: PlaceNet,
    places: Places,
    out: str | Path | None = None,
    *,
    whiten: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Descriptors:
    """One descriptor per image of a table, in the folder `out`, or in memory without one.

    whiten: by the model's own whitening, to all dims that it has. options: fields of `DescribeOptions`. progress:
    given ("describing", images done, images).

    An interrupted folder resumes where it left off if model, whitening, places, precision and dtype are the same; a
    finished one is opened, and no image is read. Of photos that changed since (`retrieval.descriptors`), the rows are
    described again. On a CPU the result is bit-identical whether it was interrupted or not: with `precision="auto"`
    and `runtime="auto"` a folder keeps what it was started with. With `on_bad_image="skip"`, the row of an image that
    cannot be read is zero, and `meta["bad"]` says why.
    """
    asked = DescribeOptions.of(options)
    if not len(places):
        raise InputError(f"{places.root}: no images in the table, so there is nothing to describe")
    try:
        with joined_where_asked(asked.ray, progress) as cluster:
            return _described(net, places, out, whiten, asked, cluster, progress)
    except StorageError as error:
        raise StorageError(str(error) if out is None else f"{error}; {RESUMES}") from None


def _described(
    net: PlaceNet,
    places: Places,
    out: str | Path | None,
    whiten: bool,
    asked: DescribeOptions,
    cluster: Cluster | None,
    progress: Progress | None,
) -> Descriptors:
    precision: str = asked.precision
    there = {} if out is None else facts_in(out)
    if precision == "auto":
        precision = there.get("precision", precision)
    on = on_device(asked, precision) if cluster is None else on_nodes(cluster, asked, precision)
    where = torch.device(on.device)
    if asked.compile and where.type != "cuda":
        raise InputError(
            "`compile` needs a GPU; leave it out, and the processor runs the network as it is fastest"
        )
    whitening = _own_whitening(net) if whiten else None
    facts = _facts(net, places, on.precision, asked.dtype, whitening)
    size = min(asked.batch_size or on.batch_size, len(places))
    with joined(where) as processes:
        chosen, trunk = _runtime(net, facts, where, asked.runtime, there, processes)
        facts |= chosen
        store: _Store = (
            _InMemory(facts, processes) if out is None else DescriptorWriter(out, facts, processes.rank)
        )
        begun = processes.together(lambda: store.begin(places) if processes.rank == 0 else Begun())[0]
        _refuse_bad(begun.bad, out, asked.on_bad_image)
        if not begun.finished:
            blocks = blocks_left(len(places), size, begun.done, begun.gone)
            mine = blocks[processes.rank :: processes.count]
            tell = _teller(progress, len(places), blocks, processes, begun.changed)
            if trunk is None and facts.get("runtime") == "onnxruntime":  # as it was begun
                begun_so = f"{out}: was begun with onnxruntime"
                _refuse_onnxruntime(where, facts["precision"], begun_so)
                trunk = _trunks(net, processes, facts["precision"], None, begun_so)[0]
            filling = Filling(net, asked, on.device, facts["precision"], size, trunk, whitening)

            def fill() -> dict[int, str]:
                store.open()
                try:
                    if cluster is not None:
                        return _fill_on_nodes(cluster, filling, places, blocks, store.write, tell)
                    network = filling.network(sum(stop - start for start, stop in mine))
                    return filling.fill(network, ImageList([places]), mine, store.write, tell)
                finally:
                    store.close()

            found_bad = processes.together(fill)
            # what is still known of rows that were not done again, and what was found just now
            old = {row: why for row, why in begun.bad.items() if not any(a <= row < b for a, b in blocks)}
            bad = {row: why for part in (old, *found_bad) for row, why in part.items()}
            processes.together(lambda: store.finish(bad))
    return store.result()


@dataclass(frozen=True)
class OnDevice:
    """Where a network runs, and what suits it there."""

    device: str
    precision: str
    batch_size: int


def on_device(asked: DescribeOptions, precision: str) -> OnDevice:
    where = device_named(asked.device, asked.decode)
    return OnDevice(str(where), precision_name(precision, where), default_batch_size(where))


def on_nodes(cluster: Cluster, asked: DescribeOptions, precision: str) -> OnDevice:
    """The same as a node of the cluster sees it: GPUs where it has any."""
    gpu = asked.device.startswith("cuda") or (asked.device == "auto" and cluster.gpus > 0)
    if gpu and not cluster.gpus:
        raise InputError(f"`device={asked.device}`: no node of the cluster has a GPU; use `device=cpu`")
    there = asked.with_changes(device="cuda" if gpu else "cpu", ray=None)
    ((_, on),) = cluster.through(_Asking, (precision,), [there], gpu=gpu)
    return on  # type: ignore[no-any-return]


class _Asking:
    """On a node: what suits the device there."""

    def __init__(self, precision: str) -> None:
        self._precision = precision

    def __call__(self, asked: DescribeOptions) -> OnDevice:
        on = on_device(asked.with_changes(device=device_of_worker(asked.device)), self._precision)
        return replace(on, device=asked.device)


def device_of_worker(device: str) -> str:
    """On a node: the GPU that a worker was given, where the work is for GPUs."""
    return f"cuda:{own_gpu()}" if device.startswith("cuda") else device


@dataclass(frozen=True, eq=False)
class Filling:
    """All that is needed to describe runs of rows, here or on a node of a cluster."""

    net: PlaceNet
    asked: DescribeOptions
    device: str
    precision: str
    size: int  # images at once
    trunk: OnnxTrunk | None
    whitening: Whitening | None

    def network(self, images: int) -> Describer:
        """Ready for so many images."""
        device = torch.device(self.device)
        # whitened from full precision; the store rounds
        dtype: Dtype = self.asked.dtype if self.whitening is None else "float32"
        size = self.net.preprocessing.size
        compiled = self.trunk is None and pays_to_compile(self.asked.compile, device, images, size)
        return Describer(self.net, device, self.precision, dtype, self.size, self.trunk, compiled)

    def fill(
        self,
        network: Describer,
        images: Images,
        blocks: list[tuple[int, int]],
        write: Write,
        tell: Callable[[int], None],
    ) -> dict[int, str]:
        """Describe these blocks; the images that could not be read are returned."""
        device, asked, bad = network.device, self.asked, BadImages(self.asked.on_bad_image)
        files = FileImages(
            images, self.net.preprocessing, device, workers=asked.workers, decode=asked.decode, bad=bad
        )
        ahead, on_the_way = IN_FLIGHT if device.type == "cuda" else 0, deque[_OnTheWay]()

        def keep(block: _OnTheWay) -> None:
            vectors, missing = self._rows(block), (~block.good).nonzero()[0]
            rows = [block.start + int(at) for at in missing]
            write(block.start, vectors, {row: bad.reasons[row] for row in rows})
            tell(len(vectors))

        try:
            with (
                tuned_for(device, threads=1) if network.in_torch else one_torch_thread(),
                blocks_ahead(files, [np.arange(*block) for block in blocks], device) as ahead_of_us,
            ):
                for read, loaded in ahead_of_us:
                    on_the_way.append(network.send(read.part.start, loaded))
                    if len(on_the_way) > ahead:
                        keep(on_the_way.popleft())
                for block in on_the_way:
                    keep(block)
        except torch.cuda.OutOfMemoryError:
            raise InputError(
                f"out of GPU memory with {network.batch_size} images at once; pass `batch_size="
                f"{max(1, network.batch_size // 2)}`"
            ) from None
        finally:
            files.close()
        return bad.reasons

    def _rows(self, block: _OnTheWay) -> NDArray[Any]:
        """Descriptors of a block as they are kept; zero where the image could not be read."""
        vectors = block.arrived()
        vectors[~block.good] = 0
        if not np.isfinite(vectors).all():
            raise InputError(
                "the network gives descriptors that are not finite numbers, so none is written; its weights are broken,"
                " or `precision=32` is needed"
            )
        return vectors if self.whitening is None else self.whitening(vectors)


def blocks_left(
    count: int, size: int, done: list[tuple[int, int]] | None = None, gone: Sequence[int] = ()
) -> list[tuple[int, int]]:
    """Blocks [start, stop) of `size` rows, less those whose rows are all done: always cut at the same places. gone:
    done rows that cannot be done again, which are cut out."""
    there = np.zeros(count, dtype=bool)
    for start, stop in done or ():
        there[start:stop] = True
    cuts = [(start, min(start + size, count)) for start in range(0, count, size)]
    left = [(start, stop) for start, stop in cuts if not there[start:stop].all()]
    again = np.ones(count, dtype=bool)
    again[list(gone)] = False
    return [(start + a, start + b) for start, stop in left for a, b in stretches_of(again[start:stop])]


# ---- on a cluster ----


@dataclass(frozen=True)
class Span:
    """A run of rows whose photos a node describes in one go."""

    start: int
    photos: tuple[str, ...]


def spans_of(
    blocks: list[tuple[int, int]], photos: Sequence[str], workers: int, longest: int = SPAN
) -> list[Span]:
    """Blocks in runs without gaps: short enough that every worker gets several, that none waits long for the last, and
    that not too many photos wait for their turn in memory."""
    widest = max((stop - start for start, stop in blocks), default=1)
    waiting = WAITING // (FARTHEST * AHEAD * workers * widest)
    most = max(1, min(longest, len(blocks) // (4 * workers), waiting))
    runs: list[list[tuple[int, int]]] = []
    for block in blocks:
        if runs and runs[-1][-1][1] == block[0] and len(runs[-1]) < most:
            runs[-1].append(block)
        else:
            runs.append([block])
    return [Span(run[0][0], tuple(photos[run[0][0] : run[-1][1]])) for run in runs]


def readers(asked: int | None, device: str, cores: int) -> int | None:
    """Threads that read photos in a worker: its share of the node's cores; beside a GPU as without a cluster."""
    return asked or (None if device.startswith("cuda") else cores)


def made_on_nodes(
    cluster: Cluster,
    worker: Callable[..., Any],
    made_with: Sequence[Any],
    photos: Sequence[Path],
    blocks: list[tuple[int, int]],
    *,
    gpu: bool,
    longest: int = SPAN,
) -> Iterator[tuple[int, tuple[int, Any, dict[int, str]]]]:
    """What the nodes of a cluster make of these blocks of photos, as it is done: the number of the span, its first row,
    what was made of it, and which of its photos are missing or broken, and why, as this machine finds them.

    `worker(*made_with, cores)` is made on a node, and given the photos of a span; it returns the last two.
    """
    names = [full_name(photo) for photo in photos]
    cluster.check(names)
    spans = spans_of(blocks, names, cluster.workers(gpu), longest)
    cores = cluster.cores_each(gpu)
    held = worker, made_with, cores, torch_threads(cores, torch.get_num_threads())
    for number, (made, bad, node) in cluster.through(_OnNode, held, spans, gpu=gpu):
        start = spans[number].start
        found = _found_here(node, [photos[start + at] for at in bad], list(bad.values()))
        yield number, (start, made, dict(zip(bad, found, strict=True)))


def torch_threads(cores: int, of_driver: int) -> int:
    """Of a worker: as many as its cores. But torch has other kernels for a single thread, which round differently (for
    filters of 1 × 1 and fewer than 16 photos), so a worker has one if the driver has one, and else at least two."""
    return 1 if of_driver == 1 else max(2, cores)


class _OnNode:
    """On a node: a worker that says where it is."""

    def __init__(
        self, worker: Callable[..., Any], made_with: Sequence[Any], cores: int, threads: int
    ) -> None:
        torch.set_num_threads(threads)
        try:
            self._work = worker(*made_with, cores)
        except InputError as error:  # a package that only this machine has, for example
            raise InputError(f"node {platform.node()}: {error}") from None

    def __call__(self, span: Span) -> tuple[Any, dict[int, str], str]:
        try:
            return *self._work(span.photos), platform.node()
        except StorageError as error:
            raise InputError(f"node {platform.node()}: {error}; {RESUMES}") from None


def _found_here(node: str, photos: Sequence[Path], reasons: Sequence[str]) -> list[str]:
    """What this machine finds wrong with photos that a node calls missing or broken. Raise where it can read one: the
    node may have lost a folder, and then it calls all of them so."""

    def look(at: int) -> str:
        try:
            read_image(photos[at])
        except StorageError:
            raise
        except InputError as error:
            return str(error)
        raise StorageError(
            f"node {node}: {reasons[at].partition(';')[0]}, and this machine can read it; fix that node, or take it out"
            " of the cluster"
        )

    return in_threads(look, range(len(photos)), AT_ONCE if any(map(is_address, photos)) else 1)


class _NodeDescriber:
    """A worker on a node: holds the network, and describes photos."""

    def __init__(self, filling: Filling, images: int, cores: int) -> None:
        workers = readers(filling.asked.workers, filling.device, cores)
        asked = filling.asked.with_changes(workers=workers, on_bad_image="skip")  # who asks will look again
        self._filling = replace(filling, asked=asked, device=device_of_worker(filling.device))
        self._network = self._filling.network(images)

    def __call__(self, photos: Sequence[str]) -> tuple[NDArray[Any], dict[int, str]]:
        rows, blocks = list[NDArray[Any]](), blocks_left(len(photos), self._filling.size)

        def keep(start: int, vectors: NDArray[Any], bad: dict[int, str]) -> None:
            rows.append(np.array(vectors))

        bad = self._filling.fill(self._network, PathList(photos), blocks, keep, lambda _: None)
        return np.concatenate(rows), bad


def _fill_on_nodes(
    cluster: Cluster,
    filling: Filling,
    places: Places,
    blocks: list[tuple[int, int]],
    write: Write,
    tell: Callable[[int], None],
) -> dict[int, str]:
    """Have these blocks described by the nodes of a cluster; the images that could not be read are returned."""
    made_with, gpu = (filling, len(places)), filling.device.startswith("cuda")
    found = BadImages(filling.asked.on_bad_image)
    made = made_on_nodes(cluster, _NodeDescriber, made_with, places.images, blocks, gpu=gpu)
    for _, (start, vectors, bad) in made:
        here = {start + at: why for at, why in bad.items()}
        for row, why in here.items():
            found.add(row, InputError(why))
        write(start, vectors, here)
        tell(len(vectors))
    return found.reasons


# ---- the network ----


class Describer:
    """A network as it is fastest without learning: batch norms folded, channels last, half precision.

    A copy: the network it is made from stays as it is. trunk: its stages in onnxruntime, if they are to run there.
    compiled: by torch, for each number of images it is given.
    """

    def __init__(
        self,
        net: PlaceNet,
        device: torch.device,
        precision: str,
        dtype: Dtype = "float32",
        batch_size: int = 16,
        trunk: OnnxTrunk | None = None,
        compiled: bool = False,
    ) -> None:
        self.device, self.batch_size, self.in_torch = device, batch_size, trunk is None
        self.half = half_of(precision)
        self.dtype = torch.float16 if dtype == "float16" else torch.float32
        self._features: Callable[[Tensor], Tensor] = trunk or _torch_trunk(net, device, self.half)
        self._pool = copy.deepcopy(net.pool).eval().requires_grad_(False).to(device)
        self._preprocessing = net.preprocessing
        self._described = torch.compile(self._at_size, dynamic=False) if compiled else self._at_size

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """uint8 RGB images (n, 3, h, w) of the network's size, on the device -> descriptors (n, d) there."""
        return at_all_sizes(self._described, self._preprocessing, images).to(self.dtype)

    def _at_size(self, images: Tensor) -> Tensor:
        with mixed(self.device, self.half):
            pooled: Tensor = self._pool(self._features(images))
        return functional.normalize(pooled.float(), dim=1)

    def send(self, start: int, loaded: Loaded) -> _OnTheWay:
        """Have a block described. A GPU is only told to; its descriptors arrive in host memory later."""
        images, count = loaded.values, len(loaded.values)
        if self.device.type != "cuda":
            return _OnTheWay(start, loaded.good, self(images).cpu())
        if count < self.batch_size:  # every block has the same shape: cuDNN tunes itself once
            images = torch.cat([images, images.new_zeros((self.batch_size - count, *images.shape[1:]))])
        made = self(images)[:count]
        host = torch.empty(made.shape, dtype=made.dtype, pin_memory=True)
        host.copy_(made, non_blocking=True)
        event = _cuda.Event(blocking=True)  # sleeps while it waits: the cores are for decoding
        event.record(torch.cuda.current_stream(self.device))
        return _OnTheWay(start, loaded.good, host, event)


def _torch_trunk(net: PlaceNet, device: torch.device, half: torch.dtype | None) -> Callable[[Tensor], Tensor]:
    # folded on the CPU, in full precision: TF32 would blur the check that folding changes nothing
    stages = copy.deepcopy(nn.Sequential(*net.stages.values())).cpu()
    trunk, normalise = ready(fold_batch_norms(stages), device, half), Normalise(net.preprocessing, device)

    def features(images: Tensor) -> Tensor:
        made: Tensor = trunk(normalise(images))
        return made

    return features


@dataclass(frozen=True)
class _OnTheWay:
    """Descriptors of a block of rows from `start` on, as soon as the event says so."""

    start: int
    good: NDArray[np.bool_]
    values: Tensor
    event: Any = None

    def arrived(self) -> NDArray[Any]:
        if self.event is not None:
            self.event.synchronize()
        vectors: NDArray[Any] = self.values.numpy()
        return vectors


# ---- what is asked for ----


def describer_for(
    net: PlaceNet, device: torch.device, precision: str = "auto", images: int | None = None
) -> Describer:
    """The network as `describe` would run it for that many images; None: as many as it takes.

    precision: as in `DescribeOptions`. On a processor it runs in onnxruntime where that pays.
    """
    named = precision_name(precision, device)
    trunk = trunk_where_it_pays(net, device, named, images)
    return Describer(net, device, named, batch_size=default_batch_size(device), trunk=trunk)


def trunk_where_it_pays(
    net: PlaceNet, device: torch.device, precision: str, images: int | None
) -> OnnxTrunk | None:
    """The network's stages in onnxruntime, for so many images; None where torch runs them."""
    return _runtime(net, {"precision": precision, "images": images}, device, "auto", {}, Processes())[1]


def default_batch_size(device: torch.device) -> int:
    if device.type != "cuda":
        return ON_CPU
    return ON_LARGE_GPU if _cuda.get_device_properties(device).total_memory >= LARGE_GPU else ON_GPU


def _own_whitening(net: PlaceNet) -> Whitening:
    if net.whitening is None:
        raise InputError(
            "`whiten`: this model has no whitening of its own; whiten its descriptors afterwards"
        )
    return net.whitening


def _facts(
    net: PlaceNet, places: Places, precision: str, dtype: str, whitening: Whitening | None
) -> dict[str, Any]:
    """What the descriptors depend on, and what turns their distances into overlaps: whitened, nothing does."""
    facts = {
        "model": net.digest(),
        "backbone": net.backbone,
        "pool": net.pool_name,
        "preprocessing": net.preprocessing.to_dict(),
        "margin": net.margin,
        "places": places.digest(),
        "images": len(places),
        "dims": net.descriptor_size,
        "dtype": dtype,
        "precision": precision,
    }
    if whitening is None:
        return facts
    return {**facts, "margin": None, "dims": whitening.rank, "whitening": whitening.to_dict()}


def _runtime(
    net: PlaceNet,
    facts: dict[str, Any],
    device: torch.device,
    asked: str,
    there: dict[str, Any],
    processes: Processes,
) -> tuple[dict[str, str], OnnxTrunk | None]:
    """What runs the network, and why not onnxruntime; with the trunk, if it had to be made to know.

    A folder is continued with what it was begun with (`there`).
    """
    precision = facts["precision"]
    if asked == "onnxruntime":
        _refuse_onnxruntime(device, precision, "`runtime=onnxruntime`")
    if precision == "int8" and not there:
        _refuse_onnxruntime(device, precision, "`precision=int8` needs onnxruntime")
        if asked == "torch":
            raise InputError("`precision=int8` needs onnxruntime; leave out `runtime=torch`")
        asked = "onnxruntime"
    if there and asked in ("auto", there.get("runtime", "torch")):
        return {key: there[key] for key in ("runtime", "runtime_note") if key in there}, None
    possible = device.type == "cpu" and precision != "bf16"
    if there or asked == "torch" or not possible:
        return {"runtime": "torch" if asked == "auto" else asked, "runtime_note": ""}, None
    if asked == "onnxruntime":
        trunk, fault = _trunks(net, processes, precision, None, f"`runtime={asked}`, `precision={precision}`")
    else:
        trunk, fault = _trunks(net, processes, precision, facts["images"])
    return {"runtime": "torch" if trunk is None else "onnxruntime", "runtime_note": fault}, trunk


def _trunks(
    net: PlaceNet, processes: Processes, precision: str, images: int | None, needed_by: str | None = None
) -> tuple[OnnxTrunk | None, str]:
    """The trunk in onnxruntime, in every process or in none, and why not."""
    trunk, mine = None, ""
    try:
        trunk = trunk_for(net, images, precision)
    except NoGraphError as error:
        mine = str(error)
    fault = next((fault for fault in processes.gathered(mine) if fault), "")
    if fault and needed_by is not None:
        raise InputError(f"{needed_by}, and {fault}")
    return (None if fault else trunk), fault


def _refuse_onnxruntime(device: torch.device, precision: str, what: str) -> None:
    if device.type != "cpu":
        raise InputError(f"{what}, which runs on the processor here; pass `device=cpu`")
    if precision == "bf16":
        raise InputError(f"{what}, which does not compute in bf16 here; pass `precision=32`")


def _refuse_bad(bad: dict[int, str], out: str | Path | None, on_bad_image: str) -> None:
    if bad and on_bad_image == "fail":
        assert out is not None
        fixed = "it is read again" if (Path(out) / STATES).is_file() else "delete that folder"
        raise InputError(
            f"{bad[min(bad)]} (so found when {out} was filled: {fixed} once the image is fixed); "
            "or pass `on_bad_image=skip`"
        )


def _teller(
    progress: Progress | None,
    count: int,
    blocks: list[tuple[int, int]],
    processes: Processes,
    changed: int = 0,
) -> Callable[[int], None]:
    """Counts rows. The first process speaks for all of them, and takes the others to be as fast. changed: photos that
    are described again."""
    what = f"describing, as {changed:,} photo{'s' * (changed > 1)} changed" if changed else "describing"
    left = sum(stop - start for start, stop in blocks)
    mine = 0

    def tell(rows: int) -> None:
        nonlocal mine
        mine += rows
        if progress is not None and processes.rank == 0:
            progress(what, count - left + min(mine * processes.count, left), count)

    return tell


# ---- where they go ----


class _Store(Protocol):
    """Takes blocks of rows in any order while it is open; they become descriptors."""

    def begin(self, places: Places) -> Begun: ...

    def open(self) -> None: ...

    def write(self, start: int, vectors: NDArray[Any], bad: dict[int, str]) -> None: ...

    def close(self) -> None: ...

    def finish(self, bad: dict[int, str]) -> None: ...

    def result(self) -> Descriptors: ...


class _InMemory:
    """Descriptors that are kept in memory; in the end every process has all of them."""

    def __init__(self, facts: dict[str, Any], processes: Processes) -> None:
        self.facts, self.processes = facts, processes
        self.bad: dict[int, str] = {}
        shape, dtype = (int(facts["images"]), int(facts["dims"])), np.dtype(facts["dtype"])
        size = shape[0] * shape[1] * dtype.itemsize
        require_room(size, torch.device("cpu"), "all descriptors in memory", "give a folder for them")
        self.vectors = np.zeros(shape, dtype)

    def begin(self, places: Places) -> Begun:
        return Begun()

    def open(self) -> None: ...

    def write(self, start: int, vectors: NDArray[Any], bad: dict[int, str]) -> None:
        self.vectors[start : start + len(vectors)] = vectors

    def close(self) -> None: ...

    def finish(self, bad: dict[int, str]) -> None:
        self.bad = bad
        self.processes.add_up(self.vectors)

    def result(self) -> Descriptors:
        reasons = {str(row): self.bad[row] for row in sorted(self.bad)}
        return Descriptors(None, self.vectors, {**self.facts, **about(), "bad": reasons})
