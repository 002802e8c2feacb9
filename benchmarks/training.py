"""How fast a network learns, from JPEG files on disk to updated weights, against two named rivals in one run.

    python benchmarks/training.py [--backbone resnet50] [--image-size 480 640] [--steps 60] [--json FILE] [--tiny]
    python benchmarks/training.py --batches
    python benchmarks/training.py --decoding --compile     what each part of decoding costs beside the step, on a GPU

files     reading, decoding and copying batches alone, with no network behind it
compute   the same training step with its images already on the GPU: the limit
samespot  `train` as a user runs it: files read, decoded, copied, augmented by nothing, learned from
decoded   the same with --images-in-memory: what later looks at the same photos cost, where they fit
cached    the same with --cache-frozen: the frozen part is not run again
reference what the reference implementation does with a batch: float32, micro-batches of two pairs copied one by
          one, the whole network in the graph, one wait for the GPU a micro-batch. Its images are handed to it
          decoded and normalised, so reading files costs it nothing.

Random weights, the two last blocks trained, GeM, 480 × 640, batches A of 64 pairs. Goals on a GPU: samespot at
least 0.95 of compute and 12 times the reference, cached 15 times. --tiny is a small network on the CPU, to see that it
runs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clock import peak, reset_peak
from samespot.devices import device_named, half_of, precision_name, tuned_for
from samespot.images.options import IMAGE_SIZE
from samespot.images.prefetch import read_ahead
from samespot.images.sources import FileImages, _upright_jpeg
from samespot.model.network import PlaceNet
from samespot.overlap.rules import label_pairs
from samespot.places.table import Places
from samespot.training.batches import Batches
from samespot.training.gradient import Learner
from samespot.training.logbook import read_metrics
from samespot.training.loop import train_network
from samespot.training.losses.contrastive import pair_losses
from samespot.training.network import build_net
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet

WARM_UP = 8  # steps before the clock starts


def generated_photos(folder: Path, count: int, size: tuple[int, int]) -> LabelledSet:
    """JPEG files that weigh what street photos weigh (about 0.2 bytes a pixel and more), along a street."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)

    def write(number: int) -> None:
        dice = np.random.default_rng(number)
        coarse = Image.fromarray(dice.integers(0, 256, (size[0] // 20, size[1] // 20, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((size[1], size[0]), Image.Resampling.BICUBIC), dtype=np.float32)
        grain = dice.normal(0.0, 12.0, (*size, 1)).astype(np.float32)
        photo = Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8))
        photo.save(folder / f"{number}.jpg", quality=85)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, range(count)))
    columns = {
        "image": [f"{i}.jpg" for i in range(count)],
        "easting": np.zeros(count),
        "northing": np.arange(count) * 3.0,
        "heading": np.full(count, 90.0),
    }
    table = Places.build(folder, columns)
    return LabelledSet(table, table, label_pairs(table, table))


def measure_compute(options: TrainingOptions, photos: LabelledSet, steps: int) -> dict[str, float]:
    """The same learner, optimiser and batch size; one batch of images, on the device from the start."""
    device = device_named(options.device)
    net = fresh_net(options)
    half = half_of(precision_name(options.precision, device))
    learner = Learner(net, options, device, half=half)
    optimiser = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 1e-4)
    batches = Batches([photos], options.batches, options.batch_pairs)
    batch = batches(0)
    files = FileImages(batches.images, net.preprocessing, device)
    loaded = files.load(batch.images)
    files.close()

    def step() -> None:
        learner.backward(batch, loaded)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    with tuned_for(device):
        start = time.perf_counter()
        step()
        wait_for(device)
        first = {"first step [s]": time.perf_counter() - start}  # tuning, and compiling
        return {"pairs/s": options.batch_pairs * timed(step, steps, device), **first, **peak(device)}


def measure_files(options: TrainingOptions, photos: LabelledSet, steps: int) -> dict[str, float]:
    """Batches read ahead as `train` does it, with no network behind it: what the files alone allow."""
    device = device_named(options.device)
    batches = Batches([photos], options.batches, options.batch_pairs)
    net = fresh_net(options)
    files = FileImages(batches.images, net.preprocessing, device, decode=options.decode)
    start = time.perf_counter()
    with (
        tuned_for(device, threads=1),
        read_ahead(files, batches, range(WARM_UP + steps), device, options.prefetch) as ahead,
    ):
        for number, _ in enumerate(ahead):
            if number == WARM_UP - 1:
                wait_for(device)
                start = time.perf_counter()
    wait_for(device)
    files.close()
    return {"pairs/s": options.batch_pairs * steps / (time.perf_counter() - start)}


def measure_samespot(
    options: TrainingOptions, photos: LabelledSet, steps: int, run: Path
) -> dict[str, float]:
    """`train` itself; the rate between the log after the warm-up and the last one."""
    device = device_named(options.device)
    reset_peak(device)
    train_network(
        options.with_changes(steps=WARM_UP + steps, log_every=WARM_UP),
        [photos],
        run,
        net=fresh_net(options),
    )
    first, last = read_metrics(run)[0], read_metrics(run)[-1]
    seconds = [m["pairs"] / m["pairs_per_second"] for m in (first, last)]
    rate = (last["pairs"] - first["pairs"]) / (seconds[1] - seconds[0])
    return {"pairs/s": rate, **peak(device)}


def measure_reference(options: TrainingOptions, photos: LabelledSet, steps: int) -> dict[str, float]:
    """The reference's way with a batch, on images that are already decoded and normalised in host memory."""
    device = device_named(options.device)
    reset_peak(device)
    net = fresh_net(options.with_changes(train_blocks="all"))
    net.update_statistics = True  # its batch norms are in training mode
    net = net.train().to(device)
    optimiser = torch.optim.SGD(net.parameters(), 1e-4)
    batches = Batches([photos], options.batches, options.batch_pairs)
    batch = batches(0)
    files = FileImages(batches.images, net.preprocessing, torch.device("cpu"))
    pixels = net.preprocessing.normalise(files.load(batch.images).values)
    files.close()
    first, second = pixels.chunk(2)
    similarity = torch.from_numpy(batch.similarity)
    micro = 2

    def step() -> None:
        parts = options.batch_pairs // micro
        for start in range(0, options.batch_pairs, micro):
            some = slice(start, start + micro)
            x, y = net(first[some].to(device)), net(second[some].to(device))
            losses = pair_losses(x, y, similarity[some].to(device))
            (losses == 0).sum().item()
            (losses.mean() / parts).backward()
        optimiser.step()
        optimiser.zero_grad()

    with tuned_for(device):
        rate = timed(step, max(2, steps // 10), device, warm_up=1)
    return {"pairs/s": options.batch_pairs * rate, **peak(device)}


def measure_decoding(
    options: TrainingOptions, photos: LabelledSet, steps: int
) -> dict[str, dict[str, float]]:
    """The step on images that are on the GPU, while a thread does a part of decoding for every step: how fast the step
    is, and how long that part takes for a batch; without the step, too."""
    from torchvision.io import ImageReadMode, decode_jpeg

    device = device_named(options.device)
    net, batches = fresh_net(options), Batches([photos], options.batches, options.batch_pairs)
    learner = Learner(net, options, device, half=half_of(precision_name(options.precision, device)))
    batch = batches(0)
    on_gpu, on_cpu = (
        FileImages(batches.images, net.preprocessing, device, decode=by) for by in ("gpu", "cpu")
    )
    loaded = on_gpu.load(batch.images)
    encoded = [_upright_jpeg(batches.images.path(int(number))) for number in np.unique(batch.images)]
    decoded = decode_jpeg(encoded, ImageReadMode.RGB, device=device)
    parts: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "nvJPEG": lambda: decode_jpeg(encoded, ImageReadMode.RGB, device=device),
        "resizing on the GPU": lambda: net.preprocessing.resize(torch.stack(decoded)),
        "files read, nvJPEG, resizing": lambda: on_gpu.load(batch.images),
        "files read and decoded on the CPU": lambda: on_cpu.load(batch.images),
    }

    def step() -> None:
        learner.backward(batch, loaded)

    rows = {}
    for name, part in parts.items():
        for _ in range(2):
            part()
        alone = timed(part, 10, device)
        due, over, took = threading.Semaphore(2), threading.Event(), list[float]()

        def work(part: Callable[[], Any] = part, due: Any = due, over: Any = over, took: Any = took) -> None:
            with torch.cuda.stream(torch.cuda.Stream(device)):
                while not over.is_set():
                    if due.acquire(timeout=0.1):
                        begun = time.perf_counter()
                        part()
                        torch.cuda.current_stream().synchronize()
                        took.append(time.perf_counter() - begun)

        def step_and_ask(due: Any = due) -> None:
            step()
            due.release()

        with tuned_for(device, threads=1), ThreadPoolExecutor(1) as beside:
            running = beside.submit(work)
            rate = timed(step_and_ask, steps, device)
            over.set()
            running.result()
        rows[name] = {
            "pairs/s of the step": options.batch_pairs * rate,
            "ms a batch": 1e3 * float(np.median(took)),
            "ms a batch without the step": 1e3 / alone,
        }
        show(name, rows)
    return rows


def measure_batches(steps: int = 300) -> dict[str, float]:
    """Milliseconds to draw a batch of 64 pairs from labels of MSLS's size: 22 cities, 500,000 × 900,000 pairs."""
    dice = np.random.default_rng(0)

    def city(name: str, count: int) -> Places:
        columns = {
            "image": [f"{name}{i}.jpg" for i in range(count)],
            "easting": dice.random(count) * 3000.0,
            "northing": dice.random(count) * 3000.0,
            "heading": dice.random(count) * 360.0,
        }
        return Places.build("nowhere", columns, missing_images="ignore")

    milliseconds = {}
    with tempfile.TemporaryDirectory() as folder:
        sets = []
        for number in range(22):
            queries, places = city(f"q{number}-", 500_000 // 22), city(f"m{number}-", 900_000 // 22)
            labels = label_pairs(queries, places, out=Path(folder) / str(number))
            sets.append(LabelledSet(queries, places, labels))
        for strategy in ("A", "B", "C", "D", "binary", "all"):
            batches = Batches(sets, strategy, order="refill")
            batches(0)
            start = time.perf_counter()
            for step in range(1, steps + 1):
                batches(step)
            milliseconds[f"{strategy} [ms]"] = 1e3 * (time.perf_counter() - start) / steps
    return milliseconds


def fresh_net(options: TrainingOptions) -> PlaceNet:
    torch.manual_seed(0)
    return build_net(options).train()


def timed(step: Callable[[], None], steps: int, device: torch.device, warm_up: int = WARM_UP) -> float:
    """Steps a second."""
    reset_peak(device)
    for _ in range(warm_up):
        step()
    wait_for(device)
    start = time.perf_counter()
    for _ in range(steps):
        step()
    wait_for(device)
    return steps / (time.perf_counter() - start)


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    tiny = asked.tiny
    size = (64, 64) if tiny else tuple(asked.image_size)
    options = TrainingOptions(
        backbone="test_resnet.r160_in1k" if tiny else asked.backbone,
        pretrained=False,
        image_size=size,
        batch_pairs=8 if tiny else 64,
        schedule="constant",
        learning_rate=1e-4,
        checkpoint_every=10**9,
        tensorboard=False,
        compile=asked.compile,
        cache_frozen="no",
        images_in_memory="no",
        device="cpu" if tiny else "auto",
    )
    steps = 8 if tiny else asked.steps
    photos = generated_photos(folder / "photos", 32 if tiny else asked.photos, size)
    if asked.decoding:
        return {"device": torch.cuda.get_device_name(), "decoding": measure_decoding(options, photos, steps)}
    sizes = [path.stat().st_size for path in photos.queries.images]
    on_gpu = not tiny and torch.cuda.is_available()
    print(
        f"{len(sizes)} JPEG files of {np.mean(sizes) / 1e3:.0f} kB, {options.backbone}, {options.batch_pairs} pairs"
    )
    rows: dict[str, dict[str, float]] = {}
    for decode in ("cpu", "gpu") if on_gpu else ("cpu",):
        name = f"files, decoded on the {decode.upper()}"
        rows[name] = measure_files(options.with_changes(decode=decode), photos, steps)
        show(name, rows)
    rows["compute"] = measure_compute(options, photos, steps)
    show("compute", rows)
    for decode in ("cpu", "gpu") if on_gpu else ("cpu",):
        name = f"samespot, decoded on the {decode.upper()}"
        rows[name] = measure_samespot(options.with_changes(decode=decode), photos, steps, folder / decode)
        show(name, rows)
    decoded = options.with_changes(images_in_memory="device")
    rows["samespot, kept decoded"] = measure_samespot(decoded, photos, steps, folder / "decoded")
    show("samespot, kept decoded", rows)
    cached = options.with_changes(cache_frozen="device")
    rows["samespot, cached"] = measure_samespot(cached, photos, steps, folder / "cached")
    show("samespot, cached", rows)
    rows["reference"] = measure_reference(options, photos, steps)
    show("reference", rows)
    best = max(row["pairs/s"] for name, row in rows.items() if name.startswith("samespot, decoded"))
    return {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "options": options.to_dict(),
        "rows": rows,
        "samespot over compute (goal 0.95)": best / rows["compute"]["pairs/s"],
        "samespot over reference (goal 12)": best / rows["reference"]["pairs/s"],
        "cached over reference (goal 15)": rows["samespot, cached"]["pairs/s"] / rows["reference"]["pairs/s"],
        "cached over samespot": rows["samespot, cached"]["pairs/s"] / best,
    }


def show(name: str, rows: dict[str, dict[str, float]]) -> None:
    facts = "  ".join(f"{key} {value:,.1f}" for key, value in rows[name].items())
    print(f"  {name:<30} {facts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--image-size", type=int, nargs=2, default=IMAGE_SIZE, metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--photos", type=int, default=512)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a small network on the CPU")
    parser.add_argument("--batches", action="store_true", help="only the time to draw a batch")
    parser.add_argument("--decoding", action="store_true", help="only what decoding costs beside the step")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    result: dict[str, Any] = measure_batches() if asked.batches else measure_in_scratch(asked)
    for name, value in result.items():
        if isinstance(value, float):
            print(f"  {name}: {value:.3g}")
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


def measure_in_scratch(asked: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return measure(asked, Path(folder))


if __name__ == "__main__":
    main()
