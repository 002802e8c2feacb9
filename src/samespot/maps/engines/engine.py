"""One interface for all engines, and which one a map has.

The map folder is the truth: an engine is made of its vectors and its table, and can be made again at any time. Whatever
an engine finds is measured again by the vectors of the folder, so distances are the same whoever found them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.maps.folder import Generation
from samespot.maps.limits import Columns, Limits
from samespot.maps.options import EngineOptions
from samespot.options import names
from samespot.places.table import Places
from samespot.progress import Progress

if TYPE_CHECKING:  # which engine is asked for is told without numba
    from samespot.retrieval.shortlist import Listed

RECALL_AT, RECALL_OF = 10, 100  # recall of the ten nearest, of so many photos of the map
EXACT: dict[str, Any] = {"name": "exact"}


class Engine(Protocol):
    """Finds the nearest photos of one generation of a map. From several threads, if need be."""

    def nearest(self, vector: NDArray[np.float32], count: int, limits: Limits | None = None) -> Listed:
        """The photos nearest to a vector (dims,), among those that may answer, the nearest first."""


class Exact:
    """This process compares all vectors."""

    def __init__(self, vectors: NDArray[Any], device: str = "cpu") -> None:
        self._vectors, self._device = vectors, device

    def nearest(self, vector: NDArray[np.float32], count: int, limits: Limits | None = None) -> Listed:
        from samespot.retrieval.shortlist import exactly

        allowed = None if limits is None else limits.allowed
        return exactly(vector, self._vectors, count, allowed, self._device)


def asked_for(typed: Mapping[str, Any], old: Mapping[str, Any] | None) -> EngineOptions:
    """The engine that a map is to have: what was typed, else what it has. old: its meta."""
    given = {name: typed[name] for name in names(EngineOptions) if name in typed}
    before = kept_options(engine_facts(old or {}))
    if given.get("engine", before["engine"]) == before["engine"]:
        given = {**before, **given}
    asked = EngineOptions(**given)
    if asked.engine == "milvus":
        from samespot.maps.engines.milvus_client import checked_uri

        asked = asked.with_changes(uri=checked_uri(asked.uri))
    return asked


def engine_facts(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What meta.json says of the engine; maps of before there were engines search exactly."""
    return dict(meta.get("engine") or EXACT)


def kept_options(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The options that an engine was made with."""
    own = {"engine": facts["name"], "uri": facts.get("uri"), "milvus_index": facts.get("index")}
    return {name: value for name, value in own.items() if value is not None}


def refuse_unreachable(asked: EngineOptions) -> None:
    """Before photos are described for hours."""
    if asked.engine == "milvus":
        from samespot.maps.engines.milvus_client import connected

        assert asked.uri is not None
        connected(asked.uri)


def make_engine(
    asked: EngineOptions,
    folder: Path,
    here: Path,
    vectors: NDArray[np.float16],
    places: Places,
    tell: Progress,
    same: Generation | None = None,
) -> dict[str, Any]:
    """Make the engine of a generation that is being written to `here`; what meta.json says of it. same: one before
    with the same vectors."""
    if asked.engine == "exact":
        return EXACT
    if asked.engine == "milvus":
        from samespot.maps.engines import milvus_load

        return milvus_load.load(asked, folder, vectors, Columns(places), tell)
    from samespot.maps.engines import faiss_file

    if same is not None and engine_facts(same.meta)["name"] == asked.engine and is_sound(same):
        return faiss_file.copied(same, here)
    return faiss_file.write(asked.engine, here, vectors, tell)


def open_engine(generation: Generation, exact: Callable[[], Engine]) -> Engine:
    """The engine of a generation. exact: makes the one that needs no index."""
    facts = engine_facts(generation.meta)
    if facts["name"] == "exact":
        return exact()
    if facts["name"] == "milvus":
        from samespot.maps.engines import milvus

        return milvus.opened(generation, facts)
    if facts["name"] in ("hnsw", "ivfpq"):
        from samespot.maps.engines import faiss_file

        return faiss_file.opened(generation, facts)
    raise InputError(
        f"{generation.folder}: its engine is {facts['name']!r}, which is not known; update samespot"
    )


def is_sound(generation: Generation) -> bool:
    """Whether the engine of a generation is there and whole; False: it is to be made again."""
    facts = engine_facts(generation.meta)
    if facts["name"] == "exact":
        return True
    if facts["name"] == "milvus":
        from samespot.maps.engines import milvus

        return milvus.is_whole(facts, len(generation))
    from samespot.maps.engines import faiss_file

    return faiss_file.is_sound(generation, facts)


def drop_unneeded(folder: Path) -> None:
    """Remove what engines outside the map's folder keep of generations that are no more."""
    from samespot.maps.engines import milvus

    milvus.drop_unneeded(folder)


def recall_of(engine: Engine, vectors: NDArray[Any]) -> dict[str, Any]:
    """How many of the nearest photos that exact search finds the engine finds, too, asked about photos of the map."""
    from samespot.retrieval.search import search

    rows = np.sort(np.random.default_rng(0).permutation(len(vectors))[:RECALL_OF])
    asked = np.asarray(vectors[rows], dtype=np.float32)
    exact = search(
        asked, vectors, RECALL_AT + 1, device="cpu"
    ).rows  # all at once: a large map is read but once
    hits = total = 0
    for row, vector, true in zip(rows, asked, exact, strict=True):
        found, _ = engine.nearest(vector, RECALL_AT + 1)
        others = true[(true != row) & (true >= 0)][:RECALL_AT]  # that it finds itself is no merit
        hits, total = hits + int(np.isin(others, found).sum()), total + len(others)
    return {"at": RECALL_AT, "photos asked": len(rows), "share": hits / total if total else 1.0}
