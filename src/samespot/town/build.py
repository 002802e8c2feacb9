"""A town on disk: photos, depth images, an ordinary table of places, and a description of it all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.cores import cores
from samespot.errors import InputError
from samespot.files import write_json
from samespot.places.pose import POSE
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.town.noise import Noise, measured
from samespot.town.plan import QUARTERS, Plan
from samespot.town.render import facing, intrinsics_of, render
from samespot.town.routes import Shots, shoot
from samespot.town.visits import Visit, make_visits, map_visits
from samespot.town.world import Town, make_town, on_visit

FORMAT = 1  # of town.json; raised whenever the same seed gives another town
BEGUN = ".town-begun"
PHOTOS_PER_VISIT = 750
REACH = 65.0  # [m] of a depth image: 16 bit of millimetres end at 65.5, so what is farther is "none" (0)
JPEG_QUALITY = 92
SPEED = 7.0  # [m/s] of the car, for the time of each photo
AT_ONCE = 64  # photos rendered before they are written


def build_town(
    out: str | Path,
    seed: int = 7,
    visits: int = 4,
    *,
    size: tuple[int, int] = (120, 160),
    photos_per_visit: int = PHOTOS_PER_VISIT,
    depth: bool = True,
    noise: Noise | None = None,
    progress: Progress | None = None,
) -> Places:
    """Write the town of a seed to `out` and return its photos; the same arguments give the same bytes.

    `size` (h, w) [px]. Of each visit `photos_per_visit` photos are taken, in the quarters `train` and `test` by the
    length of their streets. The column `split` says `train`, or in the test quarter `map` (the first visit, or the
    first two of four and more) and `query` (the others). A town that is there already, whole and of the same
    arguments, is not built again.
    """
    root, kind = Path(out), noise or Noise()
    height, width = size
    if not (16 <= height <= 4096 and 16 <= width <= 4096):
        raise InputError(f"size {height} x {width}: give 16 to 4096 px each")
    if photos_per_visit < 8:
        raise InputError(f"{photos_per_visit} photos per visit: give at least 8")
    asked = {
        "format": FORMAT,
        "seed": seed,
        "size": list(size),
        "photos_per_visit": photos_per_visit,
        "depth": depth,
        "noise": kind._asdict(),
        "visits": [asdict(visit) for visit in make_visits(seed, visits)],
    }
    if _is_there(root, asked):
        return Places.read(root / "places.csv")
    _refuse_other_folder(root)
    root.mkdir(parents=True, exist_ok=True)
    (root / BEGUN).touch()
    (root / "town.json").unlink(missing_ok=True)  # it says that the town is whole, so it is written last
    town, drives = make_town(seed), make_visits(seed, visits)
    tables, total, done = [], visits * photos_per_visit, 0
    for visit in drives:
        shots, columns = _plan_visit(town.plan, visit, visits, photos_per_visit)
        for written in _photograph(root, town, visit, shots, columns, size, depth):
            if progress is not None:
                progress("photographing", done + written, total)
        done += photos_per_visit
        tables.append(columns)
    table = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    true = np.column_stack([table["tx"], table["ty"], table["heading"]])
    seen = np.round(measured(true, table["visit"], kind, seed), 3)
    table |= {"easting": seen[:, 0], "northing": seen[:, 1], "heading": seen[:, 2] % 360.0}
    if not depth:
        del table["depth"]
    places = Places.build(root, table, source=root, missing_images="ignore")
    places.save(root / "places.csv")
    write_json(root / "town.json", {**asked, "depth_reach": REACH, "plan": describe_plan(town.plan)})
    (root / BEGUN).unlink(missing_ok=True)
    return Places.read(root / "places.csv")


def _refuse_other_folder(root: Path) -> None:
    """A town is built over another one, or where one was begun; photos of somebody else stay as they are."""
    ours = (root / "town.json").is_file() or (root / BEGUN).is_file()
    if root.is_dir() and not ours and any(not path.name.startswith(".") for path in root.iterdir()):
        raise InputError(f"{root}: exists and is not a town; choose another folder")


def _is_there(root: Path, asked: dict[str, Any]) -> bool:
    try:
        said = json.loads((root / "town.json").read_text())
    except (OSError, ValueError):
        return False
    same = all(said.get(key) == json.loads(json.dumps(value)) for key, value in asked.items())
    return same and (root / "places.csv").is_file()


def _plan_visit(plan: Plan, visit: Visit, visits: int, count: int) -> tuple[Shots, dict[str, NDArray[Any]]]:
    """The cameras of a visit in both quarters, and the columns of the table that they give; `heading` is exact."""
    streets = {part: sum(s.length for s in plan.streets if s.part == part) for part in QUARTERS}
    in_train = round(count * streets["train"] / sum(streets.values()))
    counts = {"train": in_train, "test": count - in_train}
    parts = [shoot(plan, part, visit, n) for part, n in counts.items()]
    fields = ("centres", "heading", "pitch", "roll", "along")
    shots = Shots(*(np.concatenate([getattr(p, field) for p in parts]) for field in fields))
    quaternions = facing(shots.heading, shots.pitch, shots.roll)
    seconds = np.round(shots.along / SPEED * 1000.0).astype("timedelta64[ms]")
    seconds[in_train:] += seconds[in_train - 1] + np.timedelta64(60_000, "ms")
    test = "map" if visit.number < map_visits(visits) else "query"
    names = [f"visit{visit.number}/{k:05d}" for k in range(count)]
    columns: dict[str, Any] = {
        "image": [f"photos/{name}.jpg" for name in names],
        "heading": shots.heading,
        **dict(zip(POSE, np.hstack([shots.centres, quaternions]).T, strict=True)),
        "sequence": [f"visit{visit.number}-{part}" for part, n in counts.items() for _ in range(n)],
        "frame": np.concatenate([np.arange(n) for n in counts.values()]),
        "time": np.datetime_as_string(np.datetime64(visit.start, "ms") + seconds, unit="ms"),
        "condition": [visit.condition] * count,
        "split": ["train"] * in_train + [test] * (count - in_train),
        "depth": [f"depth/{name}.png" for name in names],
        "fov": [visit.fov] * count,
        "visit": [visit.number] * count,
        "camera_id": [visit.number] * count,
    }
    return shots, {name: np.asarray(column) for name, column in columns.items()}


def _photograph(
    root: Path,
    town: Town,
    visit: Visit,
    shots: Shots,
    columns: dict[str, NDArray[Any]],
    size: tuple[int, int],
    depth: bool,
) -> Iterator[int]:
    """Render and write the photos of a visit; yields how many are done."""
    scenery = on_visit(town, visit.number, visit.hour, visit.weather, visit.season)
    lens, poses = intrinsics_of(visit.fov, size), np.stack([columns[c] for c in POSE], axis=1)
    rng = np.random.default_rng((town.plan.seed, 23, visit.number))
    exposure = visit.exposure * np.exp(rng.normal(0.0, 0.09, len(poses)))
    for folder in ("photos", "depth") if depth else ("photos",):
        (root / folder / f"visit{visit.number}").mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(min(8, cores())) as pool:
        for start in range(0, len(poses), AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, len(poses)))
            images, metres = render(
                scenery.mesh,
                scenery.atlas,
                scenery.ground,
                scenery.light,
                poses[rows, :3],
                poses[rows, 3:],
                lens,
                size,
                exposure=exposure[rows],
                noise=visit.grain,
                numbers=rows + 100_000 * visit.number,
            )
            jobs = [
                pool.submit(_write_photo, root / columns["image"][r], i)
                for r, i in zip(rows, images, strict=True)
            ]
            if depth:
                jobs += [
                    pool.submit(_write_depth, root / columns["depth"][r], d)
                    for r, d in zip(rows, metres, strict=True)
                ]
            for job in jobs:
                job.result()
            yield int(rows[-1]) + 1


def _write_photo(path: Path, image: NDArray[np.uint8]) -> None:
    from PIL import Image

    Image.fromarray(image).save(path, quality=JPEG_QUALITY)


def _write_depth(path: Path, metres: NDArray[np.float32]) -> None:
    """16 bit, millimetres; 0 is the sky and all beyond REACH."""
    from PIL import Image

    near = np.where(metres <= REACH, np.rint(metres * 1000.0), 0.0).astype(np.uint16)
    Image.fromarray(near).save(path, compress_level=1)


def describe_plan(plan: Plan) -> dict[str, Any]:
    """The plan as plain json, centimetres apart: what a map of the town needs."""

    def listed(points: NDArray[np.float64]) -> Any:
        return np.round(points, 2).tolist()

    return {
        "west_south": listed(plan.west_south),
        "size": listed(plan.size),
        "streets": [
            {
                "line": listed(np.vstack([s.line[:-1:4], s.line[-1:]])),
                "half_width": s.half_width,
                "pavement": round(s.pavement, 2),
                "part": s.part,
            }
            for s in plan.streets
        ],
        "squares": [{"corners": listed(s.corners), "green": s.green} for s in plan.squares],
        "lots": [{"corners": listed(lot.corners), "landmark": lot.landmark} for lot in plan.lots],
        "trees": listed(plan.trees[:, :3]),
        "lamps": listed(plan.lamps[:, :2]),
        "wall": listed(plan.wall),
    }
