"""Which model a name or a folder means."""

import pytest

from samespot.errors import InputError
from samespot.model.loading import load_model
from samespot.model.naming import model_folder
from samespot.model.network import PlaceNet
from samespot.model.onnx_export import export_onnx


def test_the_best_model_goes_before_the_last(tmp_path):
    assert model_folder(tmp_path) is None
    for name in ("last", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"")
        assert model_folder(tmp_path) == tmp_path / name


@pytest.fixture
def folder(tmp_path):
    return PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64)).save(tmp_path / "a@b")


def test_a_folder_is_loaded_with_the_sizes_behind_its_name(folder, tmp_path):
    assert load_model(folder).preprocessing.size == (48, 64)
    net = load_model(f"{folder}@32x48+96x128+64")
    assert net.preprocessing.size == (96, 128)
    assert net.preprocessing.also == ((32, 48), (64, 64))
    again = PlaceNet.load(net.save(tmp_path / "again"))
    assert again.preprocessing == net.preprocessing


@pytest.mark.parametrize("sizes", ["wide", "32x48+", "100x20+20x100"])
def test_sizes_that_are_none_are_refused(folder, sizes):
    with pytest.raises(InputError, match=r"is not an image size|does not fit into"):
        load_model(f"{folder}@{sizes}")


def test_a_graph_is_of_one_size(folder, tmp_path):
    with pytest.raises(InputError, match="a graph takes photos of one size"):
        export_onnx(load_model(f"{folder}@32x48+96x128"), tmp_path / "net.onnx")
