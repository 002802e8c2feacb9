"""Which data sets samespot reads, which of them are on this machine, and where to ask for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from samespot.errors import InputError
from samespot.places.wording import first_few

if TYPE_CHECKING:  # the records alone need no pandas
    from samespot.places.photo_sets import PhotoSet
    from samespot.places.pose import PoseFrame
    from samespot.places.table import Places

MissingImages = Literal["error", "warn", "drop", "ignore"]
REQUIRED = ("image", "easting", "northing", "heading")  # columns of a table of places


@dataclass(frozen=True)
class DataSet:
    """All that is special about a data set, or a format of one's own; read by the module `samespot.places.<module>`.

    A preset is a data set whose record says how it is labelled (`labels` or `points`) and learned from (`training`);
    its reader then has `photo_sets`. `protocols` are in `samespot.evaluation.protocols.<module>`.
    """

    name: str
    title: str
    module: str
    ask: str  # where to get it
    own: bool = False  # a format for one's own data rather than a published set
    protocols: tuple[str, ...] = ()  # names
    labels: Mapping[str, Any] | None = None  # graded labels: fields of `Sectors`
    points: bool = False  # graded labels by points of a reconstruction instead
    binary: tuple[float, float] | None = None  # what the binary counterpart calls positive: [m], [deg]
    found: tuple[float, float | None] | None = None  # what validation calls found: [m], [deg]
    training: Mapping[str, Any] = field(default_factory=dict)  # fields of `TrainingOptions`

    @property
    def preset(self) -> bool:
        return self.labels is not None or self.points

    @property
    def advice(self) -> str:
        return self.ask if self.own else f"ask for it at {self.ask}"

    @property
    def reader(self) -> Any:
        return import_module(f"samespot.places.{self.module}")

    @property
    def layout(self) -> str:
        return str(self.reader.LAYOUT)

    def parts(self, root: Path) -> list[str]:
        return list(self.reader.parts(Path(root)))

    def refuse_absent(self, root: Path) -> None:
        """Raise where this data set is not; a command asks before it loads torch."""
        if not self.parts(root):
            raise InputError(f"{root}: no {self.title} here; {self.advice}")

    def missing(self, root: Path) -> list[str]:
        return list(self.reader.missing(Path(root)))

    def read(self, root: Path, part: str, **options: Any) -> Places:
        return self.reader.read(Path(root), part, **options)  # type: ignore[no-any-return]

    def photo_sets(self, root: Path, *, missing_images: MissingImages = "warn") -> Iterator[PhotoSet]:
        """Of a preset: what is labelled against what."""
        return self.reader.photo_sets(Path(root), missing_images=missing_images)  # type: ignore[no-any-return]


_VISLOC = "https://www.visuallocalization.net/datasets/"
# The paper: SGD, rate 0.1 (graded) or 0.01 (binary), a tenth of it every 250k pairs (MSLS) or 15 epochs, batches A
# of 64 pairs, two last blocks, 480 x 640. It trains one epoch on MSLS, and does not say how many on the other two.
_BY_EPOCHS = {"drop_pairs": None, "drop_epochs": 15.0, "epochs": 30.0, "order": "refill"}
DATA_SETS = (
    DataSet(
        "msls",
        "Mapillary Street-Level Sequences",
        "msls",
        "https://www.mapillary.com/dataset/places",
        protocols=(
            "msls-val",
            "msls-val-40deg",
            "msls-val-740",
            "msls-val-11k",
            "msls-test",
        ),
        labels={"theta": 90.0, "radius": 50.0, "panoramas": "sector"},  # panoramas like every other image
        binary=(25.0, 40.0),
        found=(25.0, None),
        training={"order": "refill", "panoramas": False, "validate_every": 1_000},
    ),
    DataSet(
        "pittsburgh",
        "Pittsburgh30k and 250k",
        "pittsburgh",
        "images: by mail, see http://www.ok.ctrl.titech.ac.jp/~torii/project/repttile/; "
        "splits: https://www.di.ens.fr/willow/research/netvlad/",
        protocols=(
            "pitts30k-test",
            "pitts250k-test",
        ),
    ),
    DataSet(
        "tokyo",
        "Tokyo 24/7 and Tokyo Time Machine",
        "tokyo",
        "24/7: by mail, see http://www.ok.ctrl.titech.ac.jp/~torii/project/247/; "
        "TM and splits: https://www.di.ens.fr/willow/research/netvlad/",
        protocols=(
            "tokyo247",
            "tokyotm-val",
        ),
    ),
    DataSet("robotcar", "RobotCar Seasons v2", "robotcar", _VISLOC, protocols=("robotcar-seasons-v2",)),
    DataSet(
        "cmu-seasons",
        "CMU Seasons and Extended CMU Seasons",
        "cmu_seasons",
        _VISLOC,
        protocols=(
            "cmu-seasons-extended",
            "cmu-seasons",
        ),
    ),
    DataSet(
        "tb-places",
        "TB-Places",
        "tb_places",
        "https://doi.org/10.34894/VIL0EV",
        protocols=(
            "tb-places-w17-w18",
            "tb-places-w18",
        ),
        labels={"theta": 90.0, "radius": 3.5},
        training=_BY_EPOCHS,
    ),
    DataSet(
        "7scenes",
        "7Scenes",
        "seven_scenes",
        "https://www.microsoft.com/en-us/research/project/rgb-d-dataset-7-scenes/",
        protocols=(
            "7scenes",
            "7scenes-sequence",
        ),
        points=True,
        training=_BY_EPOCHS,
    ),
    DataSet(
        "campus",
        "Campus, phone photos in splits train, map and query",
        "campus",
        "give a folder with a places.csv whose column split says train, map and query",
        own=True,
        protocols=("campus-east",),
        labels={"theta": 90.0, "radius": 30.0},
        binary=(15.0, 40.0),
        found=(15.0, 30.0),
        training={
            "backbone": "vgg16",
            "image_size": (224, 224),
            "schedule": "constant",
            "steps": 500,
            "images_in_memory": "host",
            "checkpoint_every": 100,
        },
    ),
    DataSet(
        "town", "the built-in town", "town", "build one with `samespot town`", own=True, protocols=("town",)
    ),
    DataSet("colmap", "a COLMAP model, text or binary", "colmap", "your own reconstruction", own=True),
    DataSet(
        "at-names", "a folder of images named @easting@northing@…@.jpg", "at_names", "your own", own=True
    ),
    DataSet("photos", "a folder of photos with GPS in their EXIF", "photos", "your own", own=True),
)


@dataclass(frozen=True)
class Finding:
    """A data set that is on this machine."""

    data_set: DataSet
    root: Path
    parts: list[str]
    missing: list[str]


def data_set(name: str) -> DataSet:
    for known in DATA_SETS:
        if known.name == name:
            return known
    raise InputError(f"data set {name!r} is unknown; choose one of {', '.join(d.name for d in DATA_SETS)}")


def preset_names() -> list[str]:
    return [known.name for known in DATA_SETS if known.preset]


def protocol_names() -> list[str]:
    return [name for known in DATA_SETS for name in known.protocols]


def find_data_sets(root: str | Path) -> list[Finding]:
    """The published data sets at `root` or in a folder directly below it."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; give the folder that holds your data sets")
    folders = [root, *sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))]
    found = []
    for known in DATA_SETS:
        for folder in folders:
            parts = known.parts(folder) if not known.own else []
            if parts:
                found.append(Finding(known, folder, parts, known.missing(folder)))
    return found


def open_places(
    source: str | Path,
    *,
    dataset: str | None = None,
    part: str | None = None,
    projection: str | None = None,
    onto: str | None = None,
    wrap_headings: bool = False,
    missing_images: MissingImages = "warn",
    frame: PoseFrame | None = None,
) -> Places:
    """Read places from whatever `source` is: a csv or parquet table, a data set, a COLMAP model, photos.

    part: which part of a data set, e.g. "train_val/london/query". projection: the plane to have the places
    on; metres of an unknown plane are taken to lie there. onto: the plane of a first table, beside which a
    second one is put if its own is known (`Places.on_plane`). wrap_headings: accept headings outside
    [0, 360) in a table; the readers of folders always do, and note it. frame: take position and heading from
    the 6DOF pose, with these axes (strong labels), whatever the table says.
    """
    from samespot.places.table import Places

    if not isinstance(source, str | Path):
        raise InputError(f"{source!r} is not a path; give a table, a folder of photos or a data set")
    source = Path(source)
    if dataset is None and source.is_dir() and part is None and (source / "places.csv").is_file():
        source = source / "places.csv"
    if source.is_dir():
        read = _read_folder(source, dataset, part, missing_images)
        places = read.on_plane(projection, onto=onto)
    elif dataset is not None or part is not None:
        raise InputError(f"{source}: not a folder, so it cannot be a data set with parts")
    else:
        places = Places.read(
            source,
            projection=projection,
            onto=onto,
            wrap_headings=wrap_headings,
            unknown_positions=frame is not None,
            missing_images=missing_images,
        )
    return places if frame is None else placed_by_pose(places, frame)


def as_places(source: Any, *, onto: str | None = None, frame: PoseFrame | None = None, **how: Any) -> Places:
    """Places as they are; anything else is opened (`open_places`)."""
    from samespot.places.table import Places

    if not isinstance(source, Places):
        return open_places(source, onto=onto, frame=frame, **how)
    given = {**how, "from_pose": frame}
    for name in ("dataset", "part", "projection", "wrap_headings", "from_pose"):
        if given.get(name):
            raise InputError(
                f"`{name}` has no effect on places that are already open; give it to `open_places`"
            )
    return source


def refuse_absent(source: Path) -> None:
    """Raise where there is nothing to open; a command asks before it loads torch."""
    if source.exists():
        return
    if source.suffix in (".csv", ".parquet"):
        raise InputError(f"{source}: no such file; {_A_TABLE}")
    raise InputError(
        f"{source}: no such file or folder; give a folder of photos, or a table of places: {_COLUMNS}"
    )


def refuse_no_file(table: Path) -> None:
    """Raise for a table of places that is absent, or a folder."""
    refuse_absent(table)
    if not table.is_file():
        raise InputError(f"{table}: not a plain file; {_A_TABLE}")


_COLUMNS = f"a .csv or .parquet with the columns {', '.join(REQUIRED)}"
_A_TABLE = f"a table of places is {_COLUMNS}"


def refuse_other_suffix(table: Path) -> None:
    """Raise for a file that no table of places is written to."""
    if table.suffix not in (".csv", ".parquet"):
        raise InputError(f"{table}: a table of places is written as .csv or .parquet")


def meta_path(table: Path) -> Path:
    """The file beside a table that says where its photos are and on which plane: places.csv.meta.json."""
    return table.with_name(f"{table.name}.meta.json")


def placed_by_pose(places: Places, frame: PoseFrame) -> Places:
    """The same images with position and heading taken from their 6DOF poses."""
    from samespot.places.pose import ground_pose
    from samespot.places.table import Places

    easting, northing, heading = ground_pose(places.centres, places.quaternions, frame)
    table = places.table.assign(easting=easting, northing=northing, heading=heading)
    return Places(places.root, table, None, places.dropped, places.notes)


def _read_folder(root: Path, dataset: str | None, part: str | None, missing_images: MissingImages) -> Places:
    kinds = [data_set(dataset)] if dataset else list(DATA_SETS)
    for kind in kinds:
        parts = kind.parts(root)
        if not parts:
            continue
        if part is None and len(parts) > 1:
            named = first_few(parts, 4)
            raise InputError(
                f"{root}: {kind.title} with {len(parts)} parts ({named}); choose one with `part`"
            )
        return kind.read(root, parts[0] if part is None else part, missing_images=missing_images)
    if dataset:
        expected = "; ".join(line.strip() for line in kinds[0].layout.strip().splitlines())
        raise InputError(f"{root}: no {kinds[0].title} here; expected: {expected}")
    raise InputError(f"{root}: nothing here that samespot reads; `samespot datasets` lists what it does")


AXES = {
    sign + name: tuple((-1.0 if sign == "-" else 1.0) * float(name == axis) for axis in "xyz")
    for sign in ("", "+", "-")
    for name in "xyz"
}


def pose_frame(forward: str, up: str, north: str) -> PoseFrame:
    """A frame from axis names such as "z" or "-y"."""
    from samespot.places.pose import PoseFrame

    axes: list[Any] = []
    for role, word in (("forward", forward), ("up", up), ("north", north)):
        if word not in AXES:
            raise InputError(f"{role} axis {word!r} is unknown; choose one of x, y, z, -x, -y, -z")
        axes.append(AXES[word])
    if up[-1] == north[-1]:
        raise InputError(f"`up={up}` and `north={north}` are not at right angles; choose two different axes")
    return PoseFrame(*axes)
