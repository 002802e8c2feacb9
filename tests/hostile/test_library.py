"""The Python API with arguments that make no sense: an `InputError` of one line, never another error."""

import numpy as np
import pytest
import torch

import samespot
from samespot import InputError, Places, Whitening

FLOATS = np.ones((3, 4), np.float32)
CALLS = {
    "search for nothing": (
        lambda w: samespot.search(FLOATS, FLOATS, 0, device="cpu"),
        "k = 0: ask for at least 1 map image",
    ),
    "search for half": (
        lambda w: samespot.search(FLOATS, FLOATS, 1.5, device="cpu"),
        "k = 1.5 is not a whole number",
    ),
    "search in other dims": (
        lambda w: samespot.search(FLOATS, FLOATS[:, :3], 1, device="cpu"),
        "the queries have 4 dims, the map has 3; describe and whiten both in the",
    ),
    "search in one dimension": (
        lambda w: samespot.search(FLOATS[0], FLOATS, 1, device="cpu"),
        "the descriptors of the queries are float32 (4,); expected floats",
    ),
    "search for nan": (
        lambda w: samespot.search(FLOATS * np.nan, FLOATS, 1, device="cpu"),
        "the descriptor in query row 0 is not finite, or too long for float32;",
    ),
    "search in inf": (
        lambda w: samespot.search(FLOATS, FLOATS * np.inf, 1, device="cpu"),
        "the descriptor in map row 0 is not finite, or too long for float32;",
    ),
    "search by magic": (
        lambda w: samespot.search(FLOATS, FLOATS, 1, engine="magic", device="cpu"),
        "`engine` 'magic' is unknown; choose one of auto, numpy, torch",
    ),
    "search on a tpu": (
        lambda w: samespot.search(FLOATS, FLOATS, 1, device="tpu"),
        "`device` 'tpu' is unknown; choose auto, cpu or cuda",
    ),
    "whitening of words": (
        lambda w: Whitening.fit("descriptors", "x"),
        "descriptors are <U11 (); expected floats (images, dims)",
    ),
    "whitening of one": (
        lambda w: Whitening.fit(FLOATS[:1], "x"),
        "whitening needs 2 images or more, 1 of 1 have a descriptor",
    ),
    "whitening of equals": (
        lambda w: Whitening.fit(FLOATS, "x"),
        "all 3 descriptors are the same; there is nothing to whiten",
    ),
    "whitening of nan": (
        lambda w: Whitening.fit(FLOATS * np.nan, "x"),
        "the descriptor in row 0 is not finite; describe that image again",
    ),
    "whitening of whole numbers": (
        lambda w: Whitening.fit(FLOATS.astype(int), "x"),
        "descriptors are int64 (3, 4); expected floats (images, dims)",
    ),
    "whitening to 0 dims": (
        lambda w: Whitening.fit(np.eye(4), "x")(np.eye(4), 0),
        "whitening to 0 dims: give at least 1",
    ),
    "whitening to many dims": (
        lambda w: Whitening.fit(np.eye(4), "x")(np.eye(4), 9),
        "9 dims asked for, but the 4 images that it was fitted on span only 3; ask",
    ),
    "whitening of other dims": (
        lambda w: Whitening.fit(np.eye(4), "x")(np.eye(3), 2),
        "descriptors (3, 3) do not fit a whitening of 4 dims (fitted on x);",
    ),
    "a whitening that is not there": (
        lambda w: Whitening.load("absent.safetensors"),
        "no such whitening; check the path",
    ),
    "recall of nothing": (
        lambda w: samespot.recall_at_k(np.zeros((0, 1), int), []),
        "k is 5, but 1 images were retrieved per query; search for more or lower k",
    ),
    "recall beyond": (
        lambda w: samespot.recall_at_k([[1]], [[1]], ks=(5,)),
        "k is 5, but 1 images were retrieved per query; search for more or lower k",
    ),
    "recall at 0": (
        lambda w: samespot.recall_at_k([[1]], [[1]], ks=(0,)),
        "k is 0; give at least 1",
    ),
    "recall of floats": (
        lambda w: samespot.recall_at_k([[1.5]], [[1]], ks=(1,)),
        "retrieved are float64 values, not ids: whole numbers, or names",
    ),
    "recall of other lengths": (
        lambda w: samespot.recall_at_k([[1]], [[1], [2]], ks=(1,)),
        "2 lists of positives for 1 queries; give one per query",
    ),
    "recall of ragged lists": (
        lambda w: samespot.recall_at_k([[1, 2], [3]], [[1], [2]], ks=(1,)),
        "rows of different lengths; give a numpy array or a tensor of torch",
    ),
    "recall of names and numbers": (
        lambda w: samespot.recall_at_k([["a"]], [[1]], ks=(1,)),
        "retrieved and positives name images differently: one by numbers, the",
    ),
    "recall of negative ids": (
        lambda w: samespot.recall_at_k([[1]], [[-1]], ks=(1,)),
        "positives of query 0 contain a negative id; leave the list empty for",
    ),
    "recall without positives": (
        lambda w: samespot.recall_at_k([[1]], [[]], ks=(1,)),
        "none of the 1 queries has a positive, so no recall can be given",
    ),
    "recall of tensors on nothing": (
        lambda w: samespot.recall_at_k(torch.zeros(1, 1, device="meta"), [[1]]),
        "a tensor on meta; pass it as .cpu()",
    ),
    "overlap of an angle of 400": (
        lambda w: samespot.sector_overlap([0, 0, 0], [0, 0, 0], theta=400.0),
        "theta 400 is not in (0, 360] degrees",
    ),
    "overlap of no radius": (
        lambda w: samespot.sector_overlap([0, 0, 0], [0, 0, 0], radius=0.0),
        "radius 0 is not a positive number of metres",
    ),
    "overlap of two numbers": (
        lambda w: samespot.sector_overlap([0, 0], [0, 0]),
        "a has shape (2,); its last axis must be easting, northing, heading",
    ),
    "overlap by another measure": (
        lambda w: samespot.sector_overlap([0, 0, 0], [0, 0, 0], measure="dice"),
        "`measure` 'dice' is unknown; choose one of overlap, iou",
    ),
    "places that are not there": (
        lambda w: samespot.open_places("absent"),
        "no such file or folder; give a folder of photos, or a table of places: a .csv or .parquet with the columns",
    ),
    "places without columns": (
        lambda w: Places.build(".", {}),
        ".: missing columns image, easting, northing; it has ; needed: image,",
    ),
    "a model that is not there": (
        lambda w: samespot.load_model("absent"),
        "no such folder, and no network of that name; give a model or run",
    ),
    "a model of a number": (
        lambda w: samespot.load_model(7),
        "no such folder, and no network of that name; give a model or run",
    ),
    "a model of nothing": (
        lambda w: samespot.load_model(None),
        "no such folder, and no network of that name; give a model or run",
    ),
    "an unknown pool": (
        lambda w: samespot.PlaceNet("resnet18", "mean", pretrained=False),
        "pool 'mean' is not known; choose one of gap, gem, max, multi, netvlad64,",
    ),
    "an unknown backbone": (
        lambda w: samespot.PlaceNet("alexnet9000", pretrained=False),
        "backbone 'alexnet9000' is neither vgg16, resnet18, resnet34, resnet50,",
    ),
    "a network of gigapixels": (
        lambda w: samespot.PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(10**6, 10**6)),
        "image size 1000000x1000000 is beyond any network; photos are rarely",
    ),
    "too many blocks": (
        lambda w: samespot.PlaceNet("test_resnet.r160_in1k", pretrained=False, train_blocks=99),
        "train_blocks=99 does not fit test_resnet.r160_in1k, which has 5 stages",
    ),
    "evaluate by typo": (
        lambda w: samespot.evaluate(w.model, map=w.places, witin="25m"),
        "unknown option 'witin'; did you mean `within`?",
    ),
    "evaluate an unknown protocol": (
        lambda w: samespot.evaluate(w.model, "kitti"),
        "`protocol` 'kitti' is unknown; choose one of msls-val, msls-val-40deg,",
    ),
    "evaluate nothing": (
        lambda w: samespot.evaluate(w.model),
        "name a protocol (`samespot protocols` lists them), or give `map` and",
    ),
    "evaluate by a rule of words": (
        lambda w: samespot.evaluate(w.model, map=w.places, within="near"),
        "`within` 'near': 'near' is neither metres (25m) nor degrees (40deg)",
    ),
    "evaluate with a seed of words": (
        lambda w: samespot.evaluate(w.model, map=w.places, seed="x"),
        "`seed` 'x' is not a whole number",
    ),
    "compare nothing": (
        lambda w: samespot.compare([], []),
        "nothing to compare: give at least one evaluation of A and one of B",
    ),
    "compare with nothing": (
        lambda w: samespot.compare(w.evaluation, []),
        "nothing to compare: give at least one evaluation of A and one of B",
    ),
    "compare a number": (
        lambda w: samespot.compare(w.evaluation, 7),
        "7 is not an evaluation; give what `samespot evaluate` wrote, or what",
    ),
    "report nothing": (
        lambda w: samespot.report([], "r.html"),
        "name at least one run: a folder of `samespot train` or `samespot",
    ),
    "describe with a typo": (
        lambda w: samespot.describe(samespot.load_model(w.model), places_of(w), batchsize=3),
        "unknown option 'batchsize'; did you mean `batch_size`?",
    ),
    "split by colour": (
        lambda w: samespot.split_places(places_of(w), "colour"),
        "`by` 'colour' is unknown; choose one of area, sequence, time",
    ),
    "split all for training": (
        lambda w: samespot.split_places(places_of(w), train=1.0),
        "`train` 1 must be below 1",
    ),
    "label by nothing": (
        lambda w: samespot.label_pairs(places_of(w), places_of(w), theta=0.0),
        "`theta` 0 is not in (0, 360] degrees",
    ),
    "label within nothing": (
        lambda w: samespot.label_within(places_of(w), places_of(w), 0.0),
        "a distance of 0 m is not positive",
    ),
    "labels that are not there": (
        lambda w: samespot.PairLabels.open("absent"),
        "not a label folder (no meta.json); `samespot label` writes one",
    ),
    "a loss without a margin": (
        lambda w: samespot.GeneralizedContrastiveLoss(margin=0.0),
        "margin 0 is not positive; the paper's is 0.5",
    ),
    "whiten to None": (
        lambda w: samespot.evaluate(w.model, map=w.places, whiten=None),
        "`whiten` None is not a way to whiten; write ",
    ),
    "whiten to one and a half": (
        lambda w: samespot.evaluate(w.model, map=w.places, whiten=1.5),
        "`whiten` 1.5 is not a way to whiten; write ",
    ),
    "whiten to True": (
        lambda w: samespot.evaluate(w.model, map=w.places, whiten=[32, True]),
        "`whiten` True is not a way to whiten; write ",
    ),
    "train for True steps": (
        lambda w: samespot.train(w.places, w.labels, steps=True),
        "`steps` True is not a whole number",
    ),
    "train on 5": (
        lambda w: samespot.train(w.places, w.labels, batches=5),
        "`batches` '5': '5' is not understood; ",
    ),
    "train on a list": (
        lambda w: samespot.train(w.places, w.labels, batches=["A"]),
        "`batches` ['A'] is not a word",
    ),
    "train with a rate of True": (
        lambda w: samespot.train(w.places, w.labels, learning_rate=True),
        "`learning_rate` True is not a number",
    ),
    "train in no order": (
        lambda w: samespot.train(w.places, w.labels, batch_pairs=None),
        "`batch_pairs` cannot be None; leave it out to use the default",
    ),
    "train with a seed of 2**64": (
        lambda w: samespot.train(w.places, w.labels, seed=2**64),
        "`seed` 18446744073709551616 must be at most 4294967295",
    ),
    "train on places of 5": (
        lambda w: samespot.train(5, w.labels),
        "5 is not a path; give a table, a folder of photos or a data set",
    ),
    "evaluate a map of 5": (
        lambda w: samespot.evaluate(w.model, map=5),
        "5 is not a path; give a table, a folder of photos or a data set",
    ),
    "evaluate a part of open places": (
        lambda w: samespot.evaluate(w.model, map=places_of(w), map_part="london"),
        "`map_part` has no effect on places that are already open; give it to `open_places`",
    ),
    "report 5": (
        lambda w: samespot.report(5, "r.html"),
        "5 is not a run; give a folder, or what `train` or `evaluate` returned",
    ),
    "descriptors that are not there": (
        lambda w: samespot.Descriptors.open("absent"),
        "no descriptors here (meta.json is missing); give the folder that",
    ),
}


def places_of(world):
    return Places.read(world.places)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_makes_no_sense(world, here, name):
    call, said = CALLS[name]
    with pytest.raises(InputError) as error:
        call(world)
    assert "\n" not in str(error.value)
    assert said in str(error.value)
