"""3D field-of-view overlap: which points of a reconstruction each camera sees, and the IoU of those sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numba import njit, prange, types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

from samespot.arrays import read_only
from samespot.errors import InputError
from samespot.overlap.cloud import neighbours_together, point_spacing
from samespot.places.camera import Camera
from samespot.places.pose import rotation_matrices

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Depth = Literal["cloud"] | Sequence[NDArray[Any]] | Callable[[int], NDArray[Any]]

DEPTH_TOLERANCE = 0.05  # [m] noise of a structured-light sensor at room scale, poses included
SPLAT_TOLERANCE = 8.0  # [point spacings] a surface fused of noisy depth is several points thick
CAMERAS_AT_ONCE = 32  # depth buffers held in memory together
PAIRS_AT_ONCE = 1 << 24  # similarities held in memory together: 64 MiB of float32

# tile of the bit counting [sets, sets, words]: short stretches, since many are empty
ROWS, COLUMNS, CHUNK = 128, 256, 64
ONE = np.uint64(1)
HALF_EXACT = 2048  # every whole number up to here is exact in half precision
SINGLE_CHUNK = 1 << 14  # points unpacked at a time in single precision, which is exact to 2^24


@dataclass(frozen=True)
class PackedSets:
    """One set of points a camera, as bits.

    `words` (n, ceil(points / 64)) uint64: the point in line i is bit i % 64 of word i // 64, unused bits are 0;
    `counts` (n,) int64: how many points each set holds; `points`: size of the cloud; `order` (points,): which point
    of the cloud stands where in line. With neighbours together, most stretches of a set are empty and need no counting:
    `occupied` (n, ceil(words / CHUNK)) says which are not.
    """

    words: Words
    counts: NDArray[np.int64]
    points: int
    order: NDArray[np.int64]
    occupied: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: slice) -> PackedSets:
        return replace(self, words=self.words[rows], counts=self.counts[rows], occupied=self.occupied[rows])

    def mask(self, row: int) -> NDArray[np.bool_]:
        """(points,) which points the set of one camera holds."""
        octets = self.words[row].astype("<u8", copy=False).view(np.uint8)
        held = np.empty(self.points, dtype=np.bool_)
        held[self.order] = np.unpackbits(octets, count=self.points, bitorder="little").view(np.bool_)
        return held

    def in_order(self, order: NDArray[np.int64]) -> PackedSets:
        """The same sets with the points in another order."""
        if np.array_equal(order, self.order):
            return self
        masks = [self.mask(row)[order] for row in range(len(self))]
        return replace(PackedSets.pack(np.reshape(masks, (len(self), self.points))), order=order)

    @classmethod
    def pack(cls, masks: ArrayLike) -> PackedSets:
        """Pack (n, points) booleans."""
        bits = np.atleast_2d(np.asarray(masks, dtype=bool))
        octets = np.zeros((len(bits), -(-bits.shape[1] // 64) * 8), dtype=np.uint8)
        packed = np.packbits(bits, axis=1, bitorder="little")
        octets[:, : packed.shape[1]] = packed
        words = octets.view("<u8").astype(np.uint64, copy=False)
        points = bits.shape[1]
        counts = bits.sum(axis=1, dtype=np.int64)
        return cls(words, counts, points, np.arange(points), _occupied(words))


@dataclass(frozen=True)
class Line:
    """The points of a cloud in line, neighbours together, as cameras are shown them."""

    columns: Floats  # (3, n)
    order: NDArray[np.int64]  # (n,) which point of the cloud stands where
    spacing: float | None  # [m] of the points; None where the cloud does not hide itself

    @classmethod
    def of(cls, points: ArrayLike, hides: bool) -> Line:
        """points: (n, 3). hides: whether the cloud is to hide itself, which needs its spacing."""
        xyz = np.asarray(points, dtype=np.float64)
        if xyz.ndim != 2 or xyz.shape[1] != 3:
            raise InputError(f"points of shape {xyz.shape}: a cloud is (n, 3) x, y, z")
        order = neighbours_together(xyz)
        return cls(np.ascontiguousarray(xyz[order].T), order, point_spacing(xyz) if hides else None)


def visible_points(
    points: ArrayLike | Line,
    centres: ArrayLike,
    quaternions: ArrayLike,
    cameras: Camera | Sequence[Camera],
    *,
    near: float = 0.05,
    far: float = np.inf,
    depth: Depth | None = None,
    tolerance: float | None = None,
    unknown_depth: Literal["visible", "hidden"] = "visible",
    cell: int = 4,
    progress: Callable[[int], object] | None = None,
) -> PackedSets:
    """The set of points (n, 3) that each camera sees: those in front of it that project inside its image.

    A `Line` of the points, made once, spares many calls the work on the whole cloud.
    `centres` (m, 3) and camera-to-world `quaternions` (m, 4) qw, qx, qy, qz; one camera for all or one a row.
    Pixel i covers [i, i + 1), so the image is [0, width) × [0, height) and the middle of the first pixel is
    (0.5, 0.5), as in COLMAP. Depth along the optical axis must lie in [near, far]. Points that are not finite
    are seen by nobody.

    `depth` adds occlusion: a point deeper than the surface at its pixel by more than `tolerance` is hidden.
    - A sequence, or a function of the row, of (h, w) depth images in metres, of any resolution; pixels that
      are NaN, infinite or <= 0 hold no reading. There a point stays "visible" by default, since nothing says
      that something stands before it; `unknown_depth="hidden"` decides the other way. Tolerance: 0.05 m.
    - "cloud": no depth images, the cloud hides itself. Each point is drawn as a square as wide as the
      point spacing into a depth buffer of one value per `cell` × `cell` pixels. Tolerance: 8 point spacings.

    `progress` is called with the number of cameras done.
    """
    hides = isinstance(depth, str)
    line = points if isinstance(points, Line) else Line.of(points, hides)
    centre, rotation = _poses(centres, quaternions)
    intrinsics = _intrinsics(cameras, len(centre))
    assert not hides or line.spacing is not None
    spacing = line.spacing or 0.0
    if tolerance is None:
        tolerance = SPLAT_TOLERANCE * spacing if hides else DEPTH_TOLERANCE
    count = len(line.order)
    words = np.zeros((len(centre), -(-count // 64)), dtype=np.uint64)
    counts = np.zeros(len(centre), dtype=np.int64)
    for start in range(0, len(centre), CAMERAS_AT_ONCE):
        rows = slice(start, min(start + CAMERAS_AT_ONCE, len(centre)))
        view = (read_only(line.columns), centre[rows], rotation[rows], intrinsics[rows])
        surface, sizes = _surfaces(depth, rows, view, near, spacing, cell)
        hide = unknown_depth == "hidden"
        _see(*view, near, far, surface, sizes, float(tolerance), hide, words[rows], counts[rows])
        if progress is not None:
            progress(rows.stop)
    return PackedSets(words, counts, count, line.order, _occupied(words))


def visibility_iou(a: PackedSets, b: PackedSets, *, device: str = "cpu") -> NDArray[np.float32]:
    """(n, m) intersection over union of every set of `a` with every set of `b`; two empty sets have 0.

    `device`: "cpu" counts bits; "cuda" (or "cuda:1", …) multiplies matrices on a GPU, "torch-cpu" does the
    same without one. All count whole numbers exactly and divide alike, so they agree to the last bit.
    """
    similarity = np.empty((len(a), len(b)), dtype=np.float32)
    for start, block in iou_blocks(a, b, device=device):
        similarity[start : start + len(block)] = block
    return similarity


def iou_blocks(
    a: PackedSets, b: PackedSets, *, block: int | None = None, device: str = "cpu"
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The same matrix in blocks of rows: (first row, (rows, m) IoU). By default about 64 MiB a block."""
    if a.points != b.points:
        raise InputError(
            f"sets over clouds of {a.points} and {b.points} points: both must be of the same cloud"
        )
    block = block or max(1, PAIRS_AT_ONCE // max(1, len(b)))
    b = b.in_order(a.order)
    count = _counter(b, device)
    for start in range(0, len(a), block):
        rows = a[start : start + block]
        yield start, _iou(count(rows), rows.counts, b.counts)


def similarity_rows(
    a: PackedSets, b: PackedSets, *, threshold: float = 0.0, block: int | None = None, device: str = "cpu"
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]]:
    """The pairs with IoU > `threshold`, in blocks of rows of `a`: only one dense block is ever in memory.

    Yields (first row, (rows,) pairs in each row, columns, similarities), row by row, columns ascending.
    """
    for start, dense in iou_blocks(a, b, block=block, device=device):
        row, column = np.nonzero(dense > threshold)
        counts = np.bincount(row, minlength=len(dense)).astype(np.int64)
        yield start, counts, column.astype(np.int32), dense[row, column]


def _poses(centres: ArrayLike, quaternions: ArrayLike) -> tuple[Floats, Floats]:
    centre = np.ascontiguousarray(np.atleast_2d(np.asarray(centres, dtype=np.float64)))
    turn = np.atleast_2d(np.asarray(quaternions, dtype=np.float64))
    if centre.shape[1:] != (3,) or turn.shape[1:] != (4,) or len(centre) != len(turn):
        raise InputError(f"centres {centre.shape} and quaternions {turn.shape}: expected (n, 3) and (n, 4)")
    bad = ~np.isfinite(centre).all(axis=1) | ~np.isfinite(turn).all(axis=1) | ~turn.any(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"camera row {row}: its pose is not finite or its quaternion is zero; drop it first")
    return centre, np.ascontiguousarray(rotation_matrices(turn))


def _intrinsics(cameras: Camera | Sequence[Camera], rows: int) -> Floats:
    """(rows, 6) width, height, fx, fy, cx, cy."""
    each = [cameras] * rows if isinstance(cameras, Camera) else list(cameras)
    if len(each) != rows:
        raise InputError(f"{len(each)} cameras for {rows} poses: give one camera for all, or one a pose")
    rig = [(c.width, c.height, c.fx, c.fy, c.cx, c.cy) for c in each]
    table = np.array(rig, dtype=np.float64).reshape(rows, 6)
    bad = ~np.isfinite(table).all(axis=1) | (table[:, :4] <= 0).any(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"camera row {row}: {each[row]} needs a positive size and positive focal lengths")
    return table


def _surfaces(
    depth: Depth | None,
    rows: slice,
    view: tuple[Floats, Floats, Floats, Floats],
    near: float,
    spacing: float,
    cell: int,
) -> tuple[Floats, NDArray[np.int64]]:
    """Depth buffers (k, h, w) of the cameras of a block, and the part (k, 2) h, w of each that is in use."""
    cameras = rows.stop - rows.start
    if depth is None:
        return np.empty((cameras, 0, 0)), np.zeros((cameras, 2), dtype=np.int64)
    if isinstance(depth, str):
        if depth != "cloud":
            raise InputError(
                f"depth {depth!r}: the only word is 'cloud'; else give depth images or a function of the row"
            )
        sizes = -(-view[3][:, [1, 0]].astype(np.int64) // cell)
        surface = np.full((cameras, *sizes.max(axis=0)), np.inf)
        _splat(*view, near, spacing, cell, surface, sizes)
        return surface, sizes
    images = [_depth_image(depth, row) for row in range(rows.start, rows.stop)]
    sizes = np.array([image.shape for image in images], dtype=np.int64)
    surface = np.full((cameras, *sizes.max(axis=0)), np.nan)
    for buffer, image in zip(surface, images, strict=True):
        buffer[: image.shape[0], : image.shape[1]] = image
    return surface, sizes


def _depth_image(depth: Sequence[NDArray[Any]] | Callable[[int], NDArray[Any]], row: int) -> NDArray[Any]:
    if not callable(depth) and row >= len(depth):
        raise InputError(f"{len(depth)} depth images, but a pose in row {row}: give one depth image a pose")
    image = np.asarray(depth(row) if callable(depth) else depth[row])
    if image.ndim != 2 or image.size == 0 or not np.issubdtype(image.dtype, np.floating):
        raise InputError(
            f"depth image of camera row {row}: {image.dtype} of shape {image.shape}, expected (h, w)"
            " in metres as floating point; samespot.overlap.cloud.read_depth makes that of a 16-bit png"
        )
    return image


def _count_ones(typing_context, word):  # type: ignore[no-untyped-def]
    """How many bits of a uint64 are 1: one machine instruction, and many at once where vectors have it."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


_ones: Any = intrinsic(_count_ones)


@njit(cache=True, inline="always", error_model="numpy")
def _project(points, i, centres, rotations, intrinsics, k):  # type: ignore[no-untyped-def]
    """Pixel u, v and depth z of point i in camera k, whose rotation is camera-to-world and so transposed."""
    dx, dy, dz = points[0, i] - centres[k, 0], points[1, i] - centres[k, 1], points[2, i] - centres[k, 2]
    x = rotations[k, 0, 0] * dx + rotations[k, 1, 0] * dy + rotations[k, 2, 0] * dz
    y = rotations[k, 0, 1] * dx + rotations[k, 1, 1] * dy + rotations[k, 2, 1] * dz
    z = rotations[k, 0, 2] * dx + rotations[k, 1, 2] * dy + rotations[k, 2, 2] * dz
    return intrinsics[k, 2] * x / z + intrinsics[k, 4], intrinsics[k, 3] * y / z + intrinsics[k, 5], z


@njit(cache=True, inline="always")
def _hidden(across, down, z, surface, sizes, k, tolerance, hide_unknown):  # type: ignore[no-untyped-def]
    """Whether a point lies behind the surface at its place (0 to 1) in the image of camera k."""
    row = min(int(down * sizes[k, 0]), sizes[k, 0] - 1)  # a place just under 1 can round up to the size
    column = min(int(across * sizes[k, 1]), sizes[k, 1] - 1)
    reading = surface[k, row, column]
    if np.isfinite(reading) and reading > 0.0:
        return z > reading + tolerance
    return hide_unknown


@njit(parallel=True, cache=True, error_model="numpy")
def _see(  # type: ignore[no-untyped-def]
    points, centres, rotations, intrinsics, near, far, surface, sizes, tolerance, hide_unknown, words, counts
):
    for k in prange(len(centres)):
        width, height = intrinsics[k, 0], intrinsics[k, 1]
        total = 0
        for w in range(words.shape[1]):
            word, first = np.uint64(0), np.uint64(w * 64)
            last = np.uint64(min(w * 64 + 64, points.shape[1]))
            for i in range(first, last):
                u, v, z = _project(points, i, centres, rotations, intrinsics, k)
                # no branches, so that eight points go at once
                within = (u >= 0.0) & (u < width) & (v >= 0.0) & (v < height)
                word |= np.uint64(within & (z > 0.0) & (z >= near) & (z <= far)) << (i - first)
            if word != 0 and sizes[k, 0] > 0:
                for i in range(first, last):
                    bit = ONE << (i - first)
                    if word & bit:
                        u, v, z = _project(points, i, centres, rotations, intrinsics, k)
                        if _hidden(u / width, v / height, z, surface, sizes, k, tolerance, hide_unknown):
                            word &= ~bit
            words[k, w] = word
            total += _ones(word)
        counts[k] = total


@njit(parallel=True, cache=True, error_model="numpy")
def _splat(  # type: ignore[no-untyped-def]
    points, centres, rotations, intrinsics, near, spacing, cell, surface, sizes
):
    """Draw the nearest depth of the cloud into each buffer; a point is a square as wide as `spacing`."""
    for k in prange(len(centres)):
        width, height = intrinsics[k, 0], intrinsics[k, 1]
        rows, columns = sizes[k, 0], sizes[k, 1]
        for i in range(points.shape[1]):
            u, v, z = _project(points, i, centres, rotations, intrinsics, k)
            if not (z > 0.0 and z >= near):
                continue
            # a point right before the lens must not cover the whole image
            side_u = min(intrinsics[k, 2] * 0.5 * spacing / z, 16.0 * cell)
            side_v = min(intrinsics[k, 3] * 0.5 * spacing / z, 16.0 * cell)
            if not (u + side_u >= 0.0 and u - side_u < width and v + side_v >= 0.0 and v - side_v < height):
                continue
            left, right = (u - side_u) / width * columns, (u + side_u) / width * columns
            top, bottom = (v - side_v) / height * rows, (v + side_v) / height * rows
            for r in range(max(0, int(top)), min(rows, int(bottom) + 1)):
                for c in range(max(0, int(left)), min(columns, int(right) + 1)):
                    if z < surface[k, r, c]:
                        surface[k, r, c] = z


@njit(parallel=True, cache=True)
def _occupied(words):  # type: ignore[no-untyped-def]
    """(n, chunks) whether any bit of a chunk of words is set: in an ordered cloud most chunks are empty."""
    chunks = -(-words.shape[1] // CHUNK)
    occupied = np.zeros((len(words), chunks), dtype=np.bool_)
    for i in prange(len(words)):
        for c in range(chunks):
            for w in range(c * CHUNK, min((c + 1) * CHUNK, words.shape[1])):
                if words[i, w] != 0:
                    occupied[i, c] = True
                    break
    return occupied


@njit(parallel=True, cache=True)
def _shared(a, b, occupied_a, occupied_b, out):  # type: ignore[no-untyped-def]
    """out[i, j] = bits that a[i] and b[j] share.

    In each chunk of words, only the rows and columns of a tile that have any bit there meet, four columns at a time:
    a word of a row is loaded once for the four.
    Indices are unsigned because numba lets signed ones count from the end, which keeps the loop from vectors.
    """
    tiles_down, tiles_across = -(-len(a) // ROWS), -(-len(b) // COLUMNS)
    for tile in prange(tiles_down * tiles_across):
        top, left = tile // tiles_across * ROWS, tile % tiles_across * COLUMNS
        bottom, right = min(top + ROWS, len(a)), min(left + COLUMNS, len(b))
        out[top:bottom, left:right] = 0
        down, across = np.empty(ROWS, np.uint64), np.empty(COLUMNS, np.uint64)
        for c in range(occupied_a.shape[1]):
            rows = columns = 0
            for i in range(top, bottom):
                down[rows] = i
                rows += occupied_a[i, c]
            for j in range(left, right):
                across[columns] = j
                columns += occupied_b[j, c]
            start, stop = np.uint64(c * CHUNK), np.uint64(min((c + 1) * CHUNK, a.shape[1]))
            for column in range(0, columns, 4):
                # at the right edge the last column stands in for those that are missing
                last = columns - 1
                j0, j1 = across[column], across[min(column + 1, last)]
                j2, j3 = across[min(column + 2, last)], across[min(column + 3, last)]
                for row in range(rows):
                    i = down[row]
                    n0 = n1 = n2 = n3 = np.uint64(0)
                    for w in range(start, stop):
                        word = a[i, w]
                        n0 += _ones(word & b[j0, w])
                        n1 += _ones(word & b[j1, w])
                        n2 += _ones(word & b[j2, w])
                        n3 += _ones(word & b[j3, w])
                    out[i, j0] += np.int32(n0)
                    if j1 > j0:
                        out[i, j1] += np.int32(n1)
                    if j2 > j1:
                        out[i, j2] += np.int32(n2)
                    if j3 > j2:
                        out[i, j3] += np.int32(n3)


def _counter(b: PackedSets, device: str) -> Callable[[PackedSets], NDArray[np.int32]]:
    """The function that counts the points each of some sets shares with each of `b`, on a device."""
    if device == "cpu":
        words = np.ascontiguousarray(b.words)

        def count(rows: PackedSets) -> NDArray[np.int32]:
            out = np.empty((len(rows), len(words)), dtype=np.int32)
            _shared(np.ascontiguousarray(rows.words), words, rows.occupied, b.occupied, out)
            return out

        return count
    if device != "torch-cpu" and device.split(":")[0] != "cuda":
        raise InputError(f"device {device!r} is not known; choose cpu, cuda, cuda:N or torch-cpu")
    return _product_counter(b, device)


def _product_counter(b: PackedSets, device: str) -> Callable[[PackedSets], NDArray[np.int32]]:
    import torch

    gpu = device != "torch-cpu"
    if gpu and not torch.cuda.is_available():
        raise InputError(f"device {device!r}: torch sees no CUDA GPU on this machine; use device='cpu'")
    kind, chunk = (torch.float16, HALF_EXACT) if gpu else (torch.float32, SINGLE_CHUNK)

    def octets(sets: PackedSets) -> Any:
        own = np.require(sets.words, requirements=["C", "W"]).view(np.uint8)
        return torch.from_numpy(own).to(device if gpu else "cpu")

    columns = octets(b)
    return lambda rows: _product(octets(rows), columns, kind, chunk).cpu().numpy()


def _product(octets_a: Any, octets_b: Any, kind: Any, chunk: int) -> Any:
    """(n, m) int32 bits that rows of bytes share, as products of 0/1 matrices of a floating `kind` in torch.

    In half precision over 2048 points at a time: no partial sum passes 2048, so each is exact whatever the
    accumulator, and the running total is an int32. Only one chunk of points is ever unpacked.
    """
    import torch

    bits = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=octets_a.device)
    total = torch.zeros((len(octets_a), len(octets_b)), dtype=torch.int32, device=octets_a.device)
    for start in range(0, octets_a.shape[1], chunk // 8):
        part = slice(start, start + chunk // 8)
        a, b = (((octets[:, part, None] & bits) != 0).flatten(1).to(kind) for octets in (octets_a, octets_b))
        total += (a @ b.T).to(torch.int32)
    return total


def _iou(
    shared: NDArray[np.int32], counts_a: NDArray[np.int64], counts_b: NDArray[np.int64]
) -> NDArray[np.float32]:
    union = counts_a[:, None] + counts_b[None, :] - shared
    ratio = np.divide(shared, union, out=np.zeros(shared.shape, dtype=np.float64), where=union > 0)
    similarity: NDArray[np.float32] = ratio.astype(np.float32)
    return similarity
