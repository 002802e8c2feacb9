"""NetVLAD against its sums written out, and a network around it: its size, its cut, its files."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from samespot.errors import InputError
from samespot.model.netvlad import NetVLAD
from samespot.model.network import PlaceNet
from samespot.model.onnx_export import export_onnx
from samespot.retrieval.describe import Describer


def noise(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def small_pool(clusters: int = 4, channels: int = 6, bias: bool = False) -> NetVLAD:
    torch.manual_seed(0)
    pool = NetVLAD(clusters, channels, bias)
    nn.init.normal_(pool.conv.weight, std=2.0)
    return pool


def written_out(pool: NetVLAD, features: torch.Tensor) -> np.ndarray:
    """(n, k · d) in float64, one position and one cluster at a time."""
    weight = pool.conv.weight.detach().double().numpy()[:, :, 0, 0]
    bias = 0 if pool.conv.bias is None else pool.conv.bias.detach().double().numpy()
    centroids, maps = pool.centroids.detach().double().numpy(), features.double().numpy()
    n, d, h, w = maps.shape
    vlad = np.zeros((n, len(centroids), d))
    for i in range(n):
        for y in range(h):
            for x in range(w):
                local = maps[i, :, y, x] / np.linalg.norm(maps[i, :, y, x])
                scores = np.exp(weight @ local + bias)
                for k, centroid in enumerate(centroids):
                    vlad[i, k] += scores[k] / scores.sum() * (local - centroid)
    vlad /= np.linalg.norm(vlad, axis=2, keepdims=True)
    return vlad.reshape(n, -1)


@pytest.mark.parametrize("bias", [False, True])
def test_equal_to_the_sums_written_out(bias):
    pool, features = small_pool(bias=bias), noise(3, 6, 4, 5)
    found = pool(features).detach().numpy()
    assert found.shape == (3, 24)
    np.testing.assert_allclose(found, written_out(pool, features), atol=1e-6)


def test_by_hand():
    """Two positions, (1, 0) and (0, 1), halved between centroids at the origin and at (1, 0)."""
    pool = NetVLAD(2, 2)
    nn.init.zeros_(pool.conv.weight)
    pool.centroids.data = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    features = torch.tensor([[[[3.0, 0.0]], [[0.0, 7.0]]]])  # (1, 2, 1, 2): lengths do not count
    r = math.sqrt(0.5)
    torch.testing.assert_close(pool(features), torch.tensor([[r, r, -r, r]]))


def test_where_a_feature_lies_does_not_matter():
    pool, features = small_pool(), noise(2, 6, 3, 8)
    moved = features.flatten(2)[:, :, torch.randperm(24, generator=torch.Generator().manual_seed(1))]
    torch.testing.assert_close(pool(moved.reshape(2, 6, 4, 6)), pool(features), rtol=0, atol=1e-6)


def test_each_cluster_has_length_1_and_the_features_lengths_do_not_count():
    pool, features = small_pool(), noise(2, 6, 3, 8)
    found = pool(features)
    torch.testing.assert_close(found.reshape(2, 4, 6).norm(dim=2), torch.ones(2, 4))
    scale = torch.rand(2, 1, 3, 8, generator=torch.Generator().manual_seed(2)) + 0.1
    torch.testing.assert_close(pool(features * scale), found, rtol=0, atol=1e-5)


def test_the_gradient_is_that_of_finite_differences():
    pool = small_pool(3, 4, bias=True).double()
    features = noise(2, 4, 2, 3).double().requires_grad_()
    names = [name for name, _ in pool.named_parameters()]
    weights = [parameter.detach().requires_grad_() for parameter in pool.parameters()]
    pool.soft_assign = lambda x: _in_float64(pool, x)  # the module's own is of float32

    def pooled(features, *weights):
        return torch.func.functional_call(pool, dict(zip(names, weights, strict=True)), (features,))

    assert torch.autograd.gradcheck(pooled, (features, *weights), eps=1e-6, atol=1e-6)


def _in_float64(pool, features):
    unit = nn.functional.normalize(features, dim=1)
    return unit, pool.conv(unit).softmax(dim=1)


def test_autocast_does_not_reach_the_assignment():
    pool, features = small_pool(), noise(2, 6, 4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = pool(features)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, pool(features))


def test_features_of_zeros_give_numbers():
    pool = small_pool()
    features = torch.zeros(1, 6, 2, 2, requires_grad=True)
    pool(features).sum().backward()
    assert bool(features.grad.isfinite().all())


def test_the_residuals_of_all_positions_are_never_held():
    """64 clusters on a map of 512 x 30 x 40 would take 157 MB; the sums take under a tenth."""
    pool, features = NetVLAD(64, 512), torch.zeros(1, 512, 30, 40)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.numel() * tensor.element_size())
            return out

    with torch.no_grad(), Watch():
        pool(features)
    assert largest <= 4 * 512 * 30 * 40


def test_contributions_of_positions_sum_to_1_and_tell_what_each_adds():
    pool, features = small_pool(), noise(2, 6, 3, 4)
    with torch.no_grad():
        parts = pool.contributions(features)
        unit, shares = pool.soft_assign(features)
        descriptor = nn.functional.normalize(pool(features)).reshape(2, 4, 6)
        lengths = pool.residual_sums(unit, shares).norm(dim=2)
        centroids = pool.centroids.clone()
    torch.testing.assert_close(parts.sum(dim=(1, 2)), torch.ones(2))
    # photo 1, position (2, 3): along the descriptor, cluster by cluster
    terms = [
        shares[1, k, 2, 3] * (unit[1, :, 2, 3] - centroids[k]) @ descriptor[1, k] / lengths[1, k] / 2
        for k in range(4)
    ]
    assert float(parts[1, 2, 3]) == pytest.approx(float(sum(terms)), abs=1e-6)


# ---- the start of the clusters ----


@pytest.mark.parametrize("bias", [False, True])
def test_at_the_average_gap_the_best_cluster_gets_100_times_the_second(bias):
    centroids = 0.7 * nn.functional.normalize(noise(5, 8), dim=1)
    local = nn.functional.normalize(noise(400, 8, seed=9), dim=1)
    pool = NetVLAD(5, 8, bias)
    assert not pool.started
    alpha = pool.start(centroids, local)
    assert pool.started
    scores = pool.conv(local.T.reshape(1, 8, 20, 20)).detach()[0].reshape(5, 400).T
    top = scores.topk(2, dim=1).values
    assert float((top[:, 0] - top[:, 1]).mean()) == pytest.approx(math.log(100), rel=1e-4)
    # with a bias the scores are those of a Gaussian about each centroid, but for what all clusters share
    distances = torch.cdist(local, centroids) ** 2
    if bias:
        expected = -alpha * (distances - local.square().sum(dim=1)[:, None])
    else:
        expected = alpha * nn.functional.cosine_similarity(local[:, None], centroids[None], dim=2)
    torch.testing.assert_close(scores, expected.float(), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(pool.centroids.detach(), centroids)


def test_clusters_that_nothing_tells_apart_are_refused():
    with pytest.raises(InputError, match="do not separate the 2 clusters of NetVLAD"):
        NetVLAD(2, 3).start(torch.ones(2, 3), nn.functional.normalize(noise(10, 3), dim=1))


# ---- the network around it ----


def small_net(backbone: str = "test_resnet.r160_in1k", pool: str = "netvlad4") -> PlaceNet:
    torch.manual_seed(1)
    return PlaceNet(backbone, pool, pretrained=False, image_size=(64, 64)).eval()


def test_the_size_of_a_descriptor_is_clusters_times_channels():
    net = small_net()
    channels = net.pool.channels
    assert net.descriptor_size == 4 * channels
    with torch.no_grad():
        found = net(noise(2, 3, 64, 64))
    assert found.shape == (2, 4 * channels)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(2))


def test_vgg_ends_before_its_last_rectifier_under_netvlad_only():
    under, plain = small_net("vgg11", "netvlad2"), small_net("vgg11", "gap")
    plain.load_state_dict(under.state_dict(), strict=False)
    images = noise(1, 3, 64, 64)
    with torch.no_grad():
        last = under.last_map(under.frozen(images))
        assert last.shape == (1, 512, 4, 4)  # not halved once more
        assert float(last.min()) < 0
        pooled = nn.functional.max_pool2d(nn.functional.relu(last), 2)
        torch.testing.assert_close(plain.last_map(plain.frozen(images)), pooled)
    resnet = small_net("resnet18", "netvlad2")
    with torch.no_grad():
        assert float(resnet.last_map(resnet.frozen(images)).min()) >= 0  # another trunk keeps its own


def test_a_batch_norm_before_the_rectifier_stays():
    assert isinstance(list(small_net("vgg11_bn", "netvlad2").stages["block5"])[-1], nn.BatchNorm2d)


def test_vgg16_with_64_clusters_has_the_published_size():
    with torch.device("meta"):
        assert PlaceNet("vgg16", "netvlad64", pretrained=False).descriptor_size == 32_768


def test_a_model_folder_brings_the_clusters_back(tmp_path):
    net, images = small_net("vgg11", "netvlad3v2"), noise(2, 3, 64, 64)
    nn.init.normal_(net.pool.conv.bias)
    net.save(tmp_path / "model")
    back = PlaceNet.load(tmp_path / "model")
    assert back.pool.started
    assert not net.pool.started
    with torch.no_grad():
        assert torch.equal(back(images), net(images))


def test_described_as_the_network_does(tmp_path):
    net = small_net()
    pixels = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    found = Describer(net, torch.device("cpu"), "32")(pixels)
    torch.testing.assert_close(found, net.describe_images(pixels), rtol=0, atol=1e-5)


def test_onnxruntime_gives_the_same_descriptors(tmp_path):
    pytest.importorskip("onnxruntime")
    assert export_onnx(small_net(), tmp_path / "net.onnx") <= 1e-4
