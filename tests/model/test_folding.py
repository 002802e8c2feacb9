"""A folded network computes what the unfolded one did, with fewer layers."""

import pytest
import torch
from torch import nn

from samespot.model.folding import fold_batch_norms
from samespot.model.network import PlaceNet


def with_lively_norms(net: PlaceNet) -> PlaceNet:
    """Statistics and scales as after training; fresh ones (0, 1) would make folding trivial."""
    generator = torch.Generator().manual_seed(3)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            size = module.num_features
            module.running_mean.copy_(torch.randn(size, generator=generator) * 0.1)
            module.running_var.copy_(torch.rand(size, generator=generator) + 0.5)
            module.weight.data.copy_(torch.rand(size, generator=generator) + 0.5)
            module.bias.data.copy_(torch.randn(size, generator=generator) * 0.1)
    return net.eval()


def norms(module: nn.Module) -> int:
    return sum(isinstance(m, nn.BatchNorm2d) for m in module.modules())


@pytest.mark.parametrize(
    ("backbone", "before", "after"),
    # DenseNet121: 58 layers of norm-conv-norm-conv keep their first norm; 3 transitions and the end theirs
    [("resnet18", 20, 0), ("efficientnet_lite0", 49, 0), ("vgg11_bn", 8, 0), ("densenet121", 121, 62)],
)
def test_folding_keeps_the_descriptors(backbone, before, after):
    net = with_lively_norms(PlaceNet(backbone, pretrained=False, image_size=(64, 64)))
    folded = fold_batch_norms(net)
    images = torch.randn((2, 3, 64, 80), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(folded(images), net(images), rtol=0, atol=1e-4)
    assert (norms(net), norms(folded)) == (before, after)
    assert not any(p.requires_grad for p in folded.parameters())


def test_the_original_is_untouched():
    net = with_lively_norms(PlaceNet("resnet18", pretrained=False))
    before = net.digest()
    trunk = net.frozen_trunk()
    assert net.digest() == before
    images = torch.randn((1, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(trunk(images), net.frozen(images), rtol=1e-4, atol=1e-4)
    assert norms(trunk) == 0


def test_a_convolution_that_feeds_two_layers_is_not_folded():
    class Forked(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x):
            y = self.conv(x)
            return y + self.norm(y)

    forked = Forked().eval()
    forked.norm.running_mean.fill_(2.0)
    images = torch.rand((1, 3, 8, 8))
    folded = fold_batch_norms(forked)
    assert norms(folded) == 1
    torch.testing.assert_close(folded(images), forked(images))
