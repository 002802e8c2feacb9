"""The loop of re-ranking: local features of every photo are kept once, then each query's first photos are compared.

A `Reranker` says what is kept of a photo and how well two photos fit; everything else is the same for all of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.errors import InputError
from samespot.files import require_disk
from samespot.images.listing import ImageList
from samespot.images.options import OnBadImage
from samespot.images.preprocess import Preprocessing
from samespot.images.readers import Readers
from samespot.images.sources import BadImages, FileImages
from samespot.matching.options import CELL, TOP
from samespot.matching.reranked import Reranked
from samespot.memory import require_room
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.describe import blocks_left
from samespot.retrieval.descriptors import Begun, Descriptors, DescriptorWriter, facts_in
from samespot.retrieval.search import Found

Features = NDArray[np.float16]  # (n, width) all local features of a photo in a row; all zero: it has none


class Reranker(Protocol):
    """Compares photos by local features."""

    @property
    def name(self) -> str:
        """As results name it."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the features depend on; `model` among them. Features of other facts are not used."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the scores depend on besides."""

    @property
    def width(self) -> int:
        """Numbers kept of a photo."""

    @property
    def preprocessing(self) -> Preprocessing | None:
        """To which size photos are brought; None: each stays as it is."""

    @property
    def device(self) -> torch.device: ...

    @property
    def batch_size(self) -> int:
        """Photos at once."""

    def extract(self, images: Any) -> Tensor:
        """uint8 RGB (n, 3, h, w) on the device -> (n, width) float16. Without preprocessing: a list of n (3, h, w)."""

    def scores(self, query: Features, places: Features, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """How well a photo (width,) fits the photos `rows` (k,) of kept ones (m, width): (k,), higher is better."""


def rerank(
    found: Found,
    queries: Places,
    places: Places,
    reranker: Reranker,
    top: int = TOP,
    *,
    store: FeatureStore | None = None,
    name: str = "photos",
    progress: Progress | None = None,
) -> Reranked:
    """The first `top` of each list in the order of their scores; those below stay below, in the order they had.

    Of equal scores the earlier stays first; -1, nothing found, stays last. store: where the features are kept
    (by default in memory), under `name`. progress: given ("local features" or "re-ranking", done, of how many).
    """
    if top < 1:
        raise InputError(f"re-ranking the first {top}: give at least 1")
    if len(found.rows) != len(queries) or found.rows.max(initial=-1) >= len(places):
        raise InputError(
            f"{len(found.rows)} lists of map rows do not fit {len(queries)} queries and a map of {len(places)}; "
            "give the tables that were searched"
        )
    store = store or FeatureStore()
    there = store.features(reranker, places, f"{name}-map", progress)
    asked = (
        there if queries is places else store.features(reranker, queries, f"{name}-queries", progress)
    )  # a map against itself is looked at once
    rows, distances = found.rows.copy(), found.distances.copy()
    scores = np.full(rows.shape, np.nan)
    for query in range(len(rows)):
        listed = rows[query, :top]
        known = np.flatnonzero(listed >= 0)
        if len(known):
            given = np.asarray(reranker.scores(asked[query], there, listed[known]), dtype=np.float64)
            order = known[np.argsort(-given, kind="stable")]
            moved = np.concatenate([order, np.flatnonzero(listed < 0)])
            rows[query, :top], distances[query, :top] = listed[moved], distances[query, :top][moved]
            scores[query, : len(known)] = -np.sort(-given)
        if progress is not None:
            progress("re-ranking", query + 1, len(rows))
    return Reranked(rows, distances, scores)


@dataclass(frozen=True)
class FeatureStore:
    """Keeps the local features of each table: in a folder of its own below `folder`, or in memory without one.

    A folder that a kill left half filled is continued; one of other photos or of another reranker is replaced.
    """

    folder: Path | None = None
    on_bad_image: OnBadImage = "fail"
    workers: int | None = None  # threads that read images
    _held: dict[tuple[str, str, str], Features] = field(default_factory=dict)  # without a folder

    def features(
        self, reranker: Reranker, places: Places, name: str, progress: Progress | None = None
    ) -> Features:
        """(n, width) of every photo of the table; computed once."""
        facts = {
            **reranker.facts,
            "reranker": reranker.name,
            "places": places.digest(),
            "images": len(places),
            "dims": reranker.width,
            "dtype": "float16",
        }
        if self.folder is None:
            return self._in_memory(reranker, places, facts, progress)
        folder = self.folder / name.replace("/", "-").replace(" ", "-")
        there = facts_in(folder)
        if there and any(there.get(key) != value for key, value in facts.items()):
            shutil.rmtree(folder)
        _refuse_full_disk(folder, facts)
        writer = DescriptorWriter(folder, facts)
        begun = writer.begin(places)
        if not begun.finished:
            writer.open()
            try:
                bad = self._fill(reranker, places, begun, writer.write, progress)
            finally:
                writer.close()
            writer.finish({**begun.bad, **bad})
        kept: Features = Descriptors.open(folder).vectors
        return kept

    def _in_memory(
        self, reranker: Reranker, places: Places, facts: Mapping[str, Any], progress: Progress | None
    ) -> Features:
        key = (str(places.root), places.digest(), str(facts))
        if key not in self._held:
            size = 2 * len(places) * reranker.width
            require_room(size, torch.device("cpu"), "all local features in memory", "give a folder for them")
            rows = np.zeros((len(places), reranker.width), dtype=np.float16)

            def write(start: int, features: Features, bad: dict[int, str]) -> None:
                rows[start : start + len(features)] = features

            self._fill(reranker, places, Begun(), write, progress)
            self._held[key] = rows
        return self._held[key]

    def _fill(
        self,
        reranker: Reranker,
        places: Places,
        begun: Begun,
        write: Callable[[int, Features, dict[int, str]], None],
        progress: Progress | None,
    ) -> dict[int, str]:
        """Extract what is not done yet, block by block; the images that could not be read are returned."""
        files = self._files(places, reranker)
        load: Callable[[NDArray[np.int64]], Any] = files.load
        blocks = blocks_left(len(places), reranker.batch_size, begun.done, begun.gone)
        left = sum(stop - start for start, stop in blocks)
        with ThreadPoolExecutor(1) as ahead:  # the next block is read while this one is looked at
            try:
                waiting = [ahead.submit(load, np.arange(*block)) for block in blocks[:1]]
                for number, (start, stop) in enumerate(blocks):
                    loaded = waiting.pop().result()
                    waiting += [
                        ahead.submit(load, np.arange(*block)) for block in blocks[number + 1 : number + 2]
                    ]
                    features = reranker.extract(loaded.values).cpu().numpy()
                    features[~loaded.good] = 0
                    missing = np.arange(start, stop)[~loaded.good].tolist()
                    write(start, features, {row: files.bad.reasons[row] for row in missing})
                    left -= stop - start
                    if progress is not None:
                        progress("local features", len(places) - left, len(places))
            finally:
                files.close()
        return dict(files.bad.reasons)

    def _files(self, places: Places, reranker: Reranker) -> FileImages | _AsTheyAre:
        bad = BadImages(self.on_bad_image)
        if reranker.preprocessing is None:
            return _AsTheyAre(places, self.workers, bad)
        images = ImageList([places])
        return FileImages(images, reranker.preprocessing, reranker.device, workers=self.workers, bad=bad)


@dataclass(frozen=True)
class _Read:
    values: list[Tensor]  # uint8 RGB (3, h, w)
    good: NDArray[np.bool_]


class _AsTheyAre:
    """Reads photos in their own sizes; one that cannot be read is a black one."""

    def __init__(self, places: Places, workers: int | None, bad: BadImages) -> None:
        self.bad, self._photos = bad, places.images
        self._readers = Readers(workers, self._photos)

    def load(self, numbers: NDArray[np.int64]) -> _Read:
        photos = [self._photos[number] for number in numbers]
        read = list(
            self._readers.pool.map(lambda photo: self._readers.look(photo, lambda image: image), photos)
        )
        for number, one in zip(numbers.tolist(), read, strict=True):
            if isinstance(one, InputError):
                self.bad.add(number, one)
        black = torch.zeros((3, CELL, CELL), dtype=torch.uint8)
        values = [black if isinstance(one, InputError) else one for one in read]
        return _Read(values, np.array([not isinstance(one, InputError) for one in read]))

    def close(self) -> None:
        self._readers.pool.shutdown(wait=False, cancel_futures=True)


def _refuse_full_disk(folder: Path, facts: Mapping[str, Any]) -> None:
    """Before hours are spent, and in words of re-ranking."""
    size = 2 * int(facts["images"]) * int(facts["dims"])
    if not facts_in(folder):
        what = f"the local features of {facts['images']} photos"
        require_disk(size, folder, what, "keep less of each photo (`rerank_dims`, `rerank_keypoints`)")


@dataclass(frozen=True)
class Reranking:
    """What an evaluation is to re-rank, by what, and how far down the lists."""

    reranker: Reranker
    top: int = TOP
    of: str | None = None  # name of the descriptor whose lists are re-ranked; None: as the network gives it
    store: FeatureStore = field(default_factory=FeatureStore)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"by": self.reranker.name, "top": self.top, **self.reranker.facts, **self.reranker.settings}
