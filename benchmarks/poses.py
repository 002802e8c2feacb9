"""Poses from retrieved photos: ours beside what one writes by hand around poselib and pycolmap, on the same frames.

    python benchmarks/poses.py --kitchen ../shared/data/redkitchen --town TOWN --json docs/results/poses.json
    python benchmarks/poses.py --town TOWN --candidates 1,5,10,20,40 --models graded=RUN1 binary=RUN2

On redkitchen every fifth frame is asked of the others, and the last 50 of 250 frames of the first 190; in a town, at
most --queries photos of the split `query` of those of the split `map`. Retrieval is by samespot-lite, or by --models.

By hand: the mutual nearest XFeat descriptors of all candidates are pooled, lifted by the nearest pixel of depth, and
given to poselib or pycolmap once, on the photos as they are. Seconds are of the median query, its own keypoints
included; those of map photos are kept from query to query.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import samespot
from samespot.evaluation.metrics import pose_errors
from samespot.images.reading import read_image
from samespot.matching.local_features import load_xfeat
from samespot.matching.verification import mutual_pairs, verifier_named
from samespot.overlap.cloud import read_depth
from samespot.places.camera import Camera, camera_of
from samespot.places.catalogue import as_places
from samespot.places.pose import angles_between, inverse_poses, rotation_matrices
from samespot.places.table import Places
from samespot.poses.absolute import Solved
from samespot.poses.estimating import DensePoses, LocalPoses
from samespot.statistics.intervals import bootstrap_mean

WITHIN = ((0.05, 5.0), (0.25, 2.0), (0.5, 5.0), (5.0, 10.0))  # [m], [deg]
Pose = tuple[NDArray[np.float64], NDArray[np.float64]]  # centre, quaternion; NaN: none
Solve = Callable[[int, list[int]], Pose]
NONE: Pose = np.full(3, np.nan), np.full(4, np.nan)


@dataclass(frozen=True)
class Task:
    name: str
    queries: Places
    places: Places


def kitchen(root: Path) -> Iterator[Task]:
    frames = as_places(root)
    rows = np.arange(len(frames))
    yield Task("redkitchen, every 5th", frames.select(rows[::5]), frames.select(rows[rows % 5 != 0]))
    yield Task("redkitchen, last 50", frames.select(rows[-50:]), frames.select(rows[:190]))


def town(root: Path, most: int) -> Task:
    photos = as_places(root)
    asked = photos.of_split("query")
    some = np.linspace(0, len(asked) - 1, min(most, len(asked))).round().astype(int)
    return Task("town", asked.select(some), photos.of_split("map"))


def retrieved(task: Task, model: Any, most: int) -> NDArray[np.int64]:
    net = samespot.load_model(model)
    asked, there = (samespot.describe(net, one).vectors for one in (task.queries, task.places))
    if net.whitening is not None:
        asked, there = (net.whitening(np.asarray(one), 256) for one in (asked, there))
    return np.argsort(-(np.asarray(asked) @ np.asarray(there).T), axis=1, kind="stable")[:, :most]


# ---- by hand ----


class Plain:
    """What one writes in an hour."""

    def __init__(self, task: Task, solver: str, keypoints: int) -> None:
        self.task, self.solver = task, solver
        self.net = load_xfeat(keypoints, torch.device("cpu"), "the rival")[0]
        self.keypoints = keypoints
        self.rotations = rotation_matrices(task.places.quaternions)
        self.seen: dict[Path, Any] = {}
        self.points: dict[int, NDArray[np.float64]] = {}

    def look(self, path: Path) -> Any:
        if path not in self.seen:
            image = read_image(path)[None].float()
            height, width = image.shape[-2] // 32 * 32, image.shape[-1] // 32 * 32
            with torch.inference_mode():
                found = self.net.detectAndCompute(image[..., :height, :width], top_k=self.keypoints)[0]
            size = int(image.shape[-2]), int(image.shape[-1])
            self.seen[path] = found["keypoints"].numpy() + 0.5, found["descriptors"].numpy(), size
        return self.seen[path]

    def lifted(self, row: int) -> NDArray[np.float64]:
        if row not in self.points:
            places = self.task.places
            xy, _, size = self.look(places.images[row])
            camera = camera_of(places.table, row, size)
            assert camera is not None
            rays = camera.rays(xy)
            depth = read_depth(places.root / places.table["depth"].iloc[row])
            view = places.table["depth_fov"].iloc[row] if "depth_fov" in places.table else None
            through = Camera.of_view(size[1], size[0], view) if view else camera
            at = np.floor(through.pixels(np.hstack([rays, np.ones((len(rays), 1))]))).astype(int)
            inside = ((at >= 0) & (at < (size[1], size[0]))).all(axis=1)
            z = np.full(len(xy), np.nan)
            z[inside] = depth[at[inside, 1], at[inside, 0]]
            local = np.hstack([rays, np.ones((len(rays), 1))]) * z[:, None]
            self.points[row] = local @ self.rotations[row].T + places.centres[row]
        return self.points[row]

    def __call__(self, query: int, rows: list[int]) -> Pose:
        xy, descriptors, size = self.look(self.task.queries.images[query])
        camera = camera_of(self.task.queries.table, query, size)
        assert camera is not None
        flat, world = [], []
        for row in rows:
            pairs = mutual_pairs(descriptors, self.look(self.task.places.images[row])[1])
            points = self.lifted(row)[pairs[:, 1]]
            known = np.isfinite(points[:, 0])
            flat.append(xy[pairs[known, 0]])
            world.append(points[known])
        given = np.concatenate(flat).astype(np.float64), np.concatenate(world)
        if len(given[0]) < 4:
            return NONE
        return (_by_poselib if self.solver == "poselib" else _by_pycolmap)(*given, camera)


def _by_poselib(flat: NDArray[np.float64], world: NDArray[np.float64], camera: Camera) -> Pose:
    import poselib

    values = [camera.fx, camera.fy, camera.cx, camera.cy]
    lens = {"model": "PINHOLE", "width": camera.width, "height": camera.height, "params": values}
    pose, found = poselib.estimate_absolute_pose(
        flat, world, lens, {"max_reproj_error": 8.0, "max_iterations": 10_000, "seed": 0}, {}
    )
    if not found["num_inliers"]:
        return NONE
    centre, turn = inverse_poses([pose.t], [pose.q])
    return centre[0], turn[0]


def _by_pycolmap(flat: NDArray[np.float64], world: NDArray[np.float64], camera: Camera) -> Pose:
    import pycolmap

    options = pycolmap.AbsolutePoseEstimationOptions()
    options.ransac.max_error, options.ransac.random_seed = 8.0, 0
    values = [camera.fx, camera.fy, camera.cx, camera.cy]
    lens = pycolmap.Camera(model="PINHOLE", width=camera.width, height=camera.height, params=values)
    found = pycolmap.estimate_and_refine_absolute_pose(flat, world, lens, options)
    if found is None:
        return NONE
    moved = found["cam_from_world"]
    x, y, z, w = moved.rotation.quat
    centre, turn = inverse_poses([moved.translation], [[w, x, y, z]])
    return centre[0], turn[0]


# ---- ours ----


def ours(posing: Any) -> Solve:
    def pose(query: int, rows: list[int]) -> Pose:
        found = posing.pose(query, rows)
        return (found.centre, found.quaternion) if isinstance(found, Solved) else NONE

    return pose


def measured(task: Task, lists: NDArray[np.int64], solve: Solve, most: int) -> dict[str, Any]:
    poses, seconds = [], []
    for query, rows in enumerate(lists[:, :most]):
        begun = time.perf_counter()
        poses.append(solve(query, rows.tolist()))
        seconds.append(time.perf_counter() - begun)
    return judged(task, poses, float(np.median(seconds)))


def judged(task: Task, poses: list[Pose], seconds: float | None = None) -> dict[str, Any]:
    centres, turns = (np.array(part) for part in zip(*poses, strict=True))
    metres, degrees = pose_errors(centres, turns, task.queries.centres, task.queries.quaternions)
    metres, degrees = np.nan_to_num(metres, nan=np.inf), np.nan_to_num(degrees, nan=180.0)
    shares = {f"{m:g} m/{d:g}": 100 * float(((metres <= m) & (degrees <= d)).mean()) for m, d in WITHIN}
    none = int((~np.isfinite(metres)).sum())
    median = {"median m": float(np.median(metres)), "median deg": float(np.median(degrees))}
    errors = {"metres": metres.round(4).tolist(), "degrees": degrees.round(3).tolist()}
    return {**median, **shares, "no pose": none, "seconds": seconds, **errors}


def line(name: str, one: dict[str, Any]) -> str:
    far = one["median m"]
    median = f"{100 * far:.1f} cm" if far < 1 else f"{far:.1f} m"
    shares = " | ".join(f"{one[f'{m:g} m/{d:g}']:.0f}" for m, d in WITHIN)
    seconds = "" if one["seconds"] is None else f"{one['seconds']:.2f}"
    return f"| {name} | {median}, {one['median deg']:.1f}° | {shares} | {one['no pose']} | {seconds} |"


def ways(
    task: Task, keypoints: int, matchers: list[str], dense: bool, plain: bool
) -> Iterator[tuple[str, Solve]]:
    for solver in ("poselib", "pycolmap") if plain else ():
        yield f"by hand: XFeat, {solver}", Plain(task, solver, keypoints)
    for matcher in matchers:
        verifier = verifier_named(matcher, keypoints)
        yield f"samespot: {matcher}", ours(LocalPoses(task.queries, task.places, verifier))
    if dense:
        net = samespot.load_model("samespot-lite")
        yield "samespot: dense", ours(DensePoses(task.queries, task.places, net))
        yield "samespot: dense, views", ours(DensePoses(task.queries, task.places, net, views=True))


def sure(task: Task) -> dict[str, Any]:
    """How often poses are right, by what a map says of them; and of mirrored photos, how many are given a pose."""
    with tempfile.TemporaryDirectory() as folder:
        there = samespot.build_map(task.places, out=Path(folder) / "map", keypoints=1024)
        said, right, mirrored = [], [], []
        for row, path in enumerate(task.queries.images):
            pixels = read_image(path).permute(1, 2, 0).numpy()
            lens = camera_of(task.queries.table, row, (pixels.shape[0], pixels.shape[1]))
            assert lens is not None
            words = ",".join(str(getattr(lens, name)) for name in ("width", "height", "fx", "fy", "cx", "cy"))
            answer = there.locate(pixels, pose=True, camera=words)
            flipped = there.locate(np.ascontiguousarray(pixels[:, ::-1]), pose=True, camera=words).pose
            mirrored.append(0.0 if flipped is None else flipped.probability or 0.0)
            if answer.pose is not None:
                off = np.linalg.norm(np.array(answer.pose.centre) - task.queries.centres[row])
                turned = angles_between([answer.pose.quaternion], task.queries.quaternions[[row]])[0]
                said.append(answer.pose.probability or 0.0)
                right.append(bool(off <= answer.pose.within[0] and turned <= answer.pose.within[1]))
    p, hits = np.array(said), np.array(right)
    told: dict[str, Any] = {"queries": len(task.queries), "poses": len(p)}
    for low, high in ((0.9, 1.01), (0.5, 0.9), (0.0, 0.5)):
        some = (p >= low) & (p < high)
        told[f"{low:g} to {min(high, 1):g}"] = f"{hits[some].sum()} of {some.sum()} right"
    told["mirrored, with a probability of 0.5 and more"] = int((np.array(mirrored) >= 0.5).sum())
    return told


def compared(first: dict[str, Any], second: dict[str, Any]) -> None:
    """The share within .5 m/5° by the first model less that by the second, query by query, with a 95 % interval."""
    for name, one in first.items():
        other = second[name]
        right = [(np.array(way["metres"]) <= 0.5) & (np.array(way["degrees"]) <= 5.0) for way in (one, other)]
        gain = bootstrap_mean(100.0 * (right[0].astype(float) - right[1].astype(float)))
        print(
            f"| {name}: difference within .5 m/5° | {gain.value:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}] points |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kitchen", type=Path)
    parser.add_argument("--town", type=Path)
    parser.add_argument("--queries", type=int, default=60, help="of a town, at most")
    parser.add_argument("--candidates", default="5", help="numbers of photos that a pose is solved from")
    parser.add_argument("--keypoints", type=int, default=2048)
    parser.add_argument("--matchers", default="xfeat", help="such as xfeat,lighterglue,aliked,disk")
    parser.add_argument("--dense", action="store_true", help="also by the feature maps of samespot-lite")
    parser.add_argument("--models", nargs="*", default=["samespot-lite"], help="NAME, or TITLE=FOLDER")
    parser.add_argument(
        "--sure", action="store_true", help="instead: are poses right as often as the map says?"
    )
    parser.add_argument("--ours", action="store_true", help="leave out what is written by hand")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    tasks = [*(kitchen(asked.kitchen) if asked.kitchen else ())]
    tasks += [town(asked.town, asked.queries)] if asked.town else []
    numbers = [int(word) for word in asked.candidates.split(",")]
    if asked.sure:
        for task in tasks:
            print(task.name, json.dumps(sure(task), indent=1))
        return
    told: dict[str, Any] = {}
    print(
        "| | median | 5 cm/5° | .25 m/2° | .5 m/5° | 5 m/10° | no pose | s |\n|---|---|---|---|---|---|---|---|"
    )
    for task in tasks:
        for named in asked.models:
            title, _, model = named.partition("=") if "=" in named else (named, "", named)
            lists = retrieved(task, model, max(numbers))
            firsts = [(task.places.centres[row], task.places.quaternions[row]) for row in lists[:, 0]]
            found = {"first match": judged(task, firsts)}
            print(line(f"{task.name}, {title}: first match", found["first match"]), flush=True)
            for name, solve in ways(
                task, asked.keypoints, asked.matchers.split(","), asked.dense, not asked.ours
            ):
                for most in numbers:
                    found[f"{name} of {most}"] = one = measured(task, lists, solve, most)
                    print(line(f"… {name} of {most}", one), flush=True)
            told[f"{task.name}, {title}"] = found
            if asked.json:
                asked.json.write_text(json.dumps(told, indent=1) + "\n")
        if len(asked.models) == 2:
            compared(*(told[f"{task.name}, {named.partition('=')[0]}"] for named in asked.models))


if __name__ == "__main__":
    main()
