"""6DOF poses over HTTP: the same as the library's, on a map whose poses are known exactly."""

import io
import logging
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from samespot.maps.map import open_map
from samespot.places.camera import Camera
from samespot.places.pose import PoseFrame, angles_between, pose_columns
from samespot.places.table import Places
from samespot.poses.plane import lying
from samespot.service import decoding
from samespot.service.geopose import geopose, reply, wanted
from tests.maps.test_map import SHIFT, view
from tests.service.conftest import FOV, TURN, stood
from tests.service.test_api import gpp

pytestmark = pytest.mark.usefixtures("one_thread")
JPEG = {"content-type": "image/jpeg"}
FOCAL = 80.0 / np.tan(np.radians(FOV / 2))  # [px] of photos 160 wide
GIVEN = f"160,120,{FOCAL},{FOCAL},80,60"


def query(number=2, film=None):
    """A photo between two of the map; film: [mm] its focal length on 35 mm film, in EXIF beside a GPS position."""
    exif = Image.Exif()
    if film is not None:
        exif.get_ifd(0x8769)[0xA405] = film
        exif.get_ifd(0x8825).update({1: "N", 2: (47.0, 59.0, 13.37), 3: "E", 4: (11.0, 33.0, 7.31)})
    out = io.BytesIO()
    view(number, SHIFT + 5).save(out, "JPEG", quality=95, exif=exif)
    return out.getvalue()


@pytest.fixture(scope="module")
def client(serving, posed):
    with serving(maps=(posed, "map")) as started:
        yield started


@pytest.fixture(scope="module")
def map(posed):
    return open_map(posed, device="cpu")


def ask(client, encoded, **params):
    return client.post("/v1/locate", content=encoded, headers=JPEG, params=params)


def test_a_pose_is_where_the_camera_was(client):
    pose = ask(client, query(), pose=True, camera=GIVEN).json()["pose"]
    assert np.linalg.norm(pose["centre"] - stood(2, SHIFT + 5)) < 0.15
    assert angles_between([pose["quaternion"]], [TURN.as_quat(scalar_first=True)])[0] < 1.0
    assert pose["fov"] == pytest.approx(FOV)
    assert not pose["fov_estimated"]


def test_the_camera_in_exif_counts_as_it_does_for_the_library(client, map):
    encoded = query(film=36)
    told = ask(client, encoded, pose=True).json()["pose"]
    ours = map.locate(encoded, pose=True).to_dict()["pose"]
    assert told["fov"] == pytest.approx(2 * np.degrees(np.arctan(80 / (36 / np.hypot(36, 24) * 200))))
    assert not told["fov_estimated"]
    assert (told["inliers"], told["matches"]) == (ours["inliers"], ours["matches"])
    for name in ("centre", "quaternion", "fov"):
        assert told[name] == pytest.approx(ours[name], abs=1e-6)
    given = ask(client, encoded, pose=True, camera=GIVEN).json()["pose"]
    assert given["fov"] == pytest.approx(FOV)  # the user's word is before that of the file
    plain = ask(client, query(), pose=True).json()
    assert plain["pose"] is None or plain["pose"]["fov_estimated"]


def test_only_the_camera_leaves_the_process_that_reads_exif(caplog, client):
    encoded = query(film=30)
    pixels, looked_at, camera = decoding._decoded(encoded, "photo", (96, 128), 10**6)
    assert isinstance(pixels, np.ndarray)
    assert isinstance(looked_at, np.ndarray)
    assert camera == Camera.of_focal(160, 120, 30 / np.hypot(36, 24) * 200)
    assert decoding._decoded(query(), "photo", (96, 128), 10**6)[2] is None
    with caplog.at_level(logging.DEBUG):
        told = ask(client, encoded, pose=True)
    assert told.status_code == 200
    for word in ("13.37", "7.31", "47.98", "11.55"):
        assert word not in caplog.text


def test_no_pose_says_why(client, map):
    assert ask(client, query()).json()["pose"] is None
    assert ask(client, query()).json()["no_pose"] is None  # nobody asked
    lost = ask(client, query(11), pose=True, camera=GIVEN).json()
    assert lost["pose"] is None
    assert "keypoints" in lost["no_pose"]
    flat = ask(client, query(), pose=True, map="map").json()
    assert flat["no_pose"].startswith("this map does not know its keypoints in space")


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"pose": True, "camera": "160,120"}, "six numbers"),
        ({"pose": True, "camera": "0.5,120,100,100,80,60"}, "six numbers"),
        ({"pose": True, "camera": "160,120,nan,100,80,60"}, "six numbers"),
        ({"pose": True, "camera": "1," * 200}, "camera"),
        ({"pose": True, "pose_from": 21}, "pose_from"),
        ({"pose": True, "pose_from": 0}, "pose_from"),
        ({"camera": GIVEN}, "without pose"),
        ({"pose": True, "verify": False}, "leave verify on"),
    ],
)
def test_what_makes_no_sense_is_told_before_the_photo_is_read(client, params, word):
    told = ask(client, b"not a photo", **params)
    assert told.status_code == 422
    assert word in told.json()["error"]["message"]


@pytest.mark.parametrize(
    "camera", ["1,1,1e-300,1e300,1e308,-1e308", "1e9,1,5,5,0,0", f"{GIVEN},1e9,-1e9,1e5,1e5"]
)
def test_a_camera_that_never_was_gives_no_pose_and_no_error(client, camera):
    told = ask(client, query(), pose=True, camera=camera)
    assert told.status_code == 200
    assert told.json()["pose"] is None


def test_a_map_tells_whether_it_gives_poses(client):
    axes = {"east": [1.0, 0.0, 0.0], "north": [0.0, 1.0, 0.0]}
    assert client.get("/v1/map").json()["poses"] == {"from": "depth", "axes": axes}
    assert client.get("/v1/map", params={"map": "map"}).json()["poses"] is None


# ---- how poses lie on the plane, and GeoPose ----


def table(frame, noise=0.0, level=False, seed=0):
    dice = np.random.default_rng(seed)
    centres = dice.uniform(-40, 40, (30, 3)) * (0 if level else 1) + np.outer(np.arange(30.0), frame.north)
    turns = Rotation.from_rotvec(dice.normal(0, 0 if level else 1, (30, 3))).as_quat(scalar_first=True)
    if level:  # all on one line, looking along it
        turns = np.tile(Rotation.from_euler("X", -90, degrees=True).as_quat(scalar_first=True), (30, 1))
    columns = {"image": [f"{row}.jpg" for row in range(30)], **pose_columns(centres, turns, frame)}
    columns["easting"] = columns["easting"] + dice.normal(0, noise, 30)
    return Places.build(".", columns, missing_images="ignore")


@pytest.mark.parametrize("frame", [PoseFrame(), PoseFrame(up=(0.0, -1.0, 0.0), north=(0.0, 0.0, 1.0))])
def test_the_photos_tell_how_poses_lie_on_the_plane(frame):
    found = lying(table(frame))
    assert (found.frame, found.exact) == (frame, True)
    noisy = lying(table(frame, noise=2.0))
    assert (noisy.frame, noisy.exact) == (frame, False)
    assert lying(table(frame, noise=60.0)) is None
    bare = table(frame)
    assert lying(replace(bare, table=bare.table.drop(columns="tx"))) is None
    assert lying(replace(bare, table=bare.table.assign(heading=np.nan))) is None


def test_up_is_not_guessed():
    assert not lying(table(PoseFrame(), level=True)).exact  # up and down explain it as well


def test_a_geopose_is_turned_as_the_camera_is(client, map):
    answer = map.locate(query(), pose=True, camera=GIVEN)
    plain = geopose(answer, map, "ypr")
    assert (plain["angles"]["pitch"], plain["angles"]["roll"]) == (0.0, 0.0)  # nobody knows how sure it is
    sure = replace(answer, pose=replace(answer.pose, probability=0.9))
    told = geopose(sure, map, "quaternion")
    turned = Rotation.from_quat([told["quaternion"][name] for name in "xyzw"])
    ahead, up = turned.apply([[1, 0, 0], [0, 0, 1]])
    true_north = Rotation.from_euler("Z", -1.9, degrees=True)  # how far the grid is turned in Munich
    expected = true_north.apply(TURN.apply([[0, 0, 1], [0, -1, 0]]))
    assert np.degrees(np.arccos(ahead @ expected[0])) < 1.0
    assert np.degrees(np.arccos(up @ expected[1])) < 1.0
    angles = geopose(sure, map, "ypr")["angles"]
    again = Rotation.from_euler("ZYX", [angles[name] for name in ("yaw", "pitch", "roll")], degrees=True)
    assert (again.inv() * turned).magnitude() == pytest.approx(0, abs=1e-9)
    assert angles["pitch"] == pytest.approx(-9.98, abs=1)  # it looks up
    metres = 111_200 * (told["position"]["lat"] - plain["position"]["lat"])
    east, north, _ = np.array(answer.pose.centre) - (answer.position.easting, answer.position.northing, 0)
    assert metres == pytest.approx(north, abs=0.05 + 0.05 * abs(east))
    for other in (replace(sure, pose=replace(sure.pose, probability=0.4)), replace(sure, radius=1e-3)):
        assert geopose(other, map, "ypr") == plain


def test_the_protocol_asks_for_poses_where_they_would_be_told(client, map, street):
    assert wanted(map) == {"pose": True}
    assert wanted(open_map(street / "map", device="cpu")) == {}
    from samespot.service.geopose import GeoPoseRequest

    answer = map.locate(query(), pose=True, camera=GIVEN)
    asked = GeoPoseRequest.model_validate(gpp(query()))
    sure = replace(answer, found=True, pose=replace(answer.pose, probability=0.9, within=(0.3, 4.0)))
    assert reply(asked, sure, map)["accuracy"] == {"position": 0.3, "orientation": 4.0}
    assert client.post("/geopose", json=gpp(query(film=30))).status_code == 200
