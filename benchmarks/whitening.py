"""Which whitening finds most, and does any of them harm? Campus: plain, PCA, damped and learned, on the same queries.

    python benchmarks/whitening.py --data DATA [--keep FOLDER] [MODEL ...]
    python benchmarks/whitening.py --data DATA --why

A model is what `load_model` takes, or an npz file with the `descriptors` of all photos in the order of places.csv, or
of the `rows` that it tells; by default EfficientNet-Lite0 as ImageNet leaves it. For each, R@1, R@5 and R@10 on
campus-east of each whitening, and the difference in R@5 to the plain descriptor, and to PCA of the same size and
photos, with its interval (paired bootstrap over queries). Then R@5 on small maps, cut out of the west of the campus.
`--keep` holds descriptors, so that a second run reads no photo.

PCA whitening divides each direction by its standard deviation, so all count the same afterwards. That helps where
every direction says something of the place. `--why` prints for each group of directions of VGG16 whether it does: the
correlation of a query with the photos that show its place. Then R@5 of whitening fitted on fewer and on more photos,
one draw of each number, and of whitening that is damped. 15 minutes on two cores, seconds on a GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.cases import Case
from samespot.evaluation.metrics import first_hit, hits_at_k, recall_at_k
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.outcomes import per_query_scores
from samespot.evaluation.protocols import protocol_named
from samespot.evaluation.results import Variant
from samespot.evaluation.run import evaluate_cases
from samespot.evaluation.variants import Other
from samespot.model.loading import load_model
from samespot.overlap.rules import Sectors, label_within
from samespot.overlap.task import preset_tasks
from samespot.places.campus import may_match
from samespot.places.table import Places
from samespot.retrieval.damping_choice import Known, choose_damping
from samespot.retrieval.describe import describe
from samespot.retrieval.descriptors import Descriptors
from samespot.retrieval.search import search
from samespot.statistics.intervals import paired_bootstrap
from samespot.training.network import build_net
from samespot.training.options import preset_options
from samespot.whitening.recipe import Recipe, parse_recipes
from samespot.whitening.whitening import Whitening

Floats = NDArray[np.float64]
MODELS = ("efficientnet_lite0-gem@192x256",)
WAYS = "128,256,512,full,128:damped,256:damped,512:damped,full:damped,256:learned,full:learned"
VIEW = (90.0, 30.0)  # [degrees] and [m] of its graded truth
FOUND = (15.0, 30.0)  # [m] and [degrees] of campus-east
SMALL_MAPS = {20: 30, 50: 20, 100: 12, 300: 6, 700: 3}  # photos of a map: how many such maps
SIZES = (64, 128, 256, 512)
DAMPING = (0.0, 0.001, 0.01, 0.1, 0.3)
GROUPS = ((0, 16), (16, 64), (64, 128), (128, 256), (256, 384), (384, 512))
FITTED_ON = (600, 1200, 2400, None)
TOP = 5


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    arguments.add_argument("--data", type=Path, required=True, help="folder with campus/; weights beside it")
    arguments.add_argument("--keep", type=Path, help="folder for the descriptors")
    arguments.add_argument("--json", type=Path, help="file for all numbers")
    arguments.add_argument("--why", action="store_true", help="look into the directions of VGG16")
    arguments.add_argument("--weights", type=Path, help="of VGG16; by default those beside the data")
    arguments.add_argument("--device", default="auto")
    given = arguments.parse_args()
    places = Places.read(given.data / "campus" / "places.csv")
    if given.why:
        beside = sorted((given.data.resolve().parent / "weights").glob("vgg16*.safetensors"))
        if given.weights is None and not beside:
            arguments.error("no weights of VGG16 beside the data; give --weights FILE")
        why(given.data / "campus", given.weights or beside[0], given.keep, given.device)
        return
    described = {name_of(model): vectors_of(model, places, given) for model in given.models}
    result = {name: measured(given.data / "campus", places, one) for name, one in described.items()}
    tell(result)
    if given.json is not None:
        given.json.write_text(json.dumps(result, indent=1) + "\n")


def name_of(model: str) -> str:
    return Path(model).stem if Path(model).exists() else model


def vectors_of(model: str, places: Places, given: argparse.Namespace) -> Floats:
    """(photos, dims) of all photos of the campus; zero where a file has none of the west."""
    if model.endswith(".npz"):
        with np.load(model) as there:
            found = np.asarray(there["descriptors"], dtype=np.float64)
            whole = np.zeros((len(places), found.shape[1]))
            whole[there["rows"] if "rows" in there else slice(None)] = found
            return whole
    folder = None if given.keep is None else given.keep / name_of(model)
    return np.asarray(describe(load_model(model), places, folder, device=given.device).vectors, np.float64)


# ---- all ways, on the same queries ----


def measured(root: Path, places: Places, vectors: Floats) -> dict[str, Any]:
    row_of = {name: row for row, name in enumerate(places.table["image"])}

    def described(table: Places, name: str) -> Descriptors:
        rows = [row_of[image] for image in table.table["image"]]
        return Descriptors(None, vectors[rows], {"bad": {}})

    cases = protocol_named("campus-east").cases(root)
    training = next(preset_tasks("campus", root, "error")).queries
    west = described(training, "training").vectors
    known = bool(west.any())
    shrunk = ledoit_wolf(described(cases[0].places, "map").vectors)
    ways = [one for one in parse_recipes(WAYS) if known or one.how != "learned"]
    ways.append(Recipe(None, "damped", shrunk))
    done = evaluate_cases(
        protocol_named("campus-east"),
        cases,
        described,
        margin=0.5,
        model={},
        options=EvaluateOptions(protocol="campus-east", whiten=tuple(ways), acceptance=False),
        other=Other("training photos", training) if known else None,
        whiten_to_span=True,
        calibrate=False,
    )
    evaluation = done.evaluation
    scores = {one.name: per_query_scores(one, evaluation)[f"R@{TOP}"] for one in evaluation.variants}

    def line(one: Variant) -> dict[str, Any]:
        pca = replace(one, whitened_how="").name
        against = {"plain": evaluation.variant().name, "PCA": pca} if one.whitened_on else {}
        return {
            **{f"R@{k}": round(100 * one.metrics[f"R@{k}"].value, 1) for k in (1, 5, 10)},
            **{
                f"minus {word}": difference(scores[one.name], scores[name])
                for word, name in against.items()
                if name in scores and name != one.name
            },
        }

    return {
        "dims": int(vectors.shape[1]),
        "Ledoit and Wolf": shrunk,
        "east": {one.name: line(one) for one in evaluation.variants},
        "damping": {
            one.fitted_on: one.damping
            for one in done.whitenings
            if one.kind == "pca" and one.damping not in (0.0, shrunk)
        },
        "small maps": small_maps(training, west) if known else {},
    }


def ledoit_wolf(vectors: Floats) -> float:
    """The damping that estimates the covariance of the map best."""
    from sklearn.covariance import ledoit_wolf_shrinkage

    share = float(ledoit_wolf_shrinkage(vectors - vectors.mean(axis=0), assume_centered=True))
    return float(f"{share / (1 - share):.2g}")


def difference(one: Floats, other: Floats) -> list[float]:
    """In points, with its interval."""
    apart = paired_bootstrap(one, other)
    return [round(100 * x, 1) for x in (apart.value, apart.low, apart.high)]


def small_maps(places: Places, vectors: Floats) -> dict[str, Any]:
    """R@5 on maps of few photos, each the half of those nearest to a random one; the other half asks."""
    at = places.positions[:, :2]
    tables: dict[str, Any] = {}
    for size, repeats in SMALL_MAPS.items():
        found: dict[str, list[float]] = {}
        for seed in range(repeats):
            dice = np.random.default_rng(seed)
            near = np.argsort(np.hypot(*(at - at[dice.integers(len(at))]).T), kind="stable")[: 2 * size]
            rows = dice.permutation(near)
            for name, recall in of_small_map(places, vectors, rows[:size], rows[size:]).items():
                found.setdefault(name, []).append(recall)
        tables[str(size)] = {name: round(100 * float(np.mean(values)), 1) for name, values in found.items()}
    return tables


def of_small_map(places: Places, vectors: Floats, here: Any, asked: Any) -> dict[str, float]:
    queries, map_ = places.select(asked), places.select(here)
    near = label_within(queries, map_, *FOUND)
    right = [near.row(i)[0] for i in range(len(queries))]
    right = [rows[may_match(queries, map_, i, rows.astype(np.int64))] for i, rows in enumerate(right)]
    counted = np.array([len(rows) > 0 for rows in right])
    fitted = Whitening.fit(vectors[here], "the map")
    ways: dict[str, Callable[[Floats], Any]] = {"plain": lambda x: x, "PCA, all dims": fitted}
    ways["PCA, 256"] = lambda x: fitted(x, min(256, fitted.rank))
    damped = choose_damping(fitted, [Known(vectors[here], map_)], Sectors(*VIEW))
    ways["damped, 256"] = lambda x: damped(x, min(256, fitted.rank))
    ways["damped, all dims"] = damped
    found = {}
    for name, way in ways.items():
        ranks = first_hit(search(way(vectors[asked]), way(vectors[here]), TOP).rows, right)
        found[name] = float(hits_at_k(ranks, TOP)[counted].mean())
    return found


def tell(result: dict[str, Any]) -> None:
    for model, one in result.items():
        print(f"\n{model}, {one['dims']} dims, campus-east\n")
        print("| descriptor | R@1 | R@5 | R@10 | R@5 − plain | R@5 − PCA |\n|---|---|---|---|---|---|")
        for name, row in one["east"].items():
            apart = [words(row.get(f"minus {other}")) for other in ("plain", "PCA")]
            print(f"| {name} | {row['R@1']} | {row['R@5']} | {row['R@10']} | {' | '.join(apart)} |")
        damping = [f"{share:g} on {on}" for on, share in one["damping"].items()]
        print(f"\ndamping: {', '.join(damping)}; by Ledoit and Wolf it would be {one['Ledoit and Wolf']:g}")
        if not one["small maps"]:
            continue
        names = list(next(iter(one["small maps"].values())))
        print(f"\n| photos of the map | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
        for size, row in one["small maps"].items():
            print(f"| {size} | {' | '.join(str(row[name]) for name in names)} |")


def words(apart: list[float] | None) -> str:
    return "" if apart is None else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*apart)


# ---- why ----


def why(root: Path, weights: Path, keep: Path | None, device: str) -> None:
    case = protocol_named("campus-east").cases(root)[0]
    training = next(preset_tasks("campus", root, "error")).queries
    net = build_net(preset_options("campus", backbone="vgg16", pool="gem", weights=str(weights))).eval()
    places, queries, training_vectors = (
        np.asarray(
            describe(net, table, None if keep is None else keep / f"vgg16-{name}", device=device).vectors,
            dtype=np.float64,
        )
        for name, table in (("map", case.places), ("queries", case.queries), ("training", training))
    )
    tell_why(case, places, queries, training_vectors)


def tell_why(case: Case, places: Floats, queries: Floats, training: Floats) -> None:
    full = places.shape[1]
    print(f"R@5 of {len(queries)} queries, map of {len(places)} photos, {full} dims")
    print(f"as it comes: {recall(case, queries, places):.1f}\n")
    on_map = Whitening.fit(places, "the map")
    print("directions, from large variance to small: correlation of a query with the photos of its place")
    for (first, last), value in zip(GROUPS, correlations(case, queries, places, on_map), strict=True):
        print(f"  {first + 1:>4} to {last:<4} {value:+.3f}")
    times = np.sqrt(on_map.variances[0] / on_map.variances[-1])
    print(f"standard deviations: the largest is {times:.0f} times the smallest\n")

    def whitened(by: Whitening, size: int) -> float:
        return recall(case, by(queries, size), by(places, size))

    def row(words: str, by: Whitening) -> str:
        return f"{words:<14}" + "".join(f"{whitened(by, size):>8.1f}" for size in SIZES)

    print("R@5, whitened " + "".join(f"{size:>8}" for size in SIZES))
    print(row("on the map", on_map))
    dice = np.random.default_rng(0)
    for number in FITTED_ON:
        some = training if number is None else training[dice.permutation(len(training))[:number]]
        print(row(f"on {len(some)} others", Whitening.fit(some, "others")))
    print("\nR@5, full size, whitened on the map and damped by a share of the largest variance")
    for share in DAMPING:
        damped = replace(on_map, variances=on_map.variances + share * on_map.variances[0])
        print(f"  {share:<6g} {whitened(damped, full):.1f}")


def recall(case: Case, queries: NDArray[np.floating], places: NDArray[np.floating]) -> float:
    """R@5 [%] of the queries that have a photo of their place in the map."""
    assert case.positives is not None
    return 100 * recall_at_k(search(queries, places, TOP).rows, case.positives, [TOP])[TOP]


def correlations(case: Case, queries: Floats, places: Floats, on_map: Whitening) -> list[float]:
    """Along each direction, of a query and the first three photos of its place; the mean of each group."""
    assert case.positives is not None
    a, b = ((vectors - on_map.mean) @ on_map.axes.T for vectors in (queries, places))
    pairs = [(query, one) for query, right in enumerate(case.positives) for one in right[:3]]
    together = np.mean([a[query] * b[one] for query, one in pairs], axis=0)
    by_direction = together / np.sqrt((a**2).mean(axis=0) * (b**2).mean(axis=0))
    return [float(by_direction[first:last].mean()) for first, last in GROUPS]


if __name__ == "__main__":
    main()
