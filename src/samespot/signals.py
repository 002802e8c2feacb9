"""SIGTERM ends a command at once and in silence, whatever packages take it for themselves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_kept() -> Iterator[None]:
    """Ray and pycolmap take SIGTERM for themselves and keep it; afterwards it is as before."""
    if threading.current_thread() is not threading.main_thread():  # where nobody can set it
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
