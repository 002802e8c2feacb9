"""What training buys on real photos: recipes on the campus set, by the protocol campus-east.

    python benchmarks/campus.py CAMPUS --weights VGG16.safetensors --suite strategies --out docs/results/strategies.json

A suite is a list of named recipes; each is trained with every seed from the same start, then evaluated by
`samespot.evaluation` without whitening, and whitened (PCA) on the evaluated map or on the training photos. Every line
of the result holds the recipe, the seed, the recalls and for each query the rank of its first hit, so that any table
can be made of it later: `--table` prints means over seeds, `--differences A,B` an interval for A − B.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocols import protocol_named
from samespot.evaluation.results import Variant
from samespot.evaluation.run import evaluate_cases
from samespot.evaluation.variants import MAP, Other
from samespot.images.sources import read_blocks
from samespot.model.network import PlaceNet
from samespot.model.pooling import GeM
from samespot.overlap.rules import label_pairs, label_within
from samespot.overlap.task import preset_tasks
from samespot.places.table import Places
from samespot.retrieval.descriptors import Descriptors
from samespot.statistics.intervals import Interval, paired_bootstrap_runs
from samespot.training.loop import train_network
from samespot.training.network import build_net
from samespot.training.options import TrainingOptions, preset_options
from samespot.training.sets import LabelledSet
from samespot.whitening.recipe import recipes
from seeds import hits, mean_of

DIMS = (32, 64, 128, 256, 512)
TRAINING = "training photos"
COMPARED = ("512", f"128 whitened on {MAP}", f"256 whitened on {TRAINING}")
CACHED = {"cache_frozen": "device"}  # the same result in a third of the time, where nothing is augmented
ALL = {"batches": "all", "learning_rate": 1.0}
THIRDS = {"class_weights": (1 / 3, 1 / 3, 1 / 3)}
STRONG = {**ALL, **THIRDS, "learning_rate": 2.0, "schedule": "cosine", "augment": 1.0}
SUITES: dict[str, dict[str, dict[str, Any]]] = {
    "strategies": {
        "binary": {"batches": "binary", **CACHED},
        "A": {"batches": "A", **CACHED},
        "B": {"batches": "B", **CACHED},
        "C": {"batches": "C", **CACHED},
        "D": {"batches": "D", **CACHED},
        "all": {**ALL, **CACHED},
    },
    "rates": {
        "A lr 0.3": {"batches": "A", "learning_rate": 0.3, **CACHED},
        "A lr 1": {"batches": "A", "learning_rate": 1.0, **CACHED},
        "binary lr 0.1": {"batches": "binary", "learning_rate": 0.1, **CACHED},
        "all thirds": {**ALL, **THIRDS, **CACHED},
        "all lr 3": {**ALL, "learning_rate": 3.0, **CACHED},
    },
    "recipes": {
        "strong": dict(STRONG),
        "no augmentation": {**STRONG, "augment": 0.0, **CACHED},
        "no augmentation, 2000 steps": {**STRONG, "augment": 0.0, "steps": 2000, **CACHED},
        "no augmentation, 192 pairs": {**STRONG, "augment": 0.0, "batch_pairs": 192, **CACHED},
        "half augmentation": {**STRONG, "augment": 0.5},
        "crops": {**STRONG, "crop": 0.25},
        "flips": {**STRONG, "flip": True},
        "lr 4": {**STRONG, "learning_rate": 4.0},
        "momentum": {**STRONG, "momentum": 0.9, "learning_rate": 0.3},
        "adamw": {**STRONG, "optimiser": "adamw", "learning_rate": 1e-4, "weight_decay": 1e-4},
        "margin 0.8": {**STRONG, "margin": 0.8},
        "3 blocks": {**STRONG, "train_blocks": 3},
        "1500 steps": {**STRONG, "steps": 1500},
        "192 pairs": {**STRONG, "batch_pairs": 192},
    },
    "flips": {
        "flips": {**STRONG, "flip": True},
        "flips, 128 pairs": {**STRONG, "flip": True, "batch_pairs": 128},
    },
    # for the processor: what the frozen blocks make of 144 px is kept
    "lite": {
        "EfficientNet-Lite0, 144 px": {
            **ALL,
            **THIRDS,
            "schedule": "cosine",
            "image_size": (144, 144),
            "cache_frozen": "memory",
            "images_in_memory": "no",
        },
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campus", type=Path, nargs="?")
    parser.add_argument(
        "--table", type=Path, nargs="+", help="print what these results hold, as a table, and stop"
    )
    parser.add_argument(
        "--weights", type=Path, help="VGG16 convolutions; without it the backbone's own weights"
    )
    parser.add_argument(
        "--suite", default="strategies", help=f"{', '.join(SUITES)}, or a json file of recipes"
    )
    parser.add_argument("--only", help="names of recipes, separated by ;")
    parser.add_argument("--seeds", default="0,1,2", help="seeds, separated by commas")
    parser.add_argument("--backbone", default="vgg16")
    parser.add_argument("--untrained", action="store_true", help="also evaluate the network as it comes")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the whole evaluation.json of each run")
    parser.add_argument("--intervals", action="store_true", help="with --table: recalls with intervals")
    parser.add_argument("--trust", action="store_true", help="with --table: graded metrics and calibration")
    parser.add_argument("--differences", nargs="+", help="with --table: recipes A,B whose R@5 to compare")
    parser.add_argument("--seconds", type=float, default=540, help="stop before a run that would end later")
    asked = parser.parse_args()
    if asked.table:
        runs = [run for path in asked.table for run in json.loads(path.read_text())["runs"]]
        if asked.intervals:
            print_intervals(runs)
        elif asked.trust:
            print_trust(runs)
        elif asked.differences:
            print_differences(runs, [tuple(words.split(",")) for words in asked.differences])
        else:
            print_table(runs)
        return
    if asked.campus is None or asked.out is None:
        parser.error("give the campus folder and --out, or --table")
    start = time.perf_counter()
    data = _load(asked.campus)
    recipes = SUITES[asked.suite] if asked.suite in SUITES else json.loads(Path(asked.suite).read_text())
    if asked.only:
        recipes = {name: recipes[name] for name in asked.only.split(";")}
    common: dict[str, Any] = {"backbone": asked.backbone, "images_in_memory": "device", "tensorboard": False}
    if not torch.cuda.is_available():
        common["images_in_memory"] = "host"
    if asked.weights:
        common["weights"] = str(asked.weights)
    lines: list[dict[str, Any]] = []
    if asked.untrained:
        options = preset_options("campus", **common)
        net = build_net(options)
        lines.append(
            {
                "recipe": "off the shelf",
                "seed": None,
                **_evaluate(net, data, asked.keep / "off-the-shelf.json" if asked.keep else None),
            }
        )
        _tell(lines[-1])
    slowest = 0.0
    for seed in (int(word) for word in asked.seeds.split(",")):
        for name, changes in recipes.items():
            if time.perf_counter() - start + 1.1 * slowest > asked.seconds:
                print(f"left out for lack of time: {name}, seed {seed}")
                continue
            begun = time.perf_counter()
            options = preset_options("campus", **{**common, **changes, "seed": seed})
            lines.append(_run(name, options, data, asked.keep))
            slowest = max(slowest, time.perf_counter() - begun)
            _tell(lines[-1])
            _write(asked, recipes, lines)
    _write(asked, recipes, lines)


def _load(campus: Path) -> dict[str, Any]:
    train_task, _ = preset_tasks("campus", campus, "error")
    photos = train_task.queries
    return {
        "graded": LabelledSet(photos, photos, label_pairs(photos, photos, 90.0, 30.0)),
        "binary": LabelledSet(photos, photos, label_within(photos, photos, 15.0, 40.0)),
        "train": photos,
        "cases": protocol_named("campus-east").cases(campus),
    }


def _run(name: str, options: TrainingOptions, data: dict[str, Any], keep: Path | None) -> dict[str, Any]:
    labels = data["binary" if options.batches == "binary" else "graded"]
    with tempfile.TemporaryDirectory() as scratch:
        begun = time.perf_counter()
        result = train_network(options, [labels], Path(scratch) / "run")
        seconds = time.perf_counter() - begun
        assert result.model is not None
        net = PlaceNet.load(result.model)
    return {
        "recipe": name,
        "seed": options.seed,
        "options": options.to_dict(),
        "seconds": round(seconds, 1),
        "pairs per second": round(result.pairs_per_second, 1),
        "loss": result.loss,
        "redrawn": result.redrawn,
        **_evaluate(net, data, keep / f"{name.replace(' ', '-')}-{options.seed}.json" if keep else None),
    }


def _evaluate(net: PlaceNet, data: dict[str, Any], keep: Path | None = None) -> dict[str, Any]:
    net = net.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    photos = Other(TRAINING, data["train"])
    done = evaluate_cases(
        protocol_named("campus-east"),
        data["cases"],
        lambda places, name: _describe(net, data, places, name),
        margin=net.margin,
        model={"digest": net.digest(), **net.config()},
        options=EvaluateOptions(protocol="campus-east", whiten=recipes(DIMS)),
        other=photos,
    )
    if keep is not None:
        done.evaluation.save(keep)
    found: dict[str, Any] = {"recall": _recalls(done.evaluation.variant())}
    for name, fitted_on in (("whitened on the map", MAP), ("whitened on training photos", TRAINING)):
        kinds = [v for v in done.evaluation.variants if v.whitened_on == fitted_on]
        found[name] = {str(v.dims): _recalls(v) for v in kinds}
    counted = done.evaluation.queries.counted
    found["first hits"] = {  # as one string a kind: a list would be a line a query
        v.name: " ".join(map(str, v.outcomes["first_hit"][counted].tolist()))
        for v in done.evaluation.variants
        if v.name in COMPARED
    }
    plain = done.evaluation.variant()
    found["graded"] = {
        v.name: {m: round(v.metrics[m].value, 4) for m in ("overlap@1", "nDCG@10")}
        for v in done.evaluation.variants
    }
    found["calibration"] = {
        how: {key: plain.curves[how][key] for key in ("ece", "bias", "pearson", "spearman")}
        for how in ("calibration", "calibration, isotonic")
        if how in plain.curves
    }
    found["acceptance"] = {v.name: v.curves["acceptance"]["at"] for v in done.evaluation.variants}
    found["pooling exponent"] = float(net.pool.p.detach()) if isinstance(net.pool, GeM) else None
    return found


def _describe(net: PlaceNet, data: dict[str, Any], table: Places, name: str) -> Descriptors:
    """Images are decoded once for each size and stay in memory."""
    key = f"{name} {net.preprocessing.size}"
    if key not in data:
        data[key] = torch.cat(list(read_blocks(table.images, net.preprocessing, torch.device("cpu"), 64)))
    with torch.no_grad():
        vectors = net.describe_images(data[key], batch_size=256).float().cpu().numpy()
    return Descriptors(None, vectors, {"bad": {}})


def _recalls(variant: Variant) -> dict[str, float]:
    return {str(k): round(100 * variant.metrics[f"R@{k}"].value, 2) for k in (1, 5, 10)}


def _tell(line: dict[str, Any]) -> None:
    plain = "/".join(f"{v:.1f}" for v in line["recall"].values())
    best = max(line["whitened on the map"].items(), key=lambda x: x[1]["5"])
    trained = max(line["whitened on training photos"].items(), key=lambda x: x[1]["5"])
    print(
        f"{line['recipe']:>20} seed {line['seed']}: R@1/5/10 {plain}; "
        f"whitened R@5 {best[1]['5']:.1f} ({best[0]} dims, map), "
        f"{trained[1]['5']:.1f} ({trained[0]} dims, train); {line.get('seconds', 0):.0f} s",
        flush=True,
    )


def _write(asked: argparse.Namespace, recipes: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    result = {
        "command": "python benchmarks/campus.py CAMPUS " + " ".join(sys.argv[2:]),
        "protocol": "campus-east: within 15 m and 30°, another minute; 523 queries",
        "device": device,
        "torch": torch.__version__,
        "runs": lines,
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n")


def print_intervals(runs: list[dict[str, Any]]) -> None:
    """Recall of each recipe with an interval over queries and seeds: R@1, 5, 10 plain, R@5 of the other kinds."""
    plain, *others = COMPARED
    print("| recipe | seeds | R@1 | R@5 | R@10 | " + " | ".join(f"R@5, {kind}" for kind in others) + " |")
    print("|---|" + "---|" * (4 + len(others)))
    for name in dict.fromkeys(run["recipe"] for run in runs):
        cells = [hits(runs, name, plain, k) for k in (1, 5, 10)] + [
            hits(runs, name, kind, 5) for kind in others
        ]
        print(f"| {name} | {len(cells[0])} | " + " | ".join(mean_of(cell).percent() for cell in cells) + " |")


def print_trust(runs: list[dict[str, Any]]) -> None:
    """How far predicted overlap can be trusted: means over seeds, plain descriptors."""
    print("| recipe | overlap@1 | nDCG@10 | ECE of 1 − d/τ | ECE isotonic | correlation with true overlap |")
    print("|---|---|---|---|---|---|")
    for name in dict.fromkeys(run["recipe"] for run in runs):
        mine = [run for run in runs if run["recipe"] == name]
        graded = [
            np.mean([run["graded"]["512"][metric] for run in mine]) for metric in ("overlap@1", "nDCG@10")
        ]
        kinds = ("calibration", "calibration, isotonic")
        ece = [np.mean([run["calibration"][kind]["ece"] for run in mine]) for kind in kinds]
        related = np.mean([run["calibration"]["calibration"]["pearson"] for run in mine])
        print(f"| {name} | {graded[0]:.3f} | {graded[1]:.3f} | {ece[0]:.3f} | {ece[1]:.3f} | {related:.2f} |")


def print_differences(runs: list[dict[str, Any]], pairs: list[tuple[str, ...]]) -> None:
    """A − B in R@5 over the same queries, all seeds: plain, and whitened to 128 dims on either set."""
    print("| A − B, R@5 | " + " | ".join(COMPARED) + " |")
    print("|---|" + "---|" * len(COMPARED))
    for a, b in pairs:
        cells = [_difference(runs, a, b, kind) for kind in COMPARED]
        shown = [f"**{one.points()}**" if one.significant else one.points() for one in cells]
        print(f"| {a} − {b} | " + " | ".join(shown) + " |")


def _difference(runs: list[dict[str, Any]], a: str, b: str, kind: str, k: int = 5) -> Interval:
    """One side may be a network as it comes, which has no seeds: its answers stand against each of the other's."""
    found = [hits(runs, name, kind, k) for name in (a, b)]
    seeds = max(len(side) for side in found)
    one, other = (np.repeat(side, seeds, axis=0) if len(side) == 1 else side for side in found)
    return paired_bootstrap_runs(one, other)


def print_table(runs: list[dict[str, Any]]) -> None:
    """Mean and range over seeds of each recipe: recall as it is, and R@5 whitened to the best size."""
    print("| recipe | seeds | R@1 | R@5 | R@10 | R@5 whitened on the map | R@5 whitened on training photos |")
    print("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(run["recipe"] for run in runs):
        mine = [run for run in runs if run["recipe"] == name]
        cells = [_mean_and_range([run["recall"][k] for run in mine]) for k in ("1", "5", "10")]
        for how in ("whitened on the map", "whitened on training photos"):
            means = {d: float(np.mean([run[how][d]["5"] for run in mine])) for d in mine[0][how]}
            best = max(means, key=lambda d: means[d])
            cells.append(f"{_mean_and_range([run[how][best]['5'] for run in mine])} at {best}")
        print(f"| {name} | {len(mine)} | " + " | ".join(cells) + " |")


def _mean_and_range(values: list[float]) -> str:
    spread = f" ({min(values):.1f}–{max(values):.1f})" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
