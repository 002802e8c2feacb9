"""Trees: trunks, branches and crowns of leaves, and how the seasons dress them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from samespot.town.mesh import Mesh, MeshBuilder
from samespot.town.plan import Plan

CONIFER = 4  # species; the others lose their leaves
BARK = (0.075, 0.055, 0.04)
# reflectance of the leaves of each species
LEAVES = {
    "spring": ((0.20, 0.30, 0.05), (0.16, 0.27, 0.06), (0.62, 0.42, 0.46), (0.24, 0.32, 0.07), (0.05, 0.11, 0.05)),
    "summer": ((0.08, 0.17, 0.03), (0.06, 0.14, 0.04), (0.12, 0.18, 0.04), (0.10, 0.20, 0.05), (0.04, 0.09, 0.04)),
    "autumn": ((0.48, 0.22, 0.03), (0.42, 0.11, 0.03), (0.52, 0.36, 0.05), (0.26, 0.18, 0.05), (0.04, 0.09, 0.04)),
    "winter": ((0.10, 0.08, 0.06), (0.09, 0.07, 0.06), (0.11, 0.09, 0.07), (0.10, 0.08, 0.06), (0.04, 0.08, 0.04)),
}  # fmt: skip
HOLES = {
    "spring": 0.38,
    "summer": 0.25,
    "autumn": 0.42,
    "winter": 0.9,
}  # share of a crown that one sees through


def plant(plan: Plan, builder: MeshBuilder) -> NDArray[np.int64]:
    """Add every tree to `builder`; return (blobs,) the species of each crown's blob."""
    rng = np.random.default_rng((plan.seed, 4))
    species: list[int] = []
    for x, y, height, kind in plan.trees:
        before = len(builder.blobs)
        (_conifer if int(kind) == CONIFER else _broadleaf)(rng, x, y, height, int(kind), builder)
        species += [int(kind)] * (len(builder.blobs) - before)
        builder.close()
    return np.array(species, dtype=np.int64)


def _broadleaf(
    rng: np.random.Generator, x: float, y: float, height: float, kind: int, builder: MeshBuilder
) -> None:
    stem, spread = max(2.2, 0.34 * height), (0.30, 0.26, 0.24, 0.18)[kind] * height
    _limb(builder, np.array([x, y, 0.0]), np.array([x, y, 0.75 * height]), 0.035 * height, 0.01 * height)
    middle = 0.5 * (stem + height)
    for angle in np.arange(5) * 1.26 + rng.uniform(0, 2 * np.pi, 5):
        low = np.array([x, y, rng.uniform(stem, middle)])
        rise = rng.uniform(0.15, 0.35) * height
        tip = low + np.array([0.95 * spread * np.cos(angle), 0.95 * spread * np.sin(angle), rise])
        _limb(builder, low, tip, 0.014 * height, 0.004 * height)
    builder.blob(x, y, middle + 0.05 * height, 0.85 * spread)
    for k in range(8):
        angle, up = k * 2.4 + rng.uniform(-0.4, 0.4), rng.uniform(-0.75, 0.85)
        reach = 0.62 * spread * np.sqrt(1.0 - 0.7 * up * up)
        at = (
            x + reach * np.cos(angle),
            y + reach * np.sin(angle),
            middle + up * 0.5 * (height - stem) * 0.72,
        )
        builder.blob(*at, float(rng.uniform(0.42, 0.62)) * spread)


def _conifer(
    rng: np.random.Generator, x: float, y: float, height: float, kind: int, builder: MeshBuilder
) -> None:
    _limb(builder, np.array([x, y, 0.0]), np.array([x, y, 0.9 * height]), 0.025 * height, 0.008 * height)
    for t in np.linspace(0.18, 0.97, 8):
        wobble = rng.uniform(-0.02, 0.02, 2) * height
        builder.blob(x + wobble[0], y + wobble[1], t * height, (1.05 - t) * 0.24 * height)


def _limb(
    builder: MeshBuilder, low: NDArray[np.float64], high: NDArray[np.float64], thick: float, thin: float
) -> None:
    """A three-sided limb that gets thinner."""
    way = (high - low) / np.linalg.norm(high - low)
    side = np.cross(way, [0.3, 0.9, 0.1])
    side /= np.linalg.norm(side)
    other = np.cross(way, side)
    ring = [np.cos(t) * side + np.sin(t) * other for t in (0.0, 2.094, 4.189)]
    for k in range(3):
        p, q = ring[k], ring[(k + 1) % 3]
        builder.polygon([low + thick * p, low + thick * q, high + thin * q, high + thin * p], BARK)


def dress(mesh: Mesh, species: NDArray[np.int64], season: str, seed: int) -> Mesh:
    """The mesh with the leaves of a season; each blob has its own shade, the same on every visit."""
    shade = np.random.default_rng((seed, 5)).uniform(0.75, 1.3, (len(species), 1))
    colour = (np.array(LEAVES[season])[species] * shade).astype(np.float32)
    evergreen = species == CONIFER
    holes = np.where(evergreen, 0.25, HOLES[season]).astype(np.float32)
    return mesh._replace(blob_colour=colour, blob_holes=holes)
