"""The model in the wheel: there without a network, small, whole, and what its record says."""

import numpy as np
import pytest
from PIL import Image

import samespot
from samespot.errors import InputError
from samespot.model.network import PlaceNet
from samespot.model.shipped import DEFAULT_MODEL, SHIPPED


@pytest.fixture(scope="module")
def net() -> PlaceNet:
    return samespot.load_model(DEFAULT_MODEL)


def test_it_is_what_its_record_says(net):
    record = SHIPPED[DEFAULT_MODEL]
    assert (net.backbone, net.pool_name) == (record.backbone, record.pool)
    assert net.descriptor_size == record.dims
    assert net.preprocessing.size == record.image_size
    assert sum(p.numel() for p in net.parameters()) == record.parameters
    assert net.whitening.rank == record.white_dims
    (listed,) = samespot.list_models(DEFAULT_MODEL)
    assert listed.here
    assert listed.licence == "Apache-2.0"


def test_it_fits_into_eight_megabytes():
    assert sum(file.stat().st_size for file in SHIPPED[DEFAULT_MODEL].folder.iterdir()) < 8e6


def test_its_weights_are_those_that_were_measured(net):
    """The figures in docs/models.md are of these bits."""
    assert net.digest() == "eb5b7cdd98bc54991328e31dc278caa8"
    assert net.whitening.digest() == "b6ccfa52238e73c07f6de25291883606"


def test_it_describes_photos_without_a_network_connection(net, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    dice = np.random.default_rng(0)
    for name in ("a.jpg", "b.jpg"):
        Image.fromarray(dice.integers(0, 256, (60, 80, 3), dtype=np.uint8)).save(tmp_path / name)
    (tmp_path / "places.csv").write_text("image,easting,northing,heading\na.jpg,0,0,0\nb.jpg,5,0,90\n")
    white = samespot.describe(net, samespot.open_places(tmp_path / "places.csv"), whiten=True)
    assert white.vectors.shape == (2, 256)
    assert np.allclose(np.linalg.norm(white.vectors, axis=1), 1.0, atol=1e-5)


def test_another_size_of_images_can_be_asked_for():
    assert samespot.load_model(f"{DEFAULT_MODEL}@224x224").preprocessing.size == (224, 224)


def test_weights_from_elsewhere_are_refused(tmp_path):
    with pytest.raises(InputError, match="`weights` has no effect on samespot-lite, which holds its own"):
        samespot.load_model(DEFAULT_MODEL, weights=tmp_path / "other.safetensors")


def test_half_precision_is_half_as_large_and_nearly_the_same(net, tmp_path):
    whole, half = net.save(tmp_path / "whole"), net.save(tmp_path / "half", half=True)
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (whole, half)]
    assert sizes[1] < 0.55 * sizes[0]
    assert PlaceNet.load(half).digest() == net.digest()  # these weights were read from half precision


def test_another_pooling_keeps_the_weights(net):
    gem = net.with_pool("gem")
    assert (gem.descriptor_size, gem.whitening) == (1280, None)
    assert gem.with_pool("multi").digest() == net.digest()


def test_it_tells_how_far_to_trust_it_and_keeps_that_when_saved(tmp_path):
    from samespot.maps.trust import Trust

    net = samespot.load_model(DEFAULT_MODEL)
    net.save(tmp_path)
    again = samespot.load_model(str(tmp_path))
    assert again.calibration == net.calibration
    trust = Trust.from_dict(again.calibration)
    assert trust.source == "model"
    assert {"verified", "unverified"} == set(trust.kinds)
    assert all(one["ece"] < 0.05 for one in trust.reliability().values())
