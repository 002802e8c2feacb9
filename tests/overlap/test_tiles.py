"""Parts of labels that are kept: those of the same labels alone, and no more open files than there may be."""

from dataclasses import replace

import numpy as np
import pytest

from samespot import cluster
from samespot.errors import InputError
from samespot.overlap import tiles
from samespot.overlap.cloud import PointCloud
from samespot.overlap.rules import Points, Sectors
from samespot.overlap.scene import Scene
from samespot.places.camera import Camera
from samespot.places.table import Places

CAMERA = Camera(64, 48, 60.0, 60.0, 32.0, 24.0)


class OneProcess:
    """A cluster that is this process; counts its jobs."""

    def __init__(self):
        self.jobs = 0

    def check(self, photos=()): ...

    def each(self, work, jobs, *shared):
        for number, job in enumerate(jobs):
            self.jobs += 1
            yield number, work(job, *shared)


@pytest.fixture
def alone(monkeypatch):
    from contextlib import nullcontext

    made = OneProcess()
    monkeypatch.setattr(tiles, "joined_cluster", lambda address: nullcontext(made))
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


def test_what_a_cluster_cannot_do_for_a_scene(alone, tmp_path):
    scene = Scene(PointCloud(np.ones((3, 3))), CAMERA, "points.ply")
    with pytest.raises(InputError, match="not every image has a depth image"):
        Points(scene, "depth").label(posed(tmp_path), posed(tmp_path), ray="local")
    with pytest.raises(InputError, match="leave out `device`, or `ray`"):
        Points(scene, device="cuda").label(posed(tmp_path), posed(tmp_path), ray="local")


@pytest.mark.parametrize(
    ("nodes", "gpu", "each", "workers"),
    [
        ([(16, 8)], True, 2, 8),
        ([(64, 8), (64, 0)], True, 4, 8),
        ([(0, 1)], True, 0, 1),
        ([(64, 0), (1, 0)], False, 4, 16),
        ([(2, 0), (1, 0)], False, 2, 1),
        ([(1, 0), (1, 0)], False, 1, 2),
    ],
)
def test_every_gpu_gets_a_worker_and_a_small_node_does_not_cut_the_large_ones(nodes, gpu, each, workers):
    class Ray:
        def nodes(self):
            return [{"Alive": True, "Resources": {"CPU": cores, "GPU": gpus}} for cores, gpus in nodes]

        def cluster_resources(self):
            return {"CPU": sum(cores for cores, _ in nodes), "GPU": sum(gpus for _, gpus in nodes)}

    made = cluster.Cluster(Ray())
    assert (made.cores_each(gpu), made.workers(gpu)) == (each, workers)


def test_results_wait_for_their_turn():
    assert list(cluster.in_order(iter([(2, "c"), (0, "a"), (1, "b")]))) == ["a", "b", "c"]
