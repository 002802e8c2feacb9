"""A model may bring a whitening: it comes and goes with the folder, and none but that of these weights is taken."""

import json

import numpy as np
import pytest
from PIL import Image

from samespot import Places, describe, evaluate, load_model
from samespot.errors import InputError
from samespot.evaluation.results import Evaluation
from samespot.model.network import PlaceNet
from samespot.retrieval.descriptors import Descriptors
from samespot.training.network import build_net
from samespot.training.options import TrainingOptions
from samespot.whitening.whitening import Whitening

FILE = "whitening.safetensors"


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    """Photos of noise, 100 m apart."""
    folder = tmp_path_factory.mktemp("street")
    dice = np.random.default_rng(0)
    files = [f"{i}.png" for i in range(12)]
    for file in files:
        Image.fromarray(dice.integers(0, 256, (24, 32, 3)).astype(np.uint8)).save(folder / file)
    columns = {"easting": 100.0 * np.arange(12), "northing": 0.0, "heading": 0.0}
    return Places.build(folder, {"image": files, **columns})


@pytest.fixture
def net(street):
    import torch

    torch.manual_seed(0)
    net = PlaceNet("mobilenetv3_small_050", pretrained=False, image_size=(24, 32)).eval()
    vectors = describe(net, street, device="cpu").vectors
    net.whitening = Whitening.fit(vectors, "towns", damping="auto", most=5)
    return net


def test_it_is_saved_and_loaded_with_the_model(net, tmp_path):
    net.save(tmp_path / "m")
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "config.json",
        "model.safetensors",
        FILE,
    ]
    back = load_model(tmp_path / "m")
    assert back.whitening.digest() == net.whitening.digest()
    assert back.config() == net.config()
    told = json.loads((tmp_path / "m" / "config.json").read_text())["whitening"]
    assert (told["fitted on"], told["dims"], told["damping"]) == ("towns", 5, 3.0)
    net.whitening = None
    net.save(tmp_path / "m")
    assert load_model(tmp_path / "m").whitening is None
    assert not (tmp_path / "m" / FILE).exists()


def test_folders_that_say_nothing_of_one_have_none(net, tmp_path):
    """Older folders, and a file that someone put beside the weights."""
    whitening, net.whitening = net.whitening, None
    net.save(tmp_path)
    whitening.save(tmp_path / FILE)
    assert load_model(tmp_path).whitening is None
    config = json.loads((tmp_path / "config.json").read_text())
    del config["whitening"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(tmp_path).whitening is None


def test_another_one_is_refused(net, tmp_path):
    net.save(tmp_path)
    net.whitening.damped(1).save(tmp_path / FILE)
    with pytest.raises(
        InputError, match=f"{FILE}: not the whitening that config.json names; copy the folder"
    ):
        load_model(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(InputError, match="no such whitening"):
        load_model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "whitening": "yes"}))
    with pytest.raises(InputError, match="whitening is 'yes', which is not valid"):
        load_model(tmp_path)


def test_the_weights_alone_have_the_digest(net):
    before = net.digest()
    net.whitening = None
    assert net.digest() == before


def test_a_network_that_is_trained_further_loses_it(net, tmp_path):
    net.save(tmp_path)
    assert build_net(TrainingOptions(model=str(tmp_path))).whitening is None


def test_described_and_whitened_at_once(net, street, tmp_path):
    plain = describe(net, street, device="cpu")
    white = describe(net, street, tmp_path / "white", whiten=True, device="cpu", batch_size=5)
    np.testing.assert_allclose(white.vectors, net.whitening(plain.vectors), atol=1e-6)
    assert (white.meta["dims"], white.meta["margin"]) == (5, None)
    assert white.meta["whitening"] == net.whitening.to_dict()
    assert "whitening" not in plain.meta
    again = describe(net, street, tmp_path / "white", whiten=True, device="cpu")  # opened, not described
    np.testing.assert_array_equal(again.vectors, Descriptors.open(tmp_path / "white").vectors)
    net.whitening = net.whitening.damped(1)
    with pytest.raises(InputError, match="made with another whitening"):
        describe(net, street, tmp_path / "white", whiten=True, device="cpu")
    with pytest.raises(InputError, match="made with another whitening"):
        describe(net, street, tmp_path / "white", device="cpu")
    describe(net, street, tmp_path / "plain", device="cpu")
    with pytest.raises(InputError, match="made with another whitening, margin"):
        describe(net, street, tmp_path / "plain", whiten=True, device="cpu")


def test_half_precision_is_of_the_whitened_descriptor(net, street):
    white = describe(net, street, whiten=True, dtype="float16", device="cpu").vectors
    exact = describe(net, street, whiten=True, device="cpu").vectors
    assert white.dtype == np.float16
    np.testing.assert_array_equal(white, exact.astype(np.float16))


def test_a_model_without_one_says_so(net, street):
    net.whitening = None
    with pytest.raises(InputError, match="`whiten`: this model has no whitening of its own"):
        describe(net, street, whiten=True, device="cpu")
    with pytest.raises(
        InputError, match="`whiten=model`: this model has no whitening of its own; `whiten=auto`"
    ):
        evaluate(net, map=street, within="150m", whiten="model")


def test_it_is_a_variant_of_an_evaluation(net, street, tmp_path):
    done = evaluate(
        net, map=street, within="150m", whiten="model,3:model,9:model", out=tmp_path, device="cpu"
    )
    names = [one.name for one in done.evaluation.variants]
    ours = "whitened with the model's whitening"
    assert names == [str(net.descriptor_size), f"5 {ours}", f"3 {ours}"]
    assert "not whitened with the model's whitening to 9 dims: it has 5" in done.notes
    again = Evaluation.load(tmp_path)
    assert again.variant(f"5 dims, {ours}").whitened_on == "towns"
    (told,) = again.settings["whitened with"]
    assert (told["digest"], told["fitted on"]) == (net.whitening.digest(), "towns")
    assert again.model["whitening"]["digest"] == net.whitening.digest()
    vectors = net.whitening(describe(net, street, device="cpu").vectors)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -2)
    np.testing.assert_array_equal(done.found[f"5 {ours}"][0].rows[:, 0], alike.argmax(axis=1))


def test_it_is_measured_where_nothing_is_asked_for(net, street):
    done = evaluate(net, map=street, within="150m", device="cpu")
    assert [one.dims for one in done.evaluation.variants] == [net.descriptor_size, 5]
    done = evaluate(net, map=street, within="150m", device="cpu", whiten=2)
    assert [one.name for one in done.evaluation.variants][1:] == ["2 whitened on the map"]


def test_by_the_command_line(net, street, samespot, tmp_path):
    net.save(tmp_path / "m")
    street.save(street.root / "places.csv")
    words = ("describe", tmp_path / "m", street.root / "places.csv", "--whiten", "--out", tmp_path / "d")
    code, out, err = samespot(*words)
    assert code == 0, err
    assert "as fitted on towns" in out
    assert Descriptors.open(tmp_path / "d").meta["whitening"]["digest"] == net.whitening.digest()
