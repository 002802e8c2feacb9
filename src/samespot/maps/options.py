"""Every option of building a map and of asking it. No torch and no tables in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from samespot.cluster import ClusterOptions
from samespot.errors import InputError
from samespot.images.options import DeviceOptions
from samespot.maps.filters import FilterOptions
from samespot.matching.options import KEYPOINTS, Matcher
from samespot.options import Options, ineffective, option
from samespot.whitening.recipe import AUTO_DIMS

FASTEST, LONGEST = 1e5, 1e7  # [m/s], [s] between two photos: beyond these, numbers become too large
PANEL, ENGINE = "What the map keeps", "What finds the nearest photos"
_ASKED, SEQUENCES, POSES = "How it is asked", "Sequences", "Poses"
Whiten = Literal["auto", "map", "model", "none"]
Geometry = Literal["auto", "depth", "triangulate", "none"]
EngineName = Literal["exact", "hnsw", "ivfpq", "milvus"]
MilvusIndex = Literal["flat", "hnsw"]
WITHIN = 25.0  # [m] an answer is right that is no farther from the truth


@dataclass(frozen=True)
class KeptOptions(Options):
    """What a map keeps of its photos. A map that is there keeps to its own where an option is not given."""

    model: str | None = option(
        None,
        "A model by name, or a model or run folder; `samespot models` lists the names.",
        default="the map's own, or samespot-lite",
        panel=PANEL,
    )
    weights: Path | None = option(
        None, "File with the weights of a model by name.", default="from the cache, or fetched", panel=PANEL
    )
    dims: int = option(AUTO_DIMS, "Numbers of a descriptor that are searched.", least=1, panel=PANEL)
    whiten: Whiten = option(
        "auto",
        "Whitening of the descriptors: fitted on the map, the model's own, or none. auto: on the map, or the model's"
        " where the map is small.",
        panel=PANEL,
    )
    verify: bool = option(
        True,
        "Keep local features, by which `locate` verifies its answers: three quarters of the map's size.",
        panel=PANEL,
    )
    matcher: Matcher = option("xfeat", "Local features to keep.", panel=PANEL)
    keypoints: int = option(
        KEYPOINTS, "Local features of a photo, at most.", least=16, most=8192, panel=PANEL
    )
    geometry: Geometry = option(
        "auto",
        "Where keypoints lie in space, for 6DOF poses: from depth images, or from photos of known pose (triangulate)."
        " auto: whichever the photos allow.",
        panel=PANEL,
    )
    thumbnail: int = option(
        192, "Longer side of the small pictures that answers show [pixels].", least=16, most=1024, panel=PANEL
    )
    within: float = option(
        WITHIN, "An answer is right when it is this near to the true position [metres].", above=0, panel=PANEL
    )

    def refuse_ineffective(self, typed: set[str]) -> None:
        super().refuse_ineffective(typed)
        if not self.verify:
            ineffective(typed, ("matcher", "keypoints", "geometry"), "with `verify=False`")


@dataclass(frozen=True)
class EngineOptions(Options):
    """What finds the photos of a map with the nearest descriptors. A map that is there keeps to its own."""

    engine: EngineName = option(
        "exact",
        "exact: this process compares all; hnsw and ivfpq: a faiss index, for large maps; milvus: a database.",
        default="the map's own, or exact",
        panel=ENGINE,
    )
    uri: str | None = option(
        None,
        "Milvus: a file such as ./map.db (Milvus Lite), or a server such as http://localhost:19530; its token is read"
        " from SAMESPOT_MILVUS_TOKEN.",
        default="the map's own",
        panel=ENGINE,
    )
    milvus_index: MilvusIndex = option(
        "flat",
        "Index in Milvus: flat finds what exact search finds; hnsw is faster on large maps and may miss some.",
        default="the map's own, or flat",
        panel=ENGINE,
    )

    def refuse_ineffective(self, typed: set[str]) -> None:
        super().refuse_ineffective(typed)
        if self.engine != "milvus":
            ineffective(typed, ("uri", "milvus_index"), "without `engine=milvus`")


@dataclass(frozen=True)
class MapOptions(DeviceOptions, KeptOptions, EngineOptions, ClusterOptions):
    """How a map is built: what it keeps, and what computes it."""


@dataclass(frozen=True)
class ContentOptions(Options):
    """Which photos a map is of."""

    add: tuple[str, ...] = option(
        (),
        "Add the photos of this folder or table to the map, and keep the others. May be given several times.",
        many=True,
        metavar="SOURCE",
    )
    remove: tuple[str, ...] = option(
        (),
        "Take out photos: an image name, a pattern such as 'walk/*', or a folder. May be given several times.",
        many=True,
        metavar="NAME",
    )
    split: str | None = option(None, "Only photos whose column split says this.")
    need_heading: bool = option(False, "Leave out photos whose heading is not known.", switch=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("add", "remove"):  # one may be given without brackets around it
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, list | tuple) else (given,))


@dataclass(frozen=True)
class LocateOptions(FilterOptions):
    """How a map is asked where a photo was taken."""

    k: int = option(5, "Matches to show with an answer.", least=1)
    outside: float = option(
        0.5,
        "Share of the photos asked about that are not in the map; the probabilities depend on it.",
        above=0.0,
        below=1.0,
    )
    at_least: float = option(0.5, "Probability from which on a place counts as found.", least=0.0, most=1.0)
    precision: float | None = option(
        None,
        "Instead, count as found what is right this often, such as 0.95, by the map's own calibration.",
        above=0.0,
        below=1.0,
        default="not asked for",
    )
    verify: bool = option(True, "Compare local features, where the map keeps them.", panel=_ASKED)
    pose: bool = option(
        False,
        "Tell the 6DOF pose of the camera, where the map knows its keypoints in space.",
        switch=True,
        panel=POSES,
    )
    camera: str | None = option(
        None,
        "The camera of the photos: width,height,fx,fy,cx,cy [pixels], and k1,k2,p1,p2 where the lens distorts.",
        default="from EXIF, or its focal length is estimated",
        panel=POSES,
    )
    pose_from: int = option(
        10, "Photos of the map that a pose is solved from.", least=1, most=100, panel=POSES
    )
    pairs: bool = option(
        False, "Tell which points of photo and match are the same, in json.", switch=True, panel=_ASKED
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.camera is not None:
            from samespot.places.camera import parse_camera

            parse_camera(self.camera)  # what is wrong with it shows before a photo is read

    def refuse_ineffective(self, typed: set[str]) -> None:
        super().refuse_ineffective(typed)
        if self.precision is not None:
            ineffective(typed, ("at_least",), "with `precision`")
        if not self.pose:
            ineffective(typed, ("camera", "pose_from"), "without `pose`")
        elif not self.verify:
            raise InputError("`pose` compares local features; leave `verify` on")


@dataclass(frozen=True)
class TrackOptions(Options):
    """What is known about the camera of a sequence."""

    speed: float = option(
        15.0, "Speed that the camera never exceeds [m/s].", above=0.0, most=FASTEST, panel=SEQUENCES
    )
    every: float = option(
        1.0,
        "Seconds between photos that carry no time, and between the frames taken of a video.",
        above=0.0,
        most=LONGEST,
        panel=SEQUENCES,
    )
    live: bool = option(
        False, "Answer each photo from those before it alone, as on a robot.", switch=True, panel=SEQUENCES
    )
