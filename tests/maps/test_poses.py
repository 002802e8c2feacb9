"""A map of a town with exact poses: where the camera stood, how sure that is, and why there is no pose."""

import io
import json

import numpy as np
import pytest
from PIL import Image

import samespot
from samespot.maps.build import update_map
from samespot.places.camera import Camera, camera_of
from samespot.places.pose import POSE, angles_between
from samespot.places.table import Places
from samespot.town.build import build_town
from tests.maps.test_map import known_trust

pytestmark = pytest.mark.usefixtures("one_thread")
WITHIN = (0.5, 5.0)  # [m], [deg]


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """Photos of two visits, and a map of the first one's test quarter."""
    folder = tmp_path_factory.mktemp("poses")
    photos = build_town(folder / "town", seed=5, visits=2, size=(120, 160), photos_per_visit=90)
    return folder, photos.of_split("map"), photos.of_split("query")


@pytest.fixture(scope="module")
def build():
    """Builds a map that does not ask itself: that takes long, and is tested below and elsewhere."""
    from samespot.maps import build

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build._Work, "_calibration", lambda self, generation: known_trust().to_dict())
        yield samespot.build_map


@pytest.fixture(scope="module")
def there(town, build):
    folder, places, _ = town
    return build(places, out=folder / "map", keypoints=1024)


def words(camera):
    return ",".join(
        str(number) for number in (camera.width, camera.height, camera.fx, camera.fy, camera.cx, camera.cy)
    )


def errors(answer, places, row):
    off = np.linalg.norm(np.array(answer.pose.centre) - places.centres[row])
    turned = angles_between(np.array(answer.pose.quaternion)[None], places.quaternions[row][None])[0]
    return off, turned


def test_poses_of_another_visit(town, there):
    """Those that many keypoints agree with are right, with few exceptions."""
    _, _, queries = town
    right, agreed = [], []
    for row in range(0, len(queries), 7):
        camera = camera_of(queries.table, row, (120, 160))
        answer = there.locate(queries.images[row], pose=True, camera=words(camera))
        if answer.pose is None:
            assert "keypoints" in answer.no_pose
            continue
        off, turned = errors(answer, queries, row)
        right.append(off <= WITHIN[0] and turned <= WITHIN[1])
        agreed.append(answer.pose.inliers)
        assert answer.pose.probability is None
        assert answer.pose.within == (0.02 * there.within, 5.0)
        assert not answer.pose.fov_estimated
        assert answer.pose.fov == pytest.approx(queries.table["fov"].iloc[row])
    right, agreed = np.array(right), np.array(agreed)
    assert right.sum() >= 2
    assert right[agreed >= 60].mean() >= 0.7
    assert right[agreed < 30].mean() < 0.5


def test_a_photo_of_the_map_stands_where_it_stands(town, there):
    _, places, _ = town
    camera = camera_of(places.table, 3, (120, 160))
    answer = there.locate(places.images[3], pose=True, camera=words(camera))
    off, turned = errors(answer, places, 3)
    assert off < 0.02
    assert turned < 0.1
    assert answer.pose.deviation < 0.05
    told = answer.to_dict()["pose"]
    assert len(told["covariance"]) == 6
    assert told["inliers"] > 300


def test_an_unknown_focal_length_is_found_with_the_pose(town, there):
    _, places, _ = town
    answer = there.locate(places.images[3], pose=True)
    assert answer.pose.fov_estimated
    assert answer.pose.fov == pytest.approx(places.table["fov"].iloc[3], abs=2.0)
    assert errors(answer, places, 3)[0] < 0.5


def test_the_focal_length_comes_from_exif(town, there):
    _, places, _ = town
    whole, exif = Image.open(places.images[3]), Image.Exif()
    focal = camera_of(places.table, 3, (120, 160)).fx
    exif.get_ifd(0x8769)[0xA405] = round(focal / 200 * np.hypot(36, 24))
    out = io.BytesIO()
    whole.save(out, "JPEG", quality=95, exif=exif)
    answer = there.locate(out.getvalue(), pose=True)
    assert not answer.pose.fov_estimated
    assert errors(answer, places, 3)[0] < 1.0


def test_a_camera_counts_at_any_size_and_for_the_position_too(town, there):
    """EXIF data are of the whole photo, keypoints of a smaller one."""
    _, _, queries = town
    camera = camera_of(queries.table, 0, (120, 160))
    small, large = (
        there.locate(queries.images[0], pose=True, camera=words(one))
        for one in (camera, camera.scaled(1200, 1600))
    )
    assert large.position.easting == pytest.approx(small.position.easting, abs=1e-3)
    assert large.heading == pytest.approx(small.heading, abs=1e-3)
    other = there.locate(queries.images[0], pose=True, camera=words(Camera.of_focal(160, 120, 400.0)))
    assert other.heading != pytest.approx(small.heading, abs=0.01)


def test_a_wrong_focal_length_explains_less(town, there):
    _, places, _ = town
    wrong = there.locate(places.images[3], pose=True, camera=words(Camera.of_focal(160, 120, 600.0)))
    right = there.locate(places.images[3], pose=True, camera=words(camera_of(places.table, 3, (120, 160))))
    assert wrong.pose is None or wrong.pose.inliers < 0.8 * right.pose.inliers


def test_noise_and_a_mirrored_photo_have_no_pose(town, there):
    _, places, _ = town
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    mirrored = np.ascontiguousarray(np.asarray(Image.open(places.images[3]).convert("RGB"))[:, ::-1])
    for photo in (noise, mirrored):
        answer = there.locate(photo, pose=True, camera="160,120,130,130,80,60")
        assert answer.pose is None
        assert "agree" in answer.no_pose


def test_a_map_learns_how_sure_its_poses_are(town, there):
    """From photos that are left out of it and photos whose whole surroundings are: these are wrong by what is known."""
    from samespot.maps.posing import PoseTrust

    dice = np.random.default_rng(0)
    evidence = np.concatenate([dice.normal(2, 1, (100, 5)), dice.normal(0, 1, (100, 5))])
    trust = PoseTrust.fit(evidence, np.arange(200) < 100, WITHIN)
    again = PoseTrust.from_dict(json.loads(json.dumps(trust.to_dict())))
    assert again(np.full(5, 3.0)) == trust(np.full(5, 3.0)) > 0.95
    assert trust(np.full(5, -1.0)) < 0.05
    with pytest.raises(samespot.InputError, match="build the map again"):
        PoseTrust.from_dict({**trust.to_dict(), "slopes": []})
    assert trust.facts["ece"] < 0.1
    assert PoseTrust.fit(evidence[:110], np.arange(110) < 100, WITHIN) is None
    answers = ask(there, town[1], [2, 9, 16])
    assert (answers["asked"], answers["calibration"]) == (3, None)
    assert answers["right"] == 3  # nothing was left out, so each found itself
    assert answers["median [m]"] < 0.05


def ask(there, places, rows):
    from samespot.maps.posing import Poser, calibrate_poses
    from samespot.progress import silent

    seen = [there.look(places.images[row]) for row in rows]
    found = [there.candidates(one) for one in seen]
    cameras = [camera_of(places.table, row, (120, 160)) for row in rows]
    keypoints = [one.keypoints for one in seen]
    poser = Poser.of(there.generation, None, WITHIN)
    return calibrate_poses(poser, rows, keypoints, cameras, [found], WITHIN, silent)


def test_what_the_map_says_of_itself(there):
    geometry = there.meta["geometry"]
    assert geometry["kind"] == "depth"
    assert geometry["photos"] == len(there)
    assert there.gives_poses


def test_points_are_kept_when_the_map_is_indexed_again(town, build, monkeypatch):
    from samespot.overlap import cloud

    folder, places, _ = town
    read = []
    whole = cloud.read_depth
    monkeypatch.setattr(cloud, "read_depth", lambda path: read.append(path) or whole(path))
    other = folder / "again"
    build(places.select(np.arange(10)), out=other)
    assert len(read) == 10
    built = update_map(places.select(np.arange(12)), other)
    assert len(read) == 12
    points = built.generation.points(3)
    assert points.shape == (len(built.generation.keypoints(3)), 3)
    assert np.isfinite(points[:, 2]).mean() > 0.3


def test_without_depth_keypoints_are_triangulated(town, build):
    pytest.importorskip("pycolmap", reason="needs samespot[pose]")
    folder, places, _ = town
    bare = Places(places.root, places.table.drop(columns="depth"))
    there = build(bare, out=folder / "bare")
    assert there.meta["geometry"]["kind"] == "triangulate"


def test_only_what_rests_on_a_change_is_made_again(town, build, monkeypatch):
    """Another engine needs no new points and no new whitening, other dims no new points."""
    pytest.importorskip("pycolmap", reason="needs samespot[pose]")
    from samespot.maps import build as module
    from samespot.poses import triangulation

    made = []

    def counted(where, name):
        whole = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *given: made.append(name) or whole(*given))

    folder, places, _ = town
    table = places.table.drop(columns="depth").iloc[:12]
    out, wide = folder / "parts", {"dims": 16, "geometry": "triangulate"}
    first = build(Places(places.root, table), out=out, **wide).generation
    counted(triangulation, "triangulated")
    counted(module, "whitening_for")
    again = update_map(None, out, engine="hnsw").generation
    assert made == []
    for row in range(len(table)):
        np.testing.assert_array_equal(again.points(row), first.points(row))
    np.testing.assert_array_equal(again.vectors, first.vectors)
    assert again.whitening.digest() == first.whitening.digest()
    without = update_map(Places(places.root, table), out, geometry="none").generation
    assert without.meta["engine"] == again.meta["engine"]
    assert made == []
    update_map(Places(places.root, table), out, geometry="triangulate")
    assert made == ["triangulated"]
    made.clear()
    assert again.meta["calibrated"]["generation"] == 1
    moved = update_map(Places(places.root, table.assign(tz=table["tz"] + 0.1)), out).generation
    assert moved.meta["calibrated"]["generation"] == moved.number  # what it learned of poses is of others
    assert made == ["whitening_for", "triangulated"]
    made.clear()
    update_map(Places(places.root, table.iloc[:11]), out)
    assert made == ["whitening_for", "triangulated"]
    update_map(None, out, engine="exact", dims=8)
    assert made == ["whitening_for", "triangulated", "whitening_for"]


@pytest.mark.parametrize(
    ("gone", "options", "why"),
    [
        (POSE, {}, "no 6DOF poses"),
        (("fov",), {}, "cameras of its photos are not known"),
        ((), {"geometry": "none"}, "asked not to"),
        ((), {"verify": False}, "keeps no local features"),
    ],
)
def test_a_map_without_geometry_says_why(town, build, tmp_path, gone, options, why):
    _, places, _ = town
    some = places.select(np.arange(12))
    bare = Places(some.root, some.table.drop(columns=list(gone)))
    there = build(bare, out=tmp_path / "map", **options)
    assert not there.gives_poses
    if options.get("verify", True):
        answer = there.locate(places.images[3], pose=True)
        assert answer.pose is None
        assert why in answer.no_pose
    assert why in there.meta["geometry"]["why"]


def test_options_that_make_no_sense(town, there, tmp_path):
    _, places, _ = town
    with pytest.raises(samespot.InputError, match="leave `verify` on"):
        there.locate(places.images[0], pose=True, verify=False)
    with pytest.raises(samespot.InputError, match="give six numbers"):
        there.locate(places.images[0], pose=True, camera="3,4")
    bare = Places(places.root, places.table.drop(columns=list(POSE)))
    with pytest.raises(samespot.InputError, match="no 6DOF poses"):
        samespot.build_map(bare, out=tmp_path / "map", geometry="depth")
