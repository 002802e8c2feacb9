"""The ONNX file takes raw pixels and gives torch's descriptors, for any number of images."""

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model import onnx_export
from samespot.model.network import PlaceNet
from samespot.model.onnx_export import export_onnx


def test_onnxruntime_gives_the_same_descriptors(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    net = PlaceNet("resnet18", pretrained=False, image_size=(48, 64)).train()
    net.preprocessing = Preprocessing(
        size=(48, 64), mean=(103.9, 116.8, 123.7), std=(40.0, 50.0, 60.0), channels="BGR", value_range=255.0
    )
    net.pool.p.data.fill_(2.6)
    assert export_onnx(net, tmp_path / "net.onnx") <= 1e-4
    assert net.training  # as it was
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]  # one file, nothing beside it

    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    for count in (1, 2, 5):
        pixels = np.random.default_rng(count).integers(0, 256, (count, 3, 48, 64), dtype=np.uint8)
        (found,) = session.run(["descriptors"], {"images": pixels.astype(np.float32)})
        expected = net.describe_images(torch.from_numpy(pixels))
        np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=1e-4)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    net = PlaceNet("mobilenetv3_small_050", pretrained=False, image_size=(48, 64))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs onnx, onnxscript, onnxruntime.*samespot\[onnx\]"):
        export_onnx(net, tmp_path / "net.onnx")


def test_a_file_that_differs_is_not_kept(tmp_path, monkeypatch):
    net = PlaceNet("mobilenetv3_small_050", pretrained=False, image_size=(48, 64))
    monkeypatch.setattr(onnx_export, "_write", lambda model, example, path: path.write_bytes(b"x"))
    monkeypatch.setattr(onnx_export, "_difference", lambda model, images, path: 0.01)
    with pytest.raises(InputError, match=r"differs from torch by 1\.0e-02"):
        export_onnx(net, tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []
