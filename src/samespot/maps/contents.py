"""Which photos a map is of: tables from one or several sources, brought into one, each photo with a key of its file.

A photo is known by its source, its name there, and the size and time of its file: where these are as before, it is
not described again. (A file replaced by another of the same size and time is taken for the old one.)
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.maps.folder import Generation
from samespot.maps.segments import KEY
from samespot.places.geodesy import choose_projection, off_plane, to_degrees
from samespot.places.table import Places
from samespot.places.wording import first_few
from samespot.storage import address_of, is_address, photo_at, states_of

MISSING, UNPLACED, UNTURNED = "image file missing", "position unknown", "heading unknown"
TWICE, TAKEN_OUT = "in the map already", "taken out with --remove"
MOVED = 0.5  # share of a source's names that must be in another folder for it to be the same one, moved
Keys = NDArray[np.uint8]  # (n, KEY)


@dataclass(frozen=True)
class Source:
    """Where photos of a map came from."""

    id: int
    given: str  # full path of the folder or table
    root: str  # full path of the folder that image names are relative to
    removed: tuple[str, ...] = ()  # names and patterns of photos that are not wanted
    dropped: dict[str, int] = field(default_factory=dict)  # what the reader left out: reason and number
    notes: tuple[str, ...] = ()  # of the reader

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "removed": list(self.removed), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Source:
        return cls(**{**values, "removed": tuple(values["removed"]), "notes": tuple(values["notes"])})


@dataclass(frozen=True, eq=False)
class Part:
    """The photos of one source; names are relative to its own root."""

    source: Source
    places: Places
    keys: Keys
    left_out: dict[str, str]  # name -> reason

    def select(self, rows: NDArray[np.bool_], why: str | None = None) -> Part:
        """The chosen photos; `why`: the others are left out, for this reason."""
        others = self.places.table["image"][~rows] if why is not None else ()
        left_out = {**self.left_out, **{str(name): str(why) for name in others}}
        return replace(self, places=self.places.select(rows), keys=self.keys[rows], left_out=left_out)


@dataclass(frozen=True, eq=False)
class Contents:
    """All photos of a map in one table; names are relative to the root of its first source."""

    parts: tuple[Part, ...]
    places: Places
    source: NDArray[np.int32]  # (n,) id of the source of each
    keys: Keys  # (n, KEY)
    left_out: dict[int, dict[str, str]]

    def __len__(self) -> int:
        return len(self.places)

    def path(self, row: int) -> Path:
        """Full path of a photo; one of another source than the first is not reached through the first one's folder,
        which may be gone."""
        path = self.places.image(row)
        through = self._roots[int(self.source[row])] != str(self.places.root)
        return Path(os.path.normpath(path)) if through and address_of(path) is None else path

    @cached_property
    def _roots(self) -> dict[int, str]:
        return {part.source.id: part.source.root for part in self.parts}

    @cached_property
    def by_folder(self) -> dict[str, list[str]]:
        """Full names of the photo files in each folder; those at addresses are in none."""
        found: dict[str, list[str]] = {}
        for row in range(len(self)):
            if address_of(path := self.path(row)) is None:
                found.setdefault(os.path.dirname(path), []).append(str(path))
        return found

    def select(self, rows: NDArray[np.bool_]) -> Contents:
        return replace(self, places=self.places.select(rows), source=self.source[rows], keys=self.keys[rows])

    def without(self, reasons: Mapping[int, str]) -> Contents:
        """Less some rows, each with its reason."""
        if not reasons:
            return self
        left_out = {source: dict(names) for source, names in self.left_out.items()}
        names = self.places.table["image"]
        for row, why in reasons.items():
            source = int(self.source[row])
            name = _name(str(self.places.root), str(names.iloc[row]), self._roots[source])
            left_out.setdefault(source, {})[name] = why
        kept = np.ones(len(self), dtype=bool)
        kept[list(reasons)] = False
        return replace(self.select(kept), left_out=left_out)

    def counts(self) -> dict[str, int]:
        """How many photos were left out, by reason."""
        found: Counter[str] = Counter()
        for part in self.parts:
            found.update(part.source.dropped)
        for names in self.left_out.values():
            found.update(why.partition(": ")[0] for why in names.values())
        return dict(found)

    def digest(self) -> str:
        """Of everything in here: equal where nothing changed."""
        digest = hashlib.blake2b(digest_size=KEY)
        digest.update(self.keys.tobytes())
        digest.update(repr((self.places.projection, sorted(self.left_out.items()))).encode())
        digest.update(repr([part.source.to_dict() for part in self.parts]).encode())
        for name in sorted(self.places.table.columns):
            column = self.places.table[name]
            digest.update(f"{name}\n".encode())
            if column.dtype.kind == "f":
                digest.update(column.to_numpy(dtype=np.float64).tobytes())
            else:
                words = column.astype(object).where(column.notna(), "").astype(str)
                digest.update("\n".join(words).encode())
        return digest.hexdigest()


# ---- parts ----


def carried(generation: Generation) -> list[Part]:
    """The sources of a map as they are in it; their files are not looked at."""
    left_out, parts = generation.left_out(), []
    for values in generation.meta["sources"]:
        source = Source.from_dict(values)
        mine = generation.rows["source"] == source.id
        places = generation.places.select(mine)
        table = places.table
        if source.root != str(places.root):
            names = [_name(str(places.root), str(name), source.root) for name in table["image"]]
            table = table.assign(image=names)
        own = Places(Path(source.root), table, places.projection)
        parts.append(Part(source, own, generation.rows["key"][mine], left_out.get(source.id, {})))
    return parts


def read_part(source: Source, places: Places, recipe: str, need_heading: bool) -> Part:
    """The photos of a source as they are now, whose files are there and whose position is known."""
    table = places.table
    at = places.positions
    part = Part(source, places, np.zeros((len(table), KEY), dtype=np.uint8), {})
    part = part.select(np.isfinite(at[:, 0]) & np.isfinite(at[:, 1]), UNPLACED)
    if need_heading:
        part = part.select(np.isfinite(part.places.positions[:, 2]), UNTURNED)
    part = part.select(~_matching(part, source.removed), TAKEN_OUT)
    names = [str(name) for name in part.places.table["image"]]
    keys = _keys(recipe, source, names)
    there = np.array([key is not None for key in keys], dtype=bool)
    return replace(part, keys=_as_keys([key or bytes(KEY) for key in keys])).select(there, MISSING)


def _as_keys(keys: Sequence[bytes]) -> Keys:
    return np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY)


def _keys(recipe: str, source: Source, names: Sequence[str]) -> list[bytes | None]:
    """Names of photo files in their present states; None where there is none."""
    states = states_of([photo_at(Path(source.root), name) for name in names])
    return [
        None if state is None else _key(f"{recipe}\n{source.id}\n{state}\n{name}")
        for name, state in zip(names, states, strict=True)
    ]


def _key(told: str) -> bytes:
    return hashlib.blake2b(told.encode(errors="surrogateescape"), digest_size=KEY).digest()


def take_out(parts: Sequence[Part], pattern: str) -> list[Part]:
    """Without the photos that a name, a pattern or a folder means; their sources remember it."""
    found, out = False, []
    for part in parts:
        meant = [word for word in _readings(part.source.root, pattern) if _matching(part, (word,)).any()]
        hit = _matching(part, meant)
        if meant:
            found = True
            removed = tuple(dict.fromkeys((*part.source.removed, *meant)))
            part = replace(part.select(~hit, TAKEN_OUT), source=replace(part.source, removed=removed))
        out.append(part)
    if not found:
        raise InputError(
            f"`remove` {pattern!r}: no photo of the map is meant; give an image name, a folder, or a pattern such as"
            " 'walk/*'"
        )
    return out


def _matching(part: Part, patterns: Iterable[str]) -> NDArray[np.bool_]:
    root, names = part.source.root, part.places.table["image"].astype(str)
    hit = np.zeros(len(names), dtype=bool)
    for pattern in patterns:
        means = _meaning(root, pattern)
        hit |= np.array([means(name) for name in names], dtype=bool)
    return hit


def _readings(root: str, typed: str) -> list[str]:
    """What a user may mean by a word: something in the source, or a path on the disk, seen from the working directory.

    None of them depends on the working directory of a later run; a path in the source stays true when that moves.
    """
    on_disk = os.path.abspath(typed)
    inside = os.path.relpath(on_disk, root)
    above = inside == os.curdir or inside.split(os.sep)[0] == os.pardir
    path = on_disk if above else inside
    if not os.path.lexists(on_disk) and set("*?[") & set(typed):  # a pattern, and patterns are of names
        return [typed]
    return [path] if os.path.isabs(typed) else list(dict.fromkeys((typed, path)))


def _meaning(root: str, pattern: str) -> Callable[[str], bool]:
    """Whether a name relative to `root` is meant: by itself, by a pattern, by a folder in the source, or by a full
    path."""
    plain = os.path.normpath(pattern)

    def means(name: str) -> bool:
        here = os.path.normpath(os.path.join(root, name) if os.path.isabs(plain) else name)
        return here == plain or fnmatchcase(name, pattern) or here.startswith(os.path.join(plain, ""))

    return means


def with_part(parts: Sequence[Part], part: Part) -> list[Part]:
    """With this part in place of the one of the same source, or at the end."""
    if all(one.source.id != part.source.id for one in parts):
        return [*parts, part]
    return [part if one.source.id == part.source.id else one for one in parts]


def joined_to(before: Part, added: Part, names: Sequence[str], recipe: str) -> Part:
    """What a map has of a source, and more of the same source: another table of its root, another split of a table.

    names: all of the added table. These are as the table says; the others stay while their files are there.
    """
    source, listed = added.source, set(names)
    root = before.source.root if os.path.isdir(before.source.root) else source.root
    own = [_name(root, str(name), source.root) for name in before.places.table["image"]]
    others = [name for name in own if name not in listed]
    there = dict(zip(others, _keys(recipe, source, others), strict=True))
    keys = [there.get(name) for name in own]
    stays = np.array([key is not None for key in keys], dtype=bool)
    left_out = {
        name: why
        for name, why in before.left_out.items()
        if name not in listed and (why == MISSING or os.path.exists(os.path.join(root, name)))
    }
    source = replace(source, removed=_still_removed(before, listed))
    if not stays.any() and not left_out:
        return replace(added, source=source)
    kept = replace(before.places, root=Path(source.root), table=before.places.table.assign(image=own))
    old = Part(source, kept.select(stays), _as_keys([key for key in keys if key is not None]), left_out)
    old, new = _on_one_plane([old, added]) if stays.any() else (old, added)
    table = _one_table([one.places.table for one in (old, new) if len(one.places)] or [new.places.table])
    at = {name: number for number, name in enumerate(own)}
    order = np.argsort([at.get(name, len(at)) for name in table["image"]], kind="stable")
    notes = tuple(dict.fromkeys((*old.places.notes, *new.places.notes)))
    places = Places(Path(source.root), table, new.places.projection, notes=notes).select(order)
    source = replace(
        source,
        dropped={**before.source.dropped, **source.dropped},
        notes=tuple(dict.fromkeys((*before.source.notes, *source.notes))),
    )
    return Part(source, places, np.concatenate([old.keys, new.keys])[order], {**left_out, **new.left_out})


def _still_removed(before: Part, listed: set[str]) -> tuple[str, ...]:
    """What was taken out and is not added again. A pattern that means some of what is added becomes names."""
    root, patterns = before.source.root, []
    for pattern in before.source.removed:
        means = _meaning(root, pattern)
        if not any(means(name) for name in listed):
            patterns.append(pattern)
    covered = [_meaning(root, pattern) for pattern in patterns]
    names = [
        name
        for name, why in before.left_out.items()
        if why == TAKEN_OUT and name not in listed and not any(means(name) for means in covered)
    ]
    return (*patterns, *names)


def known_source(given: str, parts: Sequence[Part]) -> Source | None:
    """The source of a map that is this folder or table."""
    return next((part.source for part in parts if part.source.given == given), None)


def moved_source(names: Sequence[str], parts: Sequence[Part]) -> Source | None:
    """The source of a map that these photos are, at another place than before; where it was, there is nothing."""
    here = set(names)
    for part in parts:
        before = part.places.table["image"]
        if os.path.exists(part.source.given) or not len(before):
            continue
        if sum(name in here for name in before) >= MOVED * len(before):
            return part.source
    return None


def next_id(parts: Sequence[Part]) -> int:
    return max((part.source.id for part in parts), default=-1) + 1


# ---- all in one ----


def joined_parts(parts: Sequence[Part]) -> Contents:
    """One table of all sources, on one plane; a photo that two sources have is taken once."""
    parts = tuple(sorted(_on_one_plane(parts), key=lambda part: part.source.id))
    root, seen, tables, kept = parts[0].source.root, set[str](), [], []
    for part in parts:
        names = [_name(part.source.root, str(name), root) for name in part.places.table["image"]]
        fresh = np.array([name not in seen for name in names], dtype=bool)
        seen.update(names)
        tables.append(part.places.table.assign(image=names)[fresh])
        kept.append(part.select(fresh, TWICE))
    table = _one_table([table for table in tables if len(table)] or tables[:1])
    notes = tuple(dict.fromkeys(note for part in kept for note in (*part.source.notes, *part.places.notes)))
    return Contents(
        tuple(kept),
        Places(Path(root), table, parts[0].places.projection, notes=notes),
        np.concatenate([np.full(len(part.keys), part.source.id, dtype=np.int32) for part in kept]),
        np.concatenate([part.keys for part in kept]),
        {part.source.id: part.left_out for part in kept if part.left_out},
    )


def _name(own_root: str, name: str, root: str) -> str:
    """From the first source's root: ../more/a.jpg for a photo of another folder."""
    if own_root == root or is_address(name):
        return name
    return os.path.relpath(os.path.join(own_root, name), root)


def _one_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    table = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0].reset_index(drop=True)
    if "pano" in table:
        table["pano"] = table["pano"].astype(object).where(table["pano"].notna(), False).astype(bool)
    for name in table.columns:  # a file of columns takes one kind a column
        column = table[name]
        if column.dtype == object and column.dropna().map(type).nunique() > 1:
            table[name] = column.map(lambda value: None if pd.isna(value) else str(value))
    return table


def _on_one_plane(parts: Sequence[Part]) -> list[Part]:
    """All on the plane of the first, or where that does not reach to the others, on one for all."""
    planes = [part.places.projection for part in parts]
    if len(set(planes)) == 1 or not len(parts):
        return list(parts)
    first = planes[0]
    if first is None:
        raise InputError(
            f"{parts[0].source.given}: its metres are of no known projection, so photos with latitude and longitude"
            " cannot be added to them; name theirs with `projection`"
        )
    degrees = [
        to_degrees(part.places.positions[:, 0], part.places.positions[:, 1], plane)
        for part, plane in zip(parts, planes, strict=True)
        if plane is not None
    ]
    latitude, longitude = (np.concatenate(side) for side in zip(*degrees, strict=True))
    target = (
        first if not len(off_plane(latitude, longitude, first)) else choose_projection(latitude, longitude)
    )
    return [
        replace(part, places=part.places.on_plane(onto=target, source=part.source.given)) for part in parts
    ]


def said_left_out(counts: Mapping[str, int]) -> str:
    """ "12 no GPS in EXIF, 1 unreadable image file": the most first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return first_few([f"{count:,} {why}" for why, count in ordered if count], 12)
