"""How fast images become descriptors, from JPEG files to a finished folder, against two named rivals in one run.

    python benchmarks/describe.py [--backbone resnet50] [--images 8192] [--size 480,640] [--device auto] [--json FILE]
    python benchmarks/describe.py --device cpu --backbone test_resnet.r160_in1k --images 96 --size 96,128
    python benchmarks/describe.py --device cpu --backbone efficientnet_lite0 --images 192 --reference-images 80
                                  --size 192,256 --rounds 3 --int8 --model FOLDER

plain     on a CPU: the network as it is, called on float batches with torch's defaults
files     on a GPU: reading, decoding and copying alone, with no network behind it
compute   the same network and batch with its images already on the device: the limit. On a GPU as it is and compiled;
          on a CPU in torch (batch norms folded, channels last) and in onnxruntime, whose graph is exported before
          the clock starts
samespot  `describe` as a user runs it: files read, decoded, copied, described, written; on a GPU with the JPEG files
          decoded on the processor and on the GPU
reference what the reference implementation's loop does: float32, batches of 16 from a DataLoader of 4 processes,
          Pillow and torchvision's transforms, a graph that nobody asks for, one wait for the GPU a batch, float64

limit     on a CPU: images/s if every operation of the network ran as fast as those of a large float32 product
ranking   on a CPU with --campus FOLDER: what int8 does to the answers. Recall on campus-east, and the rank correlation
          (Spearman) of the distances of every query to every map photo, in float32 and in int8

Random weights, GeM. On a CPU the ways take turns, and the best of `--rounds` counts. Goals: on a GPU samespot at least
0.95 of compute, compiled; on a CPU at least 4 times plain.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from clock import fastest, peak, reset_peak
from samespot.devices import device_named, precision_name, tuned_for
from samespot.images.listing import ImageList
from samespot.images.prefetch import blocks_ahead
from samespot.images.sources import FileImages, read_blocks, wait_for
from samespot.model.int8 import large_picture
from samespot.model.network import PlaceNet
from samespot.model.onnx_trunk import trunk_for
from samespot.places.table import Places
from samespot.retrieval.describe import Describer, default_batch_size, describe

WARM_UP = 4  # blocks before the clock starts
REFERENCE_BATCH, REFERENCE_WORKERS = 16, 4


def generated_photos(folder: Path, count: int, size: tuple[int, int]) -> Places:
    """JPEG files of about the weight of photos (0.3 bytes a pixel): crops of one large picture, and some grain."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    canvas = large_picture(2 * max(size))

    def write(number: int) -> None:
        dice = np.random.default_rng(number)
        top, left = (int(dice.integers(0, canvas.shape[i] - size[i])) for i in (0, 1))
        crop = canvas[top : top + size[0], left : left + size[1]]
        grain = dice.normal(0.0, 2.0, (*size, 1)).astype(np.float32)
        photo = Image.fromarray((crop + grain).clip(0, 255).astype(np.uint8))
        photo.save(folder / f"{number}.jpg", quality=90)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, range(count)))
    names = [f"{i}.jpg" for i in range(count)]
    columns = {"image": names, "easting": 0.0, "northing": np.arange(count) * 3.0, "heading": 90.0}
    return Places.build(folder, columns)


def measure_plain(net: PlaceNet, device: torch.device, batch: int, blocks: int) -> dict[str, float]:
    """The network as it is, nothing folded: one batch of preprocessed images, called again and again."""
    images = torch.rand((batch, 3, *net.preprocessing.size), device=device)
    net = net.eval().to(device)
    with torch.no_grad():
        for _ in range(WARM_UP):
            net(images)
        start = time.perf_counter()
        for _ in range(blocks):
            net(images)
    return {"images/s": batch * blocks / (time.perf_counter() - start)}


def measure_compute(
    net: PlaceNet,
    places: Places,
    device: torch.device,
    batch: int,
    blocks: int,
    runtime: str = "torch",
    precision: str = "auto",
    compiled: bool = False,
) -> dict[str, float]:
    """The network alone: one batch of images, on the device from the start."""
    trunk = trunk_for(net, precision=precision) if runtime == "onnxruntime" else None
    describer = Describer(net, device, precision_name(precision, device), "float32", batch, trunk, compiled)
    some = [places.images[i % len(places)] for i in range(batch)]
    images = torch.cat(list(read_blocks(some, net.preprocessing, device)))
    reset_peak(device)
    with tuned_for(device, threads=1):
        for _ in range(WARM_UP):
            describer(images)
        wait_for(device)
        start = time.perf_counter()
        for _ in range(blocks):
            describer(images)
        wait_for(device)
    return {"images/s": batch * blocks / (time.perf_counter() - start), **peak(device)}


def measure_samespot(
    net: PlaceNet,
    places: Places,
    device: torch.device,
    batch: int,
    decode: Any,
    out: Path,
    runtime: str = "torch",
    precision: str = "auto",
    compiled: bool = False,
) -> dict[str, float]:
    """`describe` itself; the rate after the first blocks, and the whole call with all that comes before and after."""
    stamps: list[tuple[float, int]] = []
    reset_peak(device)
    start = time.perf_counter()
    describe(
        net,
        places,
        out,
        batch_size=batch,
        device=str(device),
        decode=decode,
        runtime=runtime,
        precision=precision,
        compile=compiled,
        progress=lambda what, done, total: stamps.append((time.perf_counter(), done)),
    )
    seconds = time.perf_counter() - start
    (tic, before), (toc, after) = stamps[min(WARM_UP, len(stamps) - 1) - 1], stamps[-1]
    whole = {"whole call images/s": len(places) / seconds, "whole call [s]": seconds}
    return {"images/s": (after - before) / (toc - tic), **whole, **peak(device)}


def measure_files(
    net: PlaceNet, places: Places, device: torch.device, batch: int, decode: Any
) -> dict[str, float]:
    """Reading ahead as `describe` does it, with no network behind it: what the files alone allow."""
    files = FileImages(ImageList([places]), net.preprocessing, device, decode=decode)
    rows = [np.arange(start, start + batch) for start in range(0, len(places) - batch + 1, batch)]
    start = time.perf_counter()
    with (
        tuned_for(device, threads=1),
        blocks_ahead(files, rows, device) as ahead,
    ):
        for number, _ in enumerate(ahead):
            if number == WARM_UP - 1:
                wait_for(device)
                start = time.perf_counter()
    wait_for(device)
    files.close()
    return {"images/s": batch * (len(rows) - WARM_UP) / (time.perf_counter() - start)}


class ReferencePhotos(Dataset[torch.Tensor]):
    """Pillow, then resize, tensor, normalise: an image a time."""

    def __init__(self, paths: list[Path], size: tuple[int, int]) -> None:
        from torchvision import transforms

        self.paths = paths
        steps = [transforms.Resize(size), transforms.ToTensor()]
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        self.transform = transforms.Compose([*steps, transforms.Normalize(mean, std)])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> torch.Tensor:
        from PIL import Image

        image: torch.Tensor = self.transform(Image.open(self.paths[number]).convert("RGB"))
        return image


def measure_reference(net: PlaceNet, places: Places, device: torch.device, out: Path) -> dict[str, float]:
    """The reference's loop. Its rate after the first batches, when its worker processes are up."""
    net.set_train_blocks("all")  # a graph through the whole network, as there
    net = net.eval().to(device)
    photos = ReferencePhotos(places.images, net.preprocessing.size)
    loader = DataLoader(photos, batch_size=REFERENCE_BATCH, num_workers=REFERENCE_WORKERS)
    vectors = np.zeros((len(photos), net.descriptor_size))
    reset_peak(device)
    for number, images in enumerate(loader):
        if number == WARM_UP:
            tic = time.perf_counter()
        made = net(images.to(device)).cpu().detach()
        vectors[number * REFERENCE_BATCH : (number + 1) * REFERENCE_BATCH] = made
    seconds = time.perf_counter() - tic
    np.save(out, vectors)
    return {"images/s": (len(photos) - WARM_UP * REFERENCE_BATCH) / seconds, **peak(device)}


def measure_ranking(net: PlaceNet, root: Path) -> dict[str, Any]:
    """campus-east by the descriptors in float32 and in int8, as the network gives them and whitened by the model."""
    from scipy.spatial.distance import cdist
    from scipy.stats import spearmanr

    from samespot.evaluation.metrics import recall_at_k
    from samespot.evaluation.protocols import located, protocol_named
    from samespot.retrieval.search import search

    protocol = protocol_named("campus-east")
    (case,) = protocol.cases(located(root, protocol))
    assert case.positives is not None
    found: dict[str, Any] = {"queries": len(case.queries), "map": len(case.places)}
    for name, whiten in (("plain", False), ("whitened", True)):
        rows, apart, recall = {}, {}, {}
        for precision in ("32", "int8"):
            how: dict[str, Any] = {"device": "cpu", "runtime": "onnxruntime", "precision": precision}
            asked, there = (
                np.asarray(describe(net, table, whiten=whiten, **how).vectors)
                for table in (case.queries, case.places)
            )
            rows[precision] = search(asked, there, 10, device="cpu").rows
            apart[precision] = cdist(asked, there)
            recall[precision] = recall_at_k(rows[precision], case.positives)
        each = [spearmanr(a, b).statistic for a, b in zip(apart["32"], apart["int8"], strict=True)]
        found[name] = {
            "recall at 1, 5, 10 in float32": list(recall["32"].values()),
            "recall at 1, 5, 10 in int8": list(recall["int8"].values()),
            "Spearman of all distances": float(
                spearmanr(apart["32"].ravel(), apart["int8"].ravel()).statistic
            ),
            "Spearman for each query, mean": float(np.mean(each)),
            "Spearman for each query, least": float(np.min(each)),
            "first answers that are the same": float((rows["32"][:, 0] == rows["int8"][:, 0]).mean()),
        }
    return found


def measure_limit(net: PlaceNet) -> dict[str, float]:
    """What float32 allows on these cores: the operations of an image beside those a second of a large product."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        net(torch.rand((1, 3, *net.preprocessing.size)))
    side = 2048
    a, b = np.random.default_rng(0).random((2, side, side), dtype=np.float32)
    seconds, _ = fastest(lambda: a @ b, 8)
    rate, an_image = 2 * side**3 / seconds, counter.get_total_flops()
    return {"GFLOP/s of a product": rate / 1e9, "GFLOP an image": an_image / 1e9, "images/s": rate / an_image}


def fresh_net(backbone: str, size: tuple[int, int], folder: str | None = None) -> PlaceNet:
    if folder:
        return PlaceNet.load(folder).eval()
    torch.manual_seed(0)
    return PlaceNet(backbone, pretrained=False, image_size=size).eval()


def measure(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    height, width = (int(n) for n in asked.size.split(","))
    size = (height, width)
    device = device_named(asked.device)
    batch = asked.batch_size or default_batch_size(device)
    batch = min(batch, asked.images // (2 * WARM_UP))
    places = generated_photos(folder / "photos", asked.images, size)
    kilobytes = float(np.mean([path.stat().st_size for path in places.images])) / 1e3
    print(
        f"{len(places)} JPEG files of {kilobytes:.0f} kB, {asked.backbone} at {size[0]} × {size[1]}, batch {batch}"
    )
    rows: dict[str, dict[str, float]] = {}

    def row(name: str, facts: dict[str, float]) -> None:
        rows[name] = facts
        print(f"  {name:<30} " + "  ".join(f"{key} {value:,.1f}" for key, value in facts.items()), flush=True)

    few = places.select(slice(0, asked.reference_images))
    row(
        "reference",
        measure_reference(
            fresh_net(asked.backbone, size, asked.model), few, device, folder / "reference.npy"
        ),
    )
    net = fresh_net(asked.backbone, size, asked.model)
    blocks = max(1, len(places) // batch)
    if device.type == "cuda":
        for decode in ("cpu", "gpu"):
            row(f"files, decoded on the {decode.upper()}", measure_files(net, places, device, batch, decode))
        for word in ("", ", compiled"):
            how: dict[str, Any] = {"compiled": bool(word)}
            row(f"compute{word}", measure_compute(net, places, device, batch, blocks, **how))
            for decode in ("cpu", "gpu"):
                name = f"samespot{word}, decoded on the {decode.upper()}"
                out = folder / f"{decode}{word}"
                row(name, measure_samespot(net, places, device, batch, decode, out, **how))
    else:
        for name, facts in on_processor(
            net, places, device, batch, blocks, asked.rounds, folder, asked.int8
        ).items():
            row(name, facts)
    best = max(
        facts["images/s"]
        for name, facts in rows.items()
        if name.startswith("samespot") and "int8" not in name
    )
    compute = max(
        facts["images/s"] for name, facts in rows.items() if name.startswith("compute") and "int8" not in name
    )
    over_plain = {
        f"{name} over plain": facts["images/s"] / rows["plain"]["images/s"]
        for name, facts in rows.items()
        if "plain" in rows and name.startswith(("compute", "samespot"))
    }
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "backbone": asked.backbone,
        "weights": "random" if asked.model is None else Path(asked.model).name,
        "size": list(size),
        "batch": batch,
        "precision": precision_name("auto", device),
        "files": len(places),
        "kilobytes a file": kilobytes,
        "rows": rows,
        "samespot over compute (goal 0.95)": best / compute,
        "samespot over reference": best / rows["reference"]["images/s"],
        **over_plain,
    }


def on_processor(
    net: PlaceNet,
    places: Places,
    device: torch.device,
    batch: int,
    blocks: int,
    rounds: int,
    folder: Path,
    int8: bool,
) -> dict[str, dict[str, float]]:
    """The best of some rounds of each way, in turns: what else the machine does meets all of them."""
    ways = {"torch": ("torch", "32"), "onnxruntime": ("onnxruntime", "32")}
    trunk_for(net)  # exported from here on
    if int8:
        trunk_for(net, precision="int8")
        ways["onnxruntime in int8"] = ("onnxruntime", "int8")
    best: dict[str, dict[str, float]] = {}
    few = max(1, blocks // 4)
    best["limit of float32"] = measure_limit(net)
    for number in range(rounds):
        found = {"plain": measure_plain(net, device, batch, few)}
        for name, how in ways.items():
            found[f"compute, {name}"] = measure_compute(net, places, device, batch, few, *how)
        for name, how in ways.items():
            out = folder / f"{name}-{number}"
            found[f"samespot, {name}"] = measure_samespot(net, places, device, batch, "cpu", out, *how)
        for name, facts in found.items():
            if name not in best or facts["images/s"] > best[name]["images/s"]:
                best[name] = facts
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--model", help="a model folder of that size, instead of random weights")
    parser.add_argument("--images", type=int, default=8192, help="JPEG files; at least 96")
    parser.add_argument(
        "--reference-images", type=int, default=2048, help="how many of them the reference gets"
    )
    parser.add_argument("--size", default="480,640", help="height,width")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=1, help="on a CPU")
    parser.add_argument("--int8", action="store_true", help="on a CPU, also in 8-bit integers")
    parser.add_argument("--campus", type=Path, help="folder of the campus photos: also compare the answers")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SAMESPOT_CACHE"] = f"{folder}/cache"  # random weights: of no use to anyone afterwards
        result = measure(asked, Path(folder))
        if asked.campus:
            size = tuple(result["size"])
            result["ranking"] = measure_ranking(fresh_net(asked.backbone, size, asked.model), asked.campus)
            print(json.dumps(result["ranking"], indent=1))
    for name, value in result.items():
        if isinstance(value, float):
            print(f"  {name}: {value:.3g}")
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
