"""From a map to a collection of Milvus: region by region, by several connections, counted in the end.

What is in Milvus already is asked of Milvus, and no record is kept here that could be wrong: first how many photos each
region has, and where some are lacking, which. So whatever was interrupted, the command, the machine or the server, the
same command goes on with what is lacking. Photos are named by their rows, so none is there twice.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import RESUMES
from samespot.maps.engines.engine import recall_of
from samespot.maps.engines.milvus import (
    EF_CONSTRUCTION,
    LINKS,
    LONGEST,
    MilvusEngine,
    count,
    partition,
    prefix,
)
from samespot.maps.engines.milvus_client import SECONDS, AwayError, Client, connected
from samespot.maps.engines.regions import Regions, how_many
from samespot.maps.limits import NUMBERS, Columns
from samespot.maps.options import EngineOptions
from samespot.progress import Progress

AT_ONCE = 2_000  # rows that are sent in one go
SENDERS = 4  # connections, each with a thread of its own
AHEAD = 2  # batches per sender that wait, so that memory does not depend on the map
PATIENCE = 60.0  # [s] that a load waits for a server that is away; a restart takes 20 to 50
VERSION = 2  # of what a collection holds, and how
Rows = NDArray[np.int64]


def load(
    asked: EngineOptions, folder: Path, vectors: NDArray[np.float16], columns: Columns, tell: Progress
) -> dict[str, Any]:
    """Bring vectors and what they can be filtered by into a collection; returns what meta.json says of it."""
    assert asked.uri is not None
    client = connected(asked.uri, patience=PATIENCE)
    at = np.column_stack([columns.numbers("easting"), columns.numbers("northing")])
    regions = Regions.cut(at, how_many(len(vectors)))
    digest = _digest(vectors, columns, f"{VERSION} {asked.milvus_index} {how_many(len(vectors))}")
    facts = {
        "name": "milvus",
        "uri": asked.uri,
        "collection": f"{prefix(folder, asked.uri)}_{digest}",
        "index": asked.milvus_index,
        "dims": vectors.shape[1],
        "regions": how_many(len(vectors)),
    }
    todo = _Load(client, str(facts["collection"]), asked.milvus_index, vectors, columns, regions, tell)
    try:
        todo.run()
        if asked.milvus_index == "hnsw":
            tell("recall", 0, 0)
            engine = MilvusEngine(client, facts, vectors, regions, "run it again", PATIENCE)
            facts["recall"] = recall_of(engine, vectors)
    except AwayError as error:
        raise InputError(f"{error}; what is loaded is kept, and {RESUMES}") from None
    return facts


def _digest(vectors: NDArray[np.float16], columns: Columns, how: str) -> str:
    """Of everything that a collection holds."""
    digest = hashlib.blake2b(f"{how} {vectors.shape}".encode(), digest_size=8)
    for start in range(0, len(vectors), AT_ONCE):
        digest.update(vectors[start : start + AT_ONCE].tobytes())
    for name in NUMBERS:
        digest.update(columns.numbers(name).tobytes())
    digest.update("\n".join(columns.conditions).encode())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class _Batch:
    """Photos of one region that are sent in one go."""

    region: int
    rows: Rows
    some_there: bool  # whether Milvus may hold some of them


@dataclass(frozen=True, eq=False)
class _Load:
    client: Client
    collection: str
    index: str
    vectors: NDArray[np.float16]
    columns: Columns
    regions: Regions
    tell: Progress

    def run(self) -> None:
        """What a killed load left there stays; the rest is added, and in the end all are counted."""
        for last in (False, True):
            fresh = self._prepare()
            held = np.zeros_like(self.regions.sizes) if fresh else self._counts()
            if (held < self.regions.sizes).any():
                self._send(held)
                self.client.flush(self.collection, timeout=10 * SECONDS)
                held = self._counts()
            wrong = np.flatnonzero(held != self.regions.sizes)
            if not len(wrong):
                return
            if last or fresh:
                first = int(wrong[0])
                raise InputError(
                    f"{self.client.uri}: after all photos were sent, Milvus counts {held[first]:,} of"
                    f" {self.regions.sizes[first]:,} in {partition(first)} of {self.collection}, and"
                    f" {held.sum():,} of {len(self.vectors):,} in all; look at its own log, then run this again"
                )
            self.client.drop_collection(self.collection)  # not of us, or more than there should be

    def _prepare(self) -> bool:
        """Have a collection with its partitions and its index, as far as it has none; whether it is new."""
        from pymilvus import DataType, MilvusClient

        client, collection = self.client, self.collection
        new = not client.has_collection(collection)
        if new:
            schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("id", DataType.INT64, is_primary=True)  # row of the map
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=self.vectors.shape[1])
            for name in NUMBERS:
                schema.add_field(name, DataType.DOUBLE)
            schema.add_field("condition", DataType.VARCHAR, max_length=LONGEST)
            client.create_collection(collection, schema=schema)
        there = set(client.list_partitions(collection))
        for region in range(len(self.regions.sizes)):
            if partition(region) not in there:
                client.create_partition(collection, partition(region))
        if not client.list_indexes(collection):
            how = MilvusClient.prepare_index_params()
            built = {"M": LINKS, "efConstruction": EF_CONSTRUCTION} if self.index == "hnsw" else {}
            how.add_index("vector", index_type=self.index.upper(), metric_type="L2", params=built)
            client.create_index(collection, how)
        client.load_collection(collection)
        return new

    def _counts(self) -> NDArray[np.int64]:
        """(regions,) photos that Milvus holds. At the same time: each waits until all that was written can be seen."""
        every = range(len(self.regions.sizes))
        with ThreadPoolExecutor(2 * SENDERS) as pool:
            held = pool.map(lambda region: count(self.client, self.collection, region), every)
            return np.array(list(held), dtype=np.int64)

    def _batches(self, held: NDArray[np.int64]) -> Iterator[_Batch]:
        for region in np.flatnonzero(held < self.regions.sizes):
            rows = self.regions.rows(int(region))
            for start in range(0, len(rows), AT_ONCE):
                yield _Batch(int(region), rows[start : start + AT_ONCE], bool(held[region]))

    def _send(self, held: NDArray[np.int64]) -> None:
        """All that is lacking. held: (regions,) photos that Milvus has."""
        done, total = int(held[held >= self.regions.sizes].sum()), len(self.vectors)
        numbers = {name: self.columns.numbers(name) for name in NUMBERS}
        self.columns.conditions  # noqa: B018 - made once, not by each thread
        self.tell("loading into Milvus", done, total)
        with _Senders(self.client.uri) as senders:
            waiting: deque[Future[int]] = deque()

            def sent(client: Client, batch: _Batch) -> int:
                self._send_batch(client, batch, numbers)
                return len(batch.rows)

            def settle(left: int) -> None:
                nonlocal done
                while len(waiting) > left:
                    done += waiting.popleft().result()
                    self.tell("loading into Milvus", done, total)

            try:
                for batch in self._batches(held):
                    waiting.append(senders.submit(sent, batch))
                    settle(SENDERS * AHEAD)
                settle(0)
            except AwayError as error:
                raise AwayError(f"{error}; {done:,} of {total:,} photos are loaded") from None
            finally:
                for future in waiting:
                    future.cancel()

    def _send_batch(self, client: Client, batch: _Batch, numbers: dict[str, NDArray[np.float64]]) -> None:
        rows, where = batch.rows, partition(batch.region)
        if batch.some_there:
            there = client.query(
                self.collection,
                ids=rows.tolist(),
                output_fields=["id"],
                partition_names=[where],
                consistency_level="Strong",
            )
            rows = rows[~np.isin(rows, [one["id"] for one in there])]
        if not len(rows):
            return
        vectors = np.asarray(self.vectors[rows], dtype=np.float32)
        conditions = self.columns.conditions
        photos = [
            {
                "id": int(row),
                "vector": vector,
                **{name: float(values[row]) for name, values in numbers.items()},
                "condition": conditions[row].encode()[:LONGEST].decode(errors="ignore"),
            }
            for row, vector in zip(rows, vectors, strict=True)
        ]
        client.upsert(self.collection, photos, partition_name=where)


class _Senders:
    """Threads, each with a connection of its own."""

    def __init__(self, uri: str) -> None:
        self._uri, self._own, self._all = uri, threading.local(), deque[Client]()
        self._pool = ThreadPoolExecutor(SENDERS, thread_name_prefix="milvus")

    def submit(self, work: Callable[[Client, _Batch], int], batch: _Batch) -> Future[int]:
        return self._pool.submit(lambda: work(self._client, batch))

    @property
    def _client(self) -> Client:
        if not hasattr(self._own, "client"):
            self._own.client = connected(self._uri, own=True, patience=PATIENCE)
            self._all.append(self._own.client)
        client: Client = self._own.client
        return client

    def __enter__(self) -> _Senders:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for client in self._all:
            client.plain.close()
