"""Poses of photos from a table, by photos of another table whose poses are known: retrieve, match, solve.

LocalPoses   matches of local features, lifted by depth images; where there are none, triangulated among the photos
             that were retrieved, whose poses are known
DensePoses   matches of a network's feature maps, lifted by depth images, each candidate on its own (InLoc)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.images.reading import read_image
from samespot.matching.keypoints import Keypoints
from samespot.matching.verification import Verifier, looked_at_size
from samespot.overlap.cloud import read_depth
from samespot.places.camera import Camera, camera_of
from samespot.places.pose import rotation_matrices
from samespot.places.table import Places
from samespot.poses.absolute import NoPose, Sights, Solved, sights_from, solve, solve_photo
from samespot.poses.lifting import depth_camera_of, lifted, pixels_of
from samespot.progress import Progress, silent

KEPT = 2000  # photos whose keypoints stay in memory
PAIRS = 3000  # of dense matching, that are solved
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


class Posing(Protocol):
    """A way from retrieved photos to a pose."""

    name: str

    def pose(self, query: int, rows: Sequence[int]) -> Solved | NoPose:
        """Of a row of the queries, by these rows of the map, the best first."""


class LocalPoses:
    """By local features."""

    def __init__(self, queries: Places, places: Places, verifier: Verifier) -> None:
        refuse_unposed(places)
        self.name = verifier.name
        self._queries, self._places, self._verifier = queries, places, verifier
        self._centres, self._rotations = places.centres, rotation_matrices(places.quaternions)
        self._looked = lru_cache(KEPT)(self._extract)
        self._lifted = lru_cache(KEPT)(self._by_depth)
        self._matched = lru_cache(KEPT)(lambda a, b: verifier.matched(self._looked(a), self._looked(b)))

    def pose(self, query: int, rows: Sequence[int]) -> Solved | NoPose:
        seen = self._looked(self._queries.image(query))
        posed = [row for row in rows if row >= 0 and np.isfinite(self._centres[row]).all()]
        sights = [self._sights(query, row, points) for row, points in self._known(posed)]
        camera = camera_of(self._queries.table, query, seen.size)
        return solve_photo(Sights.together(sights) if sights else Sights.none(), camera, seen.size)

    def _extract(self, path: Path) -> Keypoints:
        return self._verifier.extract(read_image(path))

    def _sights(self, query: int, row: int, points: NDArray[np.float32]) -> Sights:
        asked, there = self._queries.image(query), self._places.image(row)
        pairs = self._verifier.matched(self._looked(asked), self._looked(there))
        xy = pixels_of(self._looked(asked))
        return sights_from(xy, pairs, points, self._rotations[row], self._centres[row], row)

    def _known(self, rows: Sequence[int]) -> list[tuple[int, NDArray[np.float32]]]:
        """The keypoints of map photos in space."""
        lifted_ones = [(row, self._lifted(row)) for row in rows]
        if any(points is not None for _, points in lifted_ones):
            return [(row, points) for row, points in lifted_ones if points is not None]
        return self._triangulated(rows)

    def _by_depth(self, row: int) -> NDArray[np.float32] | None:
        told = self._places.table.get("depth")
        if told is None or told.isna().iloc[row]:
            return None
        seen = self._looked(self._places.image(row))
        camera = camera_of(self._places.table, row, seen.size)
        if camera is None:
            return None
        seen_by = depth_camera_of(self._places.table, row, camera)
        return lifted(pixels_of(seen), camera, read_depth(self._places.root / str(told.iloc[row])), seen_by)

    def _triangulated(self, rows: Sequence[int]) -> list[tuple[int, NDArray[np.float32]]]:
        from samespot.poses.triangulation import triangulated

        seen = [self._looked(self._places.image(row)) for row in rows]
        cameras = [camera_of(self._places.table, row, one.size) for row, one in zip(rows, seen, strict=True)]
        usable = [at for at, one in enumerate(cameras) if one is not None]
        if len(usable) < 2:
            return []
        chosen = [rows[at] for at in usable]
        path = {id(seen[at]): self._places.image(rows[at]) for at in usable}

        def match(a: Keypoints, b: Keypoints) -> Rows:
            return np.asarray(self._matched(path[id(a)], path[id(b)]))

        made = triangulated(
            self._centres[chosen],
            self._places.quaternions[chosen],
            [seen[at] for at in usable],
            [one for one in cameras if one is not None],
            match,
            silent,
        )
        return list(zip(chosen, made, strict=True))


class DensePoses:
    """By the feature maps of a network, each candidate on its own. Of their poses the one is taken that most pixels
    agree with; with `views` the one whose view, drawn from the coloured depth of the candidates, is most like it.
    """

    def __init__(
        self, queries: Places, places: Places, net: Any, *, views: bool = False, device: Any = "cpu"
    ) -> None:
        from samespot.poses.dense import SIZE, DenseMatcher

        refuse_unposed(places)
        if "depth" not in places.table or places.table["depth"].isna().all():
            raise InputError(
                f"{places.root}: dense matching lifts pixels by depth images, and none are there"
            )
        self.name = "dense, views" if views else "dense"
        self._queries, self._places, self._size, self._views = queries, places, SIZE, views
        self._centres, self._rotations = places.centres, rotation_matrices(places.quaternions)
        self._matcher = DenseMatcher(net, SIZE, device=device)
        self._depth = lru_cache(KEPT)(read_depth)
        self._cloud = lru_cache(KEPT)(self._coloured)

    def pose(self, query: int, rows: Sequence[int]) -> Solved | NoPose:
        camera = camera_of(self._queries.table, query, self._size)
        if camera is None:
            return NoPose("the camera of the photo is not known")
        photo = read_image(self._queries.image(query))
        seen = self._matcher.features(photo)
        used = [int(row) for row in rows if row >= 0 and self._lens(int(row)) is not None]
        if not used:
            return NoPose("no photo of the map has depth")
        found = [solve(self._sights(seen, row), camera) for row in used]
        solved = [one for one in found if isinstance(one, Solved)]
        if not solved:
            return found[0]
        if not self._views:
            return max(solved, key=lambda one: one.keypoints)
        return solved[int(np.argmax(self._likeness(photo, query, solved, used)))]

    def _lens(self, row: int) -> Camera | None:
        """Of a map photo that has depth and a pose."""
        posed = (
            isinstance(self._places.table["depth"].iloc[row], str) and np.isfinite(self._centres[row]).all()
        )
        return camera_of(self._places.table, row, self._size) if posed else None

    def _lifted(self, row: int, pixels: Floats, camera: Camera) -> NDArray[np.float32]:
        depth = self._depth(self._places.root / str(self._places.table["depth"].iloc[row]))
        return lifted(pixels, camera, depth, depth_camera_of(self._places.table, row, camera))

    def _sights(self, seen: Any, row: int) -> Sights:
        camera = self._lens(row)
        assert camera is not None
        pairs = self._matcher.pairs(seen, self._matcher.of_map(self._places.image(row)), PAIRS)
        points = self._lifted(row, pairs.places, camera)
        each = np.stack([np.arange(len(pairs))] * 2, axis=1)
        return sights_from(pairs.query, each, points, self._rotations[row], self._centres[row], row)

    def _likeness(self, photo: Any, query: int, solved: Sequence[Solved], rows: Sequence[int]) -> Floats:
        from samespot.poses.synthesis import joined, pose_likeness

        pixels = _pixels(photo)
        camera = camera_of(self._queries.table, query, (pixels.shape[0], pixels.shape[1]))
        assert camera is not None
        cloud = joined(self._cloud(row) for row in rows)
        return pose_likeness(
            pixels, camera, cloud, [one.centre for one in solved], [one.quaternion for one in solved]
        )

    def _coloured(self, row: int) -> Any:
        from samespot.poses.synthesis import photo_cloud, shrunk

        photo = shrunk(_pixels(read_image(self._places.image(row))))
        camera = camera_of(self._places.table, row, (photo.shape[0], photo.shape[1]))
        assert camera is not None
        depth = self._depth(self._places.root / str(self._places.table["depth"].iloc[row]))
        seen_by = depth_camera_of(self._places.table, row, camera)
        return photo_cloud(photo, depth, self._centres[row], self._places.quaternions[row], camera, seen_by)


def _pixels(photo: Any) -> NDArray[np.uint8]:
    """(3, h, w) in torch -> (h, w, 3)"""
    return np.ascontiguousarray(photo.permute(1, 2, 0).numpy())


def refuse_unposed(places: Places) -> None:
    """Raise for a map whose photos have no poses or no cameras."""
    places.centres  # noqa: B018 - says what is lacking
    height, width = looked_at_size(480, 640)
    known = any(camera_of(places.table, row, (height, width)) for row in range(min(len(places), 100)))
    if not known:
        raise InputError(
            f"{places.root}: the cameras of the map's photos are not known; poses need a column fov [deg], or width,"
            " height, fx, fy, cx and cy [pixels]"
        )


def pose_all(
    posing: Posing, lists: NDArray[Any], most: int, progress: Progress | None = None
) -> tuple[Floats, Floats, list[str | None]]:
    """(q, 3) centres and (q, 4) quaternions, NaN where there is no pose, and why. lists: (q, k) rows of the map."""
    centres, quaternions = np.full((len(lists), 3), np.nan), np.full((len(lists), 4), np.nan)
    reasons: list[str | None] = [None] * len(lists)
    for query, rows in enumerate(lists):
        found = posing.pose(query, [int(row) for row in rows[:most]])
        if isinstance(found, NoPose):
            reasons[query] = found.why
        else:
            centres[query], quaternions[query] = found.centre, found.quaternion
        if progress is not None:
            progress("solving for poses", query + 1, len(lists))
    return centres, quaternions, reasons
