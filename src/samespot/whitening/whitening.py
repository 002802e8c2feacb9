"""`Whitening`: turn and stretch descriptors so that what varies much counts less, and keep the strongest directions.

It is fitted to the descriptors of a set of images, which it names: numbers from a whitening that was fitted on the
evaluated map are not those of one fitted on training images. Three kinds:

    Whitening.fit(x, "the map")                     PCA: each direction divided by its standard deviation
    Whitening.fit(x, "the map", damping="auto")     damped: weak directions, which are noise, are not blown up
    Whitening.learn(x, labels, "training places")   learned: divided by how much photos of one place differ along it
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import as_array
from samespot.errors import InputError
from samespot.progress import Progress
from samespot.whitening import files
from samespot.whitening.axes import Vectors, parts, principal_axes, read_rows
from samespot.whitening.damping import Damping, Kind, checked_damping, how_whitened
from samespot.whitening.learned import discriminative_axes
from samespot.whitening.products import products_on

if TYPE_CHECKING:  # arrays in, arrays out: whitening must not wait for pandas
    from samespot.overlap.labels import PairLabels

_TENSORS = ("axes", "mean", "variances")


@dataclass(frozen=True)
class Whitening:
    """Axes of a set of descriptors, strongest first. Call it to whiten: `w(vectors, dims)`.

    PCA: it holds as many axes as the set spans (its numerical rank): those whose variance is more than
    max(images, dims) · 2⁻⁵² of the largest. The coordinate of largest magnitude of each axis is positive.

    Damping adds `damping` times the mean variance of all axes to each variance before it divides: 0 is PCA whitening,
    and the higher it is, the more the descriptors come out as they were, only centred and rotated.
    """

    mean: NDArray[np.float64]  # (d,)
    axes: NDArray[np.float64]  # (rank, d) of length 1; of PCA orthogonal, too
    variances: NDArray[np.float64]  # (rank,) along the axes; of PCA descending, and over images - 1
    fitted_on: str  # name of the set
    images: int  # of it that were used; 0 if that is not known
    left_out: int = 0  # of it that have no descriptor (all zero)
    version: str = ""  # of samespot, that fitted it
    device: str = field(default="cpu", compare=False)  # where products are computed; not saved
    kind: Kind = "pca"
    damping: float = 0.0
    mean_variance: float = math.nan  # of all axes, kept or not; unknown for whitenings of others

    @property
    def rank(self) -> int:
        """The most dims it can give."""
        return len(self.variances)

    @property
    def dims(self) -> int:
        """Dims of the descriptors it takes."""
        return len(self.mean)

    @property
    def how(self) -> str:
        """In words: "damping 2", "learned"; nothing for PCA."""
        return how_whitened(self.kind, self.damping)

    @classmethod
    def fit(
        cls,
        descriptors: Vectors,
        fitted_on: str,
        *,
        damping: Damping = 0.0,
        most: int | None = None,
        progress: Progress | None = None,
        device: str = "cpu",
    ) -> Whitening:
        """Fit to the rows of (n, d) that are not all zero; read twice block by block, summed in float64.

        damping: a share of the mean variance, or "auto", which is 3; `choose_damping` finds what suits a map. most:
        how many of the strongest axes to find and keep; all by default. Of more than `MOST_IMAGES` images with more
        dims than that, only that many are drawn, always the same ones. device: "cpu" or "cuda", for this and for
        whitening.
        """
        share = checked_damping(damping)
        found = principal_axes(descriptors, fitted_on, most, progress, device)
        return cls(
            found.mean,
            found.axes,
            found.variances,
            fitted_on,
            found.images,
            found.left_out,
            _version(),
            device,
            damping=share,
            mean_variance=found.mean_variance,
        )

    @classmethod
    def learn(
        cls,
        descriptors: Vectors,
        labels: PairLabels,
        fitted_on: str,
        *,
        damping: Damping = "auto",
        most: int | None = None,
        progress: Progress | None = None,
        device: str = "cpu",
    ) -> Whitening:
        """Learn from the similarity ψ of these images to one another which directions tell places apart.

        The discriminative projection of Mikolajczyk and Matas (2007): along each axis, descriptors are divided by how
        much those of matching images differ, pairs weighted by ψ; axes come in the order of how much all images vary
        in these units. labels: (n, n), as `label_pairs(places, places)` makes them. damping: a share of the mean
        difference, added along every direction. Holds all descriptors in memory, as float64.
        """
        share = checked_damping(damping)
        vectors = as_array(descriptors, fitted_on)
        found = principal_axes(vectors, fitted_on, None, progress, device)
        axes, variances = discriminative_axes(vectors, labels, found, share, fitted_on)
        kept = slice(None, most)
        return cls(
            found.mean,
            axes[kept],
            variances[kept],
            fitted_on,
            found.images,
            found.left_out,
            _version(),
            device,
            kind="learned",
            damping=share,
        )

    @classmethod
    def from_affine(cls, weight: NDArray[Any], bias: NDArray[Any], fitted_on: str) -> Whitening:
        """The whitening that takes v to weight · v + bias, then to length 1, as others publish theirs.

        weight: (dims, d) with independent rows, bias: (dims,). Rows come strongest axis (shortest row) first.
        Exact: the mean is a solution of weight · mean = -bias, the shortest one.
        """
        lengths = np.linalg.norm(weight.astype(np.float64, copy=False), axis=1)
        if weight.ndim != 2 or weight.shape[0] > weight.shape[1] or not (lengths > 0).all():
            raise InputError(
                f"{fitted_on}: a projection of {weight.shape} is not a whitening; expected (dims, d) with dims up to d "
                "and no row of zeros"
            )
        order = np.argsort(lengths, kind="stable")
        lengths = lengths[order]
        axes = weight[order].astype(np.float64) / lengths[:, None]
        mean = _solve_rows(axes, -bias[order].astype(np.float64) / lengths, fitted_on)
        return cls(mean, axes, 1 / lengths**2, fitted_on, 0, 0, _version())

    def damped(self, damping: Damping = "auto") -> Whitening:
        """The same axes with another damping: nothing is fitted again."""
        if self.kind != "pca" or not math.isfinite(self.mean_variance):
            raise InputError(
                f"the whitening fitted on {self.fitted_on} cannot be damped afterwards; fit it again with `damping`"
            )
        return replace(self, damping=checked_damping(damping))

    def rounded(self, dtype: Literal["float32", "float16"] = "float32") -> Whitening:
        """Axes in fewer digits, for a file of half the size, or a quarter."""
        return replace(self, axes=self.axes.astype(dtype).astype(np.float64))

    def __call__(self, vectors: Vectors, dims: int | None = None) -> NDArray[np.float32]:
        """(n, d) -> (n, dims) float32 unit rows; all-zero rows stay zero. dims: all that it has by default."""
        dims = self.rank if dims is None else dims
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

    def projection(self, dims: int) -> NDArray[np.float64]:
        """(d, dims) what centred descriptors are multiplied by: axes over their damped deviations."""
        return (self.axes[:dims] / np.sqrt(self.variances[:dims, None] + self._added)).T

    def _projected(
        self, vectors: Vectors, dims: int, progress: Progress | None
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of (rows, dims) coordinates, divided by their deviations; zero rows stay zero."""
        times = products_on(self.device).times(self.projection(dims))
        for part in parts(len(vectors), self.dims):
            block, there = read_rows(vectors, part)
            projected = times(block - self.mean)
            projected[~there] = 0
            yield part, projected
            if progress is not None:
                progress("whitening", part.stop, len(vectors))

    @property
    def _added(self) -> float:
        """To each variance; in learned axes the damping is already."""
        return self.damping * self.mean_variance if self.kind == "pca" and self.damping else 0.0

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
        if dims > self.rank and (not self.images or self.rank < min(self.images - 1, self.dims)):
            raise InputError(
                f"{dims} dims asked for, but the whitening ({self.fitted_on}) has {self.rank}; "
                f"ask for at most {self.rank}"
            )
        if dims > self.rank:
            raise InputError(
                f"{dims} dims asked for, but the {self.images} images that it was fitted on span only {self.rank}; "
                f"ask for at most {self.rank}, or fit on more images"
            )
        return int(dims)

    def digest(self) -> str:
        """Short name of exactly this whitening: equal digests mean equal descriptors."""
        digest = hashlib.blake2b(f"{self.kind} {self._added!r}\n".encode(), digest_size=16)
        for name in _TENSORS:
            values = np.ascontiguousarray(getattr(self, name))
            digest.update(f"{name} {values.shape}\n".encode())
            digest.update(values.tobytes())
        return digest.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """What to report about it, as plain json."""
        return {
            "digest": self.digest(),
            "kind": self.kind,
            "dims": self.rank,
            "damping": self.damping,
            "fitted on": self.fitted_on,
            "images": self.images or None,  # nobody publishes how many they were
        }

    def save(self, path: str | Path) -> Path:
        """Write a safetensors file, at once: a reader sees the old one or the new one."""
        about = {
            "kind": self.kind,
            "damping": repr(float(self.damping)),
            "mean_variance": repr(float(self.mean_variance)),
            "fitted_on": self.fitted_on,
            "images": str(self.images),
            "left_out": str(self.left_out),
            "samespot": self.version,
        }
        tensors = {name: _in_few_bytes(getattr(self, name)) for name in _TENSORS}
        return files.write(Path(path), tensors, about)

    @classmethod
    def load(cls, path: str | Path) -> Whitening:
        """Read what `save` wrote, now or before there was damping."""
        path = Path(path)
        tensors, about = files.read(path)
        try:
            axes, mean, variances = (tensors[name].astype(np.float64, copy=False) for name in _TENSORS)
            whitening = cls(
                mean,
                axes,
                variances,
                fitted_on=about["fitted_on"],
                images=int(about["images"]),
                left_out=int(about["left_out"]),
                version=about.get("samespot", ""),
                kind=about.get("kind", "pca"),  # type: ignore[arg-type]
                damping=float(about.get("damping", 0.0)),
                mean_variance=float(about.get("mean_variance", math.nan)),
            )
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: the whitening lacks {error}; fit it again") from None
        _check_loaded(whitening, path)
        return whitening


def _in_few_bytes(values: NDArray[np.float64]) -> NDArray[Any]:
    """The same numbers, in the shortest format that holds them all."""
    for dtype in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            short = values.astype(dtype)
        if np.array_equal(short, values):
            return np.ascontiguousarray(short)
    return np.ascontiguousarray(values)


def _version() -> str:
    import samespot

    return str(samespot.__version__)


def _solve_rows(axes: NDArray[np.float64], wanted: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """The shortest x with axes @ x = wanted: two rounds of LSMR for orthogonal rows, more for others."""
    from scipy.sparse.linalg import lsmr

    x: NDArray[np.float64] = lsmr(axes, wanted, atol=1e-15, btol=1e-15, conlim=0, maxiter=2_000)[0]
    if not np.allclose(axes @ x, wanted, rtol=0, atol=1e-6 * float(np.abs(wanted).max(initial=1e-30))):
        raise InputError(f"{name}: rows of the projection depend on one another, so it has no mean")
    return x


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of length 1; a zero row, and one that lies on the mean, stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    unit: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1)[:, None]
    return unit


def _check_loaded(w: Whitening, path: Path) -> None:
    shapes = {name: getattr(w, name).shape for name in _TENSORS}
    if w.mean.ndim != 1 or w.variances.ndim != 1 or w.axes.shape != (w.rank, w.dims) or not w.rank <= w.dims:
        raise InputError(f"{path}: the shapes of the whitening do not fit one another {shapes}; fit it again")
    sound = (
        w.rank > 0
        and w.kind in get_args(Kind)
        and all(np.isfinite(getattr(w, name)).all() for name in _TENSORS)
        and (w.variances > 0).all()
        and (w.kind != "pca" or (np.diff(w.variances) <= 0).all())
        and (0 <= w.damping < math.inf and 0 <= w._added < math.inf)
    )
    if not sound:
        raise InputError(f"{path}: the whitening holds impossible values; fit it again")
