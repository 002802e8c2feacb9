"""A map's vectors in a faiss index, which lies in the folder of the generation."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.maps.engines.engine import recall_of
from samespot.maps.folder import Generation, generation_folder
from samespot.maps.limits import Limits
from samespot.progress import Progress
from samespot.retrieval.engines.approximate import ApproximateIndex, Kind, build_index
from samespot.retrieval.shortlist import GATHERED, Listed, exactly, measured

FILE = "index.faiss"
CODES_LISTED = 400  # photos that an index of codes lists at least: its order is rough


class FaissEngine:
    """An `Engine`: an index that lists, and the vectors of the map that measure."""

    def __init__(self, index: ApproximateIndex, vectors: NDArray[np.float16]) -> None:
        self._index, self._vectors = index, vectors

    def nearest(self, vector: NDArray[np.float32], count: int, limits: Limits | None = None) -> Listed:
        allowed = None if limits is None else limits.allowed
        if allowed is not None and allowed.sum() <= GATHERED * len(allowed):
            return exactly(vector, self._vectors, count, allowed)  # an index finds few of them, and slowly
        asked, codes = np.asarray(vector, dtype=np.float32), self._index.kind == "ivfpq"

        def ask(listed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            squares, rows = self._index.nearest(asked[None], listed, allowed)
            there = rows[0] >= 0
            return rows[0][there], squares[0][there]

        first = max(4 * count, CODES_LISTED) if codes else None
        return measured(ask, asked, self._vectors, count, allowed, first=first, rounded=codes)


def write(kind: Kind, here: Path, vectors: NDArray[np.float16], tell: Progress) -> dict[str, Any]:
    """Write the index of these vectors to a folder; returns what meta.json says of it."""
    index = build_index(vectors, kind, progress=tell)
    path = index.save(here / FILE)
    tell("recall", 0, 0)
    return {
        "name": kind,
        "file": FILE,
        "bytes": path.stat().st_size,
        "settings": index.settings,
        "recall": recall_of(FaissEngine(index, vectors), vectors),
    }


def copied(same: Generation, here: Path) -> dict[str, Any]:
    """That of another generation with the same vectors."""
    shutil.copyfile(_path(same, same.meta["engine"]), here / FILE)
    return dict(same.meta["engine"])


def opened(generation: Generation, facts: dict[str, Any]) -> FaissEngine:
    """The engine of a generation; one line where its file is not what it should be."""
    again = f"`samespot index --out {generation.folder} --engine {facts['name']}` makes it again"
    path = _path(generation, facts)
    if not (path.is_file() and path.stat().st_size == facts["bytes"]):
        raise InputError(f"{path}: the index is missing or cut off; {again}")
    try:
        index = ApproximateIndex.load(path)
    except InputError:
        raise InputError(f"{path}: the index is broken; {again}") from None
    if index.dims != generation.vectors.shape[1] or len(index) > len(generation):
        raise InputError(f"{path}: the index is of another map; {again}")
    return FaissEngine(index, generation.vectors)


def is_sound(generation: Generation, facts: dict[str, Any]) -> bool:
    try:
        opened(generation, facts)
    except InputError:
        return False
    return True


def _path(generation: Generation, facts: dict[str, Any]) -> Path:
    return generation_folder(generation.folder, generation.number) / str(facts["file"])
