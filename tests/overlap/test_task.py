"""Presets and requests: the paper's labellings on miniature trees in the real layout."""

import json

import numpy as np
import pytest
from PIL import Image

from samespot import InputError, Places, label_pairs, sector_overlap
from samespot.overlap.request import LabelRequest, label_tasks, parse_pair
from samespot.overlap.task import Points, Sectors, Within, parse_within, preset_tasks, run_task
from samespot.places.pose import PoseFrame


def write_msls(root, city, role, poses):
    folder = root / "train_val" / city / role
    (folder / "images").mkdir(parents=True)
    keys = [f"{role[0]}{city}{i}" for i in range(len(poses))]
    raw = ["", "key", "lon", "lat", "ca", "captured_at", "pano"]
    lines = [",".join(raw)]
    post = [",key,easting,northing,unique_cluster,control_panel,night,view_direction"]
    seq, sub = [",key,sequence_key,frame_number"], [",all,s2w,w2s,o2n,n2o,d2n,n2d"]
    for i, (key, (x, y, heading)) in enumerate(zip(keys, poses, strict=True)):
        lines.append(f"{i},{key},12.5,55.7,{heading},2019-01-01,{i == 1}")
        post.append(f"{i},{key},{x},{y},0,False,False,Forward")
        seq.append(f"{i},{key},s,{i}")
        sub.append(f"{i},True,False,False,False,False,False,False")
        Image.new("RGB", (8, 8)).save(folder / "images" / f"{key}.jpg")
    for name, content in (("raw", lines), ("postprocessed", post), ("seq_info", seq), ("subtask_index", sub)):
        (folder / f"{name}.csv").write_text("\n".join(content) + "\n")


def test_msls_is_labelled_query_against_map_city_by_city(tmp_path):
    for city in ("cph", "london"):
        write_msls(tmp_path, city, "query", [(0, 0, 0), (5, 0, 10)])
        write_msls(tmp_path, city, "database", [(0, 0, 40), (25, 0, 0), (0, 500, 0)])
    tasks = list(preset_tasks("msls", tmp_path))
    assert [t.name for t in tasks] == ["cph", "london"]
    labels = run_task(tasks[1]).labels
    # 50/90 for 40 degrees on the spot, 0.4497 for 25 m sideways, nothing 500 m away; panoramas count as sectors
    np.testing.assert_allclose(labels.dense()[0], [50 / 90, 0.44965, 0], atol=5e-5)
    assert labels.meta["radius"] == 50.0
    assert labels.meta["panoramas"] == "sector"


def test_tb_places_is_all_pairs_of_w17_at_3_5_metres(tmp_path):
    (tmp_path / "W17").mkdir()
    names = [f"W17/{i}.png" for i in range(3)]
    for name in names:
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    level = [-np.sqrt(0.5), 0, 0, np.sqrt(0.5)]  # x, y, z, w: the optical axis looks along +y
    poses = [[0, 0, 1, *level], [1.75, 0, 1, *level], [9, 9, 1, *level]]
    (tmp_path / "W17.json").write_text(json.dumps({"im_prefix": "", "im_paths": names, "poses": poses}))
    (task,) = preset_tasks("tb-places", tmp_path)
    done = run_task(task)
    assert task.rule == Sectors(90.0, 3.5)
    # half a radius sideways is the paper's 25 m of 50 m
    np.testing.assert_allclose(done.labels.dense()[0], [1, 0.44965, 0], atol=5e-5)
    assert done.summary()["labels"]["same_table"] is True


def write_scene(root, scene="heads"):
    """Two training frames and a test frame before a flat wall 2 m away, in 7Scenes' layout."""
    for sequence, frames in (("seq-01", 2), ("seq-02", 1)):
        folder = root / scene / sequence
        folder.mkdir(parents=True)
        for i in range(frames):
            pose = np.eye(4)
            pose[0, 3] = 0.5 * i  # half a metre to the right
            np.savetxt(folder / f"frame-{i:06d}.pose.txt", pose)
            Image.new("RGB", (640, 480)).save(folder / f"frame-{i:06d}.color.png")
            wall = np.full((480, 640), 2000, np.uint16)
            Image.fromarray(wall).save(folder / f"frame-{i:06d}.depth.png")
    (root / scene / "TrainSplit.txt").write_text("sequence1\n")
    (root / scene / "TestSplit.txt").write_text("sequence2\n")


def test_7scenes_is_train_against_train_and_test_against_train(tmp_path):
    write_scene(tmp_path)
    train, test = preset_tasks("7scenes", tmp_path)
    assert [train.name, test.name] == ["heads-train", "heads-test"]
    first, second = run_task(train), run_task(test)
    # at 2 m a view is 640 / 585 · 2 = 2.188 m wide; moved by 0.5 m two of them share 1.688 of 2.688
    np.testing.assert_allclose(first.labels.dense(), [[1, 0.628], [0.628, 1]], atol=0.01)
    np.testing.assert_allclose(second.labels.dense(), [[1, 0.628]], atol=0.01)
    assert first.scene is second.scene  # the cloud is fused once
    assert second.labels.meta["kind"] == "3D field of view"
    assert isinstance(train.rule, Points)


@pytest.mark.parametrize("occlusion", ["none", "depth", "cloud"])
def test_a_wall_hides_nothing_of_itself(tmp_path, occlusion):
    write_scene(tmp_path)
    (task,) = label_tasks(LabelRequest(tmp_path, kind="3d", part="heads/train", occlusion=occlusion))
    np.testing.assert_allclose(run_task(task).labels.dense(), [[1, 0.628], [0.628, 1]], atol=0.012)


def test_the_campus_preset_needs_its_splits(tmp_path):
    (tmp_path / "places.csv").write_text("image,easting,northing,heading\na,0,0,0\n")
    with pytest.raises(InputError, match="needs a column split with train, query and map"):
        list(preset_tasks("campus", tmp_path))


def test_strong_labels_come_from_the_pose(tmp_path):
    """The compass column is wrong on purpose; the pose looks north (+y) from (0, 0) and from (25, 0)."""
    half = np.sqrt(0.5)
    table = {"image": ["a", "b"], "easting": [0.0, 900.0], "northing": [0.0, 0.0], "heading": [123.0, 7.0],
             "tx": [0.0, 25.0], "ty": 0.0, "tz": 1.5, "qw": half, "qx": -half, "qy": 0.0, "qz": 0.0}  # fmt: skip
    path = Places.build(tmp_path, table, missing_images="ignore").save(tmp_path / "p.csv")
    (task,) = label_tasks(LabelRequest(path, axes=("z", "z", "y")))
    np.testing.assert_allclose(task.queries.positions, [[0, 0, 0], [25, 0, 0]], atol=1e-9)
    assert run_task(task).labels.dense()[0, 1] == pytest.approx(0.44965, abs=5e-5)
    # with north along x, the same cameras look west, one 25 m to the left of the other
    (task,) = label_tasks(LabelRequest(path, axes=("z", "z", "x")))
    np.testing.assert_allclose(task.queries.positions, [[0, 0, 270], [0, 25, 270]], atol=1e-9)
    assert PoseFrame().east().tolist() == [1, 0, 0]


def test_the_map_follows_the_projection_of_the_queries(tmp_path):
    """Queries lie in one UTM zone, the map across its border: both must land on one plane."""
    (tmp_path / "q.csv").write_text(
        "image,latitude,longitude,heading\na,52.0,5.99990,90\nb,52.0,5.99995,90\n"
    )
    (tmp_path / "m.csv").write_text("image,latitude,longitude,heading\nc,52.0,5.9998,90\nd,52.0,6.0001,90\n")
    (task,) = label_tasks(LabelRequest(tmp_path / "q.csv", tmp_path / "m.csv"))
    assert task.queries.projection == task.places.projection == "EPSG:32631"
    assert run_task(task).labels.dense().min() > 0.4  # all within 14 m along one street


def test_a_request_gives_the_same_as_the_library(tmp_path):
    rng = np.random.default_rng(1)
    columns = {"image": [f"{i}" for i in range(30)], "easting": rng.uniform(0, 90, 30),
               "northing": rng.uniform(0, 90, 30), "heading": rng.uniform(0, 360, 30)}  # fmt: skip
    path = Places.build(tmp_path, columns, missing_images="ignore").save(tmp_path / "p.csv")
    (task,) = label_tasks(LabelRequest(path, theta=70, radius=40, measure="iou"))
    places = Places.read(path)
    np.testing.assert_array_equal(
        run_task(task).labels.dense(), label_pairs(places, places, 70, 40, "iou").dense()
    )
    every = sector_overlap(places.positions[:, None], places.positions, 70, 40, "iou")
    assert run_task(task).summary()["nonzero"] == np.count_nonzero(every)


def test_words_are_parsed():
    assert parse_within("25m,40deg") == Within(25.0, 40.0)
    assert parse_within("5m") == Within(5.0, None)
    assert parse_pair("3,14") == (3, 14)
    assert parse_pair(None) is None
    with pytest.raises(InputError):
        parse_within("25 km")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "4d"}, "--kind '4d' is unknown; choose one of 2d, 3d"),
        ({"unknown_heading": "guess"}, "--unknown-heading 'guess' is unknown; choose one of error, disk"),
        ({"kind": "3d", "cloud": "a.ply"}, "--cloud also needs --camera"),
        ({"kind": "3d", "cloud": "a.ply", "camera": "640,480"}, "give six numbers"),
    ],
)
def test_bad_options_are_named(tmp_path, options, words):
    path = tmp_path / "p.csv"
    path.write_text("image,easting,northing,heading\na,0,0,0\n")
    with pytest.raises(InputError) as error:
        list(label_tasks(LabelRequest(path, **options)))
    assert words in str(error.value)
