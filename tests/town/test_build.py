"""A small town on disk: the same bytes every time, disjoint quarters, truth that agrees with the photos."""

import hashlib
import json

import numpy as np
import pytest
from PIL import Image

from samespot import Places
from samespot.errors import InputError
from samespot.overlap.cloud import read_depth
from samespot.overlap.rules import label_scene
from samespot.town.build import REACH, build_town
from samespot.town.noise import Noise
from samespot.town.overlap import Views, true_overlap
from samespot.town.plan import inside, make_plan
from samespot.town.truth import exact_places, read_description, town_cameras, town_scene

SIZE = (60, 80)
ASKED = {"seed": 5, "visits": 3, "size": SIZE, "photos_per_visit": 70}


def digests(root):
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    return build_town(tmp_path_factory.mktemp("town"), **ASKED)


@pytest.fixture(scope="module")
def views(town):
    return Views.read(town)


def test_the_same_seed_gives_the_same_bytes(town, tmp_path):
    build_town(tmp_path, **ASKED)
    assert digests(tmp_path) == digests(town.root)


def test_a_town_that_is_there_is_not_built_again(town):
    photo = town.images[0]
    before = photo.stat().st_mtime_ns
    assert build_town(town.root, **ASKED).digest() == town.digest()
    assert photo.stat().st_mtime_ns == before


def test_the_table_is_an_ordinary_one(town):
    again = Places.read(town.root / "places.csv", missing_images="error")
    assert len(again) == 3 * 70
    assert again.has_pose
    assert set(again.table["split"]) == {"train", "map", "query"}
    assert again.table.groupby("condition").size().tolist() == [70, 70, 70]
    assert set(again.table.loc[again.table["split"] == "map", "visit"]) == {0}
    with Image.open(again.images[0]) as photo:
        assert photo.size == (SIZE[1], SIZE[0])


def test_train_and_test_share_no_view(town, views):
    part = town.table["split"].to_numpy() == "train"
    pairs = np.array([(a, b) for a in np.flatnonzero(part) for b in np.flatnonzero(~part)])
    assert true_overlap(views, pairs).max() == 0.0


def test_queries_share_views_with_the_map(town, views):
    split = town.table["split"].to_numpy()
    queries, places = np.flatnonzero(split == "query"), np.flatnonzero(split == "map")
    pairs = np.stack(np.meshgrid(queries, places, indexing="ij"), axis=-1).reshape(-1, 2)
    best = true_overlap(views, pairs).reshape(len(queries), -1).max(axis=1)
    assert np.median(best) > 0.3


def test_no_camera_stands_in_a_house(town):
    lots = make_plan(5).lots
    assert not any(inside(town.centres[:, :2], lot.corners).any() for lot in lots)


def test_gps_and_compass_are_off_by_as_much_as_they_should(town):
    error = town.positions - exact_places(town).positions
    error[:, 2] = (error[:, 2] + 180) % 360 - 180
    for visit in range(3):
        mine = error[town.table["visit"] == visit]
        np.testing.assert_allclose(
            mine.std(axis=0), [Noise().gps_photo, Noise().gps_photo, Noise().compass_photo], rtol=0.3
        )
    assert np.abs(error[:, :2]).max() < 5 * (Noise().gps_visit + Noise().gps_photo)


def test_depth_images_are_millimetres_up_to_their_reach(town):
    metres = read_depth(town.root / town.table["depth"].iloc[0])
    assert np.nanmax(metres) <= REACH
    assert np.nanmin(metres) > 0.3
    with Image.open(town.root / town.table["depth"].iloc[0]) as raw:
        assert np.asarray(raw).dtype == np.uint16


def test_the_description_says_what_was_built(town):
    said = read_description(town.root)
    assert (said["seed"], said["size"], len(said["visits"])) == (5, list(SIZE), 3)
    assert len(said["plan"]["lots"]) == len(make_plan(5).lots)
    assert json.loads(json.dumps(said)) == said
    cameras = town_cameras(town.root)
    fov = 2 * np.rad2deg(np.arctan(cameras[1].cx / cameras[1].fx))
    assert np.isclose(fov, town.table.loc[town.table["visit"] == 1, "fov"].iloc[0])


def test_3d_labels_of_the_town_go_with_true_overlap(town, views):
    some = town.select(np.arange(0, len(town), 2))
    labels = label_scene(some, some, town_scene(town, voxel=1.0), occlusion="depth")
    rows = np.arange(0, len(town), 2)
    pairs = [(i, j) for i in range(len(some)) for j in labels.row(i)[0] if i < j]
    iou = np.array([labels.row(i)[1][labels.row(i)[0] == j][0] for i, j in pairs])
    truth = true_overlap(views, [(rows[i], rows[j]) for i, j in pairs])
    assert np.corrcoef(iou, truth)[0, 1] > 0.7


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"visits": 1}, "1 visits: give 2 to 64"),
        ({"size": (8, 80)}, "size 8 x 80"),
        ({"photos_per_visit": 3}, "at least 8"),
    ],
)
def test_what_cannot_be_built_is_refused(tmp_path, wrong, said):
    with pytest.raises(InputError, match=said):
        build_town(tmp_path, **{**ASKED, **wrong})


def test_without_depth_there_is_no_true_overlap(tmp_path):
    small = build_town(tmp_path, 5, 2, size=(24, 32), photos_per_visit=8, depth=False)
    assert "depth" not in small.table
    with pytest.raises(InputError, match="build the town with depth"):
        Views.read(small)
