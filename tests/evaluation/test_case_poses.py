"""Poses in an evaluation: solved from the photos that were retrieved, measured, written for a server, and reported."""

import numpy as np
import pytest

import samespot
from samespot.evaluation.outcomes import median_pose
from samespot.evaluation.results import Evaluation
from samespot.evaluation.submission import read_poses
from samespot.figures.pose_errors import cumulative, pose_error_figure
from samespot.figures.report_runs import load_runs
from samespot.figures.report_sections.poses import poses as section
from samespot.matching.verification import verifier_named
from samespot.places.table import Places
from samespot.poses.absolute import Solved
from samespot.poses.estimating import DensePoses, LocalPoses
from samespot.town.build import build_town

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    root = tmp_path_factory.mktemp("posed") / "town"
    return root, build_town(root, seed=5, visits=3, size=(120, 160), photos_per_visit=24)


@pytest.fixture(scope="module")
def done(town, tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluation") / "out"
    how = {"poses": "local", "pose_from": 4, "pose_keypoints": 512}
    return samespot.evaluate("samespot-lite", "town", root=town[0], out=out, **how), out


def test_a_row_of_poses_beside_retrieval_alone(done):
    result, _ = done
    plain, posed = result.evaluation.variants[:2]
    assert posed.posed_by == "xfeat of 4"
    assert posed.title.endswith("poses by xfeat of 4")
    assert {"0.05 m, 5°", "0.25 m, 2°", "0.5 m, 5°", "5 m, 10°"} <= set(posed.metrics) & set(plain.metrics)
    assert posed.metrics["R@1"] == plain.metrics["R@1"]
    assert posed.metrics["0.5 m, 5°"].value > plain.metrics["0.5 m, 5°"].value
    assert median_pose(plain) != median_pose(posed)
    again = Evaluation.load(done[1])
    assert again.variants[1].posed_by == posed.posed_by


def test_the_file_for_the_server_holds_the_poses_that_were_solved(done, tmp_path):
    result, out = done
    (solved,) = result.poses[result.evaluation.variants[1].name]
    (path,) = out.glob("poses-*posed-by*.txt")
    names, centres, _ = read_poses(path)
    known = np.isfinite(solved.centres).all(axis=1)
    assert len(names) == known.sum() > 0
    assert {name.split("/")[1] for name in names} == {"visit1", "visit2"}  # each counts its photos from 0
    assert centres == pytest.approx(solved.centres[known], abs=1e-9)
    assert all((why is None) == has for why, has in zip(solved.reasons, known, strict=True))
    longer = tmp_path / "more.txt"  # as DSAC* writes them: errors after the pose
    longer.write_text("".join(f"{line} 0.31 1.7\n" for line in path.read_text().splitlines()))
    assert read_poses(longer)[1] == pytest.approx(centres)


def test_the_report_draws_them(done, tmp_path):
    drawn = section(load_runs([done[1]]))
    assert drawn.title == "Poses"
    assert "poses by xfeat of 4" in drawn.body
    drawn = pose_error_figure({"one": (np.array([0.1, 1e9]), np.array([1.0, 180.0]))}, tmp_path / "poses.png")
    assert drawn.stat().st_size > 1000
    at, share = cumulative(np.array([0.005, 0.5, 3.0, 1e9]), (0.01, 20.0))
    assert at.tolist() == [0.01, 0.5, 3.0, 20.0]
    assert share.tolist() == [0.25, 0.5, 0.75, 0.75]


def chosen(town):
    """A query and the map photos around it, by the truth."""
    photos = town[1]
    queries, places = photos.of_split("query"), photos.of_split("map")
    apart = np.linalg.norm(queries.centres[:, None] - places.centres[None], axis=2)
    alike = np.einsum("qi,pi->qp", ahead(queries), ahead(places))
    cost = apart + 1e3 * (alike < 0.7)
    query = int(cost.min(axis=1).argmin())
    return queries, places, query, np.argsort(cost[query])[:3].tolist()


def ahead(places):
    from samespot.places.pose import rotation_matrices

    return rotation_matrices(places.quaternions)[:, :, 2]


@pytest.mark.parametrize("views", [False, True])
def test_dense_matching_of_feature_maps(town, views):
    queries, places, query, rows = chosen(town)
    posing = DensePoses(queries, places, samespot.load_model("samespot-lite"), views=views)
    found = posing.pose(query, rows)
    assert isinstance(found, Solved)
    assert np.linalg.norm(found.centre - queries.centres[query]) < 1.0


def test_what_poses_need_is_told(town):
    queries, places, *_ = chosen(town)
    verifier = verifier_named("xfeat", 256)
    with pytest.raises(samespot.InputError, match="cameras of the map's photos are not known"):
        LocalPoses(queries, Places(places.root, places.table.drop(columns="fov")), verifier)
    with pytest.raises(samespot.InputError, match="no 6DOF pose"):
        LocalPoses(queries, Places(places.root, places.table.drop(columns=["tx", "qw"])), verifier)
    bare = Places(places.root, places.table.drop(columns="depth"))
    with pytest.raises(samespot.InputError, match="depth images, and none are there"):
        DensePoses(queries, bare, samespot.load_model("samespot-lite"))
    with pytest.raises(samespot.InputError, match="no descriptor '7' to solve poses from"):
        samespot.evaluate("samespot-lite", "town", root=town[0], poses="local", pose_of="7")
    with pytest.raises(samespot.InputError, match="without `poses`"):
        samespot.evaluate("samespot-lite", "town", root=town[0], pose_from=3)
