"""A real 7Scenes sequence: its poses against an independent list of them, its axes against gravity."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from samespot.places import seven_scenes
from samespot.places.pose import rotation_matrices

SPLITS = [f"{scene}_{split}" for scene in seven_scenes.SCENES for split in ("train", "test")]


@pytest.fixture(scope="module")
def sequence(real_data) -> Path:
    return real_data / "redkitchen"


@pytest.fixture(scope="module")
def places(sequence):
    return seven_scenes.read(sequence, "sequence", missing_images="error")


def listed_poses(real_data: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(real_data / "geometry" / f"seven_scenes_{name}.csv.gz")


def test_every_fourth_frame_is_there(places):
    assert places.table["frame"].tolist() == list(range(0, 1000, 4))
    assert places.table["depth"].notna().all()
    assert places.dropped == {}
    assert places.notes == ()


def test_poses_agree_with_the_independent_list(places, real_data):
    """Its q1..q4 is qw qx qy qz, camera to world; any other reading of it is off by more than 1."""
    listed = listed_poses(real_data, "redkitchen_train")
    listed = listed[listed["seq"] == "seq-01"]
    listed.index = listed["img_path"].str.extract(r"frame-(\d+)")[0].astype(int)
    listed = listed.loc[places.table["frame"]]
    assert np.abs(places.centres - listed[["t1", "t2", "t3"]]).max(axis=None) < 1e-6
    q = listed[["q1", "q2", "q3", "q4"]].to_numpy()
    same_sign = np.sign((q * places.quaternions).sum(axis=1, keepdims=True))
    assert np.abs(q * same_sign - places.quaternions).max() < 1e-4
    inverse = rotation_matrices(q).transpose(0, 2, 1)
    assert np.abs(inverse - rotation_matrices(places.quaternions)).max() > 1


def test_the_camera_is_held_upright_in_the_assumed_frame(places):
    up = -rotation_matrices(places.quaternions)[:, :, 1] @ seven_scenes.FRAME.up
    assert up.min() > np.cos(np.deg2rad(25))


@pytest.mark.parametrize("split", SPLITS)
def test_no_pose_of_any_scene_is_lost_or_upside_down(real_data, split):
    """What the reader's frame and its count of lost frames rest on."""
    listed = listed_poses(real_data, split)
    assert np.isfinite(listed[["t1", "t2", "t3", "q1", "q2", "q3", "q4"]]).all(axis=None)
    up = -rotation_matrices(listed[["q1", "q2", "q3", "q4"]])[:, :, 1] @ seven_scenes.FRAME.up
    assert up.min() > 0
    assert np.median(up) > np.cos(np.deg2rad(40))


def test_intrinsics_are_those_in_the_folder(sequence):
    assert np.array_equal(seven_scenes.intrinsics(sequence, "sequence"), seven_scenes.KINECT.matrix)


def test_depth_lifted_by_pose_and_intrinsics_agrees_between_neighbouring_frames(places):
    """Points of one frame, moved into the next, lie where that frame's depth says: 2 cm in the median."""
    from PIL import Image

    def lifted(row):
        depth = np.asarray(Image.open(places.root / places.table["depth"][row])).astype(np.int64)
        v, u = np.mgrid[0:480:8, 0:640:8]
        d = depth[v, u] / 1000.0
        seen = (d > 0) & (d < 10)
        rays = np.stack([u, v, np.ones_like(u)], axis=-1)[seen] @ np.linalg.inv(intrinsics).T
        return depth, rays * d[seen][:, None]

    intrinsics = seven_scenes.intrinsics(places.root, "sequence")
    rotations = rotation_matrices(places.quaternions)
    errors = []
    for a, b in ((0, 1), (60, 61), (120, 121), (200, 201)):
        _, points = lifted(a)
        depth, _ = lifted(b)
        world = points @ rotations[a].T + places.centres[a]
        moved = (world - places.centres[b]) @ rotations[b]
        u, v, w = (moved @ intrinsics.T).T
        u, v = np.rint(u / w).astype(int), np.rint(v / w).astype(int)
        inside = (u >= 0) & (u < 640) & (v >= 0) & (v < 480) & (w > 0)
        d = depth[v[inside], u[inside]] / 1000.0
        known = (d > 0) & (d < 10)
        errors.append(np.median(np.abs(w[inside][known] - d[known])))
    assert max(errors) < 0.02
