"""The names of poolings. No torch in here: what is no name is told before that is loaded."""

from __future__ import annotations

import re

from samespot.errors import InputError

POOLS = ("gap", "gem", "max", "multi")  # that have no weights but perhaps p
# those whose name may hold numbers: an example of the name -> its pattern
PATTERNS = {
    "netvlad64": r"netvlad([2-9]|[1-9]\d{1,3})",
    "netvlad64v2": r"netvlad([2-9]|[1-9]\d{1,3})v2",
    "cosplace512": r"cosplace([1-9]\d{1,3})",
    "salad": r"salad",
    "salad8x32": r"salad([1-9]\d{0,2})x([1-9]\d{0,3})",
    "megaloc": r"megaloc",
    "mixvpr4096": r"mixvpr(4096|512|128)",
    "boq16384": r"boq(2048|4096|6144|8192|12288|16384)",
    "supervlad4": r"supervlad([1-9]\d?)",
}


def aggregator_named(name: str) -> tuple[str, list[int]] | None:
    """The aggregator of that name, by its example, and the numbers in the name."""
    for example, pattern in PATTERNS.items():
        if match := re.fullmatch(pattern, name):
            return example, [int(number) for number in match.groups()]
    return None


def check_pool(name: str) -> None:
    """Raise for a name of no pooling."""
    if name not in POOLS and aggregator_named(name) is None:
        known = ", ".join((*POOLS, *PATTERNS))
        raise InputError(f"pool {name!r} is not known; choose one of {known}")
