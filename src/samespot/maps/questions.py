"""What a map is asked about: photo files, folders, tables of photos, videos, or bytes from standard input."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError

VIDEOS = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".mts")
TABLES = (".csv", ".parquet")
STDIN = "-"


@dataclass(frozen=True, eq=False)
class Question:
    """A photo to ask about, and when it was taken [s] if that is known."""

    name: str
    photo: Any
    time: float | None = None


def questions(sources: Sequence[str | Path], every: float = 1.0) -> Iterator[Question]:
    """Every photo that is named, one after the other. every: [s] between the frames that are taken from a video."""
    for source in sources:
        path = Path(source)
        if str(source) == STDIN:
            if sys.stdin is None:
                raise InputError("standard input: is closed; give a photo file instead of -")
            yield Question("standard input", sys.stdin.buffer.read())
        elif path.is_dir():
            yield from _of_folder(path)
        elif path.suffix.lower() in TABLES:
            yield from _of_table(path)
        elif path.suffix.lower() in VIDEOS:
            yield from frames(path, every)
        else:
            yield Question(str(source), path)


def is_table(source: str | Path) -> bool:
    """Whether this names a table of photos, by its ending."""
    return Path(source).suffix.lower() in TABLES


def is_video(source: str | Path) -> bool:
    """Whether this names a video, by its ending."""
    return Path(source).suffix.lower() in VIDEOS


def _of_folder(folder: Path) -> Iterator[Question]:
    from samespot.places.photos import IMAGE_SUFFIXES, images_below

    names = sorted(images_below(folder))
    if not names:
        raise InputError(
            f"{folder}: no photos there; expected are files ending in {', '.join(IMAGE_SUFFIXES)}"
        )
    for name in names:
        yield Question(str(folder / name), folder / name)


def _of_table(path: Path) -> Iterator[Question]:
    """The photos of a table; where they were taken need not be in it."""
    from samespot.files import read_json
    from samespot.places.catalogue import meta_path
    from samespot.places.csv_files import load_table, named_columns
    from samespot.places.table import Places
    from samespot.storage import photo_at

    table, _ = named_columns(load_table(path), path)
    if "image" not in table:
        raise InputError(f"{path}: no column image; a table of photos names one in each row")
    beside = meta_path(path)
    root = path.parent / (
        read_json(beside, "delete it or fix it").get("root", ".") if beside.is_file() else "."
    )
    seconds = Places(root, table).seconds()
    for name, time in zip(table["image"].astype("str"), seconds, strict=True):
        yield Question(name, photo_at(root, name), None if np.isnan(time) else float(time))


def frames(path: Path, every: float) -> Iterator[Question]:
    """Frames of a video, one every so many seconds."""
    try:
        av = importlib.import_module("av")
    except ImportError:
        raise InputError(f"{path}: videos need the package av: pip install samespot[video]") from None
    try:
        with av.open(str(path)) as video:
            if not video.streams.video:
                raise InputError(f"{path}: no pictures in this file")
            due = 0.0
            for frame in video.decode(video=0):
                time = float(frame.time or 0.0)
                if time + 1e-6 >= due:
                    yield Question(f"{path} at {time:.1f} s", _upright(frame), time)
                    due = time + every
    except InputError:
        raise
    except (OSError, ValueError) as error:  # PyAV's errors are of these kinds
        raise InputError(
            f"{path}: cannot read the video ({getattr(error, 'strerror', None) or error})"
        ) from None


def _upright(frame: Any) -> Any:
    """The pixels of a frame as a player shows them: phones write upright videos lying, with a note how to turn them."""
    turns = round(getattr(frame, "rotation", 0) / 90) % 4  # counterclockwise
    return np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), turns))
