"""How long work tells how far it is: `progress("describing", 300, 1000)`. Whoever calls shows it, or not."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


def silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""
