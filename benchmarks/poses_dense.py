"""Poses by dense matching of a trunk's features, in the manner of InLoc, beside the pose of the first match.

    python benchmarks/poses_dense.py --kitchen ../shared/data/redkitchen --town TOWN [--model vgg16-gem --weights FILE]

Retrieval by samespot-lite, five candidates. Each is matched with the query by the feature maps of --model, its pixels
are lifted by its depth, and poselib solves for a pose. Of the five poses the one with the most inliers is taken, or the
one whose view, drawn from the coloured depth of all five, looks most like the query. Seconds are those of a query whose
map photos were looked at before, on one core.

On redkitchen the last 50 of 250 frames are asked of the first 190, and every fifth frame of the others; in a town at
most --queries photos of the split `query` of those of the split `map`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import poselib
import torch
from numpy.typing import NDArray

import samespot
from samespot.images.reading import read_image
from samespot.overlap.cloud import PointCloud, read_depth
from samespot.places.camera import Camera, camera_of
from samespot.places.pose import POSE, angles_between, inverse_poses
from samespot.places.seven_scenes import BARE, KINECT
from samespot.places.seven_scenes import read as read_scene
from samespot.places.table import Places
from samespot.poses.dense import SIZE, DenseMatcher
from samespot.poses.synthesis import depth_at, joined, lifted, photo_cloud, pose_likeness, shrunk

COLOUR = Camera.of_focal(640, 480, 525.0)  # of 7Scenes; KINECT is its depth camera
WITHIN = ((0.05, 5.0), (0.25, 2.0), (0.5, 5.0), (5.0, 10.0))  # [m], [deg]
REPROJECTION = 8.0 / 640  # [widths of the photo]
FEWEST = 12  # inliers of a pose
MOST = 3000  # pairs that are solved
FIRST, INLIERS, VIEWS = "first match", "dense, most inliers", "dense, view synthesis"


@dataclass(frozen=True)
class Task:
    name: str
    places: Places
    queries: NDArray[np.int64]
    rows: NDArray[np.int64]  # of the map
    scene: bool  # 7Scenes: one camera for colour, another for depth

    def camera(self, row: int, size: tuple[int, int]) -> Camera:
        found = COLOUR.scaled(*size) if self.scene else camera_of(self.places.table, row, size)
        assert found is not None
        return found

    def depth_camera(self, row: int, size: tuple[int, int]) -> Camera:
        return KINECT if self.scene else self.camera(row, size)

    def file(self, row: int, column: str) -> Path:
        return self.places.root / str(self.places.table[column].iloc[row])

    def pose(self, rows: Any) -> NDArray[np.float64]:
        return np.asarray(self.places.table[list(POSE)].to_numpy(dtype=np.float64)[rows])


def kitchen(root: Path) -> Iterator[Task]:
    places = read_scene(root, BARE)
    rows = np.arange(len(places))
    yield Task("redkitchen, last 50", places, rows[-50:], rows[:190], True)
    yield Task("redkitchen, every 5th", places, rows[::5], rows[rows % 5 != 0], True)


def town(root: Path, queries: int) -> Task:
    places = Places.read(root / "places.csv")
    split = places.table["split"].to_numpy()
    asked = np.flatnonzero(split == "query")
    some = asked[np.linspace(0, len(asked) - 1, min(queries, len(asked))).round().astype(int)]
    return Task("town", places, some, np.flatnonzero(split == "map"), False)


def candidates(task: Task, top: int) -> NDArray[np.int64]:
    """(queries, top) rows that samespot-lite finds."""
    model = samespot.load_model("samespot-lite")
    assert model.whitening is not None
    rows = np.concatenate([task.queries, task.rows])
    vectors = model.whitening(
        model.describe_images([task.file(row, "image") for row in rows]).numpy(), model.whitening.rank
    )
    asked, there = vectors[: len(task.queries)], vectors[len(task.queries) :]
    return task.rows[np.argsort(-(asked @ there.T), axis=1, kind="stable")[:, :top]]


def solve(
    pixels: NDArray[np.float64], points: NDArray[np.float64], camera: Camera
) -> tuple[NDArray[np.float64], int]:
    """tx … qz, camera to world, and the inliers; NaN and 0 where there is no pose."""
    nothing = np.full(7, np.nan), 0
    if len(pixels) < FEWEST:
        return nothing
    model = {
        "model": "PINHOLE",
        "width": camera.width,
        "height": camera.height,
        "params": [camera.fx, camera.fy, camera.cx, camera.cy],
    }
    options = {"max_reproj_error": REPROJECTION * camera.width, "max_iterations": 5000, "seed": 0}
    pose, found = poselib.estimate_absolute_pose(pixels, points, model, options, {})
    if found["num_inliers"] < FEWEST:
        return nothing
    centre, turn = inverse_poses([pose.t], [pose.q])
    return np.concatenate([centre[0], turn[0]]), int(found["num_inliers"])


def pose_from(
    task: Task, by: DenseMatcher, query: int, seen: Any, row: int
) -> tuple[NDArray[np.float64], int]:
    """The query's pose by one map photo."""
    pairs = by.pairs(seen, by.of_map(task.file(row, "image")), MOST)
    camera, pose = task.camera(row, by.size), task.pose(row)
    depth = read_depth(task.file(row, "depth"))
    metres = depth_at(depth, task.depth_camera(row, depth.shape), camera, pairs.places)
    known = np.isfinite(metres)
    points = lifted(pairs.places[known], metres[known], camera, pose[:3], pose[3:])
    return solve(pairs.query[known], points, task.camera(query, by.size))


def cloud_of(task: Task, row: int) -> PointCloud:
    photo = shrunk(pixels_of(task.file(row, "image")))  # as many points as the pictures have pixels
    depth, pose = read_depth(task.file(row, "depth")), task.pose(row)
    size = photo.shape[0], photo.shape[1]
    cameras = task.camera(row, size), task.depth_camera(row, depth.shape)
    return photo_cloud(photo, depth, pose[:3], pose[3:], *cameras)


def pixels_of(path: Path) -> NDArray[np.uint8]:
    return np.ascontiguousarray(read_image(path).permute(1, 2, 0).numpy())


def measure(task: Task, by: DenseMatcher, top: int) -> dict[str, Any]:
    lists = candidates(task, top)
    clouds = {}
    for row in np.unique(lists):
        by.of_map(task.file(row, "image"))
        clouds[row] = cloud_of(task, row)
    found: dict[str, list[NDArray[np.float64]]] = {FIRST: [], INLIERS: [], VIEWS: []}
    seconds = {INLIERS: 0.0, VIEWS: 0.0}
    right_among = 0  # queries with a good pose among the five
    for query, rows in zip(task.queries, lists, strict=True):
        start = time.perf_counter()
        seen = by.features(read_image(task.file(query, "image")))
        poses, inliers = zip(*(pose_from(task, by, query, seen, row) for row in rows), strict=True)
        solved = time.perf_counter()
        photo = pixels_of(task.file(query, "image"))
        camera = task.camera(query, (photo.shape[0], photo.shape[1]))
        given = np.array(poses)
        likeness = pose_likeness(
            photo, camera, joined(clouds[row] for row in rows), given[:, :3], given[:, 3:]
        )
        drawn = time.perf_counter()
        seconds[INLIERS] += solved - start
        seconds[VIEWS] += drawn - start
        found[FIRST].append(task.pose(rows[0]))
        found[INLIERS].append(given[np.argmax(inliers)])
        found[VIEWS].append(given[np.argmax(likeness)])
        best = errors(given, np.repeat(task.pose([query]), len(given), axis=0))
        right_among += bool(((best[0] <= 0.5) & (best[1] <= 5)).any())
    truth = task.pose(task.queries)
    ways = {name: judged(np.array(poses), truth) for name, poses in found.items()}
    for name, spent in seconds.items():
        ways[name]["seconds a query"] = spent / len(task.queries)
    among = 100 * right_among / len(task.queries)
    return {
        "task": task.name,
        "queries": len(task.queries),
        "map": len(task.rows),
        "ways": ways,
        ".5 m/5° among": among,
    }


def errors(
    poses: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n,) metres and degrees off; infinite where there is no pose."""
    known = np.isfinite(poses).all(axis=1)
    metres, degrees = np.full(len(poses), np.inf), np.full(len(poses), np.inf)
    metres[known] = np.linalg.norm(poses[known, :3] - truth[known, :3], axis=1)
    if known.any():
        degrees[known] = angles_between(poses[known, 3:], truth[known, 3:])
    return metres, degrees


def judged(poses: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, Any]:
    metres, degrees = errors(poses, truth)
    told: dict[str, Any] = {"median m": float(np.median(metres)), "median deg": float(np.median(degrees))}
    for far, turned in WITHIN:
        told[f"{far:g} m/{turned:g}°"] = float(100 * ((metres <= far) & (degrees <= turned)).mean())
    return {**told, "no pose": int((~np.isfinite(metres)).sum())}


def table(found: dict[str, Any]) -> str:
    lines = [
        f"{found['task']}: {found['queries']} queries, {found['map']} map photos;"
        f" a pose within .5 m/5° among the candidates' for {found['.5 m/5° among']:.0f} %",
        f"{'':<24}{'median':>18}"
        + "".join(f"{f'{m:g} m/{d:g}°':>12}" for m, d in WITHIN)
        + f"{'no pose':>9}{'s':>7}",
    ]
    for name, one in found["ways"].items():
        median = f"{one['median m']:.3f} m {one['median deg']:.2f}°"
        shares = "".join(f"{one[f'{m:g} m/{d:g}°']:>12.0f}" for m, d in WITHIN)
        lines.append(
            f"{name:<24}{median:>18}{shares}{one['no pose']:>9}{one.get('seconds a query', 0.0):>7.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--kitchen", type=Path, help="folder of redkitchen")
    arguments.add_argument("--town", type=Path, help="folder that `samespot town` wrote, with depth")
    arguments.add_argument("--queries", type=int, default=60, help="of the town, at most")
    arguments.add_argument("--top", type=int, default=5)
    arguments.add_argument("--model", default="samespot-lite", help="whose feature maps are matched")
    arguments.add_argument("--weights", type=Path, help="of the model")
    arguments.add_argument(
        "--size", type=int, nargs=2, default=SIZE, metavar=("HEIGHT", "WIDTH"), help="photos are looked at"
    )
    arguments.add_argument("--strides", type=int, nargs=2, default=(16, 4), metavar=("COARSE", "FINE"))
    arguments.add_argument("--json", type=Path, help="add the numbers to this file")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    net = samespot.load_model(given.model, weights=given.weights)
    by = DenseMatcher(net, tuple(given.size), coarse=given.strides[0], fine=given.strides[1])
    tasks = [*(kitchen(given.kitchen) if given.kitchen else ())]
    tasks += [town(given.town, given.queries)] if given.town else []
    how = {"model": given.model, "size": list(given.size), "strides": list(given.strides), "top": given.top}
    for task in tasks:
        found = {**how, **measure(task, by, given.top)}
        print(table(found), flush=True)
        if given.json:
            before = json.loads(given.json.read_text()) if given.json.is_file() else []
            given.json.write_text(json.dumps([*before, found], indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
