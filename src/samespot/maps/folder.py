"""A map on disk: segments that are only ever added to, generations that never change, and one file that points.

    map/meta.json                   which generation is the map, and all facts about it; replaced at once: the switch
    map/segments/000012.safetensors what was made of some hundreds of photos (`samespot.maps.segments`)
    map/generations/000007/         places.parquet   the table of places, one row a photo
                                    rows.npy         where each photo lies: segment, row, source, key
                                    vectors.npy      (n, dims) float16 unit rows: what is searched
                                    whitening.safetensors   where they are whitened
                                    points.npy, …    keypoints in space, where they are known (`maps.geometry`)
                                    left_out.json    the photos that are not in the map, and why
                                    segments.json, model.json   the segments and the network that it needs
                                    engine.json      what finds the nearest vectors (`samespot.maps.engines`)
                                    index.faiss      where that is a faiss index
    map/models/<digest>/            the network, where no name stands for it

A reader opens the generation that meta.json names and keeps it, whatever is written meanwhile. A kill at any moment
leaves the old generation in place, and whole segments that the next run of the same command takes up.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from samespot.arrays import read_npy, save_array
from samespot.errors import InputError
from samespot.files import (
    RESUMES,
    RUN_AGAIN,
    UNREAD,
    disk_errors,
    files_in,
    locked,
    read_json,
    whole_folder,
    write_json,
)
from samespot.maps.geometry import Points
from samespot.maps.segments import KEY, SUFFIX, Segment, read_array
from samespot.matching.keypoints import Keypoints
from samespot.places.table import Places
from samespot.whitening.whitening import Whitening

FORMAT = 1
META, SEGMENTS, GENERATIONS, MODELS = "meta.json", "segments", "generations", "models"
PLACES, ROWS, VECTORS = "places.parquet", "rows.npy", "vectors.npy"
WHITENING, LEFT_OUT = "whitening.safetensors", "left_out.json"
OWN_SEGMENTS, OWN_MODEL, OWN_ENGINE = (
    "segments.json",
    "model.json",
    "engine.json",
)  # of a generation, for the sweep
LOCK = ".lock"
# hidden names that `samespot.files` writes under: .meta.json.1234.partial, .000007.part-host-1234-ab12cd34
SCRATCH = re.compile(r"\..+\.(\d+\.partial|part-.*-\d+-[a-z0-9_]+(\.old)?)")
# where a photo lies: number of the segment among those of the generation, and row in it; which source it is of
ROW = np.dtype([("segment", "<i4"), ("row", "<i4"), ("source", "<i4"), ("key", "u1", (KEY,))])
TRIES = 5  # to open the newest generation while others are being written
AS_IT_WAS = f"the map is as it was; fix that, and {RESUMES}"
AGAIN = "copy the whole folder again, or index the photos into a new folder"


@dataclass(frozen=True, eq=False)
class Generation:
    """A state of a map, which never changes. Row i of everything is the photo in row i of `places`."""

    folder: Path  # of the map
    number: int
    meta: dict[str, Any]
    places: Places
    vectors: NDArray[np.float16]  # (n, dims) memory-mapped, unit rows
    whitening: Whitening | None  # brings plain descriptors to `vectors`; None: they are the same
    rows: NDArray[Any]  # (n,) of ROW
    segments: tuple[Segment, ...]
    known_points: Points | None = None  # keypoints in space; None where the map does not know them

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def precision(self) -> str:
        """Number format in which the network described the photos: 32, bf16 or int8. Maps from before this was told
        count as the first."""
        return str(self.meta.get("precision", "32"))

    def keypoints(self, row: int) -> Keypoints | None:
        """Local features of a photo; None where the map keeps none."""
        segment, at = self._where(row)
        return segment.keypoints(at)

    def thumbnail(self, row: int) -> bytes:
        """A JPEG."""
        segment, at = self._where(row)
        return segment.thumbnail(at)

    def plain(self, rows: ArrayLike) -> NDArray[np.float16]:
        """(k, d) descriptors before whitening."""
        wanted = self.rows[np.asarray(rows)]
        width = int(self.meta["plain_dims"])
        found = np.empty((len(wanted), width), dtype=np.float16)
        for number in np.unique(wanted["segment"]):
            mine = wanted["segment"] == number
            found[mine] = self.segments[number].descriptors[wanted["row"][mine]]
        return found

    def points(self, row: int) -> NDArray[np.float32] | None:
        """(n, 3) keypoints of a photo in the coordinates of its camera; None where the map does not know them."""
        return None if self.known_points is None else self.known_points(row)

    def left_out(self) -> dict[int, dict[str, str]]:
        """Photos that are not in the map: by source, name and reason."""
        there = read_json(self.left_out_path, AGAIN)
        return {int(source): dict(names) for source, names in there.items()}

    @property
    def left_out_path(self) -> Path:
        return generation_folder(self.folder, self.number) / LEFT_OUT

    def _where(self, row: int) -> tuple[Segment, int]:
        at = self.rows[row]
        return self.segments[int(at["segment"])], int(at["row"])


# ---- reading ----


def generation_folder(folder: Path, number: int) -> Path:
    return folder / GENERATIONS / f"{number:06d}"


def read_meta(folder: str | Path) -> dict[str, Any]:
    """The facts of a map; one line where there is none, or one that this version does not know."""
    folder = Path(folder)
    if not (folder / META).is_file():
        if not folder.exists():
            fault = "no such folder; build a map with `samespot index PHOTOS --out` and this name"
        elif not folder.is_dir():
            fault = "is a file; give the folder of a map"
        elif (folder / SEGMENTS).is_dir():
            fault = "this map is not finished; the same `samespot index` again resumes where it left off"
        else:
            fault = f"no map here ({META} is missing); give a folder that `samespot index` wrote"
        raise InputError(f"{folder}: {fault}")
    meta = read_json(folder / META, AGAIN)
    if not isinstance(meta.get("format"), int) or not isinstance(meta.get("generation"), int):
        raise InputError(f"{folder / META}: is not of a map; give a folder that `samespot index` wrote")
    if meta["format"] > FORMAT:
        raise InputError(
            f"{folder}: a map of format {meta['format']}, and this version reads up to {FORMAT}; update samespot"
        )
    return meta


def open_generation(folder: str | Path, *, model: str | None = None) -> Generation:
    """The newest generation of a map. model: digest of the network that it must be of."""
    folder, meta = Path(folder), read_meta(folder)
    for _ in range(TRIES):
        try:
            opened = mapped(folder, meta)
            break
        except InputError:
            newest = read_meta(folder)
            if newest["generation"] == meta["generation"]:
                raise
            meta = newest  # it was replaced while it was being opened
    else:
        opened = mapped(folder, meta)
    if model is not None and opened.meta["model"]["digest"] != model:
        raise InputError(
            f"{folder}: a map of another model ({opened.meta['model']['name']}, digest"
            f" {opened.meta['model']['digest'][:8]}, not {model[:8]}); ask it with its own"
        )
    return opened


def mapped(folder: Path, meta: dict[str, Any]) -> Generation:
    """The generation that `meta` tells of, whether the map points to it yet or not."""
    here = generation_folder(folder, meta["generation"])
    try:
        for told in ("model", "verifier", "within", "calibration"):
            meta[told]
        _refuse_other_sizes(here, meta["files"])
        segments = tuple(_segment(folder, one) for one in meta["segments"])
        rows, vectors = np.array(read_npy(here / ROWS, AGAIN)), read_npy(here / VECTORS, AGAIN)
        points = Points.open(here, AGAIN) if (meta.get("geometry") or {}).get("kind") else None
        places = Places(
            Path(meta["root"]),
            _table(here / PLACES),
            meta["projection"],
            dict(meta["left_out"]),
            tuple(meta["notes"]),
        )
        whitening = Whitening.load(here / WHITENING) if WHITENING in meta["files"] else None
        sound = (
            (rows.dtype, rows.shape) == (ROW, (meta["photos"],))
            and (vectors.dtype, vectors.shape) == (np.float16, (meta["photos"], meta["dims"]))
            and len(places) == meta["photos"]
            and (points is None or len(points.keys) == meta["photos"])
            and _lie_there(rows, segments)
        )
    except FileNotFoundError as error:
        raise InputError(f"{folder}: this map is not whole ({error.filename} is missing); {AGAIN}") from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise InputError(
                f"{folder}: its {len(meta['segments']):,} segments are more memory maps than this process may have;"
                " raise vm.max_map_count (sysctl), or make several maps of it"
            ) from None
        raise InputError(f"{folder}: {UNREAD} ({error.strerror or error}); {RUN_AGAIN}") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder}: this map is broken ({error}); {AGAIN}") from None
    if not sound:
        raise InputError(f"{folder}: the files of this map do not fit one another; {AGAIN}")
    return Generation(folder, meta["generation"], meta, places, vectors, whitening, rows, segments, points)


def _table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except Exception as error:  # of a damaged file pyarrow raises anything, an error of the system too
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path}: is damaged; {AGAIN}") from None


def _lie_there(rows: NDArray[Any], segments: Sequence[Segment]) -> bool:
    """Whether each photo has a place in a segment."""
    lengths = np.array([len(segment) for segment in segments])
    numbers = rows["segment"]
    if not ((numbers >= 0) & (numbers < len(lengths))).all():
        return False
    return bool(((rows["row"] >= 0) & (rows["row"] < lengths[numbers])).all())


def _refuse_other_sizes(here: Path, files: Mapping[str, int]) -> None:
    for name, size in files.items():
        if (here / name).stat().st_size != size:
            raise InputError(
                f"{here.parent.parent}: this map is not whole ({here / name} is cut off); {AGAIN}"
            )


def _segment(folder: Path, about: Mapping[str, Any]) -> Segment:
    try:
        segment = Segment(folder / SEGMENTS / about["file"])
    except InputError as error:
        raise InputError(f"{folder}: this map is not whole ({error}); {AGAIN}") from None
    if len(segment) != about["photos"]:
        raise InputError(f"{folder}: {about['file']} is another than this map tells of; {AGAIN}")
    return segment


# ---- writing ----


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """No other process writes this map meanwhile; what a killed one left half done is removed first."""
    refuse_other(folder)
    with disk_errors(folder, AS_IT_WAS), locked(folder, "a map"):
        for part in (folder, folder / SEGMENTS, folder / GENERATIONS, folder / MODELS):
            _drop_scratch(part)
        yield


def refuse_other(folder: Path) -> None:
    """Raise where something else is in the place of a map."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give the name of a folder")
    if folder.is_dir() and not is_map(folder) and not all(map(_is_ours, folder.iterdir())):
        raise InputError(f"{folder}: holds other files and is no map; choose another folder")


def is_map(folder: Path) -> bool:
    """A map, or one that is being made for the first time."""
    return (folder / META).is_file() or (folder / SEGMENTS).is_dir()


def _is_ours(path: Path) -> bool:
    """What a first run that was killed at its very beginning may have left."""
    return SCRATCH.fullmatch(path.name) is not None or (path.name == LOCK and path.stat().st_size == 0)


def _drop_scratch(folder: Path) -> None:
    """Our scratch files and folders: the one process that may write is this one, so nobody needs them.

    Other hidden files are not ours: the map may be under git.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        if SCRATCH.fullmatch(path.name) is None:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def photos_there(folder: Path) -> dict[bytes, tuple[str, int]]:
    """Where each photo that was ever described lies, by its key: the file name of a segment, and the row in it.

    Of all whole segments, whether a generation points to them or not; those that are not whole go. One that the disk
    does not give just now is no such segment: it may hold hours of work.
    """
    found = {}
    for path in _segment_files(folder):
        with disk_errors(path, AS_IT_WAS, UNREAD):
            try:
                keys = read_array(path, "keys")
            except FileNotFoundError:
                continue
            except InputError:  # not by a kill, but a disk may lose something
                path.unlink()
                continue
        found.update({key.tobytes(): (path.name, row) for row, key in enumerate(keys)})
    return found


def _segment_files(folder: Path) -> list[Path]:
    with disk_errors(folder / SEGMENTS, AS_IT_WAS, UNREAD):
        return files_in(folder / SEGMENTS, f"*{SUFFIX}")


def new_segments(folder: Path) -> Iterator[Path]:
    """Names for segments that are to be written, after those that are there."""
    numbers = [int(path.stem) for path in _segment_files(folder) if path.stem.isdecimal()]
    for number in count(max(numbers, default=-1) + 1):
        yield folder / SEGMENTS / f"{number:06d}{SUFFIX}"


def write_generation(
    folder: Path,
    number: int,
    table: pd.DataFrame,
    rows: NDArray[Any],
    segments: Sequence[Mapping[str, Any]],
    model: str,
    left_out: Mapping[int, Mapping[str, str]],
    fill: Callable[[Path], Whitening | None],
    lift: Callable[[Path], dict[str, Any]],
    equip: Callable[[Path], dict[str, Any]],
) -> tuple[dict[str, int], Whitening | None, dict[str, Any], dict[str, Any]]:
    """Write a generation that nothing points to yet; returns the bytes of its files, its whitening, and what is told of
    its geometry and its engine.

    model: digest of the network
    fill: writes the vectors to the path it is given and returns the whitening that they are of.
    lift: writes what is known of the keypoints in space, and tells of it.
    equip: makes what finds the nearest of them, in the folder or elsewhere, and tells of it; its file is not among
    those without which there is no map.
    """
    here = generation_folder(folder, number)
    with whole_folder(here) as scratch:
        table.to_parquet(scratch / PLACES, index=False)
        save_array(scratch / ROWS, rows)
        write_json(scratch / OWN_SEGMENTS, [one["file"] for one in segments])
        write_json(scratch / OWN_MODEL, model)
        write_json(scratch / LEFT_OUT, {str(source): dict(names) for source, names in left_out.items()})
        whitening = fill(scratch / VECTORS)
        if whitening is not None:
            whitening.save(scratch / WHITENING)
        geometry = lift(scratch)
        engine = equip(scratch)
        write_json(scratch / OWN_ENGINE, engine)
        for path in scratch.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    needed = [path for path in sorted(here.iterdir()) if path.name != engine.get("file")]
    return {path.name: path.stat().st_size for path in needed}, whitening, geometry, engine


def switch(folder: Path, meta: Mapping[str, Any]) -> None:
    """From here on the map is the generation that `meta` names."""
    write_json(folder / META, meta)


def sweep(folder: Path) -> None:
    """Remove what neither the map nor its last generation before needs. The latter stays for readers that are just
    opening it, or have yet to load its network; who has opened one reads on from memory maps of removed files."""
    meta = read_meta(folder)
    there = sorted(int(path.name) for path in (folder / GENERATIONS).iterdir() if path.name.isdecimal())
    before = [number for number in there if number < meta["generation"]][-1:]
    kept = {*before, meta["generation"]}
    for number in there:
        if number not in kept:
            shutil.rmtree(generation_folder(folder, number))
    needed, models = {one["file"] for one in meta["segments"]}, {meta["model"]["digest"]}
    segments_told = models_told = True  # an older version did not tell of its model
    for number in before:
        here = generation_folder(folder, number)
        own_segments, own_model = read_own(here / OWN_SEGMENTS), read_own(here / OWN_MODEL)
        needed |= set(own_segments or ())
        models.add(own_model)
        segments_told = segments_told and own_segments is not None
        models_told = models_told and own_model is not None
    for path in (folder / SEGMENTS).glob(f"*{SUFFIX}") if segments_told else ():
        if path.name not in needed:
            path.unlink()
    for path in (folder / MODELS).glob("[!.]*") if models_told else ():
        if path.is_dir() and path.name not in models:
            shutil.rmtree(path)


def read_own(path: Path) -> Any:
    """What a generation says that it needs; None where it does not say, or cannot be read just now: then it may need
    anything."""
    import json

    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def bytes_of(meta: Mapping[str, Any]) -> int:
    """Of everything that the map consists of, its model and what is in a database apart."""
    index = (meta.get("engine") or {}).get("bytes", 0)
    return int(sum(meta["files"].values()) + sum(one["bytes"] for one in meta["segments"]) + index)
