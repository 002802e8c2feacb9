"""Dense matching finds a shift that is known, and cells look where a gradient says they do."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

import samespot
from samespot.errors import InputError
from samespot.model.network import PlaceNet
from samespot.poses.dense import DenseMatcher, first_centre, strided_layers

SIZE = (192, 256)


def texture(height, width, seed=0):
    """A colourful photo with detail of all sizes, uint8 (3, h, w)."""
    noise = np.random.default_rng(seed).normal(size=(3, height, width))
    layers = [gaussian_filter(noise, (0, s, s)) * s for s in (1.5, 3, 6, 12)]
    whole = sum(layers)
    whole = (whole - whole.min()) / np.ptp(whole)
    return torch.from_numpy((255 * whole).astype(np.uint8))


@pytest.fixture(scope="module")
def net():
    return samespot.load_model("samespot-lite")


def test_a_shifted_copy_is_matched_by_its_shift(net, one_thread):
    shift = np.array([21, -10])  # no multiple of a cell
    wide = texture(SIZE[0] + 60, SIZE[1] + 60)
    a = wide[:, 30 : 30 + SIZE[0], 30 : 30 + SIZE[1]]
    x, y = 30 - shift
    b = wide[:, y : y + SIZE[0], x : x + SIZE[1]]  # what is at (u, v) in a is at (u, v) + shift in b
    by = DenseMatcher(net, SIZE)
    pairs = by.pairs(by.features(a), by.features(b))
    off = np.abs(pairs.places - pairs.query - shift).max(axis=1)
    assert len(pairs) > 500
    assert (off < 4).mean() > 0.6  # a fine cell; what is beyond the other photo's border is matched, too
    assert (off[:200] < 4).mean() > 0.8  # the most alike
    assert np.median(off[:200]) < 1.8  # without positions within cells it would be 2
    assert (np.diff(pairs.cosines) <= 0).all()


def test_a_photo_matches_itself_everywhere_once(net, one_thread):
    by = DenseMatcher(net, SIZE)
    seen = by.features(texture(*SIZE))
    pairs = by.pairs(seen, seen)
    np.testing.assert_allclose(pairs.query, pairs.places, atol=2)  # half a cell
    assert len(pairs) == len(np.unique(pairs.query, axis=0)) > 0.95 * (SIZE[0] // 4) * (SIZE[1] // 4)
    assert len(by.pairs(seen, seen, most=100)) == 100


def test_another_photo_has_no_common_shift(net, one_thread):
    by = DenseMatcher(net, SIZE)
    pairs = by.pairs(by.features(texture(*SIZE)), by.features(texture(*SIZE, seed=1)))
    moved = np.round((pairs.places - pairs.query) / 8)
    assert np.unique(moved, axis=0, return_counts=True)[1].max() < 0.1 * len(pairs)


def test_map_photos_are_looked_at_once(net, tmp_path, one_thread):
    from torchvision.io import write_jpeg

    path = tmp_path / "a.jpg"
    write_jpeg(texture(*SIZE), str(path))
    by = DenseMatcher(net, SIZE)
    assert by.of_map(path) is by.of_map(path)


@pytest.mark.parametrize("backbone", ["resnet18", "tf_efficientnet_lite0"])
def test_cells_look_where_a_gradient_says(backbone, one_thread):
    """The pixels that a cell depends on lie evenly around its centre."""
    net = PlaceNet(backbone, pretrained=False, train_blocks="all").eval()
    for layer in net.modules():
        if isinstance(layer, torch.nn.MaxPool2d):  # passes on one gradient only
            layer.forward = lambda x, k=layer: torch.nn.functional.avg_pool2d(
                x, k.kernel_size, k.stride, k.padding
            )
    images = torch.randn(1, 3, 128, 128, requires_grad=True)
    with strided_layers(net) as seen:
        features = images
        for stage in net.stages.values():
            features = stage(features)
            if features.shape[-1] == 16:
                break
    features[0, :, 8, 8].square().sum().backward()
    columns = images.grad[0].abs().amax(dim=(0, 1)).nonzero()[:, 0]
    middle = (float(columns.min()) + float(columns.max()) + 1) / 2
    assert first_centre(seen, 8) + 8 * 8 == pytest.approx(middle)


def test_vgg_cells_look_at_their_middle():
    net = PlaceNet("vgg11", pretrained=False).eval()
    with strided_layers(net) as seen, torch.inference_mode():
        net(torch.zeros(1, 3, 64, 64))
    assert [first_centre(seen, stride) for stride in (2, 4, 16)] == [1.0, 2.0, 8.0]


def test_sizes_and_strides_that_do_not_fit_are_told(net):
    with pytest.raises(InputError, match="multiples of the"):
        DenseMatcher(net, (100, 256))
    with pytest.raises(InputError, match="no feature map of stride 64; it has those of 2, 4, 8, 16, 32"):
        DenseMatcher(net, SIZE, coarse=64)
