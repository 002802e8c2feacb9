"""All the figures of one labelled set, as `samespot label` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.figures.sectors import draw_pair
from samespot.figures.similarity import draw_histogram, draw_relation, sample_pairs
from samespot.overlap.labels import PairLabels
from samespot.overlap.task import Labelled, Points, Sectors
from samespot.places.table import Places

EXAMPLES = (0.75, 0.5, 0.25)  # similarities of the pairs drawn when none is chosen


def draw_label_set(done: Labelled, folder: Path, pair: tuple[int, int] | None = None) -> list[Path]:
    """Histogram, relation to distance and turn, and a chosen pair (or examples about ψ = .75, .5 and .25)."""
    task, labels = done.task, done.labels
    if pair is not None and not (0 <= pair[0] < labels.shape[0] and 0 <= pair[1] < labels.shape[1]):
        raise InputError(
            f"--pair {pair[0]},{pair[1]}: there are {labels.shape[0]} queries and {labels.shape[1]} map images"
        )
    drawn = [draw_histogram(folder / "similarity.png", labels)]
    sample = sample_pairs(labels, task.queries, task.places, within=_reach(done))
    if len(sample.distance):
        drawn.append(draw_relation(folder / "distance_and_turn.png", sample))
    if pair is not None:
        pairs = {f"pair_{pair[0]}_{pair[1]}": pair}
    else:
        pairs = {f"pair_{round(100 * psi):03d}": found for psi, found in example_pairs(labels).items()}
    return drawn + [path for name, chosen in pairs.items() if (path := _draw_one(done, folder, name, chosen))]


def example_pairs(labels: PairLabels, wanted: tuple[float, ...] = EXAMPLES) -> dict[float, tuple[int, int]]:
    """For each wanted similarity the stored pair that comes closest, if one is within 0.1. No image with itself."""
    if labels.nonzero == 0:
        return {}
    step = max(1, labels.nonzero // 2_000_000)  # a sample is enough, and large sets stay on disk
    at = np.arange(0, labels.nonzero, step)
    similarity, columns = np.asarray(labels.similarity[at]), np.asarray(labels.columns[at])
    rows = np.searchsorted(labels.indptr, at, side="right") - 1
    if labels.meta.get("same_table"):
        other = rows != columns
        rows, columns, similarity = rows[other], columns[other], similarity[other]
    if len(similarity) == 0:
        return {}
    best = {psi: int(np.argmin(np.abs(similarity - psi))) for psi in wanted}
    return {
        psi: (int(rows[i]), int(columns[i]))
        for psi, i in best.items()
        if abs(float(similarity[i]) - psi) < 0.1
    }


def _reach(done: Labelled) -> float:
    """How far apart two cameras can be and still share something [m]."""
    if isinstance(done.task.rule, Sectors):
        return 2.0 * done.task.rule.radius
    places = done.task.places.positions[:, :2]
    return float(np.hypot(*np.ptp(places, axis=0))) if len(places) > 1 else 1.0


def _draw_one(done: Labelled, folder: Path, name: str, pair: tuple[int, int]) -> Path | None:
    task, rule, path = done.task, done.task.rule, folder / f"{name}.png"
    query, place = task.queries.select([pair[0]]), task.places.select([pair[1]])
    if isinstance(rule, Points):
        return _draw_scene_pair(path, done.scene, query, place, rule)
    if not isinstance(rule, Sectors):
        return None  # binary labels have no field of view to draw
    return draw_pair(
        path,
        np.nan_to_num(query.positions[0]).tolist(),
        np.nan_to_num(place.positions[0]).tolist(),
        theta=(_opening(query, rule), _opening(place, rule)),
        radius=rule.radius,
        measure=rule.measure,
        others=task.places.positions[:, :2],
        query_image=query.images[0],
        place_image=place.images[0],
    )


def _opening(image: Places, rule: Sectors) -> float:
    """Opening angle [deg] with which a one-row table was labelled."""
    sees_around = np.isnan(image.positions[0, 2]) or (rule.panoramas == "disk" and image.panoramas[0])
    return 360.0 if sees_around else rule.theta


def _draw_scene_pair(path: Path, scene: Any, query: Places, place: Places, rule: Points) -> Path:
    from samespot.figures.cloud_pair import draw_cloud_pair
    from samespot.overlap.scene import visible_sets
    from samespot.overlap.visibility import visibility_iou

    cameras = scene.cameras_of(query)
    seen = [visible_sets(scene, image, rule.occlusion) for image in (query, place)]  # type: ignore[arg-type]
    return draw_cloud_pair(
        path,
        cloud=scene.cloud,
        seen_a=seen[0].mask(0),
        seen_b=seen[1].mask(0),
        image_a=query.images[0],
        image_b=place.images[0],
        centres=np.concatenate([query.centres, place.centres]),
        quaternions=np.concatenate([query.quaternions, place.quaternions]),
        similarity=float(visibility_iou(seen[0], seen[1])[0, 0]),
        camera=cameras[0] if isinstance(cameras, list) else cameras,
    )
