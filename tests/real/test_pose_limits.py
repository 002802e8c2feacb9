"""Shares localised on real poses, against scipy; and a real kitchen as its own map."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from samespot.evaluation.metrics import localised, pose_errors
from samespot.evaluation.poses import POSE_LIMITS, known_poses, pose_estimates, server_names
from samespot.evaluation.protocols.cmu_seasons import PROTOCOLS
from samespot.evaluation.protocols.seven_scenes import PROTOCOLS as INDOOR
from samespot.evaluation.submission import read_poses, write_poses


@pytest.fixture(scope="module")
def slices(real_data, tmp_path_factory) -> Path:
    """Slices 7 and 22 written as the release has them."""
    root = tmp_path_factory.mktemp("cmu")
    poses = pd.read_csv(real_data / "geometry" / "cmu_seasons_poses.csv.gz", dtype=str)
    poses["name"] = poses["image"].str.rsplit("/", n=1).str[-1]
    for (k, survey), rows in poses[poses["slice"].isin(["7", "22"])].groupby(["slice", "survey"]):
        database = f"ground-truth-database-images-slice{k}.txt"
        path = root / f"slice{k}" / (database if survey.endswith("_db") else f"camera-poses/{survey}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            columns = ["name", "q0", "q1", "q2", "q3", "x", "y", "z"]
            rows[columns].to_csv(file, sep=" ", index=False, header=False)
    return root


@pytest.fixture(scope="module")
def cases(slices):
    extended = next(protocol for protocol in PROTOCOLS if protocol.name == "cmu-seasons-extended")
    found = extended.cases(slices, split="train")
    assert [case.name for case in found] == ["slice7", "slice22"]
    return found


def nearest(case):
    """The nearest map camera that looks the way of the query to 30°: what a perfect retrieval would find."""
    looks = Rotation.from_quat(case.places.quaternions[:, [1, 2, 3, 0]])
    asked = Rotation.from_quat(case.queries.quaternions[:, [1, 2, 3, 0]])
    _, near = cKDTree(case.places.centres).query(case.queries.centres, k=30)
    turn = np.stack([np.degrees((looks[column].inv() * asked).magnitude()) for column in near.T], axis=1)
    first = np.argmax(turn < 30, axis=1)
    return np.take_along_axis(near, first[:, None], axis=1)[:, 0]


def test_shares_agree_with_scipy(cases):
    for case in cases:
        assert known_poses(case).all()
        best = nearest(case)
        ours = pose_errors(*pose_estimates(case, best), case.queries.centres, case.queries.quaternions)
        metres = np.linalg.norm(case.places.centres[best] - case.queries.centres, axis=1)
        estimate = Rotation.from_quat(case.places.quaternions[best][:, [1, 2, 3, 0]])
        true = Rotation.from_quat(case.queries.quaternions[:, [1, 2, 3, 0]])
        degrees = np.degrees((estimate.inv() * true).magnitude())
        np.testing.assert_allclose(ours[0], metres, atol=1e-9)
        np.testing.assert_allclose(ours[1], degrees, atol=1e-6)
        shares = localised(*ours, POSE_LIMITS)
        for m, deg in POSE_LIMITS:
            assert shares[m, deg] == np.mean((metres <= m) & (degrees <= deg))
        # a car drives the same lane again, yet not to a quarter metre: what is left to geometry after retrieval
        assert shares[0.25, 2.0] < shares[0.5, 5.0] < shares[5.0, 10.0]
        assert shares[5.0, 10.0] > 0.9


def test_the_order_of_quaternions_matters(cases):
    """The same estimates with every rotation inverted fail: the test would see a mistaken convention."""
    case = cases[0]
    centres, turns = pose_estimates(case, nearest(case))
    wrong = pose_errors(centres, turns * [1, -1, -1, -1], case.queries.centres, case.queries.quaternions)
    assert localised(*wrong, POSE_LIMITS)[5.0, 10.0] < 0.1


def test_a_submission_holds_the_map_s_own_lines(cases, slices, tmp_path):
    """The release stores the world-to-camera rotation and the centre; the server wants the rotation and t = -R c."""
    case = cases[0]
    best = nearest(case)
    write_poses(tmp_path / "p.txt", server_names(case), *pose_estimates(case, best))
    names, centres, _ = read_poses(tmp_path / "p.txt")
    assert names == [name.rsplit("/", 1)[-1] for name in case.query_names]
    np.testing.assert_allclose(centres, case.places.centres[best], atol=1e-6)
    released = np.loadtxt(slices / "slice7" / "ground-truth-database-images-slice7.txt", usecols=range(1, 8))
    written = np.loadtxt(tmp_path / "p.txt", usecols=range(1, 8))
    np.testing.assert_allclose(written[:, :4], released[best, :4], atol=1e-5)
    rotation = Rotation.from_quat(released[best][:, [1, 2, 3, 0]])
    np.testing.assert_allclose(written[:, 4:], -rotation.apply(released[best, 4:]), atol=1e-3)


def test_a_real_kitchen_is_its_own_map(real_data):
    """250 frames: 24 of 25 queries have a frame of another moment that shows more than half of the same."""
    sequence = next(protocol for protocol in INDOOR if protocol.name == "7scenes-sequence")
    (case,) = sequence.cases(real_data / "redkitchen")
    assert (case.query_count, case.place_count) == (25, 225)
    labels = case.overlap(None)
    assert case.counted.sum() == 24
    query, place = (t.table["frame"].to_numpy() for t in (case.queries, case.places))
    for row, positives in enumerate(case.positives):
        assert (np.abs(place[positives] - query[row]) > 100).all()
        assert (labels.lookup(row, positives) > 0.5).all()
    # frames that overlap by half were taken from nearby: a room is small, but not that small
    apart = [
        np.linalg.norm(case.places.centres[p] - case.queries.centres[i], axis=1)
        for i, p in enumerate(case.positives)
    ]
    assert np.concatenate(apart).max() < 3
