"""All the figures of one labelled set, as `samespot label` writes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.figures.sectors import draw_pair
from samespot.figures.similarity import draw_histogram, draw_relation, sample_pairs
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import GroundRule, Points, Sectors, Within
from samespot.overlap.task import Labelled
from samespot.places.camera import Camera
from samespot.places.table import Places

EXAMPLES = (0.75, 0.5, 0.25)  # similarities of the pairs drawn when none is chosen
WRITTEN = re.compile(r"(similarity|distance_and_turn|pair_\d{3}|pair_\d+_\d+)\.png")  # names of our figures


def draw_label_set(done: Labelled, folder: Path, pair: tuple[int, int] | None = None) -> list[Path]:
    """Histogram, relation to distance and turn, and a chosen pair (or examples about ψ = .75, .5 and .25).

    Figures of an earlier call in this folder are removed: they may be of other labels.
    """
    task, labels = done.task, done.labels
    if pair is not None and not (0 <= pair[0] < labels.shape[0] and 0 <= pair[1] < labels.shape[1]):
        raise InputError(
            f"`pair` {pair[0]},{pair[1]}: there are {labels.shape[0]} queries and {labels.shape[1]} map images"
        )
    _remove_old(folder)
    drawn = [draw_histogram(folder / "similarity.png", labels)]
    sample = sample_pairs(labels, task.queries, task.places, within=_reach(done))
    if len(sample.distance):
        drawn.append(draw_relation(folder / "distance_and_turn.png", sample))
    if pair is not None:
        pairs = {f"pair_{pair[0]}_{pair[1]}": pair}
    else:
        pairs = {f"pair_{round(100 * psi):03d}": found for psi, found in example_pairs(labels).items()}
    return drawn + [path for name, chosen in pairs.items() if (path := _draw_one(done, folder, name, chosen))]


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_file() and WRITTEN.fullmatch(path.name):
            path.unlink()


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
    rule = done.task.rule
    if isinstance(rule, Within):
        return 2.0 * rule.reach  # as far again as any match, so that the fall to 0 shows
    if isinstance(rule, GroundRule):
        return rule.reach
    places = done.task.places.positions[:, :2]
    return float(np.hypot(*np.ptp(places, axis=0))) if len(places) > 1 else 1.0


def _draw_one(done: Labelled, folder: Path, name: str, pair: tuple[int, int]) -> Path | None:
    task, rule, path = done.task, done.task.rule, folder / f"{name}.png"
    query, place = task.queries.select([pair[0]]), task.places.select([pair[1]])
    if isinstance(rule, Points):
        return _draw_scene_pair(path, done.scene, query, place, rule, _names(pair, query, place))
    if not isinstance(rule, Sectors):
        return None  # labels by distance have no field of view to draw
    return draw_pair(
        path,
        query.positions[0].tolist(),
        place.positions[0].tolist(),
        theta=(float(rule.openings(query)[0]), float(rule.openings(place)[0])),
        radius=rule.radius,
        measure=rule.measure,
        others=task.places.positions[:, :2],
        query_image=query.image(0),
        place_image=place.image(0),
        names=_names(pair, query, place),
    )


def _names(pair: tuple[int, int], query: Places, place: Places) -> tuple[str, str]:
    """Which rows the two are, so that `--pair 12,340` draws them again, and their files."""
    return f"query {pair[0]}: {_name(query)}", f"map {pair[1]}: {_name(place)}"


def _name(image: Places, longest: int = 28) -> str:
    """File name of a one-row table's image, its middle left out where it is long."""
    name = image.image(0).name
    return name if len(name) <= longest else f"{name[: longest // 2]}…{name[1 - longest // 2 :]}"


def _draw_scene_pair(
    path: Path, scene: Any, query: Places, place: Places, rule: Points, names: tuple[str, str]
) -> Path:
    from samespot.figures.cloud_pair import draw_cloud_pair
    from samespot.overlap.scene import visible_sets
    from samespot.overlap.visibility import visibility_iou

    lenses = [scene.cameras_of(image) for image in (query, place)]
    query_lens, place_lens = (lens if isinstance(lens, Camera) else lens[0] for lens in lenses)
    seen = [visible_sets(scene, image, rule.occlusion) for image in (query, place)]
    return draw_cloud_pair(
        path,
        cloud=scene.cloud,
        seen_a=seen[0].mask(0),
        seen_b=seen[1].mask(0),
        image_a=query.image(0),
        image_b=place.image(0),
        centres=np.concatenate([query.centres, place.centres]),
        quaternions=np.concatenate([query.quaternions, place.quaternions]),
        similarity=float(visibility_iou(seen[0], seen[1])[0, 0]),
        camera=(query_lens, place_lens),
        photo_titles=names,
    )
