"""Speed and memory of exact search over a map on disk. (What an index gains and loses: benchmarks/engines.py.)

    python benchmarks/search.py                          as many of 10 million × 256 as memory and disk take
    python benchmarks/search.py --rows 1000000 --json search.json
    python benchmarks/search.py --in-memory               one query, and 1,000, in 1 million × 256 in memory

100 queries, k = 25, over a memory-mapped float32 file that was just written (so it is in the page cache if it
fits). Each way runs in a process of its own, which reports the seconds of the better of two searches and its peak
memory: resident in all (pages of the map included) against "the map's own size plus 1 GB", and private, without the
map. The rival is what one would write by hand: blocks of a numpy product, argpartition, the blocks' best merged.

In memory, the rivals are faiss's flat index, the same numpy, and torch: a product and `topk` in blocks. All run in turn
in one process, each with all cores; the best of several rounds counts. How long it takes only to read the map is told
beside them: one query cannot be faster.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from clock import fastest
from samespot.cores import cores

GB = 1 << 30
DIMS, ROWS = 256, 10_000_000
ALLOWED_BEYOND = GB
WAYS = {
    "samespot (numpy)": "numpy",
    "faiss, block by block": "faiss",
    "samespot (GPU)": "torch",
    "numpy product + argpartition": "rival",
}


def measure_exact(rows: int, queries: int, k: int, folder: Path) -> dict[str, Any]:
    """Write a map of that many rows, then search it in each way."""
    path = folder / "map.npy"
    write_map(path, rows)
    asked = unit(np.random.default_rng(1), queries, DIMS)
    size = rows * DIMS * 4
    found: dict[str, Any] = {
        "rows": rows,
        "dims": DIMS,
        "queries": queries,
        "k": k,
        "map_bytes": size,
        "ways": {},
    }
    lists: dict[str, np.ndarray] = {}
    for name, way in WAYS.items():
        if way == "torch" and not gpu_there():
            continue
        lists[name], figures = in_a_process(search_map, way, str(path), asked, k)
        figures["beyond_map_bytes"] = figures["peak_bytes"] - size
        figures["within_allowance"] = figures["peak_bytes"] <= size + ALLOWED_BEYOND
        found["ways"][name] = figures
    ours, rival = lists["samespot (numpy)"], lists["numpy product + argpartition"]
    for name, rows_found in lists.items():
        if name.startswith("samespot") and not np.array_equal(rows_found, ours):
            raise AssertionError(f"{name} and samespot (numpy) return different rows")
    found["rival_agrees"] = float(np.mean([np.isin(a, b).mean() for a, b in zip(ours, rival, strict=True)]))
    if found["rival_agrees"] < 0.999:
        raise AssertionError("the rival finds other images")
    rival_seconds = found["ways"]["numpy product + argpartition"]["seconds"]
    for figures in found["ways"].values():
        figures["times_rival"] = rival_seconds / figures["seconds"]
    return found


def unit(rng: np.random.Generator, rows: int, dims: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dims), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_map(path: Path, rows: int) -> None:
    file = np.lib.format.open_memmap(path, "w+", np.float32, (rows, DIMS))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 100_000):
        stop = min(start + 100_000, rows)
        file[start:stop] = unit(rng, stop - start, DIMS)
    file.flush()


def gpu_there() -> bool:
    from samespot.retrieval.search import resolve_device

    return resolve_device("auto") != "cpu"


def in_a_process(job: Callable[..., Any], *arguments: Any) -> Any:
    """Run a job in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(job, arguments)


def search_map(way: str, path: str, queries: np.ndarray, k: int) -> tuple[np.ndarray, dict[str, float]]:
    places = np.load(path, mmap_mode="r")
    look = {"rival": by_hand, "faiss": by_faiss}.get(way) or by_samespot(way)
    look(queries[:2], places[:1000], k)  # loads kernels, wakes a GPU
    with PeakPrivate() as private:
        first, rows = timed(lambda: look(queries, places, k))  # maps the file's pages into the process
        again, rows = timed(lambda: look(queries, places, k))
    figures = {
        "seconds": min(first, again),
        "first_seconds": first,
        "peak_bytes": memory("VmHWM"),
        "private_bytes": private.peak,
    }
    return rows, figures


def by_samespot(engine: Any) -> Callable[..., np.ndarray]:
    from samespot.retrieval.search import search

    device = "cuda" if engine == "torch" else "cpu"
    return lambda queries, places, k: search(queries, places, k, device=device, engine=engine).rows


def by_faiss(queries: np.ndarray, places: np.ndarray, k: int, block: int = 65_536) -> np.ndarray:
    """Another rival: faiss's own search of each block, and their best merged."""
    import faiss

    best, rows = np.empty((len(queries), 0), dtype=np.float32), np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(places), block):
        part = np.ascontiguousarray(places[start : start + block])
        squares, some = faiss.knn(queries, part, min(k, len(part)))
        best, rows = np.hstack([best, squares]), np.hstack([rows, some + start])
        order = np.argsort(best, axis=1)[:, :k]
        best, rows = np.take_along_axis(best, order, axis=1), np.take_along_axis(rows, order, axis=1)
    return rows


def by_hand(queries: np.ndarray, places: np.ndarray, k: int, block: int = 65_536) -> np.ndarray:
    """The rival: unit vectors, so the largest products are the nearest. Ties as they come."""
    best = np.empty((len(queries), 0), dtype=np.float32)
    rows = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(places), block):
        products = queries @ places[start : start + block].T
        some = np.argpartition(-products, min(k, products.shape[1] - 1), axis=1)[:, :k]
        best = np.hstack([best, np.take_along_axis(products, some, axis=1)])
        rows = np.hstack([rows, some + start])
        order = np.argsort(-best, axis=1)[:, :k]
        best, rows = np.take_along_axis(best, order, axis=1), np.take_along_axis(rows, order, axis=1)
    return rows


def measure_in_memory(rows: int, k: int, rounds: int) -> dict[str, Any]:
    """Seconds of one query and of 1,000 in a map in memory, samespot's ways beside their rivals'."""
    import faiss
    import torch

    from samespot.retrieval.search import search

    rng = np.random.default_rng(0)
    places = np.concatenate([unit(rng, min(100_000, rows - i), DIMS) for i in range(0, rows, 100_000)])
    halves = places.astype(np.float16)
    index = faiss.IndexFlatL2(DIMS)
    index.add(places)
    tensor = torch.from_numpy(places)

    def by_torch(asked: np.ndarray) -> np.ndarray:
        best, names = [], []
        for start in range(0, rows, 65_536):
            products = torch.from_numpy(asked) @ tensor[start : start + 65_536].T
            top = products.topk(min(k, products.shape[1]))
            best.append(top.values)
            names.append(top.indices + start)
        first = torch.cat(best, 1).topk(k).indices
        return torch.cat(names, 1).gather(1, first).numpy()

    ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "samespot, float32": lambda asked: search(asked, places, k, device="cpu").rows,
        "samespot, float16": lambda asked: search(asked, halves, k, device="cpu").rows,
        "faiss flat": lambda asked: index.search(asked, k)[1],
        "torch product + topk": by_torch,
        "numpy product + argpartition": lambda asked: by_hand(asked, places, k),
    }
    found: dict[str, Any] = {"rows": rows, "dims": DIMS, "k": k}
    for count in (1, 1000):
        asked = unit(np.random.default_rng(1), count, DIMS)
        seconds = {name: float("inf") for name in ways}
        lists = (
            {name: way(asked) for name, way in ways.items()} if count == 1 else {}
        )  # loads all that is needed
        for _ in range(rounds if count > 1 else 5 * rounds):
            for name, way in ways.items():  # alternating, so that a busy machine slows all
                took, lists[name] = timed(partial(way, asked))
                seconds[name] = min(seconds[name], took)
        ours = lists["samespot, float32"]
        for name, listed in lists.items():
            agree = float(np.mean([np.isin(a, b).mean() for a, b in zip(ours, listed, strict=True)]))
            if name != "samespot, float16" and agree < 0.999:
                raise AssertionError(f"{name} finds other images")
        rivals = {name: seconds[name] for name in ways if not name.startswith("samespot")}
        best = min(rivals, key=lambda name: rivals[name])
        found[f"{count} queries"] = {
            "seconds": seconds,
            "best rival": best,
            "best rival / samespot": rivals[best] / seconds["samespot, float32"],
            "faiss flat / samespot": rivals["faiss flat"] / seconds["samespot, float32"],
            "float32 / float16": seconds["samespot, float32"] / seconds["samespot, float16"],
        }
        if count == 1:  # no search can be faster than the memory
            only_read = {name: reading(some) for name, some in (("float32", places), ("float16", halves))}
            found["1 queries"]["seconds to read the map"] = only_read
    return found


def reading(places: np.ndarray) -> float:
    """Seconds in which all cores together read a map and do hardly more than that."""
    words = np.array_split(places.reshape(-1).view(np.uint64), 4 * cores())
    with ThreadPoolExecutor(cores()) as pool:
        return fastest(lambda: list(pool.map(added_up, words)), 15)[0]


@njit(nogil=True)
def added_up(words: Any) -> Any:  # pragma: no cover - compiled
    total = np.uint64(0)
    for word in words:
        total += word
    return total


class PeakPrivate:
    """Largest private memory of this process meanwhile, looked at every few milliseconds."""

    peak = 0

    def __enter__(self) -> PeakPrivate:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.peak = max(self.peak, memory("RssAnon"))


def memory(what: str) -> int:
    """Bytes of a line of Linux's account of this process."""
    match = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) * 1024 if match else 0


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def most_rows(folder: Path) -> int:
    """What the free memory and the disk take, up to the full size; a round number."""
    line = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    memory_free = int(line[1]) * 1024 if line else 4 * GB
    room = min(memory_free - 3 * GB, int(0.8 * shutil.disk_usage(folder).free))
    return max(100_000, min(ROWS, room // (DIMS * 4) // 100_000 * 100_000))


def exact_table(found: dict[str, Any]) -> str:
    lines = [
        f"exact search: {found['queries']} queries, k = {found['k']}, in {found['rows']:,} × {found['dims']} float32 "
        f"({found['map_bytes'] / GB:.2f} GB); allowed: its size + 1 GB = {found['map_bytes'] / GB + 1:.2f} GB",
        f"{'way':<32}{'seconds':>9}{'rival / it':>12}{'peak GB':>9}{'beyond map':>12}{'private GB':>12}  within",
    ]
    lines += [
        f"{name:<32}{way['seconds']:>9.2f}{way['times_rival']:>10.2f} ×{way['peak_bytes'] / GB:>9.2f}"
        f"{way['beyond_map_bytes'] / GB:>12.2f}{way['private_bytes'] / GB:>12.2f}"
        f"  {'yes' if way['within_allowance'] else 'NO'}"
        for name, way in found["ways"].items()
    ]
    return "\n".join([*lines, f"the rival returns {100 * found['rival_agrees']:.2f} % of the same images"])


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--rows", type=int, help="of the map for exact search; default: what this machine takes"
    )
    arguments.add_argument("--queries", type=int, default=100)
    arguments.add_argument("--k", type=int, default=25)
    arguments.add_argument(
        "--folder", type=Path, help="where to write the map; default: the temporary folder"
    )
    arguments.add_argument("--json", type=Path, help="write the numbers here")
    arguments.add_argument("--in-memory", action="store_true", help="one query, and 1,000, in memory instead")
    given = arguments.parse_args()
    if given.in_memory:
        found = measure_in_memory(given.rows or 1_000_000, given.k, rounds=3)
        print(json.dumps(found, indent=1))
        if given.json:
            given.json.write_text(json.dumps({"in memory": found}, indent=2) + "\n")
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        rows = given.rows or most_rows(Path(folder))
        found = measure_exact(rows, given.queries, given.k, Path(folder))
    print(exact_table(found), flush=True)
    if given.json:
        given.json.write_text(json.dumps({"exact": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
