"""Weights of published models on this machine: found in a cache, or fetched, whole and once. No torch in here.

An interrupted download resumes where it left off. Of several processes one fetches, and the others wait for it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from samespot.errors import InputError
from samespot.files import in_bytes, locked, require_disk
from samespot.model.published.record import Published, WeightsFile
from samespot.progress import Progress, silent

BLOCK = 1 << 20  # [bytes] at a time
ANSWERS_WITHIN = 20.0  # [s]


def cache_folder() -> Path:
    """`$SAMESPOT_CACHE`, or samespot in the user's folder of caches."""
    if own := os.environ.get("SAMESPOT_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "samespot"


def cached_path(file: WeightsFile) -> Path:
    """Where the file goes."""
    return cache_folder() / "weights" / file.name


def found_file(file: WeightsFile) -> Path | None:
    """The file where it lies already: in our cache, in torch's, or in that of the Hugging Face hub."""
    hub = Path(os.environ.get("TORCH_HOME") or Path.home() / ".cache" / "torch") / "hub" / "checkpoints"
    for path in (cached_path(file), hub / file.name):
        if path.is_file():
            return path
    return _in_hub_cache(file)


def _in_hub_cache(file: WeightsFile) -> Path | None:
    parts = urlsplit(file.address)
    if parts.netloc != "huggingface.co":
        return None
    from huggingface_hub import try_to_load_from_cache

    owner, name, _, revision, path = parts.path.strip("/").split("/", 4)
    found = try_to_load_from_cache(f"{owner}/{name}", path, revision=revision)
    return Path(found) if isinstance(found, str) else None


def local_file(model: Published, progress: Progress = silent) -> Path:
    """The model's weights on this machine; they are fetched if they are not there yet."""
    file = model.weights
    path = found_file(file)
    if path is not None:
        return path
    target = cached_path(file)
    try:
        with locked(target.parent, "weights", wait=True):
            if not target.is_file():  # another process may have fetched it meanwhile
                _fetch(model, target, progress)
    except OSError as error:
        raise InputError(
            f"{target}: cannot be written ({error.strerror or error}); set SAMESPOT_CACHE to another folder"
        ) from None
    return target


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- fetching ----


def _fetch(model: Published, target: Path, progress: Progress) -> None:
    file = model.weights
    partial, mark = target.with_name(f"{target.name}.partial"), target.with_name(f"{target.name}.etag")
    if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        raise InputError(_by_hand(model, target, "HF_HUB_OFFLINE is set"))
    with _answer(model, target, partial, mark) as answer:
        goes_on = answer.status == http.client.PARTIAL_CONTENT
        done = partial.stat().st_size if goes_on else 0
        total = _total(answer, done)
        _refuse_page(model, target, answer)
        if total is not None:
            require_disk(total - done, target.parent, "the weights", "set SAMESPOT_CACHE to another folder")
        mark.write_text(answer.headers.get("ETag") or "")
        with partial.open("ab" if goes_on else "wb") as out:
            while block := _read(answer):
                out.write(block)
                done += len(block)
                if total:
                    progress(f"fetching {model.name} [MB]", done // 1_000_000, total // 1_000_000)
    if total is not None and done < total:
        raise InputError(
            f"{file.address}: interrupted after {in_bytes(done)} of {in_bytes(total)}; run it again to resume "
            "from there"
        )
    mark.unlink(missing_ok=True)
    digest = file_digest(partial)
    if file.sha256 not in (None, digest):
        partial.unlink()
        raise InputError(
            f"{file.address}: what came is not the file that was published (sha256 {digest[:12]}… instead of "
            f"{str(file.sha256)[:12]}…) and was deleted; try again, or give a file of your own with `weights=FILE`"
        )
    os.replace(partial, target)


@contextmanager
def _answer(model: Published, target: Path, partial: Path, mark: Path) -> Iterator[Any]:
    """The server's answer, from where an earlier download broke off if the file is still the same there."""
    address = model.weights.address
    headers = {"User-Agent": "samespot"}
    known = mark.read_text() if mark.is_file() else ""
    if partial.is_file() and known and not known.startswith("W/"):
        headers |= {"Range": f"bytes={partial.stat().st_size}-", "If-Range": known}
    try:
        answer = _open(address, headers, partial)
    except urllib.error.HTTPError as error:
        raise InputError(
            _by_hand(model, target, f"the server answered {error.code} {error.reason}")
        ) from None
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise InputError(_by_hand(model, target, f"it cannot be reached: {reason}")) from None
    except (OSError, http.client.HTTPException) as error:
        raise InputError(_by_hand(model, target, f"it cannot be reached: {error}")) from None
    with answer:
        yield answer


def _open(address: str, headers: dict[str, str], partial: Path) -> Any:
    try:
        return urllib.request.urlopen(
            urllib.request.Request(address, headers=headers), timeout=ANSWERS_WITHIN
        )
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not partial.is_file():
            raise
    partial.unlink()  # as long as the file or longer: it cannot go on
    plain = {name: value for name, value in headers.items() if name not in ("Range", "If-Range")}
    return _open(address, plain, partial)


def _read(answer: Any) -> bytes:
    """The next block; nothing at the end, also where the connection broke."""
    try:
        block: bytes = answer.read(BLOCK)
    except (OSError, http.client.HTTPException):
        return b""
    return block


def _total(answer: Any, done: int) -> int | None:
    length = answer.headers.get("Content-Length")
    return done + int(length) if length is not None and length.isdigit() else None


def _refuse_page(model: Published, target: Path, answer: Any) -> None:
    if (answer.headers.get("Content-Type") or "").startswith("text/html"):
        raise InputError(_by_hand(model, target, "the server answered with a web page"))


def _by_hand(model: Published, target: Path, why: str) -> str:
    file = model.weights
    return (
        f"no weights of {model.name} on this machine, and {file.page or file.address} did not give them ({why}); "
        f"fetch that file elsewhere and put it at {target}, or give it with `weights=FILE`"
    )
