"""A trunk cut into stages is still the network that timm built."""

import pytest
import timm
import torch

from samespot.errors import InputError
from samespot.model.backbone import Trunk, build_trunk, timm_name_of
from samespot.model.catalogue import TRUNKS

CNNS = [
    "resnet18",
    "vgg11_bn",
    "densenet121",
    "efficientnet_lite0",
    "mobilenetv3_small_050",
    "convnext_atto",
    "regnetx_002",
]


def timm_twin(trunk: Trunk, **options):
    """timm's own network with the trunk's weights."""
    twin = timm.create_model(trunk.timm_name, num_classes=0, global_pool="", **options).eval()
    ours = trunk.stages.state_dict()
    missing, unexpected = twin.load_state_dict({k: ours[v] for k, v in trunk.timm_keys.items()}, strict=False)
    assert not unexpected
    assert all(k.split(".")[0] in ("head", "pre_logits", "conv_head", "norm_head") for k in missing), missing
    return twin


@pytest.mark.parametrize("name", CNNS)
def test_stages_in_order_are_the_network(name):
    trunk = build_trunk(name)
    trunk.stages.eval()
    images = torch.randn((2, 3, 64, 96), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = timm_twin(trunk).forward_features(images)
        found = trunk.forward(images)
    if name.startswith("densenet"):  # timm rectifies once more at the end, torchvision's features do not
        assert found.min() < 0
        found = found.relu()
    assert found.shape[1] == trunk.channels
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "patch"), [("vit_tiny_patch16_224", 16), ("vit_small_patch14_reg4_dinov2", 14)]
)
def test_transformers_give_their_patch_tokens_as_a_map(name, patch):
    trunk = build_trunk(name)
    trunk.stages.eval()
    height, width = 3, 5  # narrower than the prefix of 5 tokens is long, in patches
    images = torch.randn((2, 3, height * patch, width * patch), generator=torch.Generator().manual_seed(0))
    twin = timm_twin(trunk, dynamic_img_size=True)
    with torch.no_grad():
        tokens = twin.forward_features(images)[:, twin.num_prefix_tokens :]
        found = trunk.forward(images)
    expected = tokens.reshape(2, height, width, trunk.channels).permute(0, 3, 1, 2)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_transformers_take_sizes_that_are_no_multiple_of_the_patch():
    trunk = build_trunk("vit_small_patch14_dinov2")
    with torch.no_grad():
        assert trunk.forward(torch.zeros((1, 3, 48, 64))).shape == (1, 384, 4, 5)


@pytest.mark.parametrize("name", TRUNKS)
def test_short_names_have_the_papers_output_sizes_at_480_by_640(name):
    sizes = {
        "vgg16": 512,
        "resnet18": 512,
        "resnet34": 512,
        "resnet50": 2048,
        "resnet152": 2048,
        "resnext101": 2048,
        "densenet161": 2208,
        "efficientnet_lite0": 1280,
    }
    with torch.device("meta"):
        trunk = build_trunk(name)
        features = trunk.forward(torch.empty((1, 3, 480, 640)))
    assert features.shape == (1, sizes[name], 15, 20)
    assert trunk.channels == TRUNKS[name].channels == sizes[name]


def test_other_families_are_one_stage_and_still_give_a_map():
    trunk = build_trunk("eva02_tiny_patch14_224")
    trunk.stages.eval()
    assert list(trunk.stages) == ["network"]
    with torch.no_grad():
        assert trunk.forward(torch.zeros((1, 3, 28, 42))).shape == (1, 192, 2, 3)


def test_an_unknown_name_is_answered_with_near_ones():
    with pytest.raises(InputError, match="did you mean resnet5") as caught:
        build_trunk("resnet5O")
    assert "\n" not in str(caught.value)


def test_an_unknown_weights_tag_is_an_input_error():
    with pytest.raises(InputError, match="no weights of that tag"):
        build_trunk("resnet18.no_such_tag")


def test_resnext_stands_for_the_weakly_supervised_weights():
    assert timm_name_of("resnext101") == "resnext101_32x8d.fb_wsl_ig1b_ft_in1k"


@pytest.mark.parametrize("backbone", ["resnet18", "efficientnet_lite0", "test_vit", "test_convnext"])
def test_a_blank_trunk_draws_nothing_and_is_the_same_otherwise(backbone):
    torch.manual_seed(1)
    drawn, state = build_trunk(backbone), torch.get_rng_state()
    blank = build_trunk(backbone, blank=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert blank.timm_keys == drawn.timm_keys
    ours, theirs = blank.stages.state_dict(), drawn.stages.state_dict()
    assert [(name, one.shape) for name, one in ours.items()] == [
        (name, one.shape) for name, one in theirs.items()
    ]
    constant = [name for name, one in theirs.items() if one.dtype == torch.float and len(one.unique()) == 1]
    assert constant  # norms begin with ones and zeros, which a file of weights may leave out
    assert all(torch.equal(ours[name], theirs[name]) for name in constant)
