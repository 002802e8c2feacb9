"""Why whitening to the full size lowers recall on a small map: campus, VGG16-GeM as ImageNet leaves it.

    python benchmarks/whitening.py --data DATA      15 minutes on two cores, seconds on a GPU
    python benchmarks/whitening.py --data DATA --keep vectors.npz      keeps the descriptors, and reads them next time;
                                                    they are of these weights and photos, so delete the file for others

PCA whitening divides each direction by its standard deviation, so all count the same afterwards. That helps where
every direction says something of the place. For each group of directions this prints whether it does: the correlation
of a query with the photos that show its place. Then R@5 of whitening fitted on fewer and on more photos, one draw of
each number, and of whitening that is damped, which adds a share of the largest variance to all before it divides.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.cases import Case
from samespot.evaluation.metrics import recall_at_k
from samespot.evaluation.protocols import protocol_named
from samespot.overlap.task import preset_tasks
from samespot.places.table import Places
from samespot.retrieval.describe import describe
from samespot.retrieval.search import search
from samespot.training.network import build_net
from samespot.training.options import preset_options
from samespot.whitening.whitening import Whitening

Floats = NDArray[np.float64]
SIZES = (64, 128, 256, 512)
GROUPS = ((0, 16), (16, 64), (64, 128), (128, 256), (256, 384), (384, 512))
FITTED_ON = (600, 1200, 2400, None)
DAMPING = (0.0, 0.001, 0.01, 0.1, 0.3)
TOP = 5


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--data", type=Path, required=True, help="folder with campus/; weights beside it")
    arguments.add_argument("--weights", type=Path, help="of VGG16; by default those beside the data")
    arguments.add_argument("--keep", type=Path, help="npz file for the descriptors")
    arguments.add_argument("--device", default="auto")
    given = arguments.parse_args()
    beside = sorted((given.data.resolve().parent / "weights").glob("vgg16*.safetensors"))
    if given.weights is None and not beside:
        arguments.error("no weights of VGG16 beside the data; give --weights FILE")
    case = protocol_named("campus-east").cases(given.data / "campus")[0]
    training = next(preset_tasks("campus", given.data / "campus", "error")).queries
    tables = (case.places, case.queries, training)
    tell(case, *descriptors(tables, given.weights or beside[0], given.keep, given.device))


def descriptors(
    tables: tuple[Places, ...], weights: Path, keep: Path | None, device: str
) -> tuple[Floats, Floats, Floats]:
    """Of the map, the queries and the training photos."""
    if keep is not None and keep.is_file():
        with np.load(keep) as there:
            return there["map"], there["q"], there["train"]
    net = build_net(preset_options("campus", backbone="vgg16", pool="gem", weights=str(weights))).eval()
    places, queries, training = (
        np.asarray(describe(net, photos, device=device).vectors, dtype=np.float64) for photos in tables
    )
    if keep is not None:
        np.savez(keep, map=places, q=queries, train=training)
    return places, queries, training


def tell(case: Case, places: Floats, queries: Floats, training: Floats) -> None:
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
    print("\nR@5, full size, whitened on the map and damped")
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
