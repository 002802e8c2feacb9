"""A small map with the real network and the real local features, behind a service in this process."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

import samespot
from samespot.places.pose import PoseFrame, pose_columns
from samespot.places.table import Places
from samespot.service.app import create_app
from samespot.service.options import ServeOptions
from tests.maps.test_map import SCENES, SHIFT, VIEWS, known_trust, view

NORTH = 1e-5  # [deg] about a metre


@pytest.fixture(scope="session")
def street(tmp_path_factory):
    """A folder with the maps `map` (with degrees) and `flat` (metres alone); queries of all scenes and two others."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "photos").mkdir()
    columns = {"image": [], "latitude": [], "longitude": [], "heading": [], "altitude": [], "time": []}
    for number in range(SCENES):
        for at in range(VIEWS):
            name = f"{number:02d}-{at}.png"
            view(number, SHIFT * at).save(folder / "photos" / name)
            row = (
                name,
                48.0 + 2 * NORTH * at,
                11.0 + 55 * NORTH * number,
                90.0 + 5 * at,
                500.0 + number,
                60.0 * at,
            )
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    for number in range(SCENES + 2):
        view(number, SHIFT + 5).save(folder / f"query{number:02d}.png")
    placed = Places.build(folder / "photos", columns, from_degrees=True)
    flat = {name: columns[name] for name in ("image", "heading")}
    flat |= {
        "easting": 40.0 * np.repeat(np.arange(SCENES), VIEWS),
        "northing": np.tile(2.0 * np.arange(VIEWS), SCENES),
    }
    with pytest.MonkeyPatch.context() as patch:
        from samespot.maps import build

        patch.setattr(build._Work, "_calibration", lambda self, generation: known_trust().to_dict())
        samespot.build_map(placed, out=folder / "map", within=15.0)
        samespot.build_map(Places.build(folder / "photos", flat), out=folder / "flat", within=15.0)
    return folder


FOV, DEPTH, PER_PIXEL = 60.0, 10.0, 10.0 * 2 * np.tan(np.radians(30.0)) / 160  # [deg], [m], [m] on the wall
TURN = Rotation.from_euler("ZYX", [-30.0, 4.0, -80.0], degrees=True)  # of cameras that are not level
CORNER = np.array([690000.0, 5335000.0, 520.0])


def stood(number, shift):
    """(3,) where a camera stood that sees a scene so far shifted: all look the same way, each at a wall of its own."""
    return CORNER + np.array([40.0 * number, 0.0, 0.0]) + TURN.apply([PER_PIXEL * shift, 0.0, 0.0])


@pytest.fixture(scope="session")
def posed(tmp_path_factory):
    """A folder with the map `posed`, which gives poses, and whose positions are those of its poses."""
    folder = tmp_path_factory.mktemp("posed")
    names = [(number, at) for number in range(4) for at in range(VIEWS)]
    for number, at in names:
        view(number, SHIFT * at).save(folder / f"{number:02d}-{at}.png")
    Image.fromarray(np.full((120, 160), 1000 * DEPTH, dtype=np.uint16)).save(folder / "wall-depth.png")
    centres = np.array([stood(number, SHIFT * at) for number, at in names])
    turns = np.tile(TURN.as_quat(scalar_first=True), (len(names), 1))
    columns = {
        "image": [f"{number:02d}-{at}.png" for number, at in names],
        "depth": "wall-depth.png",
        "fov": FOV,
    }
    columns |= pose_columns(centres, turns, PoseFrame())
    with pytest.MonkeyPatch.context() as patch:
        from samespot.maps import build

        patch.setattr(build._Work, "_calibration", lambda self, generation: known_trust().to_dict())
        places = Places.build(folder, columns, projection="EPSG:32632")
        samespot.build_map(places, out=folder / "posed", within=15.0, geometry="depth")
    return folder / "posed"


@pytest.fixture(scope="session")
def serving(street):
    """Starts a service with these options in this process: a client to ask it with."""
    from contextlib import contextmanager

    from starlette.testclient import TestClient

    @contextmanager
    def start(maps=("map", "flat"), **options):
        words = [f"{Path(name).name}={street / name}" for name in maps]  # of the street, or anywhere
        app = create_app(ServeOptions(maps=words, **options))
        with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
            yield client

    return start


@pytest.fixture(scope="module")
def client(serving):
    with serving() as started:
        yield started


@pytest.fixture(scope="session")
def photo(street):
    """The bytes of a query of a scene."""
    return lambda number: (street / f"query{number:02d}.png").read_bytes()


PNG = {"content-type": "image/png"}
