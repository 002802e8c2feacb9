"""The Python API with arguments that make no sense: an `InputError` of one line, never another error."""

import numpy as np
import pytest
import torch

import samespot
from samespot import InputError, Places, Whitening

FLOATS = np.ones((3, 4), np.float32)
CALLS = {
    "search for nothing": (lambda w: samespot.search(FLOATS, FLOATS, 0, device="cpu"), ""),
    "search for half": (lambda w: samespot.search(FLOATS, FLOATS, 1.5, device="cpu"), ""),
    "search in other dims": (lambda w: samespot.search(FLOATS, FLOATS[:, :3], 1, device="cpu"), ""),
    "search in one dimension": (lambda w: samespot.search(FLOATS[0], FLOATS, 1, device="cpu"), ""),
    "search for nan": (lambda w: samespot.search(FLOATS * np.nan, FLOATS, 1, device="cpu"), ""),
    "search in inf": (lambda w: samespot.search(FLOATS, FLOATS * np.inf, 1, device="cpu"), ""),
    "search by magic": (lambda w: samespot.search(FLOATS, FLOATS, 1, engine="magic", device="cpu"), ""),
    "search on a tpu": (lambda w: samespot.search(FLOATS, FLOATS, 1, device="tpu"), ""),
    "search with faiss and exclusions": (
        lambda w: samespot.search(
            FLOATS, FLOATS, 1, engine="faiss", device="cpu", excluded=lambda q, p: None
        ),
        "",
    ),
    "whitening of words": (lambda w: Whitening.fit("descriptors", "x"), ""),
    "whitening of one": (lambda w: Whitening.fit(FLOATS[:1], "x"), ""),
    "whitening of equals": (lambda w: Whitening.fit(FLOATS, "x"), ""),
    "whitening of nan": (lambda w: Whitening.fit(FLOATS * np.nan, "x"), ""),
    "whitening of whole numbers": (lambda w: Whitening.fit(FLOATS.astype(int), "x"), ""),
    "whitening to 0 dims": (lambda w: Whitening.fit(np.eye(4), "x")(np.eye(4), 0), ""),
    "whitening to many dims": (lambda w: Whitening.fit(np.eye(4), "x")(np.eye(4), 9), ""),
    "whitening of other dims": (lambda w: Whitening.fit(np.eye(4), "x")(np.eye(3), 2), ""),
    "a whitening that is not there": (lambda w: Whitening.load("absent.safetensors"), ""),
    "recall of nothing": (lambda w: samespot.recall_at_k(np.zeros((0, 1), int), []), ""),
    "recall beyond": (lambda w: samespot.recall_at_k([[1]], [[1]], ks=(5,)), ""),
    "recall at 0": (lambda w: samespot.recall_at_k([[1]], [[1]], ks=(0,)), ""),
    "recall of floats": (lambda w: samespot.recall_at_k([[1.5]], [[1]], ks=(1,)), ""),
    "recall of other lengths": (lambda w: samespot.recall_at_k([[1]], [[1], [2]], ks=(1,)), ""),
    "recall of ragged lists": (lambda w: samespot.recall_at_k([[1, 2], [3]], [[1], [2]], ks=(1,)), ""),
    "recall of names and numbers": (lambda w: samespot.recall_at_k([["a"]], [[1]], ks=(1,)), ""),
    "recall of negative ids": (lambda w: samespot.recall_at_k([[1]], [[-1]], ks=(1,)), ""),
    "recall without positives": (lambda w: samespot.recall_at_k([[1]], [[]], ks=(1,)), ""),
    "recall of tensors on nothing": (
        lambda w: samespot.recall_at_k(torch.zeros(1, 1, device="meta"), [[1]]),
        "",
    ),
    "overlap of an angle of 400": (lambda w: samespot.sector_overlap([0, 0, 0], [0, 0, 0], theta=400.0), ""),
    "overlap of no radius": (lambda w: samespot.sector_overlap([0, 0, 0], [0, 0, 0], radius=0.0), ""),
    "overlap of two numbers": (lambda w: samespot.sector_overlap([0, 0], [0, 0]), ""),
    "overlap by another measure": (
        lambda w: samespot.sector_overlap([0, 0, 0], [0, 0, 0], measure="dice"),
        "",
    ),
    "places that are not there": (lambda w: samespot.open_places("absent"), ""),
    "places without columns": (lambda w: Places.build(".", {}), ""),
    "a model that is not there": (lambda w: samespot.load_model("absent"), ""),
    "a model of a number": (lambda w: samespot.load_model(7), ""),
    "a model of nothing": (lambda w: samespot.load_model(None), ""),
    "an unknown pool": (lambda w: samespot.PlaceNet("resnet18", "mean", pretrained=False), ""),
    "an unknown backbone": (lambda w: samespot.PlaceNet("alexnet9000", pretrained=False), ""),
    "a network of gigapixels": (
        lambda w: samespot.PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(10**6, 10**6)),
        "",
    ),
    "too many blocks": (
        lambda w: samespot.PlaceNet("test_resnet.r160_in1k", pretrained=False, train_blocks=99),
        "",
    ),
    "evaluate by typo": (lambda w: samespot.evaluate(w.model, map=w.places, witin="25m"), ""),
    "evaluate an unknown protocol": (lambda w: samespot.evaluate(w.model, "kitti"), ""),
    "evaluate nothing": (lambda w: samespot.evaluate(w.model), ""),
    "evaluate by a rule of words": (lambda w: samespot.evaluate(w.model, map=w.places, within="near"), ""),
    "evaluate with a seed of words": (lambda w: samespot.evaluate(w.model, map=w.places, seed="x"), ""),
    "compare nothing": (lambda w: samespot.compare([], []), ""),
    "compare with nothing": (lambda w: samespot.compare(w.evaluation, []), ""),
    "compare a number": (lambda w: samespot.compare(w.evaluation, 7), ""),
    "report nothing": (lambda w: samespot.report([], "r.html"), ""),
    "describe with a typo": (
        lambda w: samespot.describe(samespot.load_model(w.model), places_of(w), batchsize=3),
        "",
    ),
    "split by colour": (lambda w: samespot.split_places(places_of(w), "colour"), ""),
    "split all for training": (lambda w: samespot.split_places(places_of(w), train=1.0), ""),
    "label by nothing": (lambda w: samespot.label_pairs(places_of(w), places_of(w), theta=0.0), ""),
    "label within nothing": (lambda w: samespot.label_within(places_of(w), places_of(w), 0.0), ""),
    "labels that are not there": (lambda w: samespot.PairLabels.open("absent"), ""),
    "a loss without a margin": (lambda w: samespot.GeneralizedContrastiveLoss(margin=0.0), ""),
    "descriptors that are not there": (lambda w: samespot.Descriptors.open("absent"), ""),
}


def places_of(world):
    return Places.read(world.places)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_makes_no_sense(world, here, name, request):
    import os

    call, said = CALLS[name]
    if os.environ.get("SHOW"):
        try:
            call(world)
            r = "NOTHING"
        except InputError as e:
            r = "samespot: " + str(e)
        with open(os.environ["SHOW"], "a") as f:
            f.write(f"{request.node.name} | 2 | {r!r}\n")
        return
    with pytest.raises(InputError) as error:
        call(world)
    assert "\n" not in str(error.value)
    assert said in str(error.value)
