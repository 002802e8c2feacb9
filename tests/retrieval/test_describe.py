"""Descriptors are the network's, whatever came between: kills, bad images, half precision, several processes."""

import copy
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.images import prefetch
from samespot.images.reading import read_image
from samespot.model import onnx_trunk
from samespot.model.network import PlaceNet
from samespot.retrieval import describe as module
from samespot.retrieval.describe import blocks_left, describe
from samespot.retrieval.descriptors import Descriptors
from tests import warm
from tests.retrieval.conftest import BATCH, COUNT, bits, on_cpu, take_photos

pytestmark = pytest.mark.usefixtures("one_thread")  # and torchrun gives each process one


def test_they_are_what_the_network_makes_of_the_images(net, places, tmp_path):
    digest = net.digest()
    told = []
    found = on_cpu(net, places, tmp_path / "d", progress=lambda *news: told.append(news))
    expected = net.describe_images(places.images).numpy()
    np.testing.assert_allclose(found.vectors, expected, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1.0, atol=1e-6)
    assert found.vectors.dtype == np.float32
    assert isinstance(found.vectors, np.memmap)
    assert found.good.all()
    assert told == [("describing", done, COUNT) for done in (4, 8, 12, 14)]
    found.check(places)
    facts = {"model": digest, "margin": 0.5, "backbone": net.backbone, "places": places.digest(), "bad": {}}
    facts |= {"images": COUNT, "dims": expected.shape[1], "dtype": "float32", "precision": "32"}
    assert {key: found.meta[key] for key in facts} == facts
    assert net.digest() == digest  # a copy was folded


def test_in_memory_or_in_half_the_room_they_are_the_same(net, places, tmp_path):
    on_disk = on_cpu(net, places, tmp_path / "d")
    in_memory = on_cpu(net, places)
    assert in_memory.folder is None
    assert bits(in_memory) == bits(on_disk)
    assert in_memory.meta == on_disk.meta
    short = on_cpu(net, places, tmp_path / "h", dtype="float16")
    assert bits(short) == on_disk.vectors.astype(np.float16).tobytes()


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_an_interrupted_one_goes_on_where_it_stopped(net, places, tmp_path, read, stop):
    whole = on_cpu(net, places)
    calls = []

    def interrupt(what, done, total):
        calls.append(done)
        if len(calls) == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_cpu(net, places, tmp_path / "d", progress=interrupt)
    with pytest.raises(InputError, match="not finished"):
        Descriptors.open(tmp_path / "d")
    read.clear()
    told = []
    found = on_cpu(net, places, tmp_path / "d", progress=lambda *news: told.append(news[1]))
    assert sorted(read) == sorted(f"{i}-0.jpg" for i in range(stop * BATCH, COUNT))
    assert told == [8, 12, 14][stop - 1 :]
    assert bits(found) == bits(whole)
    assert found.meta == whole.meta


KILLED = """
import json, os, signal, sys
import torch
from pathlib import Path
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.retrieval import descriptors
from samespot.retrieval.describe import describe
given = json.loads(sys.argv[1])
torch.set_num_threads(1)
descriptors.SETTLE_SECONDS = 0.0
def kill(what, done, total):
    if done >= given["stop"]:
        os.kill(os.getpid(), signal.SIGKILL)
net, places = PlaceNet.load(given["model"]), Places.read(given["places"])
describe(net, places, given["out"], batch_size=4, device="cpu", workers=2, on_bad_image="skip", progress=kill)
"""


def run(script, given, folder):
    (folder / "script.py").write_text(script)
    return warm.run([folder / "script.py", json.dumps(given)], timeout=120)


def saved(net, places, folder):
    net.save(folder / "model")
    places.save(places.root / "places.csv")
    return {"model": str(folder / "model"), "places": str(places.root / "places.csv")}


def test_a_killed_one_goes_on_where_it_stopped(net, places, tmp_path, read):
    """kill -9: no handler runs. The bad image was met before it, and is known after it."""
    (places.root / "1-0.jpg").write_bytes(b"")
    given = {**saved(net, places, tmp_path), "out": str(tmp_path / "d"), "stop": 8}
    killed = run(KILLED, given, tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(InputError, match="not finished"):
        Descriptors.open(tmp_path / "d")
    whole = on_cpu(net, places, on_bad_image="skip")
    read.clear()
    found = on_cpu(net, places, tmp_path / "d", on_bad_image="skip")
    assert sorted(read) == sorted(f"{i}-0.jpg" for i in range(8, COUNT))
    assert bits(found) == bits(whole)
    assert found.meta == whole.meta
    assert list(found.meta["bad"]) == ["1"]


def test_a_finished_one_is_opened_without_a_look_at_the_images(net, places, tmp_path):
    whole = bits(on_cpu(net, places, tmp_path / "d"))
    for image in places.images:
        image.unlink()
    found = on_cpu(net, places, tmp_path / "d")
    assert bits(found) == whole


def test_a_folder_of_another_model_is_refused(net, places, tmp_path):
    on_cpu(net, places, tmp_path / "d")
    torch.manual_seed(2)
    other = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64))
    with pytest.raises(InputError, match=r"d: holds descriptors made with another model \("):
        on_cpu(other, places, tmp_path / "d")
    with pytest.raises(InputError, match=r"another table of places .* number of images"):
        on_cpu(net, places.select(slice(0, 9)), tmp_path / "d")
    with pytest.raises(InputError, match=r"another precision \(32, now bf16\)"):
        on_cpu(net, places, tmp_path / "d", precision="bf16")


def test_precision_auto_is_what_the_folder_was_made_with(net, places, tmp_path):
    """So that a folder made on a GPU is opened, or gone on with, on a machine without one."""
    half = on_cpu(net, places, tmp_path / "d", precision="bf16")
    assert half.meta["precision"] == "bf16"
    assert bits(on_cpu(net, places, tmp_path / "d")) == bits(half)
    assert on_cpu(net, places).meta["precision"] == "32"


def test_bad_images_end_it_or_are_zero_and_named(net, places, tmp_path):
    expected = on_cpu(net, places)
    (places.root / "5-0.jpg").write_bytes(b"no image")
    (places.root / "13-0.jpg").unlink()
    with pytest.raises(InputError, match=r"5-0\.jpg: cannot decode .*; or pass `on_bad_image=skip`"):
        on_cpu(net, places, tmp_path / "d")
    found = on_cpu(net, places, tmp_path / "d", on_bad_image="skip")
    assert found.good.nonzero()[0].tolist() == [i for i in range(COUNT) if i not in (5, 13)]
    assert not found.vectors[[5, 13]].any()
    np.testing.assert_array_equal(found.vectors[found.good], expected.vectors[found.good])
    assert "cannot decode" in found.meta["bad"]["5"]
    assert "cannot read the image" in found.meta["bad"]["13"]
    with pytest.raises(InputError, match=r"5-0\.jpg.*so found when .*d was filled"):
        on_cpu(net, places, tmp_path / "d")  # what was skipped then is not accepted now


def test_blocks_of_another_size_may_go_on(net, places, tmp_path):
    """What is left is cut anew; an image that is read again, and is whole by now, is no longer bad."""
    expected = on_cpu(net, places)
    (tmp_path / "kept.jpg").write_bytes((places.root / "3-0.jpg").read_bytes())
    for name in ("0-0.jpg", "3-0.jpg"):
        (places.root / name).write_bytes(b"")

    def interrupt(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_cpu(net, places, tmp_path / "d", on_bad_image="skip", progress=interrupt)
    (places.root / "3-0.jpg").write_bytes((tmp_path / "kept.jpg").read_bytes())
    found = on_cpu(
        net, places, tmp_path / "d", on_bad_image="skip", batch_size=3
    )  # rows 0-3 are done: 3-5 again
    assert list(found.meta["bad"]) == ["0"]
    np.testing.assert_allclose(found.vectors[1:], expected.vectors[1:], atol=2e-6)


def test_half_precision_finds_the_same_places(tmp_path):
    """An ImageNet network, 20 scenes, two photos of each: the second finds the first in both precisions."""
    pretrained = PlaceNet("efficientnet_lite0", pretrained="wheel", image_size=(96, 96))
    places = take_photos(tmp_path, 20, views=2, size=(96, 96))
    queries, map_rows = np.arange(1, 40, 2), np.arange(0, 40, 2)
    orders, vectors = [], []
    for precision in ("32", "bf16"):
        found = on_cpu(pretrained, places, precision=precision, batch_size=8)
        vectors.append(found.vectors)
        orders.append((found.vectors[queries] @ found.vectors[map_rows].T).argsort(axis=1)[:, ::-1])
    assert 1e-5 < np.abs(vectors[0] - vectors[1]).max() < 0.05  # it did compute in half precision
    for order in orders:
        np.testing.assert_array_equal(order[:, 0], np.arange(20))
    best = np.sort(vectors[0][queries] @ vectors[0][map_rows].T, axis=1)
    assert (best[:, -1] - best[:, -2]).min() > 0.05  # the places are well apart, so luck has no part in it


def test_the_next_blocks_are_read_while_the_network_works_but_not_all(net, places, monkeypatch, read):
    """The network is made to wait in its first block until images of the next two are read."""
    original, waited = module.Describer.send, []

    def slow(self, start, loaded):
        if start == 0:
            until = time.monotonic() + 20
            while not {"1-0.jpg", "2-0.jpg"} <= set(read) and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(0.3)  # enough to read all, if nothing kept it from that
            waited.extend(read)
        return original(self, start, loaded)

    monkeypatch.setattr(module.Describer, "send", slow)
    on_cpu(net, places, batch_size=1)
    assert {"1-0.jpg", "2-0.jpg"} <= set(waited)
    assert len(waited) <= 1 + 2 * prefetch.READERS


def test_blocks_are_cut_at_the_same_places_whatever_is_done():
    assert blocks_left(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert blocks_left(10, 4, [(4, 8)]) == [(0, 4), (8, 10)]
    assert blocks_left(10, 3, [(4, 8), (0, 4)]) == [(6, 9), (9, 10)]  # begun with blocks of another size
    assert blocks_left(10, 4, [(8, 10), (0, 4), (4, 8)]) == []
    assert blocks_left(10, 4, [(1, 3), (4, 9)], [1, 7]) == [(0, 1), (2, 4), (8, 10)]


def test_what_cannot_be_done_is_said_first(net, places, tmp_path):
    with pytest.raises(InputError, match="no images in the table"):
        on_cpu(net, places.select([]), tmp_path / "d")
    for options, said in (
        ({"precision": "16"}, "`precision` '16' is unknown; choose one of auto, 32, bf16, int8"),
        ({"dtype": "float64"}, "`dtype` 'float64' is unknown"),
        ({"on_bad_image": "hide"}, "`on_bad_image` 'hide' is unknown"),
        ({"batch_size": 0}, "`batch_size` 0 must be at least 1"),
        ({"decode": "gpu"}, "`decode=gpu` needs a CUDA device"),
        ({"compile": True}, "`compile` needs a GPU; leave it out"),
        ({"device": "abacus"}, "`device` 'abacus' is unknown"),
    ):
        with pytest.raises(InputError, match=said):
            on_cpu(net, places, tmp_path / "d", **options)
    assert not (tmp_path / "d").exists()


BOTH = """
import json, os, sys
import numpy as np
from pathlib import Path
from samespot.errors import InputError
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.retrieval.describe import describe
from samespot.images import sources as images
given = json.loads(sys.argv[1])
rank, names, original = os.environ["RANK"], [], images.read_encoded
images.read_encoded = lambda path: names.append(path.name) or original(path)
net, places = PlaceNet.load(given["model"]), Places.read(given["places"])
options = dict(batch_size=4, device="cpu", workers=1)
try:
    describe(net, places, given["out"] + "-refused", **options)
except InputError as error:
    Path(given["out"] + "-said-" + rank).write_text(str(error))
names.clear()
describe(net, places, given["out"], on_bad_image="skip", **options)
Path(given["out"] + "-read-" + rank).write_text(json.dumps(names))
kept = describe(net, places, on_bad_image="skip", **options)
np.save(given["out"] + "-kept-" + rank + ".npy", kept.vectors)
Path(given["out"] + "-meta-" + rank).write_text(json.dumps(kept.meta))
"""


def test_two_processes_give_what_one_gives(net, places, tmp_path):
    (places.root / "6-0.jpg").write_bytes(b"")
    one = on_cpu(net, places, on_bad_image="skip")
    # torchrun finds a free port by itself: one that is looked for here may be taken before it starts
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    given = {**saved(net, places, tmp_path), "out": str(tmp_path / "d")}
    (tmp_path / "both.py").write_text(BOTH)
    words = [*launcher, str(tmp_path / "both.py"), json.dumps(given)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    found = Descriptors.open(tmp_path / "d")
    assert bits(found) == bits(one)
    assert found.meta == one.meta
    reads = [json.loads((tmp_path / f"d-read-{rank}").read_text()) for rank in (0, 1)]
    assert [len(names) for names in reads] == [8, 6]  # blocks 0 and 2, blocks 1 and 3
    assert len({name for names in reads for name in names}) == COUNT
    for rank in (0, 1):  # each has all of them, and each heard of the image that one of them met
        assert np.load(tmp_path / f"d-kept-{rank}.npy").tobytes() == bits(one)
        assert json.loads((tmp_path / f"d-meta-{rank}").read_text()) == one.meta
        assert "6-0.jpg: the file is empty" in (tmp_path / f"d-said-{rank}").read_text()


def test_descriptors_that_are_no_numbers_are_never_written(net, places, tmp_path):
    import copy

    broken = copy.deepcopy(net)
    next(p for p in broken.parameters() if p.ndim == 4).data[0] = float("nan")
    with pytest.raises(InputError, match="descriptors that are not finite numbers, so none is written"):
        describe(broken, places, tmp_path / "d", batch_size=BATCH)
    assert not (tmp_path / "d" / "meta.json").is_file()
    broken.save(tmp_path / "model")
    with pytest.raises(InputError, match="weights that are not finite numbers"):
        PlaceNet.load(tmp_path / "model")


# ---- in onnxruntime ----


@pytest.fixture
def worth_it(tmp_path, monkeypatch):
    """Any number of images is worth an export, into a cache of this test."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(onnx_trunk, "WORTH", 1)


def test_onnxruntime_gives_the_same_and_is_named(net, places, tmp_path, worth_it):
    threads = torch.get_num_threads()
    found = on_cpu(net, places, tmp_path / "d")
    plain = on_cpu(net, places, runtime="torch")
    assert (found.meta["runtime"], found.meta["runtime_note"]) == ("onnxruntime", "")
    assert plain.meta["runtime"] == "torch"
    np.testing.assert_allclose(found.vectors, plain.vectors, atol=1e-5)
    assert torch.get_num_threads() == threads
    with pytest.raises(InputError, match=r"another runtime \(onnxruntime, now torch\)"):
        on_cpu(net, places, tmp_path / "d", runtime="torch")


def test_a_folder_goes_on_in_the_runtime_it_was_begun_with(net, places, tmp_path, worth_it, monkeypatch):
    def interrupt(what, done, total):
        raise KeyboardInterrupt

    whole = on_cpu(net, places)
    for folder in ("d", "e"):
        with pytest.raises(KeyboardInterrupt):
            on_cpu(net, places, tmp_path / folder, progress=interrupt)
    monkeypatch.setattr(onnx_trunk, "WORTH", 1000)
    monkeypatch.setattr(onnx_trunk, "_kept", lambda path: None)  # the cache was emptied meanwhile
    assert bits(on_cpu(net, places, tmp_path / "d")) == bits(whole)
    monkeypatch.setattr(onnx_trunk, "find_spec", lambda name: None)
    with pytest.raises(
        InputError, match="was begun with onnxruntime, and onnx, onnxruntime, onnxscript not in"
    ):
        on_cpu(net, places, tmp_path / "e")
    assert bits(on_cpu(net, places, tmp_path / "d")) == bits(whole)  # finished: nothing is needed


def test_without_onnxruntime_torch_does_it_and_says_why(net, places, worth_it, monkeypatch):
    monkeypatch.setattr(onnx_trunk, "find_spec", lambda name: None if name == "onnxruntime" else name)
    found = on_cpu(net, places)
    assert (found.meta["runtime"], found.meta["runtime_note"]) == ("torch", "onnxruntime not installed")
    assert bits(found) == bits(on_cpu(net, places, runtime="torch"))
    with pytest.raises(
        InputError, match="`runtime=onnxruntime`, `precision=32`, and onnxruntime not installed"
    ):
        on_cpu(net, places, runtime="onnxruntime")


def test_half_precision_stays_in_torch(net, places, worth_it):
    assert on_cpu(net, places, precision="bf16").meta["runtime"] == "torch"
    with pytest.raises(InputError, match="does not compute in bf16 here; pass `precision=32`"):
        on_cpu(net, places, precision="bf16", runtime="onnxruntime")


def test_a_folder_from_before_there_were_runtimes_is_opened(net, places, tmp_path, worth_it):
    whole = on_cpu(net, places, tmp_path / "d", runtime="torch")
    meta = {key: value for key, value in whole.meta.items() if not key.startswith("runtime")}
    (tmp_path / "d" / "meta.json").write_text(json.dumps(meta))
    for runtime in ("auto", "torch"):
        assert bits(on_cpu(net, places, tmp_path / "d", runtime=runtime)) == bits(whole)


def test_int8_is_recorded_and_refused_where_it_cannot_be(net, places, tmp_path, worth_it):
    found = on_cpu(net, places, tmp_path / "d", precision="int8")
    assert (found.meta["precision"], found.meta["runtime"]) == ("int8", "onnxruntime")
    plain = on_cpu(net, places)
    assert (plain.meta["precision"], plain.meta["runtime"]) == ("32", "onnxruntime")
    cosines = (found.vectors * plain.vectors).sum(axis=1)
    assert 0.98 < cosines.min() < 0.999999
    assert bits(on_cpu(net, places, tmp_path / "d")) == bits(found)  # auto: as the folder was made
    with pytest.raises(InputError, match=r"another precision \(int8, now 32\)"):
        on_cpu(net, places, tmp_path / "d", precision="32")
    with pytest.raises(InputError, match="`precision=int8` needs onnxruntime; leave out `runtime=torch`"):
        on_cpu(net, places, precision="int8", runtime="torch")


def test_photos_at_several_sizes_give_the_mean_of_their_descriptors(net, places):
    several = copy.deepcopy(net)
    several.preprocessing = net.preprocessing.at_sizes((32, 48), (48, 64), (24, 32))
    assert several.preprocessing.size == (48, 64)
    made = describe(several, places).vectors
    parts = []
    for size in ((48, 64), (32, 48), (24, 32)):
        one = copy.deepcopy(net)
        one.preprocessing = net.preprocessing.at_sizes(size)
        photos = torch.stack([read_image(path) for path in places.images])
        parts.append(one.describe_images(photos).numpy())
    mean = sum(parts) / np.linalg.norm(sum(parts), axis=1, keepdims=True)
    np.testing.assert_allclose(made, mean, atol=2e-4)
    np.testing.assert_allclose(several.describe_images(places.images).numpy(), mean, atol=2e-4)
    assert np.abs(made - parts[0]).max() > 0.01


def test_descriptors_of_other_sizes_are_others(net, places, tmp_path):
    describe(net, places, tmp_path / "out")
    several = copy.deepcopy(net)
    several.preprocessing = net.preprocessing.at_sizes((24, 32), (48, 64))
    with pytest.raises(InputError, match="preprocessing"):
        describe(several, places, tmp_path / "out")


def test_several_sizes_run_in_torch(net, places):
    several = copy.deepcopy(net)
    several.preprocessing = net.preprocessing.at_sizes((24, 32), (48, 64))
    with pytest.raises(InputError, match="describes photos at several sizes runs in torch"):
        describe(several, places, runtime="onnxruntime")
