"""CMU Seasons in miniature: who is a query, what is the map, and what share is localised, by hand."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.metrics import localised, pose_errors
from samespot.evaluation.poses import POSE_LIMITS, known_poses, pose_estimates, server_names
from samespot.evaluation.protocols.cmu_seasons import PROTOCOLS

EXTENDED, FIRST = PROTOCOLS
LOOKS_NORTH = "0.70710678 0.70710678 0 0"  # world-to-camera
MAP = "img_00122_c0_1303398475046031us.jpg"
AUTUMN = "img_09910_c0_1283348635532952us.jpg"  # 1 Sep 2010
SNOW = "img_00040_c1_1292950000000000us.jpg"  # 21 Dec 2010


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def cmu(tmp_path):
    """Slice 2, urban, has secret queries; slice 22, park, public ones; slice 9 has no queries."""
    for k in (2, 9, 22):
        pose = f"{MAP} {LOOKS_NORTH} {k} 0 0\n"
        write(tmp_path, f"slice{k}/ground-truth-database-images-slice{k}.txt", pose)
    write(tmp_path, "slice2/test-images-slice2.txt", f"{AUTUMN}\n{SNOW}\n")
    write(tmp_path, "slice22/camera-poses/c0_1.txt", f"{AUTUMN} {LOOKS_NORTH} 22 0.4 0\n")
    write(tmp_path, "slice22/camera-poses/c1_2.txt", f"{SNOW} {LOOKS_NORTH} 22 0 6\n")
    return tmp_path


def test_cmu_searches_slice_by_slice(cmu):
    test, train = EXTENDED.cases(cmu, split="all")
    assert [test.name, train.name] == ["slice2", "slice22"]
    assert server_names(test) == [AUTUMN, SNOW]
    assert test.place_names == [f"slice2/database/{MAP}"]
    assert test.groups["area"].tolist() == ["urban", "urban"]
    assert train.groups["area"].tolist() == ["park", "park"]
    assert test.groups["condition"].tolist() == ["sunny + foliage", "low sun + no foliage + snow"]
    assert known_poses(test).tolist() == [False, False]
    assert known_poses(train).tolist() == [True, True]


def test_cmu_splits_are_secret_and_public_poses(cmu):
    assert [case.name for case in EXTENDED.cases(cmu)] == ["slice2"]
    (train,) = EXTENDED.cases(cmu, split="train")
    errors = pose_errors(*pose_estimates(train, [0, 0]), train.queries.centres, train.queries.quaternions)
    np.testing.assert_allclose(errors[0], [0.4, 6])
    assert localised(*errors, POSE_LIMITS) == {(0.25, 2.0): 0, (0.5, 5.0): 0.5, (5.0, 10.0): 0.5}


def test_cmu_over_all_slices_at_once(cmu):
    """As the paper's code searches: one map of all slices, in which another slice may be the best match."""
    (case,) = EXTENDED.cases(cmu, split="all", search="all")
    assert case.place_names == [f"slice{k}/database/{MAP}" for k in (2, 22)]
    assert known_poses(case).tolist() == [False, False, True, True]
    assert case.groups["area"].tolist() == ["urban", "urban", "park", "park"]
    assert pose_estimates(case, [1, 1, 1, 0])[0][:, 0].tolist() == [22, 22, 22, 2]


def test_cmu_slices_can_be_chosen(cmu):
    for words in ("22", "2, 22", "22-22", 22, [22, 2]):
        chosen = [case.name for case in EXTENDED.cases(cmu, split="train", slices=words)]
        assert chosen == ["slice22"]  # slice 2 has no public pose
    with pytest.raises(InputError, match="no slice 20 with database and queries; there are 2, 22"):
        EXTENDED.cases(cmu, slices="20-22,25")
    with pytest.raises(InputError, match="give all, or numbers and ranges"):
        EXTENDED.cases(cmu, slices="urban")
    with pytest.raises(InputError, match="no query with a secret pose in slices 22"):
        EXTENDED.cases(cmu, slices=[22])


def test_cmu_releases_are_not_confused(cmu, tmp_path_factory):
    with pytest.raises(
        InputError, match="extended release of CMU Seasons; use the protocol cmu-seasons-extended"
    ):
        FIRST.cases(cmu)
    first = tmp_path_factory.mktemp("first")
    (first / "images" / "slice3" / "query").mkdir(parents=True)
    (first / "images" / "slice3" / "database").mkdir()
    name = MAP.replace(".jpg", "_rect.jpg")
    write(first, "3D-models/slice3.nvm", f"NVM_V3\n\n1\n{name} 868 {LOOKS_NORTH} 1 2 3 0 0\n\n0\n")
    query = SNOW.replace(".jpg", "_rect.jpg")
    write(
        first,
        "query_lists/slice3.queries_with_intrinsics.txt",
        f"{query} OPENCV 1024 768 868 866 525 420 0 0 0 0\n",
    )
    (case,) = FIRST.cases(first)
    assert (case.name, server_names(case)) == ("slice3", [query])
    assert pose_estimates(case, [0])[0].tolist() == [[1, 2, 3]]
    with pytest.raises(InputError, match=r"use the protocol cmu-seasons$"):
        EXTENDED.cases(first)


def test_a_folder_without_cmu_says_what_is_expected(tmp_path):
    with pytest.raises(InputError, match="no slice with both database and queries"):
        EXTENDED.cases(tmp_path)
