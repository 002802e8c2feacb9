"""COLMAP models written as text and as binary must read the same, and by hand."""

import struct

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places import colmap
from samespot.places.camera import Camera, camera_of
from samespot.places.pose import PoseFrame, rotation_matrices

PARAMETERS = {  # COLMAP's own list: what stands on disk for each model, in the order of the ids
    "SIMPLE_PINHOLE": "f cx cy",
    "PINHOLE": "fx fy cx cy",
    "SIMPLE_RADIAL": "f cx cy k",
    "RADIAL": "f cx cy k1 k2",
    "OPENCV": "fx fy cx cy k1 k2 p1 p2",
    "OPENCV_FISHEYE": "fx fy cx cy k1 k2 k3 k4",
    "FULL_OPENCV": "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6",
    "FOV": "fx fy cx cy omega",
    "SIMPLE_RADIAL_FISHEYE": "f cx cy k",
    "RADIAL_FISHEYE": "f cx cy k1 k2",
    "THIN_PRISM_FISHEYE": "fx fy cx cy k1 k2 p1 p2 k3 k4 sx1 sy1",
    "RAD_TAN_THIN_PRISM_FISHEYE": "fx fy cx cy k0 k1 k2 k3 k4 k5 p0 p1 s0 s1 s2 s3",
    "SIMPLE_DIVISION": "f cx cy k",
    "DIVISION": "fx fy cx cy k",
    "SIMPLE_FISHEYE": "f cx cy",
    "FISHEYE": "fx fy cx cy",
    "EUCM": "fx fy cx cy alpha beta",
}
FISHEYES = {"FOV", "EUCM", *(name for name in PARAMETERS if "FISHEYE" in name)}
HALF = 0.5**0.5
CAMERAS = {
    3: ("PINHOLE", 640, 480, (500.0, 510.0, 320.0, 240.0)),
    5: ("SIMPLE_RADIAL", 80, 60, (70.0, 40.0, 30.0, 0.01)),
}
# id: (world-to-camera qw qx qy qz, tx ty tz), camera, name, keypoints (x, y, point id or -1)
IMAGES = {
    11: (
        (HALF, HALF, 0, 0, -1.0, 3.0, -2.0),
        3,
        "street/a b.jpg",
        [(1.5, 2.5, 9), (3.0, 4.0, -1), (5.0, 6.0, 9)],
    ),
    12: ((0.5, 0.5, 0.5, -0.5, -5.0, 6.0, 4.0), 5, "c.jpg", []),
}
POINTS = {9: (0.5, -1.25, 3.0, 255, 0, 128, 0.75, [(11, 0), (11, 2)]), 4: (1e6, 2.0, -3.0, 1, 2, 3, 0.5, [])}


def write_text(folder, cameras=CAMERAS, images=IMAGES, points=POINTS):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{i} {m} {w} {h} {' '.join(map(repr, p))}" for i, (m, w, h, p) in cameras.items()]
    (folder / "cameras.txt").write_text(
        "\n".join(["# Camera list", f"# Number of cameras: {len(cameras)}", *lines, ""])
    )
    lines = []
    for i, (pose, camera, name, keypoints) in images.items():
        lines += [
            f"{i} {' '.join(map(repr, pose))} {camera} {name}",
            " ".join(f"{x} {y} {k}" for x, y, k in keypoints),
        ]
    (folder / "images.txt").write_text(
        "\n".join(["# Image list", f"# Number of images: {len(images)}, mean", *lines, ""])
    )
    lines = [
        f"{i} {x!r} {y!r} {z!r} {r} {g} {b} {e} {' '.join(f'{a} {k}' for a, k in track)}"
        for i, (x, y, z, r, g, b, e, track) in points.items()
    ]
    (folder / "points3D.txt").write_text("\n".join([f"# Number of points: {len(points)}, mean", *lines, ""]))


def write_binary(folder, cameras=CAMERAS, images=IMAGES, points=POINTS):
    folder.mkdir(parents=True, exist_ok=True)
    ids = list(PARAMETERS)
    data = struct.pack("<Q", len(cameras))
    for i, (model, w, h, p) in cameras.items():
        number = ids.index(model) if model in ids else model
        data += struct.pack(f"<IiQQ{len(p)}d", i, number, w, h, *p)
    (folder / "cameras.bin").write_bytes(data)
    data = struct.pack("<Q", len(images))
    for i, (pose, camera, name, keypoints) in images.items():
        data += (
            struct.pack("<I7dI", i, *pose, camera) + name.encode() + b"\0" + struct.pack("<Q", len(keypoints))
        )
        data += b"".join(struct.pack("<ddq", *k) for k in keypoints)
    (folder / "images.bin").write_bytes(data)
    data = struct.pack("<Q", len(points))
    for i, (x, y, z, r, g, b, e, track) in points.items():
        data += struct.pack("<Q3d3BdQ", i, x, y, z, r, g, b, e, len(track))
        data += b"".join(struct.pack("<II", *k) for k in track)
    (folder / "points3D.bin").write_bytes(data)


@pytest.fixture(params=[write_text, write_binary], ids=["text", "binary"])
def root(request, tmp_path, save_images):
    request.param(tmp_path / "sparse/0")
    save_images(tmp_path / "images", [name for _, _, name, _ in IMAGES.values()])
    return tmp_path


def test_images(root):
    """Centre -Rᵀt by hand: the first camera looks north from (1, 2, 3), the second west from (4, 5, 6)."""
    places = colmap.read(root, "sparse/0", missing_images="error")
    table = places.table
    assert table["image"].tolist() == ["images/street/a b.jpg", "images/c.jpg"]
    assert np.allclose(table[["tx", "ty", "tz"]], [[1, 2, 3], [4, 5, 6]])
    assert np.allclose(table[["qw", "qx", "qy", "qz"]], [[HALF, -HALF, 0, 0], [0.5, -0.5, -0.5, 0.5]])
    assert np.allclose(table[["easting", "northing"]], [[1, 2], [4, 5]])
    assert np.allclose((table["heading"] + 1) % 360, [1, 271])
    assert table["camera_id"].tolist() == [3, 5]
    assert "pano" not in table
    assert places.notes == (
        f"{root}/sparse/0: 1 of 2 cameras distort (5 SIMPLE_RADIAL); 3D labels take them for pinholes,"
        " so undistort the images first: colmap image_undistorter",
    )


def test_world_to_camera_takes_the_centre_to_zero(root):
    model = colmap.read_images(root / "sparse/0")
    for row, (pose, *_) in enumerate(IMAGES.values()):
        world_to_camera = rotation_matrices(model.quaternions)[row].T
        assert np.allclose(world_to_camera @ model.centres[row] + pose[4:], 0, atol=1e-12)


def test_cameras(root):
    assert colmap.read_cameras(root / "sparse/0") == {
        3: Camera(640, 480, 500.0, 510.0, 320.0, 240.0),
        5: Camera(80, 60, 70.0, 70.0, 40.0, 30.0),
    }


def test_points(root):
    points = colmap.read_points(root / "sparse/0")
    assert points.ids.tolist() == [9, 4]
    assert points.xyz.tolist() == [[0.5, -1.25, 3.0], [1e6, 2.0, -3.0]]
    assert points.rgb.tolist() == [[255, 0, 128], [1, 2, 3]]
    assert (points.xyz.dtype, points.rgb.dtype) == (np.float64, np.uint8)


def test_observed_points_are_distinct_and_real(root):
    assert colmap.read_images(root / "sparse/0").observed is None
    observed = colmap.read_images(root / "sparse/0", observed=True).observed
    assert [seen.tolist() for seen in observed] == [[9], []]


def test_a_table_tells_the_distortion_of_its_cameras(tmp_path):
    write_text(
        tmp_path,
        cameras={3: ("OPENCV", 640, 480, (500.0, 510.0, 320.0, 240.0, 0.1, 0.2, 0.3, 0.4)), 5: CAMERAS[3]},
    )
    bent = camera_of(colmap.read(tmp_path, ".").table, 0, (480, 640))
    assert bent.distortion == (0.1, 0.2, 0.3, 0.4)


def test_a_large_binary_model_agrees_with_its_text(tmp_path):
    rng = np.random.default_rng(1)
    points = {
        int(i): (
            *rng.normal(size=3).tolist(),
            *rng.integers(0, 256, 3).tolist(),
            0.5,
            [(11, 0)] * int(rng.integers(9)),
        )
        for i in rng.permutation(3000)
    }
    write_text(tmp_path / "t", points=points)
    write_binary(tmp_path / "b", points=points)
    text, binary = colmap.read_points(tmp_path / "t"), colmap.read_points(tmp_path / "b")
    assert np.array_equal(text.ids, binary.ids)
    assert np.array_equal(text.xyz, binary.xyz)
    assert np.array_equal(text.rgb, binary.rgb)


@pytest.mark.parametrize("write", [write_text, write_binary])
@pytest.mark.parametrize("model", PARAMETERS)
def test_every_camera_model(tmp_path, write, model):
    names = PARAMETERS[model].split()
    values = {name: 100.0 + k for k, name in enumerate(names)}
    cameras = {
        1: (model, 64, 48, tuple(values.values())),
        3: CAMERAS[3],
        5: CAMERAS[3],
    }  # a wrong length would garble the others
    write(tmp_path, cameras=cameras)
    assert colmap.read(tmp_path, ".").table["camera_id"].tolist() == [3, 5]
    if model in FISHEYES:
        with pytest.raises(
            InputError, match=f"camera 1 is {model}: a fisheye, .*; undistort the images first"
        ):
            colmap.read_cameras(tmp_path)
        return
    read = colmap.read_cameras(tmp_path)
    fx, fy = (values["f"], values["f"]) if "f" in values else (values["fx"], values["fy"])
    assert read[1] == Camera(64, 48, fx, fy, values["cx"], values["cy"])
    assert read[3].fy == 510.0
    told = camera_of(colmap.read(tmp_path, ".").table, 0, (480, 640))
    assert told == Camera(640, 480, 500.0, 510.0, 320.0, 240.0)
    assert colmap.distorted(tmp_path) == ([] if "PINHOLE" in model else [f"1 {model}"])


def test_a_panorama_is_marked_and_has_no_pinhole(tmp_path):
    cameras = {3: ("EQUIRECTANGULAR", 200, 100, (200.0, 100.0)), 5: CAMERAS[5]}
    write_text(tmp_path, cameras=cameras)
    assert colmap.read(tmp_path, ".").table["pano"].tolist() == [True, False]
    with pytest.raises(InputError, match="camera 3 is EQUIRECTANGULAR: a panorama"):
        colmap.read_cameras(tmp_path)


def test_parts_are_found_where_models_lie(tmp_path):
    assert colmap.parts(tmp_path) == []
    for folder in (".", "sparse/0", "sparse/1", "slice2/sparse"):
        write_binary(tmp_path / folder)
    (tmp_path / "sparse/2").mkdir()
    assert colmap.parts(tmp_path) == [".", "slice2/sparse", "sparse/0", "sparse/1"]
    (tmp_path / "sparse/1/points3D.bin").unlink()
    assert colmap.missing(tmp_path) == ["sparse/1/points3D.bin or .txt"]
    with pytest.raises(
        InputError, match=r"no part 'sparse/7' of a COLMAP project; the parts are \., slice2/sparse"
    ):
        colmap.read(tmp_path, "sparse/7")


def test_where_the_images_lie(tmp_path):
    write_text(tmp_path / "slice2/sparse")
    assert colmap.read(tmp_path, "slice2/sparse").table["image"][1] == "c.jpg"
    read = colmap.read(tmp_path, "slice2/sparse", images="slice2/database")
    assert read.table["image"][1] == "slice2/database/c.jpg"
    (tmp_path / "slice2/images").mkdir()
    assert colmap.read(tmp_path, "slice2/sparse").table["image"][1] == "slice2/images/c.jpg"


def test_binary_goes_before_text(tmp_path):
    write_text(tmp_path, images={12: IMAGES[12]})
    write_binary(tmp_path)
    assert len(colmap.read(tmp_path, ".")) == 2


def test_a_frame_lays_the_world_on_the_ground(root):
    """The same model taken as x north, y west: a quarter turn, so north becomes west."""
    turned = colmap.read(root, "sparse/0", frame=PoseFrame(up=(0, 0, 1), north=(1, 0, 0)))
    assert np.allclose(turned.table[["easting", "northing"]], [[-2, 1], [-5, 4]])
    assert np.allclose(turned.table["heading"], [270, 180])


def test_a_model_on_its_side_is_noted(root):
    note = colmap.read(root, "sparse/0", frame=PoseFrame(up=(0, -1, 0), north=(0, 0, 1))).notes[0]
    assert note.startswith(
        "the images' mean up is (0.00, 0.00, 1.00) in the model's world, not near the assumed (0, -1, 0)"
    )


@pytest.mark.parametrize("name", ["cameras", "images", "points3D"])
def test_a_truncated_or_overlong_binary_is_named(tmp_path, name):
    write_binary(tmp_path)
    path = tmp_path / f"{name}.bin"
    whole = path.read_bytes()
    for cut in (0, 5, 12, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=rf"{name}.bin: cut short"):
            read_all(tmp_path)
    path.write_bytes(whole + b"12")
    with pytest.raises(InputError, match=rf"{name}.bin: 2 bytes follow the 2 records"):
        read_all(tmp_path)
    path.write_bytes(struct.pack("<Q", 2**60) + whole[8:])
    with pytest.raises(InputError, match="cut short"):
        read_all(tmp_path)


def read_all(folder):
    colmap.read(folder, ".")
    colmap.read_points(folder)


def test_an_unknown_model_id_is_named(tmp_path):
    write_binary(tmp_path, cameras={3: (99, 640, 480, (1.0, 2.0, 3.0))})
    with pytest.raises(
        InputError, match=r"cameras.bin: camera 3 has the unknown model id 99; known: 0 to 17"
    ):
        colmap.read_cameras(tmp_path)


def test_an_image_of_an_unknown_camera_is_named(root):
    (root / "sparse/0/cameras.bin").unlink(missing_ok=True)
    (root / "sparse/0/cameras.txt").write_text("3 PINHOLE 8 8 1 1 4 4\n")
    with pytest.raises(InputError, match=r"image c.jpg has camera 5, which is not among the 1 cameras"):
        colmap.read(root, "sparse/0")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("cameras", "1 PINHOLE 8 8 1 2 3\n", "line 1: PINHOLE has 4 parameters, not 3"),
        ("cameras", "1 LENS 8 8 1 2 3\n", "line 1: unknown camera model 'LENS'"),
        ("cameras", "1 PINHOLE\n", "line 1: a camera is CAMERA_ID"),
        ("cameras", "1 PINHOLE 8 8 1 2 3 four\n", "line 1: 'four' is not a finite number"),
        ("images", "# c\n1 1 0 0 0 1 2 3 3\n\n", "line 2: an image is ID QW"),
        (
            "images",
            "1 1 0 0 0 1 2 3 3 a.jpg\n2 1 0 0 0 1 2 3 3 b.jpg\n",
            "line 2: the keypoints of a.jpg are not triples",
        ),
        ("images", "1 1 0 0 0 1 two 3 3 a.jpg\n\n", "line 1: 'two' is not a finite number"),
        ("images", "1 9 0 0 0 1 2 3 3 a.jpg\n\n", "image a.jpg has no valid pose"),
        ("images", "# Number of images: 2, mean\n1 1 0 0 0 1 2 3 3 a.jpg\n\n", "2 images announced, 1 found"),
        ("points3D", "1 2 3 4 5 6\n", "line 1: a point is ID X Y Z"),
        ("points3D", "1 2 3 4 5 6 7 0.5\nx 2 3 4 5 6 7 0.5\n", "line 2: 'x' is not a whole number"),
        ("points3D", "# Number of points: 3, mean\n1 2 3 4 5 6 7 0.5\n", "3 points announced, 1 found"),
    ],
)
def test_a_broken_text_file_is_named(tmp_path, name, text, said):
    write_text(tmp_path)
    (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(InputError, match=said) as error:
        read_all(tmp_path)
    assert f"{name}.txt" in str(error.value)


def test_a_folder_without_points_is_named(tmp_path):
    write_text(tmp_path)
    (tmp_path / "points3D.txt").unlink()
    with pytest.raises(InputError, match=r"no points3D.bin and no points3D.txt"):
        colmap.read_points(tmp_path)


def test_a_lens_that_could_distort_but_does_not_is_a_pinhole(tmp_path):
    straight = {3: ("OPENCV", 64, 48, (50.0, 50.0, 32.0, 24.0, 0.0, 0.0, 0.0, 0.0)), 5: CAMERAS[3]}
    write_binary(tmp_path, cameras=straight)
    assert colmap.distorted(tmp_path) == []
    assert colmap.read(tmp_path, ".", missing_images="ignore").notes == ()
