"""Presets: the paper's labellings on miniature trees in the real layout."""

import json

import numpy as np
import pytest
from PIL import Image

from samespot import InputError, Places
from samespot.overlap import task as task_module
from samespot.overlap.rules import Points, Sectors, Within
from samespot.overlap.task import LabelTask, preset_tasks, run_task


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


def test_7scenes_is_train_against_train_and_test_against_train(wall_scene):
    train, test = preset_tasks("7scenes", wall_scene)
    assert [train.name, test.name] == ["heads-train", "heads-test"]
    first, second = run_task(train), run_task(test)
    # at 2 m a view is 640 / 585 · 2 = 2.188 m wide; moved by 0.5 m two of them share 1.688 of 2.688
    np.testing.assert_allclose(first.labels.dense(), [[1, 0.628], [0.628, 1]], atol=0.01)
    np.testing.assert_allclose(second.labels.dense(), [[1, 0.628]], atol=0.01)
    assert first.scene is second.scene  # the cloud is fused once
    assert second.labels.meta["kind"] == "3D field of view"
    assert isinstance(train.rule, Points)


def test_the_campus_preset_needs_its_splits(tmp_path):
    (tmp_path / "places.csv").write_text("image,easting,northing,heading\na,0,0,0\n")
    with pytest.raises(InputError, match="column split says train, map and query"):
        list(preset_tasks("campus", tmp_path))


def street(root, n, name="p"):
    table = {
        "image": [f"{name}{i}" for i in range(n)],
        "easting": np.arange(n) * 10.0,
        "northing": 0.0,
        "heading": 90.0,
    }
    return Places.build(root, table, missing_images="ignore")


def test_pairs_of_an_image_with_itself_are_counted_apart(tmp_path):
    places = street(tmp_path, 7)
    summary = run_task(LabelTask("street", places, places, Sectors())).summary()
    assert summary["self pairs"] == 7
    other = run_task(LabelTask("street", street(tmp_path, 5, "q"), places, Sectors())).summary()
    assert other["self pairs"] == 0


@pytest.mark.parametrize("rule", [Sectors(), Within()])
def test_the_time_is_that_of_labelling_and_not_of_loading_kernels(tmp_path, monkeypatch, rule):
    clock = iter(range(100, 1000, 50))
    order = []
    monkeypatch.setattr(task_module.time, "perf_counter", lambda: order.append("clock") or next(clock))
    label = type(rule).label
    monkeypatch.setattr(
        type(rule), "label", lambda self, q, p, **how: order.append(len(q)) or label(self, q, p, **how)
    )
    places = street(tmp_path, 20)
    summary = run_task(LabelTask("street", places, places, rule)).summary()
    assert order == [1, "clock", 20, "clock"]  # one camera first, then the clock starts
    assert summary["seconds"] == 50
    assert summary["pairs per second"] == 400 / 50
    assert summary["nonzero pairs per second"] == round(summary["nonzero"] / 50)
    assert summary["nonzero"] < summary["pairs"]


def test_fusing_a_scene_is_not_labelling_and_a_taken_folder_is_said_before_it(wall_scene):
    train, _ = preset_tasks("7scenes", wall_scene)
    taken = wall_scene / "taken"
    taken.mkdir()
    (taken / "thesis.txt").touch()
    asked = []
    with pytest.raises(InputError, match="not a label folder"):
        run_task(LabelTask("a", train.queries, train.places, Points(asked.append)), taken)
    assert asked == []
    summary = run_task(train).summary()
    assert summary["scene seconds"] > 0
