"""HEIC photos of phones: Pillow opens them where the package pillow-heif is installed."""

from __future__ import annotations

import importlib
from functools import cache

SUFFIXES = (".heic", ".heif")
INSTALL = "HEIC photos need the package pillow-heif: pip install pillow-heif"


@cache
def accept_heic() -> bool:
    """Let Pillow open HEIC files; False where the package is not there."""
    try:
        importlib.import_module("pillow_heif").register_heif_opener()
    except ImportError:
        return False
    return True


def is_heic(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)
