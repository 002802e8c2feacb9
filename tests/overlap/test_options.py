"""Options of labelling: what a user types is what is labelled, and what would do nothing is refused."""

import numpy as np
import pytest

from samespot import InputError, Places, label_pairs, sector_overlap
from samespot.options import split
from samespot.overlap.options import LabelOptions, label_tasks, parse_pair
from samespot.overlap.rules import Points, Sectors, SoftDistance, Within, parse_soft_distance, parse_within
from samespot.overlap.task import run_task
from samespot.places.options import ReadOptions
from samespot.places.pose import PoseFrame


def tasks(places, map=None, **typed):
    ours, reading = split(typed, LabelOptions, ReadOptions)
    given = {"places": places, **({} if map is None else {"map": map})}
    return label_tasks(LabelOptions.of({**given, **ours}), ReadOptions.of(reading))


@pytest.mark.parametrize("occlusion", ["none", "depth", "cloud"])
def test_a_wall_hides_nothing_of_itself(wall_scene, occlusion):
    (task,) = tasks(wall_scene, kind="3d", part="heads/train", occlusion=occlusion)
    np.testing.assert_allclose(run_task(task).labels.dense(), [[1, 0.628], [0.628, 1]], atol=0.012)


def test_strong_labels_come_from_the_pose(tmp_path):
    """The compass column is wrong on purpose; the pose looks north (+y) from (0, 0) and from (25, 0)."""
    half = np.sqrt(0.5)
    table = {"image": ["a", "b"], "easting": [0.0, 900.0], "northing": [0.0, 0.0], "heading": [123.0, 7.0],
             "tx": [0.0, 25.0], "ty": 0.0, "tz": 1.5, "qw": half, "qx": -half, "qy": 0.0, "qz": 0.0}  # fmt: skip
    path = Places.build(tmp_path, table, missing_images="ignore").save(tmp_path / "p.csv")
    (task,) = tasks(path, from_pose=True)
    np.testing.assert_allclose(task.queries.positions, [[0, 0, 0], [25, 0, 0]], atol=1e-9)
    assert run_task(task).labels.dense()[0, 1] == pytest.approx(0.44965, abs=5e-5)
    # with north along x, the same cameras look west, one 25 m to the left of the other
    (task,) = tasks(path, from_pose=True, north="x")
    np.testing.assert_allclose(task.queries.positions, [[0, 0, 270], [0, 25, 270]], atol=1e-9)
    assert PoseFrame().east().tolist() == [1, 0, 0]


def test_the_map_follows_the_projection_of_the_queries(tmp_path):
    """Queries lie in one UTM zone, the map across its border: both must land on one plane."""
    (tmp_path / "q.csv").write_text(
        "image,latitude,longitude,heading\na,52.0,5.99990,90\nb,52.0,5.99995,90\n"
    )
    (tmp_path / "m.csv").write_text("image,latitude,longitude,heading\nc,52.0,5.9998,90\nd,52.0,6.0001,90\n")
    (task,) = tasks(tmp_path / "q.csv", tmp_path / "m.csv")
    assert task.queries.projection == task.places.projection == "EPSG:32631"
    assert run_task(task).labels.dense().min() > 0.4  # all within 14 m along one street


def test_a_request_gives_the_same_as_the_library(tmp_path):
    rng = np.random.default_rng(1)
    columns = {"image": [f"{i}" for i in range(30)], "easting": rng.uniform(0, 90, 30),
               "northing": rng.uniform(0, 90, 30), "heading": rng.uniform(0, 360, 30)}  # fmt: skip
    path = Places.build(tmp_path, columns, missing_images="ignore").save(tmp_path / "p.csv")
    (task,) = tasks(path, theta=70, radius=40, measure="iou")
    places = Places.read(path)
    np.testing.assert_array_equal(
        run_task(task).labels.dense(), label_pairs(places, places, 70, 40, "iou").dense()
    )
    every = sector_overlap(places.positions[:, None], places.positions, 70, 40, "iou")
    assert run_task(task).summary()["nonzero"] == np.count_nonzero(every)


def test_words_are_parsed():
    assert parse_within("25m,40deg") == Within(25.0, 40.0)
    assert parse_within("5m") == Within(5.0, None)
    assert parse_pair("3,14") == (3, 14)
    with pytest.raises(InputError):
        parse_within("25 km")
    assert parse_soft_distance("15m") == SoftDistance(15.0, 0.8)
    assert parse_soft_distance("25m, 0.2/m") == SoftDistance(25.0, 0.2)
    for wrong in ("15", "15m,0.8", "m", "15m,/m", "15m,40deg"):
        with pytest.raises(InputError, match="write metres"):
            parse_soft_distance(wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "4d"}, "`kind` '4d' is unknown; choose one of 2d, 3d"),
        ({"unknown_heading": "guess"}, "`unknown_heading` 'guess' is unknown; choose one of error, disk"),
        ({"kind": "3d", "cloud": "a.ply"}, "`cloud` also needs `camera=width"),
        ({"kind": "3d", "cloud": "a.ply", "camera": "640,480"}, "give six numbers"),
    ],
)
def test_bad_options_are_named(tmp_path, options, words):
    path = tmp_path / "p.csv"
    path.write_text("image,easting,northing,heading\na,0,0,0\n")
    with pytest.raises(InputError) as error:
        tasks(path, **options)
    assert words in str(error.value)


SECTOR = {"theta": 30.0, "radius": 10.0, "measure": "iou", "unknown_heading": "disk", "panoramas": "sector"}
POINTS = {"cloud": "a.ply", "camera": "1,1,1,1,1,1", "occlusion": "depth", "device": "cuda"}
READING = {"map": "m.csv", "map_part": "W18", "split": "query", "map_split": "map", "from_pose": True}


@pytest.mark.parametrize(
    ("mode", "idle", "why"),
    [
        ({}, POINTS, "without `kind=3d`"),
        ({}, {"forward": "x", "up": "z", "north": "y"}, "without `from_pose`"),
        ({"kind": "3d"}, {**SECTOR, "within": "1m", "soft_distance": "1m"}, "with `kind=3d`"),
        ({"within": "25m"}, {**SECTOR, "soft_distance": "15m", "pair": "1,2"}, "with `within`"),
        ({"soft_distance": "15m"}, {**SECTOR, "pair": "1,2"}, "with `soft_distance`"),
        ({"figures": False}, {"pair": "1,2"}, "with `figures=False`"),
        ({"preset": "campus"}, {**SECTOR, **POINTS, **READING, "pair": "1,2"}, "with `preset=campus`"),
        ({"preset": "7scenes"}, {"occlusion": "depth", "camera": "1,1,1,1,1,1"}, "with `preset=7scenes`"),
    ],
)
def test_an_option_without_effect_is_refused_by_name(mode, idle, why):
    for name, value in idle.items():
        with pytest.raises(InputError) as error:
            LabelOptions.of({"places": "absent.csv", **mode, name: value})
        assert str(error.value) == f"`{name}` has no effect {why}"


def test_defaults_are_those_of_the_rules(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("image,easting,northing,heading\na,0,0,0\n")
    (task,) = tasks(path)
    assert task.rule == Sectors()
    (task,) = tasks(path, radius=7.0)
    assert task.rule == Sectors(radius=7.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"occlusion": "zz"}, "`occlusion` 'zz' is unknown; choose one of none, depth, cloud"),
        ({"device": "tpu"}, "`device` 'tpu' is unknown; choose one of cpu, cuda, cuda:N"),
        ({"pair": "2,0"}, "`pair` 2,0: there are 2 queries and 2 map images"),
        ({"pair": "-1,0"}, "`pair` -1,0: there are 2 queries and 2 map images"),
    ],
)
def test_3d_options_are_checked_before_a_cloud_is_fused(wall_scene, monkeypatch, options, words):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError) as error:  # the scene is only made by run_task
        tasks(wall_scene, kind="3d", part="heads/train", **options)
    assert words in str(error.value)


def test_depth_that_hides_must_be_there_before_a_cloud_is_fused(wall_scene):
    (wall_scene / "heads" / "seq-01" / "frame-000001.depth.png").unlink()
    with pytest.raises(InputError, match="not every image has a depth image"):
        tasks(wall_scene, kind="3d", part="heads/train", occlusion="depth")


def test_the_device_of_a_3d_preset_can_be_chosen(wall_scene):
    rules = [task.rule for task in tasks(wall_scene, preset="7scenes", device="torch-cpu")]
    assert len(rules) == 2
    assert all(isinstance(rule, Points) and rule.device == "torch-cpu" for rule in rules)
