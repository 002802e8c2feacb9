"""Maps of networks whose features are known, and the overlay's colours."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from samespot.errors import InputError
from samespot.figures import activation
from samespot.figures.activation import activation_figure, activation_maps, overlay
from samespot.images.preprocess import Preprocessing
from samespot.model.backbone import Trunk
from samespot.model.network import PlaceNet
from samespot.model.weights import Start

SIZE = (16, 24)


class Blocks(nn.Module):
    """A trunk of mean values over 8 × 8 pixels of each colour: what it feels can be read off the photo."""

    def forward(self, images):
        return nn.functional.avg_pool2d(images, 8)


def net_with(pool="gem"):
    zero, one = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    plain = Preprocessing(size=SIZE, mean=zero, std=one, value_range=1.0)
    trunk = Trunk("blocks", nn.ModuleDict({"network": Blocks()}), 3, {}, zero, one)
    return PlaceNet.from_start(Start(trunk, plain, "by hand", ()), "blocks", pool, train_blocks=0)


@pytest.fixture
def net():
    return net_with()


@pytest.fixture
def photo(tmp_path):
    """2 × 3 blocks of 8 pixels: red 255 and 51 above, blue 102 and black below, the last column black."""
    pixels = np.zeros((*SIZE, 3), np.uint8)
    pixels[:8, :8, 0], pixels[:8, 8:16, 0], pixels[8:, :8, 2] = 255, 51, 102
    path = tmp_path / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


def test_activation_is_the_length_over_channels_from_lowest_to_highest(net, photo):
    maps = activation_maps(net, [photo])
    assert maps.dtype == np.float32
    np.testing.assert_allclose(maps, [[[1.0, 0.2, 0.0], [0.4, 0.0, 0.0]]], atol=1e-6)


def test_the_length_counts_every_channel(net, tmp_path):
    pixels = np.zeros((*SIZE, 3), np.uint8)
    pixels[:8, :8] = (153, 204, 0)  # 0.6 and 0.8: length 1
    pixels[8:, 8:16] = (0, 0, 128)
    Image.fromarray(pixels).save(tmp_path / "two.png")
    found = activation_maps(net, [tmp_path / "two.png"])[0]
    assert found[0, 0] == pytest.approx(1.0)
    assert found[1, 1] == pytest.approx(128 / 255, abs=1e-6)


@pytest.mark.parametrize("pool", ["gap", "gem", "max", "netvlad4"])
def test_contributions_sum_to_the_descriptor_s_squared_length(pool):
    net = net_with(pool)
    features = torch.rand(4, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        parts = activation._contribution(features, net.pool)
    torch.testing.assert_close(parts.sum(dim=(1, 2)), torch.ones(4))


def test_contribution_is_what_a_position_s_loss_takes_from_the_descriptor():
    """Mean pooling: without a position, each component c falls by its share there; weighted by c² this is its map."""
    net = net_with("gap")
    features = torch.rand(1, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    whole = features.mean(dim=(-2, -1))[0]
    without = features.clone()
    without[..., 0, 1] = 0
    fallen = 1 - without.mean(dim=(-2, -1))[0] / whole
    expected = (whole**2 * fallen).sum() / (whole**2).sum()
    assert float(activation._contribution(features, net.pool)[0, 0, 1]) == pytest.approx(float(expected))


def test_gem_s_contribution_is_sharper_than_the_activation(net, photo):
    # one channel each: the red block of 51 has (1/5)³ of the other's share in red
    found = activation_maps(net, [photo], kind="contribution")[0]
    assert found[0, 0] == 1.0
    assert found[0, 1] == pytest.approx(1 / 125, abs=1e-3)


def test_many_photos_come_in_order_and_the_mode_is_kept(net, tmp_path):
    paths = []
    for i in range(activation.TOGETHER + 3):
        pixels = np.zeros((*SIZE, 3), np.uint8)
        pixels[8 * (i % 2) : 8 * (i % 2) + 8, 8 * (i % 3) : 8 * (i % 3) + 8] = 200
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        paths.append(tmp_path / f"{i}.png")
    net.train()
    maps = activation_maps(net, paths)
    assert net.training
    brightest = [np.unravel_index(one.argmax(), one.shape) for one in maps]
    assert brightest == [(i % 2, i % 3) for i in range(len(paths))]


def test_a_photo_that_is_the_same_everywhere_has_no_highest(net, tmp_path):
    Image.new("RGB", (24, 16), (90, 90, 90)).save(tmp_path / "grey.png")
    np.testing.assert_array_equal(activation_maps(net, [tmp_path / "grey.png"]), np.zeros((1, 2, 3)))


def test_the_overlay_is_blue_where_low_and_red_where_high():
    photo = np.full((40, 60, 3), 128, np.uint8)
    laid = overlay(photo, np.array([[0.0, 1.0]], dtype=np.float32), opacity=1.0).astype(int)
    assert laid.shape == photo.shape
    low, high = laid[20, 2], laid[20, -3]
    assert low[2] > low[0]
    assert high[0] > high[2]
    np.testing.assert_array_equal(overlay(photo, np.zeros((3, 3), np.float32), opacity=0.0), photo)


def test_rows_are_photos_and_columns_models(photo, monkeypatch):
    kept = []
    monkeypatch.setattr(activation, "save", lambda figure, path: kept.append(figure) or path)
    maps = {"CL": np.zeros((2, 2, 3), np.float32), "GCL": np.ones((2, 2, 3), np.float32)}
    activation_figure([photo, photo], maps, "unused.pdf", titles=["a", "b"])
    panels = [axes for axes in kept[0].axes if axes.images]
    assert len(panels) == 6
    assert [panel.get_title() for panel in panels[:3]] == ["photo", "CL", "GCL"]
    np.testing.assert_array_equal(panels[0].images[0].get_array(), np.asarray(Image.open(photo)))
    activation_figure([photo, photo], maps, "unused.pdf", titles=["a", "b"], photos_in="columns")
    panels = [axes for axes in kept[1].axes if axes.images]
    assert [panel.get_title() for panel in panels[:2]] == ["a", "b"]
    assert [panel.get_ylabel() for panel in panels[::2]] == ["photo", "CL", "GCL"]


def test_what_does_not_fit_is_refused_in_a_line(net, photo):
    with pytest.raises(InputError, match="2 activation maps for 1 photos"):
        activation_figure([photo], {"CL": np.zeros((2, 2, 2), np.float32)}, "unused.pdf")
    with pytest.raises(InputError, match="nothing to draw"):
        activation_figure([photo], {}, "unused.pdf")
    with pytest.raises(InputError, match="kind"):
        activation_maps(net, [photo], kind="gradient")
