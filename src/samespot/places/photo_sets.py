"""`PhotoSet`: queries and the map they are labelled against: a city, a scene. Readers list those of a data set."""

from __future__ import annotations

from dataclasses import dataclass

from samespot.places.camera import Camera
from samespot.places.table import Places


@dataclass(frozen=True)
class PhotoSet:
    name: str
    queries: Places
    places: Places
    held_out: bool = False  # kept for evaluation, not to learn from
    camera: Camera | None = None  # of depth images, where labels are made by points
