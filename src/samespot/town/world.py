"""A town ready to be photographed: everything that stays, and what a visit changes about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samespot.town.buildings import raise_buildings
from samespot.town.cars import park
from samespot.town.furniture import furnish
from samespot.town.greenery import dress, plant
from samespot.town.ground import Ground, colour_ground, map_kinds
from samespot.town.light import WEATHERS, Light, height_field, make_light
from samespot.town.mesh import Atlas, Mesh, MeshBuilder, join, make_atlas
from samespot.town.plan import Plan, make_plan


@dataclass(frozen=True)
class Town:
    """What is the same on every visit."""

    plan: Plan
    mesh: Mesh
    atlas: Atlas
    species: NDArray[np.int64]  # (blobs,)
    lamps: NDArray[np.float64]  # (k, 3) lights of the street lamps
    kinds: NDArray[np.uint8]  # of the ground
    away: NDArray[np.float32]  # of the ground from the centre of the street [m]
    heights: NDArray[np.float32]  # that cast shadows


@dataclass(frozen=True)
class Scenery:
    """The town on one visit: what `render` takes."""

    mesh: Mesh
    atlas: Atlas
    ground: Ground
    light: Light


def make_town(seed: int = 7) -> Town:
    """The town of a seed."""
    plan = make_plan(seed)
    builder, pictures = MeshBuilder(), []  # type: ignore[var-annotated]
    tops = raise_buildings(plan, builder, pictures)
    lamps = furnish(plan, builder)
    species = plant(plan, builder)
    kinds, away = map_kinds(plan)
    heights = height_field(plan, tops)
    return Town(plan, builder.build(), make_atlas(pictures), species, lamps, kinds, away, heights)


def on_visit(town: Town, visit: int, hour: str, weather: str, season: str) -> Scenery:
    """The town at an hour of a day: see `light.HOURS`, `light.WEATHERS` and `greenery.LEAVES` for the words."""
    air = WEATHERS[weather]
    mesh = join(dress(town.mesh, town.species, season, town.plan.seed), park(town.plan, visit))
    ground = colour_ground(
        town.plan, town.kinds, town.away, season=season, wet=air.wet, snow=air.snow, visit=visit
    )
    light = make_light(town.plan, town.heights, town.lamps, hour, weather, visit)
    return Scenery(mesh, town.atlas, ground, light)
