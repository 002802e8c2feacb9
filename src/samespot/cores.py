"""How many processor cores this process may use. No torch in here."""

from __future__ import annotations

import os


def cores() -> int:
    """Those it is allowed, where the system tells; containers and `taskset` may allow fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
