"""How similar are two photos? A rule says it: for whole tables, for pairs, for a batch, in words and in a file.

| rule           | similarity                                                                          |
|----------------|-------------------------------------------------------------------------------------|
| `Sectors`      | share of the field of view, graded: opening angle θ, radius r                        |
| `Within`       | 1 within a distance and an angle, else 0: what the field calls a positive            |
| `SoftDistance` | falls with the distance alone, ½ at so many metres (Thoma et al. 2020)               |
| `Points`       | IoU of the points of a reconstruction that both see, graded: 3D                      |

Everything that computes a similarity asks a rule: labels, batches, calibration, the report. This module loads neither
numpy nor numba, so that options can name rules and their defaults.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from samespot.errors import InputError
from samespot.options import check_choice
from samespot.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from samespot.overlap.labels import Block, PairLabels
    from samespot.overlap.scene import Scene
    from samespot.places.table import Places

    Floats = NDArray[np.float64]

THETA, RADIUS = 90.0, 50.0  # [deg], [m]: the paper's, for MSLS
NEAR = 25.0  # [m] what counts as the same place where nobody says it: by distance alone
METRES, STEEPNESS = 15.0, 0.8  # [m], [1/m]: of soft labels, by their authors
FAINT = 0.001  # a fainter soft similarity is 0, so that labels stay sparse
Measure = Literal["overlap", "iou"]
UnknownHeading = Literal["error", "disk"]
Panoramas = Literal["disk", "sector"]
Occlusion = Literal["none", "depth", "cloud"]
_AROUND = 360.0


class Rule(ABC):
    """What every rule can do. On the ground, a photo is a camera: a row of `cameras`."""

    @abstractmethod
    def label(
        self,
        queries: Places,
        places: Places,
        *,
        out: str | Path | None = None,
        progress: Progress | None = None,
    ) -> PairLabels:
        """Similarity of every query with every map image; in the folder `out` in bounded memory, or in memory."""

    @abstractmethod
    def words(self) -> str:
        """One phrase, for tables and captions."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What the labels' meta.json says about it; `rule_of` reads it."""

    def _labelled(
        self,
        queries: Places,
        places: Places,
        blocks: Callable[[dict[str, Any]], Iterator[Block]],
        out: str | Path | None,
    ) -> PairLabels:
        """Labels of blocks of rows, that are made by what meta.json says. What a cluster left of them before goes."""
        from samespot.overlap.labels import PairLabels, forget_parts, refuse_empty_tables, tables_meta

        refuse_empty_tables(queries, places)
        meta = {**self.to_dict(), **tables_meta(queries, places)}
        labels = PairLabels.from_blocks(blocks(meta), (len(queries), len(places)), meta, out)
        forget_parts(out)
        return labels

    def of_pairs(self, queries: Places, places: Places, pairs: NDArray[np.int64]) -> Floats:
        """(n,) similarity of pairs (n, 2): rows of `queries` and of `places`."""
        import numpy as np

        (ours, i), (theirs, j) = (np.unique(side, return_inverse=True) for side in pairs.T)
        return self.label(queries.select(ours), places.select(theirs)).lookup(i, j).astype(np.float64)

    def unknown(self, table: Places) -> dict[str, NDArray[np.bool_]]:
        """What the rule needs and some images lack: "position" or "heading" -> (n,) which images."""
        import numpy as np

        unplaced = np.asarray(np.isnan(table.positions[:, :2]).any(axis=1))
        return {"position": unplaced} if unplaced.any() else {}


class GroundRule(Rule):
    """A rule of positions and headings. Similarity of any two cameras is known, so also that of two queries."""

    reach: float  # [m] farther apart, the similarity is 0

    @abstractmethod
    def cameras(self, table: Places, role: str = "query") -> Floats:
        """(n, c) all that the rule needs to know of each image; raises where an image lacks it."""

    @abstractmethod
    def matrix(self, cameras: Floats) -> NDArray[np.float32]:
        """(n, n) similarity of any two of some cameras; a camera and itself are at one spot."""

    @abstractmethod
    def _between(self, a: Floats, b: Floats) -> Floats:
        """(n,) similarity of cameras row by row."""

    @abstractmethod
    def _kernel(self) -> tuple[Callable[[Floats], Floats], Any]:
        """What turns cameras into the kernel's rows, and the kernel's `PairRule`."""

    def of_pairs(self, queries: Places, places: Places, pairs: NDArray[np.int64]) -> Floats:
        a, b = self.cameras(queries), self.cameras(places, "map")
        return self._between(a[pairs[:, 0]], b[pairs[:, 1]])

    def label(
        self,
        queries: Places,
        places: Places,
        *,
        out: str | Path | None = None,
        progress: Progress | None = None,
        ray: str | None = None,
        block_pairs: int | None = None,
        threads: int | None = None,
    ) -> PairLabels:
        """ray: the address of a cluster that shares the work (see `ClusterOptions`). block_pairs: pairs looked at in
        one block; threads: how many compute. None of them changes the result."""
        from samespot.overlap import ground

        def blocks(meta: dict[str, Any]) -> Iterator[Block]:
            _refuse_two_planes(queries, places)
            rows_of, kernel = self._kernel()
            first, second = (rows_of(self.cameras(*side)) for side in ((queries, "query"), (places, "map")))
            if ray is None:
                at_once = block_pairs or ground.BLOCK_PAIRS
                return ground.blocks_of_rows(first, second, kernel, at_once, threads, progress)
            from samespot.overlap.tiles import ground_blocks

            return ground_blocks(ray, first, second, kernel, meta, out, progress)

        return self._labelled(queries, places, blocks, out)


@dataclass(frozen=True)
class Sectors(GroundRule):
    """Graded 2D labels: opening angle [deg], radius [m], measure (see `sector_overlap`).

    unknown_heading: a camera of unknown heading is an error, or with "disk" sees in all directions.
    panoramas: see in all directions, or with "sector" only along their heading.
    """

    theta: float = THETA
    radius: float = RADIUS
    measure: Measure = "overlap"
    unknown_heading: UnknownHeading = "error"
    panoramas: Panoramas = "disk"

    def __post_init__(self) -> None:
        check_choice("measure", self.measure, get_args(Measure))
        check_choice("unknown_heading", self.unknown_heading, get_args(UnknownHeading))
        check_choice("panoramas", self.panoramas, get_args(Panoramas))
        if not 0 < self.theta <= _AROUND:
            raise InputError(f"`theta` {self.theta:g} is not in (0, 360] degrees")
        if not (self.radius > 0 and math.isfinite(self.radius)):
            raise InputError(f"`radius` {self.radius:g} is not a positive number of metres")

    @property
    def reach(self) -> float:  # type: ignore[override]
        return 2.0 * self.radius

    def openings(self, table: Places) -> Floats:
        """(n,) opening angle of each camera [deg]: 360 for those that see in all directions."""
        import numpy as np

        around = np.isnan(table.positions[:, 2])
        if self.panoramas == "disk":
            around |= table.panoramas
        return np.where(around, _AROUND, float(self.theta))

    def unknown(self, table: Places) -> dict[str, NDArray[np.bool_]]:
        import numpy as np

        lacking = super().unknown(table)
        turned = np.isnan(table.positions[:, 2])
        if self.panoramas == "disk":  # a panorama needs no heading
            turned &= ~table.panoramas
        return {**lacking, "heading": turned} if turned.any() and self.unknown_heading == "error" else lacking

    def cameras(self, table: Places, role: str = "query") -> Floats:
        """(n, 4) easting, northing [m], heading, opening angle [deg]."""
        import numpy as np

        _refuse_unknown(self, table, role, "pass `unknown_heading=disk` to let such a camera see all around")
        positions = table.positions
        headings = np.nan_to_num(positions[:, 2], nan=0.0)
        return np.column_stack([positions[:, :2], headings, self.openings(table)])

    def matrix(self, cameras: Floats) -> NDArray[np.float32]:
        from samespot.overlap.ground import sector_matrix

        return sector_matrix(cameras, float(self.radius), self.measure == "iou")  # type: ignore[no-any-return]

    def _between(self, a: Floats, b: Floats) -> Floats:
        from samespot.overlap.sector import sector_overlap

        return sector_overlap(a[:, :3], b[:, :3], a[:, 3], self.radius, self.measure, theta_b=b[:, 3])

    def _kernel(self) -> tuple[Callable[[Floats], Floats], Any]:
        from samespot.overlap.ground import PairRule, views

        return partial(views, radius=self.radius), PairRule(
            self.reach, graded=True, iou=self.measure == "iou"
        )

    def words(self) -> str:
        return f"2D, {self.measure}, θ = {self.theta:g}°, r = {self.radius:g} m"

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "kind": "2D field of view",
            "theta": float(self.theta),
            "radius": float(self.radius),
            "unknown_heading": self.unknown_heading,
            "panoramas": self.panoramas,
        }


class _ByPosition(GroundRule):
    """A rule that looks at positions, and at most the turn between headings."""

    def cameras(self, table: Places, role: str = "query") -> Floats:
        """(n, 3) easting, northing [m], heading [deg]."""
        _refuse_unknown(self, table, role, "leave out the angle")
        return table.positions

    def matrix(self, cameras: Floats) -> NDArray[np.float32]:
        import numpy as np

        n = len(cameras)
        pairs = self._between(np.repeat(cameras, n, axis=0), np.tile(cameras, (n, 1)))
        return pairs.reshape(n, n).astype(np.float32)


def _metres_apart(a: Floats, b: Floats) -> Floats:
    import numpy as np

    return np.asarray(np.sqrt(((a[:, :2] - b[:, :2]) ** 2).sum(axis=1)))


@dataclass(frozen=True)
class Within(_ByPosition):
    """Binary labels: 1 for a pair at most this far apart [m] and turned [deg], else 0.

    What the field trains with today, and the counterpart of graded labels. Without `degrees`, as by default, headings
    do not matter and may be unknown; MSLS's rule is `Within(25, 40)`.
    """

    metres: float = NEAR
    degrees: float | None = None

    def __post_init__(self) -> None:
        if not (self.metres > 0 and math.isfinite(self.metres)):
            raise InputError(f"a distance of {self.metres:g} m is not positive")
        if self.degrees is not None and not 0 <= self.degrees <= 180:
            raise InputError(f"an angle of {self.degrees:g}° is not in [0, 180]")

    @property
    def reach(self) -> float:  # type: ignore[override]
        return float(self.metres)

    def unknown(self, table: Places) -> dict[str, NDArray[np.bool_]]:
        import numpy as np

        lacking = super().unknown(table)
        turned = np.isnan(table.positions[:, 2])
        return {**lacking, "heading": turned} if turned.any() and self.degrees is not None else lacking

    def graded(self, cameras: Floats) -> NDArray[np.float32]:
        """As `matrix`, but 1 at the same spot, 0.5 at the limit, 0 from twice as far: for losses that need degrees."""
        import numpy as np

        n = len(cameras)
        a, b = np.repeat(cameras, n, axis=0), np.tile(cameras, (n, 1))
        near = np.maximum(1.0 - _metres_apart(a, b) / (2.0 * self.metres), 0.0) * self._turned_little(a, b)
        return np.asarray(near, dtype=np.float32).reshape(n, n)

    def _between(self, a: Floats, b: Floats) -> Floats:
        import numpy as np

        apart2 = ((a[:, :2] - b[:, :2]) ** 2).sum(axis=1)
        return np.asarray((apart2 <= self.metres * self.metres) * self._turned_little(a, b), dtype=np.float64)

    def _turned_little(self, a: Floats, b: Floats) -> Any:
        import numpy as np

        if self.degrees is None:
            return 1.0
        turn = np.abs(a[:, 2] - b[:, 2]) % _AROUND
        return np.minimum(turn, _AROUND - turn) <= self.degrees

    def _kernel(self) -> tuple[Callable[[Floats], Floats], Any]:
        from samespot.overlap.ground import PairRule

        turned = _AROUND if self.degrees is None else float(self.degrees)
        return lambda cameras: cameras.T, PairRule(self.reach, turned)

    def words(self) -> str:
        return f"binary, within {self.limits()}"

    def limits(self) -> str:
        """25 m and 40°"""
        return f"{self.metres:g} m" + ("" if self.degrees is None else f" and {self.degrees:g}°")

    def to_dict(self) -> dict[str, Any]:
        degrees = None if self.degrees is None else float(self.degrees)
        return {"measure": "within", "kind": "binary", "metres": float(self.metres), "degrees": degrees}


@dataclass(frozen=True)
class SoftDistance(_ByPosition):
    """Soft labels by distance alone, ψ = 1 / (1 + exp(steepness · (distance − metres))): 0.5 at `metres` [m], falling
    at `steepness` [1/m]. Anything below `FAINT` is 0. Headings do not matter."""

    metres: float = METRES
    steepness: float = STEEPNESS

    def __post_init__(self) -> None:
        for name, value in (("a distance", self.metres), ("a steepness", self.steepness)):
            if not (value > 0 and math.isfinite(value)):
                raise InputError(
                    f"{name} of {value:g} is not positive; the authors of soft labels take 15m,0.8/m"
                )

    @property
    def reach(self) -> float:  # type: ignore[override]
        return self.metres + math.log(1.0 / FAINT - 1.0) / self.steepness

    def at(self, metres: Any) -> Floats:
        """Similarity of two photos so far apart [m], of the same shape."""
        import numpy as np

        apart = np.asarray(metres, dtype=np.float64)
        exponent = np.minimum(self.steepness * (apart - self.metres), 700.0)  # beyond reach, and no overflow
        return np.where(apart <= self.reach, 1.0 / (1.0 + np.exp(exponent)), 0.0)

    def _between(self, a: Floats, b: Floats) -> Floats:
        return self.at(_metres_apart(a, b))

    def _kernel(self) -> tuple[Callable[[Floats], Floats], Any]:
        from samespot.overlap.ground import PairRule

        soft = PairRule(self.reach, middle=float(self.metres), steepness=float(self.steepness))
        return lambda cameras: cameras.T, soft

    def words(self) -> str:
        return f"soft, ½ at {self.metres:g} m, steepness {self.steepness:g}/m"

    def to_dict(self) -> dict[str, Any]:
        return {"measure": "distance", "kind": "soft by distance", **asdict(self)}


class Points(Rule):
    """Graded 3D labels: the IoU of the points of a reconstruction that two images see.

    scene: the scene, or what makes it when it is needed: fusing depth takes a while. It is made once.
    device: "cpu", or "cuda" for a matrix product on the GPU with the same result.
    """

    KIND: ClassVar[str] = "3D field of view"

    def __init__(
        self,
        scene: Scene | Callable[[Progress | None], Scene],
        occlusion: Occlusion = "none",
        device: str = "cpu",
    ) -> None:
        check_choice("occlusion", occlusion, get_args(Occlusion))
        self._scene, self.occlusion, self.device = scene, occlusion, device

    def scene(self, progress: Progress | None = None) -> Scene:
        if callable(self._scene):
            self._scene = self._scene(progress)
        return self._scene

    def label(
        self,
        queries: Places,
        places: Places,
        *,
        out: str | Path | None = None,
        progress: Progress | None = None,
        ray: str | None = None,
    ) -> PairLabels:
        from samespot.overlap.scene import blocks_of_sets

        if ray is not None and self.device != "cpu":
            raise InputError("`ray` compares sets of points on processors; leave out `device`, or `ray`")
        scene = self.scene(progress)

        def blocks(meta: dict[str, Any]) -> Iterator[Block]:
            if ray is None:
                how = self.occlusion, self.device, bool(meta["same_table"])
                return blocks_of_sets(queries, places, scene, *how, progress)
            from samespot.overlap.tiles import scene_blocks

            return scene_blocks(ray, queries, places, self, meta, out, progress)

        return self._labelled(queries, places, blocks, out)

    def words(self) -> str:
        return f"3D, IoU of {len(self.scene().cloud):,} points, occlusion {self.occlusion}"

    def to_dict(self) -> dict[str, Any]:
        return {"measure": "iou", "kind": self.KIND, **self.scene().facts(), "occlusion": self.occlusion}


def label_pairs(
    queries: Places,
    places: Places,
    theta: float = THETA,
    radius: float = RADIUS,
    measure: Measure = "overlap",
    *,
    unknown_heading: UnknownHeading = "error",
    panoramas: Panoramas = "disk",
    **how: Any,
) -> PairLabels:
    """Graded labels: the field-of-view overlap of each query with each map image (see `sector_overlap`).

    theta: opening angle [deg]; radius: how far a camera sees [m]; the other rules of `Sectors`. With `out` the
    labels go to that folder and are memory-mapped; memory stays bounded whatever the size. The result does not
    depend on `block_pairs` or `threads`.
    """
    return Sectors(theta, radius, measure, unknown_heading, panoramas).label(queries, places, **how)


def label_within(
    queries: Places, places: Places, metres: float = NEAR, degrees: float | None = None, **how: Any
) -> PairLabels:
    """Binary labels: 1 for a pair at most `metres` apart and, if given, turned by at most `degrees` (see `Within`)."""
    return Within(metres, degrees).label(queries, places, **how)


def label_by_distance(
    queries: Places, places: Places, metres: float = METRES, steepness: float = STEEPNESS, **how: Any
) -> PairLabels:
    """Soft labels by the distance on the ground alone, 0.5 at `metres` (see `SoftDistance`)."""
    return SoftDistance(metres, steepness).label(queries, places, **how)


def label_scene(
    queries: Places,
    places: Places,
    scene: Scene,
    *,
    occlusion: Occlusion = "none",
    device: str = "cpu",
    **how: Any,
) -> PairLabels:
    """Graded 3D labels: the IoU of the sets of points that each query and each map image see (see `Points`)."""
    return Points(scene, occlusion, device).label(queries, places, **how)


def rule_of(meta: Mapping[str, Any]) -> GroundRule | None:
    """The rule that labels with this meta were made by; None where positions do not tell it (3D, files of others)."""
    measure: Any = meta.get("measure")
    if measure in get_args(Measure) and "theta" in meta and "radius" in meta:
        named = {key: meta[key] for key in ("unknown_heading", "panoramas") if key in meta}
        return Sectors(float(meta["theta"]), float(meta["radius"]), measure, **named)
    if measure == "within" and "metres" in meta:
        return Within(float(meta["metres"]), meta.get("degrees"))
    if measure == "distance" and "steepness" in meta:
        return SoftDistance(float(meta["metres"]), float(meta["steepness"]))
    return None


def words_of(meta: Mapping[str, Any]) -> str:
    """One phrase for how labels were made, from their meta alone."""
    rule = rule_of(meta)
    if rule is not None:
        return rule.words()
    if meta.get("kind") == Points.KIND and "points" in meta:
        return f"3D, IoU of {meta['points']:,} points, occlusion {meta['occlusion']}"
    return str(meta.get("kind", "labels of others"))


def parse_within(words: str) -> Within:
    """Limits from "25m,40deg" or "25m"."""
    metres: float | None = None
    degrees: float | None = None
    for word in words.replace(" ", "").split(","):
        try:
            if word.endswith("deg"):
                degrees = float(word.removesuffix("deg"))
            elif word.endswith("m"):
                metres = float(word.removesuffix("m"))
            else:
                raise ValueError
        except ValueError:
            raise InputError(f"{word!r} is neither metres (25m) nor degrees (40deg)") from None
    if metres is None:
        raise InputError("names no distance; write for example 25m,40deg")
    return Within(metres, degrees)


def parse_soft_distance(words: str) -> SoftDistance:
    """From "15m", or "15m,0.8/m" with the steepness."""
    try:
        metres, _, steepness = words.replace(" ", "").partition(",")
        if not metres.endswith("m") or (steepness and not steepness.endswith("/m")):
            raise ValueError
        where = float(metres.removesuffix("m"))
        fall = float(steepness.removesuffix("/m")) if steepness else STEEPNESS
    except ValueError:
        raise InputError("write metres, e.g. 15m, and with a steepness 15m,0.8/m") from None
    return SoftDistance(where, fall)


def _refuse_unknown(rule: Rule, table: Places, role: str, remedy: str) -> None:
    for what, rows in rule.unknown(table).items():
        first = table.table["image"].iloc[int(rows.argmax())]
        advice = remedy if what == "heading" else "they cannot be labelled"
        raise InputError(
            f"{rows.sum()} of {len(table)} {role} images have no {what} (first: {first}); {advice}"
        )


def _refuse_two_planes(queries: Places, places: Places) -> None:
    if queries.projection and places.projection and queries.projection != places.projection:
        raise InputError(
            f"queries are in {queries.projection}, the map in {places.projection}: their metres are not comparable; "
            "read both with one `projection`"
        )
