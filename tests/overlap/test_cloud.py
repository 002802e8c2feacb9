"""Point clouds: PLY files written by hand byte by byte, and depth images of scenes whose shape is known."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.overlap.cloud import fuse_depth, point_spacing, read_depth, read_ply
from samespot.places.camera import Camera

CAMERA = Camera(width=64, height=48, fx=50.0, fy=50.0, cx=32.0, cy=24.0)
IDENTITY = [1.0, 0.0, 0.0, 0.0]
VERTICES = [(1.5, -2.25, 3.0, 10, 20, 30), (0.0, 4.5, -6.125, 255, 0, 128)]
XYZRGB = [
    "property float x",
    "property float y",
    "property float z",
    "property uchar red",
    "property uchar green",
    "property uchar blue",
]


def header(form, *lines):
    return "\n".join(["ply", f"format {form} 1.0", *lines, "end_header", ""]).encode()


def save(tmp_path, content):
    path = tmp_path / "cloud.ply"
    path.write_bytes(content)
    return path


def save_depth(path, millimetres):
    Image.fromarray(np.asarray(millimetres, dtype=np.uint16)).save(path)
    return path


def check_vertices(cloud):
    assert cloud.xyz.dtype == np.float32
    assert cloud.xyz.tolist() == [list(v[:3]) for v in VERTICES]
    assert cloud.rgb.dtype == np.uint8
    assert cloud.rgb.tolist() == [list(v[3:]) for v in VERTICES]


@pytest.mark.parametrize(("form", "order"), [("binary_little_endian", "<"), ("binary_big_endian", ">")])
def test_binary_ply_of_either_byte_order(tmp_path, form, order):
    body = b"".join(struct.pack(f"{order}fffBBB", *v) for v in VERTICES)
    head = header(form, "comment made by hand", "element vertex 2", *XYZRGB)
    check_vertices(read_ply(save(tmp_path, head + body)))


def test_ascii_ply_with_windows_line_ends(tmp_path):
    text = header("ascii", "element vertex 2", *XYZRGB) + b"1.5 -2.25 3 10 20 30\n0 4.5 -6.125 255 0 128\n"
    check_vertices(read_ply(save(tmp_path, text)))
    check_vertices(read_ply(save(tmp_path, text.replace(b"\n", b"\r\n"))))


@pytest.mark.parametrize(("form", "order"), [("binary_little_endian", "<"), ("binary_big_endian", ">")])
def test_lists_before_and_inside_the_vertices_are_skipped(tmp_path, form, order):
    lines = ["element face 2", "property list uchar int vertex_indices", "element vertex 2", XYZRGB[0]]
    lines += ["property list uchar double weights", *XYZRGB[1:], "element edge 1", "property int a"]
    body = struct.pack(f"{order}Biii", 3, 0, 1, 0) + struct.pack(f"{order}B", 0)
    for v, weights in zip(VERTICES, ([0.5], [1.0, 2.0]), strict=True):
        body += struct.pack(f"{order}fB{len(weights)}dffBBB", v[0], len(weights), *weights, *v[1:])
    check_vertices(read_ply(save(tmp_path, header(form, *lines) + body + struct.pack(f"{order}i", 7))))


def test_lists_in_ascii_are_skipped(tmp_path):
    lines = ["element face 1", "property list uchar int vertex_indices", "element vertex 2", XYZRGB[0]]
    lines += ["property list uchar float weights", *XYZRGB[1:]]
    body = b"3 0 1 0\n1.5 1 0.5 -2.25 3 10 20 30\n0 2 1 2 4.5 -6.125 255 0 128\n"
    check_vertices(read_ply(save(tmp_path, header("ascii", *lines) + body)))


def test_double_coordinates_keep_their_precision_and_other_properties_are_ignored(tmp_path):
    lines = [
        "element vertex 1",
        "property double z",
        "property short quality",
        "property double x",
        "property double y",
    ]
    body = struct.pack("<dhdd", 1 / 3, 5, 1e7 + 1e-3, -2.0)
    cloud = read_ply(save(tmp_path, header("binary_little_endian", *lines) + body))
    assert cloud.xyz.tolist() == [[1e7 + 1e-3, -2.0, 1 / 3]]
    assert cloud.rgb is None


def test_colours_from_zero_to_one_become_bytes(tmp_path):
    lines = ["element vertex 1", *(f"property float {n}" for n in ("x", "y", "z", "red", "green", "blue"))]
    cloud = read_ply(save(tmp_path, header("ascii", *lines) + b"0 0 0 1.0 0.5 0\n"))
    assert cloud.rgb.tolist() == [[255, 128, 0]]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("coloured", [True, False])
def test_a_binary_ply_is_read_as_it_was_written(tmp_path, kind, coloured):
    rng = np.random.default_rng(0)
    xyz, rgb = rng.normal(size=(100, 3)).astype(kind), rng.integers(0, 256, (100, 3)).astype(np.uint8)
    words = {np.float32: "float", np.float64: "double"}
    lines = ["element vertex 100", *(f"property {words[kind]} {axis}" for axis in "xyz")]
    lines += [f"property uchar {name}" for name in ("red", "green", "blue")] if coloured else []
    rows = np.concatenate([xyz.view(np.uint8), rgb], axis=1) if coloured else xyz.view(np.uint8)
    back = read_ply(save(tmp_path, header("binary_little_endian", *lines) + rows.tobytes()))
    assert back.xyz.dtype == kind
    np.testing.assert_array_equal(back.xyz, xyz)
    if coloured:
        np.testing.assert_array_equal(back.rgb, rgb)


BINARY, XYZ = "binary_little_endian", XYZRGB[:3]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"obj\n", "not a PLY file"),
        (b"ply\nformat ascii 1.0\nelement vertex 2\n", "no end_header line"),
        (header("ascii", "element face 0"), "no vertex element, so no points (elements: face)"),
        (header("ascii", "element vertex 0", *XYZ[:2]), "the vertices lack z"),
        (
            header("binary_pdp_endian", "element vertex 0", *XYZ),
            "format 'binary_pdp_endian'; known are ascii",
        ),
        (
            header("ascii", "element vertex two", *XYZ),
            "line 3: cannot make sense of the header line 'element vertex two'",
        ),
        (header("ascii", "element vertex 1", "property quad x"), "line 4: cannot make sense"),
        (header("ascii", "property float x"), "line 3: cannot make sense"),
        (header("ascii", "elephant vertex 1"), "line 3: 'elephant vertex 1' is not a PLY header line"),
        (
            header("ascii", "element vertex 3", *XYZ) + b"1 2 3\n4 5 6\n",
            "cut off after 2 of 3 rows of element 'vertex'",
        ),
        (
            header("ascii", "element vertex 2", *XYZ) + b"1 2 3\n4 5\n",
            "line 9: '4 5' is not a vertex of 3 numbers",
        ),
        (header("ascii", "element vertex 2", *XYZ) + b"1 2 x\n4 5 6\n", "line 8: '1 2 x' is not a vertex"),
        (header("ascii", "element vertex 2", *XYZ) + b"1 2\n4 5 6 7\n", "line 8: '1 2' is not a vertex"),
        (
            header(BINARY, "element vertex 3", *XYZ) + bytes(30),
            "cut off after 2 of 3 rows of element 'vertex'",
        ),
        (
            header(BINARY, "element face 9", "property list uchar int i", "element vertex 1", *XYZ)
            + b"\x02"
            + bytes(5),
            "cut off after 0 of 9 rows of element 'face'",
        ),
    ],
)
def test_broken_ply_is_one_clear_line(tmp_path, content, said):
    with pytest.raises(InputError) as error:
        read_ply(save(tmp_path, content))
    assert said in str(error.value)
    assert "cloud.ply" in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_ply_is_said(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_ply(tmp_path / "absent.ply")


def test_depth_in_metres_with_unknown_pixels(tmp_path):
    depth = read_depth(save_depth(tmp_path / "d.png", [[0, 1500], [65535, 1]]))
    np.testing.assert_array_equal(depth, np.array([[np.nan, 1.5], [np.nan, 0.001]], dtype=np.float32))


def test_a_flat_wall_fuses_to_points_on_the_wall(tmp_path):
    path = save_depth(tmp_path / "d.png", np.full((48, 64), 2000))
    cloud = fuse_depth([path], [[0, 0, 0]], [IDENTITY], CAMERA, voxel=0.01, stride=1)
    assert len(cloud) == 48 * 64  # pixels are 4 cm apart there, so each has a voxel of its own
    np.testing.assert_allclose(cloud.xyz[:, 2], 2.0, rtol=1e-6)
    # pixel centres: the first is half a pixel inside the image's left edge at u = 0
    np.testing.assert_allclose(cloud.xyz[:, 0].min(), (0.5 - 32) / 50 * 2.0, rtol=1e-6)
    np.testing.assert_allclose(cloud.xyz[:, 1].max(), (47.5 - 24) / 50 * 2.0, rtol=1e-6)
    assert point_spacing(cloud.xyz) == pytest.approx(0.04, rel=1e-5)


def test_voxels_equal_a_dictionary_of_means(tmp_path):
    rng = np.random.default_rng(1)
    centres, turns = rng.normal(size=(5, 3)), rng.normal(size=(5, 4))
    paths, pictures = [], []
    for i in range(5):
        paths.append(save_depth(tmp_path / f"{i}.png", rng.integers(500, 1500, (48, 64))))
        pictures.append(tmp_path / f"{i}.color.png")
        Image.fromarray(rng.integers(0, 256, (48, 64, 3)).astype(np.uint8)).save(pictures[-1])
    cloud = fuse_depth(paths, centres, turns, CAMERA, voxel=0.1, stride=2, colour_paths=pictures)

    from scipy.spatial.transform import Rotation

    voxels: dict[tuple[int, ...], list[tuple[np.ndarray, np.ndarray]]] = {}
    for path, picture, centre, turn in zip(paths, pictures, centres, turns, strict=True):
        depth, colour = np.asarray(Image.open(path)), np.asarray(Image.open(picture))
        for r in range(0, 48, 2):
            for c in range(0, 64, 2):
                z = float(np.float32(depth[r, c] * 0.001))
                ray = np.array([(c + 0.5 - 32) / 50 * z, (r + 0.5 - 24) / 50 * z, z])
                point = Rotation.from_quat(np.roll(turn, -1)).apply(ray) + centre
                voxels.setdefault(tuple(np.floor(point / 0.1).astype(int)), []).append((point, colour[r, c]))
    means = {key: np.mean([p for p, _ in found], axis=0) for key, found in voxels.items()}
    shades = {key: np.rint(np.mean([c for _, c in found], axis=0)) for key, found in voxels.items()}
    assert len(cloud) == len(means)
    for point, rgb in zip(cloud.xyz, cloud.rgb, strict=True):
        key = tuple(np.floor(point / 0.1).astype(int))
        np.testing.assert_allclose(point, means[key], atol=1e-9)
        np.testing.assert_array_equal(rgb, shades[key])


def test_invalid_and_far_readings_are_left_out_and_counted(tmp_path):
    depth = np.full((48, 64), 1000)
    depth[0], depth[1], depth[2] = 0, 65535, 9000
    path = save_depth(tmp_path / "d.png", depth)
    cloud = fuse_depth([path], [[0, 0, 0]], [IDENTITY], CAMERA, voxel=0.001, stride=1)
    assert len(cloud) == 45 * 64
    assert "128 readings without depth left out" in cloud.notes
    assert "64 readings beyond 5 m left out" in cloud.notes


def test_voxels_with_few_readings_can_be_left_out(tmp_path):
    whole = save_depth(tmp_path / "a.png", np.full((48, 64), 2000))
    half = np.full((48, 64), 2000)
    half[:, 32:] = 0
    paths = [whole, save_depth(tmp_path / "b.png", half)]
    poses = np.zeros((2, 3)), [IDENTITY] * 2
    cloud = fuse_depth(paths, *poses, CAMERA, voxel=0.01, stride=1, min_readings=2)
    assert len(cloud) == 48 * 32
    assert cloud.xyz[:, 0].max() < 0
    assert "1536 voxels with fewer than 2 readings left out" in cloud.notes


def test_table_grows_with_the_scene_and_order_keeps_neighbours_together(tmp_path):
    camera = Camera(400, 300, 300.0, 300.0, 200.0, 150.0)
    paths = [save_depth(tmp_path / f"{i}.png", np.full((300, 400), 2000 + 100 * i)) for i in range(3)]
    cloud = fuse_depth(paths, np.zeros((3, 3)), [IDENTITY] * 3, camera, voxel=0.005, stride=1)
    assert len(cloud) == 3 * 300 * 400  # over five times the first table
    steps = np.linalg.norm(np.diff(cloud.xyz, axis=0), axis=1)
    assert np.median(steps) < 0.02
    again = fuse_depth(paths, np.zeros((3, 3)), [IDENTITY] * 3, camera, voxel=0.005, stride=1)
    np.testing.assert_array_equal(again.xyz, cloud.xyz)


def test_wrong_depth_input_is_one_clear_line(tmp_path):
    path = save_depth(tmp_path / "d.png", np.full((48, 64), 1000))
    pose = [[0, 0, 0]], [IDENTITY]
    small = save_depth(tmp_path / "s.png", np.full((4, 6), 1000))
    colour = tmp_path / "c.png"
    Image.fromarray(np.zeros((48, 64, 3), dtype=np.uint8)).save(colour)
    (tmp_path / "torn.png").write_bytes(path.read_bytes()[:60])
    cases = [
        (([], np.empty((0, 3)), np.empty((0, 4)), CAMERA), {}, "no depth images to fuse"),
        (([path, path], *pose, CAMERA), {}, "2 depth images, 1 centres, 1 quaternions"),
        (([path], *pose, CAMERA), {"colour_paths": []}, "0 colour images for 1 depth images"),
        (([path], *pose, CAMERA), {"voxel": 0.0}, "the voxel must be > 0"),
        (([small], *pose, CAMERA), {}, "s.png: 6 × 4 pixels, but the camera has 64 × 48"),
        (([colour], *pose, CAMERA), {}, "c.png: 3 colour channels"),
        (
            ([tmp_path / "absent.png"], *pose, CAMERA),
            {},
            "absent.png: cannot read the image (No such file or directory); check the path",
        ),
        (([tmp_path / "torn.png"], *pose, CAMERA), {}, "torn.png: cannot decode the image"),
        (([path], [[1e9, 0, 0]], [IDENTITY], CAMERA), {}, "m from the origin, too far for voxels"),
        (([path], *pose, CAMERA), {"colour_paths": [path]}, "d.png: not a colour image"),
    ]
    for arguments, options, said in cases:
        with pytest.raises(InputError) as error:
            fuse_depth(*arguments, **options)
        assert said in str(error.value)
        assert "\n" not in str(error.value)
