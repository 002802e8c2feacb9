"""VGG16 with its real ImageNet weights, on real photos: fed as its file says, with features that mean something."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torchvision.models import vgg

from samespot.images.preprocess import Preprocessing
from samespot.model.network import PlaceNet


@pytest.fixture(scope="module")
def weights(real_data) -> Path:
    path = real_data.parent / "weights" / "vgg16_imagenet_conv_fp16.safetensors"
    if not path.is_file():
        pytest.skip(f"no VGG16 weights at {path}")
    return path


@pytest.fixture(scope="module")
def net(weights) -> PlaceNet:
    return PlaceNet("vgg16", weights=weights, image_size=(144, 144)).eval()


@pytest.fixture(scope="module")
def pairs(real_data) -> tuple[list[Path], list[Path]]:
    """24 queries of campus-east, and for each a map photo of the same view from another minute."""
    table = pd.read_csv(real_data / "campus" / "places.csv")
    queries, places = (table[table["split"] == split] for split in ("query", "map"))
    found: list[tuple[Path, Path]] = []
    taken: list[tuple[float, float]] = []
    for query in queries.itertuples():
        apart = np.hypot(places["easting"] - query.easting, places["northing"] - query.northing)
        turned = (places["heading"] - query.heading + 180) % 360 - 180
        same_view = places[(apart < 3) & (turned.abs() < 10) & (places["time"] != query.time)]
        far_from_others = all(np.hypot(query.easting - x, query.northing - y) > 15 for x, y in taken)
        if len(same_view) and far_from_others and len(found) < 24:
            taken.append((query.easting, query.northing))
            folder = real_data / "campus"
            found.append((folder / query.image, folder / same_view["image"].iloc[0]))
    return [a for a, _ in found], [b for _, b in found]


def test_the_config_carries_the_caffe_preprocessing(net, tmp_path):
    caffe = Preprocessing(
        size=(144, 144), mean=(103.939, 116.779, 123.68), std=(1, 1, 1), channels="BGR", value_range=255.0
    )
    assert net.preprocessing == caffe
    net.save(tmp_path)
    assert PlaceNet.load(tmp_path).preprocessing == caffe


def test_descriptors_are_those_of_torchvisions_layers(net, weights, pairs):
    trunk = vgg.make_layers(vgg.cfgs["D"])
    trunk.load_state_dict({k.removeprefix("features."): t.float() for k, t in load_file(weights).items()})
    image = np.array(Image.open(pairs[0][0]).convert("RGB")).astype(np.float32)
    assert image.shape == (144, 144, 3)
    fed = torch.from_numpy(image[..., ::-1] - np.array([103.939, 116.779, 123.68], np.float32))
    with torch.no_grad():
        features = trunk(fed.permute(2, 0, 1)[None])
        expected = torch.nn.functional.normalize(features.clamp(min=1e-6).pow(3).mean((2, 3)).pow(1 / 3))
    torch.testing.assert_close(net.describe_images(pairs[0][0]), expected, rtol=0, atol=2e-4)


def test_photos_of_one_view_are_more_alike_than_chance(net, pairs):
    """Sanity only: 24 noisy GPS pairs cannot tell one preprocessing from another (the test above does)."""
    queries, places = (net.describe_images(paths) for paths in pairs)
    similarity = queries @ places.T
    rank = (similarity > similarity.diagonal()[:, None]).sum(dim=1)
    assert len(rank) == 24
    # chance puts 5 of 24 among the first five; 11 or more in one of 200 draws
    assert (rank < 5).sum() >= 11
