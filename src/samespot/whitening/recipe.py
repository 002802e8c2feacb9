"""How to whiten, as people write it: 256, 256:damped, full:damped=0.3, 256:learned, 128:model, auto. No numpy here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from samespot.errors import InputError
from samespot.whitening.damping import AUTO, checked_damping, how_whitened

How = Literal["pca", "damped", "learned", "model"]
AUTO_DIMS = 256
GRAMMAR = "SIZE, SIZE:damped, SIZE:learned or SIZE:model, where SIZE is a number of dims or full; or auto"


@dataclass(frozen=True)
class Recipe:
    """To how many dims and in which way: `Recipe.of("256:damped")`, of a number alone PCA, as in the paper."""

    dims: int | None  # None: as many as there are
    how: How = "pca"
    damping: float | None = None  # None: as suits the way

    @classmethod
    def of(cls, word: Any) -> Recipe:
        """From a number, a word, or itself. `auto` is 256:damped, a way alone that of the full size."""
        if isinstance(word, cls):
            return word
        if isinstance(word, int) and not isinstance(word, bool):
            word = str(word)
        if not isinstance(word, str):
            raise InputError(f"{word!r} is not a way to whiten; write {GRAMMAR}")
        word = word.strip()
        if word == "auto":
            return cls(AUTO_DIMS, "damped")
        size, colon, way = word.partition(":")
        if not colon and not size.isdecimal() and size != "full":
            size, way = "full", size
        how, equals, share = (way or "pca").partition("=")
        if (
            not word
            or how not in get_args(How)
            or (colon and not way)
            or (equals and how not in ("damped", "learned"))
        ):
            raise InputError(f"{word!r} is not a way to whiten; write {GRAMMAR}")
        if size != "full" and not (size.isdecimal() and int(size) > 0):
            raise InputError(f"{size!r} is not a number of dims; write {GRAMMAR}")
        return cls(None if size == "full" else int(size), how, _share(share) if equals else None)  # type: ignore[arg-type]

    @property
    def fitted(self) -> bool:
        """Whether descriptors are needed to have it; a model brings its own."""
        return self.how != "model"

    @property
    def words(self) -> str:
        """The way, as names of descriptors tell it. How much is chosen for it is not known before."""
        if self.how == "damped" and self.damping is None:
            return "damped"
        if self.how == "learned":
            return how_whitened("learned", AUTO if self.damping is None else self.damping)
        return how_whitened("pca", self.damping or 0.0)

    def __str__(self) -> str:
        """As it may be written."""
        size = "full" if self.dims is None else str(self.dims)
        strength = "" if self.damping is None else f"={self.damping:g}"
        return size if self.how == "pca" else f"{size}:{self.how}{strength}"


def _share(word: str) -> float:
    try:
        return checked_damping(float(word))
    except (ValueError, InputError):
        raise InputError(f"the damping {word!r} is not a number of at least 0") from None


def parse_recipes(words: str) -> tuple[Recipe, ...]:
    """From "32,64:damped,auto", each once."""
    return recipes(words.split(","))


def recipes(given: Any) -> tuple[Recipe, ...]:
    """From one number or word, or several."""
    many = given if isinstance(given, list | tuple) else [given]
    return tuple(dict.fromkeys(Recipe.of(one) for one in many))
