"""Speed of 3D overlap: 1,000 queries against 1,000 map images over 200,000 points, beside numpy's matrix products.

Rivals, each given its arrays in the type it wants, so that only the product is timed:
- integer: `a @ b.T` of int32 0/1 matrices, the plain way to count with boolean matrices in numpy; a smaller type
  would overflow. It has no BLAS and one thread. It runs on the first few rows and its time is scaled up linearly.
- boolean: `a @ b.T` of the boolean matrices themselves, scaled alike. It says only whether two sets touch, not
  how much, so it answers an easier question.
- float32: `a @ b.T` through BLAS, all rows and all of its threads: what a careful user would do, at 32 times the
  memory.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numba
import numpy as np

from clock import fastest
from samespot.overlap.visibility import PackedSets, visibility_iou, visible_points
from samespot.places.camera import Camera

CAMERA = Camera(640, 480, 585.0, 585.0, 320.0, 240.0)


def measure(
    cameras: int = 1000, points: int = 200_000, *, rival_rows: int = 4, repeats: int = 5
) -> dict[str, Any]:
    """Time our way and the rivals' on the same sets; seconds, and ratios rival / ours."""
    cloud, centres, quaternions = room(2 * cameras, points)
    visible_points(cloud[:1000], centres[:2], quaternions[:2], CAMERA)  # compiles
    seeing, sets = fastest(lambda: visible_points(cloud, centres, quaternions, CAMERA), 2)
    queries, places = sets[:cameras], sets[cameras:]
    visibility_iou(queries[:2], places[:2])
    ours, similarity = fastest(lambda: visibility_iou(queries, places), repeats)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    ours_alone, _ = fastest(lambda: visibility_iou(queries, places), repeats)
    numba.set_num_threads(threads)

    rows = min(rival_rows, cameras)
    boolean, _ = time_product(queries, places, rows, np.bool_)
    integer, shared = time_product(queries, places, rows, np.int32)
    agree(shared, queries, places, similarity)
    blas, shared = time_product(queries, places, cameras, np.float32)
    agree(shared, queries, places, similarity)
    scale = cameras / rows
    return {
        "cameras": cameras,
        "points": points,
        "share_seen": round(float(sets.counts.mean()) / points, 4),
        "threads": threads,
        "rival_rows": rows,
        "visible_points_s": seeing / 2,  # two sets of cameras were looked through
        "packed_iou_s": ours,
        "packed_iou_one_thread_s": ours_alone,
        "numpy_integer_s": integer * scale,
        "numpy_boolean_s": boolean * scale,
        "numpy_float32_blas_s": blas,
        "times_numpy_integer": integer * scale / ours,
        "times_numpy_integer_one_thread": integer * scale / ours_alone,
        "times_numpy_boolean": boolean * scale / ours,
        "times_numpy_float32_blas": blas / ours,
        "packed_bytes": int(places.words.nbytes),
        "float32_bytes": 4 * cameras * points,
    }


def room(cameras: int, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points on the walls of a room of 6 × 3 × 6 m in random order, and cameras in it that look anywhere level.

    Reconstructions come in about such an order. `visible_points` brings neighbours together, so that most stretches of
    a set are empty and can be skipped; that is part of its time.
    """
    rng = np.random.default_rng(0)
    size = np.array([6.0, 3.0, 6.0])
    cloud = rng.uniform(-0.5, 0.5, (points, 3)) * size
    wall = rng.integers(0, 3, points)
    cloud[np.arange(points), wall] = rng.choice([-0.5, 0.5], points) * size[wall]
    yaw = rng.uniform(0, 2 * np.pi, cameras)
    quaternions = np.stack([np.cos(yaw / 2), np.zeros(cameras), np.sin(yaw / 2), np.zeros(cameras)], axis=1)
    return cloud, rng.uniform(-0.3, 0.3, (cameras, 3)) * size, quaternions


def time_product(queries: PackedSets, places: PackedSets, rows: int, kind: Any) -> tuple[float, np.ndarray]:
    """Seconds of numpy's product of the first rows with all map images, and the product."""
    a = np.stack([queries.mask(row) for row in range(rows)]).astype(kind)
    b = np.stack([places.mask(row) for row in range(len(places))]).astype(kind)
    return fastest(lambda: a @ b.T, 1)


def agree(shared: np.ndarray, queries: PackedSets, places: PackedSets, similarity: np.ndarray) -> None:
    """A rival that counts differently would make the comparison void."""
    union = queries.counts[: len(shared), None] + places.counts - shared.astype(np.int64)
    expected = np.where(union > 0, shared.astype(np.float64) / np.maximum(union, 1), 0.0).astype(np.float32)
    if not np.array_equal(expected, similarity[: len(shared)]):
        raise AssertionError(f"numpy's {shared.dtype} product and the packed sets disagree")


def table(found: dict[str, Any]) -> str:
    """The numbers of `measure` for people."""
    scaled = f"on {found['rival_rows']} rows, scaled"
    threads = f"{found['threads']} threads"
    lines = [
        f"3D overlap: {found['cameras']:,} × {found['cameras']:,} images, {found['points']:,} points,"
        f" each image sees {100 * found['share_seen']:.0f} %",
        f"{'way':<54}{'seconds':>10}{'ours is':>12}",
    ]
    for way, seconds, ratio in (
        (f"samespot, packed sets ({threads})", found["packed_iou_s"], None),
        ("samespot, packed sets (1 thread)", found["packed_iou_one_thread_s"], None),
        (
            f"numpy integer product (1 thread, {scaled})",
            found["numpy_integer_s"],
            found["times_numpy_integer"],
        ),
        (
            f"numpy boolean product (1 thread, {scaled})",
            found["numpy_boolean_s"],
            found["times_numpy_boolean"],
        ),
        (
            "numpy float32 product (BLAS, all threads)",
            found["numpy_float32_blas_s"],
            found["times_numpy_float32_blas"],
        ),
    ):
        lines.append(f"{way:<54}{seconds:>10.2f}{'' if ratio is None else f'{ratio:.1f} ×':>12}")
    lines.append(f"{f'seeing the points ({threads})':<54}{found['visible_points_s']:>10.2f}")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--cameras", type=int, default=1000)
    arguments.add_argument("--points", type=int, default=200_000)
    arguments.add_argument("--json", type=Path, help="also write the numbers here")
    asked = arguments.parse_args()
    found = measure(asked.cameras, asked.points)
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
