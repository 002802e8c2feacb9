"""From one machine to a planet: bytes, recall lost by shorter descriptors, hours of work, and recall as a map grows.

    python benchmarks/planet.py --data ../shared/data --keep build/planet --json docs/results/planet.json

Prints every number of docs/planet.md, as the tables that stand there. Measured here: the bytes of a map of campus
photos, the recall of campus-east and of the town with descriptors of fewer bytes, and the same among generated
distractors. Rates come from the other benchmarks' files in docs/results. The growth of a map is a simulation, held
against maps that can be measured. Everything drawn is drawn with SEED. `--keep` holds the map, the town and the
descriptors, so that a second run reads no photo. Twelve minutes on two cores, and two where they are kept.

The simulation: a query is found among its k nearest if fewer than k photos of other places are more alike than the
best photo of its own. Those near by, which do not count as hits, are as many on any map, and are counted as they are.
Those far away are more the larger the map; how alike they are is drawn from a distribution. It is fitted to an eighth
of the far photos of campus-east: each query has a mean and a spread of its own, and all share a tail, a generalised
Pareto distribution. So many of a million, or of ten billion, are more alike than the best: a Poisson number.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
HERE = Path(__file__).resolve().parents[1]
SEED, DIMS = 0, 256
SIZES = {"one million": 10**6, "one hundred million": 10**8, "ten billion": 10**10}
CODES = ("float32", "float16", "int8", "PQ 64", "PQ 32", "PQ 16")
LISTED, AT = 100, (1, 5, 10)
NEAR = 60.0  # [m] photos of campus look 30 m far, so those farther apart show nothing of the same
SHARES = {"an eighth": 1 / 8, "a quarter": 1 / 4, "half": 1 / 2, "the whole map": 1.0}
DRAWS = 20  # of each share
WAYS = ("simulated", "strict", "normal")
TAIL = 0.95  # quantile from which on the tail is a Pareto distribution
GROWN = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10)
YAWS = 8  # views of a panorama
PRIOR = 1000.0  # [m]
BLOCK = 25_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with campus/ and geometry/")
    parser.add_argument("--keep", type=Path, default=Path("build/planet"))
    parser.add_argument(
        "--generated", type=int, default=1_000_000, help="photos of the largest generated map"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--only", choices=list(TABLES), help="this step again; the others as --json holds them"
    )
    asked = parser.parse_args()
    asked.keep.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"seed": SEED, "dims": DIMS}
    if asked.only:
        found = json.loads(asked.json.read_text())
    sets = (
        []
        if asked.only in ("bytes", "daejeon", "work")
        else [campus(asked.data / "campus", asked.keep), town(asked.keep)]
    )
    steps: dict[str, Callable[[], Any]] = {
        "bytes": lambda: bytes_of_a_map(asked.data / "campus", asked.keep),
        "codes": lambda: {one.name: shortened(one) for one in sets},
        "generated": lambda: among_generated(sets[0], asked.generated),
        "check": lambda: {one.name: checked(one, larger(one.name, asked)) for one in sets},
        "daejeon": lambda: density(asked.data / "geometry" / "daejeon520_database.csv.gz"),
        "grown": lambda: {one.name: grown(one, found["daejeon"]) for one in sets},
        "work": lambda: work(found["bytes"]),
    }
    for name, step in steps.items():
        if asked.only not in (None, name):
            continue
        begun = time.perf_counter()
        found[name] = step()
        print(f"\n## {name} ({time.perf_counter() - begun:.0f} s)\n\n{TABLES[name](found[name])}", flush=True)
        if asked.json:
            told = {key: value for key, value in found.items() if key != "daejeon"}
            told["daejeon"] = {key: v for key, v in found.get("daejeon", {}).items() if key != "within"}
            asked.json.write_text(json.dumps(told, indent=1) + "\n")


def larger(name: str, asked: argparse.Namespace) -> dict[str, Set]:
    """A set with the photos of elsewhere in its map: as it would be indexed, and in ways that the simulation misses."""
    root, keep = asked.data / "campus", asked.keep
    whole, alone = "with elsewhere", "with elsewhere, whitened on the map alone"
    if name == "campus":
        return {whole: campus(root, keep, whiten_on_all=True), alone: campus(root, keep)}
    return {
        whole: town(keep, whiten_on_all=True),
        alone: town(keep),
        "with elsewhere under the queries' conditions, too": town(
            keep, whiten_on_all=True, all_conditions=True
        ),
    }


# ---- two sets of real or rendered photos ----


@dataclass(frozen=True, eq=False)
class Set:
    """Queries and a map, whitened on the map, in unit length."""

    name: str
    queries: Floats  # (q, dims)
    map: Floats  # (n, dims)
    other: Floats  # (m, dims) photos of elsewhere, in neither
    hits: Bools  # (q, n) which map photos show the query's place
    near: Bools  # (q, n) within NEAR metres, hits among them


def campus(root: Path, keep: Path, *, whiten_on_all: bool = False) -> Set:
    """campus-east: queries that have a hit. Elsewhere: the west of the campus and the strip between."""
    from samespot.places.table import Places

    places = Places.read(root / "places.csv")
    elsewhere = np.isin(places.table["split"], ("train", "gap"))
    minute = places.table["time"].to_numpy(dtype=str)
    return as_set("campus", places, keep, (15.0, 30.0), elsewhere, whiten_on_all, minute)


def town(keep: Path, *, whiten_on_all: bool = False, all_conditions: bool = False) -> Set:
    """The built-in town, seed 7, by its exact poses: queries of its test quarter. Elsewhere: its training quarter,
    under the conditions of the map, or under all of them, those of the queries among them."""
    from samespot.town.build import build_town
    from samespot.town.truth import exact_places

    places = exact_places(build_town(keep / "town", depth=False))
    split, condition = (places.table[name].to_numpy(dtype=str) for name in ("split", "condition"))
    of_map = np.isin(condition, np.unique(condition[split == "map"]))
    elsewhere = (split == "train") & (of_map | all_conditions)
    return as_set("town", places, keep, (10.0, 40.0), elsewhere, whiten_on_all)


def as_set(
    name: str,
    places: Any,
    keep: Path,
    within: tuple[float, float],
    elsewhere: Bools,
    whiten_on_all: bool,
    differ: NDArray[Any] | None = None,
) -> Set:
    """within: [m] and [deg] of a hit. whiten_on_all: on the map and elsewhere, as a map that has grown would be.
    differ: (photos,) what a hit must not share with the query."""
    from samespot.maps.whitened import Asked, whitening_for
    from samespot.model.loading import load_model
    from samespot.retrieval.describe import describe

    plain = describe(load_model("samespot-lite"), places, keep / f"{name} descriptors", device="cpu").vectors
    split = places.table["split"].to_numpy(dtype=str)
    here, asked = np.flatnonzero(split == "map"), np.flatnonzero(split == "query")
    fitted = np.flatnonzero((split == "map") | (elsewhere & whiten_on_all))
    there = np.asarray(plain[fitted], dtype=np.float16)
    how = Asked("map", DIMS, within[0], None)
    whitening = whitening_for(how, places.select(fitted), lambda rows: there[rows], "cpu")
    assert whitening is not None

    def whitened(rows: NDArray[np.int64]) -> Floats:
        return np.asarray(whitening(np.asarray(plain[rows], dtype=np.float16)), dtype=np.float32)

    cameras = places.positions
    east, north, turned = (cameras[asked, None, axis] - cameras[None, here, axis] for axis in range(3))
    apart = np.hypot(east, north)
    hits = (apart <= within[0]) & (np.abs((turned + 180) % 360 - 180) <= within[1])
    if differ is not None:
        hits &= differ[asked, None] != differ[None, here]
    has = hits.any(axis=1)
    near = (apart <= NEAR) | hits
    other = whitened(np.flatnonzero(elsewhere))
    return Set(name, whitened(asked[has]), whitened(here), other, hits[has], near[has])


# ---- bytes ----


def bytes_of_a_map(root: Path, keep: Path) -> dict[str, Any]:
    """Of a map of campus-east as `samespot index` makes it, by what they are for; and the time it takes."""
    from samespot.maps.build import update_map
    from samespot.maps.folder import generation_folder, open_generation
    from samespot.places.table import Places

    folder, told = keep / "map", keep / "map seconds.json"
    if not told.is_file():
        begun = time.perf_counter()
        update_map(Places.read(root / "places.csv").of_split("map"), folder, device="cpu")
        told.write_text(json.dumps({"seconds": time.perf_counter() - begun}))
    generation = open_generation(folder)
    meta, here = generation.meta, generation_folder(folder, generation.number)
    photos = int(meta["photos"])
    table = generation.places.table
    return {
        "photos": photos,
        "seconds": json.loads(told.read_text())["seconds"],
        "per photo": {
            **meta["bytes_per_photo"],
            "where it lies": (here / "rows.npy").stat().st_size / photos,
            "row of the table, on disk": (here / "places.parquet").stat().st_size / photos,
            "row of the table, in memory": float(table.memory_usage(deep=True).sum()) / photos,
        },
        "keypoints": int(meta["options"]["keypoints"]),
        "meta.json, bytes per segment": len(json.dumps(meta["segments"])) / len(meta["segments"]),
        "descriptors": {name: width(name) for name in CODES},
    }


def width(code: str) -> int:
    """Bytes of a descriptor of DIMS numbers."""
    return int(code.split()[1]) if code.startswith("PQ") else DIMS * np.dtype(code).itemsize


# ---- shorter descriptors ----

Coded = Callable[[Floats], Floats]


def coder(code: str, learned_on: Floats) -> Coded:
    """From descriptors to what is left of them."""
    if code == "float32":
        return lambda vectors: vectors
    if code == "float16":
        return lambda vectors: vectors.astype(np.float16).astype(np.float32)
    if code == "int8":
        step = np.float32(np.abs(learned_on).max() / 127)
        return lambda vectors: np.clip(np.round(vectors / step), -127, 127) * step
    import faiss

    product: Any = faiss.ProductQuantizer(DIMS, width(code), 8)
    product.cp.seed, product.cp.min_points_per_centroid = SEED, 1  # few photos: no warning for each part
    product.train(np.ascontiguousarray(learned_on))
    return lambda vectors: product.decode(product.compute_codes(np.ascontiguousarray(vectors)))


@dataclass(eq=False)
class Lists:
    """For each query the LISTED photos of most score by a code, their true score, and whether they are hits."""

    queries: Floats

    def __post_init__(self) -> None:
        shape = (len(self.queries), LISTED)
        self.scores, self.true = np.full(shape, -np.inf, np.float32), np.full(shape, -np.inf, np.float32)
        self.hits = np.zeros(shape, dtype=bool)

    def add(self, vectors: Floats, coded: Floats, hits: Bools | None) -> None:
        """Offer more photos (n, dims)."""
        import torch

        scores = self.queries @ coded.T - 0.5 * (coded * coded).sum(axis=1)
        found = torch.topk(torch.from_numpy(scores), min(LISTED, len(vectors)), dim=1)
        rows = found.indices.numpy()
        true = np.einsum("qd,qkd->qk", self.queries, vectors[rows])
        is_hit = np.zeros(rows.shape, bool) if hits is None else np.take_along_axis(hits, rows, axis=1)
        joined = [np.hstack(pair) for pair in ((self.scores, found.values.numpy()), (self.true, true))]
        joined_hits = np.hstack([self.hits, is_hit])
        best = np.argsort(-joined[0], axis=1, kind="stable")[:, :LISTED]
        self.scores, self.true = (np.take_along_axis(one, best, axis=1) for one in joined)
        self.hits = np.take_along_axis(joined_hits, best, axis=1)

    def recall(self, *, measured_again: bool) -> dict[str, float]:
        """By the order of the codes, or by true distances of what the codes list."""
        order = np.argsort(-(self.true if measured_again else self.scores), axis=1, kind="stable")
        hits = np.take_along_axis(self.hits, order, axis=1)
        return {f"R@{k}": 100 * float(hits[:, :k].any(axis=1).mean()) for k in AT}


def shortened(one: Set) -> dict[str, Any]:
    """Recall with codes that were learned elsewhere. Against float32 in the same run."""
    return {"queries": len(one.queries), "photos": len(one.map), "codes": codes_at(one, iter(()), [])[0]}


def among_generated(one: Set, most: int) -> dict[str, Any]:
    """The same with the map among generated distractors: as spread as photos of elsewhere are, in every direction."""
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size <= most]
    return {
        str(size): codes
        for size, codes in zip(
            [len(one.map), *sizes], codes_at(one, distractors(one, sizes), sizes), strict=True
        )
    }


def distractors(one: Set, sizes: list[int]) -> Iterator[Floats]:
    """Unit vectors with mean and covariance of the photos of elsewhere, until the map has each of the sizes."""
    mean, spread = one.other.mean(axis=0), np.cov(one.other, rowvar=False)
    turned = np.linalg.cholesky(spread + 1e-9 * np.eye(DIMS)).T.astype(np.float32)
    have, dice = len(one.map), np.random.default_rng(SEED)
    for size in sizes:
        while have < size:
            vectors = mean + dice.standard_normal((min(BLOCK, size - have), DIMS), dtype=np.float32) @ turned
            yield vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            have += len(vectors)


def codes_at(one: Set, more: Iterator[Floats], sizes: list[int]) -> list[dict[str, Any]]:
    """Recall by code, of the map as it is and when it has grown to each of the sizes."""
    coders = {name: coder(name, one.other) for name in CODES}
    lists = {name: Lists(one.queries) for name in CODES}

    def told() -> dict[str, Any]:
        return {
            name: {
                "by codes": lists[name].recall(measured_again=False),
                "measured again": lists[name].recall(measured_again=True),
            }
            for name in CODES
        }

    for name in CODES:
        lists[name].add(one.map, coders[name](one.map), one.hits)
    found, have = [told()], len(one.map)
    for vectors in more:
        for name in CODES:
            lists[name].add(vectors, coders[name](vectors), None)
        have += len(vectors)
        if have in sizes:
            found.append(told())
    return found


# ---- the simulation ----


@dataclass(frozen=True, eq=False)
class Alike:
    """How alike photos of far places are to each query: mean and spread of its own, and a tail that all share."""

    mean: NDArray[np.float64]  # (q,)
    spread: NDArray[np.float64]  # (q,)
    body: NDArray[np.float64]  # in order: all similarities, in spreads above the mean
    shape: float  # of the Pareto tail
    scale: float

    @classmethod
    def fit(cls, similarities: NDArray[np.floating[Any]], far: Bools, *, strict: bool = False) -> Alike:
        """Of (q, n) similarities, those of far photos.

        strict: each photo is held against mean and spread of the others alone: its own value hides how far out it is.
        That takes the error of a query's spread for a heavier tail, and so is too strict, as the other is too kind.
        """
        from scipy.stats import genpareto

        kept = np.where(far, similarities, np.nan).astype(np.float64)
        mean, spread = np.nanmean(kept, axis=1), np.nanstd(kept, axis=1)
        centre, squares = mean[:, None], (spread**2 + mean**2)[:, None]
        if strict:
            count = far.sum(axis=1, keepdims=True)
            centre = (count * centre - kept) / (count - 1)
            squares = (count * squares - kept**2) / (count - 1)
        body = np.sort(((kept - centre) / np.sqrt(squares - centre**2))[far])
        start = np.quantile(body, TAIL)
        shape, _, scale = genpareto.fit(body[body > start] - start, floc=0)
        return cls(mean, spread, body, float(shape), float(scale))

    @property
    def start(self) -> float:
        return float(np.quantile(self.body, TAIL))

    def above(self, similarity: NDArray[Any], tail: str = "pareto") -> NDArray[np.float64]:
        """(q,) the chance that a far photo is more alike than this. tail: pareto, or normal."""
        from scipy.stats import genpareto, norm

        z = (similarity - self.mean) / self.spread
        if tail == "normal":
            return np.asarray(norm.sf(z))
        inside = 1 - np.searchsorted(self.body, z, side="right") / len(self.body)
        beyond = (1 - TAIL) * genpareto.sf(z - self.start, self.shape, scale=self.scale)
        return np.where(z > self.start, beyond, inside)


def fitted(similarities: NDArray[np.floating[Any]], far: Bools) -> dict[str, tuple[Alike, str]]:
    """By the name of the way: the distribution, and its tail."""
    plain = Alike.fit(similarities, far)
    strict = Alike.fit(similarities, far, strict=True)
    return {"simulated": (plain, "pareto"), "strict": (strict, "pareto"), "normal": (plain, "normal")}


def found_among(
    alike: Alike, best: NDArray[Any], nearer: NDArray[Any], far: Any, k: int, tail: str = "pareto"
) -> float:
    """Share of the queries found among their k nearest. nearer: (q,) photos near by, no hits, that are more alike than
    the best hit. far: photos far away; a number, or (q, draws)."""
    from scipy.stats import poisson

    chance = alike.above(best, tail)
    expected = np.asarray(far) * (chance[:, None] if np.ndim(far) == 2 else chance)
    left = k - 1 - (nearer[:, None] if np.ndim(far) == 2 else nearer)
    return 100 * float(np.mean(np.where(left >= 0, poisson.cdf(np.maximum(left, 0), expected), 0.0)))


def ranked(similarities: Floats, hits: Bools, near: Bools) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(q,) similarity of the best hit, and how many photos near by and far away are more alike."""
    best = np.where(hits, similarities, -np.inf).max(axis=1)
    more = (similarities > best[:, None]) & ~hits
    return best, (more & near).sum(axis=1), (more & ~near).sum(axis=1)


def checked(one: Set, grown: dict[str, Set]) -> dict[str, Any]:
    """Recall of thinned maps and of the whole map, and of maps with the photos of elsewhere: predicted and measured.

    The distribution is fitted to an eighth of the map, a new one in each draw, and to nothing else.
    """
    dice = np.random.default_rng(SEED)
    rows: dict[str, Any] = {}
    fits: list[float] = []
    for _ in range(DRAWS):
        order = dice.permutation(len(one.map))
        fits += [check(one, order, share, False, rows.setdefault(name, {})) for name, share in SHARES.items()]
        for name, with_more in grown.items():
            check(with_more, order, 1.0, True, rows.setdefault(name, {}))
    return {
        "draws": DRAWS,
        "queries": len(one.queries),
        "shape of the tail": [float(np.quantile(fits, share)) for share in (0.05, 0.5, 0.95)],
        "rows": {share: {name: float(np.mean(v)) for name, v in row.items()} for share, row in rows.items()},
    }


def check(
    one: Set, order: NDArray[np.int64], share: float, elsewhere: bool, row: dict[str, list[float]]
) -> float:
    """One draw: the first photos in that order are the map. Adds to the lists of `row`; returns the tail's shape."""
    eighth, kept = order[: len(order) // 8], order[: round(share * len(order))]
    similarities = one.queries @ one.map.T
    ways = fitted(similarities[:, eighth], ~one.near[:, eighth])
    seen = one.hits[:, kept].any(axis=1)
    found = ranked(similarities[:, kept], one.hits[:, kept], one.near[:, kept])
    best, nearer, farther = (numbers[seen] for numbers in found)
    far, photos = (~one.near[:, kept]).sum(axis=1)[seen], len(kept)
    if elsewhere:
        farther = farther + (one.queries[seen] @ one.other.T > best[:, None]).sum(axis=1)
        far, photos = far + len(one.other), photos + len(one.other)
    row.setdefault("photos", []).append(photos)
    for k in (1, 5):
        row.setdefault(f"measured R@{k}", []).append(100 * float((nearer + farther < k).mean()))
        for way, (alike, tail) in ways.items():
            some = replace(alike, mean=alike.mean[seen], spread=alike.spread[seen])
            row.setdefault(f"{way} R@{k}", []).append(found_among(some, best, nearer, far, k, tail))
    return ways["simulated"][0].shape


def density(listing: Path) -> dict[str, Any]:
    """Views within PRIOR metres of each panorama of Daejeon, and within NEAR."""
    import pandas as pd
    from scipy.spatial import cKDTree

    from samespot.places.geodesy import to_metres

    panoramas = pd.read_csv(listing, header=None, names=["id", "latitude", "longitude"])
    east, north, _ = to_metres(panoramas["latitude"], panoramas["longitude"])
    at = np.column_stack([east, north])
    tree = cKDTree(at)
    counts = {
        radius: YAWS * tree.query_ball_point(at, radius, return_length=True) for radius in (NEAR, PRIOR)
    }
    return {
        "views": YAWS * len(at),
        "extent [km]": (np.ptp(at, axis=0) / 1e3).tolist(),
        "views within 1 km": [float(x) for x in np.quantile(counts[PRIOR], (0.05, 0.5, 0.95))],
        "views within 60 m": [float(x) for x in np.quantile(counts[NEAR], (0.05, 0.5, 0.95))],
        "within": counts[PRIOR] - counts[NEAR],
    }


def grown(one: Set, daejeon: dict[str, Any]) -> dict[str, Any]:
    """Recall of a map of any size, without and with a position known to 1 km; beyond Daejeon, all is as dense as it.

    Bands: the 5 and 95 % quantiles over DRAWS drawings of the queries, each with a fit of its own.
    """
    similarities = one.queries @ one.map.T
    dice = np.random.default_rng(SEED)
    found: dict[str, Any] = {}
    draws = [np.arange(len(one.queries))]
    draws += [dice.integers(0, len(one.queries), len(one.queries)) for _ in range(DRAWS)]
    for asked in draws:
        some, hits, near = similarities[asked], one.hits[asked], one.near[asked]
        ways = fitted(some, ~near)
        best, nearer, _ = ranked(some, hits, near)
        spots = dice.choice(daejeon["within"], (len(asked), 50))
        for size in GROWN:
            row = found.setdefault(f"{size:.0e}", {})
            for k in (1, 20, 100):
                for way, (alike, tail) in ways.items():
                    near_by = np.minimum(spots, size)
                    for word, far in (("anywhere", size), ("within 1 km", near_by)):
                        name = f"R@{k} {word}, {way}"
                        row.setdefault(name, []).append(found_among(alike, best, nearer, far, k, tail))
    return {
        size: {
            name: [values[0], *(float(x) for x in np.quantile(values[1:], (0.05, 0.95)))]
            for name, values in row.items()
        }
        for size, row in found.items()
    }


# ---- work ----


def kept_result(name: str) -> Any:
    return json.loads((HERE / "docs" / "results" / f"{name}.json").read_text())


def work(of_a_map: dict[str, Any]) -> dict[str, Any]:
    """Hours of machines as they were measured, and bytes, at each size; all but the rates is a product."""
    labels = kept_result("labels")["map"]["sizes"][-1]
    engines = kept_result("engines")["1000000"]
    alone = {name: engines[name]["query_ms"] for name in ("exact", "hnsw", "ivfpq")}
    exact = kept_result("search_exact")["exact"]
    rates = {
        "label (2 cores, labels.json)": labels["views"] / labels["seconds"],
        "describe, samespot-lite (2 cores, describe_cpu.json)": kept_result("describe_cpu")["rows"][
            "samespot, onnxruntime"
        ]["images/s"],
        "describe, ResNet50 (an H200 and 16 cores, describe.json)": kept_result("describe")["rows"][
            "samespot, compiled, decoded on the CPU"
        ]["images/s"],
        "index with keypoints and thumbnails (2 cores, this run)": of_a_map["photos"] / of_a_map["seconds"],
        "hnsw (2 cores, engines.json)": 1e6 / engines["hnsw"]["build_s"],
        "ivfpq (2 cores, engines.json)": 1e6 / engines["ivfpq"]["build_s"],
    }
    if (HERE / "docs" / "results" / "engines_regions.json").is_file():
        loads = kept_result("engines_regions")
        largest = max(loads, key=int)
        name = f"load into Milvus (2 cores with the server, {int(largest):,} photos, engines_regions.json)"
        rates[name] = int(largest) / loads[largest]["regions"]["build_s"]
    scan = exact["queries"] * exact["rows"] / exact["ways"]["samespot (numpy)"]["seconds"]
    sizes = of_a_map["per photo"]
    on_disk = {name: size for name, size in sizes.items() if not name.endswith("in memory")}
    return {
        "photos/s": rates,
        "hours": {
            word: {name: count / rate / 3600 for name, rate in rates.items()} for word, count in SIZES.items()
        },
        "comparisons/s of exact search (2 cores, 100 queries at once, search_exact.json)": scan,
        "seconds of an exact search": {word: count / scan for word, count in SIZES.items()},
        "ms of one search of a million, asked alone (engines.json)": alone,
        "bytes of an index per photo (engines.json)": {
            name: engines[name]["bytes"] / 1e6 for name in ("hnsw", "ivfpq")
        },
        "bytes": {
            word: {
                "all of the map folder": count * sum(on_disk.values()),
                "table in memory": count * sizes["row of the table, in memory"],
                **{f"descriptors, {name}": count * width(name) for name in CODES},
            }
            for word, count in SIZES.items()
        },
        "segments": {word: count / 256 for word, count in SIZES.items()},
    }


# ---- tables ----


def rows_of(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def bytes_table(found: dict[str, Any]) -> str:
    told = rows_of(["kept of a photo", "bytes"], [[k, f"{v:,.0f}"] for k, v in found["per photo"].items()])
    short = rows_of(["a descriptor as", "bytes"], [[k, f"{v:,}"] for k, v in found["descriptors"].items()])
    rate = f"{found['photos']:,} photos in {found['seconds']:.0f} s; meta.json keeps"
    return f"{told}\n\n{short}\n\n{rate} {found['meta.json, bytes per segment']:.0f} bytes of a segment"


def codes_table(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{one['photos']:,}", code, width(code), *recalls(told)]
        for name, one in found.items()
        for code, told in one["codes"].items()
    ]
    return rows_of(["set", "photos", "code", "bytes", "R@1/5/10 by codes", "measured again"], rows)


def recalls(told: dict[str, Any]) -> list[str]:
    return [" / ".join(f"{x:.1f}" for x in told[how].values()) for how in ("by codes", "measured again")]


def generated_table(found: dict[str, Any]) -> str:
    rows = [
        [f"{int(size):,}", code, *recalls(told)]
        for size, codes in found.items()
        for code, told in codes.items()
    ]
    return rows_of(["photos", "code", "R@1/5/10 by codes", "measured again"], rows)


def check_table(found: dict[str, Any]) -> str:
    rows = [
        [name, share, f"{row['photos']:,.0f}"]
        + [f"{row[f'{how} R@{k}']:.1f}" for k in (1, 5) for how in ("measured", *WAYS)]
        for name, one in found.items()
        for share, row in one["rows"].items()
    ]
    head = ["set", "map", "photos"]
    head += [f"R@{k} {how}" for k in (1, 5) for how in ("measured", *WAYS)]
    shapes = {name: [round(x, 3) for x in one["shape of the tail"]] for name, one in found.items()}
    return f"{rows_of(head, rows)}\n\nshape of the tail (5, 50, 95 % of the draws): {shapes}"


def density_table(found: dict[str, Any]) -> str:
    return rows_of(["Daejeon", ""], [[k, v] for k, v in found.items() if k != "within"])


def grown_table(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{float(size):,.0f}"]
        + [
            "{:.1f} ({:.1f}; {:.1f})".format(*(row[f"R@{k} {word}, {way}"][0] for way in WAYS))
            for word in ("anywhere", "within 1 km")
            for k in (1, 20, 100)
        ]
        for name, one in found.items()
        for size, row in one.items()
    ]
    words = ["anywhere", "within 1 km"]
    return rows_of(["set", "photos", *(f"R@{k} {word}" for word in words for k in (1, 20, 100))], rows)


def work_table(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{rate:,.0f}", *(hours(found["hours"][word][name]) for word in SIZES)]
        for name, rate in found["photos/s"].items()
    ]
    rows.append(
        [
            "one exact search",
            f"{found['comparisons/s of exact search (2 cores, 100 queries at once, search_exact.json)']:,.0f}",
            *(seconds(found["seconds of an exact search"][word]) for word in SIZES),
        ]
    )
    sizes = [
        [name, *(amount(found["bytes"][word][name]) for word in SIZES)]
        for name in found["bytes"]["one million"]
    ]
    told = [rows_of(["work", "photos/s", *SIZES], rows), rows_of(["bytes", *SIZES], sizes)]
    kept = ("ms of one search of a million, asked alone", "bytes of an index per photo")
    return "\n\n".join([*told, *(f"{name}: {found[f'{name} (engines.json)']}" for name in kept)])


def hours(number: float) -> str:
    return f"{number:,.0f} h" if number >= 10 else f"{number:.2f} h"


def seconds(number: float) -> str:
    return f"{1e3 * number:,.1f} ms" if number < 0.1 else f"{number:,.2f} s"


def amount(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:,.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} PB"


TABLES: dict[str, Callable[[Any], str]] = {
    "bytes": bytes_table,
    "codes": codes_table,
    "generated": generated_table,
    "check": check_table,
    "daejeon": density_table,
    "grown": grown_table,
    "work": work_table,
}


if __name__ == "__main__":
    main()
