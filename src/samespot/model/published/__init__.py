"""Models of others by name: each file of this folder is one family, and describes itself.

A file has a `Published` (or several) in its `MODELS`, or a `Refused`. It imports no torch, so that models are listed at
once. The networks are written from the papers and from the shapes of the published weights, on timm's trunks; no code
of the authors is used or run.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from samespot.model.published.record import Published, Refused

_NOT_MODELS = ("record", "download", "loading")


@cache
def published_models() -> dict[str, Published]:
    """By name, each family's first model before its variants."""
    return {one.name: one for one in _all() if isinstance(one, Published)}


@cache
def refused_models() -> dict[str, Refused]:
    return {one.name: one for one in _all() if isinstance(one, Refused)}


@cache
def _all() -> tuple[Published | Refused, ...]:
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NOT_MODELS]
    return tuple(one for name in names for one in import_module(f"{__name__}.{name}").MODELS)
