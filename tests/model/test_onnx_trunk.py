"""A network's stages run in onnxruntime as in torch; the graph is exported once and kept, and used only if whole."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from samespot.model import onnx_trunk as module
from samespot.model.network import PlaceNet
from samespot.model.onnx_trunk import WORTH, NoGraphError, graph_path, trunk_for

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "graphs"


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64)).eval()


@pytest.fixture
def exports(monkeypatch):
    """Counts them."""
    done, original = [], module._exported
    monkeypatch.setattr(module, "_exported", lambda net: done.append(net) or original(net))
    return done


def files(cache):
    return sorted(path.name for path in cache.iterdir() if path.name != ".lock")


def differs(net, trunk, count):
    dice = np.random.default_rng(count)
    pixels = torch.from_numpy(dice.integers(0, 256, (count, 3, *net.preprocessing.size), dtype=np.uint8))
    with torch.inference_mode():
        found = functional.normalize(net.pool(trunk(pixels)), dim=1)
    return float((found - net.describe_images(pixels)).abs().max())


def test_it_gives_the_networks_maps_and_is_exported_once(net, cache, exports):
    for _ in range(2):
        trunk = trunk_for(net, WORTH)
        assert max(differs(net, trunk, count) for count in (1, 2, 5)) < 1e-5
    assert len(exports) == 1
    assert files(cache) == [graph_path(net).name]
    assert differs(net, trunk_for(net, 1), 2) < 1e-5  # few images use a graph that is there


def test_few_images_are_not_worth_an_export(net, cache, exports):
    with pytest.raises(NoGraphError, match="does not pay"):
        trunk_for(net, WORTH - 1)
    assert not exports
    assert not cache.exists()


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-100], lambda whole: whole[:5000] + b"?" + whole[5001:]]
)
def test_a_broken_file_is_written_again(net, cache, exports, damage):
    trunk_for(net, WORTH)
    path = graph_path(net)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with pytest.raises(NoGraphError, match="does not pay"):  # as if it was not there
        trunk_for(net, 1)
    assert differs(net, trunk_for(net, WORTH), 2) < 1e-5
    assert len(exports) == 2
    assert trunk_for(net, 1)


def test_a_graph_is_of_weights_preprocessing_and_structure(net):
    other = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64))
    larger = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(64, 64))
    larger.load_state_dict(net.state_dict())
    averaged = PlaceNet("test_resnet.r160_in1k", "gap", pretrained=False, image_size=(48, 64))
    assert len({graph_path(one) for one in (net, other, larger, averaged)}) == 4


def test_a_trunk_that_counts_its_images_is_exported_with_a_free_number():
    """Its tokens are joined to one that is repeated for each image: a number in the graph."""
    torch.manual_seed(0)
    net = PlaceNet("test_vit.r160_in1k", pretrained=False, image_size=(160, 160)).eval()
    assert max(differs(net, trunk_for(net, WORTH), count) for count in (1, 4)) < 1e-5


def test_a_cache_that_cannot_be_written_costs_an_export_each_time(net, exports, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "file"))
    assert differs(net, trunk_for(net, WORTH), 2) < 1e-5
    assert len(exports) == 1


def test_the_graphs_used_longest_ago_go(net, cache, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 2)
    monkeypatch.setattr(module, "_exported", lambda net: b"graph")
    monkeypatch.setattr(module, "OnnxTrunk", lambda graph: graph)
    cache.mkdir(parents=True)
    for age, name in enumerate(("new", "old", "oldest")):
        (cache / f"{name}.onnx").write_text("")
        module.os.utime(cache / f"{name}.onnx", (1000 - age, 1000 - age))
    trunk_for(net, WORTH)
    assert files(cache) == sorted([graph_path(net).name, "new.onnx"])


def test_what_differs_from_torch_is_not_used(net, cache, monkeypatch):
    monkeypatch.setattr(module, "_fault", lambda *_: "onnxruntime differs from torch by 1.0e-02")
    with pytest.raises(NoGraphError, match=r"differs from torch by 1\.0e-02"):
        trunk_for(net, WORTH)
    assert files(cache) == []


def test_an_exporter_that_fails_is_told_in_one_line(net, cache, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no such operator\nand much more")

    monkeypatch.setattr(module, "write_graph", fail)
    with pytest.raises(NoGraphError, match=r"^the network does not run in onnxruntime: no such operator$"):
        trunk_for(net, WORTH)
    assert files(cache) == []


def test_without_onnxruntime_it_is_named(net, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "onnxruntime" else name)
    with pytest.raises(NoGraphError, match=r"^onnxruntime not installed$"):
        trunk_for(net, WORTH)


def test_int8_that_loses_too_much_is_refused(net, cache, monkeypatch):
    monkeypatch.setattr(module, "ALIKE", 1.1)
    with pytest.raises(NoGraphError, match=r"int8 loses too much .* cosine of"):
        trunk_for(net, precision="int8")
    assert files(cache) == []
