"""Can what a command makes be written where it was asked for? Tried before the work, not after it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from samespot.errors import InputError


def check_file(flag: str, path: Path) -> None:
    """Raise unless a file can be written at `path`; folders above it may be absent."""
    try:
        if path.is_dir():
            raise InputError(f"{flag} {path}: is a folder; give the name of a file")
        if not path.exists():
            _try_folder(path.parent)
        elif not os.access(path, os.W_OK):
            raise PermissionError(0, "permission denied")
    except OSError as error:
        raise InputError(f"{flag} {path}: cannot be written ({error.strerror or error})") from None


def check_folder(flag: str, path: Path) -> None:
    """Raise unless files can be written into the folder `path`, which may be absent."""
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{flag} {path}: is a file; give the name of a folder")
        _try_folder(path)
    except OSError as error:
        raise InputError(f"{flag} {path}: cannot be written ({error.strerror or error})") from None


def _try_folder(folder: Path) -> None:
    """Make a nameless file in this folder, or in the nearest one above it that is there."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(0, f"{there} is a file")
    with tempfile.TemporaryFile(dir=there):
        pass
