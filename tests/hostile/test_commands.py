"""The command line as a whole, the town and the demo, and training as far as it can be refused before it begins."""

import json

import pytest

from samespot.cli import console

GLOBAL = {
    "unknown command": (
        ["lable", "PLACES"],
        "No such command 'lable'. Did you mean 'label'? (see samespot --help)",
    ),
    "unknown option": (["--colour"], "No such option: --colour (see samespot --help)"),
    "typo of an option": (
        ["places", "PLACES", "--projecton", "EPSG:32632"],
        "No such option: --projecton (Possible options: --projection)",
    ),
    "typo of another": (
        ["evaluate", "MODEL", "--map", "PLACES", "--withn", "25m"],
        "No such option: --withn (Possible options: --whiten, --whiten-on,",
    ),
    "typo in training": (
        ["train", "PLACES", "--bakbone", "vgg16"],
        "No such option: --bakbone (Possible options: --backbone)",
    ),
    "no value": (
        ["places", "PLACES", "--part"],
        "Option '--part' requires an argument. (see samespot places --help)",
    ),
    "value for a switch": (
        ["places", "PLACES", "--wrap-headings=yes"],
        "Option '--wrap-headings' does not take a value. (see samespot places --help)",
    ),
    "no argument": (["describe"], "Missing argument"),
    "one argument": (["describe", "MODEL"], "Missing argument"),
    "command in capitals": (["PLACES", "x"], "(see samespot --help)"),
    "empty word": (["places", ""], "Invalid value for 'SOURCE': an empty name; give a file or folder"),
    "json is a folder": (["models", "--json", "STREET"], "is a folder; give the name of a file"),
    "json under a file": (["models", "--json", "PLACES/x.json"], "is a file)"),
    "json where nobody writes": (
        ["protocols", "--json", "/proc/x.json"],
        "--json /proc/x.json: cannot be written (No such file or directory)",
    ),
    "json without a name": (
        ["protocols", "--json"],
        "Option '--json' requires an argument. (see samespot protocols --help)",
    ),
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
    "no visits": (["town", "--visits", "0"], "--visits 0 must be at least 1"),
    "many visits": (
        ["town", "--visits", "100000"],
        "100000 visits: give 2 to 64, so that there is a map and something to",
    ),
    "negative seed": (["town", "--seed", "-1"], "--seed -1 must be at least 0"),
    "huge seed": (["town", "--seed", str(10**400)], "--seed 100000000000… must be at most 4294967295"),
    "seed of words": (["town", "--seed", "x"], "Invalid value for '--seed'"),
    "one photo": (["town", "--photos-per-visit", "1"], "1 photos per visit: give at least 8"),
    "no photos": (["town", "--photos-per-visit", "0"], "--photos-per-visit 0 must be at least 1"),
    "tiny photos": (["town", "--size", "4x4"], "size 4 x 4: give 16 to 4096 px each"),
    "huge photos": (["town", "--size", "100000x100000"], "size 100000 x 100000: give 16 to 4096 px each"),
    "size of words": (
        ["town", "--size", "large"],
        "--size 'large' is not understood: Height and width of a photo [pixels].",
    ),
    "size of three": (
        ["town", "--size", "1x2x3"],
        "--size '1x2x3' is not understood: Height and width of a photo [pixels].",
    ),
    "negative size": (
        ["town", "--size", "-5x5"],
        "--size '-5x5' is not understood: Height and width of a photo [pixels].",
    ),
    "out is a file": (["town", "--out", "PLACES"], "is a file; give the name of a folder"),
    "out under a file": (["town", "--out", "PLACES/t"], "is a file)"),
    "demo without visits": (["demo", "--visits", "0"], "--visits 0 must be at least 1"),
    "demo with one visit": (
        ["demo", "--visits", "1", "--photos-per-visit", "8"],
        "1 visits: give 2 to 64, so that there is a map and something to find in",
    ),
    "demo without steps": (["demo", "--steps", "0"], "--steps 0 must be at least 1"),
    "demo with a negative seed": (["demo", "--seed", "-7"], "--seed -7 must be at least 0"),
    "demo into a file": (["demo", "--out", "PLACES"], "is a file; give the name of a folder"),
    "demo with a typo": (
        ["demo", "--step", "3"],
        "No such option: --step (Possible options: --help, --seed, --steps)",
    ),
}


@pytest.mark.parametrize("name", TOWN)
def test_towns_that_cannot_be_built(refused, name):
    words, said = TOWN[name]
    refused(words, said)


def test_a_town_is_not_built_over_something_else(refused, here):
    """Photos of one's own stay as they are."""
    (here / "t").mkdir()
    (here / "t" / "places.csv").write_text("image,easting,northing\na.jpg,1,2\n")
    refused(["town", "--out", "t"], "t: exists and is not a town; choose another folder")
    assert (here / "t" / "places.csv").read_text().startswith("image,easting,northing\na.jpg")


TRAINING = {
    "no labels": (["PLACES"], "--labels is missing: the folder that `samespot label` wrote for these"),
    "labels that are not there": (
        ["PLACES", "--labels", "absent"],
        "not a label folder (no meta.json); `samespot label` writes one",
    ),
    "labels of a table": (
        ["PLACES", "--labels", "PLACES"],
        "not a label folder (no meta.json); `samespot label` writes one",
    ),
    "labels of other places": (
        ["HERE/some.csv", "--labels", "LABELS"],
        "the labels are for 12 queries, the table has 2; label it again",
    ),
    "places that are not there": (
        ["absent.csv", "--labels", "LABELS"],
        "no such file; a table of places is a .csv or .parquet with the columns",
    ),
    "unknown loss": (
        ["PLACES", "--labels", "LABELS", "--loss", "hinge"],
        "--loss 'hinge' is unknown; choose one of contrastive, ap, graded-multi-similarity,",
    ),
    "unknown batches": (
        ["PLACES", "--labels", "LABELS", "--batches", "Z"],
        "--batches 'Z': 'Z' is not understood; choose A, B, C, D, binary, all,",
    ),
    "negative rate": (
        ["PLACES", "--labels", "LABELS", "--learning-rate", "-1"],
        "--learning-rate -1 must be above 0",
    ),
    "rate nan": (
        ["PLACES", "--labels", "LABELS", "--learning-rate", "nan"],
        "--learning-rate nan is not a finite number",
    ),
    "no steps": (["PLACES", "--labels", "LABELS", "--steps", "0"], "--steps 0 must be at least 1"),
    "size of gigapixels": (
        ["PLACES", "--labels", "LABELS", "--image-size", "100000x100000", "--pretrained", "no"],
        "image size 100000x100000 is beyond any network; photos are rarely above",
    ),
    "augmented too much": (
        ["PLACES", "--labels", "LABELS", "--augment", "5"],
        "--augment 5 must be at most 1",
    ),
    "model that is not there": (
        ["PLACES", "--labels", "LABELS", "--model", "absent"],
        "no such folder, and no network of that name; give a model or run",
    ),
    "run is a file": (
        ["PLACES", "--labels", "LABELS", "--run", "PLACES"],
        "is a file; give the name of a folder",
    ),
    "run is something else": (
        ["PLACES", "--labels", "LABELS", "--run", "STREET"],
        "exists and is not a run folder",
    ),
    "unknown preset": (
        ["PLACES", "--preset", "kitti"],
        "--preset 'kitti' is unknown; choose one of msls, tb-places, 7scenes,",
    ),
    "validation without a map": (
        ["PLACES", "--labels", "LABELS", "--validate", "PLACES"],
        "--validate needs --validate-map, the images to find its queries in",
    ),
    "device cuda": (
        ["PLACES", "--labels", "LABELS", "--device", "cuda"],
        "--device cuda: torch sees no GPU; check the driver with nvidia-smi, or",
    ),
}


@pytest.mark.parametrize("name", TRAINING)
def test_trainings_that_cannot_begin(refused, here, name):
    words, said = TRAINING[name]
    (here / "some.csv").write_text("image,easting,northing,heading\na.jpg,1,2,3\nb.jpg,1,2,3\n")
    refused(["train", *words, *(["--run", "r"] if "--run" not in words else [])], said, chatty=True)
    assert not list(here.glob("r/*/model.safetensors"))


@pytest.mark.parametrize(
    "words", [["models", "resnet18"], ["protocols", "msls-val"], ["datasets", "--layout", "msls"]]
)
def test_json_on_standard_output_is_all_that_is_there(samespot, words, monkeypatch):
    monkeypatch.setattr(console.out, "_file", None)  # tables for people go elsewhere from then on
    code, out, err = samespot(*words, "--json", "-")
    assert code == 0, err
    assert json.loads(out)
