"""Whitening: turn and stretch descriptors so that every direction varies alike, and keep the strongest ones.

PCA of the descriptors of a set of images, which the result names: numbers from a whitening that was fitted on the
evaluated map are not those of one fitted on training images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import as_array
from samespot.errors import InputError
from samespot.progress import Progress
from samespot.retrieval.products import NumpyProducts, Products, products_on

Vectors = NDArray[
    Any
]  # (n, d) float16, float32 or float64, possibly memory-mapped; an all-zero row is no image
_FORMAT = "samespot whitening 1"
_BLOCK_BYTES = 64 << 20  # float64 copies held at a time
# with more images and more dims than this, so many images are drawn to fit on: as Patch-NetVLAD does, and the
# products of 32,768 dims would take 8.6 GB
MOST_IMAGES = 10_000
_TENSORS = ("axes", "mean", "variances")


@dataclass(frozen=True)
class Whitening:
    """Principal axes of a set of descriptors, strongest first. Call it to whiten: `w(vectors, dims)`.

    It holds as many axes as the set spans (its numerical rank): those whose variance is more than
    max(images, dims) · 2⁻⁵² of the largest. The coordinate of largest magnitude of each axis is positive.
    """

    mean: NDArray[np.float64]  # (d,)
    axes: NDArray[np.float64]  # (rank, d) orthonormal
    variances: NDArray[np.float64]  # (rank,) along the axes, descending; the sum is divided by images - 1
    fitted_on: str  # name of the set
    images: int  # of it that were used; 0 if that is not known
    left_out: int = 0  # of it that have no descriptor (all zero)
    version: str = ""  # of samespot, that fitted it
    device: str = field(default="cpu", compare=False)  # where products are computed; not saved

    @property
    def rank(self) -> int:
        return len(self.variances)

    @property
    def dims(self) -> int:
        """Dims of the descriptors that it takes."""
        return len(self.mean)

    @classmethod
    def fit(
        cls,
        descriptors: Vectors,
        fitted_on: str,
        *,
        most: int | None = None,
        progress: Progress | None = None,
        device: str = "cpu",
    ) -> Whitening:
        """Fit to the rows of (n, d) that are not all zero; read twice block by block, summed in float64.

        Only the `most` strongest axes are found and kept, or all. Of more than `MOST_IMAGES` images with more dims
        than that, so many are drawn, always the same ones. device: "cpu" or "cuda", for this and for whitening.
        """
        import samespot

        descriptors = as_array(descriptors, fitted_on)
        if descriptors.ndim != 2 or descriptors.dtype.kind != "f" or descriptors.shape[1] == 0:
            raise InputError(
                f"{fitted_on}: descriptors are {descriptors.dtype} {descriptors.shape}; expected floats (images, dims)"
            )
        descriptors = _at_most(descriptors, MOST_IMAGES)
        mean, images = _mean(descriptors, fitted_on, progress)
        if images < 2:
            raise InputError(
                f"{fitted_on}: whitening needs 2 images or more, {images} of {len(descriptors)} have a descriptor"
            )
        # the smaller of the two products tells the same axes
        find = _axes_by_covariance if images > len(mean) else _axes_by_images
        where = products_on(device)
        try:
            variances, axes = find(descriptors, mean, images, most, progress, where)
        except where.failures:  # no room on the GPU, or no end of its iterations
            variances, axes = find(descriptors, mean, images, most, progress, NumpyProducts())
        rank = _rank(variances, images, mean)
        if rank == 0:
            raise InputError(
                f"{fitted_on}: all {images} descriptors are the same; there is nothing to whiten"
            )
        largest = np.abs(axes[:rank]).argmax(axis=1)
        signs = np.sign(axes[np.arange(rank), largest])
        return cls(
            mean,
            axes[:rank] * signs[:, None],
            variances[:rank].copy(),
            fitted_on,
            images,
            len(descriptors) - images,
            str(samespot.__version__),
            device,
        )

    @classmethod
    def from_affine(cls, weight: NDArray[Any], bias: NDArray[Any], fitted_on: str) -> Whitening:
        """The whitening that takes v to weight · v + bias, then to length 1, as others publish theirs.

        weight: (dims, d) with independent rows, bias: (dims,). Rows come strongest axis (shortest row) first.
        Exact: the mean is a solution of weight · mean = -bias, the shortest one.
        """
        import samespot

        lengths = np.linalg.norm(weight.astype(np.float64, copy=False), axis=1)
        if weight.ndim != 2 or weight.shape[0] > weight.shape[1] or not (lengths > 0).all():
            raise InputError(
                f"{fitted_on}: a projection of {weight.shape} is no whitening; expected (dims, d) with dims up to d "
                "and no row of zeros"
            )
        order = np.argsort(lengths, kind="stable")
        lengths = lengths[order]
        axes = weight[order].astype(np.float64) / lengths[:, None]
        mean = _solve_rows(axes, -bias[order].astype(np.float64) / lengths, fitted_on)
        return cls(mean, axes, 1 / lengths**2, fitted_on, 0, 0, str(samespot.__version__))

    def __call__(self, vectors: Vectors, dims: int) -> NDArray[np.float32]:
        """(n, d) -> (n, dims) float32 unit rows; all-zero rows stay zero."""
        return self.sweep(vectors, [dims])[dims]

    def sweep(
        self, vectors: Vectors, dims: Sequence[int], *, progress: Progress | None = None
    ) -> dict[int, NDArray[np.float32]]:
        """Whitened to each of several numbers of dims, for the price of the largest: the axes are the same."""
        vectors, widths = self._fitting(vectors), list(dict.fromkeys(self._check_dims(d) for d in dims))
        out = {d: np.empty((len(vectors), d), dtype=np.float32) for d in widths}
        for part, projected in self._projected(vectors, max(widths, default=1), progress):
            for d, whitened in out.items():
                whitened[part] = _unit(projected[:, :d])
        return out

    def apply_to(
        self, vectors: Vectors, dims: int, out: str | Path, *, progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Whiten into a `.npy` file, block by block, and map it into memory: for tables larger than memory."""
        vectors, dims = self._fitting(vectors), self._check_dims(dims)
        try:
            file = np.lib.format.open_memmap(out, "w+", np.float32, (len(vectors), dims))
        except OSError as error:
            raise InputError(
                f"{out}: cannot be written ({error.strerror or error}); is the disk full?"
            ) from None
        for part, projected in self._projected(vectors, dims, progress):
            file[part] = _unit(projected)
        file.flush()
        mapped: NDArray[np.float32] = np.load(out, mmap_mode="r")
        return mapped

    def _projected(
        self, vectors: Vectors, dims: int, progress: Progress | None
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of (rows, dims) coordinates with variance 1; zero rows stay zero."""
        times = products_on(self.device).times((self.axes[:dims] / np.sqrt(self.variances[:dims, None])).T)
        for part in _parts(len(vectors), self.dims):
            block, there = _read(vectors, part)
            projected = times(block - self.mean)
            projected[~there] = 0
            yield part, projected
            if progress is not None:
                progress("whitening", part.stop, len(vectors))

    def _fitting(self, given: Any) -> Vectors:
        """Descriptors of as many dims as it takes."""
        vectors = as_array(given, "descriptors")
        if vectors.ndim != 2 or vectors.shape[1] != self.dims:
            raise InputError(
                f"descriptors {vectors.shape} do not fit a whitening of {self.dims} dims (fitted on {self.fitted_on}); "
                "describe with the model that it was fitted with"
            )
        return vectors

    def _check_dims(self, dims: int) -> int:
        if dims < 1:
            raise InputError(f"whitening to {dims} dims: give at least 1")
        if dims > self.rank and not self.images:
            raise InputError(
                f"{dims} dims asked, but the whitening ({self.fitted_on}) has {self.rank}; ask for at most {self.rank}"
            )
        if dims > self.rank:
            raise InputError(
                f"{dims} dims asked, but the {self.images} images that it was fitted on span only {self.rank}; "
                f"ask for at most {self.rank}, or fit on more images"
            )
        return int(dims)

    def save(self, path: str | Path) -> Path:
        """Write a safetensors file, at once: a reader sees the old one or the new one."""
        from safetensors.numpy import save

        from samespot.files import write_whole

        path = Path(path)
        about = {
            "format": _FORMAT,
            "fitted_on": self.fitted_on,
            "images": str(self.images),
            "left_out": str(self.left_out),
            "samespot": self.version,
        }
        tensors = {name: np.ascontiguousarray(getattr(self, name)) for name in _TENSORS}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, save(tensors, metadata=about))
        except OSError as error:
            raise InputError(
                f"{path}: cannot write the whitening ({error.strerror or error}); is the disk full?"
            ) from None
        return path

    @classmethod
    def load(cls, path: str | Path) -> Whitening:
        """Read what `save` wrote."""
        path = Path(path)
        tensors, about = _read_file(path)
        try:
            images, left_out = int(about["images"]), int(about["left_out"])
            axes, mean, variances = (tensors[name].astype(np.float64, copy=False) for name in _TENSORS)
            whitening = cls(
                mean,
                axes,
                variances,
                fitted_on=about["fitted_on"],
                images=images,
                left_out=left_out,
                version=about.get("samespot", ""),
            )
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: the whitening lacks {error}; fit it again") from None
        _check_loaded(whitening, path)
        return whitening


def _at_most(descriptors: Vectors, most: int) -> Vectors:
    """All rows, or `most` of them where neither way to the axes would be short."""
    if min(descriptors.shape) <= most:
        return descriptors
    chosen = np.random.default_rng(0).choice(len(descriptors), most, replace=False)
    return descriptors[np.sort(chosen)]


def _mean(descriptors: Vectors, name: str, progress: Progress | None) -> tuple[NDArray[np.float64], int]:
    """Mean of the rows that are not all zero, and how many they are."""
    total, images = np.zeros(descriptors.shape[1]), 0
    for part in _parts(*descriptors.shape):
        block, there = _read(descriptors, part)
        total += block.sum(axis=0)
        images += int(there.sum())
        if not np.isfinite(total).all():
            rows = part.start + np.flatnonzero(~np.isfinite(block).all(axis=1))
            raise InputError(
                f"{name}: the descriptor in row {rows[0]} is not finite; describe that image again"
            )
        _tell(progress, part.stop, len(descriptors), 0)
    return total / max(images, 1), images


def _axes_by_covariance(
    descriptors: Vectors,
    mean: NDArray[np.float64],
    images: int,
    most: int | None,
    progress: Progress | None,
    products: Products,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances, descending, and the axes (d, d) or (most, d), from the covariance of the dims."""

    def blocks() -> Iterator[NDArray[np.float64]]:
        for part in _parts(*descriptors.shape):
            block, there = _read(descriptors, part)
            block -= mean
            block[~there] = 0
            yield block
            _tell(progress, part.stop, len(descriptors), 1)

    return products.strongest(products.squared(blocks(), len(mean)) / (images - 1), most)


def _axes_by_images(
    descriptors: Vectors,
    mean: NDArray[np.float64],
    images: int,
    most: int | None,
    progress: Progress | None,
    products: Products,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same from the products of the images: with fewer images than dims a smaller matrix, (images, images)."""
    rows = np.flatnonzero([bool(np.any(row)) for row in descriptors])
    runs = list(_parts(len(mean), images))

    def columns() -> Iterator[NDArray[np.float64]]:
        for run in runs:
            yield (descriptors[:, run][rows] - mean[run]).T
            _tell(progress, run.stop, len(mean), 1)

    shares = products.strongest(products.squared(columns(), images), most)[1]  # of each image in an axis
    axes, times = np.empty((len(shares), len(mean))), products.times(shares.T)
    for run in runs:
        axes[:, run] = times((descriptors[:, run][rows] - mean[run]).T).T
    lengths = np.linalg.norm(axes, axis=1)
    axes /= np.where(lengths > 0, lengths, 1)[:, None]
    order = np.argsort(-lengths, kind="stable")  # equal ones may have changed places by rounding
    return lengths[order] ** 2 / (images - 1), axes[order]


def _solve_rows(axes: NDArray[np.float64], wanted: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """The shortest x with axes @ x = wanted: two rounds of LSMR for orthogonal rows, more for others."""
    from scipy.sparse.linalg import lsmr

    x: NDArray[np.float64] = lsmr(axes, wanted, atol=1e-15, btol=1e-15, conlim=0, maxiter=2_000)[0]
    if not np.allclose(axes @ x, wanted, rtol=0, atol=1e-6 * float(np.abs(wanted).max(initial=1e-30))):
        raise InputError(f"{name}: rows of the projection depend on one another, so it has no mean")
    return x


def _rank(variances: NDArray[np.float64], images: int, mean: NDArray[np.float64]) -> int:
    """How many axes stand out of the rounding, of the sums and of the mean; n images span n - 1 at most."""
    relative = max(images, len(mean)) * np.finfo(np.float64).eps
    tolerance = max(variances[0] * relative, float(mean @ mean) * relative**2)
    lost = np.flatnonzero(~(variances > tolerance))
    return min(int(lost[0]) if len(lost) else len(variances), images - 1)


def _read(vectors: Vectors, part: slice) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A float64 copy of some rows, and which of them are not all zero."""
    block = np.array(vectors[part], dtype=np.float64)
    there: NDArray[np.bool_] = np.any(block != 0, axis=1)
    return block, there


def _parts(rows: int, width: int) -> Iterator[slice]:
    """Runs of rows that take at most `_BLOCK_BYTES` each as float64."""
    step = max(1, _BLOCK_BYTES // (8 * max(width, 1)))
    return (slice(i, min(i + step, rows)) for i in range(0, rows, step))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of length 1; a zero row, and one that lies on the mean, stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    unit: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1)[:, None]
    return unit


def _tell(progress: Progress | None, done: int, total: int, half: int) -> None:
    """Two passes as one bar."""
    if progress is not None:
        progress("fitting the whitening", math.floor(50 * (half + done / max(total, 1))), 100)


def _read_file(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path}: no such whitening; check the path")
    try:
        with safe_open(path, framework="numpy") as file:
            about = dict(file.metadata() or {})
            if about.get("format") != _FORMAT:
                raise InputError(
                    f"{path}: not a whitening that samespot saved; give the file of Whitening.save"
                )
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a complete safetensors file ({error}); copy it again") from None


def _check_loaded(w: Whitening, path: Path) -> None:
    shapes = {name: getattr(w, name).shape for name in _TENSORS}
    if w.mean.ndim != 1 or w.variances.ndim != 1 or w.axes.shape != (w.rank, w.dims) or not w.rank <= w.dims:
        raise InputError(f"{path}: the shapes of the whitening do not fit one another {shapes}; fit it again")
    sound = w.rank and (w.variances > 0).all() and (np.diff(w.variances) <= 0).all()
    if not (sound and all(np.isfinite(getattr(w, name)).all() for name in _TENSORS)):
        raise InputError(f"{path}: the whitening holds values that cannot be; fit it again")
