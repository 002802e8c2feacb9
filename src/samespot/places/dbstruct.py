"""The MATLAB `dbStruct` of NetVLAD, which lists the images of Pittsburgh and Tokyo with UTM positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.catalogue import MissingImages
from samespot.places.table import Places

SIDES = ("database", "query")


@dataclass(frozen=True)
class Listing:
    """One side of a dbStruct: its images as listed, where they were taken, and when if it says so."""

    source: Path
    side: str  # database or query
    images: list[str]
    utm: NDArray[np.float64]  # (n, 2) easting, northing [m]
    month: list[str] | None  # 2013-06, of Tokyo Time Machine


def struct_files(root: Path, pattern: str) -> dict[str, Path]:
    """The .mat files of that name under root or root/datasets, by their stem."""
    found = [*root.glob(pattern), *(root / "datasets").glob(pattern)]
    return {path.stem: path for path in sorted(found)}


def read_listing(path: Path, side: str) -> Listing:
    """The database or the query side of a .mat file, of MATLAB 5 to 7.2 or of 7.3 (HDF5)."""
    letter = {"database": "db", "query": "q"}[side]
    wanted = (f"{letter}ImageFns", f"utm{letter.capitalize()}", f"{letter}TimeStamp")
    fields = _read_hdf5(path, wanted) if _is_hdf5(path) else _read_matlab5(path, wanted)
    lacking = [name for name in wanted[:2] if name not in fields]
    if lacking:
        raise InputError(
            f"{path}: its dbStruct has no {' and no '.join(lacking)}; is it a .mat of NetVLAD's data sets?"
        )
    images, utm = fields[wanted[0]], np.asarray(fields[wanted[1]], dtype=np.float64)
    if utm.shape != (2, len(images)):
        raise InputError(
            f"{path}: {wanted[1]} is {utm.shape} where 2 × {len(images)}, two rows per image, is expected"
        )
    stamps = np.ravel(fields[wanted[2]]) if wanted[2] in fields else None
    if stamps is not None and len(stamps) != len(images):
        raise InputError(f"{path}: {len(stamps)} values of {wanted[2]} for {len(images)} images")
    return Listing(path, side, images, utm.T, None if stamps is None else _months(stamps, path))


def listed_places(
    root: Path,
    listing: Listing,
    columns: Mapping[str, Any],
    projection: str,
    why_no_heading: str,
    missing_images: MissingImages,
) -> Places:
    """The listed images, with `columns` (`image` among them) besides position and split."""
    where = {"easting": listing.utm[:, 0], "northing": listing.utm[:, 1], "heading": np.nan}
    return Places.build(
        root,
        {**where, "split": "map" if listing.side == "database" else "query", **columns},
        source=listing.source,
        projection=projection,
        notes=(f"{listing.source}: {why_no_heading}",),
        missing_images=missing_images,
    )


def named_parts(stems: Iterable[str]) -> list[str]:
    """Both sides of each file: pitts30k_test gives pitts30k_test/database and pitts30k_test/query."""
    return sorted(f"{stem}/{side}" for stem in stems for side in SIDES)


def find_images(
    root: Path, listed: Sequence[str], folders: Sequence[str], suffixes: Sequence[str] = ("",)
) -> tuple[list[str], bool]:
    """The listed images relative to root, and whether they were found.

    Copies differ in the folder that holds the images and in their file type, so the first of `folders` and
    `suffixes` ("": as listed) that has one of the first listed images is taken for all; else the first ones.
    """
    probes = listed[:: max(1, len(listed) // 16)]
    for folder in folders:
        for suffix in suffixes:
            if any((root / folder / _renamed(name, suffix)).is_file() for name in probes):
                return _placed(listed, folder, suffix), True
    return _placed(listed, folders[0], suffixes[0]), False


def _placed(listed: Sequence[str], folder: str, suffix: str) -> list[str]:
    prefix = f"{folder}/" if folder else ""
    return [prefix + _renamed(name, suffix) for name in listed]


def _renamed(name: str, suffix: str) -> str:
    return name.rsplit(".", 1)[0] + suffix if suffix else name


def _months(stamps: NDArray[Any], path: Path) -> list[str]:
    """Time stamps such as 201306 as 2013-06."""
    whole = pd.to_numeric(pd.Series(stamps), errors="coerce")
    bad = ~(whole.between(190001, 210012) & (whole % 100).between(1, 12))
    if bad.any():
        raise InputError(
            f"{path}: time stamp {stamps[int(np.flatnonzero(bad)[0])]} is not a year and month as 201306 is"
        )
    return [f"{int(v) // 100:04d}-{int(v) % 100:02d}" for v in whole]


def _is_hdf5(path: Path) -> bool:
    """MATLAB 7.3 files are HDF5 behind a text header of 512 bytes."""
    try:
        with path.open("rb") as file:
            return b"\x89HDF\r\n\x1a\n" in file.read(1024)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror}") from error


def _read_matlab5(path: Path, wanted: Sequence[str]) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=["dbStruct"])
    except Exception as error:  # scipy raises many kinds on a broken file, of zlib, struct and its own
        raise InputError(
            f"{path}: not a readable MATLAB file ({error or type(error).__name__}); fetch it again"
        ) from error
    struct = content.get("dbStruct")
    if struct is None or not struct.dtype.names:
        raise InputError(f"{path}: holds no struct called dbStruct; is it a .mat of NetVLAD's data sets?")
    record = struct.ravel()[0]
    fields = {name: record[name] for name in wanted if name in struct.dtype.names}
    if wanted[0] in fields:
        fields[wanted[0]] = [str(np.ravel(cell)[0]) for cell in np.ravel(fields[wanted[0]])]
    return fields


def _read_hdf5(path: Path, wanted: Sequence[str]) -> dict[str, Any]:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            struct = file.get("dbStruct")
            if not isinstance(struct, h5py.Group):
                raise InputError(
                    f"{path}: holds no struct called dbStruct; is it a .mat of NetVLAD's data sets?"
                )
            fields = {name: struct[name][()] for name in wanted if name in struct}
            if wanted[0] in fields:  # a cell array: references to texts of 16-bit characters
                cells = np.ravel(fields[wanted[0]])
                fields[wanted[0]] = [file[cell][()].tobytes().decode("utf-16-le") for cell in cells]
    except (OSError, KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a readable MATLAB 7.3 file ({error}); fetch it again") from error
    if wanted[1] in fields:
        fields[wanted[1]] = fields[wanted[1]].T  # HDF5 has MATLAB's axes the other way round
    return fields
