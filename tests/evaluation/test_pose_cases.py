"""RobotCar and CMU Seasons in miniature: who is a query, what is the map, and what share is localised, by hand."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.metrics import localised, pose_errors
from samespot.evaluation.pose_cases import PROTOCOLS, known_poses, pose_estimates, server_names
from samespot.evaluation.protocol import POSE_LIMITS

NAMED = {protocol.name: protocol for protocol in PROTOCOLS}
ROBOTCAR, EXTENDED, FIRST = (
    NAMED[name] for name in ("robotcar-seasons-v2", "cmu-seasons-extended", "cmu-seasons")
)
AHEAD = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])  # camera-to-world of a level camera that looks north


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def matrix_line(name, centre, turned=0.0):
    """A line of robotcar_v2_train.txt, the camera turned to the right by so many degrees."""
    a = np.deg2rad(turned)
    turn = np.array(
        [[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]]
    )  # about z, which is down
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn @ AHEAD, centre
    return f"{name} {' '.join(map(str, pose.ravel()))}\n"


@pytest.fixture
def robotcar(tmp_path):
    """Two places 100 m apart, each seen by three cameras; four training queries and three test ones."""
    north = "0.5 -0.5 -0.5 -0.5"  # AHEAD the other way round, as the model has it
    cameras = [
        f"./overcast-reference/{side}/{stamp}.png 400 {north} {x} 0 0 0 0\n"
        for stamp, x in ((1417178853000001, 0), (1417178853000002, 100))
        for side in ("left", "rear", "right")
    ]
    write(tmp_path, "3D-models/all-merged/all.nvm", f"NVM_V3\n\n6\n{''.join(cameras)}\n0\n")
    train = (
        matrix_line("dawn/rear/1418236792000001.jpg", (0.2, 0, 0), 1)
        + matrix_line("sun/rear/1418236792000002.jpg", (100, 0.3, 0), 4)
        + matrix_line("night/rear/1418236792000003.jpg", (0, 3, 0))
        + matrix_line("night-rain/rear/1418236792000004.jpg", (0, 0, 0), 11)
    )
    write(tmp_path, "robotcar_v2_train.txt", train)
    names = [f"{c}/1424450350000000.jpg" for c in ("dusk/rear", "night/rear", "snow/left")]
    write(tmp_path, "robotcar_v2_test.txt", "\n".join(names) + "\n")
    return tmp_path


def test_robotcar_test_poses_are_secret(robotcar):
    (case,) = ROBOTCAR.cases(robotcar)
    assert server_names(case) == ["rear/1424450350000000.jpg"] * 2  # the left image is not scored
    assert case.groups["condition"].tolist() == ["dusk", "night"]
    assert case.groups["light"].tolist() == ["day-all", "night-all"]
    assert not known_poses(case).any()
    assert case.place_count == 6
    assert case.positives is None


def test_robotcar_train_is_localised_as_worked_out_by_hand(robotcar):
    """Errors of the matches 0.2 m/1°, 0.3 m/4°, 3 m/0° and 0 m/11°: one, two and three of four are near enough."""
    (case,) = ROBOTCAR.cases(robotcar, split="train", cameras="rear")
    assert case.place_names == [f"images/overcast-reference/rear/141717885300000{i}.jpg" for i in (1, 2)]
    assert known_poses(case).all()
    errors = pose_errors(*pose_estimates(case, [0, 1, 0, 0]), case.queries.centres, case.queries.quaternions)
    np.testing.assert_allclose(errors[0], [0.2, 0.3, 3, 0], atol=1e-9)
    np.testing.assert_allclose(errors[1], [1, 4, 0, 11], atol=1e-6)
    assert localised(*errors, POSE_LIMITS) == {(0.25, 2.0): 0.25, (0.5, 5.0): 0.5, (5.0, 10.0): 0.75}
    night = case.groups["light"] == "night-all"
    assert localised(errors[0][night], errors[1][night], POSE_LIMITS)[5.0, 10.0] == 0.5


def test_nothing_found_is_no_estimate(robotcar):
    (case,) = ROBOTCAR.cases(robotcar, split="train")
    centres, quaternions = pose_estimates(case, [-1, 3])
    assert np.isnan(centres[0]).all()
    assert np.isnan(quaternions[0]).all()
    assert centres[1].tolist() == [100, 0, 0]
    np.testing.assert_allclose(quaternions[1], [0.5, 0.5, 0.5, 0.5])


def test_robotcar_options_are_checked(robotcar):
    with pytest.raises(InputError, match="`cameras` 'front' is unknown"):
        ROBOTCAR.cases(robotcar, cameras="front")
    with pytest.raises(InputError, match="`split` 'val' is unknown"):
        ROBOTCAR.cases(robotcar, split="val")


LOOKS_NORTH = "0.70710678 0.70710678 0 0"  # world-to-camera
MAP = "img_00122_c0_1303398475046031us.jpg"
AUTUMN = "img_09910_c0_1283348635532952us.jpg"  # 1 Sep 2010
SNOW = "img_00040_c1_1292950000000000us.jpg"  # 21 Dec 2010


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
