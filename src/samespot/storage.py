"""Where photos lie: files, or addresses of fsspec. Their bytes and their state; or in one line whether there is no such
photo, or a storage that fails, of whose photos nothing is known. No torch."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from samespot.errors import InputError
from samespot.files import in_bytes

MOST_BYTES = 1_000_000_000
AT_ONCE = 64  # photos at addresses that are waited for at the same time
WAITS = (0.5, 2.0)  # [s] before a storage that fails is asked again
PATIENCE = 60.0  # [s] for a storage to answer, and for the next bytes of a web server
EXTRA = "pip install 'samespot[addresses]' brings http, s3 and gcs"
A = TypeVar("A")
B = TypeVar("B")
# of what a storage tells of a file: what changes when its content does; the size is first
_STATE = (
    "size",
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
)
_ADDRESS = re.compile(r"(?P<system>[A-Za-z][A-Za-z0-9+.-]+):/{1,2}")
_LOCAL, _WEB, _S3 = ("file", "local"), ("http", "https"), ("s3", "s3a")
_USER = re.compile(r"(?P<user>[^/?#]*)@")
_QUERY = re.compile(r"(https?://[^\s?]*)\?[^\s'\")]*")
_NO_RANGE = 416
_GONE = (404, 410)  # what a web server answers where there is nothing
_BUSY = (408, 425, 429)  # what it answers who is asked too much; as of 500 it is its own fault


class MissingPhotoError(InputError):
    """There is no such photo, and the storage says so."""


class StorageError(InputError):
    """A storage fails, or lets nobody in: its photos may be good, so none of them is called bad or missing."""


# ---- names ----


def is_address(name: object) -> bool:
    """Whether a photo is named by an address of fsspec, such as s3://bucket/photo.jpg, and not by a path."""
    return _ADDRESS.match(str(name)) is not None


def address_of(photo: str | Path) -> str | None:
    """The address that a photo is named by; None of a file, also of one at file://. A `Path` of an address has lost a
    slash, which comes back here."""
    found = _ADDRESS.match(str(photo))
    if found is None or found["system"] in _LOCAL:
        return None
    return f"{found['system']}://{str(photo)[found.end() :]}"


def photo_at(root: Path, name: str) -> Path:
    """Where a photo of a table is: below its root, or at its own address."""
    if (address := address_of(name)) is None:
        return root / _file_of(name)
    _refuse_password(address)
    first, chained, _ = address.partition("::")
    if chained or "//" in first.partition("://")[2]:  # would not outlive being a `Path`
        raise InputError(
            f"{shown(first)}: addresses with // or :: in them are not understood; give a simple one"
        )
    return Path(name)


def _file_of(photo: str | Path) -> str | Path:
    found = _ADDRESS.match(str(photo))
    return photo if found is None else "/" + str(photo)[found.end() :].lstrip("/")


def _refuse_password(address: str) -> None:
    """It would be kept with the names of photos, and shown with them. (A name alone says who asks, or which part of an
    account it is; only at a web server may it be all that is needed.)"""
    system, _, rest = address.partition("://")
    found = _USER.match(rest)
    if found is not None and (":" in found["user"] or system in _WEB):
        raise InputError(
            f"{shown(f'{system}://{rest[found.end() :]}')}: a password does not belong in an address, which is kept"
            " and shown; take it out, and give it to the storage: in its own environment variables or files, or in"
            " fsspec's configuration"
        )


def full_name(photo: Path | str) -> str:
    """The same for another process, which may be in another folder."""
    return address_of(photo) or os.path.abspath(_file_of(photo))


def shown(photo: object) -> str:
    """A name or a text as it may be shown: the query of a web address may hold a token."""
    return _QUERY.sub(r"\1?…", address_of(str(photo)) or str(photo))


# ---- what a storage has ----


def read_encoded(photo: str | Path) -> bytes:
    """The bytes of an image file. Only of a plain file of a sane size: a device never ends, a pipe never begins."""
    encoded = _asked(photo, _bytes_of, WAITS)
    if len(encoded) > MOST_BYTES:
        raise _too_large(photo, f"more than {in_bytes(MOST_BYTES)}")
    if not encoded:
        raise InputError(
            f"{shown(photo)}: the file is empty; copy the image again or take it out of the table"
        )
    return encoded


def state_of(photo: str | Path) -> str:
    """To tell whether a photo changed: in the first line its size, then what the storage says of its content or time.
    Web servers often say nothing more."""
    return _asked(photo, _facts_of, WAITS)


def states_of(photos: Sequence[str | Path]) -> list[str | None]:
    """The same of each, None where there is no such photo; many addresses at a time."""

    def state(photo: str | Path) -> str | None:
        try:
            return state_of(photo)
        except MissingPhotoError:
            return None

    return in_threads(state, photos, AT_ONCE if any(map(is_address, photos)) else 1)


def is_file(path: str | Path) -> bool:
    """Whether there is a plain file. `os.path.isfile` says no, too, where a disk fails."""
    try:
        return _asked(path, lambda path: stat.S_ISREG(os.stat(path).st_mode), WAITS)
    except MissingPhotoError:
        return False


def in_threads(work: Callable[[A], B], given: Sequence[A], threads: int) -> list[B]:
    """`work` of all that is given, in order; the first error ends it."""
    if threads == 1:
        return [work(one) for one in given]
    with ThreadPoolExecutor(threads, thread_name_prefix="photos") as pool:
        return shared_out(pool, threads, work, given)


def shared_out(pool: Executor, threads: int, work: Callable[[A], B], given: Sequence[A]) -> list[B]:
    """The same by the threads of a pool. One task a thread, not one a photo: handing out thousands of them a second
    keeps the thread that feeds a network waiting."""
    results: list[Any] = [None] * len(given)
    left = iter(range(len(given)))  # each number is taken once, by whichever thread comes first

    def some(_: int) -> None:
        try:
            for at in left:
                results[at] = work(given[at])
        finally:
            _use_up(left)  # after an error the others need not go on

    try:
        list(pool.map(some, range(min(threads, len(given)))))
    finally:
        _use_up(left)
    return results


def _use_up(left: Any) -> None:
    for _ in left:
        pass


# ---- how it is asked ----


def _asked(photo: str | Path, ask: Callable[[str | Path], B], waits: Sequence[float]) -> B:
    """What the storage of a photo answers; asked again where that may help."""
    try:
        return ask(photo)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # each kind of storage raises kinds of its own
        cause = _cause(photo, error)
        if not waits or _is_missing(photo, cause) or not _may_pass(cause):
            raise refusal(photo, cause) from None
    time.sleep(waits[0])
    return _asked(photo, ask, waits[1:])


def _bytes_of(photo: str | Path) -> bytes:
    """Not many more than the most that are taken: a server need not say how many it will send."""
    if (address := address_of(photo)) is not None:
        return _fetched(address)
    path = _file_of(photo)
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode):
        raise InputError(f"{path}: is not a plain file; take it out of the table")
    if facts.st_size > MOST_BYTES:
        raise _too_large(photo, in_bytes(facts.st_size))
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _fetched(address: str) -> bytes:
    from fsspec.asyn import sync

    system, path = _system(address)
    if address.startswith(tuple(f"{one}://" for one in _WEB)):
        body: bytes = sync(system.loop, _body, system, path)
        return body
    try:
        some: bytes = system.cat_file(path, start=0, end=MOST_BYTES + 1)
    except Exception as error:  # a file of no bytes has no range, and storages say so each in their own way
        refused = getattr(error, "errno", None) == errno.EINVAL or _status(error) == _NO_RANGE
        if not refused or system.info(path).get("size") != 0:
            raise
        return b""
    return some


async def _body(system: Any, url: str) -> bytes:
    """What a web server sends. Not by fsspec's own means: they ask for the size first, or read to the end."""
    from aiohttp import ClientTimeout

    patience = ClientTimeout(total=None, sock_connect=PATIENCE, sock_read=PATIENCE)
    session = await system.set_session()
    parts, room = [], MOST_BYTES + 1
    async with session.get(system.encode_url(url), **{"timeout": patience, **system.kwargs}) as answer:
        answer.raise_for_status()
        while room > 0 and (part := await answer.content.read(room)):
            parts.append(part)
            room -= len(part)
    return b"".join(parts)


def _facts_of(photo: str | Path) -> str:
    if (address := address_of(photo)) is None:
        there = os.stat(_file_of(photo))
        return f"{there.st_size}\n{there.st_mtime_ns}"
    system, path = _system(address)
    facts = system.info(path, **({"timeout": PATIENCE} if system.async_impl else {}))
    if facts.get("type") == "directory":
        raise IsADirectoryError
    return "\n".join(str(facts[name]) for name in _STATE if facts.get(name) is not None)


def _system(address: str) -> tuple[Any, str]:
    from fsspec.config import conf
    from fsspec.core import url_to_fs

    _refuse_password(address)
    how = {}
    if address.startswith(tuple(f"{one}://" for one in _S3)):  # by itself it opens ten connections
        own = conf.get("s3", {}).get("config_kwargs", {})
        how = {"config_kwargs": {"max_pool_connections": AT_ONCE, **own}}
    system, path = url_to_fs(address, **how)
    return system, path


# ---- what goes wrong ----


def _cause(photo: str | Path, error: Exception) -> BaseException:
    """What went wrong. Whatever a web server refuses, fsspec calls it a file that is not found."""
    of_web = isinstance(error, FileNotFoundError) and str(photo).partition(":")[0] in _WEB
    return error.__cause__ if of_web and error.__cause__ is not None else error


def _status(error: BaseException) -> int | None:
    """What a web server answered, if it is that."""
    told = (getattr(error, name, None) for name in ("status", "code", "status_code"))
    return next((one for one in told if isinstance(one, int)), None)


def _is_missing(photo: str | Path, error: BaseException) -> bool:
    if isinstance(error, FileNotFoundError | NotADirectoryError) or _status(error) in _GONE:
        return True
    never = isinstance(error, ValueError) or getattr(error, "errno", None) in (
        errno.ENAMETOOLONG,
        errno.ELOOP,
    )
    return never and address_of(photo) is None  # no file has such a name, and a link to itself leads to none


def _may_pass(error: BaseException) -> bool:
    """Whether a storage may do better in a moment."""
    if (status := _status(error)) is not None:
        return status >= 500 or status in _BUSY
    return not isinstance(error, IsADirectoryError | PermissionError | ImportError | ValueError)


def refusal(photo: str | Path, error: BaseException) -> InputError:
    """One line for what a storage, or the file system, raised."""
    named, far, status = shown(photo), address_of(photo) is not None, _status(error)
    told = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    told = shown((str(told).strip() or type(error).__name__).splitlines()[0])[:200]
    if isinstance(error, IsADirectoryError):
        return InputError(f"{named}: is a folder; take it out of the table")
    if _is_missing(photo, error):
        if far:
            return MissingPhotoError(f"{named}: no such photo; check the address")
        return MissingPhotoError(f"{named}: cannot read the image ({told}); check the path")
    if isinstance(error, ImportError):  # fsspec says which package is needed
        return StorageError(f"{named}: {told}; {EXTRA}")
    if isinstance(error, TimeoutError):
        told = "it takes too long to answer"
    answer = told if status is None else f"{status} {told}"
    check = "the address and the access" if far else "the disk or the mount, and your permissions"
    return StorageError(f"{named}: cannot read the image ({answer}); check {check}")


def _too_large(photo: str | Path, size: str) -> InputError:
    return InputError(f"{shown(photo)}: {size} is too large for a photo; shrink it")
