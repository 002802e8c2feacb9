"""The command line as a whole, the town and the demo, and training as far as it can be refused before it begins."""

import json

import pytest

GLOBAL = {
    "unknown command": (["lable", "PLACES"], ""),
    "unknown option": (["--colour"], ""),
    "typo of an option": (["places", "PLACES", "--projecton", "EPSG:32632"], ""),
    "typo of another": (["evaluate", "MODEL", "--map", "PLACES", "--withn", "25m"], ""),
    "typo in training": (["train", "PLACES", "--bakbone", "vgg16"], ""),
    "no value": (["places", "PLACES", "--part"], ""),
    "value for a switch": (["places", "PLACES", "--wrap-headings=yes"], ""),
    "no argument": (["describe"], ""),
    "one argument": (["describe", "MODEL"], ""),
    "command in capitals": (["PLACES", "x"], ""),
    "empty word": (["places", ""], ""),
    "json is a folder": (["models", "--json", "STREET"], ""),
    "json under a file": (["models", "--json", "PLACES/x.json"], ""),
    "json where nobody writes": (["protocols", "--json", "/proc/x.json"], ""),
    "json without a name": (["protocols", "--json"], ""),
}


@pytest.mark.parametrize("name", GLOBAL)
def test_words_that_mean_nothing(refused, name):
    words, said = GLOBAL[name]
    refused(words, said)


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["-h"], ["--version"], ["places", "--help"], ["train", "-h"]]
)
def test_help_and_version_are_answered(samespot, words):
    code, out, err = samespot(*words)
    assert (code, err) == (0, "")
    assert out


def test_a_name_that_looks_like_an_option_is_read_after_two_dashes(refused, here):
    refused(["places", "--", "-x.csv"], "-x.csv: no such file")


def test_control_codes_in_a_name_do_not_reach_the_terminal(refused, here):
    line = refused(["places", "\x1b[31mred\x07.csv"], "no such file")
    if line:
        assert "\x1b" not in line


TOWN = {
    "no visits": (["town", "--visits", "0"], ""),
    "many visits": (["town", "--visits", "100000"], ""),
    "negative seed": (["town", "--seed", "-1"], ""),
    "huge seed": (["town", "--seed", str(10**400), "--visits", "0"], ""),
    "seed of words": (["town", "--seed", "x"], ""),
    "one photo": (["town", "--photos-per-visit", "1"], ""),
    "no photos": (["town", "--photos-per-visit", "0"], ""),
    "tiny photos": (["town", "--size", "4x4"], ""),
    "huge photos": (["town", "--size", "100000x100000"], ""),
    "size of words": (["town", "--size", "large"], ""),
    "size of three": (["town", "--size", "1x2x3"], ""),
    "negative size": (["town", "--size", "-5x5"], ""),
    "out is a file": (["town", "--out", "PLACES"], ""),
    "out under a file": (["town", "--out", "PLACES/t"], ""),
    "demo without visits": (["demo", "--visits", "0"], ""),
    "demo with one visit": (["demo", "--visits", "1", "--photos-per-visit", "8"], ""),
    "demo without steps": (["demo", "--steps", "0"], ""),
    "demo with a negative seed": (["demo", "--seed", "-7"], ""),
    "demo into a file": (["demo", "--out", "PLACES"], ""),
    "demo with a typo": (["demo", "--step", "3"], ""),
}


@pytest.mark.parametrize("name", TOWN)
def test_towns_that_cannot_be_built(refused, name):
    words, said = TOWN[name]
    refused(words, said)


def test_a_town_is_not_built_over_something_else(samespot, here):
    """Photos of one's own stay as they are."""
    (here / "t" / "photos").mkdir(parents=True)
    (here / "t" / "places.csv").write_text("image,easting,northing\na.jpg,1,2\n")
    code, _, err = samespot(
        "town", "--out", here / "t", "--visits", "1", "--photos-per-visit", "8", "--size", "16"
    )
    print(code, err)
    assert (here / "t" / "places.csv").read_text().startswith("image,easting,northing\na.jpg")


TRAINING = {
    "no labels": (["PLACES"], ""),
    "labels that are not there": (["PLACES", "--labels", "absent"], ""),
    "labels of a table": (["PLACES", "--labels", "PLACES"], ""),
    "labels of other places": (["HERE/some.csv", "--labels", "LABELS"], ""),
    "places that are not there": (["absent.csv", "--labels", "LABELS"], ""),
    "unknown loss": (["PLACES", "--labels", "LABELS", "--loss", "hinge"], ""),
    "unknown batches": (["PLACES", "--labels", "LABELS", "--batches", "Z"], ""),
    "negative rate": (["PLACES", "--labels", "LABELS", "--learning-rate", "-1"], ""),
    "rate nan": (["PLACES", "--labels", "LABELS", "--learning-rate", "nan"], ""),
    "no steps": (["PLACES", "--labels", "LABELS", "--steps", "0"], ""),
    "size of gigapixels": (
        ["PLACES", "--labels", "LABELS", "--image-size", "100000x100000", "--pretrained", "no"],
        "",
    ),
    "augmented too much": (["PLACES", "--labels", "LABELS", "--augment", "5"], ""),
    "model that is not there": (["PLACES", "--labels", "LABELS", "--model", "absent"], ""),
    "run is a file": (["PLACES", "--labels", "LABELS", "--run", "PLACES"], ""),
    "run is something else": (["PLACES", "--labels", "LABELS", "--run", "STREET"], ""),
    "unknown preset": (["PLACES", "--preset", "kitti"], ""),
    "validation without a map": (["PLACES", "--labels", "LABELS", "--validate", "PLACES"], ""),
    "device cuda": (["PLACES", "--labels", "LABELS", "--device", "cuda"], ""),
}


@pytest.mark.parametrize("name", TRAINING)
def test_trainings_that_cannot_begin(refused, here, name):
    words, said = TRAINING[name]
    (here / "some.csv").write_text("image,easting,northing,heading\na.jpg,1,2,3\nb.jpg,1,2,3\n")
    refused(["train", *words, *(["--run", "r"] if "--run" not in words else [])], said)


@pytest.mark.parametrize(
    "words", [["models", "resnet18"], ["protocols", "msls-val"], ["datasets", "--layout", "msls"]]
)
def test_json_on_standard_output_is_all_that_is_there(samespot, words):
    code, out, err = samespot(*words, "--json", "-")
    assert code == 0, err
    assert json.loads(out)
