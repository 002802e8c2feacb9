"""A run that cannot, or shall not, go on: why, at which step, and what is kept."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samespot.errors import InputError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
UNWRITABLE = _FULL | {errno.EACCES, errno.EROFS, errno.EIO}


class TrainingStopped(InputError):  # noqa: N818 - nothing is wrong with a run that was asked to stop
    """Training cannot go on; one line says why, at which step, and what is kept."""


class StopRequested(TrainingStopped):
    """The user asked for it, by Ctrl-C or a polite kill."""


def stopped_by(error: OSError, step: int, path: Path, kept: list[int]) -> TrainingStopped:
    """The one line for a full disk and the like."""
    full = error.errno in _FULL
    reason = "the disk is full" if full else (error.strerror or str(error))
    last = f"the checkpoint of step {kept[-1]} is intact" if kept else "there is no earlier checkpoint"
    remedy = "free some space and pass `resume`" if full else "fix that and pass `resume`"
    return TrainingStopped(f"{path}: cannot write at step {step} ({reason}); {last}; {remedy}")


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """Ctrl-C or a polite kill lets the current step end, and its checkpoint be written."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(*_: object) -> None:
        if stop.is_set():  # asked twice: at once
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
