"""What a map is to be made of, and how: opened and checked before torch is loaded, and before the folder is locked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.maps import folder as files
from samespot.maps.contents import Part, Source, carried, known_source, moved_source, take_out
from samespot.maps.engines.engine import asked_for, refuse_unreachable
from samespot.maps.geometry import kind_for
from samespot.maps.options import ContentOptions, MapOptions
from samespot.model.naming import named_model
from samespot.options import ineffective, split
from samespot.places.catalogue import as_places
from samespot.places.table import Places


@dataclass(frozen=True)
class Opened:
    """A table of photos, and where it came from."""

    given: str
    places: Places

    @property
    def root(self) -> str:
        return os.path.abspath(self.places.root)

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.places.table["image"]]

    def as_source(self, number: int, removed: tuple[str, ...] = ()) -> Source:
        return Source(number, self.given, self.root, removed, dict(self.places.dropped), self.places.notes)

    def among(self, parts: Sequence[Part], folder: Path) -> Source | None:
        """The source of a map that it is; None where the map has none yet."""
        source = known_source(self.given, parts) or moved_source(self.names, parts)
        if source is None and parts:
            raise InputError(
                f"{folder}: is a map of {parts[0].source.given}, not of {self.given}; add its photos with `add`,"
                " or choose another folder"
            )
        return source


@dataclass(frozen=True, eq=False)
class Order:
    """All that `update_map` was given."""

    folder: Path
    given: list[Opened]  # what the map is to be of: one, or none where it keeps to its own
    added: list[Opened]
    content: ContentOptions
    kept: dict[str, Any]  # fields of `MapOptions` that were given
    model: Any  # None: the map's own, or samespot-lite


def ordered(
    places: Any,
    out: str | Path,
    *,
    model: Any = None,
    reading: Mapping[str, Any] | None = None,
    **options: Any,
) -> Order:
    """What `update_map` is to do; one line for what it could not. Parameters are those of `update_map`."""
    kept, content = split(options, MapOptions, ContentOptions)
    settings, asked = MapOptions.of(kept), ContentOptions.of(content)
    if model is None:
        ineffective(set(kept), ("weights",), "without `model`")
    elif isinstance(model, str | Path):
        named_model(str(model), settings.weights)
    if places is None and not (asked.add or asked.remove or "engine" in kept):
        raise InputError("give a folder or table of photos, or `add`, `remove` or `engine`")
    folder = Path(out)
    files.refuse_other(folder)
    meta = files.read_meta(folder) if (folder / files.META).is_file() else None
    engine = asked_for(kept, meta)
    given = [] if places is None else [_opened(places, asked, reading)]
    added = [_opened(one, asked, reading) for one in asked.add]
    if meta is None and not (given or added):
        what = " to take photos out of" if asked.remove else ""
        raise InputError(f"{folder}: no map here{what}; index some photos first")
    if meta is not None:
        _refuse_another(given, folder, meta)
        if asked.remove and not (given or added):
            parts = carried(files.open_generation(folder))
            for pattern in asked.remove:
                parts = take_out(parts, pattern)
    elif given and not added and settings.geometry != "auto":
        kind_for(settings.geometry, given[0].places, settings.verify)
    refuse_unreachable(engine)
    return Order(folder, given, added, asked, kept, model)


def _opened(source: Any, asked: ContentOptions, reading: Mapping[str, Any] | None) -> Opened:
    places = as_places(source, **(reading or {}))
    given = places.root if isinstance(source, Places) else source
    places = places if asked.split is None else places.of_split(asked.split)
    return Opened(os.path.abspath(given), places)


def _refuse_another(given: Sequence[Opened], folder: Path, meta: Mapping[str, Any]) -> None:
    """Raise where the map in the folder is of other photos."""
    known = {source["given"] for source in meta["sources"]}
    strange = [opened for opened in given if opened.given not in known]
    parts = carried(files.open_generation(folder)) if strange else []
    for opened in strange:
        opened.among(parts, folder)
