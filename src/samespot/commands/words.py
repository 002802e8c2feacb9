"""Words of the command line turned into values, and the options that would do nothing refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from samespot.errors import InputError

T = TypeVar("T", bound=str)


def flag_of(name: str) -> str:
    """How an option is typed: map_part -> --map-part. The second argument of commands is called MAP."""
    return "MAP" if name == "map" else "--" + name.replace("_", "-")


def one_of(name: str, word: str | None, choices: tuple[T, ...], default: T) -> T:
    """The choice that a word names; the default where nothing was typed."""
    if word is None:
        return default
    for choice in choices:
        if choice == word:
            return choice
    raise InputError(f"{flag_of(name)} {word!r} is unknown; choose one of {', '.join(choices)}")


def refuse_ineffective(asked: Any, names: Iterable[str], why: str) -> None:
    """Raise for the first of these options that was given: it would be read and then do nothing."""
    for name in names:
        value = getattr(asked, name)
        if value is not None and value is not False:  # 0 was given, too
            raise InputError(f"{flag_of(name)} has no effect {why}")


def refuse_absent_gpu(device: str) -> None:
    """Raise where a CUDA device is asked for and torch sees none; looked at before any work is done."""
    if device.split(":")[0] == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise InputError(
                f"--device {device}: torch sees no GPU; check the driver with nvidia-smi, or use --device cpu"
            )


def parse_pair(words: str | None) -> tuple[int, int] | None:
    """Two row numbers from "12,340"."""
    if words is None:
        return None
    try:
        query, place = (int(w) for w in words.split(","))
    except ValueError:
        raise InputError(
            f"--pair {words!r}: give the row of a query and of a map image, e.g. 12,340"
        ) from None
    return query, place


def parse_size(words: str) -> tuple[int, int]:
    """Height and width from "480x640", or one number for a square."""
    numbers = [int(word) for word in words.lower().split("x")]
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise ValueError(words)
    return numbers[0], numbers[-1]
