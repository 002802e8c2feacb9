"""3D overlap on real frames: 7Scenes redkitchen, against plain Python sets and against what one would expect."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from samespot.overlap.cloud import fuse_depth, read_depth
from samespot.overlap.visibility import similarity_rows, visibility_iou, visible_points
from samespot.places.camera import Camera
from samespot.places.pose import angles_between, quaternions

DATA = (
    Path(os.environ.get("SAMESPOT_DATA", Path(__file__).parents[2].parent / "shared" / "data")) / "redkitchen"
)
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(),
    reason=f"no real frames at {DATA}; set SAMESPOT_DATA to the folder that holds redkitchen/",
)
CAMERA = Camera(640, 480, 585.0, 585.0, 320.0, 240.0)
SAMPLE = slice(None, None, 10)  # frames that are also looked at with occlusion


class Kitchen:
    """The poses of all 250 frames, a cloud fused of every fifth one's depth, and what each frame sees of it."""

    def __init__(self) -> None:
        stems = sorted(path.name.split(".")[0] for path in DATA.glob("*.pose.txt"))
        self.poses = np.stack([np.loadtxt(DATA / f"{stem}.pose.txt") for stem in stems])
        self.centres, self.turns = self.poses[:, :3, 3], quaternions(self.poses[:, :3, :3])
        self.depth_paths = [DATA / f"{stem}.depth.png" for stem in stems]
        self.cloud = fuse_depth(self.depth_paths[::5], self.centres[::5], self.turns[::5], CAMERA)
        self.free = self.see()
        self.similarity = visibility_iou(self.free, self.free)

    def see(self, rows=slice(None), **options):
        return visible_points(self.cloud.xyz, self.centres[rows], self.turns[rows], CAMERA, **options)


@pytest.fixture(scope="module")
def kitchen():
    return Kitchen()


def test_intrinsics_are_those_of_the_file():
    np.testing.assert_array_equal(np.loadtxt(DATA / "camera-intrinsics.txt"), CAMERA.matrix)


def test_cloud_is_a_room(kitchen):
    size = np.ptp(kitchen.cloud.xyz, axis=0)
    assert 50_000 < len(kitchen.cloud) < 400_000
    assert (size > 2.0).all()
    assert (size < 10.0).all()


def test_iou_equals_plain_python_sets_exactly(kitchen):
    rows = np.linspace(0, len(kitchen.poses) - 1, 12).astype(int)
    sets = {}
    for row in rows:
        # scipy's rotations: the files' matrices are off by 4e-4, and both sides must look through the same pose
        turn = Rotation.from_matrix(kitchen.poses[row, :3, :3])
        x, y, z = turn.inv().apply(kitchen.cloud.xyz - kitchen.poses[row, :3, 3]).T
        with np.errstate(divide="ignore", invalid="ignore"):
            u, v = 585.0 * x / z + 320.0, 585.0 * y / z + 240.0
        inside = (z >= 0.05) & (u >= 0) & (u < 640) & (v >= 0) & (v < 480)
        sets[row] = set(np.flatnonzero(inside).tolist())
    for a, b in product(rows, repeat=2):
        assert kitchen.similarity[a, b] == np.float32(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))


def test_products_on_torch_agree_to_the_last_bit(kitchen):
    some = kitchen.free[:60]
    np.testing.assert_array_equal(
        visibility_iou(some, some, device="torch-cpu"), kitchen.similarity[:60, :60]
    )


def test_sparse_rows_hold_exactly_the_overlapping_pairs(kitchen):
    blocks = list(similarity_rows(kitchen.free, kitchen.free, block=64))
    assert [start for start, *_ in blocks] == [0, 64, 128, 192]
    row, column = np.nonzero(kitchen.similarity)
    np.testing.assert_array_equal(np.concatenate([c for _, _, c, _ in blocks]), column)
    np.testing.assert_array_equal(
        np.concatenate([n for _, n, _, _ in blocks]), np.bincount(row, minlength=250)
    )


@pytest.mark.parametrize("way", ["images", "cloud"])
def test_occlusion_only_takes_points_away(kitchen, way):
    paths = kitchen.depth_paths[SAMPLE]
    depth = "cloud" if way == "cloud" else lambda row: read_depth(paths[row])
    free, occluded = kitchen.free[SAMPLE], kitchen.see(SAMPLE, depth=depth)
    assert not (occluded.words & ~free.words).any()
    # a kitchen hides a part of itself, yet most of what lies in the image is seen
    share = occluded.counts.sum() / free.counts.sum()
    assert 0.4 < share < 0.95


def test_the_cloud_hides_about_what_the_depth_images_hide(kitchen):
    paths = kitchen.depth_paths[SAMPLE]
    by_image = kitchen.see(SAMPLE, depth=lambda row: read_depth(paths[row]))
    by_cloud = kitchen.see(SAMPLE, depth="cloud")
    labels = [visibility_iou(sets, sets) for sets in (by_image, by_cloud)]
    assert np.abs(labels[0] - labels[1]).mean() < 0.03


def test_consecutive_frames_overlap_most_and_overlap_falls_with_turn_and_distance(kitchen):
    assert np.diag(kitchen.similarity, 1).min() > 0.7
    assert np.median(np.diag(kitchen.similarity, 1)) > 0.9
    ahead = kitchen.poses[:, :3, 2]
    turn = np.rad2deg(np.arccos(np.clip(ahead @ ahead.T, -1, 1)))
    by_turn = [
        kitchen.similarity[(turn >= low) & (turn < low + 15)].mean() for low in (0, 15, 30, 45, 60, 75)
    ]
    assert (np.diff(by_turn) < 0).all()
    apart = np.linalg.norm(kitchen.centres[:, None] - kitchen.centres, axis=2)
    by_distance = [
        kitchen.similarity[(turn < 15) & (apart >= low) & (apart < low + 0.3)].mean() for low in (0, 0.3, 0.6)
    ]
    assert (np.diff(by_distance) < 0).all()


def test_poses_with_depth_and_from_poses_alone():
    """Frames that stand between others: to centimetres by depth, and nearly so by triangulation among the others."""
    pytest.importorskip("pycolmap", reason="needs samespot[pose]")
    from samespot.matching.verification import verifier_named
    from samespot.places.catalogue import as_places
    from samespot.places.table import Places
    from samespot.poses.estimating import LocalPoses

    frames = as_places(DATA)
    queries, places = frames.select([20, 100]), frames.select([14, 17, 23, 26, 29, 94, 97, 103, 106, 109])
    bare = Places(places.root, places.table.drop(columns=["depth", "depth_fov"]))
    verifier = verifier_named("xfeat", 1024)
    for known, near in ((places, 0.03), (bare, 0.08)):
        posing = LocalPoses(queries, known, verifier)
        for query, rows in ((0, range(5)), (1, range(5, 10))):
            found = posing.pose(query, list(rows))
            assert np.linalg.norm(found.centre - queries.centres[query]) < near
            assert angles_between(found.quaternion[None], queries.quaternions[query][None])[0] < 2.0


def test_a_colmap_model_gives_poses(tmp_path):
    """Frames as a COLMAP model without points: read again and triangulated, they give the same pose."""
    pytest.importorskip("pycolmap", reason="needs samespot[pose]")
    from samespot.matching.verification import verifier_named
    from samespot.places.catalogue import as_places
    from samespot.places.pose import inverse_poses
    from samespot.poses.estimating import LocalPoses

    frames = as_places(DATA)
    places = frames.select([14, 17, 23, 26, 29])
    moved, turned = inverse_poses(places.centres, places.quaternions)
    lines = [
        f"{number} {' '.join(map(repr, [*turn.tolist(), *move.tolist()]))} 1 {name}\n\n"
        for number, (turn, move, name) in enumerate(
            zip(turned, moved, places.table["image"], strict=True), start=1
        )
    ]
    (tmp_path / "sparse").mkdir()
    (tmp_path / "images").symlink_to(DATA)
    (tmp_path / "sparse/cameras.txt").write_text("1 SIMPLE_PINHOLE 640 480 525 320 240\n")
    (tmp_path / "sparse/images.txt").write_text("".join(lines))
    (tmp_path / "sparse/points3D.txt").write_text("")
    model = as_places(tmp_path, dataset="colmap")
    assert model.centres == pytest.approx(places.centres, abs=1e-9)
    found = LocalPoses(frames.select([20]), model, verifier_named("xfeat", 1024)).pose(0, list(range(5)))
    assert np.linalg.norm(found.centre - frames.centres[20]) < 0.08
