"""TB-Places in miniature: who is query and map, and whose fields of view overlap by half."""

import json

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.protocols.tb_places import PROTOCOLS

W17_W18, W18 = PROTOCOLS


def looks(east, north, heading):
    """tx ty tz qx qy qz qw of a level camera, x right, y down, z ahead, in a world of z up."""
    a = -np.deg2rad(heading) / 2  # a compass turns the other way
    c = np.sqrt(0.5)
    return [east, north, 1.0, -c * np.cos(a), -c * np.sin(a), c * np.sin(a), c * np.cos(a)]


def garden(root, part, poses, folder="cam0", prefix="/home/maria/"):
    names = [f"{part}/{folder}/{i:04d}.png" for i in range(len(poses))]
    (root / f"{part}.json").write_text(json.dumps({"im_prefix": prefix, "im_paths": names, "poses": poses}))
    return names


def test_w18_is_looked_up_in_w17(tmp_path):
    """On one spot two sectors of 90° overlap by 1 - turn/90: half at 45° counts, less does not.

    Half a radius sideways they overlap by 0.4497, the paper's figure, and so 1.75 m is too far.
    """
    garden(tmp_path, "W17", [looks(0, 0, 0), looks(0, 0, 50), looks(20, 0, 0)])
    asked = [looks(0, 0, 0), looks(0, 0, 45), looks(0, 0, 200), looks(21.75, 0, 0), looks(21, 0, 0)]
    garden(tmp_path, "W18", asked)
    (case,) = W17_W18.cases(tmp_path)
    assert [rows.tolist() for rows in case.positives] == [[0], [0, 1], [], [], [2]]
    assert case.counted.tolist() == [True, True, False, False, True]
    overlap = case.overlap(None).dense()
    np.testing.assert_allclose(overlap[:2, :2], [[1, 40 / 90], [0.5, 85 / 90]], atol=1e-6)
    assert overlap[2].tolist() == [0, 0, 0]
    assert overlap[3, 2] == pytest.approx(0.44965, abs=1e-5)
    assert W17_W18.ks[-1] == 25


def test_cameras_that_look_along_x(tmp_path):
    """With forward=x all headings turn a quarter to the right, so beside becomes ahead."""
    garden(tmp_path, "W17", [looks(0, 0, 0), looks(0, 1.5, 0), looks(1.5, 0, 0)])
    garden(tmp_path, "W18", [looks(0, 0, 0)])
    ahead, aside = (W17_W18.cases(tmp_path, forward=axis)[0] for axis in ("z", "x"))
    assert ahead.queries.positions[0, 2] == pytest.approx(0, abs=1e-9)
    assert aside.queries.positions[0, 2] == pytest.approx(90)
    # 1.5 m beside the other they share 0.52, 1.5 m ahead of it 0.36
    assert ahead.positives[0].tolist() == [0, 2]
    assert aside.positives[0].tolist() == [0, 1]


@pytest.fixture
def w18(tmp_path):
    """Two recordings of two images each; the poses of 0 and 2, and of 1 and 3, are alike."""
    poses = [looks(0, 0, 0), looks(9, 0, 0)] * 2
    names = [f"W18/{day}/{i}.png" for day in ("morning", "evening") for i in (0, 1)]
    (tmp_path / "W18.json").write_text(json.dumps({"im_prefix": "/x/", "im_paths": names, "poses": poses}))
    return tmp_path


def listed(root, name, paths):
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(json.dumps({"im_prefix": "/y/", "im_paths": paths}))


def test_w18_is_divided_by_the_authors_lists(w18):
    """Their paths may begin elsewhere than those of W18.json."""
    listed(w18, "W18_map.json", ["W18/morning/0.png", "/y/W18/morning/1.png"])
    (case,) = W18.cases(w18)
    assert case.place_names == ["W18/morning/0.png", "W18/morning/1.png"]
    assert case.query_names == ["W18/evening/0.png", "W18/evening/1.png"]
    assert [rows.tolist() for rows in case.positives] == [[0], [1]]
    listed(w18, "W18/W18_query.json", ["evening/1.png"])
    (case,) = W18.cases(w18)
    assert case.query_names == ["W18/evening/1.png"]


def test_lists_that_do_not_fit_are_refused(w18):
    listed(w18, "W18_map.json", ["W18/morning/0.png", "W18/noon/0.png"])
    with pytest.raises(InputError, match=r"W18_map.json: im_paths\[1\] 'W18/noon/0.png' is not"):
        W18.cases(w18)
    listed(w18, "W18_map.json", ["0.png"])  # of the morning or of the evening?
    with pytest.raises(InputError, match=r"im_paths\[0\] '0.png' is not \(or not just once\)"):
        W18.cases(w18)
    listed(w18, "W18_map.json", ["morning/0.png"])
    listed(w18, "W18_query.json", ["evening/0.png", "morning/0.png"])
    with pytest.raises(InputError, match=r"W18/morning/0.png is also in W18_map.json"):
        W18.cases(w18)
    (w18 / "W18_map.json").write_text("[]")
    with pytest.raises(InputError, match="no list im_paths in it"):
        W18.cases(w18)


def test_without_lists_it_says_which_and_what_to_do(w18):
    with pytest.raises(InputError, match=r"W18_map.json.*W18/morning \(2 images\), W18/evening \(2 images\)"):
        W18.cases(w18)
    (case,) = W18.cases(w18, map_sequences="W18/evening")
    assert case.place_names == ["W18/evening/0.png", "W18/evening/1.png"]
    assert [rows.tolist() for rows in case.positives] == [[0], [1]]
    assert case.notes == ("W18 divided by the option map_sequences",)
    with pytest.raises(InputError, match="no sequence 'night'"):
        W18.cases(w18, map_sequences="night")
    with pytest.raises(InputError, match="leaves no queries"):
        W18.cases(w18, map_sequences="W18/evening,W18/morning")
