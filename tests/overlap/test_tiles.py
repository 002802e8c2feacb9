"""Parts of labels that are kept: those of the same labels alone, and no more open files than there may be."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from samespot import cluster
from samespot.errors import InputError
from samespot.overlap import tiles, visibility
from samespot.overlap.cloud import PointCloud
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import Points, Sectors
from samespot.overlap.scene import Scene
from samespot.places.camera import Camera
from samespot.places.table import Places
from tests.overlap.test_task import write_msls

CAMERA = Camera(64, 48, 60.0, 60.0, 32.0, 24.0)


class OneProcess:
    """A cluster that is this process; counts its jobs, and how often its nodes are checked."""

    def __init__(self):
        self.jobs = self.checks = 0

    def check(self, photos=()):
        self.checks += 1

    def each(self, work, jobs, *shared):
        for number, job in enumerate(jobs):
            self.jobs += 1
            yield number, work(job, *shared)


@pytest.fixture
def alone(monkeypatch):
    from contextlib import nullcontext

    made = OneProcess()
    monkeypatch.setattr(tiles, "joined_cluster", lambda address, progress: nullcontext(made))
    return made


def posed(root, **columns):
    table = {
        "image": [f"{i}.jpg" for i in range(4)],
        "tx": np.arange(4) * 0.5,
        "easting": 0.0,
        "northing": 0.0,
    }
    table |= {"heading": 0.0, "ty": 0.0, "tz": 0.0, "qw": 1.0, "qx": 0.0, "qy": 0.0, "qz": 0.0, **columns}
    return Places.build(root, table, missing_images="ignore")


def stopped(rule, places, out):
    """A labelling that is interrupted after its first part."""

    def stop(what, done, total):
        if what == "labelling":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rule.label(places, places, out=out, ray="local", progress=stop)


def test_parts_of_another_scene_are_not_taken(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "RUN", 1)
    dice = np.random.default_rng(0)
    scene = Scene(PointCloud(dice.uniform((-2, -1, 1), (4, 1, 4), (60, 3))), CAMERA, "points.ply")
    moved = replace(scene, cloud=PointCloud(scene.cloud.xyz + 0.2))
    closer = replace(scene, cameras=Camera(64, 48, 90.0, 90.0, 32.0, 24.0))
    places = posed(tmp_path)
    for number, other in enumerate((moved, closer, replace(scene, far=2.0))):
        stopped(Points(scene), places, tmp_path / str(number))
        alone.jobs = 0
        found = Points(other).label(places, places, out=tmp_path / str(number), ray="local")
        assert alone.jobs == 4
        np.testing.assert_array_equal(found.dense(), Points(other).label(places, places).dense())


def test_parts_of_the_same_scene_are_taken_and_those_of_another_samespot_are_not(
    alone, tmp_path, monkeypatch
):
    monkeypatch.setattr(tiles, "RUN", 1)
    cloud = PointCloud(np.random.default_rng(0).uniform((-2, -1, 1), (4, 1, 4), (60, 3)))
    rule, places = Points(Scene(cloud, CAMERA, "points.ply")), posed(tmp_path)
    stopped(rule, places, tmp_path / "a")
    alone.jobs = 0
    rule.label(places, places, out=tmp_path / "a", ray="local")
    assert alone.jobs == 3
    stopped(rule, places, tmp_path / "b")
    monkeypatch.setattr(tiles, "source_digest", lambda: "another")
    alone.jobs = 0
    rule.label(places, places, out=tmp_path / "b", ray="local")
    assert alone.jobs == 4


def test_parts_of_depth_images_that_were_corrected_are_not_taken(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "RUN", 1)
    for name in range(4):
        Image.fromarray(np.full((48, 64), 1500, np.uint16)).save(tmp_path / f"{name}.png")
    cloud = PointCloud(np.random.default_rng(0).uniform((-2, -1, 1), (4, 1, 4), (60, 3)))
    places = posed(tmp_path, depth=[f"{name}.png" for name in range(4)])
    rule = Points(Scene(cloud, CAMERA, "points.ply"), "depth")
    stopped(rule, places, tmp_path / "labels")
    Image.fromarray(np.full((48, 64), 9000, np.uint16)).save(tmp_path / "0.png")
    alone.jobs = 0
    found = rule.label(places, places, out=tmp_path / "labels", ray="local")
    assert alone.jobs == 4
    np.testing.assert_array_equal(found.dense(), rule.label(places, places).dense())
    stopped(rule, places, tmp_path / "again")
    alone.jobs = 0
    rule.label(places, places, out=tmp_path / "again", ray="local")
    assert alone.jobs == 3


@pytest.mark.parametrize("rule", ["flat", "scene"])
def test_parts_go_when_the_labels_are_finished_without_a_cluster(alone, tmp_path, monkeypatch, rule):
    monkeypatch.setattr(tiles, "RUN", 1)
    monkeypatch.setattr(tiles, "TILE", 1)
    cloud = PointCloud(np.random.default_rng(0).uniform((-2, -1, 1), (4, 1, 4), (60, 3)))
    made = Sectors() if rule == "flat" else Points(Scene(cloud, CAMERA, "points.ply"))
    places = posed(tmp_path)
    stopped(made, places, tmp_path / "labels")
    assert (tmp_path / ".labels.tiles").exists()
    made.label(places, places, out=tmp_path / "labels")
    assert not (tmp_path / ".labels.tiles").exists()


def test_what_holds_no_part_does_not_stay(tmp_path, monkeypatch):
    """Of a labelling that fails before its first part is finished."""
    places = posed(tmp_path)

    def refuse(address, progress):
        raise InputError("nothing answers there")

    monkeypatch.setattr(tiles, "joined_cluster", refuse)
    with pytest.raises(InputError, match="nothing answers there"):
        Sectors().label(places, places, out=tmp_path / "labels", ray="10.0.0.1:6379")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named_and_what_is_there_is_gone_on_with(alone, tmp_path, monkeypatch):
    """The second part finds no room; in another folder the first finds none."""
    monkeypatch.setattr(tiles, "TILE", 1)
    places, save, saved = posed(tmp_path), tiles.save_array, []

    def full(path, array):
        if len(saved) == 3:  # a part has two files
            path.write_bytes(b"some")
            save(Path("/dev/full"), array)
        save(path, array)
        saved.append(path)

    monkeypatch.setattr(tiles, "save_array", full)
    for kept in (True, False):
        out = tmp_path / str(kept) / "labels"
        with pytest.raises(
            InputError,
            match=r"labels\.tiles: cannot write \(No space left on device\); .* resumes where it left",
        ):
            Sectors().label(places, places, out=out, ray="local")
        assert (out.parent / ".labels.tiles").exists() == kept
        saved[:] = [None] * 3


@pytest.mark.parametrize("ray", [None, "local"])
def test_work_on_the_whole_cloud_and_the_whole_map_is_done_once(alone, tmp_path, monkeypatch, ray):
    """Not for each part: its points in line, their spacing, and where the sets of the map are empty."""
    monkeypatch.setattr(tiles, "RUN", 1)
    cloud = PointCloud(np.random.default_rng(0).uniform((-2, -1, 1), (4, 1, 4), (600, 3)))
    rule, places = Points(Scene(cloud, CAMERA, "points.ply"), "cloud"), posed(tmp_path)
    queries = places.select([3, 1])
    expected = rule.label(queries, places)
    sizes = {}

    def counted(name):
        real = getattr(visibility, name)

        def count(values):
            sizes.setdefault(name, []).append(len(values))
            return real(values)

        monkeypatch.setattr(visibility, name, count)

    for name in ("neighbours_together", "point_spacing", "_occupied"):
        counted(name)
    found = rule.label(queries, places, ray=ray)
    occupied = [4, 2] if ray is None else [4, 1, 1]  # the map, and the queries
    assert sizes == {"neighbours_together": [600], "point_spacing": [600], "_occupied": occupied}
    for name in ("indptr", "columns", "similarity"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.nonzero > 0


def test_a_preset_joins_and_checks_the_cluster_once_and_its_tables_stay_on_standard_output(
    samespot, tmp_path, monkeypatch
):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    for city in ("cph", "london"):
        write_msls(tmp_path / "msls", city, "query", [(0, 0, 0), (5, 0, 10)])
        write_msls(tmp_path / "msls", city, "database", [(0, 0, 40), (25, 0, 0), (0, 500, 0)])
    joined, left, made = [], [], OneProcess()
    monkeypatch.setattr(ray, "init", lambda **_: joined.append("joined"))
    monkeypatch.setattr(ray, "is_initialized", lambda: len(joined) > len(left))
    monkeypatch.setattr(ray, "shutdown", lambda: left.append("left"))
    monkeypatch.setattr(cluster, "_refuse_other_cluster", lambda ray, address: None)
    monkeypatch.setattr(cluster, "Cluster", lambda ray, tell: made)
    words = ("label", tmp_path / "msls", "--preset", "msls", "--out", tmp_path / "labels", "--no-figures")
    code, out, err = samespot(*words, "--ray", "local")
    assert (code, joined, left, made.checks) == (0, ["joined"], ["left"], 1), err
    for city in ("cph", "london"):
        assert f"{city}: 2 queries" in out
        found = PairLabels.open(tmp_path / "labels" / city / "labels").dense()
        np.testing.assert_allclose(found[0], [50 / 90, 0.44965, 0], atol=5e-5)
    code, out, err = samespot(*words, "--ray", "local", "--json", "-")
    assert [one["name"] for one in json.loads(out)["labels"]] == ["cph", "london"]


def test_more_tiles_than_files_may_be_open(alone, tmp_path, monkeypatch):
    import resource

    monkeypatch.setattr(tiles, "TILE", 1)
    dice = np.random.default_rng(0)
    at = dice.uniform(0, 400, (300, 2))
    columns = {
        "image": [f"{i}.jpg" for i in range(300)],
        "easting": at[:, 0],
        "northing": at[:, 1],
        "heading": 0.0,
    }
    places = Places.build(tmp_path, columns, missing_images="ignore")
    expected = Sectors().label(places, places)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[0], 200), limits[1]))
    try:
        found = Sectors().label(places, places, out=tmp_path / "labels", ray="local")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    np.testing.assert_array_equal(found.similarity, expected.similarity)
    assert not (tmp_path / ".labels.tiles").exists()


def test_parts_that_cannot_be_read_just_now_are_kept(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 1)
    places = posed(tmp_path)
    stopped(Sectors(), places, tmp_path / "labels")

    def failing(*_, **__):
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(tiles, "read_npy", failing)
        with pytest.raises(
            InputError, match=r"tiles: cannot be read \(Stale file handle\); fix that, .* resumes"
        ):
            Sectors().label(places, places, out=tmp_path / "labels", ray="local")
    alone.jobs = 0
    Sectors().label(places, places, out=tmp_path / "labels", ray="local")
    assert alone.jobs == 3


def test_what_a_cluster_cannot_do_for_a_scene(alone, tmp_path):
    scene = Scene(PointCloud(np.ones((3, 3))), CAMERA, "points.ply")
    with pytest.raises(InputError, match="not every image has a depth image"):
        Points(scene, "depth").label(posed(tmp_path), posed(tmp_path), ray="local")
    with pytest.raises(InputError, match="leave out `device`, or `ray`"):
        Points(scene, device="cuda").label(posed(tmp_path), posed(tmp_path), ray="local")
