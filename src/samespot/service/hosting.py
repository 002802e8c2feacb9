"""The maps of a service: held open, warm, and exchanged for their newer generations while requests go on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samespot.maps.folder import META
from samespot.maps.map import Map, open_map
from samespot.places.geodesy import to_degrees
from samespot.poses.plane import lying

EVERY = 1.0  # [s] between two looks for a newer generation
CAMERAS = 20_000  # that a page is told of, at most
log = logging.getLogger("samespot.service")


class Hosted:
    """One map by name. Whoever asks takes `map` once and keeps it: an exchange does not disturb him."""

    def __init__(self, name: str, folder: Path, device: str) -> None:
        self.name, self.folder = name, folder
        self._stamp = _stamp(folder)
        self.map = open_map(folder, device=device)

    def refresh(self) -> bool:
        """Exchange the map for its newest generation, if there is one."""
        stamp = _stamp(self.folder)
        if stamp is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            newer = self.map.newest()
            if newer is not self.map:
                warm(newer)
        except Exception:  # half copied, broken, gone: the old one still answers. Tried again when it changes
            log.exception("map %s: what is there now does not open", self.name)
            return False
        changed, self.map = newer is not self.map, newer
        return changed


def warm(map: Map) -> None:
    """Ask once, so that the first who asks does not wait for what is loaded when it is needed."""
    black = np.zeros((96, 128, 3), dtype=np.uint8)
    map.locate(black, pose=map.gives_poses)
    map.positions  # noqa: B018


def _stamp(folder: Path) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(folder / META)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


class Hosting:
    """All maps; the first is the one that is asked where none is named."""

    def __init__(self, folders: Mapping[str, Path], device: str) -> None:
        self.maps = {name: Hosted(name, folder, device) for name, folder in folders.items()}
        self._task: asyncio.Task[None] | None = None

    def warm(self) -> None:
        """Load what the maps need, which takes seconds; what is wrong with them showed before."""
        for hosted in self.maps.values():
            warm(hosted.map)

    def named(self, name: str | None) -> Hosted:
        if name is None:
            return next(iter(self.maps.values()))
        if name not in self.maps:
            raise KeyError(name)
        return self.maps[name]

    def watch(self) -> None:
        """From now on, until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            for hosted in self.maps.values():
                if await asyncio.to_thread(hosted.refresh):
                    log.info("map %s: generation %d", hosted.name, hosted.map.generation.number)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task


def about(hosted: Hosted) -> dict[str, Any]:
    """What a client may want to know of a map."""
    map = hosted.map
    meta, places = map.meta, map.generation.places
    low, high = map.positions.min(axis=0), map.positions.max(axis=0)
    bounds = dict(zip(("west", "south", "east", "north"), map_numbers([*low, *high]), strict=True))
    degrees = None
    if places.projection is not None:
        corners = np.array([[low[0], low[1]], [low[0], high[1]], [high[0], low[1]], [high[0], high[1]]])
        latitude, longitude = to_degrees(corners[:, 0], corners[:, 1], places.projection)
        edges = [np.min(longitude), np.min(latitude), np.max(longitude), np.max(latitude)]
        degrees = dict(zip(bounds, (round(float(edge), 7) for edge in edges), strict=True))
    trust = map.trust
    return {
        "name": hosted.name,
        "photos": len(map),
        "generation": map.generation.number,
        "projection": None if places.projection is None else str(places.projection),
        "bounds": bounds,
        "degrees": degrees,
        "model": {
            "name": Path(meta["model"]["name"]).name,  # of a folder not where it is
            "digest": meta["model"]["digest"],
            "dims": int(map.generation.vectors.shape[1]),
        },
        "verifier": None if meta["verifier"] is None else meta["verifier"]["name"],
        "within": map.within,
        "poses": _poses(map),
        "calibration": {"source": trust.source, "reliability": trust.reliability()},
    }


def _poses(map: Map) -> dict[str, Any] | None:
    """Where its poses come from, and how their world lies on the map's plane; None: it gives none."""
    if not map.gives_poses:
        return None
    lies = lying(map.generation.places)
    axes = None if lies is None else {"east": lies.frame.east().tolist(), "north": list(lies.frame.north)}
    return {"from": map.meta["geometry"]["kind"], "axes": axes}


def cameras(hosted: Hosted) -> dict[str, Any]:
    """Where photos of the map were taken; evenly chosen ones where there are many."""
    map = hosted.map
    rows = np.unique(np.linspace(0, len(map) - 1, min(len(map), CAMERAS)).astype(np.int64))
    heading = map.generation.places.positions[rows, 2]
    return {
        "photos": len(map),
        "shown": len(rows),
        "id": rows.tolist(),
        "easting": map_numbers(map.positions[rows, 0]),
        "northing": map_numbers(map.positions[rows, 1]),
        "heading": [None if np.isnan(one) else round(float(one), 1) for one in heading],
    }


def place(map: Map, row: int) -> dict[str, Any]:
    """One photo of the map."""
    table = map.generation.places.table.iloc[row]
    heading = float(table["heading"])
    told = {name: _word(table.get(name)) for name in ("time", "condition", "sequence")}
    position = map.position_of(row)
    return {
        "id": row,
        "image": str(table["image"]),
        "position": vars(position),
        "heading": None if np.isnan(heading) else heading,
        **told,
    }


def _word(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


def map_numbers(values: Any) -> list[float]:
    """Metres, to the decimetre."""
    return [round(float(value), 1) for value in values]
