"""A real Ray of two nodes on this machine: the same results to the last bit, also where a node dies in the middle."""

import copy
import hashlib
import io
import os
import platform
import shutil
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from samespot import cluster as module
from samespot.cluster import joined_cluster, signals_kept
from samespot.errors import InputError
from samespot.evaluation.run import evaluate
from samespot.files import read_json
from samespot.maps import build
from samespot.maps.build import build_map
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.model.onnx_trunk import trunk_for
from samespot.overlap import tiles
from samespot.overlap.cloud import PointCloud
from samespot.overlap.rules import Points, Sectors, Within
from samespot.overlap.scene import Scene
from samespot.places.camera import Camera
from samespot.places.table import Places
from samespot.retrieval import describe as describing
from samespot.retrieval.describe import describe
from samespot.retrieval.exclusion import same_name
from samespot.retrieval.search import search
from samespot.retrieval.sharded import search_sharded
from samespot.whitening.whitening import Whitening

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.usefixtures("one_thread")
PHOTOS = 60


class TwoNodes:
    """The head, on which this process is, and a node that can die."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        # a node that is gone is missed within a second; by default it takes ten
        soon = {
            "health_check_initial_delay_ms": 500,
            "health_check_period_ms": 300,
            "health_check_failure_threshold": 3,
        }
        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": soon}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address, self.other = self.cluster.address, None
        self.mend()

    def mend(self):
        if self.other is None:
            self.other = self.cluster.add_node(num_cpus=1)
            self.cluster.wait_for_nodes()

    def kill(self, *_):
        """To be called as `progress`: the node dies when something is done."""
        if self.other is not None:
            node, self.other = self.other, None
            self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="module")
def started():
    with signals_kept():
        nodes = TwoNodes()
        with joined_cluster(nodes.address):  # what the tests join stays joined, and its workers are kept
            yield nodes
        nodes.cluster.shutdown()


@pytest.fixture
def nodes(started):
    started.mend()
    return started


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(1)
    return PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64)).eval()


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    root, dice = tmp_path_factory.mktemp("photos"), np.random.default_rng(3)
    names = [f"{i:03d}.jpg" for i in range(PHOTOS)]
    for name in names:
        scene = Image.fromarray(dice.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        scene.resize((160, 120), Image.Resampling.BICUBIC).save(root / name)
    (root / names[7]).write_bytes(b"not a photo")
    north = np.arange(PHOTOS) * 9.0
    return Places.build(root, {"image": names, "easting": 0.0, "northing": north, "heading": 0.0})


def cameras(count, seed=0):
    dice = np.random.default_rng(seed)
    at = dice.uniform(0, 900, (count, 2)).round(1)
    turned = dice.uniform(0, 360, count)
    names = [f"{i}.jpg" for i in range(count)]
    columns = {"image": names, "easting": at[:, 0], "northing": at[:, 1], "heading": turned}
    return Places.build("/nowhere", columns, missing_images="ignore")


def files_of(folder):
    """Digest of each file, whatever made it."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest() for one in found}


def test_labels_are_the_same_though_a_node_dies(nodes, tmp_path, monkeypatch):
    rule = Sectors()
    monkeypatch.setattr(tiles, "TILE", 100)
    monkeypatch.setattr(tiles, "ROWS", 256)  # rows of many tiles, in several goes
    monkeypatch.setattr(tiles, "OPEN", 2)
    places = cameras(3000)
    queries = places.select(np.random.default_rng(1).permutation(3000)[:2000])
    expected = rule.label(queries, places, out=tmp_path / "one")
    rule.label(queries, places, out=tmp_path / "many", ray=nodes.address, progress=nodes.kill)
    assert nodes.other is None
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    assert expected.nonzero > 1000
    assert [path.name for path in tmp_path.iterdir() if "tiles" in path.name] == []
    rule = Within(25, 40)  # and in memory
    expected, there = rule.label(queries, places), rule.label(queries, places, ray=nodes.address)
    for name in ("indptr", "columns", "similarity"):
        np.testing.assert_array_equal(getattr(there, name), getattr(expected, name))


def test_finished_tiles_are_kept(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 100)
    places, done = cameras(2000), []

    def stop(what, rows, total):
        done.append(rows)
        if rows > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sectors().label(places, places, out=tmp_path / "labels", ray=nodes.address, progress=stop)
    assert not (tmp_path / "labels").exists()
    kept = list((tmp_path / ".labels.tiles").glob("??????.npy"))
    kept[0].write_bytes(kept[0].read_bytes()[:-4])  # a disk lost the end of one
    told = []
    Sectors().label(
        places, places, out=tmp_path / "labels", ray=nodes.address, progress=lambda *news: told.append(news)
    )
    assert len(told) == len(tiles.tiles_of(places.positions[:, :2].T, 100)) - len(kept) + 1
    Sectors().label(places, places, out=tmp_path / "one")
    assert files_of(tmp_path / "labels") == files_of(tmp_path / "one")


def test_labels_of_a_scene_are_the_same(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "RUN", 3)
    dice = np.random.default_rng(2)
    cloud = PointCloud(dice.uniform((-2, -1, 1), (4, 1, 4), (500, 3)))
    table = {
        "image": [f"{i}.jpg" for i in range(8)],
        "tx": np.arange(8) * 1.0,
        "easting": 0.0,
        "northing": 0.0,
    }
    table |= {"heading": 0.0, "ty": 0.0, "tz": 0.0, "qw": 1.0, "qx": 0.0, "qy": 0.0, "qz": 0.0}
    places = Places.build(tmp_path, table, missing_images="ignore")
    rule = Points(Scene(cloud, Camera(64, 48, 60.0, 60.0, 32.0, 24.0), "made up"))
    expected = rule.label(places, places, out=tmp_path / "one")
    rule.label(places, places, out=tmp_path / "many", ray=nodes.address)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    assert 8 < expected.nonzero < 64


def test_descriptors_are_the_same_though_a_node_dies(nodes, net, places, tmp_path, monkeypatch):
    monkeypatch.setattr(describing, "SPAN", 2)
    how = {"batch_size": 4, "device": "cpu", "on_bad_image": "skip"}
    expected = describe(net, places, tmp_path / "one", **how)
    done = []

    def kill(what, rows, total):
        done.append(rows)
        nodes.kill()

    found = describe(net, places, tmp_path / "many", ray=nodes.address, progress=kill, **how)
    assert nodes.other is None
    assert (len(done), done[-1]) == (15, PHOTOS)
    assert found.meta == expected.meta
    assert list(found.meta["bad"]) == ["7"]
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    assert describe(net, places, ray=nodes.address, **how).vectors.tobytes() == expected.vectors.tobytes()


def test_whitened_descriptors_by_onnxruntime_are_the_same(nodes, net, places, tmp_path, monkeypatch):
    """Of a table with a relative root: this process makes the graph, and nodes get it with the work."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(places.root.parent)
    monkeypatch.setattr(describing, "SPAN", 2)
    trunk_for(net)  # a graph in the cache is used for any number of photos
    own, dice = copy.deepcopy(net), np.random.default_rng(4)
    seen = dice.normal(size=(80, net.descriptor_size)).astype(np.float32)
    own.whitening = Whitening.fit(seen, "elsewhere", most=24)
    near = replace(places, root=places.root.relative_to(places.root.parent))
    how = {"batch_size": 4, "device": "cpu", "on_bad_image": "skip", "whiten": True}
    expected = describe(own, near, tmp_path / "one", **how)
    found = describe(own, near, tmp_path / "many", ray=nodes.address, **how)
    assert (expected.meta["runtime"], expected.vectors.shape) == ("onnxruntime", (PHOTOS, 24))
    assert found.meta == expected.meta
    assert found.meta["bad"]["7"].startswith(f"{near.root}/007.jpg: ")
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


def test_few_photos_in_torch_are_the_same_by_workers_of_one_core(nodes, places, one_thread):
    """Torch has other kernels for one thread; this process may use several."""
    lite = load_model("samespot-lite")
    some = places.select([0, 1, 2, 3])
    how = {"device": "cpu", "runtime": "torch"}
    for threads in (2, 1):
        torch.set_num_threads(threads)
        one, many = describe(lite, some, **how), describe(lite, some, ray=nodes.address, **how)
        np.testing.assert_array_equal(one.vectors, many.vectors)


def test_a_stopped_describe_goes_on_and_a_bad_photo_ends_it_in_one_line(
    nodes, net, places, tmp_path, monkeypatch
):
    monkeypatch.setattr(describing, "SPAN", 2)
    how = {"batch_size": 4, "device": "cpu", "ray": nodes.address}
    with pytest.raises(InputError, match=r"007\.jpg: .*on_bad_image=skip") as refused:
        describe(net, places, tmp_path / "d", **how)
    assert "\n" not in str(refused.value)
    good = places.select([row for row in range(PHOTOS) if row != 7])

    def stop(what, rows, total):
        if rows > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        describe(net, good, tmp_path / "d2", progress=stop, **how)
    told = []
    found = describe(net, good, tmp_path / "d2", progress=lambda what, rows, total: told.append(rows), **how)
    assert len(told) <= 8
    one = describe(net, good, batch_size=4, device="cpu")
    assert found.vectors.tobytes() == one.vectors.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_search_over_shards_is_exact(nodes, monkeypatch, dtype):
    dice = np.random.default_rng(5)
    vectors = dice.normal(size=(400, 16)).astype(dtype)
    vectors[100:200] = vectors[:100]  # ties, far apart in the map
    vectors[50] = 0  # could not be read
    names = [f"{i % 350}.jpg" for i in range(400)]
    asked = vectors[::7]
    out = same_name(names[::7], names)
    monkeypatch.setattr("samespot.retrieval.sharded.SHARD_BYTES", 70 * vectors.itemsize * 16)
    monkeypatch.setattr("samespot.retrieval.sharded.QUERIES", 20)
    with joined_cluster(nodes.address) as cluster:
        for excluded in (None, out):
            one = search(asked, vectors, 9, excluded=excluded, device="cpu")
            many = search_sharded(cluster, asked, vectors, 9, excluded=excluded)
            np.testing.assert_array_equal(many.rows, one.rows)
            np.testing.assert_array_equal(many.distances, one.distances)
        few = search_sharded(cluster, asked, vectors[:5], 9)  # fewer than k
        np.testing.assert_array_equal(few.rows, search(asked, vectors[:5], 9).rows)
        broken = vectors.copy()
        broken[77] = np.nan
        with pytest.raises(InputError, match="the descriptor in map row 77 is not finite"):
            search_sharded(cluster, asked, broken, 9)
        with pytest.raises(InputError, match="the descriptor in query row 77 is not finite"):
            search_sharded(cluster, broken, vectors, 9)


def test_a_search_is_the_same_though_a_node_dies(nodes, monkeypatch):
    dice = np.random.default_rng(6)
    vectors = dice.normal(size=(4000, 16)).astype(np.float32)
    vectors[2000:] = vectors[:2000]  # ties, in parts that different nodes search
    monkeypatch.setattr("samespot.retrieval.sharded.SHARD_BYTES", 100 * vectors.itemsize * 16)
    with joined_cluster(nodes.address) as cluster:
        many = search_sharded(cluster, vectors[::40], vectors, 9, progress=nodes.kill)
    assert nodes.other is None
    one = search(vectors[::40], vectors, 9, device="cpu")
    np.testing.assert_array_equal(many.rows, one.rows)
    np.testing.assert_array_equal(many.distances, one.distances)


def test_a_map_is_the_same_though_a_node_dies(nodes, net, places, tmp_path, monkeypatch):
    """With real local features; a map that asks itself does so in this process."""
    monkeypatch.setattr(build, "SETTLE_SECONDS", 1e9)  # segments are cut by their photos alone
    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: None)
    monkeypatch.setattr("samespot.maps.map.open_map", lambda out: None)
    how = {"device": "cpu", "keypoints": 64, "dims": 8}
    build_map(places, net, tmp_path / "one", **how)

    def kill(what, done, total):
        if what.startswith("describing") and done:
            nodes.kill()

    build_map(places, net, tmp_path / "many", ray=nodes.address, progress=kill, **how)
    assert nodes.other is None
    one, many = (read_json(tmp_path / name / "meta.json", "") for name in ("one", "many"))
    assert many["left_out"] == one["left_out"] != {}
    assert (many["recipe"], many["segments"]) == (one["recipe"], one["segments"])
    segments = [files_of(tmp_path / name / "segments") for name in ("one", "many")]
    assert segments[0] == segments[1]
    vectors = [
        hashlib.sha256(next((tmp_path / name).rglob("vectors.npy")).read_bytes()) for name in ("one", "many")
    ]
    assert vectors[0].digest() == vectors[1].digest()


def test_an_evaluation_is_the_same(nodes, net, places, tmp_path):
    rows = np.arange(PHOTOS) != 7
    asked = {"map": places.select(rows & (np.arange(PHOTOS) % 2 == 0)), "queries": places.select(rows)}
    how = {**asked, "within": "25m", "whiten": "8", "device": "cpu", "batch_size": 16}
    one = evaluate(net, out=tmp_path / "one", **how)
    many = evaluate(net, out=tmp_path / "many", ray=nodes.address, **how)
    assert many.metrics == one.metrics
    assert list(many.found) == list(one.found)
    for name in one.found:
        for a, b in zip(one.found[name], many.found[name], strict=True):
            np.testing.assert_array_equal(a.rows, b.rows)
            np.testing.assert_array_equal(a.distances, b.distances)
    descriptors = [files_of(tmp_path / name / "descriptors") for name in ("one", "many")]
    assert descriptors[0] == descriptors[1]


class Dies:
    """A worker that a span kills each time."""

    def __call__(self, span):
        with open(span, "a") as file:
            file.write("x")
        os._exit(1)


class Large:
    """A worker whose results are larger than its node's memory for them."""

    def __call__(self, span):
        return np.zeros(200 << 20, dtype=np.uint8)


class Echoes:
    def __call__(self, span):
        time.sleep(0.1)
        return span


def twice(job):
    return 2 * job


def fails(job):
    raise {"disk": OSError(28, "No space left on device"), "bug": KeyError("what")}[job]


def test_work_that_kills_its_workers_or_fails_ends_in_one_line(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRIES", 1)
    with joined_cluster(nodes.address) as cluster:
        with pytest.raises(InputError, match=r"is out of disk space; .* resumes where it left off$"):
            list(cluster.each(fails, ["disk"]))
        with pytest.raises(InputError, match=r"^Ray: 'what'; the same command again"):
            list(cluster.each(fails, ["bug"]))
        with pytest.raises(
            InputError, match=r"^the same work killed its worker 2 times; .* resumes where it left off$"
        ) as died:
            list(cluster.through(Dies, (), [str(tmp_path / "deaths")]))
        assert "\n" not in str(died.value)
    assert (tmp_path / "deaths").read_text() == "xx"


def test_work_waits_for_a_node_that_can_do_it_and_not_for_ever(nodes, monkeypatch):
    """Workers of two cores, and the only node that has two leaves; once another comes, once none."""
    monkeypatch.setattr(module, "NEARLY_ALL", 0)  # the other two nodes have a core each
    monkeypatch.setattr(module, "PATIENCE", 2.0)
    large = []

    def come():
        large.append(nodes.cluster.add_node(num_cpus=2))
        nodes.cluster.wait_for_nodes()

    def leave():
        nodes.cluster.remove_node(large.pop(), allow_graceful=False)

    def done(cluster, *then):
        """All spans; after the first, this happens."""
        for count, (_, one) in enumerate(cluster.through(Echoes, (), range(12))):
            for happens in then if count == 0 else ():
                happens()
            yield one

    come()
    with joined_cluster(nodes.address) as cluster:
        assert cluster.cores_each(False) == 2
        assert sorted(done(cluster, leave, come)) == list(range(12))
        refused = r"^for 2 s no node of the cluster has had 2 cores, .* the same command again resumes"
        with pytest.raises(InputError, match=refused) as nobody:
            list(done(cluster, leave))
        assert "\n" not in str(nobody.value)
        with pytest.raises(InputError, match="has had a GPU and 4 cores, which this work needs"):
            list(cluster.through(Echoes, (), [0], gpu=True))


def test_a_cluster_that_is_joined_goes_by_its_names_and_another_is_refused(nodes):
    port = nodes.address.rpartition(":")[2]
    for address in ("auto", "local", f"localhost:{port}", nodes.address):
        with joined_cluster(address) as cluster:
            assert sorted(cluster.each(twice, [1, 2])) == [(0, 2), (1, 4)]
    with (
        pytest.raises(
            InputError, match=f"part of the cluster at {nodes.address}; leave that with ray.shutdown"
        ),
        joined_cluster("192.0.2.200:6379"),
    ):
        pass


# ---- nodes that are not as they should be: started as one starts them, each in its own world ----


own_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0,
    reason="no mount of one's own on this machine",
)


@pytest.fixture
def join(nodes, ray_start):
    """Starts a node of the cluster in an environment of its own, and stops it."""
    before, started = len(alive()), []

    def start(*words, **how):
        started.append(ray_start("--address", nodes.address, "--num-cpus", "1", *words, **how))
        wait_until(lambda: len(alive()) == before + len(started))

    yield start
    for node in started:
        node.terminate()
    wait_until(lambda: len(alive()) == before)


def wait_until(true):
    for _ in range(200):
        if true():
            return
        time.sleep(0.1)
    pytest.fail("a node did not come or did not go")


def alive():
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def test_a_node_with_another_samespot_is_named(nodes, join, tmp_path, places):
    other = tmp_path / "other" / "samespot"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("__version__ = '0.0.9'\n")
    join(PYTHONPATH=str(other.parent))
    with (
        joined_cluster(nodes.address) as cluster,
        pytest.raises(InputError, match=r"^node .*: has samespot 0\.0\.9, and this machine 0\.1\.0; install"),
    ):
        cluster.check()


def test_a_node_with_another_python_is_named(nodes, join, other_python):
    """Ray lets one with another patch release in only where it is told to."""
    (how, version), here = other_python, platform.python_version()
    join(**how, RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL="minor")
    with (
        joined_cluster(nodes.address) as cluster,
        pytest.raises(InputError, match=f"^node .*: has python {version}, and this machine {here}; install"),
    ):
        cluster.check()


@own_mounts
def test_a_folder_that_is_not_shared_is_named(nodes, join, net, places, tmp_path):
    hide = f'mount -t tmpfs none "{places.root}" && exec "$@"'
    join(before=("unshare", "-m", "sh", "-c", hide, "sh"))
    with pytest.raises(
        InputError, match=r"^node .*: does not see .*000\.jpg as this machine does; put the photos"
    ):
        describe(net, places, tmp_path / "d", ray=nodes.address, on_bad_image="skip")


def test_an_address_that_a_node_cannot_read_is_named(nodes, net, tmp_path):
    """In the memory of this process alone, as credentials may be."""
    import fsspec

    content = io.BytesIO()
    Image.new("RGB", (64, 48)).save(content, "png")
    names = [f"memory://here/{i}.png" for i in range(6)]
    for name in names:
        fsspec.filesystem("memory").pipe_file(name, content.getvalue())
    places = Places.build(tmp_path, {"image": names, "easting": 0.0, "northing": np.arange(6) * 9.0})
    with pytest.raises(InputError, match=r"^node .*: memory://here/0\.png: no such photo.*the same packages"):
        describe(net, places, tmp_path / "d", ray=nodes.address, on_bad_image="skip")


def another_timm(tmp_path):
    """For a node that has another version than this machine."""
    (tmp_path / "timm-0.0.1.dist-info").mkdir()
    (tmp_path / "timm-0.0.1.dist-info" / "METADATA").write_text("Name: timm\nVersion: 0.0.1\n")
    return {"PYTHONPATH": str(tmp_path)}


def test_a_node_that_computes_with_another_version_is_named(nodes, join, tmp_path, monkeypatch):
    join(**another_timm(tmp_path))
    monkeypatch.setattr(module, "_commands", 0)  # a command of its own, which joins before it works
    with pytest.raises(InputError, match=r"^node .*: has timm 0\.0\.1, and this machine \d"):
        Sectors().label(cameras(9), cameras(9), ray=nodes.address)


def joins_in_the_middle(cluster, join, **how):
    for count, _ in enumerate(cluster.through(Echoes, (), range(1000))):
        if count == 0:
            join(**how)


def test_a_node_that_joins_later_is_compared_too(nodes, join, tmp_path):
    with (
        joined_cluster(nodes.address) as cluster,
        pytest.raises(InputError, match=r"^node .*: has timm 0\.0\.1, and this machine .*$") as said,
    ):
        joins_in_the_middle(cluster, join, **another_timm(tmp_path))
    assert "\n" not in str(said.value)


@own_mounts
def test_a_node_that_joins_later_must_see_the_photos(nodes, join, places):
    hide = f'mount -t tmpfs none "{places.root}" && exec "$@"'
    with joined_cluster(nodes.address) as cluster:
        cluster.check(places.images)
        with pytest.raises(InputError, match=r"^node .*: does not see .*\.jpg as this machine does; put the"):
            joins_in_the_middle(cluster, join, before=("unshare", "-m", "sh", "-c", hide, "sh"))


class Forgets:
    """A worker that finds no photo, as where a folder is no longer mounted."""

    def __init__(self, cores):
        pass

    def __call__(self, photos):
        return None, {at: f"{photo}: cannot read the image (No such file)" for at, photo in enumerate(photos)}


def test_a_node_that_lost_its_photos_is_not_believed(nodes, places):
    with (
        joined_cluster(nodes.address) as cluster,
        pytest.raises(
            InputError, match=r"^node .*0\d\d\.jpg: cannot read .*, and this machine can read it; fix"
        ),
    ):
        list(describing.made_on_nodes(cluster, Forgets, (), places.images, [(0, PHOTOS)], gpu=False))
    bad = [places.images[7]]
    with joined_cluster(nodes.address) as cluster:  # which is bad here, too
        ((_, (start, made, why)),) = describing.made_on_nodes(cluster, Forgets, (), bad, [(0, 1)], gpu=False)
    assert (start, made, list(why)) == (0, None, [0])


@own_mounts
def test_a_full_disk_on_one_node_is_said(nodes, join, monkeypatch):
    """Where Ray keeps what does not fit into memory; the other nodes have a core each, and the work needs two."""
    monkeypatch.setattr(module, "NEARLY_ALL", 0)
    small = f'mount -t tmpfs -o size=32m none "{nodes.cluster.head_node.get_temp_dir_path()}" && exec "$@"'
    store = ("--object-store-memory", str(80 << 20))
    join("--num-cpus", "2", *store, before=("unshare", "-m", "sh", "-c", small, "sh"))
    with (
        joined_cluster(nodes.address) as cluster,
        pytest.raises(InputError, match=r"^a node of the cluster is out of disk space; .* resumes") as said,
    ):
        list(cluster.through(Large, (), ["photos"]))
    assert "\n" not in str(said.value)
