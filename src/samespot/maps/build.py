"""`build_map`: from photos to a map on disk. Again, it describes what is new or changed, and drops what is gone.

    sources ─► contents (one table, a key a file) ─► segments (what has no key there yet is described) ─► a generation

Nothing but a segment's photos is held in memory. A kill costs the photos of one segment, and never the map. With
`ray` there are more of both: those that nodes are at, and those that wait for their turn.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

import samespot
from samespot.cluster import Cluster, in_order, joined_cluster
from samespot.devices import device_named, one_torch_thread, precision_name
from samespot.errors import InputError
from samespot.files import RESUMES
from samespot.maps import folder as files
from samespot.maps import own_model
from samespot.maps.asking import calibrate
from samespot.maps.contents import (
    Contents,
    Part,
    carried,
    joined_parts,
    joined_to,
    known_source,
    next_id,
    read_part,
    said_left_out,
    take_out,
    with_part,
)
from samespot.maps.engines.engine import asked_for, drop_unneeded, is_sound, make_engine
from samespot.maps.folder import FORMAT, ROW, Generation
from samespot.maps.geometry import Kind, kind_for, write_points
from samespot.maps.looking import Look, Looking, Vectors, finite, looks, query_describer
from samespot.maps.options import EngineOptions, KeptOptions, MapOptions
from samespot.maps.order import Order, ordered
from samespot.maps.segments import KEY, Described, Segment, bytes_by_array, read_array, write_segment
from samespot.maps.whitened import Asked, whitening_for, write_vectors
from samespot.matching.keypoints import Keypoints
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.model.onnx_trunk import OnnxTrunk
from samespot.model.shipped import DEFAULT_MODEL
from samespot.options import names
from samespot.places.geodesy import to_degrees
from samespot.places.options import ReadOptions
from samespot.places.photos import UNREADABLE
from samespot.places.table import Places
from samespot.progress import Progress, silent
from samespot.retrieval.describe import (
    Describer,
    OnDevice,
    blocks_left,
    describer_for,
    device_of_worker,
    made_on_nodes,
    on_nodes,
    readers,
    trunk_where_it_pays,
)
from samespot.retrieval.options import DescribeOptions
from samespot.storage import MissingPhotoError, StorageError, shown
from samespot.whitening.whitening import Whitening

if TYPE_CHECKING:
    from samespot.maps.map import Map
    from samespot.matching.verification import Verifier

SEGMENT = 256  # photos of a segment
SETTLE_SECONDS = 20.0  # how much work a kill may cost where photos take long
SPARSE = SEGMENT // 2  # segments with fewer photos in use may be put together
FEW_SPARSE = 8  # so many of them are not worth it
STILL_TRUE = 0.05  # share of the photos that may change before a map calibrates itself again


@dataclass(frozen=True, eq=False)
class Built:
    """A map after `update_map`, and what that did."""

    generation: Generation
    described: int  # photos that were new or changed
    gone: int  # photos that are no longer in the map
    changed: bool  # whether there is a new generation
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        done = {
            "described": self.described,
            "gone": self.gone,
            "changed": self.changed,
            "seconds": self.seconds,
        }
        return {"map": str(self.generation.folder), **done, **self.generation.meta}


def build_map(
    places: Any,
    model: Any = None,
    out: str | Path = "map",
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Map:
    """Make a map of photos in the folder `out`, or bring it up to date; returns the opened map.

    places: a table, or whatever `open_places` opens. model: as of `load_model`; by default the map's own, or
    samespot-lite for a new map. options: fields of `MapOptions` and `ContentOptions`, and whatever else `open_places`
    takes.
    """
    from samespot.maps.map import open_map

    reading = {name: options.pop(name) for name in (*names(ReadOptions), "onto", "frame") if name in options}
    update_map(places, out, model=model, reading=reading, progress=progress, **options)
    return open_map(out)


def update_map(
    places: Any,
    out: str | Path = "map",
    *,
    model: Any = None,
    reading: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Built:
    """As `build_map`, and tells what was done. places: None for nothing but `add`, `remove` and `engine`.

    reading: for `open_places`.
    """
    return carry_out(ordered(places, out, model=model, reading=reading, **options), progress)


def carry_out(order: Order, progress: Progress | None = None) -> Built:
    """Make the map that was ordered, or bring it up to date."""
    begun, folder, tell = time.monotonic(), order.folder, progress or silent
    with files.writing(folder), ExitStack() as stack:
        old = files.open_generation(folder) if (folder / files.META).is_file() else None
        work = _Work.begin(folder, old, order.kept, order.model, tell, stack)
        return work.finish(_contents(work, order), begun)


def _contents(work: _Work, order: Order) -> Contents:
    """The photos of the map as it is to be."""
    asked = order.content
    parts = work.carried(asked.need_heading)
    for opened in order.given:
        source = opened.among(parts, work.folder)
        told = opened.as_source(0) if source is None else opened.as_source(source.id, source.removed)
        parts = with_part(parts, read_part(told, opened.places, work.recipe, asked.need_heading))
    for opened in order.added:
        source = known_source(opened.given, parts)
        told = opened.as_source(next_id(parts) if source is None else source.id)
        part = read_part(told, opened.places, work.recipe, asked.need_heading)
        if source is not None:
            before = next(one for one in parts if one.source.id == source.id)
            part = joined_to(before, part, opened.names, work.recipe)
        parts = with_part(parts, part)
    for pattern in asked.remove:
        parts = take_out(parts, pattern)
    return joined_parts(parts)


@dataclass(frozen=True, eq=False)
class _Work:
    """All that the making of a map needs; made while its folder is locked."""

    folder: Path
    old: Generation | None
    settings: MapOptions
    engine: EngineOptions
    precision: str  # "32", "bf16" or "int8"
    net: PlaceNet
    model: dict[str, Any]  # facts about it
    verifier: Verifier | None  # None: no local features are kept
    tell: Progress

    @classmethod
    def begin(
        cls,
        folder: Path,
        old: Generation | None,
        typed: Mapping[str, Any],
        model: Any,
        tell: Progress,
        stack: ExitStack,
    ) -> _Work:
        before = (
            {} if old is None else {k: v for k, v in old.meta["options"].items() if k in names(KeptOptions)}
        )
        if model is not None:
            before.pop("weights", None)  # they are of the model of before
        settings = MapOptions(**{**before, **typed, "model": None})
        engine = asked_for(typed, None if old is None else old.meta)
        precision = _precision(settings, old, tell, stack)
        if model is None and old is not None:
            net, facts = own_model.load_own(folder, old.meta["model"], tell), old.meta["model"]
        else:
            named = DEFAULT_MODEL if model is None else model
            net = load_model(named, weights=settings.weights, progress=tell)
            facts = own_model.facts_of(net, named, settings.weights)
        return cls(folder, old, settings, engine, precision, net, facts, _verifier(settings), tell)

    @property
    def device(self) -> torch.device:
        return device_named(_own_device(self.settings))

    @property
    def verifier_facts(self) -> dict[str, Any] | None:
        return _facts_of(self.verifier)

    @property
    def recipe(self) -> str:
        """Digest of all that what is kept of a photo depends on."""
        told = [
            FORMAT,
            self.model["digest"],
            self.model["preprocessing"],
            self.verifier_facts,
            self.settings.thumbnail,
        ]
        if self.precision != "32":  # the digest of maps from before it was told stays as it is
            told.append(self.precision)
        return _digest(json.dumps(told, sort_keys=True))

    def carried(self, need_heading: bool) -> list[Part]:
        """The photos that the map has. Where something else is to be kept of them, they are looked at again."""
        if self.old is None:
            return []
        parts = carried(self.old)
        if self.old.meta["recipe"] == self.recipe:
            return parts
        for part in parts:
            if not Path(part.source.root).is_dir():
                raise InputError(
                    f"{self.folder}: another model, another precision or other local features are asked for, and the"
                    f" photos under {part.source.root} are not there to be described again"
                )
        return [read_part(part.source, part.places, self.recipe, need_heading) for part in parts]

    def finish(self, contents: Contents, begun: float) -> Built:
        """Describe what is not described yet, and make a generation of it all, unless nothing changed."""
        known = files.photos_there(self.folder)
        todo = np.array(
            [row for row, key in enumerate(contents.keys) if key.tobytes() not in known], dtype=np.int64
        )
        found = _describe(self, contents, todo, known) if len(todo) else {}
        contents = contents.without(found)
        if not len(contents):
            raise InputError(
                f"{self.folder}: no photo is left for the map ({said_left_out(contents.counts())})"
            )
        vectors = self._vectors_told(contents)
        state = self._state(contents, vectors)
        gone = self._gone(contents)
        if self.old is not None and self.old.meta["state"] == state and is_sound(self.old):
            return Built(self.old, 0, 0, False, time.monotonic() - begun)
        generation = self._generation(contents, known, state, _digest(vectors))
        return Built(generation, len(todo) - len(found), gone, True, time.monotonic() - begun)

    def _vectors_told(self, contents: Contents) -> str:
        """All that whitening and vectors rest on."""
        kept = {name: getattr(self.settings, name) for name in ("dims", "whiten", "within")}
        return f"{contents.digest()} {self.recipe} {kept} {self.model['name']}"

    def _state(self, contents: Contents, told: str) -> str:
        """Of all of a map. told: what its vectors rest on."""
        if self.engine.engine != "exact":
            told += f" {self.engine.to_dict()}"
        if kind := self._kind(contents)[0]:
            told += f" {kind}"
        return _digest(told)

    def _gone(self, contents: Contents) -> int:
        if self.old is None:
            return 0
        now = set(contents.places.table["image"])
        return sum(name not in now for name in self.old.places.table["image"])

    def _generation(
        self, contents: Contents, known: dict[bytes, tuple[str, int]], state: str, of: str
    ) -> Generation:
        """A new one; what rests on the same as before is not made again. of: digest of what vectors rest on."""
        _put_together(self.folder, contents, known)
        rows, segments, about = _lying(self.folder, contents, known)
        number = 1 if self.old is None else self.old.number + 1
        own_model.keep(self.net, self.model, self.folder)
        same = self.old if self.old is not None and self.old.meta.get("vectors") == of else None

        def fill(path: Path) -> Whitening | None:
            def plain(some: NDArray[np.int64]) -> NDArray[np.float16]:
                return _plain(segments, rows[some])

            self.tell("whitening", 0, len(contents))
            if same is None:
                settings = self.settings
                asked = Asked(settings.whiten, settings.dims, settings.within, self.net.whitening)
                whitening = whitening_for(asked, contents.places, plain, str(self.device.type))
            else:
                whitening = same.whitening
            # not a copy of the file, even if it would be the same: damage to it must not live on
            write_vectors(path, whitening, len(contents), plain, self.tell)
            return whitening

        def equip(here: Path) -> dict[str, Any]:
            vectors = np.load(here / files.VECTORS, mmap_mode="r", allow_pickle=False)
            return make_engine(self.engine, self.folder, here, vectors, contents.places, self.tell, same)

        def lift(here: Path) -> dict[str, Any]:
            return self._lifted(here, contents, rows, segments)

        written, whitening, geometry, engine = files.write_generation(
            self.folder,
            number,
            contents.places.table,
            rows,
            about,
            self.model["digest"],
            contents.left_out,
            fill,
            lift,
            equip,
        )
        width = int(self.net.descriptor_size)
        dims = width if whitening is None else whitening.rank
        meta = {
            **_facts(contents),
            "format": FORMAT,
            "samespot": samespot.__version__,
            "generation": number,
            "model": self.model,
            "precision": self.precision,
            "dims": dims,
            "plain_dims": width,
            "whitening": None if whitening is None else whitening.to_dict(),
            "verifier": self.verifier_facts,
            "geometry": geometry,
            "engine": engine,
            "within": self.settings.within,
            "bytes_per_photo": _bytes_per_photo(segments, dims),
            "options": {one.name: self.settings.to_dict()[one.name] for one in fields(KeptOptions)},
            "recipe": self.recipe,
            "state": state,
            "vectors": of,
            "files": written,
            "segments": about,
            "calibration": None,
        }
        meta |= self._trusted(meta, contents, rows)
        files.switch(self.folder, meta)
        files.sweep(self.folder)
        drop_unneeded(self.folder)
        return files.mapped(self.folder, meta)

    def _kind(self, contents: Contents) -> tuple[Kind | None, str]:
        return kind_for(self.settings.geometry, contents.places, self.verifier is not None)

    def _lifted(
        self, here: Path, contents: Contents, rows: NDArray[Any], segments: Sequence[Path]
    ) -> dict[str, Any]:
        """What is known of the keypoints in space."""
        kind, why = self._kind(contents)
        if kind is None or self.verifier is None:
            return {"kind": None, "why": why}
        held = [Segment(path) for path in segments]
        roots = {part.source.id: Path(part.source.root) for part in contents.parts}
        return write_points(
            kind,
            here,
            contents.places,
            [roots[int(source)] for source in contents.source],
            lambda row: held[rows[row]["segment"]].keypoints(int(rows[row]["row"])),
            self.verifier.matched,
            str(self.verifier_facts),
            None if self.old is None else self.old.known_points,
            self.tell,
        )

    def _trusted(self, meta: dict[str, Any], contents: Contents, rows: NDArray[Any]) -> dict[str, Any]:
        """The calibration. That of before stays while only a few photos changed since: asking takes a minute."""
        changed = self._changed_since(contents, rows, meta)
        if self.old is not None and changed is not None and changed <= STILL_TRUE * len(contents):
            kept = {**self.old.meta["calibrated"], "photos_changed_since": changed}
            return {"calibration": self.old.meta["calibration"], "calibrated": kept}
        made = self._calibration(files.mapped(self.folder, meta))
        return {
            "calibration": made,
            "calibrated": {"generation": meta["generation"], "photos_changed_since": 0},
        }

    def _changed_since(self, contents: Contents, rows: NDArray[Any], meta: dict[str, Any]) -> int | None:
        """Photos that came, went, changed or moved since the map was calibrated; None where it is another map."""
        old = self.old
        if old is None or "calibrated" not in old.meta:
            return None
        if any(old.meta[name] != meta[name] for name in ("recipe", "within", "dims", "options")):
            return None
        changed = _photos_that_differ(_placed(rows, contents.places), _placed(old.rows, old.places))
        return int(old.meta["calibrated"]["photos_changed_since"]) + changed

    def _calibration(self, generation: Generation) -> dict[str, Any]:
        """How far to trust answers of this map, as the map finds out by asking itself."""
        describer = query_describer(self.net, self.device, self.precision)
        describe = Vectors(
            self.net.preprocessing, describer, generation.whitening, generation.vectors.shape[1]
        )
        return calibrate(
            generation,
            self.net,
            self.verifier,
            within=self.settings.within,
            describe=describe,
            progress=self.tell,
        ).to_dict()


def _digest(told: str) -> str:
    return hashlib.sha256(told.encode()).hexdigest()


def _precision(settings: MapOptions, old: Generation | None, tell: Progress, stack: ExitStack) -> str:
    """What the network computes in: what is asked for, or else the map's own, or else what suits where it runs."""
    if settings.precision != "auto":
        return settings.precision
    if old is not None:
        return old.precision
    if settings.ray is None or settings.device == "cpu":
        return precision_name("auto", device_named(settings.device))
    # not left before the map is made: the nodes will be asked for more
    cluster = stack.enter_context(joined_cluster(settings.ray, tell))
    return on_nodes(cluster, DescribeOptions(device=settings.device), "auto").precision


def _verifier(settings: MapOptions) -> Verifier | None:
    """What finds and compares local features; None where the map keeps none."""
    if not settings.verify:
        return None
    from samespot.matching.verification import verifier_named

    try:
        device = device_named(_own_device(settings))
        return verifier_named(settings.matcher, settings.keypoints, device)
    except InputError as error:
        raise InputError(f"{error}; or pass `verify=False` for a map without local features") from None


def _facts_of(verifier: Verifier | None) -> dict[str, Any] | None:
    """What kept local features depend on."""
    return None if verifier is None else {"name": verifier.name, **verifier.facts()}


def _own_device(settings: MapOptions) -> str:
    """What this process computes on. GPUs that are asked for with a cluster are those of its nodes."""
    return "auto" if settings.ray is not None and settings.device != "cpu" else settings.device


# ---- photos into segments ----


def _describe(
    work: _Work, contents: Contents, todo: NDArray[np.int64], known: dict[bytes, tuple[str, int]]
) -> dict[int, str]:
    """Describe these rows into new segments; returns those that could not be read, with the reason."""
    bad = dict[int, str]()
    paths = [contents.path(row) for row in todo]
    writer = _SegmentWriter(work.folder, known)
    tick = _rate(work.tell, len(todo))
    done = 0
    with ExitStack() as stack:
        if work.settings.ray is None:
            made = _looker(work, len(todo))(paths)
        else:
            made = _made_on_nodes(
                stack.enter_context(joined_cluster(work.settings.ray, work.tell)), work, paths
            )
        try:
            for some in made:
                rows, at = todo[done : done + len(some)], paths[done : done + len(some)]
                done += len(some)
                for row, path, one in zip(rows, at, some, strict=True):
                    if isinstance(one, InputError):
                        if isinstance(one, MissingPhotoError):
                            _refuse_vanished(contents, path)
                        bad[int(row)] = f"{UNREADABLE}: {_reason(one, path)}"
                    else:
                        writer.put(Described(contents.keys[row].tobytes(), *one))
                writer.settle()
                tick(len(some))
        except StorageError as error:
            raise StorageError(f"{error}; {RESUMES}") from None
        finally:
            writer.flush()  # what is done is done, whatever happened
    return bad


def _refuse_vanished(contents: Contents, photo: Path) -> None:
    """A photo that is gone with all others of its folder is no reason to make the map smaller: they were there when
    this command began, and after an unmount there is an empty folder in the place of the disk. Nor is one that is
    there after all: to whoever looked, a node of a cluster maybe, it was not."""
    folder = os.path.dirname(photo)
    if (beside := contents.by_folder.get(folder)) is None:
        return
    if os.path.exists(photo):
        raise StorageError(
            f"{photo}: exists here but was not found; check the disk, or the mounts of the nodes"
        )
    if not any(map(os.path.exists, beside)):
        raise StorageError(
            f"{folder}: its photos are no longer there; put them back, or mount the disk again"
        )


def _looker(work: _Work, images: int) -> PhotoLooker:
    describer = describer_for(work.net, work.device, work.precision, images)
    return PhotoLooker(describer, work.net, work.settings, work.verifier)


def _made_on_nodes(cluster: Cluster, work: _Work, paths: Sequence[Path]) -> Iterator[list[Seen]]:
    """The same by the nodes of a cluster, in order."""
    settings = work.settings
    on = on_nodes(cluster, DescribeOptions(device=settings.device), work.precision)
    gpu = on.device.startswith("cuda")
    trunk = trunk_where_it_pays(work.net, torch.device(on.device), on.precision, len(paths))
    # batches are cut as one process cuts them
    blocks, longest = blocks_left(len(paths), on.batch_size), max(1, SEGMENT // on.batch_size)
    made_with = on, trunk, work.net, settings, work.verifier_facts
    made = made_on_nodes(cluster, _NodeLooker, made_with, paths, blocks, gpu=gpu, longest=longest)
    return (seen for _, seen, _ in in_order(made))


class _NodeLooker:
    """A worker on a node: holds the network and what finds local features."""

    def __init__(
        self,
        on: OnDevice,
        trunk: OnnxTrunk | None,
        net: PlaceNet,
        settings: MapOptions,
        verifier_facts: dict[str, Any] | None,
        cores: int,
    ) -> None:
        device = device_of_worker(on.device)
        settings = settings.with_changes(
            ray=None, device=device, workers=readers(settings.workers, device, cores)
        )
        describer = Describer(net, torch.device(device), on.precision, batch_size=on.batch_size, trunk=trunk)
        verifier = _verifier(settings)
        if _facts_of(verifier) != verifier_facts:
            raise InputError(
                f"its local features are of another version of {settings.matcher} than this machine's; install the"
                " same on both"
            )
        self._look = PhotoLooker(describer, net, settings, verifier)

    def __call__(self, photos: Sequence[str]) -> tuple[list[Seen], dict[int, str]]:
        seen = [one for some in self._look([Path(photo) for photo in photos]) for one in some]
        return seen, {at: str(one) for at, one in enumerate(seen) if isinstance(one, InputError)}


# descriptor, small picture and local features of a photo, or what is wrong with it
Seen = tuple[NDArray[np.float16], bytes, Keypoints | None] | InputError


class PhotoLooker:
    """From photos to what a map keeps of them, batch by batch, in order."""

    def __init__(
        self, describer: Describer, net: PlaceNet, settings: MapOptions, verifier: Verifier | None
    ) -> None:
        extract = None if verifier is None else verifier.extract
        self._describer, self._workers = describer, settings.workers
        self._how = Looking(net.preprocessing, settings.thumbnail, extract)
        self._alone = not describer.in_torch or extract is not None

    def __call__(self, paths: Sequence[Path]) -> Iterator[list[Seen]]:
        with one_torch_thread() if self._alone else nullcontext():
            seen = looks(self._how, paths, self._workers)
            while some := list(islice(seen, self._describer.batch_size)):
                yield self._made(some)

    def _made(self, some: Sequence[Look | InputError]) -> list[Seen]:
        good = [look for look in some if isinstance(look, Look)]
        if not good:
            return [look for look in some if isinstance(look, InputError)]
        pixels = torch.stack([look.pixels for look in good]).to(self._describer.device)
        vectors = iter(finite(self._describer(pixels).cpu().numpy()).astype(np.float16))
        return [
            look if isinstance(look, InputError) else (next(vectors), look.thumbnail, look.keypoints)
            for look in some
        ]


def _reason(error: InputError, path: Path) -> str:
    """What is wrong with a photo, without its name and what to do about it."""
    told = str(error).removeprefix(f"{shown(path)}: ").removeprefix(f"{os.path.abspath(path)}: ")
    return told.partition(";")[0]


class _SegmentWriter:
    """Takes photos and writes a segment now and then; `known` learns where they are."""

    def __init__(self, folder: Path, known: dict[bytes, tuple[str, int]]) -> None:
        self.folder, self.known = folder, known
        self._names = files.new_segments(folder)
        self._waiting: list[Described] = []
        self._written = time.monotonic()

    def settle(self) -> None:
        """Write what there is, if it has waited for long."""
        if time.monotonic() - self._written >= SETTLE_SECONDS:
            self.flush()

    def put(self, photo: Described) -> None:
        self._waiting.append(photo)
        if len(self._waiting) >= SEGMENT:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            path = next(self._names)
            write_segment(path, self._waiting)
            self.known.update({one.key: (path.name, row) for row, one in enumerate(self._waiting)})
            self._waiting = []
        self._written = time.monotonic()


def _put_together(folder: Path, contents: Contents, known: dict[bytes, tuple[str, int]]) -> None:
    """Copy the photos of segments that are nearly empty by now, or were small from the start, into full ones."""
    live: dict[str, list[bytes]] = {}
    for key in contents.keys:
        live.setdefault(known[key.tobytes()][0], []).append(key.tobytes())
    sparse = {name: keys for name, keys in live.items() if len(keys) < SPARSE}
    there = {name: Segment(folder / files.SEGMENTS / name) for name in sparse}
    waste = sum(len(segment) for segment in there.values()) - sum(map(len, sparse.values()))
    if len(sparse) < FEW_SPARSE and waste < SEGMENT:
        return
    writer = _SegmentWriter(folder, known)
    for name, keys in sparse.items():
        for key in keys:
            writer.put(there[name].described(known[key][1]))
    writer.flush()


def _lying(
    folder: Path, contents: Contents, known: Mapping[bytes, tuple[str, int]]
) -> tuple[NDArray[Any], list[Path], list[dict[str, Any]]]:
    """Where each photo lies, in which segments, and what meta.json says of these."""
    where = [known[key.tobytes()] for key in contents.keys]
    used = sorted({name for name, _ in where})
    number = {name: at for at, name in enumerate(used)}
    rows = np.zeros(len(contents), dtype=ROW)
    rows["segment"] = [number[name] for name, _ in where]
    rows["row"] = [row for _, row in where]
    rows["source"], rows["key"] = contents.source, contents.keys
    segments = [folder / files.SEGMENTS / name for name in used]
    counts = np.bincount(rows["segment"], minlength=len(used))
    about = [
        {"file": path.name, "photos": _length(path), "used": int(count), "bytes": path.stat().st_size}
        for path, count in zip(segments, counts, strict=True)
    ]
    return rows, segments, about


_Placed = dict[bytes, tuple[str, bytes]]


def _placed(rows: NDArray[Any], places: Places) -> _Placed:
    """By the key of each photo, its name and its place, with its pose where that is known."""
    where = places.positions
    if places.has_pose:
        where = np.hstack([where, places.centres, places.quaternions])
    at = zip(rows["key"], places.table["image"], where, strict=True)
    return {key.tobytes(): (str(name), place.tobytes()) for key, name, place in at}


def _photos_that_differ(now: _Placed, before: _Placed) -> int:
    """How many photos came, went, moved, or are of another file by now; each counts once."""
    moved = sum(now[key][1] != before[key][1] for key in now.keys() & before.keys())
    return moved + len({(now.get(key) or before[key])[0] for key in now.keys() ^ before.keys()})


def _length(path: Path) -> int:
    return bytes_by_array(path)["keys"] // KEY


def _plain(segments: Sequence[Path], rows: NDArray[Any]) -> NDArray[np.float16]:
    """Descriptors of these rows, read from the files of the segments."""
    found: NDArray[np.float16] | None = None
    for number in np.unique(rows["segment"]):
        mine, there = rows["segment"] == number, read_array(segments[number], "descriptors")
        if found is None:
            found = np.empty((len(rows), there.shape[1]), dtype=np.float16)
        found[mine] = there[rows["row"][mine]]
    assert found is not None
    return found


def _rate(tell: Progress, total: int) -> Callable[[int], None]:
    """Counts photos and says how many a second there are."""
    done, begun = 0, time.monotonic()
    tell("describing", 0, total)

    def tick(more: int) -> None:
        nonlocal done
        done += more
        speed = done / max(time.monotonic() - begun, 1e-9)
        tell(f"describing · {speed:,.0f} photos/s", done, total)

    return tick


# ---- what meta.json says ----


def _facts(contents: Contents) -> dict[str, Any]:
    places = contents.places
    return {
        "photos": len(contents),
        "left_out": contents.counts(),
        "without_heading": int(np.isnan(places.positions[:, 2]).sum()),
        "root": str(places.root),
        "projection": places.projection,
        "bounds": _bounds(places),
        "sources": [part.source.to_dict() for part in contents.parts],
        "notes": list(places.notes),
    }


def _bounds(places: Places) -> dict[str, list[float]]:
    """Least and most, in metres and where the plane is known in degrees."""
    at = places.positions[:, :2]
    bounds = {"easting": at[:, 0], "northing": at[:, 1]}
    if places.projection is not None:
        latitude, longitude = to_degrees(at[:, 0], at[:, 1], places.projection)
        bounds |= {"latitude": latitude, "longitude": longitude}
    return {name: [float(values.min()), float(values.max())] for name, values in bounds.items()}


def _bytes_per_photo(segments: Sequence[Path], dims: int) -> dict[str, float]:
    """By what they are for; the table of places comes on top."""
    names = {
        "plain descriptors": ("descriptors",),
        "thumbnails": ("thumbnails", "thumbnail_starts"),
        "local features": ("xy", "local", "keypoint_starts", "sizes"),
        "keys": ("keys",),
    }
    sizes = [bytes_by_array(path) for path in segments]
    count = sum(one["keys"] for one in sizes) // KEY
    each = {
        what: sum(one.get(name, 0) for one in sizes for name in arrays) / count
        for what, arrays in names.items()
    }
    return {"descriptors": 2.0 * dims, **{what: round(size, 1) for what, size in each.items()}}
