"""How long work tells how far it is: `progress("describing", 300, 1000)`. Whoever calls shows it, or not."""

from __future__ import annotations

from collections.abc import Callable

# what is being done, how much of it is done, of how much (0: nobody knows); after " · " the first may tell more, such
# as a loss
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def counting(progress: Progress, what: str, total: int, done: int = 0) -> Callable[[int], None]:
    """Takes how many more are done, and tells how many are done by now."""

    def tick(more: int) -> None:
        nonlocal done
        done += more
        progress(what, done, total)

    return tick
