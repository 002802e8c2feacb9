"""The ONNX file takes raw pixels and gives torch's descriptors, for any number of images."""

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model import onnx_export
from samespot.model.network import PlaceNet
from samespot.model.onnx_export import export_onnx
from samespot.model.pooling import make_pool


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
    with pytest.raises(InputError, match=r"needs onnx, onnxscript, onnxruntime; run `pip install onnx onn"):
        export_onnx(net, tmp_path / "net.onnx")


def test_a_file_that_differs_is_not_kept(tmp_path, monkeypatch):
    net = PlaceNet("mobilenetv3_small_050", pretrained=False, image_size=(48, 64))
    monkeypatch.setattr(onnx_export, "_write", lambda model, example, path: path.write_bytes(b"x"))
    monkeypatch.setattr(onnx_export, "_difference", lambda model, images, path: 0.01)
    with pytest.raises(InputError, match=r"differs from torch by 1\.0e-02"):
        export_onnx(net, tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


class Aggregators(torch.nn.Module):
    """All of them side by side, as one export takes as long as ten."""

    def __init__(self):
        super().__init__()
        names = ("cosplace32", "salad8x4", "mixvpr128", "boq2048", "supervlad4", "netvlad4")
        self.pools = torch.nn.ModuleDict({name: make_pool(name, 16) for name in names})

    def forward(self, images):
        parts = [pool(images).flatten(1) for pool in self.pools.values()]
        return torch.nn.functional.normalize(torch.cat(parts, dim=1), dim=1)


def test_every_aggregator_exports(tmp_path):
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    model = Aggregators().eval()
    features = torch.randn((3, 16, 20, 20), generator=torch.Generator().manual_seed(0))
    onnx_export._write(model, features[:2], tmp_path / "pools.onnx")
    for some in (features[:1], features):
        assert onnx_export._difference(model, some, tmp_path / "pools.onnx") <= 1e-5


def test_dinov2_with_its_class_token_exports(tmp_path):
    """Without its blocks, which are timm's and take long: what is ours comes before and after them."""
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    net = PlaceNet("vit_small_patch14_dinov2", "salad8x4", pretrained=False, image_size=(56, 70))
    torch.nn.init.normal_(net.stages["embed"].vit.pos_embed)
    for name, stage in net.stages.items():
        if name != "embed":
            stage.blocks = torch.nn.Sequential()
    assert export_onnx(net, tmp_path / "net.onnx") <= 1e-5
