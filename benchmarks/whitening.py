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
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.cases import Case
from samespot.reproduce.data_sets import DataSet, data_sets
from samespot.retrieval.describe import describe
from samespot.training.options import TrainingOptions
from samespot.training.trainer import build_net

Floats = NDArray[np.float64]
Axes = tuple[Floats, Floats, Floats]  # mean, variances from large to small, directions as columns
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
    weights = given.weights or beside[0]
    with TemporaryDirectory() as work:
        campus = data_sets(given.data, {}, Path(work))["campus"]
        case = campus.cases[0]
        places, queries, training = descriptors(campus, weights, given.keep, given.device)
    print(f"R@5 of {len(queries)} queries, map of {len(places)} photos, {places.shape[1]} dims")
    print(f"as it comes: {recall(queries, places, case):.1f}\n")
    on_map = axes_of(places)
    print("directions, from large variance to small: correlation of a query with the photos of its place")
    for (first, last), value in zip(GROUPS, correlations(queries, places, case, on_map), strict=True):
        print(f"  {first + 1:>4} to {last:<4} {value:+.3f}")
    print(
        f"standard deviations: the largest is {np.sqrt(on_map[1][0] / on_map[1][-1]):.0f} times the smallest\n"
    )
    print("R@5, whitened " + "".join(f"{size:>8}" for size in SIZES))
    print(row("on the map", on_map, queries, places, case))
    dice = np.random.default_rng(0)
    for number in FITTED_ON:
        some = training if number is None else training[dice.permutation(len(training))[:number]]
        print(row(f"on {len(some)} others", axes_of(some), queries, places, case))
    print("\nR@5, full size, whitened on the map and damped")
    for share in DAMPING:
        asked, there = (whitened(x, on_map, places.shape[1], share) for x in (queries, places))
        print(f"  {share:<6g} {recall(asked, there, case):.1f}")


def descriptors(campus: DataSet, weights: Path, keep: Path | None, device: str) -> tuple[Floats, ...]:
    """Of the map, the queries and the training photos."""
    if keep is not None and keep.is_file():
        with np.load(keep) as there:
            return tuple(there[name] for name in ("map", "q", "train"))
    options: TrainingOptions = campus.options.with_changes(backbone="vgg16", pool="gem", weights=str(weights))
    net, case = build_net(options).eval(), campus.cases[0]
    found = tuple(
        np.asarray(describe(net, photos, device=device).vectors, dtype=np.float64)
        for photos in (case.places, case.queries, campus.training_photos)
    )
    if keep is not None:
        np.savez(keep, map=found[0], q=found[1], train=found[2])
    return found


def axes_of(vectors: Floats) -> Axes:
    mean = vectors.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov((vectors - mean).T))
    return mean, variances[::-1], directions[:, ::-1]


def whitened(vectors: Floats, axes: Axes, size: int, damping: float = 0.0) -> Floats:
    mean, variances, directions = axes
    scale = np.sqrt(variances[:size] + damping * variances[0])
    result: Floats = (vectors - mean) @ directions[:, :size] / scale
    return result


def recall(queries: Floats, places: Floats, case: Case) -> float:
    """R@5 [%] of the queries that have a photo of their place in the map."""
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, places))
    nearest = np.argsort(-(a @ b.T), axis=1)[:, :TOP]
    found = [bool(np.isin(nearest[query], right).any()) for query, right in shown(case)]
    return 100 * float(np.mean(found))


def shown(case: Case) -> list[tuple[int, NDArray[np.int64]]]:
    """Of each query that counts, the map photos of its place."""
    assert case.positives is not None
    return [(query, right) for query, right in enumerate(case.positives) if len(right)]


def correlations(queries: Floats, places: Floats, case: Case, axes: Axes) -> list[float]:
    """Along each direction, of a query and the first three photos of its place; the mean of each group."""
    mean, _, directions = axes
    a, b = ((x - mean) @ directions for x in (queries, places))
    pairs = [(query, one) for query, right in shown(case) for one in right[:3]]
    together = np.mean([a[query] * b[one] for query, one in pairs], axis=0)
    by_direction = together / np.sqrt((a**2).mean(axis=0) * (b**2).mean(axis=0))
    return [float(by_direction[first:last].mean()) for first, last in GROUPS]


def row(words: str, axes: Axes, queries: Floats, places: Floats, case: Case) -> str:
    values = [recall(whitened(queries, axes, k), whitened(places, axes, k), case) for k in SIZES]
    return f"{words:<14}" + "".join(f"{value:>8.1f}" for value in values)


if __name__ == "__main__":
    main()
