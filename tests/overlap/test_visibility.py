"""3D overlap against hand-made cameras, plain Python sets, and the GPU's way of counting run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samespot.errors import InputError
from samespot.overlap import visibility
from samespot.overlap.visibility import (
    PackedSets,
    iou_blocks,
    similarity_rows,
    visibility_iou,
    visible_points,
)
from samespot.places.camera import Camera

CAMERA = Camera(width=8, height=6, fx=4.0, fy=4.0, cx=4.0, cy=3.0)
AT_ORIGIN = ([[0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0, 0.0]])


def seen(points, centres=AT_ORIGIN[0], quaternions=AT_ORIGIN[1], camera=CAMERA, **options):
    return visible_points(points, centres, quaternions, camera, **options).mask(0).tolist()


def random_sets(rng, rows, points, share=0.3):
    return rng.random((rows, points)) < share


def set_iou(masks_a, masks_b):
    sets_a, sets_b = ([set(np.flatnonzero(m).tolist()) for m in masks] for masks in (masks_a, masks_b))
    return np.array(
        [[len(a & b) / len(a | b) if a | b else 0.0 for b in sets_b] for a in sets_a], dtype=np.float32
    )


def wall(depth, half=1.0, step=0.02):
    across = np.arange(-half, half, step) + step / 2
    x, y = np.meshgrid(across, across)
    return np.stack([x.ravel(), y.ravel(), np.full(x.size, depth)], axis=1)


def test_image_is_closed_on_the_left_and_open_on_the_right():
    # at depth 1, x = -1 projects to u = 0 and x = 1 to u = 8; y = ±0.75 to v = 0 and 6
    points = [
        [-1, 0, 1],
        [-1.001, 0, 1],
        [1, 0, 1],
        [0.999, 0, 1],
        [0, -0.75, 1],
        [0, 0.75, 1],
        [0, 0.749, 1],
    ]
    assert seen(points) == [True, False, False, True, True, False, True]


def test_points_behind_or_outside_near_and_far_or_not_finite_are_not_seen():
    points = [[0, 0, 1], [0, 0, -1], [0, 0, 0], [0, 0, 0.04], [0, 0, 9], [np.nan, 0, 1], [0, 0, np.inf]]
    assert seen(points, far=8.0) == [True, False, False, False, False, False, False]


def test_camera_that_looks_along_world_x_sees_what_lies_there():
    # quarter turn about y: camera z becomes world x
    half = np.sqrt(0.5)
    points = [[3, 0, 0], [-3, 0, 0], [0, 0, 3], [5, 0, 2]]
    assert seen(points, [[1, 0, 0]], [[half, 0, half, 0]]) == [True, False, False, True]
    assert seen(points, [[4, 0, 0]], [[half, 0, half, 0]]) == [False, False, False, False]


def test_each_row_uses_its_own_camera():
    narrow = Camera(8, 6, 40.0, 40.0, 4.0, 3.0)
    sets = visible_points([[0, 0, 1], [0.5, 0, 1]], np.zeros((2, 3)), [[1, 0, 0, 0]] * 2, [CAMERA, narrow])
    assert sets.counts.tolist() == [2, 1]
    assert sets.mask(1).tolist() == [True, False]


def test_visible_points_equal_a_projection_by_numpy():
    rng = np.random.default_rng(3)
    points = rng.uniform(-4, 4, (1000, 3))
    centres, quaternions = rng.uniform(-1, 1, (40, 3)), rng.normal(size=(40, 4))
    sets = visible_points(points, centres, quaternions, CAMERA)
    from scipy.spatial.transform import Rotation

    for row in range(40):
        turn = Rotation.from_quat(np.roll(quaternions[row], -1))
        x, y, z = turn.inv().apply(points - centres[row]).T
        with np.errstate(divide="ignore"):
            u, v = 4 * x / z + 4, 4 * y / z + 3
        expected = (z >= 0.05) & (u >= 0) & (u < 8) & (v >= 0) & (v < 6)
        np.testing.assert_array_equal(sets.mask(row), expected)
        assert sets.counts[row] == expected.sum() > 0


def test_depth_image_hides_what_lies_behind_it_and_keeps_what_it_does_not_know():
    depth = np.full((6, 8), 2.0)
    depth[:, 4:] = np.nan  # no reading on the right
    points = [[-0.5, 0, 1.9], [-0.5, 0, 2.04], [-0.5, 0, 2.06], [0.5, 0, 9.0]]
    assert seen(points, depth=[depth]) == [True, True, False, True]
    assert seen(points, depth=[depth], unknown_depth="hidden") == [True, True, False, False]
    assert seen(points, depth=lambda row: depth, tolerance=0.5) == [True, True, True, True]
    depth[:, 4:] = 0.0
    assert seen(points, depth=[depth], unknown_depth="hidden") == [True, True, False, False]


def test_depth_images_may_have_resolutions_of_their_own():
    fine = np.full((60, 80), 2.0)
    fine[:30] = 5.0  # the upper half is farther
    points = [[0, -0.3, 4.0], [0, 0.3, 4.0]]
    sets = visible_points(
        points, np.zeros((2, 3)), [[1, 0, 0, 0]] * 2, CAMERA, depth=[fine, np.full((3, 4), 5.0)]
    )
    assert [sets.mask(row).tolist() for row in range(2)] == [[True, False], [True, True]]


def test_a_wall_in_the_cloud_hides_the_wall_behind_it_and_not_itself():
    near, far = wall(2.0, half=0.5), wall(4.0, half=3.0)
    camera = Camera(640, 480, 500.0, 500.0, 320.0, 240.0)
    points = np.concatenate([near, far])
    free = visible_points(points, *AT_ORIGIN, camera).mask(0)
    occluded = visible_points(points, *AT_ORIGIN, camera, depth="cloud").mask(0)
    assert free[: len(near)].all()
    assert occluded[: len(near)].all()
    # seen from the origin the near wall covers |x|, |y| < 1 of the far one
    reach = np.abs(far[:, :2]).max(axis=1)
    behind, beside = reach < 0.96, reach > 1.06
    assert free[len(near) :][behind].all()
    assert not occluded[len(near) :][behind].any()
    np.testing.assert_array_equal(occluded[len(near) :][beside], free[len(near) :][beside])


def test_many_cameras_go_through_in_blocks_and_report_progress():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (200, 3)) + np.array([0.0, 0.0, 3.0])
    told: list[int] = []
    sets = visible_points(points, np.zeros((70, 3)), [[1, 0, 0, 0]] * 70, CAMERA, progress=told.append)
    assert told == [32, 64, 70]
    assert len(set(sets.counts.tolist())) == 1
    assert (sets.words == sets.words[0]).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 9), st.integers(1, 700), st.floats(0, 1))
def test_iou_equals_python_sets_on_every_device(seed, rows, columns, points, share):
    rng = np.random.default_rng(seed)
    a, b = random_sets(rng, rows, points, share), random_sets(rng, columns, points, share)
    expected = set_iou(a, b)
    for device in ("cpu", "torch-cpu"):
        np.testing.assert_array_equal(
            visibility_iou(PackedSets.pack(a), PackedSets.pack(b), device=device), expected
        )


def test_iou_over_tiles_and_chunks_equals_integer_products():
    # more rows, columns and words than one tile holds, none a multiple of it, and an empty stretch
    rng = np.random.default_rng(1)
    a, b = random_sets(rng, 131, 40_003), random_sets(rng, 517, 40_003)
    a[:, 17_000:34_000] = False
    shared = a.astype(np.float32) @ b.astype(np.float32).T  # exact: below 2^24
    union = a.sum(1)[:, None] + b.sum(1) - shared
    expected = (shared.astype(np.float64) / union).astype(np.float32)
    packed = PackedSets.pack(a), PackedSets.pack(b)
    np.testing.assert_array_equal(visibility_iou(*packed), expected)
    np.testing.assert_array_equal(visibility_iou(*packed, device="torch-cpu"), expected)


def test_half_precision_products_are_exact_where_every_point_is_shared():
    import torch

    full = np.ones((3, 70_001), dtype=bool)  # 70,001 and 2,049 have no half-precision number of their own
    full[1, 2049:] = False
    octets = torch.from_numpy(PackedSets.pack(full).words.view(np.uint8))
    shared = visibility._product(octets, octets, torch.float16, visibility.HALF_EXACT).numpy()
    assert shared.tolist() == [[70_001, 2049, 70_001], [2049, 2049, 2049], [70_001, 2049, 70_001]]


def test_iou_is_symmetric_one_with_itself_and_zero_for_empty_sets():
    masks = random_sets(np.random.default_rng(2), 20, 1000)
    masks[7] = False
    sets = PackedSets.pack(masks)
    similarity = visibility_iou(sets, sets)
    np.testing.assert_array_equal(similarity, similarity.T)
    assert similarity[7].tolist() == [0.0] * 20
    assert np.delete(np.diag(similarity), 7).tolist() == [1.0] * 19


def test_packing_round_trip_and_slices():
    masks = random_sets(np.random.default_rng(4), 5, 130)
    sets = PackedSets.pack(masks)
    assert sets.words.shape == (5, 3)
    assert sets.counts.tolist() == masks.sum(1).tolist()
    np.testing.assert_array_equal([sets[2:].mask(row) for row in range(3)], masks[2:])


def test_sets_in_any_order_of_the_points_are_the_same_sets():
    """Seen sets stand with neighbours together, packed ones as they come: masks and IoU do not tell them apart."""
    rng = np.random.default_rng(6)
    points = rng.uniform(-4, 4, (3000, 3))
    points[[0, 7]] = np.nan
    sets = visible_points(points, rng.uniform(-1, 1, (12, 3)), rng.normal(size=(12, 4)), CAMERA)
    plain = PackedSets.pack([sets.mask(row) for row in range(12)])
    assert not np.array_equal(sets.order, plain.order)
    np.testing.assert_array_equal(np.sort(sets.order), plain.order)
    np.testing.assert_array_equal(sets.counts, plain.counts)
    expected = visibility_iou(plain, plain)
    assert 0 < np.count_nonzero(expected) < expected.size
    for a, b in ((sets, sets), (sets, plain), (plain, sets)):
        np.testing.assert_array_equal(visibility_iou(a, b), expected)
    assert visible_points(np.zeros((0, 3)), *AT_ORIGIN, CAMERA).words.shape == (1, 0)


@pytest.mark.parametrize("block", [None, 1, 3, 100])
def test_similarity_rows_are_the_non_zero_part_of_the_matrix(block):
    rng = np.random.default_rng(5)
    a = PackedSets.pack(random_sets(rng, 10, 300, 0.02))
    b = PackedSets.pack(random_sets(rng, 14, 300, 0.02))
    dense, rebuilt, next_row = visibility_iou(a, b), np.zeros((10, 14), dtype=np.float32), 0
    for start, counts, columns, similarity in similarity_rows(a, b, block=block):
        assert start == next_row
        assert counts.dtype == np.int64
        assert columns.dtype == np.int32
        assert similarity.dtype == np.float32
        assert (similarity > 0).all()
        for row, part in enumerate(np.split(np.arange(len(columns)), np.cumsum(counts)[:-1])):
            assert (np.diff(columns[part]) > 0).all()
            rebuilt[start + row, columns[part]] = similarity[part]
        next_row += len(counts)
    assert next_row == 10
    assert 0 < (dense == 0).sum() < dense.size
    np.testing.assert_array_equal(rebuilt, dense)


def test_similarity_rows_keep_only_what_passes_the_threshold():
    sets = PackedSets.pack([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    ((_, counts, columns, similarity),) = similarity_rows(sets, sets, threshold=0.5)
    assert counts.tolist() == [1, 1, 1]  # 0.5 itself does not pass
    assert columns.tolist() == [0, 1, 2]
    assert similarity.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"points": np.zeros((4, 2))}, "(n, 3) x, y, z"),
        ({"centres": [[0, 0, 0]] * 2}, "expected (n, 3) and (n, 4)"),
        ({"quaternions": [[0, 0, 0, 0]]}, "camera row 0: its pose is not finite or its quaternion is zero"),
        ({"cameras": [CAMERA] * 3}, "3 cameras for 1 poses"),
        ({"cameras": Camera(8, 6, 0.0, 4.0, 4.0, 3.0)}, "positive focal lengths"),
        ({"depth": "images"}, "the only word is 'cloud'"),
        ({"depth": []}, "give one depth image a pose"),
        ({"depth": [np.ones((6, 8), dtype=np.uint16)]}, "in metres as floating point"),
    ],
)
def test_wrong_input_is_one_clear_line(change, said):
    given = {
        "points": np.zeros((4, 3)),
        "centres": AT_ORIGIN[0],
        "quaternions": AT_ORIGIN[1],
        "cameras": CAMERA,
        **change,
    }
    with pytest.raises(InputError) as error:
        visible_points(**given)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_sets_of_different_clouds_and_devices_that_are_not_there_are_refused():
    a, b = PackedSets.pack([[True, False]]), PackedSets.pack([[True]])
    with pytest.raises(InputError, match="same cloud"):
        next(iou_blocks(a, b))
    with pytest.raises(InputError, match="choose cpu, cuda"):
        visibility_iou(a, a, device="tpu")
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="no CUDA GPU on this machine; use device='cpu'"):
            visibility_iou(a, a, device="cuda")
