"""A map's vectors in Milvus: Milvus Lite in a file, or a server, by one client.

A generation has a collection of its own, named after the map and what the collection holds. So a load that was killed
resumes where it left off, and the switch from one to the next is that of meta.json, which names it. Filters run in
Milvus, except the roundness of a circle: it sees the box around it, and the rest is checked here.

    map/engines.json    what tells the map's collections from others, and where there may be some
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import read_json, write_json
from samespot.maps.engines.engine import recall_of
from samespot.maps.folder import AGAIN, GENERATIONS, OWN_ENGINE, Generation, read_own
from samespot.maps.limits import NUMBERS, Columns, Limits, Range, Rules
from samespot.maps.options import EngineOptions
from samespot.progress import Progress
from samespot.retrieval.shortlist import GATHERED, Listed, exactly, measured

TOKEN = "SAMESPOT_MILVUS_TOKEN"
OURS = "engines.json"
SECONDS = 60.0  # to wait for an answer
CONNECTING = 10.0
TRIES = 4  # to open a file, a second apart: a process that has just ended may hold it a moment longer
AT_ONCE = 2_000  # rows that are sent in one go
MOST = 16_384  # rows that Milvus lists at most
LONGEST = 65_535  # bytes of a word that Milvus holds
LINKS, EF_CONSTRUCTION, EF, MOST_EF = 16, 64, 128, 32_768  # of HNSW
_URIS = "a file such as ./map.db (Milvus Lite), or a server such as http://localhost:19530"


# ---- connecting ----


def checked_uri(uri: str | None) -> str:
    """An address of Milvus, in full; one line for what is none. A password is not for meta.json, nor for a screen."""
    if uri is None:
        raise InputError(f"`engine=milvus` needs `uri`: {_URIS}")
    parts = urlsplit(uri)
    if parts.username or parts.password:
        raise InputError(
            f"`uri` holds a name or password; give them as {TOKEN}=name:password in the environment"
        )
    if not _is_server(uri) and not uri.endswith(".db"):
        raise InputError(f"`uri` {uri!r} is no address of Milvus; give {_URIS}")
    return (
        uri if _is_server(uri) else os.path.abspath(uri)
    )  # where a file is does not depend on where one stands


def _is_server(uri: str) -> bool:
    return urlsplit(uri).scheme in ("http", "https", "tcp", "unix")


def connected(uri: str) -> Any:
    """A client; one line where there is no Milvus."""
    try:
        from pymilvus import MilvusClient
    except ImportError:
        raise InputError(
            "`engine=milvus` needs the package pymilvus, which is not installed; run `pip install 'samespot[milvus]'`"
        ) from None
    for name in ("pymilvus", "milvus_lite", "grpc"):  # what goes wrong is told in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    local = not _is_server(uri)
    if local and find_spec("milvus_lite") is None:
        raise InputError(
            f"{uri}: a file needs the package milvus-lite; run `pip install 'samespot[milvus]'`, or use a server"
        )
    if local and not Path(uri).parent.is_dir():
        raise InputError(f"{uri}: there is no folder {Path(uri).parent}; make it first")
    from pymilvus.exceptions import MilvusException

    tries = TRIES if local else 1
    for left in reversed(range(tries)):
        try:
            client = MilvusClient(uri, token=os.environ.get(TOKEN, ""), timeout=CONNECTING)
            client.list_collections(timeout=CONNECTING)
            break
        except Exception as error:
            if not (isinstance(error, MilvusException | OSError) or _of_grpc(error)):
                raise
            if not left:
                raise InputError(_why_not(uri, local, error)) from None
            time.sleep(1.0)
    return client


def _why_not(uri: str, local: bool, error: Exception) -> str:
    if local:
        return (
            f"{uri}: Milvus Lite cannot open it ({_line(error)}); one process at a time can: end the other one, or"
            " use a server"
        )
    told = _line(error)
    if "auth" in told.lower() or "token" in told.lower():
        return f"{uri}: Milvus refuses this user; set {TOKEN} in the environment"
    return f"{uri}: no Milvus answers there ({told}); check the address, and that the server runs"


def _line(error: Exception) -> str:
    told = getattr(error, "message", "") or str(error) or type(error).__name__
    token = os.environ.get(TOKEN)
    told = " ".join(str(told).split())
    return (told.replace(token, "…") if token else told)[:200]


def _of_grpc(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] == "grpc"


@contextmanager
def _told(uri: str) -> Iterator[None]:
    """What Milvus says is wrong, as one line."""
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except MilvusException as error:
        raise InputError(f"{uri}: Milvus says: {_line(error)}") from None
    except Exception as error:
        if not _of_grpc(error):
            raise
        raise InputError(f"{uri}: Milvus does not answer any more ({_line(error)})") from None


# ---- asking ----


class MilvusEngine:
    """An `Engine`: a collection of Milvus, which holds the vectors of one generation."""

    def __init__(self, client: Any, facts: dict[str, Any], vectors: NDArray[np.float16], again: str) -> None:
        self._client, self._vectors, self._again = client, vectors, again
        self._uri, self._collection = str(facts["uri"]), str(facts["collection"])
        self._hnsw = facts["index"] == "hnsw"

    def nearest(self, vector: NDArray[np.float32], count: int, limits: Limits | None = None) -> Listed:
        if limits is not None and not limits.allowed.any():
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        if self._hnsw and limits is not None and limits.allowed.sum() <= GATHERED * len(limits.allowed):
            return exactly(
                vector, self._vectors, count, limits.allowed
            )  # a graph finds few of them: 0.6 on a server
        words = "" if limits is None else expression(limits.rules)
        # a graph is walked through what is not allowed, too, so the walk must be longer
        harder = 1.0 if limits is None else len(limits.allowed) / limits.allowed.sum()
        asked = np.asarray(vector, dtype=np.float32)

        def ask(listed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            how = {"ef": min(int(harder * max(EF, listed)), MOST_EF)} if self._hnsw else {}
            try:
                with _told(self._uri):
                    hits = self._client.search(
                        self._collection,
                        data=[asked],
                        limit=listed,
                        filter=words,
                        output_fields=["id"],
                        search_params={"metric_type": "L2", "params": how},
                        consistency_level="Bounded",
                        timeout=SECONDS,
                    )[0]
            except InputError:
                with _told(self._uri):
                    there = self._client.has_collection(self._collection, timeout=SECONDS)
                if not there:
                    raise InputError(_gone(self._uri, self._collection, self._again)) from None
                raise
            rows = np.array([hit["id"] for hit in hits], dtype=np.int64)
            return rows, np.array([hit["distance"] for hit in hits], dtype=np.float32)

        allowed = None if limits is None else limits.allowed
        return measured(ask, asked, self._vectors, count, allowed, most=MOST)


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
    if not _is_server(uri) and not Path(uri).exists():
        raise InputError(f"{uri}: no such file; {again}")
    client = connected(uri)
    with _told(uri):
        if not client.has_collection(collection, timeout=SECONDS):
            raise InputError(_gone(uri, collection, again))
        dims, held = _dims(client, collection), _count(client, collection)
    own = generation.vectors.shape[1]
    if dims != own:
        raise InputError(
            f"{uri}: its collection {collection} is of {dims} dims, and the map of {own}; {again}"
        )
    if held != len(generation):
        raise InputError(
            f"{uri}: its collection {collection} holds {held:,} photos, and the map {len(generation):,}; {again}"
        )
    return MilvusEngine(client, facts, generation.vectors, again)


def is_whole(facts: dict[str, Any], photos: int) -> bool:
    """Whether Milvus holds what it should."""
    uri, collection = str(facts["uri"]), str(facts["collection"])
    client = connected(uri)
    with _told(uri):
        if not client.has_collection(collection, timeout=SECONDS):
            return False
        return _dims(client, collection) == int(facts["dims"]) and _count(client, collection) == photos


def _dims(client: Any, collection: str) -> int | None:
    fields = client.describe_collection(collection, timeout=SECONDS)["fields"]
    found = [one["params"].get("dim") for one in fields if one["name"] == "vector"]
    return int(found[0]) if found else None


def _count(client: Any, collection: str) -> int:
    client.load_collection(collection, timeout=SECONDS)
    told = client.query(
        collection, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=SECONDS
    )
    return int(told[0]["count(*)"])


# ---- loading ----


def load(
    asked: EngineOptions, folder: Path, vectors: NDArray[np.float16], columns: Columns, tell: Progress
) -> dict[str, Any]:
    """Bring vectors and what they can be filtered by into a collection; returns what meta.json says of it.

    What a killed load left there stays; the rest is added, and in the end all are counted.
    """
    assert asked.uri is not None
    uri = asked.uri
    client = connected(uri)
    collection = f"{_prefix(folder, uri)}_{_digest(vectors, columns, asked.milvus_index)}"
    facts = {
        "name": "milvus",
        "uri": uri,
        "collection": collection,
        "index": asked.milvus_index,
        "dims": vectors.shape[1],
    }
    with _told(uri):
        for attempt in ("resumed", "afresh"):
            if not client.has_collection(collection, timeout=SECONDS):
                _create(client, collection, vectors.shape[1], asked.milvus_index)
            held = _count(client, collection)
            if held < len(vectors):
                _send(client, collection, vectors, columns, held // AT_ONCE * AT_ONCE, tell)
                client.flush(collection, timeout=10 * SECONDS)
                held = _count(client, collection)
            if held == len(vectors):
                break
            if attempt == "resumed":  # not of us, or Milvus lost some
                client.drop_collection(collection, timeout=SECONDS)
        else:
            raise InputError(
                f"{uri}: Milvus holds {held:,} of {len(vectors):,} photos after all were sent; look at its own log"
            )
    if asked.milvus_index == "hnsw":
        tell("recall", 0, 0)
        facts["recall"] = recall_of(MilvusEngine(client, facts, vectors, "run it again"), vectors)
    return facts


def _prefix(folder: Path, uri: str) -> str:
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


def _digest(vectors: NDArray[np.float16], columns: Columns, index: str) -> str:
    """Of everything that a collection holds."""
    digest = hashlib.blake2b(f"1 {index} {vectors.shape}".encode(), digest_size=8)
    for start in range(0, len(vectors), AT_ONCE):
        digest.update(vectors[start : start + AT_ONCE].tobytes())
    for name in NUMBERS:
        digest.update(columns.numbers(name).tobytes())
    digest.update("\n".join(columns.conditions).encode())
    return digest.hexdigest()


def _create(client: Any, collection: str, dims: int, index: str) -> None:
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.INT64, is_primary=True)  # row of the map
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dims)
    for name in NUMBERS:
        schema.add_field(name, DataType.DOUBLE)
    schema.add_field("condition", DataType.VARCHAR, max_length=LONGEST)
    how = client.prepare_index_params()
    built = {"M": LINKS, "efConstruction": EF_CONSTRUCTION} if index == "hnsw" else {}
    how.add_index("vector", index_type=index.upper(), metric_type="L2", params=built)
    client.create_collection(collection, schema=schema, index_params=how, timeout=SECONDS)


def _send(
    client: Any, collection: str, vectors: NDArray[np.float16], columns: Columns, start: int, tell: Progress
) -> None:
    numbers = {name: columns.numbers(name) for name in NUMBERS}
    for first in range(start, len(vectors), AT_ONCE):
        last = min(first + AT_ONCE, len(vectors))
        some = np.asarray(vectors[first:last], dtype=np.float32)
        rows = [
            {
                "id": row,
                "vector": some[row - first],
                **{name: float(values[row]) for name, values in numbers.items()},
                "condition": columns.conditions[row].encode()[:LONGEST].decode(errors="ignore"),
            }
            for row in range(first, last)
        ]
        client.upsert(collection, rows, timeout=SECONDS)
        tell("loading into Milvus", last, len(vectors))


# ---- removing ----


def drop_unneeded(folder: Path) -> None:
    """Remove the map's collections that no generation in its folder names; where Milvus is away, the next time."""
    ours = folder / OURS
    if not ours.is_file():
        return
    kept = read_json(ours, AGAIN)
    needed = [read_own(path / OWN_ENGINE) or {} for path in (folder / GENERATIONS).iterdir()]
    needed_there = {one.get("collection") for one in needed}
    still = []
    for uri in kept["uris"]:
        left = True
        with suppress(InputError):
            left = _drop_others(uri, _named(folder, kept["id"]), needed_there)
        if left:
            still.append(uri)
    if still != kept["uris"]:
        write_json(ours, {**kept, "uris": still})


def _drop_others(uri: str, prefix: str, needed: set[Any]) -> bool:
    """Whether any of the map's collections are left there."""
    if not _is_server(uri) and not Path(uri).exists():
        return False
    client = connected(uri)
    with _told(uri):
        own = [name for name in client.list_collections(timeout=SECONDS) if name.startswith(prefix)]
        for name in own:
            if name not in needed:
                client.drop_collection(name, timeout=SECONDS)
    return bool(set(own) & needed)
