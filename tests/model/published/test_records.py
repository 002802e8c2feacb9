"""What is said of published models is so, and every tensor of their authors' files has one place."""

import pytest
import torch

from samespot.model.catalogue import TRUNKS, list_models
from samespot.model.network import PlaceNet
from samespot.model.published import published_models
from samespot.model.published.cosplace import TRUNKS as COSPLACE_TRUNKS
from samespot.model.published.loading import empty_network

MODELS = [one for one in published_models().values() if one.family is None]
PERCEPTRON = ("0.weight", "0.bias", "3.weight", "3.bias")
SALAD = (
    *("token_features.0.weight", "token_features.0.bias", "token_features.2.weight", "token_features.2.bias"),
    *(f"cluster_features.{name}" for name in PERCEPTRON),
    *(f"score.{name}" for name in PERCEPTRON),
    "dust_bin",
)
ATTENTION = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
LAYER = (
    *(f"self_attn.{name}" for name in ATTENTION),
    *(f"{part}.{kind}" for part in ("linear1", "linear2", "norm1", "norm2") for kind in ("weight", "bias")),
)
BOQ = (
    *("proj_c.weight", "proj_c.bias", "norm_input.weight", "norm_input.bias", "fc.weight", "fc.bias"),
    *(
        f"boqs.{number}.{name}"
        for number in range(2)
        for name in (
            "queries",
            *(f"encoder.{one}" for one in LAYER),
            *(f"{part}.{one}" for part in ("self_attn", "cross_attn") for one in ATTENTION),
            *("norm_q.weight", "norm_q.bias", "norm_out.weight", "norm_out.bias"),
        )
    ),
)
MIXVPR = (
    *(f"mix.{n}.mix.{layer}.{kind}" for n in range(4) for layer in (0, 1, 3) for kind in ("weight", "bias")),
    *("channel_proj.weight", "channel_proj.bias", "row_proj.weight", "row_proj.bias"),
)
COSPLACE = ("aggregation.1.p", "aggregation.3.weight", "aggregation.3.bias")
RESNET = {"conv1": "0", "bn1": "1", "layer1": "4", "layer2": "5", "layer3": "6", "layer4": "7"}


def as_child(name):
    """A tensor of torchvision's ResNet in the Sequential of its children."""
    first, _, rest = name.partition(".")
    return f"{RESNET[first]}.{rest}"


# the names in the authors' files: of the trunk, from timm's; then the others
THEIRS = {
    "megaloc": (lambda n: f"backbone.{n}", [*(f"aggregator.agg.{n}" for n in SALAD), "aggregator.linear.weight",
                                            "aggregator.linear.bias"]),
    "salad": (lambda n: f"backbone.model.{n}", [*(f"aggregator.{n}" for n in SALAD), "backbone.model.mask_token"]),
    "cosplace": (lambda n: f"backbone.{as_child(n)}", [*COSPLACE]),
    "eigenplaces": (lambda n: f"backbone.{as_child(n)}", [*COSPLACE]),
    "cosplace-vgg16-512": (lambda n: n.replace("features.", "backbone."), [*COSPLACE]),
    "mixvpr": (lambda n: f"backbone.model.{n}", [f"aggregator.{n}" for n in MIXVPR]),
    "boq": (lambda n: f"backbone.net.{as_child(n)}", [f"aggregator.{n}" for n in BOQ]),
    "boq-dinov2": (lambda n: f"backbone.dino.{n}", [*(f"aggregator.{n}" for n in BOQ), "backbone.dino.mask_token",
                                                    "backbone.dino.norm.weight", "backbone.dino.norm.bias"]),
    "supervlad": (lambda n: f"backbone.{n}", ["aggregation.conv.weight", "backbone.mask_token"]),
}  # fmt: skip


@pytest.mark.parametrize("name", THEIRS)
def test_every_tensor_of_the_authors_file_has_one_place(name):
    model, (trunk_name, others) = published_models()[name], THEIRS[name]
    with torch.device("meta"):
        _, places = empty_network(model, model.image_size)
    in_trunk = [place.removeprefix("trunk.") for place in places if place.startswith("trunk.")]
    theirs = [*map(trunk_name, in_trunk), *others]
    ours = [model.our_name(one) for one in theirs]
    named = [one for one in ours if one is not None]
    assert sorted(named) == sorted(places)
    assert len(theirs) - len(named) == sum("mask_token" in one or "dino.norm" in one for one in theirs)
    assert model.our_name("optimizer.state") == "optimizer.state"  # a stranger stays one


@pytest.mark.parametrize("model", [*MODELS, *(published_models()[f"mixvpr-{n}"] for n in (512, 128))])
def test_sizes_are_what_the_records_say(model):
    with torch.device("meta"):
        net, _ = empty_network(model, model.image_size)
    assert net.descriptor_size == model.dims
    assert sum(parameter.numel() for parameter in net.parameters()) == model.parameters
    assert net.preprocessing.mean == (0.485, 0.456, 0.406)
    assert net.preprocessing.std == (0.229, 0.224, 0.225)
    model.check_size(model.image_size)


@pytest.mark.parametrize("trunk", COSPLACE_TRUNKS)
def test_variants_are_as_large_as_they_say(trunk):
    model = next(
        one for one in published_models().values() if one.name.startswith(f"cosplace-{trunk.lower()}-")
    )
    with torch.device("meta"):
        net, _ = empty_network(model, (64, 64))
    assert sum(parameter.numel() for parameter in net.parameters()) == model.parameters
    assert net.descriptor_size == model.dims


@pytest.mark.parametrize("name", TRUNKS)
def test_off_the_shelf_networks_are_as_large_as_they_say(name):
    described = next(one for one in list_models(f"{name}-gem") if one.name == f"{name}-gem")
    with torch.device("meta"):
        net = PlaceNet(name, pretrained=False)
    assert sum(parameter.numel() for parameter in net.parameters()) == described.parameters
    assert net.descriptor_size == described.dims


def test_the_list_names_families_first_and_has_every_variant():
    names = [one.name for one in list_models()]
    assert len(names) == len(set(names))
    assert {"megaloc", "salad", "eigenplaces", "cosplace", "mixvpr", "boq", "boq-dinov2", "supervlad"} <= set(
        names
    )
    assert "eigenplaces-resnet18-512" in names
    assert [one.name for one in list_models("mixvpr")] == ["mixvpr", "mixvpr-512", "mixvpr-128"]
    for one in list_models():
        assert one.family is None or one.family in names
        told = one.to_dict()
        assert told["licence"]
        assert told["code_licence"]
        assert told["source"]
        assert told["megabytes"] > 5
        assert "images_per_second" in told
        assert len(told["sha256"] or "0" * 64) == 64
