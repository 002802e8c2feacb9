"""Work by one process and by a Ray cluster, in one run: seconds, their ratio, and whether the results are the same.

    python benchmarks/cluster.py [--ray local] [--device auto] [--photos 4096] [--views 64760] [--rows 1000000]

describe  photos of 480 × 640 through ResNet50 (random weights) into a folder
labels    views of Daejeon (or of generated streets) against themselves, into a folder
search    1,000 queries in a map of so many × 256 float32

The rival is samespot without `--ray`, which uses all cores of one machine. With `--ray local` the same cores do both,
and the ratio tells what sharing out the work costs. `start` is joining and a first empty job; processes of the cluster
have loaded their libraries before the clock starts, and load the network while it runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from describe import generated_photos
from labels import daejeon_views
from samespot.cluster import joined_cluster
from samespot.model.network import PlaceNet
from samespot.overlap.rules import Sectors
from samespot.retrieval.describe import describe
from samespot.retrieval.search import search
from samespot.retrieval.sharded import search_sharded

WARM = 512  # photos before the clock starts
K = 25


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def digest(folder: Path) -> str:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in found)).hexdigest()


def nothing(job: str) -> str:
    return job


def compared(work: str, units: int, one: float, many: float, same: bool) -> dict[str, Any]:
    ways = [
        f"{name} {time:7.1f} s ({units / time:9,.0f}/s)" for name, time in (("one", one), ("cluster", many))
    ]
    told = "the same" if same else "NOT THE SAME"
    print(f"{work:>10}: {', '.join(ways)}, one over cluster {one / many:.2f}, {told}", flush=True)
    return {"one [s]": one, "cluster [s]": many, "one over cluster": one / many, "same": same, "units": units}


def measure_describe(asked: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    size = tuple(asked.size)
    net = PlaceNet(asked.backbone, pretrained=False, image_size=size).eval()
    places = generated_photos(scratch / "photos", asked.photos, size)
    how = {"device": asked.device}
    describe(net, places.select(slice(0, min(WARM, len(places)))), **how)
    one, _ = timed(lambda: describe(net, places, scratch / "one", **how))
    describe(net, places.select(slice(0, min(WARM, len(places)))), ray=asked.ray, **how)
    many, _ = timed(lambda: describe(net, places, scratch / "many", ray=asked.ray, **how))
    return compared("describe", len(places), one, many, digest(scratch / "one") == digest(scratch / "many"))


def measure_labels(asked: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    views, rule = daejeon_views(asked.views)[0], Sectors()
    few = views.select(slice(0, 2000))
    rule.label(few, few)
    rule.label(few, few, ray=asked.ray)
    one, _ = timed(lambda: rule.label(views, views, out=scratch / "l1"))
    many, _ = timed(lambda: rule.label(views, views, out=scratch / "l2", ray=asked.ray))
    return compared("labels", len(views), one, many, digest(scratch / "l1") == digest(scratch / "l2"))


def measure_search(asked: argparse.Namespace, cluster: Any) -> dict[str, Any]:
    dice = np.random.default_rng(0)
    places = dice.standard_normal((asked.rows, 256), dtype=np.float32)
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    queries = places[:: max(1, asked.rows // 1000)][:1000] + np.float32(0.02)
    search(queries[:2], places, K, device="cpu")
    one, found = timed(lambda: search(queries, places, K, device="cpu"))
    many, also = timed(lambda: search_sharded(cluster, queries, places, K))
    same = np.array_equal(found.rows, also.rows) and np.array_equal(found.distances, also.distances)
    return compared("search", len(queries), one, many, same)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ray", default="local", help="address of a cluster")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--photos", type=int, default=4096)
    parser.add_argument(
        "--size", type=lambda words: [int(word) for word in words.split(",")], default=[480, 640]
    )
    parser.add_argument("--views", type=int, default=64_760)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*", default=["describe", "labels", "search"])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    begun = time.perf_counter()
    with joined_cluster(asked.ray) as cluster, tempfile.TemporaryDirectory() as folder:
        list(cluster.each(nothing, ["empty"]))
        found |= {"start [s]": time.perf_counter() - begun, "cores": cluster.cores, "GPUs": cluster.gpus}
        print(
            f"     start: {found['start [s]']:.1f} s; {cluster.cores} cores, {cluster.gpus} GPUs", flush=True
        )
        scratch = Path(folder)
        if "describe" in asked.only:
            found["describe"] = measure_describe(asked, scratch)
        if "labels" in asked.only:
            found["labels"] = measure_labels(asked, scratch)
        if "search" in asked.only:
            found["search"] = measure_search(asked, cluster)
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
