"""Two small runs on disk, as `samespot train` and `samespot evaluate` leave them: what reports are made of."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from samespot.evaluation.folder import write_evaluation
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.protocols.tables import table_case
from samespot.evaluation.run import evaluate_cases
from samespot.overlap.rules import Within
from samespot.places.table import Places
from samespot.retrieval.descriptors import Descriptors

# names that would break a page that does not escape them
NASTY = [
    '<img src=x onerror="window.hacked=1">.png',
    "a'b\"c&amp;d <script>window.hacked=1.png",
    "Straße №7 ψ.png",
]
THETA, RADIUS = 80.0, 40.0


def street(root, side, count, offset):
    """Photos along a street of 300 m, of various headings and colours."""
    dice = np.random.default_rng(offset)
    names = [*NASTY, *(f"{side}-{i:03d}.png" for i in range(len(NASTY), count))]
    (root / side).mkdir(parents=True)
    for i, name in enumerate(names):
        Image.new("RGB", (48, 36), (5 * i % 256, 80 + 20 * offset, 120)).save(root / side / name)
    table = {
        "image": [f"{side}/{name}" for name in names],
        "easting": np.linspace(0, 300, count) + dice.normal(0, 2, count),
        "northing": dice.normal(0, 4, count),
        "heading": dice.uniform(0, 360, count).round(1),
        "condition": np.where(np.arange(count) % 3, "day", "night <b>"),
    }
    return Places.build(root, pd.DataFrame(table))


def vectors_of(places, noise, seed):
    """Unit vectors that know the place, the better the less noise."""
    dice = np.random.default_rng(seed)
    easting, northing, heading = places.positions.T
    turn = np.deg2rad(heading)
    known = np.stack([easting / 40, northing / 40, 0.5 * np.sin(turn), 0.5 * np.cos(turn)], axis=1)
    basis = np.random.default_rng(7).normal(size=(4, 16))
    vectors = np.cos(known @ basis) + noise * dice.normal(size=(len(places), 16)) + 2
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def save_descriptors(folder, places, vectors):
    folder.mkdir(parents=True)
    np.save(folder / "descriptors.npy", vectors)
    places.save(folder / "places.parquet")
    meta = {"format": 1, "images": len(vectors), "dims": vectors.shape[1], "dtype": "float32", "bad": {}}
    meta |= {"places": places.digest(), "margin": 0.5, "model": "none"}
    (folder / "meta.json").write_text(json.dumps(meta))
    return Descriptors.open(folder)


def save_run(folder, batches, case, noise, seed):
    protocol = Protocol(
        "streets",
        "Two <streets>",
        "places",
        "all",
        "within 25 m",
        "nothing",
        "",
        lambda root: [],
        all_pairs=True,
    )

    def describe(places, name):
        kept = folder / "evaluation" / "descriptors" / name
        return save_descriptors(kept, places, vectors_of(places, noise, seed))

    options = EvaluateOptions(whiten=(4, 8))
    done = evaluate_cases(protocol, [case], describe, margin=0.5, model={"margin": 0.5}, options=options)
    write_evaluation(done, folder / "evaluation")
    sets = [{"theta": THETA, "radius": RADIUS, "measure": "overlap"}]
    config = {"options": {"batches": batches, "seed": 0}, "resolved": {"torch": "2.9"}, "sets": sets}
    (folder / "config.json").write_text(json.dumps(config))
    records = [{"step": s, "loss": 1 / s, "zero_losses": 0.1} for s in range(1, 40)]
    records.append({"step": 40, "recall@1": 0.4, "recall@5": 0.6})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    counts = {"bins": [0, 0.25, 0.5, 0.75, 1], "strategies": {batches: [70, 0, 10, 20, 30]}}
    (folder / "batches.json").write_text(json.dumps(counts))
    return done


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory):
    """Folders `graded` and `binary` of one protocol, and what `evaluate` made of them."""
    root = tmp_path_factory.mktemp("report")
    queries, places = street(root / "photos", "query", 14, 1), street(root / "photos", "map", 30, 2)
    case = table_case(queries, places, within=Within(25.0, None), theta=THETA, radius=RADIUS, name="street")
    done = {
        name: save_run(root / name, batches, case, noise, seed)
        for name, batches, noise, seed in (("graded", "A", 0.25, 3), ("binary", "binary", 0.8, 4))
    }
    folders = {name: root / name for name in done}
    return SimpleNamespace(root=root, case=case, done=done, folders=folders, save_run=save_run)
