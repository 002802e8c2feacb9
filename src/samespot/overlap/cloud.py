"""The point cloud that 3D overlap is measured on: read from PLY, or fused from posed depth images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.photo_files import opened, refuse_large
from samespot.places.camera import Camera
from samespot.places.pose import rotation_matrices
from samespot.storage import read_encoded

Floats = NDArray[np.float64]
INVALID_DEPTH = (0, 65535)  # what 7Scenes and most 16-bit depth images write where the sensor saw nothing
ORDER_BITS = 10  # of a coordinate, to tell which points are neighbours: a thousandth of the scene
AXIS_BITS = 21  # bits of a voxel's coordinate in its key: at 2 cm, 21 km to each side
PLY_TYPES = {
    **{
        "char": "i1",
        "uchar": "u1",
        "short": "i2",
        "ushort": "u2",
        "int": "i4",
        "uint": "u4",
        "float": "f4",
        "double": "f8",
    },
    **{"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"},
    **{"float32": "f4", "float64": "f8"},
}
PLY_ORDERS = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass(frozen=True)
class PointCloud:
    """Points of a scene: `xyz` (n, 3) in the world of the poses, `rgb` (n, 3) uint8 or None."""

    xyz: NDArray[np.floating[Any]]
    rgb: NDArray[np.uint8] | None = None
    notes: tuple[str, ...] = ()  # one line each: what was left out on the way

    def __len__(self) -> int:
        return len(self.xyz)


def point_spacing(xyz: ArrayLike, sample: int = 2000) -> float:
    """Median distance from a point of a cloud (n, 3) to its nearest neighbour, over an even sample."""
    from scipy.spatial import cKDTree

    points = np.asarray(xyz, dtype=np.float64)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < 2:
        return 0.0
    distance, _ = cKDTree(points).query(points[:: max(1, len(points) // sample)], k=2)
    return float(np.median(distance[:, 1]))


def read_depth(
    path: str | Path, *, scale: float = 0.001, invalid: Sequence[int] = INVALID_DEPTH
) -> NDArray[np.float32]:
    """(h, w) depth [m] of a depth image of whole numbers; NaN where the value is one of `invalid`."""
    raw = _image(path)
    if raw.ndim != 2:
        raise InputError(f"{path}: {raw.shape[2]} colour channels; a depth image has one 16-bit channel")
    metres = (raw * scale).astype(np.float32)
    metres[np.isin(raw, invalid)] = np.nan
    return metres


# ---- PLY -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Property:
    name: str
    kind: str  # numpy type of the value, or of the entries of a list
    length: str | None = None  # numpy type of a list's length


@dataclass(frozen=True)
class _Element:
    name: str
    rows: int
    properties: list[_Property]

    def row_type(self, order: str) -> np.dtype[Any] | None:
        """The numpy type of one binary row; None if a list makes rows of different lengths."""
        if any(p.length for p in self.properties):
            return None
        return np.dtype([(f"{i}", order + p.kind) for i, p in enumerate(self.properties)])


def read_ply(path: str | Path) -> PointCloud:
    """Read the vertices of a PLY file: ascii, or binary of either byte order, among any other elements.

    Needs the vertex properties x, y, z; takes red, green, blue (0-255, or 0-1 if floating point) as colour
    and ignores other properties, lists among them. Vertices that are not finite stay in.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; a point cloud is a .ply file")
    with path.open("rb") as file:
        order, elements, header_lines = _ply_header(file, path)
        names = [e.name for e in elements]
        if "vertex" not in names:
            raise InputError(
                f"{path}: no vertex element, so no points (elements: {', '.join(names) or 'none'})"
            )
        place = names.index("vertex")
        vertex = elements[place]
        known = [p.name for p in vertex.properties if p.length is None]
        lacking = [axis for axis in "xyz" if axis not in known]
        if lacking:
            raise InputError(
                f"{path}: the vertices lack {', '.join(lacking)}; a point needs the properties x, y and z"
            )
        if order == "ascii":
            columns = _ascii_vertices(file, path, elements[:place], vertex, header_lines)
        else:
            for element in elements[:place]:
                _binary_rows(file, path, element, PLY_ORDERS[order])
            columns = _binary_rows(file, path, vertex, PLY_ORDERS[order])
    double = any(p.kind == "f8" for p in vertex.properties if p.name in ("x", "y", "z"))
    xyz = np.stack([columns[axis] for axis in "xyz"], axis=1).astype(np.float64 if double else np.float32)
    return PointCloud(np.ascontiguousarray(xyz), _ply_colour(columns, path))


def _ply_header(file: BinaryIO, path: Path) -> tuple[str, list[_Element], int]:
    """Format, elements and number of header lines; the file is left at the first byte of the body."""
    if file.readline(16).rstrip() != b"ply":
        raise InputError(f"{path}: not a PLY file (its first line is not 'ply')")
    order, elements, line = "", [], 1
    while True:
        raw = file.readline(4096)
        line += 1
        if not raw:
            raise InputError(f"{path}: the header has no end_header line; the file is cut off")
        words = raw.decode("ascii", errors="replace").split()
        if words == ["end_header"]:
            break
        where = f"{path} line {line}"
        try:
            if not words or words[0] in ("comment", "obj_info"):
                continue
            if words[0] == "format":
                order = words[1]
            elif words[0] == "element":
                elements.append(_Element(words[1], _row_count(words[2]), []))
            elif words[0] == "property" and words[1] == "list":
                elements[-1].properties.append(_Property(words[4], PLY_TYPES[words[3]], PLY_TYPES[words[2]]))
            elif words[0] == "property":
                elements[-1].properties.append(_Property(words[2], PLY_TYPES[words[1]]))
            else:
                raise InputError(f"{where}: {' '.join(words)!r} is not a PLY header line")
        except (IndexError, KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{where}: cannot make sense of the header line {' '.join(words)!r}") from error
    if order not in PLY_ORDERS:
        raise InputError(f"{path}: format {order or 'missing'!r}; known are {', '.join(PLY_ORDERS)}")
    return order, elements, line


def _row_count(word: str) -> int:
    if not word.isdigit():  # int() would take -1
        raise ValueError(word)
    return int(word)


def _truncated(path: Path, element: _Element, rows: int) -> InputError:
    return InputError(
        f"{path}: cut off after {rows} of {element.rows} rows of element {element.name!r};"
        " fetch or export the file again"
    )


def _binary_rows(file: BinaryIO, path: Path, element: _Element, order: str) -> dict[str, NDArray[Any]]:
    """The columns of one element (lists left out), read from the current position."""
    kind = element.row_type(order)
    if kind is not None:
        left = (
            path.stat().st_size - file.tell()
        )  # looked at first: a header can announce more than any memory holds
        if left < element.rows * kind.itemsize:
            raise _truncated(path, element, left // max(1, kind.itemsize))
        body = file.read(element.rows * kind.itemsize)
        table = np.frombuffer(body, dtype=kind, count=element.rows)
        return {p.name: table[f"{i}"] for i, p in enumerate(element.properties)}
    columns: dict[str, list[Any]] = {p.name: [] for p in element.properties if p.length is None}
    for row in range(element.rows):
        for p in element.properties:
            count = int(_values(file, path, element, row, order + p.length, 1)[0]) if p.length else 1
            values = _values(file, path, element, row, order + p.kind, count)
            if p.length is None:
                columns[p.name].append(values[0])
    return {name: np.array(values) for name, values in columns.items()}


def _values(file: BinaryIO, path: Path, element: _Element, row: int, kind: str, count: int) -> NDArray[Any]:
    size = np.dtype(kind).itemsize * max(0, count)
    body = file.read(size)
    if len(body) < size:
        raise _truncated(path, element, row)
    return np.frombuffer(body, dtype=kind)


def _ascii_vertices(
    file: BinaryIO, path: Path, before: list[_Element], vertex: _Element, header_lines: int
) -> dict[str, NDArray[Any]]:
    skipped = sum(e.rows for e in before)
    for _ in range(skipped):
        file.readline()
    lists = any(p.length for p in vertex.properties)
    lines = []
    for row in range(vertex.rows):
        line = file.readline()
        if not line:
            raise _truncated(path, vertex, row)
        lines.append(_without_lists(line, vertex) if lists else line)
    plain = [p.name for p in vertex.properties if p.length is None]
    first = header_lines + skipped + 1
    table = _numbers(lines, len(plain), path, first)
    return dict(zip(plain, table.T, strict=True))


def _numbers(lines: list[bytes], width: int, path: Path, first: int) -> Floats:
    """(rows, width) numbers of lines of text; goes line by line only to name the one that is broken."""
    if not lines:
        return np.empty((0, width))
    try:
        numbers = np.array(b" ".join(lines).split(), dtype=np.float64)
        if numbers.size == len(lines) * width and all(len(line.split()) == width for line in lines):
            return numbers.reshape(len(lines), width)
    except ValueError:
        pass
    for row, line in enumerate(lines):
        try:
            good = len([float(word) for word in line.split()]) == width
        except ValueError:
            good = False
        if not good:
            text = line.decode("ascii", errors="replace").strip()[:60]
            raise InputError(f"{path} line {first + row}: {text!r} is not a vertex of {width} numbers")
    raise InputError(f"{path}: the vertices from line {first} on are not numbers")


def _without_lists(line: bytes, vertex: _Element) -> bytes:
    words, kept, at = line.split(), [], 0
    for p in vertex.properties:
        if p.length is None:
            kept += words[at : at + 1]
            at += 1
        else:
            at += 1 + (int(words[at]) if at < len(words) and words[at].isdigit() else 0)
    return b" ".join(kept) if at == len(words) else line


def _ply_colour(columns: dict[str, NDArray[Any]], path: Path) -> NDArray[np.uint8] | None:
    if not {"red", "green", "blue"} <= set(columns):
        return None
    colour = np.stack([columns[c] for c in ("red", "green", "blue")], axis=1)
    if colour.dtype.kind == "f" and colour.size and np.nanmax(colour) <= 1.0 and (colour % 1).any():
        colour = np.rint(colour * 255.0)
    if colour.size and not (colour.min() >= 0 and colour.max() <= 255):
        raise InputError(f"{path}: colours from {colour.min():g} to {colour.max():g}; expected 0 to 255")
    return np.ascontiguousarray(colour.astype(np.uint8))


# ---- fusing depth images ---------------------------------------------------------------------------------


def fuse_depth(
    depth_paths: Sequence[str | Path],
    centres: ArrayLike,
    quaternions: ArrayLike,
    camera: Camera,
    *,
    voxel: float = 0.02,
    stride: int = 4,
    colour_paths: Sequence[str | Path] | None = None,
    depth_scale: float = 0.001,
    max_depth: float = 5.0,
    min_readings: int = 1,
    invalid: Sequence[int] = INVALID_DEPTH,
    progress: Callable[[int], object] | None = None,
) -> PointCloud:
    """One cloud of posed depth images: per cube of `voxel` metres the mean of the readings in it.

    Takes every `stride`-th pixel of every `stride`-th row; a reading of `v` is `v * depth_scale` metres along
    the optical axis, through the middle of its pixel. Readings in `invalid` or beyond `max_depth` [m] (where
    a structured-light sensor errs by a voxel and more) are left out, as are voxels with fewer than
    `min_readings`; the cloud's notes count them. `camera` is that of the depth image; colours are taken at
    the same place in the colour image. Frames are read one by one, so memory grows with the scene and not
    with the number of frames. Points come out along a Morton curve, so that neighbours lie close together.
    """
    centre = np.atleast_2d(np.asarray(centres, dtype=np.float64))
    rotation = rotation_matrices(quaternions)
    if not len(depth_paths) == len(centre) == len(rotation):
        raise InputError(
            f"{len(depth_paths)} depth images, {len(centre)} centres, {len(rotation)} quaternions:"
            " give one of each per frame"
        )
    if colour_paths is not None and len(colour_paths) != len(depth_paths):
        raise InputError(
            f"{len(colour_paths)} colour images for {len(depth_paths)} depth images: give one of each per frame"
        )
    if not len(depth_paths):
        raise InputError("no depth images to fuse")
    if not (voxel > 0 and stride >= 1):
        raise InputError(
            f"voxel {voxel:g} and stride {stride}: the voxel must be > 0 and the stride at least 1"
        )
    grid, readings, unknown, beyond = _VoxelGrid(), 0, 0, 0
    for frame, path in enumerate(depth_paths):
        depth = _sized(read_depth(path, scale=depth_scale, invalid=invalid), camera, path)[::stride, ::stride]
        known = np.isfinite(depth) & (depth > 0)
        taken = known & (depth <= max_depth)
        readings, unknown, beyond = (
            readings + depth.size,
            unknown + int((~known).sum()),
            beyond + int((known & ~taken).sum()),
        )
        rows, columns = np.nonzero(taken)
        z = depth[rows, columns].astype(np.float64)
        x = (columns * stride + 0.5 - camera.cx) / camera.fx * z
        y = (rows * stride + 0.5 - camera.cy) / camera.fy * z
        world = np.stack([x, y, z], axis=1) @ rotation[frame].T + centre[frame]
        colour = (
            None
            if colour_paths is None
            else _colour_at(colour_paths[frame], rows * stride, columns * stride, camera)
        )
        grid.add(world, _voxel_keys(world, voxel, path), colour)
        if progress is not None:
            progress(frame + 1)
    cloud, few = grid.cloud(min_readings, colour_paths is not None)
    notes = [f"{len(depth_paths)} frames, {readings} readings, {len(cloud)} voxels of {voxel:g} m"]
    notes += [f"{unknown} readings without depth left out"] if unknown else []
    notes += [f"{beyond} readings beyond {max_depth:g} m left out"] if beyond else []
    notes += [f"{few} voxels with fewer than {min_readings} readings left out"] if few else []
    return PointCloud(cloud.xyz, cloud.rgb, tuple(notes))


class _VoxelGrid:
    """Sums of the readings in each voxel, in a hash table that grows with the scene."""

    def __init__(self) -> None:
        self.used = 0
        self.keys = np.empty(1 << 16, dtype=np.int64)
        self.sums = np.zeros((1 << 16, 7))  # x, y, z, red, green, blue, readings
        self.slots = np.full(1 << 17, -1, dtype=np.int64)  # slot -> row of keys and sums

    def add(self, points: Floats, keys: NDArray[np.int64], colour: NDArray[np.uint8] | None) -> None:
        room = self.used + len(points)
        if room > len(self.keys):
            size = 1 << int(np.ceil(np.log2(room)))
            self.keys = np.resize(self.keys, size)
            self.sums = np.concatenate([self.sums, np.zeros((size - len(self.sums), 7))])
            self.slots = np.full(2 * size, -1, dtype=np.int64)
            _rehash(self.slots, self.keys, self.used)
        rgb = np.zeros((len(points), 3), dtype=np.uint8) if colour is None else colour
        self.used = _add_readings(self.slots, self.keys, self.sums, self.used, points, keys, rgb)

    def cloud(self, min_readings: int, coloured: bool) -> tuple[PointCloud, int]:
        keys, sums = self.keys[: self.used], self.sums[: self.used]
        enough = sums[:, 6] >= min_readings
        keys, sums = keys[enough], sums[enough]
        means = (sums / sums[:, 6:])[np.argsort(_morton(keys), kind="stable")]
        rgb = np.rint(means[:, 3:6]).astype(np.uint8) if coloured else None
        return PointCloud(np.ascontiguousarray(means[:, :3]), rgb), int((~enough).sum())


@njit(cache=True, inline="always")
def _slot(slots, keys, key):  # type: ignore[no-untyped-def]
    """The slot of a voxel, or the free one where it belongs; the table is at most half full."""
    mask = len(slots) - 1
    place = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while slots[place] >= 0 and keys[slots[place]] != key:
        place = (place + 1) & mask
    return place


@njit(cache=True)
def _rehash(slots, keys, used):  # type: ignore[no-untyped-def]
    for row in range(used):
        slots[_slot(slots, keys, keys[row])] = row


@njit(cache=True)
def _add_readings(slots, keys, sums, used, points, point_keys, rgb):  # type: ignore[no-untyped-def]
    for i in range(len(points)):
        place = _slot(slots, keys, point_keys[i])
        row = slots[place]
        if row < 0:
            row = used
            slots[place] = row
            keys[row] = point_keys[i]
            used += 1
        for axis in range(3):
            sums[row, axis] += points[i, axis]
            sums[row, 3 + axis] += rgb[i, axis]
        sums[row, 6] += 1.0
    return used


def _voxel_keys(points: Floats, voxel: float, path: str | Path) -> NDArray[np.int64]:
    """One whole number a voxel: its three coordinates side by side."""
    half = 1 << (AXIS_BITS - 1)
    cells = np.floor(points / voxel)
    if not (np.abs(cells) < half).all():
        raise InputError(
            f"{path}: a point lies {np.abs(points).max():g} m from the origin, too far for voxels"
            f" of {voxel:g} m; check the pose"
        )
    x, y, z = (cells.astype(np.int64) + half).T
    keys: NDArray[np.int64] = x | y << AXIS_BITS | z << 2 * AXIS_BITS
    return keys


def neighbours_together(points: Floats) -> NDArray[np.int64]:
    """(n,) an order of points (n, 3) in which those near each other in space are mostly near each other in line.

    Those that are not finite stay among the first, as if they were in a corner.
    """
    known = np.isfinite(points)
    worst = ((np.min, np.inf), (np.max, -np.inf))  # where no point is finite
    ends = [
        np.nan_to_num(f(points, axis=0, initial=value, where=known), posinf=0.0, neginf=0.0)
        for f, value in worst
    ]
    scale = ((1 << ORDER_BITS) - 1) / np.maximum(ends[1] - ends[0], 1e-300)
    cells = np.where(known, (points - ends[0]) * scale, 0.0).astype(np.int64)
    x, y, z = cells.T
    keys: NDArray[np.int64] = x | y << AXIS_BITS | z << 2 * AXIS_BITS
    return np.argsort(_morton(keys, ORDER_BITS), kind="stable")


def _morton(keys: NDArray[np.int64], bits: int = AXIS_BITS) -> NDArray[np.int64]:
    """The bits of the coordinates in voxel keys interleaved: sorting by it keeps neighbours together."""
    code = np.zeros_like(keys)
    for bit in range(bits):
        for axis in range(3):
            code |= (keys >> (axis * AXIS_BITS + bit) & 1) << (3 * bit + axis)
    return code


def _image(path: str | Path) -> NDArray[Any]:
    encoded = read_encoded(path)
    refuse_large(encoded, path)
    with opened(encoded, path) as image:
        return np.asarray(image)


def _sized(depth: NDArray[np.float32], camera: Camera, path: str | Path) -> NDArray[np.float32]:
    if depth.shape != (camera.height, camera.width):
        raise InputError(
            f"{path}: {depth.shape[1]} × {depth.shape[0]} pixels,"
            f" but the camera has {camera.width} × {camera.height}"
        )
    return depth


def _colour_at(
    path: str | Path, rows: NDArray[np.int64], columns: NDArray[np.int64], camera: Camera
) -> NDArray[np.uint8]:
    image = _image(path)
    if image.ndim != 3 or image.shape[2] < 3:
        raise InputError(f"{path}: not a colour image of three channels")
    row = rows * image.shape[0] // camera.height
    column = columns * image.shape[1] // camera.width
    return np.ascontiguousarray(image[row, column, :3], dtype=np.uint8)
