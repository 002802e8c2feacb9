"""The 3D pair figure, read back pixel by pixel: each part of a made-up wall must have its colour and its place."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.figures.cloud_pair import NEITHER, _viewpoint, draw_cloud_pair
from samespot.figures.style import MAP, QUERY, SHARED
from samespot.overlap.cloud import PointCloud
from samespot.places.pose import rotation_matrices

UPRIGHT = [1.0, 0.0, 0.0, 0.0]  # y down, z ahead


def wall_pair(tmp_path):
    """A wall 4 m wide, 3 m ahead: the first camera sees its left half, the second all but the left quarter."""
    x, y = np.meshgrid(np.arange(-2, 2, 0.02), np.arange(-1, 1, 0.02))
    cloud = PointCloud(np.stack([x.ravel(), y.ravel(), np.full(x.size, 3.0)], axis=1))
    low = np.abs(cloud.xyz[:, 1]) < 0.8  # a rim that neither sees
    photo = tmp_path / "photo.png"
    Image.new("RGB", (64, 48), (10, 200, 30)).save(photo)
    return {
        "cloud": cloud,
        "seen_a": (cloud.xyz[:, 0] < 0) & low,
        "seen_b": (cloud.xyz[:, 0] > -1) & low,
        "image_a": photo,
        "image_b": photo,
        "centres": [[-0.5, 0, 0], [0.5, 0, 0]],
        "quaternions": [UPRIGHT, UPRIGHT],
        "similarity": 0.25,
    }


def places_of(picture, colour):
    """Rows and columns of the pixels of exactly one colour in the cloud's part of the figure."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    rows, columns = np.nonzero((picture == wanted).all(axis=2))
    right = columns > picture.shape[1] * 0.3
    below_legend = rows > picture.shape[0] * 0.12
    return rows[right & below_legend], columns[right & below_legend]


def test_each_part_of_the_wall_has_its_colour_from_left_to_right(tmp_path):
    out = draw_cloud_pair(tmp_path / "deep" / "pair.png", **wall_pair(tmp_path))
    picture = np.asarray(Image.open(out).convert("RGB"))
    found = {
        name: places_of(picture, c)
        for name, c in (("a", QUERY), ("both", SHARED), ("b", MAP), ("rest", NEITHER))
    }
    # the wall's quarters: one only the first sees, one both, two only the second
    assert len(found["b"][1]) > 1.5 * len(found["both"][1]) > 1000
    assert len(found["a"][1]) > 1000
    assert len(found["rest"][1]) > 1000
    assert np.median(found["a"][1]) < np.median(found["both"][1]) < np.median(found["b"][1])


def test_photos_are_shown_and_a_missing_one_is_not_an_error(tmp_path):
    pair = wall_pair(tmp_path)
    green = [10, 200, 30]
    shown = []
    for image_b in (pair["image_b"], tmp_path / "absent.jpg"):
        out = draw_cloud_pair(tmp_path / "pair.png", **{**pair, "image_b": image_b})
        picture = np.asarray(Image.open(out).convert("RGB"))
        half = picture.shape[0] // 2
        shown.append([int((part == green).all(axis=2).sum()) for part in (picture[:half], picture[half:])])
    assert min(shown[0]) > 10_000
    assert shown[1][0] > 10_000
    assert shown[1][1] < 0.1 * shown[0][1]


def test_the_viewer_stands_behind_and_above_the_cameras():
    turns = [[1.0, 0, 0, 0], [np.cos(0.3), 0, np.sin(0.3), 0], [0.2, 0.5, -0.4, 0.7]]
    for other in turns:
        rotation = rotation_matrices([turns[0], other])
        view = _viewpoint(rotation)
        np.testing.assert_allclose(view @ view.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(view) == pytest.approx(1.0)
    view = _viewpoint(rotation_matrices(turns[:2]))
    assert (view[2] @ rotation_matrices(turns[:2])[:, :, 2].T < 0).all()  # both look away from the viewer
    assert view[2] @ [0, -1, 0] > 0.5  # from above, with y down
    assert view[1] @ [0, -1, 0] > 0.5  # up stays up


def test_cameras_that_look_in_opposite_directions_are_drawn_from_the_first_ones_back():
    back = [0.0, 0.0, 1.0, 0.0]  # half a turn about the upright axis
    view = _viewpoint(rotation_matrices([UPRIGHT, back]))
    assert np.isfinite(view).all()
    assert view[2] @ [0, 0, 1] < -0.5


def test_nothing_to_draw_or_the_wrong_sizes_is_one_clear_line(tmp_path):
    pair = wall_pair(tmp_path)
    (tmp_path / "torn.png").write_bytes(b"no picture")
    nobody = np.zeros(len(pair["cloud"]), dtype=bool)
    for change, said in (
        ({"seen_a": nobody, "seen_b": nobody}, "neither camera sees a point"),
        ({"seen_a": nobody[:5]}, "give one boolean per point"),
        ({"image_a": tmp_path / "torn.png"}, "torn.png: cannot decode the image"),
    ):
        with pytest.raises(InputError, match=said):
            draw_cloud_pair(tmp_path / "pair.png", **{**pair, **change})
