"""How well do labels agree with what two photos really share, and what do GPS and compass errors cost?

    python benchmarks/town_labels.py --json docs/results/town_labels.json --images docs/images
    python benchmarks/town_labels.py --table docs/results/town_labels.json

Builds the town of seed 7 (or takes --town FOLDER), measures the true visual overlap of all pairs of the test quarter
within reach by reprojecting depth, and compares with it weak 2D, strong 2D, 3D and binary labels. Then: other angles
and radii, other notions of what is seen, growing errors, two more towns. Five to six minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from label_agreement import draw_label_agreement, draw_label_noise, draw_sector_sweep
from samespot.evaluation.protocols.town import REACH, SharedView
from samespot.figures.contact_sheet import draw_contact_sheet
from samespot.figures.town_map import draw_town_map
from samespot.overlap.classes import POSITIVE
from samespot.overlap.rules import label_scene, label_within
from samespot.overlap.sector import sector_overlap
from samespot.places.table import Places
from samespot.town.build import build_town
from samespot.town.noise import Noise, measured
from samespot.town.overlap import Views, true_overlap
from samespot.town.render import intrinsics_of, render
from samespot.town.truth import exact_places, read_description, town_scene
from samespot.town.visits import make_visits
from samespot.town.world import make_town, on_visit

THETA, RADIUS = 90.0, 50.0  # the paper's for streets
METRES, DEGREES = 25.0, 40.0  # the usual binary label
THETAS = (45, 60, 75, 90, 105, 120, 150, 180)
RADII = (15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 100)
FEW = ((75, 90, 105, 120), (35, 40, 45, 50, 60))  # of them, for further towns
GPS = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)  # [m] in each direction, of each photo
COMPASS = (0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0)  # [deg]
ROUGH = (5.0, 20.0)  # GPS and compass of a poor phone, for the sweep
TURNS = (0, 15, 40, 90, 135, 180)
GROUND = 0.3  # [m] up to here it is road, pavement or grass
UNALIKE = 0.1  # true overlap below which a positive label misleads
BINS = 20
Floats = np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Pairs of a query (row i) and a photo of the map (row j) within reach, and what they truly share."""

    queries: Places  # exact positions
    places: Places
    i: Floats
    j: Floats
    true: Floats

    @property
    def poses(self) -> tuple[Floats, Floats]:
        """(pairs, 3) easting, northing, heading of either side."""
        return self.queries.positions[self.i], self.places.positions[self.j]

    def measured(self, gps: float, compass: float, seed: int) -> tuple[Floats, Floats]:
        """The same with errors of these deviations, half of the variance shared by a visit."""
        both = np.concatenate([self.queries.positions, self.places.positions])
        visit = np.concatenate([t.table["visit"] for t in (self.queries, self.places)])
        half = np.sqrt(0.5)
        noise = Noise(gps * half, gps * half, compass * half, compass * half)
        seen = measured(both, visit, noise, seed)
        return seen[self.i], seen[len(self.queries) + self.j]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=Path, help="print what this result holds, and stop")
    parser.add_argument("--town", type=Path, help="a town with depth, or the folder to build it in")
    parser.add_argument("--photos-per-visit", type=int, default=750)
    parser.add_argument("--other-towns", default="8,9", help="seeds of further towns, or nothing")
    parser.add_argument("--draws", type=int, default=10, help="draws of the errors at each deviation")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--images", type=Path, help="folder to draw the figures in")
    asked = parser.parse_args()
    study = json.loads(asked.table.read_text()) if asked.table else measure(asked)
    print_tables(study)
    if asked.json:
        asked.json.write_text(compact(study) + "\n")
    if asked.images:
        for path in draw(asked.images, study, asked.town):
            shrink(path)


def draw(images: Path, study: dict[str, Any], town: Path | None) -> list[Path]:
    """The figures of the study; with a town, also its map and its contact sheet."""
    drawn = [
        draw_label_agreement(images / "town_labels.png", study),
        draw_sector_sweep(images / "town_sectors.png", study),
        draw_label_noise(images / "town_noise.png", study),
    ]
    if town:
        photos = Places.read(town / "places.csv")
        drawn += [
            draw_town_map(images / "town_map.png", photos, read_description(town)["plan"]),
            draw_contact_sheet(images / "town_visits.png", photos, spots=3),
        ]
    return drawn


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    start = time.perf_counter()

    def tell(what: str) -> None:
        print(f"{time.perf_counter() - start:6.0f} s  {what}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        root = asked.town or Path(scratch) / "town"
        photos = (
            Places.read(root / "places.csv")
            if (root / "town.json").is_file()
            else build_town(root, 7, photos_per_visit=asked.photos_per_visit)
        )
        tell(f"town: {len(photos):,} photos")
        pairs, truth = true_pairs(photos)
        tell(f"true overlap of {len(pairs.i):,} pairs")
        labels = kinds(photos, pairs)
        study: dict[str, Any] = {
            "command": "python benchmarks/town_labels.py",
            "town": {key: read_description(root)[key] for key in ("seed", "photos_per_visit", "noise")},
            "population": population(pairs),
            "kinds": {name: agreement(pairs, label) for name, label in labels.items()},
            "turns": by_turn(pairs, labels),
            "ahead": ahead(pairs, labels),
        }
        tell("labels compared")
        study["sweep"] = sweep(pairs)
        tell("angles and radii")
        study["truths"] = other_truths(photos, pairs, labels, truth)
        tell("other truths")
        study["noise"] = noise(pairs, study["sweep"]["best"]["exact"], asked.draws)
        tell("errors of GPS and compass")
        study["towns"] = {}
        for seed in (int(word) for word in asked.other_towns.split(",") if word):
            other = build_town(Path(scratch) / str(seed), seed, photos_per_visit=asked.photos_per_visit)
            its, _ = true_pairs(other)
            study["towns"][seed] = {
                name: agreement(its, label, resamples=200) for name, label in kinds(other, its).items()
            }
            for one in study["towns"][seed].values():
                del one["density"], one["reliability"]
            study["towns"][seed]["best"] = best_of(sweep_one(its, *its.poses, FEW), FEW)
            tell(f"town {seed}")
    study["seconds"] = round(time.perf_counter() - start)
    return study


def true_pairs(photos: Places) -> tuple[Pairs, Any]:
    """All pairs of the test quarter near enough to share anything."""
    exact = exact_places(photos)
    split = exact.table["split"].to_numpy(dtype=str)
    queries, places = (exact.select(split == name) for name in ("query", "map"))
    near, truth = label_within(queries, places, REACH), SharedView().label(queries, places)
    i = np.repeat(np.arange(len(queries)), np.diff(near.indptr))
    j = near.columns.astype(np.int64)
    return Pairs(queries, places, i, j, truth.lookup(i, j).astype(np.float64)), truth


def kinds(photos: Places, pairs: Pairs) -> dict[str, Floats]:
    """The label of each pair, by the kind of label."""
    split = photos.table["split"].to_numpy(dtype=str)
    seen = [photos.select(split == name).positions for name in ("query", "map")]
    weak = seen[0][pairs.i], seen[1][pairs.j]
    scene = town_scene(photos.select(split != "train"))
    seen_points = label_scene(pairs.queries, pairs.places, scene, occlusion="depth")
    points = seen_points.lookup(pairs.i, pairs.j).astype(np.float64)
    return {
        "weak 2D": sector_overlap(*weak, THETA, RADIUS),
        "strong 2D": sector_overlap(*pairs.poses, THETA, RADIUS),
        "3D": points,
        "3D, as a share": 2 * points / (1 + points),  # of IoU, if both photos see as many points
        "binary, weak": within(*weak),
        "binary, strong": within(*pairs.poses),
    }


def within(a: Floats, b: Floats) -> Floats:
    """1 for pairs at most 25 m and 40° apart."""
    near = np.hypot(*(a - b)[:, :2].T) <= METRES
    return (near & (turn_of(a, b) <= DEGREES)).astype(np.float64)


def turn_of(a: Floats, b: Floats) -> Floats:
    return np.abs((a[:, 2] - b[:, 2] + 180.0) % 360.0 - 180.0)


def population(pairs: Pairs) -> dict[str, Any]:
    a, b = pairs.poses
    positive = pairs.true >= POSITIVE
    return {
        "queries": len(pairs.queries),
        "map": len(pairs.places),
        "reach": REACH,
        "pairs": len(pairs.i),
        "true > 0": int((pairs.true > 0).sum()),
        "true >= 0.5": int(positive.sum()),
        "largest": float(pairs.true.max()),
        "true >= 0.5, turned by more than 135": float((turn_of(a, b) > 135)[positive].mean()),
    }


def agreement(pairs: Pairs, label: Floats, resamples: int = 1000) -> dict[str, Any]:
    """How a label agrees with the truth; [value, low, high] of the 95 % interval, photos drawn again on both sides."""
    from sklearn.isotonic import IsotonicRegression

    true = pairs.true
    either = (true > 0) | (label > 0)
    rescaled = IsotonicRegression(y_min=0, y_max=1).fit(label[either], true[either]).predict(label[either])
    drawn = Resampled(pairs, resamples)
    called, real = label >= POSITIVE, true >= POSITIVE
    rank = [rankdata(x) for x in (label, true)]
    rank_either = [np.zeros(len(true)) for _ in range(2)]
    for whole, x in zip(rank_either, (label, true), strict=True):
        whole[either] = rankdata(x[either])
    everywhere = np.ones(len(true), dtype=bool)
    return {
        "pairs either > 0": int(either.sum()),
        "labels > 0": int((label > 0).sum()),
        "labels >= 0.5": int(called.sum()),
        "pearson": drawn.correlation(label, true, everywhere),
        "pearson, either > 0": drawn.correlation(label, true, either),
        "pearson, turned by 90 at most": drawn.correlation(label, true, turn_of(*pairs.poses) <= 90),
        "spearman": drawn.correlation(rank[0], rank[1], everywhere),
        "spearman, either > 0": drawn.correlation(rank_either[0], rank_either[1], either),
        "error, either > 0": drawn.share(np.abs(label - true), either),
        "error after rescaling": float(np.abs(rescaled - true[either]).mean()),
        "positives right": drawn.share(real, called),
        "positives found": drawn.share(called, real),
        "positives that share < 0.1": drawn.share(true < UNALIKE, called),
        "non-zero right": drawn.share(true > 0, label > 0),
        "non-zero found": drawn.share(label > 0, true > 0),
        "density": np.histogram2d(label[either], true[either], BINS, ((0, 1), (0, 1)))[0]
        .astype(int)
        .tolist(),
        "reliability": reliability(label[either], true[either]),
    }


class Resampled:
    """Statistics of pairs with photos, not pairs, drawn anew: a pair counts as often as its query times its map photo.

    All are made of sums over pairs, which for all draws at once are products of matrices.
    """

    def __init__(self, pairs: Pairs, resamples: int) -> None:
        rng = np.random.default_rng(0)
        self.shape, self.at = (len(pairs.queries), len(pairs.places)), (pairs.i, pairs.j)
        # the first row is the sample itself
        self.weights = [
            np.vstack([np.ones(n), rng.multinomial(n, np.full(n, 1 / n), resamples)]) for n in self.shape
        ]

    def sums(self, values: Floats) -> Floats:
        grid = np.zeros(self.shape)
        grid[self.at] = values
        return np.einsum("bm,bm->b", self.weights[0] @ grid, self.weights[1])

    def share(self, values: Floats, among: Floats) -> list[float]:
        """Mean of values over the pairs `among`."""
        return percentiles(self.sums(values * among) / self.sums(among))

    def correlation(self, a: Floats, b: Floats, among: Floats) -> list[float]:
        # about their means, so that no small difference of large sums is left
        a, b = ((x - x[among].mean()) / x[among].std() * among for x in (a, b))
        n, sa, sb = self.sums(among), self.sums(a), self.sums(b)
        spread = [self.sums(x * x) / n - (s / n) ** 2 for x, s in ((a, sa), (b, sb))]
        return percentiles((self.sums(a * b) / n - sa * sb / n**2) / np.sqrt(spread[0] * spread[1]))


def percentiles(values: Floats) -> list[float]:
    return [float(values[0]), *np.nanpercentile(values[1:], [2.5, 97.5]).tolist()]


def reliability(label: Floats, true: Floats, bins: int = 10) -> dict[str, list[Any]]:
    """Mean label and mean truth in tenths of the label; labels of 0 by themselves, as the first one."""
    which = np.where(label > 0, np.ceil(label * bins).astype(int), 0)
    full = [k for k in range(bins + 1) if (which == k).any()]
    return {
        "bin": full,
        "label": [float(label[which == k].mean()) for k in full],
        "true": [float(true[which == k].mean()) for k in full],
        "quartiles": [np.percentile(true[which == k], [25, 75]).tolist() for k in full],
        "pairs": [int((which == k).sum()) for k in full],
    }


def by_turn(pairs: Pairs, labels: dict[str, Floats]) -> list[dict[str, Any]]:
    turn, rows = turn_of(*pairs.poses), []
    for low, high in pairwise(TURNS):
        mine = (turn >= low) & ((turn < high) | (high == 180))
        row: dict[str, Any] = {"from": low, "to": high, "pairs": int(mine.sum())}
        row |= {"true >= 0.5": int((pairs.true[mine] >= POSITIVE).sum())}
        for name in ("strong 2D", "3D"):
            label, true = labels[name][mine], pairs.true[mine]
            called = label >= POSITIVE
            row[name] = {
                "labels >= 0.5": int(called.sum()),
                "pearson": float(np.corrcoef(label, true)[0, 1]),
                "positives right": float((true >= POSITIVE)[called].mean()),
                "positives that share < 0.1": float((true < UNALIKE)[called].mean()),
            }
        rows.append(row)
    return rows


def ahead(pairs: Pairs, labels: dict[str, Floats]) -> dict[str, Any]:
    """Means by distance, of pairs that look the same way (turned by less than 15°)."""
    a, b = pairs.poses
    metres, edges = np.hypot(*(a - b)[:, :2].T), np.arange(0, 85, 5)
    alike = turn_of(a, b) < 15
    masks = [alike & (metres >= low) & (metres < low + 5) for low in edges[:-1]]
    shown = {"true": pairs.true} | {name: labels[name] for name in ("strong 2D", "3D", "3D, as a share")}
    return {"metres": edges.tolist(), "pairs": [int(m.sum()) for m in masks]} | {
        name: [float(values[m].mean()) for m in masks] for name, values in shown.items()
    }


def sweep(pairs: Pairs) -> dict[str, Any]:
    """Correlation with the truth, all pairs within reach, for each angle and radius; exact and with rough errors."""
    found = {
        "exact": sweep_one(pairs, *pairs.poses),
        "rough": sweep_one(pairs, *pairs.measured(*ROUGH, seed=0)),
    }
    fov = [np.asarray(t.table["fov"], dtype=np.float64) for t in (pairs.queries, pairs.places)]
    own = {
        f"{r}": correlation(
            sector_overlap(*pairs.poses, fov[0][pairs.i], r, theta_b=fov[1][pairs.j]), pairs.true
        )
        for r in (40, 45, 50)
    }
    return {
        "theta": list(THETAS),
        "radius": list(RADII),
        "rough": list(ROUGH),
        "pearson": found,
        "best": {name: best_of(values) for name, values in found.items()},
        "own field of view, by radius": own,
    }


def sweep_one(pairs: Pairs, a: Floats, b: Floats, over: Any = (THETAS, RADII)) -> list[list[float]]:
    thetas, radii = over
    return [[correlation(sector_overlap(a, b, t, r), pairs.true) for r in radii] for t in thetas]


def best_of(values: list[list[float]], over: Any = (THETAS, RADII)) -> list[float]:
    """Angle, radius and correlation of the best."""
    t, r = np.unravel_index(np.argmax(values), np.shape(values))
    return [over[0][t], over[1][r], values[t][r]]


def correlation(a: Floats, b: Floats) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def other_truths(photos: Places, pairs: Pairs, labels: dict[str, Floats], truth: Any) -> dict[str, Any]:
    """How the answer changes with what counts as seen: less far, to the horizon, or without the ground.

    Over all pairs of the quarter, at any distance.
    """
    import pandas as pd

    both = Places(photos.root, pd.concat([pairs.queries.table, pairs.places.table], ignore_index=True))
    q, m = len(pairs.queries), len(pairs.places)
    i, j = (side.ravel() for side in np.indices((q, m)))
    a, b = pairs.queries.positions[i], pairs.places.positions[j]
    apart = np.hypot(*(a - b)[:, :2].T)
    stored = Views.read(both)
    seen = {
        "to 30 m": (np.where(stored.depth <= 30, stored.depth, 0), 60.0),
        "to 65 m, no ground": (np.where(heights(stored) > GROUND, stored.depth, 0), REACH),
        "to the horizon": (whole_depth(both), np.inf),
    }
    found = {"to 65 m": truth.lookup(i, j).astype(np.float64)}
    for name, (depth, reach) in seen.items():
        near = apart <= reach
        views = replace(stored, depth=depth.astype(np.float32))
        found[name] = np.zeros(len(i))
        found[name][near] = true_overlap(views, np.stack([i, q + j], axis=1)[near])
    points = np.zeros((q, m))
    points[pairs.i, pairs.j] = labels["3D"]
    sectors = {(t, r): sector_overlap(a, b, t, r) for t in FEW[0] for r in RADII}
    return {
        name: truth_facts(true, found["to 65 m"], sectors, points.ravel(), turn_of(a, b))
        for name, true in found.items()
    }


def truth_facts(true: Floats, usual: Floats, sectors: Any, points: Floats, turn: Floats) -> dict[str, Any]:
    values = {key: correlation(label, true) for key, label in sectors.items()}
    theta, radius = max(values, key=lambda key: values[key])
    return {
        "true > 0": int((true > 0).sum()),
        "true >= 0.5": int((true >= POSITIVE).sum()),
        "of them turned by more than 135": float((turn > 135)[true >= POSITIVE].mean()),
        "r with 65 m": correlation(true, usual),
        "strong 2D, 90, 50": values[THETA, RADIUS],
        "3D": correlation(points, true),
        "best": [theta, radius, values[theta, radius]],
    }


def heights(views: Views) -> Floats:
    """(n, h, w) metres above the ground of what each pixel shows."""
    h, w = views.depth.shape[1:]
    v, u = np.mgrid[:h, :w] + 0.5
    up = np.empty(views.depth.shape, dtype=np.float32)
    for k, (turn, lens) in enumerate(zip(views.rotations, views.intrinsics, strict=True)):
        fx, fy, cx, cy = lens
        rise = turn[2, 0] * (u - cx) / fx + turn[2, 1] * (v - cy) / fy + turn[2, 2]
        up[k] = views.centres[k, 2] + views.depth[k] * rise
    return up


def whole_depth(photos: Places) -> Floats:
    """(n, h, w) depth to the horizon: the files end at 65 m, so the photos are taken again."""
    said = read_description(photos.root)
    size, town = tuple(said["size"]), make_town(said["seed"])
    depth = np.zeros((len(photos), *size), dtype=np.float32)
    for visit in make_visits(said["seed"], len(said["visits"])):
        world = on_visit(town, visit.number, visit.hour, visit.weather, visit.season)
        rows = np.flatnonzero((photos.table["visit"] == visit.number).to_numpy())
        things = (world.mesh, world.atlas, world.ground, world.light)
        poses = (photos.centres[rows], photos.quaternions[rows])
        depth[rows] = render(*things, *poses, intrinsics_of(visit.fov, size), size)[1]
    return np.where(np.isfinite(depth), depth, np.float32(0))


def noise(pairs: Pairs, best: list[float], draws: int) -> dict[str, Any]:
    """Correlation, and the share of positives that mislead, against the deviation; mean and spread over draws."""
    rules: dict[str, Callable[[Floats, Floats], Floats]] = {
        f"2D, {THETA:g}°, {RADIUS:g} m": lambda a, b: sector_overlap(a, b, THETA, RADIUS),
        f"2D, {best[0]:g}°, {best[1]:g} m": lambda a, b: sector_overlap(a, b, best[0], best[1]),
        f"binary, {METRES:g} m, {DEGREES:g}°": within,
    }
    result: dict[str, Any] = {"draws": draws}
    for what, sizes in (("gps", GPS), ("compass", COMPASS)):
        found = np.empty((len(rules), 2, len(sizes), draws))
        for k, size in enumerate(sizes):
            for seed in range(draws if size else 1):
                poses = pairs.measured(*((size, 0.0) if what == "gps" else (0.0, size)), seed)
                for n, rule in enumerate(rules.values()):
                    label = rule(*poses)
                    positive = label >= POSITIVE
                    misled = (pairs.true < UNALIKE)[positive].mean()
                    stop = seed + 1 if size else draws
                    found[n, :, k, seed:stop] = np.array([correlation(label, pairs.true), misled])[:, None]
        result[what] = {"sigma": list(sizes)} | {
            name: {
                "pearson": spread(found[n, 0]),
                "misled": spread(found[n, 1]),
            }
            for n, name in enumerate(rules)
        }
    return result


def spread(values: Floats) -> list[list[float]]:
    """Mean, smallest and largest over the draws, at each deviation."""
    return np.stack([values.mean(axis=1), values.min(axis=1), values.max(axis=1)], axis=1).tolist()


def print_tables(study: dict[str, Any]) -> None:
    p = study["population"]
    print(
        f"\n{p['queries']} queries × {p['map']} photos of the map; {p['pairs']:,} pairs within {p['reach']:g} m,"
    )
    print(f"of them {p['true > 0']:,} share something and {p['true >= 0.5']:,} half or more of their view")
    print(f"({p['true >= 0.5, turned by more than 135']:.0%} of these turned by more than 135°).")
    print_kinds(study["kinds"])
    print(
        "\n| label | mean true overlap, by label: 0 | "
        + " | ".join(f"to {k / 10:g}" for k in range(1, 11))
        + " |"
    )
    print("|---|" + "---|" * 11)
    for name, one in study["kinds"].items():
        if "binary" not in name:
            means = dict(zip(one["reliability"]["bin"], one["reliability"]["true"], strict=True))
            print(
                f"| {name} | " + " | ".join(f"{means[k]:.2f}" if k in means else "" for k in range(11)) + " |"
            )
    print_head(["turned by", "pairs", "truly ≥ 0.5", "2D ≥ 0.5", "of them right", "r, strong 2D", "r, 3D"])
    for row in study["turns"]:
        two, three = row["strong 2D"], row["3D"]
        print(
            f"| {row['from']}° to {row['to']}° | {row['pairs']:,} | {row['true >= 0.5']:,} "
            f"| {two['labels >= 0.5']:,} | {two['positives right']:.0%} "
            f"| {two['pearson']:.2f} | {three['pearson']:.2f} |"
        )
    print_ahead(study["ahead"])
    print_sweep(study["sweep"])
    print_truths(study["truths"])
    print_noise(study["noise"])
    for seed, town in study["towns"].items():
        best = town.pop("best")
        print(f"\nTown {seed} (best: {best[0]}°, {best[1]} m, r = {best[2]:.3f})")
        print_kinds(town)
        town["best"] = best
    print(f"\n{study['seconds']} s")


def print_head(columns: list[str]) -> None:
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))


def print_kinds(found: dict[str, Any]) -> None:
    columns = {
        "pearson": "Pearson r", "pearson, either > 0": "r, either > 0",
        "pearson, turned by 90 at most": "r, turned ≤ 90°",
        "spearman": "Spearman", "spearman, either > 0": "Spearman, either > 0",
        "error, either > 0": "mean error", "error after rescaling": "after rescaling",
        "positives right": "≥ 0.5 right", "positives found": "≥ 0.5 found",
        "positives that share < 0.1": "≥ 0.5 but < 0.1", "non-zero right": "> 0 right", "non-zero found": "> 0 found",
    }  # fmt: skip
    print(
        "\n| label | pairs either > 0 | "
        + " | ".join(columns.values())
        + " |\n|---|---|"
        + "---|" * len(columns)
    )
    for name, one in found.items():
        cells = [words(one[key], key) for key in columns]
        print(f"| {name} | {one['pairs either > 0']:,} | " + " | ".join(cells) + " |")


def words(value: Any, key: str) -> str:
    percent = "right" in key or "found" in key or "positives" in key
    form = (lambda x: f"{100 * x:.1f}") if percent else (lambda x: f"{x:.3f}")
    if isinstance(value, float):
        return form(value)
    return f"{form(value[0])} [{form(value[1])}, {form(value[2])}]" + (" %" if percent else "")


def print_ahead(found: dict[str, Any]) -> None:
    names = [name for name in found if name not in ("metres", "pairs")]
    print("\n| turned < 15°, apart | pairs | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
    for k, low in enumerate(found["metres"][:-1]):
        cells = [f"{found[name][k]:.2f}" for name in names]
        print(f"| {low} to {low + 5} m | {found['pairs'][k]:,} | " + " | ".join(cells) + " |")


def print_sweep(found: dict[str, Any]) -> None:
    for name, values in found["pearson"].items():
        gps, compass = found["rough"] if name == "rough" else (0, 0)
        print(f"\nPearson r by angle and radius, GPS {gps:g} m, compass {compass:g}°")
        print("| θ \\ r | " + " | ".join(f"{r} m" for r in found["radius"]) + " |")
        print("|---|" + "---|" * len(found["radius"]))
        for theta, row in zip(found["theta"], values, strict=True):
            print(f"| {theta}° | " + " | ".join(f"{x:.3f}" for x in row) + " |")
    print(
        "\nEach camera's own field of view as θ:",
        {r: round(x, 3) for r, x in found["own field of view, by radius"].items()},
    )


def print_truths(found: dict[str, Any]) -> None:
    head = [
        "truth",
        "pairs > 0",
        "≥ 0.5",
        "of them facing",
        "r with 65 m",
        "strong 2D",
        "3D",
        "best θ, r",
        "its r",
    ]
    print_head(head)
    for name, one in found.items():
        theta, radius, r = one["best"]
        numbers = [one[key] for key in ("r with 65 m", "strong 2D, 90, 50", "3D")]
        facing = one["of them turned by more than 135"]
        print(
            f"| {name} | {one['true > 0']:,} | {one['true >= 0.5']:,} | {facing:.0%} | "
            + " | ".join(f"{x:.3f}" for x in numbers)
            + f" | {theta}°, {radius} m | {r:.3f} |"
        )


def print_noise(found: dict[str, Any]) -> None:
    for what, unit in (("gps", "m"), ("compass", "°")):
        names = [name for name in found[what] if name != "sigma"]
        print(f"\n{what}: r, and positives that share < 0.1; mean [least, most] of {found['draws']} draws")
        print(
            "| σ | "
            + " | ".join(f"{n}: r | misleading" for n in names)
            + " |\n|---|"
            + "---|---|" * len(names)
        )
        for k, sigma in enumerate(found[what]["sigma"]):
            cells = [
                words(found[what][n][key][k], word)
                for n in names
                for key, word in (("pearson", ""), ("misled", "right"))
            ]
            print(f"| {sigma:g} {unit} | " + " | ".join(cells) + " |")


def compact(study: dict[str, Any]) -> str:
    """Json with short numbers and the innermost lists on one line."""
    import re

    rounded = json.loads(json.dumps(study), parse_float=lambda word: float(f"{float(word):.5g}"))
    return re.sub(
        r"\[\s+([^\[\]{}]*?)\s+\]",
        lambda m: "[" + re.sub(r"\s*\n\s*", " ", m[1]) + "]",
        json.dumps(rounded, indent=1, ensure_ascii=False),
    )


def shrink(path: Path) -> None:
    """To 256 colours and 1,400 px, or as few as keep it under 300 KB."""
    from PIL import Image

    with Image.open(path) as file:
        picture = file.convert("RGB")
    for side in (1400, 1200, 1000, 800):
        small = picture.copy()
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        small.quantize(256, Image.Quantize.FASTOCTREE).save(path, optimize=True)
        if path.stat().st_size < 290_000:
            break
    print(f"{path} {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
