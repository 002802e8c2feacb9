"""Scenes for 3D labels: which frames make the cloud, and what the labels say about it."""

import json

import numpy as np
import pytest
from PIL import Image

from samespot import InputError, Places
from samespot.overlap.cloud import PointCloud
from samespot.overlap.rules import label_scene
from samespot.overlap.scene import Scene, colmap_scene, depth_scene
from samespot.places.camera import Camera

CAMERA = Camera(8, 6, 8.0, 8.0, 4.0, 3.0)


def video(root, frames):
    """A camera that moves sideways before a wall 2 m away; one reading of each depth image is unknown."""
    for i in range(frames):
        wall = np.full((6, 8), 2000, np.uint16)
        wall[0, 0] = 0
        Image.fromarray(wall).save(root / f"{i}.depth.png")
        Image.new("RGB", (8, 6)).save(root / f"{i}.png")
    table = {"image": [f"{i}.png" for i in range(frames)], "depth": [f"{i}.depth.png" for i in range(frames)],
             "easting": 0.0, "northing": 0.0, "heading": 0.0, "tx": 0.1 * np.arange(frames), "ty": 0.0,
             "tz": 0.0, "qw": 1.0, "qx": 0.0, "qy": 0.0, "qz": 0.0}  # fmt: skip
    return Places.build(root, table)


@pytest.mark.parametrize(
    ("options", "used", "step"),
    [
        ({}, 7, 1),
        ({"most_frames": 7}, 7, 1),
        ({"most_frames": 6}, 4, 2),
        ({"most_frames": 3}, 3, 3),
        ({"every": 4}, 2, 4),
        ({"every": 1, "most_frames": 2}, 7, 1),
    ],
)
def test_a_scene_is_fused_from_a_bounded_number_of_frames(tmp_path, options, used, step):
    scene = depth_scene(video(tmp_path, 7), CAMERA, **options)
    assert scene.source == f"fused from {used} of 7 depth images (one in {step}), voxel 0.02 m"
    assert scene.cloud.notes[0].startswith(f"{used} frames")


def test_frames_are_counted_from_one(tmp_path):
    for options in ({"every": 0}, {"most_frames": 0}):
        with pytest.raises(InputError, match="give whole numbers, at least 1"):
            depth_scene(video(tmp_path, 1), CAMERA, **options)


def test_labels_say_what_their_cloud_left_out(tmp_path):
    places = video(tmp_path, 3)
    label_scene(places, places, depth_scene(places, CAMERA), out=tmp_path / "labels")
    meta = json.loads((tmp_path / "labels" / "meta.json").read_text())
    assert meta["cloud_notes"][1] == "3 readings without depth left out"
    assert meta["cloud"].startswith("fused from 3 of 3")
    assert meta["camera_notes"] == []
    assert meta["same_table"] is True


def test_labels_say_which_lenses_were_taken_for_pinholes(tmp_path):
    model = tmp_path / "sparse"
    model.mkdir()
    (model / "cameras.txt").write_text(
        "1 SIMPLE_RADIAL 8 6 8 4 3 0.1\n2 PINHOLE 8 6 8 8 4 3\n3 SIMPLE_RADIAL 8 6 8 4 3 0.2\n"
        "4 OPENCV 8 6 8 8 4 3 0.1 0 0 0\n"
    )
    (model / "images.txt").write_text("1 1 0 0 0 0 0 0 1 a.png\n\n2 1 0 0 0 0 0 0 2 b.png\n\n")
    (model / "points3D.txt").write_text("1 0 0 2 9 9 9 0.1\n")
    scene = colmap_scene(tmp_path, "sparse")
    pose = dict.fromkeys(("tx", "ty", "tz", "qx", "qy", "qz"), 0.0) | {"qw": 1.0, "heading": 0.0}
    places = Places.build(
        tmp_path,
        {"image": ["a", "b"], "easting": 0.0, "northing": 0.0, "camera_id": [1, 2], **pose},
        missing_images="ignore",
    )
    labels = label_scene(places, places, scene)
    assert labels.meta["camera_notes"] == [
        "1 OPENCV of 4 cameras taken for pinholes, without their distortion",
        "2 SIMPLE_RADIAL of 4 cameras taken for pinholes, without their distortion",
    ]
    np.testing.assert_array_equal(labels.dense(), 1)  # both see the one point
    with pytest.raises(InputError, match="image b has camera 9, which is not one of the scene"):
        scene.cameras_of(Places(places.root, places.table.assign(camera_id=[1, 9])))


def test_empty_tables_and_unknown_words_are_refused(tmp_path):
    places, scene = video(tmp_path, 2), Scene(PointCloud(np.ones((1, 3))), CAMERA, "a point")
    with pytest.raises(InputError, match="no query images in the table"):
        label_scene(places.select(slice(0, 0)), places, scene)
    with pytest.raises(InputError, match="`occlusion` 'some' is unknown; choose one of none, depth, cloud"):
        label_scene(places, places, scene, occlusion="some")
