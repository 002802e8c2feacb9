"""Who may ask: API keys from a file and the environment, and how often each."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from pathlib import Path

from samespot.errors import InputError
from samespot.service.options import KEYS

LEAST = 16  # characters of a key
NEVER = (0, 0, 0)
log = logging.getLogger("samespot.service")
MANY = 10_000  # names whose requests are counted


class Keys:
    """The keys that are valid now. A file is read again when it changes, so that a key can be revoked at any time."""

    def __init__(self, file: Path | None) -> None:
        self._file, self._seen = file, NEVER
        self._from_environment = _parsed(os.environ.get(KEYS, "").replace(",", "\n"), f"${KEYS}")
        self._from_file: dict[bytes, str] = {}
        if file is not None:
            self._read(file)

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
        """Taken away, its keys are, too; with a line that is wrong, those of before stay."""
        if self._file is None:
            return
        try:
            if _stamp(self._file) != self._seen:
                self._read(self._file)
        except FileNotFoundError:
            self._from_file, self._seen = {}, NEVER
        except InputError as error:
            self._seen = _stamp(self._file)
            log.warning("the keys of before are still valid: %s", error)

    def _read(self, file: Path) -> None:
        try:
            seen = _stamp(file)
            self._from_file = _parsed(file.read_text(), str(file))
            self._seen = seen
        except FileNotFoundError:
            if self._seen == NEVER and not self._from_file:
                raise InputError(f"{file}: no such file of keys") from None
            raise
        except OSError as error:
            raise InputError(f"{file}: cannot read the keys ({error.strerror})") from None
        except UnicodeDecodeError:
            raise InputError(f"{file}: is not text") from None


def _stamp(file: Path) -> tuple[int, int, int]:
    facts = file.stat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _parsed(text: str, where: str) -> dict[bytes, str]:
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, key = (part.strip() for part in line.rpartition(":"))
        if len(key) < LEAST:
            raise InputError(f"{where}, line {number}: a key has at least {LEAST} characters")
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
