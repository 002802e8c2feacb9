"""Files and folders that appear whole or not at all: a reader, or a kill, sees the old one or the new one."""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import json
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samespot.errors import InputError

RUN_AGAIN = "fix that and run the same command again"
RESUMES = "the same command again resumes where it left off"
UNREAD = "cannot be read"  # a fault, for `disk_errors`


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a hidden path beside `path` to write to; on success it becomes `path`, else it goes."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | memoryview) -> None:
    with whole_file(path) as partial:
        partial.write_bytes(content)


def write_json(path: Path, content: Any, indent: int | None = 1) -> Path:
    """Plain json with a line break at its end."""
    write_whole(path, (json.dumps(content, indent=indent) + "\n").encode())
    return path


def read_json(path: Path, advice: str) -> dict[str, Any]:
    """The json object in a file; one line with `advice` where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); {advice}") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid json ({error}); {advice}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds no json object; {advice}")
    return content


@contextmanager
def disk_errors(
    path: Path, advice: str = f"fix that, and {RESUMES}", fault: str = "cannot write"
) -> Iterator[None]:
    """What the disk refuses in here, as one line for the user."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {fault} ({error.strerror or error}); {advice}") from None


def in_bytes(size: float) -> str:
    """12 kB, 730 MB, 1.25 GB"""
    for one, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= 0.9995 * one:
            return f"{size / one:,.0f} {unit}" if size >= 99.95 * one else f"{size / one:.3g} {unit}"
    return f"{size:.0f} bytes"


def require_disk(size: int, folder: Path, what: str, remedy: str) -> None:
    """Refuse what would not fit, before hours are spent. size: bytes. folder: may not be there yet."""
    free = shutil.disk_usage(
        next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    ).free
    if size > 0.95 * free:
        raise InputError(
            f"{folder}: {what} need {in_bytes(size)}, but only {in_bytes(free)} of disk is free; {remedy}"
        )


def reserve(path: Path, size: int) -> None:
    """Make a file of zeros that has its room on the disk: one of holes, written through a memory map, would end the
    process where the disk is full. What cannot be had is an `OSError`, and leaves no file; where the system or the disk
    cannot reserve, the file is one of holes."""
    with path.open("wb") as file:
        try:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                path.unlink()
                raise
        file.truncate(size)


def is_there(path: Path) -> bool:
    """Whether there is such a file. `Path.is_file` may say no where a disk fails; here that is an `OSError`."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def files_in(folder: Path, pattern: str) -> list[Path]:
    """What is in a folder by a pattern, in order. `Path.glob` may find nothing where a disk fails; here that is an
    `OSError`."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [folder / name for name in sorted(fnmatch.filter(names, pattern))]


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yields a hidden folder beside `folder` to fill; on success it takes its place, else it goes.

    A kill leaves what was there before, and the hidden folder, which the next writer to the same place removes.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep_scratch(folder)
    scratch = _scratch_folder(folder)
    try:
        yield scratch
        replace_folder(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def locked(folder: Path, what: str, wait: bool = False) -> Iterator[None]:
    """No other process writes into this folder meanwhile. A process that died holds nothing.

    what: is being written, for the line that the second writer gets. wait: let the second writer wait instead.
    """
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder}: another process is writing {what} there; wait for it, or choose another folder"
            ) from None
        yield


def _scratch_folder(folder: Path) -> Path:
    """A new hidden folder beside `folder`, named after the machine and process that writes it."""
    prefix = f".{folder.name}.part-{platform.node()}-{os.getpid()}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))


def _sweep_scratch(folder: Path) -> None:
    """Remove scratch folders of `folder` whose process on this machine was killed.

    Other machines may be writing on a shared disk; theirs are left alone. So is what was moved away
    (see `replace_folder`) and never replaced.
    """
    old = r"(\.old)?" if folder.exists() else ""
    pattern = re.compile(re.escape(f".{folder.name}.part-{platform.node()}-") + rf"(\d+)-[^-.]+{old}")
    for beside in folder.parent.iterdir():
        match = pattern.fullmatch(beside.name)
        if match is not None and not _runs(int(match[1])):
            shutil.rmtree(beside, ignore_errors=True)


def _runs(process: int) -> bool:
    """Whether a process of this number is running. Where that cannot be asked without harm, yes."""
    if os.name != "posix":  # elsewhere os.kill ends the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it runs, for another user
        pass
    return True


def replace_folder(scratch: Path, folder: Path) -> None:
    """Put a finished scratch folder in the place of `folder`, and remove what was there.

    On Linux the two are exchanged in one step, so that at any moment `folder` is the old or the new one. Where the
    system or the disk cannot do that, the old one is moved away first: a kill between the two moves leaves no
    `folder`, but both under hidden names beside it (`.<name>.part-…`, and the old one with `.old` at its end).
    """
    os.chmod(scratch, 0o755)  # mkdtemp makes it private
    if not folder.exists():
        os.rename(scratch, folder)
    elif _exchange(scratch, folder):
        shutil.rmtree(scratch)
    else:
        old = scratch.with_name(scratch.name + ".old")
        os.rename(folder, old)
        os.rename(scratch, folder)
        shutil.rmtree(old)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders trade names in one step; False where that is not possible."""
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or a C library without it
        return False
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
