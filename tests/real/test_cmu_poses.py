"""CMU Seasons' real poses decide how its quaternions are to be read: a car drives ahead and stays level."""

import numpy as np
import pandas as pd
import pytest

from samespot.places import cmu_seasons
from samespot.places.pose import conjugate, ground_pose, rotation_matrices
from samespot.places.table import Places


@pytest.fixture(scope="module")
def parts(real_data, tmp_path_factory) -> list[Places]:
    """The poses written as the release has them, and read back with the reader."""
    root = tmp_path_factory.mktemp("cmu")
    poses = pd.read_csv(real_data / "geometry" / "cmu_seasons_poses.csv.gz", dtype=str)
    poses["name"] = poses["image"].str.rsplit("/", n=1).str[-1]
    columns = ["name", "q0", "q1", "q2", "q3", "x", "y", "z"]
    for (k, survey), rows in poses.groupby(["slice", "survey"]):
        database = f"ground-truth-database-images-slice{k}.txt"
        path = root / f"slice{k}" / (database if survey.endswith("_db") else f"camera-poses/{survey}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:  # the two cameras of the database share one file
            rows[columns].to_csv(file, sep=" ", index=False, header=False)
    return [cmu_seasons.read(root, part, missing_images="ignore") for part in cmu_seasons.parts(root)]


@pytest.fixture(scope="module")
def table(parts) -> pd.DataFrame:
    return pd.concat([places.table for places in parts], ignore_index=True)


def off_course(table: pd.DataFrame, heading: np.ndarray) -> dict[str, pd.Series]:
    """By camera, the degrees that it looks right of the way the car drove since the frame before it."""
    drives = table.assign(heading=heading).sort_values(["slice", "survey", "sequence", "time"])
    time = pd.to_datetime(drives["time"])
    drives["seconds"] = (time - time.min()).dt.total_seconds()
    moved = drives.groupby(["slice", "survey", "sequence"])[["easting", "northing", "seconds"]].diff()
    metres = np.hypot(moved["easting"], moved["northing"])
    course = np.rad2deg(np.arctan2(moved["easting"], moved["northing"]))
    angle = (drives["heading"] - course + 180) % 360 - 180
    driving = (metres > 0.1) & (metres < 5) & (moved["seconds"] < 0.5)
    return dict(iter(angle[driving].groupby(drives["sequence"])))


def steadiness(angles: pd.Series) -> float:
    """1 when all angles are the same, near 0 when they point anywhere."""
    return float(abs(np.exp(1j * np.deg2rad(angles)).mean()))


def test_every_pose_is_read_once(parts, table):
    """The list has 29,895 lines, but one drive of slice 24 stands in it twice."""
    assert len(table) == 29_895 - 248
    assert [places.dropped for places in parts if places.dropped] == [{"query listed twice": 248}]
    assert table["condition"].nunique() == 9
    assert (table["condition"] != "unknown").all()
    assert set(table["slice"]) == {6, 7, 8, 22, 23, 24, 25}
    assert set(table["area"]) == {"urban", "park"}
    assert table["survey"].nunique() == 12


def test_images_stand_upright(table):
    up = -rotation_matrices(table[["qw", "qx", "qy", "qz"]])[:, :, 1]
    assert np.quantile(up @ cmu_seasons.FRAME.up, 0.001) > np.cos(np.deg2rad(7))


def test_the_cameras_look_half_left_and_half_right_of_the_way_ahead(table):
    angles = off_course(table, table["heading"].to_numpy())
    assert len(angles["c0"]) > 14_000
    assert angles["c0"].median() == pytest.approx(-44.6, abs=0.2)
    assert angles["c1"].median() == pytest.approx(43.7, abs=0.2)
    assert steadiness(angles["c0"]) > 0.999
    assert steadiness(angles["c1"]) > 0.999


def test_the_inverse_rotation_would_have_shown(table):
    """With the quaternions as stored, images do not stand upright and look anywhere."""
    stored = conjugate(table[["qw", "qx", "qy", "qz"]])
    up = -rotation_matrices(stored)[:, :, 1]
    assert np.median(up @ cmu_seasons.FRAME.up) < 0.5
    heading = ground_pose(table[["tx", "ty", "tz"]], stored, cmu_seasons.FRAME)[2]
    assert all(steadiness(angles) < 0.5 for angles in off_course(table, heading).values())
