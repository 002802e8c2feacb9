"""Who may ask: API keys from a file and the environment, and how often each."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from samespot.errors import InputError
from samespot.service.options import KEYS, ServeOptions

LEAST = 16  # characters of a key
NEVER = (0, 0, 0)
log = logging.getLogger("samespot.service")
MANY = 10_000  # names whose requests are counted


class Keys:
    """The keys that are valid now. A file is read again when it changes, so that a key can be revoked at any time."""

    def __init__(self, file: Path | None) -> None:
        self._file, self._seen = file, NEVER
        self._from_environment = _parsed(os.environ.get(KEYS, "").replace(",", "\n"), f"${KEYS}", _refuse)
        self._from_file: dict[bytes, str] = {}
        if file is None:
            return
        try:
            self._read(file, _refuse)  # at the start, what is wrong should show
        except OSError as error:
            raise InputError(f"{file}: cannot read the keys ({error.strerror})") from None

    def __len__(self) -> int:
        return len(self._from_environment) + len(self._from_file)

    def owner(self, key: str) -> str | None:
        """The name of who has this key; None: nobody."""
        self._refresh()
        asked, found = _digest(key), None
        for digest, name in {**self._from_environment, **self._from_file}.items():
            if hmac.compare_digest(digest, asked):  # all are compared: time tells nothing
                found = name
        return found

    def _refresh(self) -> None:
        """Taken away, its keys are, too. A line that is wrong counts for nothing; the others do."""
        if self._file is None:
            return
        try:
            if _stamp(self._file) != self._seen:
                self._read(self._file, log.warning)
        except OSError as error:
            if self._from_file:
                log.warning("%s: cannot be read (%s); none of its keys is valid", self._file, error.strerror)
            self._from_file, self._seen = {}, NEVER

    def _read(self, file: Path, wrong: Callable[[str], None]) -> None:
        seen = _stamp(file)
        self._from_file = _parsed(file.read_text(errors="replace"), str(file), wrong)
        self._seen = seen


def keys_for(options: ServeOptions) -> Keys:
    """The keys of a service; one line where nobody could ask it."""
    keys = Keys(options.keys)
    if not options.at_home and not options.no_auth and not len(keys):
        raise InputError(
            f"{options.keys}: there are no keys in it, so nobody could ask; write one on each line"
        )
    return keys


def _refuse(line: str) -> None:
    raise InputError(line)


def _stamp(file: Path) -> tuple[int, int, int]:
    facts = file.stat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _parsed(text: str, where: str, wrong: Callable[[str], None]) -> dict[bytes, str]:
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, key = (part.strip() for part in line.rpartition(":"))
        if len(key) < LEAST:
            wrong(f"{where}, line {number}: a key has at least {LEAST} characters")
            continue
        found[_digest(key)] = name if colon else f"key {number}"
    return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class Rates:
    """At most so many requests of one name in a minute, evenly refilled."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._left: dict[str, tuple[float, float]] = {}  # requests left, and when that was

    def wait(self, name: str) -> float:
        """[s] until this one's next request is allowed; 0: now, and it counts."""
        now = time.monotonic()
        left, before = self._left.pop(name, (self._most, now))
        left = min(self._most, left + (now - before) * self._most / 60)
        allowed = left >= 1
        self._left[name] = (left - allowed, now)
        while len(self._left) > MANY:  # those that asked longest ago have all their requests left again
            self._left.pop(next(iter(self._left)))
        return 0.0 if allowed else (1 - left) * 60 / self._most
