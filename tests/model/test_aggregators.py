"""Aggregators give what their authors' own code gave for the same weights and features, when they were written."""

import pytest
import torch
from torch.nn import functional

from samespot.errors import InputError
from samespot.model.aggregators.salad import Salad, transport
from samespot.model.backbone import build_trunk
from samespot.model.endings import before_last_norm, before_layer4, token_on_top
from samespot.model.network import PlaceNet
from samespot.model.pooling import make_pool, trunk_for
from tests.model import seeded

# name -> rows and columns of its features, and components 0, 1, the middle one and the last of two descriptors
FOUND = {
    "salad8x4": (6, 5, [[-0.041094, 0.020269, 0.011273, 0.024321], [-0.042853, 0.006736, 0.004451, 0.021345]]),
    "projected": (6, 5, [[0.280041, -0.41574, -0.216132, -0.066154], [0.281615, -0.414431, -0.21642, -0.075655]]),
    "cosplace12": (6, 5, [[0.072498, -0.267287, 0.040866, -0.116274], [0.072483, -0.263057, 0.042047, -0.111679]]),
    "mixvpr128": (20, 20, [[-0.066628, -0.206798, 0.052606, -0.041486], [-0.082624, -0.22601, 0.029735, 0.005775]]),
    "boq2048": (6, 5, [[0.001155, 0.035034, 0.036121, 0.006974], [0.000772, 0.035094, 0.036621, 0.006691]]),
    "supervlad4": (6, 5, [[-0.097019, 0.154017, -0.135106, -0.104794], [-0.148651, 0.12237, -0.231274, -0.025247]]),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_aggregators_give_what_their_authors_code_gave(name):
    rows, columns, expected = FOUND[name]
    # as MegaLoc, but smaller
    pool = Salad(16, 8, 4, projected=10) if name == "projected" else make_pool(name, 16)
    with torch.no_grad():
        seeded.seed(pool.state_dict())
        found = functional.normalize(pool.eval()(seeded.values("features", (2, 16, rows, columns))), dim=1)
    assert found.shape == (2, pool.size)
    torch.testing.assert_close(
        found[:, [0, 1, pool.size // 2, -1]], torch.tensor(expected), rtol=0, atol=2e-6
    )


@pytest.fixture(scope="module")
def small_dino():
    trunk = build_trunk("vit_small_patch14_dinov2")
    state = trunk.stages.state_dict()
    with torch.no_grad():
        seeded.seed({theirs: state[ours] for theirs, ours in trunk.timm_keys.items()})
    trunk.stages.eval()
    return trunk


def test_dinov2_resizes_its_position_embeddings_as_its_authors_do(small_dino):
    """56 x 84 pixels are 4 x 6 patches of the 37 x 37 it was trained with."""
    images = seeded.values("images", (1, 3, 56, 84))
    with torch.no_grad():
        found = small_dino.forward(images)
        on_top = token_on_top(small_dino).forward(images)
        unnormed = before_last_norm(small_dino).forward(images)
    some = torch.stack([found[0, 0, 0, 0], found[0, 5, 1, 2], found[0, 200, 3, 5], found[0, 383, 2, 0]])
    torch.testing.assert_close(some, torch.tensor([0.72307, -0.55947, 0.97132, -1.49821]), rtol=0, atol=5e-5)
    assert on_top.shape == (1, 384, 5, 6)
    torch.testing.assert_close(on_top[:, :, 1:], found)
    assert not on_top[:, :, 0, 1:].any()
    token = on_top[0, [0, 100, 383], 0, 0]
    torch.testing.assert_close(token, torch.tensor([0.8331, -0.27999, -1.14598]), rtol=0, atol=5e-5)
    ends = torch.stack([unnormed[0, 0, 0, 0], unnormed[0, 383, 3, 5]])
    torch.testing.assert_close(ends, torch.tensor([-5.02142, 4.53617]), rtol=0, atol=5e-5)


def test_transport_gives_clusters_one_feature_each_and_the_dustbin_the_rest():
    scores = 0.1 * seeded.values("scores", (2, 3, 40))
    shares = transport(scores, torch.tensor(0.5))
    assert (shares > 0).all()
    torch.testing.assert_close(shares.sum(dim=2), torch.ones(2, 3), rtol=0, atol=1e-3)
    assert (shares.sum(dim=1) < 1).all()  # of every feature something goes into the dustbin


def test_too_few_patches_are_named():
    with pytest.raises(InputError, match=r"6 patches do not fill 8 clusters.*larger images"):
        transport(torch.zeros(1, 8, 6), torch.tensor(1.0))


def test_mixvpr_names_the_size_it_needs():
    with pytest.raises(InputError, match="images of 320x320, not 4 x 5"):
        make_pool("mixvpr128", 8)(torch.zeros(1, 8, 4, 5))


def test_a_resnet_ends_before_layer4_once():
    with torch.device("meta"):
        trunk = build_trunk("resnet50")
    ended = before_layer4(trunk)
    assert list(ended.stages) == ["stem", "layer1", "layer2", "layer3"]
    assert ended.channels == 1024
    assert not any(name.startswith("layer4") for name in ended.timm_keys)
    assert list(before_layer4(ended).stages) == list(ended.stages)
    with torch.device("meta"):
        assert trunk_for("boq4096", build_trunk("resnet18")).channels == 256


@pytest.mark.parametrize(("backbone", "pool"), [("resnet18", "salad"), ("vgg16", "mixvpr128")])
def test_a_trunk_that_does_not_serve_is_named(backbone, pool):
    with torch.device("meta"), pytest.raises(InputError, match="this pooling needs a"):
        PlaceNet(backbone, pool, pretrained=False)


def test_a_descriptor_does_not_depend_on_its_neighbours(tmp_path):
    """And a network with an aggregator is saved and read back like any other."""
    torch.manual_seed(0)
    net = PlaceNet("vit_small_patch14_dinov2", "salad8x4", pretrained=False, image_size=(56, 56)).eval()
    images = seeded.values("images", (3, 3, 56, 56))
    with torch.no_grad():
        together = net(images)
        torch.testing.assert_close(net(images[1:2]), together[1:2], rtol=0, atol=1e-6)
        net.set_train_blocks(2)  # the cut is between two groups: tokens
        torch.testing.assert_close(net.trained(net.frozen(images)), together)
    assert net.descriptor_size == 8 * 4 + 256
    again = PlaceNet.load(net.save(tmp_path / "model"))
    assert again.digest() == net.digest()
    with torch.no_grad():
        torch.testing.assert_close(again(images), together)
