"""An option is typed once: its name, default, help, limits and how its words are read, in one field of a dataclass.

From such a class come the keyword arguments of the library, the flags of the command line with their help and
defaults, and what a run writes down. No torch and no tables in here: `samespot train --help` reads these classes.

An error names a parameter in backquotes, `micro_pairs` or with a value `on_bad_image=skip`; the command line turns
that into the flag (`samespot.cli.bridge`).
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from samespot.errors import InputError

Parse = Callable[[str], Any]
MOST_SEED = 2**32 - 1  # what every generator takes


@dataclass(frozen=True)
class About:
    """What a field says of itself besides its default."""

    help: str
    panel: str = ""  # heading under which `--help` lists it
    parse: Parse | None = None  # from what was typed, where the type alone does not say it
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    default: str | None = None  # in words, where the value does not say it
    argument: bool = False  # given by position
    metavar: str | None = None
    flag: str | None = None  # where it is not the name with dashes
    switch: bool = False  # a flag without its --no- twin
    many: bool = False  # several words, each typed after the last
    choices: Callable[[], Iterable[str]] | None = None  # words that come from a registry
    writes: Literal["", "file", "folder"] = ""  # a path that is written: tried before any work is done


def option(default: Any, help: str, /, **about: Any) -> Any:
    """A field of an `Options` class. default: a value, or `...` where one must be given."""
    metadata = {"about": About(help, **about)}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


def about(one: Field[Any]) -> About | None:
    """What a field says of itself; None where it is not for users."""
    found: About | None = one.metadata.get("about")
    return found


@cache
def hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def choices(hint: Any, known: About | None = None) -> tuple[Any, ...]:
    """The words that an option may be, where it is one of some words."""
    if known is not None and known.choices is not None:
        return tuple(known.choices())
    parts = [part for part in _parts(hint) if part is not NoneType]
    if parts and all(get_origin(part) is Literal for part in parts):
        return tuple(word for part in parts for word in get_args(part))
    return ()


def _parts(hint: Any) -> tuple[Any, ...]:
    import types

    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


@dataclass(frozen=True)
class Options:
    """Checked when made: words are read, choices and limits kept. Subclasses check what couples fields."""

    def __post_init__(self) -> None:
        known_types = hints(self.__class__)  # type: ignore[arg-type]
        for one in fields(self):
            if (known := about(one)) is not None:
                value = checked(one.name, getattr(self, one.name), known_types[one.name], known)
                object.__setattr__(self, one.name, value)

    @classmethod
    def of(cls, typed: Mapping[str, Any]) -> Self:
        """From what a user gave. What was given and would do nothing is refused; an unknown name, too."""
        refuse_unknown(typed, cls)
        made = cls(**typed)
        made.refuse_ineffective(set(typed))
        return made

    def refuse_ineffective(self, typed: set[str]) -> None:
        """Raise for what was given and would do nothing (`ineffective`)."""

    def with_changes(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """As plain json."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}

    def changed(self) -> str:
        """The settings that are not the defaults, in one line."""
        usual, values = type(self)().to_dict(), self.to_dict()
        said = [f"{name} {_word(value)}" for name, value in values.items() if value != usual[name]]
        return ", ".join(said) or "none"


def _word(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def names(*classes: type[Options]) -> list[str]:
    return [one.name for cls in classes for one in fields(cls)]


def split(typed: Mapping[str, Any], *classes: type[Options]) -> list[dict[str, Any]]:
    """What was given, sorted by the class that knows it; a name that none knows is refused."""
    refuse_unknown(typed, *classes)
    return [{name: typed[name] for name in names(cls) if name in typed} for cls in classes]


def refuse_unknown(typed: Iterable[str], *classes: type[Options]) -> None:
    import difflib

    known = names(*classes)
    for name in typed:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            advice = f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(known)}"
            raise InputError(f"unknown option {name!r}{advice}")


def ineffective(typed: set[str], names: Iterable[str], why: str) -> None:
    """Raise for the first of these options that was given: it would be read and then do nothing."""
    for name in names:
        if name in typed:
            raise InputError(f"`{name}` has no effect {why}")


def checked(name: str, value: Any, hint: Any, known: About) -> Any:
    """The value of an option, its words read; raises where it is none that it may be."""
    if isinstance(value, str) and known.parse is not None:
        try:
            value = known.parse(value)
        except InputError as error:
            raise InputError(f"`{name}` {value!r}: {error}") from None
        except ValueError:
            raise InputError(f"`{name}` {value!r} is not understood: {known.help}") from None
    value = _of_type(name, value, hint)
    if known.parse is not None and isinstance(hint, type) and not isinstance(value, hint):
        raise InputError(f"`{name}` {value!r} is not understood: {known.help}")
    allowed = choices(hint, known)
    if allowed and value is not None:
        check_choice(name, value, allowed)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_limits(name, value, known)
    return value


_WANTED: dict[Any, str] = {int: "a whole number", float: "a number", str: "a word", Path: "a path"}


def _of_type(name: str, value: Any, hint: Any) -> Any:
    """Numbers as numbers, paths as paths, and words as words; anything else as it is."""
    kinds = set(_parts(hint))
    if value is None:
        if kinds & _WANTED.keys() and NoneType not in kinds:
            raise InputError(f"`{name}` cannot be None; leave it out to use the default")
        return value
    kinds -= {NoneType}
    wanted = _WANTED.get(next(iter(kinds))) if len(kinds) == 1 else None
    try:
        if isinstance(value, bool) and wanted is not None and kinds != {bool}:
            raise TypeError
        if kinds == {int}:
            return operator.index(value)
        if kinds == {float}:
            return float(value)
        if kinds == {str}:  # a split may be called 1
            return str(value) if isinstance(value, int | float) else os.fspath(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"`{name}` {value!r} is not {wanted}") from None
    return Path(value) if kinds == {Path} and isinstance(value, str) else value


def _check_limits(name: str, value: float, known: About) -> None:
    limits = (
        (known.least, operator.ge, "at least"),
        (known.above, operator.gt, "above"),
        (known.most, operator.le, "at most"),
        (known.below, operator.lt, "below"),
    )
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"`{name}` {value:g} is not a finite number")
    for limit, keeps, words in limits:
        if limit is not None and not keeps(value, limit):
            shown = f"{value:g}" if isinstance(value, float) else _cut(str(value))
            most = str(limit) if isinstance(limit, int) else f"{limit:g}"
            raise InputError(f"`{name}` {shown} must be {words} {most}")


def _cut(digits: str) -> str:
    return digits if len(digits) <= 24 else f"{digits[:12]}…"


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Refuse an option that is none of the words it may be: a typo must not change a result silently."""
    if value not in (known := tuple(choices)):
        raise InputError(f"`{name}` {value!r} is unknown; choose one of {', '.join(known)}")


def parse_size(words: str) -> tuple[int, int]:
    """Height and width from "480x640", or one number for a square."""
    numbers = [int(word) for word in words.lower().split("x")]
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise ValueError(words)
    return numbers[0], numbers[-1]
