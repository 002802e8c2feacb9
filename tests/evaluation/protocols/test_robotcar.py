"""RobotCar Seasons in miniature: who is a query, what is the map, and what share is localised, by hand."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.metrics import localised, pose_errors
from samespot.evaluation.poses import POSE_LIMITS, known_poses, pose_estimates, server_names
from samespot.evaluation.protocols.robotcar import PROTOCOLS

(ROBOTCAR,) = PROTOCOLS
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
