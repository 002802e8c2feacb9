"""A map's vectors in Milvus: Milvus Lite in a file, or a server, by one client.

A generation has a collection of its own, named after the map and what the collection holds. So a load that was killed
resumes where it left off, and the switch from one to the next is that of meta.json, which names it. Filters run in
Milvus, except the roundness of a circle: it sees the box around it, and the rest is checked here.

A collection has a partition for each region of the map, and a search names those in which photos may answer.
Partitions by name, not by a partition key: a key is hashed, so that regions share partitions as chance has it, and what
each of them should hold could not be counted.

    map/engines.json    what tells the map's collections from others, and where there may be some
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import read_json, write_json
from samespot.maps.engines.milvus_client import AwayError, Client, connected, is_server
from samespot.maps.engines.regions import Regions
from samespot.maps.folder import AGAIN, GENERATIONS, OWN_ENGINE, Generation, read_own
from samespot.maps.limits import Limits, Range, Rules
from samespot.retrieval.shortlist import GATHERED, Listed, exactly, measured

OURS = "engines.json"
MOST = 16_384  # rows that Milvus lists at most
LONGEST = 65_535  # bytes of a word that Milvus holds
LINKS, EF_CONSTRUCTION, EF, MOST_EF = 16, 64, 128, 32_768  # of HNSW
ONE_BY_ONE = 50_000  # allowed photos up to which this process compares them sooner than a graph finds them
PATIENCE = 5.0  # [s] that a question waits for a server that is away
SLOWEST = 20.0  # [s] that a search may take


class MilvusEngine:
    """An `Engine`: a collection of Milvus, which holds the vectors of one generation."""

    def __init__(
        self,
        client: Client,
        facts: dict[str, Any],
        vectors: NDArray[np.float16],
        regions: Regions,
        again: str,
        patience: float = PATIENCE,
    ) -> None:
        self._client, self._vectors, self._again = client.waiting(patience), vectors, again
        self._uri, self._collection = str(facts["uri"]), str(facts["collection"])
        self._hnsw, self._regions = facts["index"] == "hnsw", regions

    def nearest(self, vector: NDArray[np.float32], count: int, limits: Limits | None = None) -> Listed:
        allowed = None if limits is None else limits.allowed
        words, where, harder = "", {}, 1.0
        if limits is not None:
            may = int(limits.allowed.sum())
            if not may:
                return np.zeros(0, dtype=np.int64), np.zeros(0)
            touched = self._regions.touched(limits.allowed)
            held = int(self._regions.sizes[touched].sum())
            if self._hnsw and may <= max(GATHERED * held, ONE_BY_ONE):
                # a graph finds few of them: 0.6 on a server
                return exactly(vector, self._vectors, count, allowed)
            words = expression(limits.rules)
            harder = held / may  # a graph is walked through what is not allowed, too
            if held < len(self._vectors):
                where = {"partition_names": [partition(region) for region in touched]}
        asked = np.asarray(vector, dtype=np.float32)

        def ask(listed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            how = {"ef": min(int(harder * max(EF, listed)), MOST_EF)} if self._hnsw else {}
            try:
                hits = self._client.search(
                    self._collection,
                    data=[asked],
                    limit=listed,
                    filter=words,
                    output_fields=["id"],
                    search_params={"metric_type": "L2", "params": how},
                    consistency_level="Bounded",
                    timeout=SLOWEST,
                    **where,
                )[0]
            except AwayError:
                raise
            except InputError:
                if not self._client.has_collection(self._collection):
                    raise InputError(_gone(self._uri, self._collection, self._again)) from None
                raise
            rows = np.array([hit["id"] for hit in hits], dtype=np.int64)
            return rows, np.array([hit["distance"] for hit in hits], dtype=np.float32)

        return measured(ask, asked, self._vectors, count, allowed, most=MOST)


def partition(region: int) -> str:
    """The name of the partition that holds a region."""
    return f"region_{region}"


def expression(rules: Rules) -> str:
    """A filter in the words of Milvus."""
    told = [" or ".join(_range(one) for one in one_of) for one_of in rules.ranges]
    if rules.condition is not None and len(rules.condition.encode()) <= LONGEST:
        word = rules.condition.replace("\\", "\\\\").replace('"', '\\"')
        told.append(f'condition == "{word}"')
    return " and ".join(f"({one})" for one in told)


def _range(one: Range) -> str:
    sides = ((">=", one.least), ("<=", one.most))
    told = [f"{one.column} {sign} {float(side)!r}" for sign, side in sides if np.isfinite(side)]
    return f"({' and '.join(told)})"


def _gone(uri: str, collection: str, again: str) -> str:
    return f"{uri}: its collection {collection} is gone; {again}"


def opened(generation: Generation, facts: dict[str, Any]) -> MilvusEngine:
    """The engine of a generation; one line where Milvus does not hold what it should."""
    uri, collection = str(facts["uri"]), str(facts["collection"])
    again = f"`samespot index --out {generation.folder} --engine milvus` loads it again"
    if not is_server(uri) and not Path(uri).exists():
        raise InputError(f"{uri}: no such file; {again}")
    client = connected(uri).waiting(PATIENCE)
    if not client.has_collection(collection):
        raise InputError(_gone(uri, collection, again))
    dims, held = dims_of(client, collection), count(client, collection)
    own = generation.vectors.shape[1]
    if dims != own:
        raise InputError(
            f"{uri}: its collection {collection} is of {dims} dims, and the map of {own}; {again}"
        )
    if held != len(generation):
        raise InputError(
            f"{uri}: its collection {collection} holds {held:,} photos, and the map {len(generation):,}; {again}"
        )
    # a collection of before there were regions is searched whole
    regions = Regions.cut(generation.places.positions[:, :2], int(facts.get("regions", 1)))
    return MilvusEngine(client, facts, generation.vectors, regions, again)


def is_whole(facts: dict[str, Any], photos: int) -> bool:
    """Whether Milvus holds what it should."""
    collection = str(facts["collection"])
    client = connected(str(facts["uri"])).waiting(PATIENCE)
    if not client.has_collection(collection):
        return False
    return dims_of(client, collection) == int(facts["dims"]) and count(client, collection) == photos


def dims_of(client: Client, collection: str) -> int | None:
    """Of the vectors in a collection."""
    fields = client.describe_collection(collection)["fields"]
    found = [one["params"].get("dim") for one in fields if one["name"] == "vector"]
    return int(found[0]) if found else None


def count(client: Client, collection: str, region: int | None = None) -> int:
    """Photos in a collection, or in a region of it, as they are at this moment."""
    client.load_collection(collection)
    where = {} if region is None else {"partition_names": [partition(region)]}
    # with a condition: without one, Milvus Lite counts all partitions
    told = client.query(
        collection, filter="id >= 0", output_fields=["count(*)"], consistency_level="Strong", **where
    )
    return int(told[0]["count(*)"])


# ---- whose collections ----


def prefix(folder: Path, uri: str) -> str:
    """What the names of this map's collections begin with. A copy of the map elsewhere has another one, so that it does
    not remove what this one needs."""
    ours = folder / OURS
    new: dict[str, Any] = {"id": secrets.token_hex(8), "uris": []}
    kept = read_json(ours, AGAIN) if ours.is_file() else new
    if uri not in kept["uris"]:
        kept["uris"].append(uri)
        write_json(ours, kept)
    return _named(folder, kept["id"])


def _named(folder: Path, own: str) -> str:
    return f"samespot_{hashlib.sha256(f'{own} {os.path.abspath(folder)}'.encode()).hexdigest()[:12]}"


def drop_unneeded(folder: Path) -> None:
    """Remove the map's collections that no generation in its folder names; where Milvus is away, or a generation does
    not tell which is its own, the next time."""
    ours = folder / OURS
    if not ours.is_file():
        return
    kept = read_json(ours, AGAIN)
    told = [read_own(path / OWN_ENGINE) for path in (folder / GENERATIONS).iterdir() if path.name.isdecimal()]
    if any(one is None for one in told):
        return
    needed = {one.get("collection") for one in told}
    still = []
    for uri in kept["uris"]:
        left = True
        with suppress(InputError):
            left = _drop_others(uri, _named(folder, kept["id"]), needed)
        if left:
            still.append(uri)
    if still != kept["uris"]:
        write_json(ours, {**kept, "uris": still})


def _drop_others(uri: str, prefix: str, needed: set[Any]) -> bool:
    """Whether any of the map's collections are left there."""
    if not is_server(uri) and not Path(uri).exists():
        return False
    client = connected(uri)
    own = [name for name in client.list_collections() if name.startswith(prefix)]
    for name in own:
        if name not in needed:
            client.drop_collection(name)
    return bool(set(own) & needed)
