"""How far the probability of an answer can be trusted: in a town, whose truth is exact, and on campus, whose is not.

    python benchmarks/trust.py --town 3004                  about 12 minutes on two quiet cores, most of it keypoints
    python benchmarks/trust.py --campus ../shared/data/campus --vgg16 WEIGHTS.safetensors
    python benchmarks/trust.py --town 3004 --matcher aliked --short      a slower matcher, a smaller town, scores alone
    python benchmarks/trust.py --ship src/samespot/model/shipped/samespot-lite      the model's own calibration

The map is two visits to a town by day; 500 photos of two other visits (a rainy dusk, a snowy night; other cameras) are
asked as they are, and 500 others with everything within 100 m of them taken out of the map. On campus: the photos of
the split `query`, never answered by one of their own minute, once as they are and once without what lies within four
times as far as an answer may be off. The map calibrates itself and never sees a query. Right is within 25 m; on campus
also within 15 m. Descriptors and keypoints are kept in --cache, so a second run takes a few minutes.

Of every score: AUROC and AUPRC for telling right answers from wrong ones, and how many of the photos in the map are
answered at the threshold that gives 95 % precision on these very queries. Of the probability also what comes of the
threshold that the map chose by itself: "met" is the precision on queries that it has not seen.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score

import samespot
from samespot.files import write_whole
from samespot.images.reading import read_image
from samespot.maps.asking import Answers, Asked, ask, calibrate, model_trust
from samespot.maps.evidence import EVIDENCE
from samespot.maps.trust import Trust, auroc, report
from samespot.matching.keypoints import Keypoints
from samespot.matching.verification import Verifier, verifier_named
from samespot.overlap.rules import label_within
from samespot.places.table import Places
from samespot.retrieval import exclusion
from samespot.statistics.intervals import wilson
from samespot.statistics.reliability import reliability
from samespot.town.build import PHOTOS_PER_VISIT, build_town
from samespot.town.overlap import true_overlap
from samespot.town.truth import exact_places
from samespot.whitening.whitening import Whitening

DIMS = 256
PRECISION = 0.95
REACH = 4.0  # times as far as an answer may be off, nothing shows the place any more
HELD_OUT_TOWN, SHIPPED_TOWNS = 3001, (3002,)  # the shipped model was trained on 2000 to 2005


@dataclass(frozen=True)
class Task:
    name: str
    places: Places  # map and queries
    rows: NDArray[np.int64]  # of the map
    inside: NDArray[np.int64]  # rows that are asked as they are
    outside: NDArray[np.int64]  # and without their surroundings
    within: float
    moment: str | None = None  # column: never answered by a photo that has the same there


@dataclass(frozen=True)
class Photos:
    """A map as `calibrate` takes it, or queries, in memory."""

    places: Places
    vectors: NDArray[Any]
    kept: list[Keypoints]

    def keypoints(self, row: int) -> Keypoints:
        return self.kept[row]

    def select(self, rows: NDArray[np.int64]) -> Photos:
        return Photos(self.places.select(rows), self.vectors[rows], [self.kept[row] for row in rows])


def town_task(folder: Path, seed: int, short: bool = False) -> Task:
    queries, name = (100, f"town-{seed}-short") if short else (500, f"town-{seed}")
    places = exact_places(
        build_town(folder / name, seed, photos_per_visit=120 if short else PHOTOS_PER_VISIT)
    )
    visit = places.table["visit"].to_numpy()
    drawn = np.random.default_rng(0).permutation(np.flatnonzero(visit >= 2))
    inside, outside = np.sort(drawn[:queries]), np.sort(drawn[queries : 2 * queries])
    return Task(name.replace("-", " "), places, np.flatnonzero(visit < 2), inside, outside, within=25.0)


def campus_task(root: Path, within: float) -> Task:
    places = Places.read(root / "places.csv")
    places = places.select(places.table["split"].isin(["map", "query"]))
    split = places.table["split"].to_numpy()
    asked = np.flatnonzero(split == "query")
    rows = np.flatnonzero(split == "map")
    return Task("campus-east", places, rows, asked, asked, within, "time")


def look(
    task: Task, model: Any, cache: Path, matcher: str = "xfeat"
) -> tuple[Photos, Callable[[torch.Tensor], NDArray[Any]], Verifier]:
    """Everything as a map holds it, whitened to 256 dims by the model's whitening or by one fitted on the map."""
    name = (
        f"{task.name.replace(' ', '-')}-{model.digest()[:8]}-{'x'.join(map(str, model.preprocessing.size))}"
    )
    plain = np.asarray(samespot.describe(model, task.places, cache / name).vectors)
    whitening = model.whitening or Whitening.fit(plain[task.rows], task.name, damping="auto")
    verifier = verifier_named(matcher)

    def describe(image: torch.Tensor) -> NDArray[Any]:
        return np.asarray(whitening(model.describe_images(image[None]).numpy(), DIMS)[0])

    vectors = whitening(plain, DIMS).astype(np.float16)
    return Photos(task.places, vectors, kept_keypoints(task, verifier, cache)), describe, verifier


def kept_keypoints(task: Task, verifier: Verifier, cache: Path) -> list[Keypoints]:
    path = cache / f"{task.name.replace(' ', '-')}-{verifier.name}.npz"
    if not path.is_file():
        found = [verifier.extract(read_image(one)) for one in task.places.images]
        np.savez(
            path,
            xy=np.concatenate([one.xy for one in found]),
            descriptors=np.concatenate([one.descriptors for one in found]),
            sizes=np.array([one.size for one in found]),
            counts=np.array([len(one) for one in found]),
        )
    file = np.load(path)
    ends = np.cumsum(file["counts"])[:-1]
    parts = (np.split(file["xy"], ends), np.split(file["descriptors"], ends), file["sizes"].tolist())
    return [Keypoints(xy, numbers, (h, w)) for xy, numbers, (h, w) in zip(*parts, strict=True)]


def answers(task: Task, photos: Photos, verifier: Verifier, strangers: bool) -> Asked:
    """To the queries inside the map, or as strangers to those outside."""
    held, asked = photos.select(task.rows), photos.select(task.outside if strangers else task.inside)
    out = list[exclusion.Exclusion]()
    if strangers:
        near = label_within(asked.places, held.places, REACH * task.within)
        out.append(exclusion.pairs(near.indptr, near.columns, near.shape))
    if task.moment is not None:
        out.append(exclusion.same_name(asked.places.table[task.moment], held.places.table[task.moment]))
    excluded = exclusion.any_of(*out) if out else None
    return ask(held, asked.vectors, asked.kept, verifier, excluded=excluded, within=task.within)


@dataclass(frozen=True)
class Known:
    """Answers of one kind, and which of them are right."""

    evidence: NDArray[np.float64]
    right: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    off: NDArray[np.float64]  # [m] how far each answer is from the truth
    rows: NDArray[np.int64]  # of the map

    @classmethod
    def of(cls, task: Task, found: Answers, strange: Answers) -> Known:
        off = [
            one.off(task.places.positions[rows, :2])
            for one, rows in ((found, task.inside), (strange, task.outside))
        ]
        inside = np.repeat([True, False], [len(task.inside), len(task.outside)])
        distance = np.concatenate(off)
        right = inside & (distance <= task.within)
        evidence = np.concatenate([found.evidence, strange.evidence])
        return cls(evidence, right, inside, distance, np.concatenate([found.rows, strange.rows]))


def scores_of(known: Known) -> dict[str, NDArray[np.float64]]:
    """Single numbers that an answer could be judged by; more is better."""
    columns = dict(zip(EVIDENCE, known.evidence.T, strict=True))
    turned = {"distance": -1, "ratio": -1, "spread": -1, "inliers": 1, "contrast": 1}
    names = {"spread": "SUE (spread of the first 10)", "inliers": "inlier count"}
    return {
        names.get(name, name): turned[name] * values
        for name, values in columns.items()
        if np.isfinite(values).all()
    }


def judged(score: NDArray[np.float64], known: Known) -> dict[str, Any]:
    ranks = np.unique(score, return_inverse=True)[1] / len(score)
    return {
        "AUROC": auroc(score, known.right),
        "AUPRC": float(average_precision_score(known.right, score)),
        "coverage at 95 %": report(ranks, known.right, known.inside)["coverage"],
    }


def of_trust(trust: Trust, known: Known, verified: bool) -> dict[str, Any]:
    """What a calibration makes of queries that it has not seen."""
    p = trust.probability(known.evidence, 0.5)
    accept = trust.threshold(PRECISION, 0.5, verified=verified)
    given = np.zeros(len(p), dtype=bool) if accept is None else p >= accept
    good = given & known.right
    return {
        **judged(p, known),
        "ECE": reliability(p, known.right.astype(float)).ece,
        "accept": accept,
        "accepted": int(given.sum()),
        "met": vars(wilson(int(good.sum()), int(given.sum()))),
        "answered": vars(wilson(int(good.sum()), int(known.inside.sum()))),
        "median error [m]": float(np.median(known.off[good])) if good.any() else None,
        "questions": {name: kind.questions for name, kind in trust.kinds.items()},
        "reliability said": trust.reliability(),
    }


def measure(
    task: Task, model: Any, cache: Path, matcher: str = "xfeat", short: bool = False
) -> dict[str, Any]:
    photos, describe, verifier = look(task, model, cache, matcher)
    held = photos.select(task.rows)
    trusts: dict[str, Trust] = {}
    ways = () if short else (("of the map", describe), ("of the map, photos as they are", None))
    for name, way in ways:
        trusts[name] = calibrate(held, model, verifier, within=task.within, describe=way)
    if model.calibration is not None and not short:
        trusts["of the model"] = model_trust(model, "asked for")
    began = time.perf_counter()
    found, strange = (answers(task, photos, verifier, strangers) for strangers in (False, True))
    took = (time.perf_counter() - began) / (len(task.inside) + len(task.outside))
    result: dict[str, Any] = {"map": len(held.places), "within [m]": task.within, "asking [s/query]": took}
    for kind, verified in (("verified", True), ("plain", False)):
        known = Known.of(task, getattr(found, kind), getattr(strange, kind))
        right = known.right[known.inside]
        result[kind] = {
            "R@1": vars(wilson(int(right.sum()), len(right))),
            "scores": {name: judged(score, known) for name, score in scores_of(known).items()},
            "probability": {name: of_trust(trust, known, verified) for name, trust in trusts.items()},
        }
        if verified and not short:
            np.savez(
                cache / f"{task.name.replace(' ', '-')}-{task.within:g}-{model.backbone}-answers.npz",
                p=trusts["of the map"].probability(known.evidence),
                **vars(known),
            )
    return result


def ship(folder: Path, cache: Path, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Fit the calibration that maps too small to ask themselves fall back on, and write it into the model's config."""
    model = samespot.load_model(str(folder))
    evidence, right, inside, groups = [], [], [], []
    for seed in seeds:
        task = town_task(cache, seed)
        photos, _, verifier = look(task, model, cache)
        found, strange = (answers(task, photos, verifier, strangers) for strangers in (False, True))
        for kind in ("verified", "plain"):
            known = Known.of(task, getattr(found, kind), getattr(strange, kind))
            evidence.append(known.evidence)
            right.append(known.right)
            inside.append(known.inside)
            groups.append(10_000 * seed + np.concatenate([task.inside, task.outside]))
    parts = (np.concatenate(part) for part in (evidence, right, inside))
    facts = {"how": f"queries of other visits in the towns {', '.join(map(str, seeds))}", "within": 25.0}
    trust = Trust.fit(*parts, groups=np.concatenate(groups), source="model", facts=facts)
    config = json.loads((folder / "config.json").read_text())
    text = json.dumps({**config, "calibration": trust.to_dict()}, indent=2)
    write_whole(folder / "config.json", (text + "\n").encode())
    return trust.reliability()


def overlap_table(cache: Path, model: Any, fitted: int, checked: int) -> dict[str, Any]:
    """How much a query and its answer really share, by the area that their matches cover: learned in one town, and
    how often the truth lies between the tenths in another."""
    pairs = {}
    for seed in (fitted, checked):
        task = town_task(cache, seed)
        photos, _, verifier = look(task, model, cache)
        asked = answers(task, photos, verifier, strangers=False)
        assert asked.verified is not None
        rows = np.stack([task.inside, task.rows[asked.verified.rows]], axis=1)
        areas = np.array([one.area if one is not None else 0.0 for one in asked.agreements])
        pairs[seed] = areas, true_overlap(task.places, rows)
    area, truth = pairs[fitted]
    edges = np.quantile(area, np.linspace(0, 1, 9))
    which = np.clip(np.searchsorted(edges, area, side="right") - 1, 0, 7)
    at = [float(np.median(area[which == one])) for one in range(8)]
    levels = np.array([np.quantile(truth[which == one], [0.1, 0.5, 0.9]) for one in range(8)])
    levels = np.maximum.accumulate(levels, axis=0)
    area, truth = pairs[checked]
    low, middle, high = (np.interp(area, at, column) for column in levels.T)
    return {
        "areas": np.round(at, 3).tolist(),
        "overlaps": np.round(levels, 2).tolist(),
        "between the tenths elsewhere": float(((truth >= low) & (truth <= high)).mean()),
        "mean error elsewhere": float(np.abs(truth - middle).mean()),
        "rank correlation elsewhere": float(spearmanr(area, truth).statistic),
    }


def table(results: dict[str, Any]) -> str:
    lines = []
    for name, one in results.items():
        before, after = (one[kind]["R@1"]["value"] for kind in ("plain", "verified"))
        lines.append(
            f"{name}: {one['map']} photos, R@1 {before:.1%}, verified {after:.1%},"
            f" {one['asking [s/query]']:.2f} s a query to search and verify"
        )
        for kind in ("plain", "verified"):
            lines.append(
                f"  {kind:<42}  AUROC  AUPRC  at 95 %    ECE  answered  met [95 % interval]    error"
            )
            for score, said in one[kind]["scores"].items():
                lines.append(f"    {score:<40} {_three(said)}")
            for source, said in one[kind]["probability"].items():
                lines.append(f"    probability, {source:<27} {_three(said)}   {_of_threshold(said)}")
    return "\n".join(lines)


def _three(said: dict[str, Any]) -> str:
    return f"{said['AUROC']:.3f}  {said['AUPRC']:.3f}   {said['coverage at 95 %']:.1%}"


def _of_threshold(said: dict[str, Any]) -> str:
    met, error = said["met"], said["median error [m]"]
    answered = f"{said['ECE']:.3f}    {said['answered']['value']:.1%}"
    if error is None:
        return answered
    return f"{answered}   {met['value']:.1%} [{met['low']:.1%}, {met['high']:.1%}]  {error:.1f} m"


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--town", type=int, nargs="*", default=[], metavar="SEED", help="towns of these seeds"
    )
    arguments.add_argument("--campus", type=Path, help="folder of the campus photos")
    arguments.add_argument("--vgg16", type=Path, help="weights of VGG16: the same with vgg16-gem besides")
    arguments.add_argument(
        "--ship", type=Path, help="write the model's own calibration into this model folder"
    )
    arguments.add_argument("--matcher", default="xfeat", help="local features that verify: xfeat or aliked")
    arguments.add_argument("--short", action="store_true", help="a smaller town, and no calibration")
    arguments.add_argument(
        "--overlap", action="store_true", help="area of the matches against the true overlap"
    )
    arguments.add_argument("--towns", type=int, nargs="+", default=SHIPPED_TOWNS, help="towns for --ship")
    arguments.add_argument(
        "--cache", type=Path, default=Path("trust"), help="descriptors, keypoints and towns"
    )
    arguments.add_argument("--json", type=Path, help="add the numbers to this file")
    given = arguments.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    if given.overlap:
        lite = samespot.load_model("samespot-lite")
        print(json.dumps(overlap_table(given.cache, lite, SHIPPED_TOWNS[0], HELD_OUT_TOWN), indent=1))
        return
    if given.ship:
        print(json.dumps(ship(given.ship, given.cache, tuple(given.towns)), indent=1))
        return
    models = ["samespot-lite"] + (["vgg16-gem"] if given.vgg16 else [])
    tasks = [(town_task(given.cache, seed, given.short), "120x160") for seed in given.town]
    tasks += [(campus_task(given.campus, within), "144x144") for within in (15.0, 25.0) if given.campus]
    results = {}
    of_matcher = "" if given.matcher == "xfeat" and not given.short else f", {given.matcher}"
    for task, size in tasks:
        for name in models:
            own = name == "samespot-lite"
            model = samespot.load_model(
                name if own else f"{name}@{size}", weights=None if own else given.vgg16
            )
            key = f"{task.name} within {task.within:g} m, {name}" + of_matcher
            results[key] = measure(task, model, given.cache, given.matcher, given.short)
            print(table(dict([list(results.items())[-1]])), flush=True)
    if given.json:
        old = json.loads(given.json.read_text()) if given.json.is_file() else {}
        given.json.write_text(json.dumps({**old, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
