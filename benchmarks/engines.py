"""Engines of a map by its size: time to build, bytes on disk, memory, time of a query, and recall against exact search.

    python benchmarks/engines.py --json docs/results/engines.json
    python benchmarks/engines.py --photos 1000,10000 --uri http://localhost:19530
    python benchmarks/engines.py --regions --photos 200000,1000000 --uri http://localhost:19530 --json FILE

The rival is exact search in the process, in the same run: times are told as ratios to it. Descriptors are generated,
256 numbers each in float16, clustered as photos around places: 50 to a place. Each engine runs in a process of its own;
its memory is what the process that asks has grown by, from before the engine is opened until all is asked; a server's
is its own and not counted. A query asks for the 100 nearest photos, as `locate` does, one query at a time; recall is of
the first ten. An engine whose build is expected to take longer than --most-minutes, by what it took at the size before,
is skipped, and the table says so.

--regions measures what the regions of a map are for: Milvus with a flat index, its collection in regions and in one
piece, asked with and without a position known to 1 km. The rival is the collection in one piece. Which photos the
circle holds is found beforehand, and its time told apart: it is the same for both.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DIMS, LISTED, FIRST, PLACE = 256, 100, 10, 50
PHOTOS = "1000,10000,100000,1000000"
FILTERED = "filtered"  # a query with a filter that leaves one photo in twenty
PRIOR = 1000.0  # [m] to which a position is known beforehand


def ways(uri: str | None, folder: Path) -> dict[str, dict[str, Any]]:
    """By name, the options of `samespot index`."""
    lite = str(folder / "map.db")
    found: dict[str, dict[str, Any]] = {
        "exact": {"engine": "exact"},
        "hnsw": {"engine": "hnsw"},
        "ivfpq": {"engine": "ivfpq"},
        "milvus lite, flat": {"engine": "milvus", "uri": lite},
        "milvus lite, hnsw": {"engine": "milvus", "uri": lite, "milvus_index": "hnsw"},
    }
    if uri is not None:
        found["milvus server, flat"] = {"engine": "milvus", "uri": uri}
        found["milvus server, hnsw"] = {"engine": "milvus", "uri": uri, "milvus_index": "hnsw"}
    return found


def write_vectors(path: Path, photos: int) -> None:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(photos, DIMS))
    for start in range(0, photos, 50_000):
        stop = min(start + 50_000, photos)
        out[start:stop] = clustered(photos, np.arange(start, stop) % max(photos // PLACE, 1), start)
    out.flush()


def clustered(photos: int, places: np.ndarray, seed: int) -> np.ndarray:
    """Unit vectors around places; a place is drawn by its number, so that queries stand at the same ones."""
    centres = np.random.default_rng(photos).standard_normal((max(photos // PLACE, 1), DIMS), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    noise = np.random.default_rng([1, seed]).standard_normal((len(places), DIMS), dtype=np.float32)
    vectors = centres[places] + noise * np.float32(0.7 / DIMS**0.5)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def table(photos: int) -> Any:
    """Where generated photos were taken: those of one place lie together."""
    import pandas as pd

    from samespot.places.table import Places

    dice, places = np.random.default_rng(3), np.arange(photos) % max(photos // PLACE, 1)
    side = 100.0 * np.ceil(np.sqrt(photos / PLACE))
    at = np.random.default_rng(4).uniform(0, side, (places.max() + 1, 2))[places] + dice.normal(
        0, 5, (photos, 2)
    )
    return Places(
        Path("photos"),
        pd.DataFrame(
            {
                "image": np.arange(photos).astype(str),
                "easting": at[:, 0],
                "northing": at[:, 1],
                "heading": dice.uniform(0, 360, photos),
            }
        ),
    )


def told(work: Callable[..., dict[str, Any]], answer: Any, *given: Any) -> None:
    """In a process of its own; what is wrong is told in the table."""
    try:
        answer.put(work(*given))
    except Exception as error:
        answer.put({"failed": " ".join(str(error).split())[:200]})


def build(photos: int, options: dict[str, Any], folder: Path, whole: bool = False) -> dict[str, Any]:
    """whole: in one region."""
    from samespot.maps.engines import regions
    from samespot.maps.engines.engine import asked_for, make_engine
    from samespot.maps.folder import generation_folder
    from samespot.progress import silent

    vectors, places = np.load(folder / "vectors.npy", mmap_mode="r"), table(photos)
    here = generation_folder(folder, 1)
    here.mkdir(parents=True, exist_ok=True)
    if whole:
        regions.MOST = 1
    begun = time.perf_counter()
    facts = make_engine(asked_for(options, None), folder, here, vectors, places, silent)
    return {"facts": facts, "build_s": time.perf_counter() - begun, "bytes": on_disk(facts, folder)}


def ask(photos: int, facts: dict[str, Any], folder: Path, queries: int) -> dict[str, Any]:
    from samespot.maps.engines.engine import Exact, open_engine
    from samespot.maps.filters import FilterOptions
    from samespot.maps.folder import Generation
    from samespot.maps.limits import Columns, limits_of
    from samespot.maps.map import IN_MEMORY

    vectors, places = np.load(folder / "vectors.npy", mmap_mode="r"), table(photos)
    generation = Generation(folder, 1, {"engine": facts}, places, vectors, None, np.zeros(photos), ())
    asked = clustered(photos, np.random.default_rng(5).integers(0, max(photos // PLACE, 1), queries), 10**9)
    few = limits_of(
        FilterOptions.of({"heading": "90,9"}), places, Columns(places), "map"
    )  # one photo in twenty
    Exact(np.eye(DIMS, dtype=np.float32)).nearest(asked[0], 1)  # what is compiled is no memory of an engine

    def in_process() -> Exact:
        return Exact(np.asarray(vectors, dtype=np.float32) if photos <= IN_MEMORY else vectors)

    before, begun = resident(), time.perf_counter()
    engine = open_engine(generation, in_process)
    found: dict[str, Any] = {"open_s": time.perf_counter() - begun}
    for name, limits in (("query_ms", None), (f"{FILTERED}_ms", few)):
        engine.nearest(asked[0], LISTED, limits)
        taken, rows = [], []
        for vector in asked:
            begun = time.perf_counter()
            rows.append(engine.nearest(vector, LISTED, limits)[0][:FIRST].tolist())
            taken.append(time.perf_counter() - begun)
        found |= {name: 1e3 * float(np.median(taken)), f"{name} rows": rows}
    return {**found, "memory": resident() - before}


def ask_with_prior(
    photos: int, made: dict[str, dict[str, Any]], folder: Path, queries: int
) -> dict[str, Any]:
    """Each query with no filter, and with a circle around a spot some hundred metres from its place. The collections
    take turns, since other work on the machine comes and goes. made: by name, the facts of each."""
    from samespot.maps.engines.engine import Exact, open_engine
    from samespot.maps.engines.regions import Regions
    from samespot.maps.filters import FilterOptions
    from samespot.maps.folder import Generation
    from samespot.maps.limits import Columns, limits_of

    vectors, places = np.load(folder / "vectors.npy", mmap_mode="r"), table(photos)
    exact, columns, at = Exact(vectors), Columns(places), places.positions[:, :2]
    engines = {
        name: open_engine(
            Generation(folder, 1, {"engine": facts}, places, vectors, None, np.zeros(photos), ()),
            lambda: exact,
        )
        for name, facts in made.items()
    }
    cuts = {name: Regions.cut(at, facts["regions"]) for name, facts in made.items()}
    of = np.random.default_rng(5).integers(0, max(photos // PLACE, 1), queries)
    guesses = at[of] + np.random.default_rng(6).normal(0, PRIOR / 3, (queries, 2))
    found: dict[str, dict[str, list[float]]] = {name: {} for name in made}
    for vector, (east, north) in zip(clustered(photos, of, 10**9), guesses, strict=True):
        begun = time.perf_counter()
        near = FilterOptions.of({"near": f"{east}m,{north}m,{PRIOR}"})
        limits = limits_of(near, places, columns, "map")
        assert limits is not None
        circle = time.perf_counter() - begun
        true = exact.nearest(vector, LISTED, limits)[0].tolist()
        for name, engine in engines.items():
            told = {"limits_ms": 1e3 * circle, "allowed": float(limits.allowed.mean())}
            for word, given in (("query_ms", None), ("prior_ms", limits)):
                begun = time.perf_counter()
                rows, _ = engine.nearest(vector, LISTED, given)
                told[word] = 1e3 * (time.perf_counter() - begun)
            told |= {"touched": len(cuts[name].touched(limits.allowed)), "as exact": rows.tolist() == true}
            for word, number in told.items():
                found[name].setdefault(word, []).append(number)
    middle = {"query_ms", "prior_ms", "limits_ms"}
    return {
        name: {
            "regions": len(cuts[name].sizes),
            **{word: float((np.median if word in middle else np.mean)(some)) for word, some in one.items()},
        }
        for name, one in found.items()
    }


def on_disk(facts: dict[str, Any], folder: Path) -> int | None:
    """Of what the engine keeps beside the map's vectors."""
    if facts["name"] == "exact":
        return 0
    if "bytes" in facts:
        return int(facts["bytes"])
    path = folder / "map.db"
    if facts["uri"] != str(path):
        return None
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


def resident() -> int:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) * 1024 if match else 0


def alone(work: Callable[..., dict[str, Any]], seconds: float, *given: Any) -> dict[str, Any]:
    """In a process of its own, so that none warms up, or fills the memory of, another."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=told, args=(work, answer, *given))
    process.start()
    try:
        found: dict[str, Any] = answer.get(timeout=seconds)
    except queue.Empty:
        process.kill()
        found = {"skipped": f"stopped after {seconds / 60:.0f} minutes"}
    process.join()
    return found


def compare(
    photos: int, uri: str | None, queries: int, most: float, only: list[str], before: dict[str, Any]
) -> dict[str, Any]:
    """All engines at one size. before: seconds that each took to build at the size before, and that size."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_vectors(folder / "vectors.npy", photos)
        for name, options in ways(uri, folder).items():
            if only and name not in (*only, "exact"):
                continue
            took, size = before.get(name, (0.0, photos))
            if (expected := took * photos / size) > 60 * most and name != "exact":
                found[name] = {"skipped": f"would take about {expected / 60:.0f} minutes"}
            else:
                made = alone(build, 60 * most, photos, options, folder)
                if facts := made.pop("facts", None):
                    made |= alone(ask, 60 * most, photos, facts, folder, queries)
                found[name], before[name] = made, (made.get("build_s", 0.0), photos)
                if uri is not None and options.get("uri") == uri and facts:
                    remove(uri, facts["collection"])
            shutil.rmtree(folder / "map.db", ignore_errors=True)
            print(line(photos, name, compared(found[name], found["exact"])), flush=True)
    return {name: compared(one, found["exact"]) for name, one in found.items()}


def compare_regions(photos: int, uri: str, queries: int, most: float) -> dict[str, Any]:
    """A collection in one piece, and one in regions."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, options = Path(temporary), {"engine": "milvus", "uri": uri}
        write_vectors(folder / "vectors.npy", photos)
        built = {
            name: alone(build, 60 * most, photos, options, folder, whole)
            for name, whole in (("one piece", True), ("regions", False))
        }
        made = {name: one["facts"] for name, one in built.items() if "facts" in one}
        asked = alone(ask_with_prior, 60 * most, photos, made, folder, queries)
        for facts in made.values():
            remove(uri, facts["collection"])
    found = {name: {"build_s": one.get("build_s"), **asked.get(name, asked)} for name, one in built.items()}
    for one in found.values():
        print(regions_line(photos, one, found["one piece"]), flush=True)
    return found


def regions_line(photos: int, one: dict[str, Any], whole: dict[str, Any]) -> str:
    if "query_ms" not in one:
        return f"| {photos:,} | {one.get('skipped') or one['failed']} | | | | | | |"
    ratios = [one[name] / whole[name] if name in whole else float("nan") for name in ("query_ms", "prior_ms")]
    return (
        f"| {photos:,} | {one['regions']} | {one['build_s']:,.0f} s | {one['query_ms']:.1f} ms | {ratios[0]:.2f}"
        f" | {one['prior_ms']:.1f} ms ({one['touched']:.1f} regions, {one['allowed']:.1%} of the photos; the circle"
        f" {one['limits_ms']:.1f} ms)"
        f" | {ratios[1]:.2f} | {one['as exact']:.0%} |"
    )


def remove(uri: str, collection: str) -> None:
    from samespot.maps.engines.milvus_client import connected

    connected(uri).drop_collection(collection)


def compared(one: dict[str, Any], exact: dict[str, Any]) -> dict[str, Any]:
    """With ratios to exact search, and recall in place of the rows."""
    told = {name: value for name, value in one.items() if not name.endswith(" rows")}
    for name in ("query_ms", f"{FILTERED}_ms"):
        if name in one and name in exact:
            told[f"{name} over exact"] = one[name] / exact[name]
            pairs = zip(one[f"{name} rows"], exact[f"{name} rows"], strict=True)
            hits = [(len(set(ours) & set(true)), len(true)) for ours, true in pairs]
            told[f"{name} recall"] = sum(h for h, _ in hits) / max(sum(n for _, n in hits), 1)
    return told


def line(photos: int, name: str, one: dict[str, Any]) -> str:
    if "query_ms" not in one:
        return f"| {photos:,} | {name} | {one.get('skipped') or one['failed']} | | | | | | |"
    size = "on the server" if one["bytes"] is None else f"{one['bytes'] / 1e6:,.1f} MB"
    return (
        f"| {photos:,} | {name} | {one['build_s']:,.1f} s | {size} | {one['memory'] / 1e6:,.0f} MB"
        f" | {one['query_ms']:.2f} ms | {one['query_ms over exact']:.2f} | {one['query_ms recall']:.3f}"
        f" | {one[f'{FILTERED}_ms over exact']:.2f} ({one[f'{FILTERED}_ms recall']:.3f}) |"
    )


HEAD = (
    "| photos | engine | build | on disk | memory | query | over exact | recall@10 | filtered, over exact (recall) |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
REGIONS_HEAD = (
    "| photos | regions | load | query | over one piece | with a prior of 1 km | over one piece | as exact search |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--photos", default=PHOTOS, help=f"sizes of the map, the smallest first; default: {PHOTOS}"
    )
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--uri", help="of a Milvus server, to be measured, too")
    parser.add_argument("--most-minutes", type=float, default=4.0, help="that an engine may take at one size")
    parser.add_argument("--only", action="append", default=[], metavar="ENGINE", help="as the table names it")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--regions", action="store_true", help="only what the regions of a map are for; needs --uri"
    )
    asked = parser.parse_args()
    if asked.regions and asked.uri is None:
        parser.error("--regions needs a server: --uri")
    print(REGIONS_HEAD if asked.regions else HEAD, flush=True)
    before: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for size in asked.photos.split(","):
        given = (int(size), asked.uri, asked.queries, asked.most_minutes)
        found[size] = compare_regions(*given) if asked.regions else compare(*given, asked.only, before)
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
