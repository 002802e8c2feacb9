"""Evaluating, comparing, reporting: questions without an answer, and results that are broken or do not match."""

import json
import shutil

import numpy as np
import pytest

HEAD = "image,easting,northing,heading\n"
OPTIONS = {
    "nothing": ([], ""),
    "unknown protocol": (["msls-vall"], ""),
    "root that is not there": (["msls-val", "--root", "absent"], ""),
    "root without the data set": (["msls-val", "--root", "STREET"], ""),
    "root without a protocol": (["--map", "PLACES", "--root", "STREET"], ""),
    "protocol and map": (["campus-east", "--map", "PLACES"], ""),
    "protocol and rule": (["campus-east", "--within", "25m"], ""),
    "option of another protocol": (["campus-east", "--root", "STREET", "--subtask", "s2w"], ""),
    "option of a protocol without one": (["--map", "PLACES", "--scenes", "heads"], ""),
    "unknown subtask": (["msls-val", "--root", "HERE/MSLS", "--subtask", "x2y"], ""),
    "unknown task": (["msls-val", "--root", "HERE/MSLS", "--task", "im2vid"], ""),
    "even sequences": (["msls-val", "--root", "HERE/MSLS", "--task", "seq2seq", "--seq-length", "2"], ""),
    "unknown city": (["msls-val", "--root", "HERE/MSLS", "--cities", "atlantis"], ""),
    "two rules": (["--map", "PLACES", "--within", "25m", "--frames", "3"], ""),
    "within nothing": (["--map", "PLACES", "--within", "near"], ""),
    "negative frames": (["--map", "PLACES", "--frames", "-1"], ""),
    "frames without the column": (["--map", "PLACES", "--frames", "3"], ""),
    "overlap 0": (["--map", "PLACES", "--overlap", "0"], ""),
    "overlap 2": (["--map", "PLACES", "--overlap", "2"], ""),
    "theta 0": (["--map", "PLACES", "--theta", "0"], ""),
    "radius nan": (["--map", "PLACES", "--radius", "nan"], ""),
    "negative time gap": (["--map", "PLACES", "--time-gap", "-1"], ""),
    "infinite time gap": (["--map", "PLACES", "--time-gap", "inf"], ""),
    "time gap beyond all clocks": (["--map", "PLACES", "--time-gap", "1e300"], ""),
    "whiten to 0": (["--map", "PLACES", "--whiten", "0"], ""),
    "whiten to words": (["--map", "PLACES", "--whiten", "a,b"], ""),
    "whiten to nothing": (["--map", "PLACES", "--whiten", ""], ""),
    "whiten to more than there is": (["--map", "PLACES", "--whiten", "64"], ""),
    "whiten to more than any": (["--map", "PLACES", "--whiten", "100000"], ""),
    "whiten on the moon": (["--map", "PLACES", "--whiten", "2", "--whiten-on", "moon"], ""),
    "whiten on nothing": (["--map", "PLACES", "--whiten-on", "map"], ""),
    "whiten on training places that are not given": (
        ["--map", "PLACES", "--whiten", "2", "--whiten-on", "train"],
        "",
    ),
    "whiten with a table": (["--map", "PLACES", "--whiten-with", "PLACES"], ""),
    "whiten with nothing": (["--map", "PLACES", "--whiten-with", "absent"], ""),
    "whiten with a model": (["--map", "PLACES", "--whiten-with", "MODEL/model.safetensors"], ""),
    "split without training places": (["--map", "PLACES", "--train-split", "train"], ""),
    "training places that are not there": (["--map", "PLACES", "--train", "absent.csv"], ""),
    "a split that is not there": (["--map", "PLACES", "--train", "PLACES", "--train-split", "val"], ""),
    "precision 0": (["--map", "PLACES", "--accept-precision", "0"], ""),
    "precision in percent": (["--map", "PLACES", "--accept-precision", "95"], ""),
    "precision without acceptance": (["--map", "PLACES", "--no-acceptance", "--accept-precision", "0.9"], ""),
    "negative seed": (["--map", "PLACES", "--seed", "-1"], ""),
    "rerank by magic": (["--map", "PLACES", "--rerank", "magic"], ""),
    "rerank options without rerank": (["--map", "PLACES", "--rerank-top", "5"], ""),
    "rerank none": (["--map", "PLACES", "--rerank", "xfeat", "--rerank-top", "0"], ""),
    "rerank a size of 7": (["--map", "PLACES", "--rerank", "xfeat", "--rerank-size", "7x7"], ""),
    "rerank by patches of a CNN": (["--map", "PLACES", "--rerank", "patch-netvlad"], ""),
    "rerank patches of words": (
        ["--map", "PLACES", "--rerank", "patch-netvlad", "--rerank-patches", "a:b"],
        "",
    ),
    "negative gallery": (["--map", "PLACES", "--gallery", "-1"], ""),
    "device cuda": (["--map", "PLACES", "--device", "cuda"], ""),
    "map that is not there": (["--map", "absent.csv"], ""),
    "queries that are not there": (["--map", "PLACES", "--queries", "absent.csv"], ""),
    "queries alone": (["--queries", "PLACES"], ""),
    "out is a file": (["--map", "PLACES", "--out", "PLACES"], ""),
    "out under a file": (["--map", "PLACES", "--out", "PLACES/e"], ""),
    "json is a folder": (["--map", "PLACES", "--json", "STREET"], ""),
    "nothing to find": (["--map", "PLACES", "--within", "0.001m"], ""),
    "queries elsewhere": (["--map", "PLACES", "--queries", "HERE/far.csv"], ""),
    "one photo": (["--map", "HERE/one.csv"], ""),
    "no photo": (["--map", "HERE/none.csv"], ""),
    "map of another plane": (["--map", "HERE/utm.csv", "--queries", "HERE/other.csv"], ""),
    "typo": (["--map", "PLACES", "--witin", "25m"], ""),
}


def msls(folder):
    for side in ("query", "database"):
        part = folder / "train_val" / "cph" / side
        part.mkdir(parents=True)
        (part / "raw.csv").write_text("key,lon,lat,ca,captured_at,pano\na,12.5,55.6,10,2018-01-01,False\n")
        (part / "postprocessed.csv").write_text(
            "key,easting,northing,night,view_direction\na,342400,6164000,False,Forward\n"
        )
        (part / "seq_info.csv").write_text("key,sequence_key,frame_number\na,s,0\n")
        (part / "subtask_index.csv").write_text("all\nTrue\n")


@pytest.mark.parametrize("name", OPTIONS)
def test_questions_that_cannot_be_asked(refused, here, world, name):
    words, said = OPTIONS[name]
    msls(here / "MSLS")
    photo = world.street / "00.jpg"
    (here / "far.csv").write_text(HEAD + f"{photo},90000,90000,0\n")
    (here / "one.csv").write_text(HEAD + f"{photo},1,2,0\n")
    (here / "none.csv").write_text(HEAD)
    (here / "utm.csv").write_text(
        f"image,latitude,longitude\n{photo},48,11\n{world.street / '01.jpg'},48,11\n"
    )
    (here / "other.csv").write_text(f"image,latitude,longitude\n{photo},-48,-100\n")
    refused(["evaluate", "MODEL", *words, *(["--out", "e"] if "--out" not in words else [])], said)
    assert not (here / "e" / "evaluation.json").exists()


OTHERS = {
    "another model": (["evaluate", "OTHER_MODEL", "--map", "PLACES"], ""),
    "another rule": (["evaluate", "MODEL", "--map", "PLACES", "--within", "30m"], ""),
    "another view": (["evaluate", "MODEL", "--map", "PLACES", "--radius", "20"], ""),
    "another table": (["evaluate", "MODEL", "--map", "PLACES", "--queries", "HERE/some.csv"], ""),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_evaluation_of_something_else_is_not_replaced(refused, world, here, name):
    words, said = OTHERS[name]
    (here / "some.csv").write_text(HEAD + f"{world.street / '00.jpg'},0,0,90\n")
    before = (world.evaluation / "evaluation.json").read_bytes()
    refused([*words, "--out", "EVALUATION"], said)
    assert (world.evaluation / "evaluation.json").read_bytes() == before


def test_the_same_once_more_is_fine_and_a_promise_is_not_made_lightly(done, world, here):
    shutil.copytree(world.evaluation, here / "e")
    words = ["evaluate", "MODEL", "--map", "PLACES", "--out", "e", "--gallery", "0", "--within", "25m"]
    done(words, "to be right 95 % of the time, no threshold")


# ---- broken results ----


def edited(change):
    def rewrite(folder):
        content = json.loads((folder / "evaluation.json").read_text())
        change(content)
        (folder / "evaluation.json").write_text(json.dumps(content))

    return rewrite


def set_(key, value):
    return edited(lambda content: content.__setitem__(key, value))


def without(key):
    return edited(lambda content: content.pop(key))


RESULTS = {
    "empty": (lambda f: (f / "evaluation.json").write_text(""), ""),
    "no json": (lambda f: (f / "evaluation.json").write_text("{"), ""),
    "binary": (lambda f: (f / "evaluation.json").write_bytes(b"\xff\xfe\0\1"), ""),
    "a list": (lambda f: (f / "evaluation.json").write_text("[]"), ""),
    "a number": (lambda f: (f / "evaluation.json").write_text("7"), ""),
    "another json": (lambda f: (f / "evaluation.json").write_text('{"type": "FeatureCollection"}'), ""),
    "another format": (set_("format", 99), ""),
    "format of words": (set_("format", "two"), ""),
    "no queries": (without("queries"), ""),
    "no variants": (without("variants"), ""),
    "no descriptor": (set_("variants", []), ""),
    "variants of numbers": (set_("variants", [7]), ""),
    "queries of a list": (set_("queries", []), ""),
    "protocol of a number": (set_("protocol", 7), ""),
    "model of nothing": (set_("model", None), ""),
    "fewer outcomes than queries": (
        edited(lambda c: c["variants"][0]["per_query"].__setitem__("first_hit", [1])),
        "",
    ),
    "a folder": (lambda f: ((f / "evaluation.json").unlink(), (f / "evaluation.json").mkdir()), ""),
    "nothing there": (lambda f: (f / "evaluation.json").unlink(), ""),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_broken_result_cannot_be_compared(refused, world, here, name):
    change, said = RESULTS[name]
    shutil.copytree(world.evaluation, here / "e")
    change(here / "e")
    refused(["compare", "EVALUATION", "e"], "e", said)


@pytest.mark.parametrize("name", RESULTS)
def test_a_broken_result_cannot_be_reported(refused, world, here, name):
    change, _said = RESULTS[name]
    shutil.copytree(world.evaluation, here / "e", ignore=shutil.ignore_patterns("descriptors"))
    change(here / "e")
    refused(["report", "e", "--out", "r.html"], "e")
    assert not (here / "r.html").exists()


def matches(content):
    return lambda f: (f / "matches.safetensors").write_bytes(content)


def other_shape(folder):
    from safetensors.numpy import save

    digest = json.loads((folder / "evaluation.json").read_text())["matches"]
    arrays = {"0.rows": np.zeros((1, 1), np.int32), "0.distances": np.zeros((1, 1), np.float32)}
    (folder / "matches.safetensors").write_bytes(save(arrays, {"digest": digest}))


def descriptors(change):
    return lambda f: [change(one) for one in (f / "descriptors").iterdir()]


MATCHES = {
    "gone": lambda f: (f / "matches.safetensors").unlink(),
    "empty": matches(b""),
    "text": matches(b"hello"),
    "cut off": lambda f: (f / "matches.safetensors").write_bytes(
        (f / "matches.safetensors").read_bytes()[:-40]
    ),
    "of another shape": other_shape,
    "a folder": lambda f: ((f / "matches.safetensors").unlink(), (f / "matches.safetensors").mkdir()),
    "descriptors gone": lambda f: shutil.rmtree(f / "descriptors"),
    "descriptors without a table": descriptors(lambda d: (d / "places.parquet").unlink()),
    "calibration of words": lambda f: (
        (f / "calibration").mkdir(),
        (f / "calibration" / "96.json").write_text("{}"),
    ),
}


@pytest.mark.parametrize("name", MATCHES)
def test_a_result_without_its_matches_is_still_reported(samespot, world, here, name):
    """Whatever is not there, or is of something else, is left out of the page; what is broken is one line."""
    shutil.copytree(world.evaluation, here / "e")
    MATCHES[name](here / "e")
    code, _out, err = samespot("report", here / "e", "--out", here / "r.html")
    print(code, err)
    assert "Traceback" not in err
    assert code in (0, 2)
    assert (here / "r.html").is_file() == (code == 0)
    assert len([line for line in err.splitlines() if line.startswith("samespot: ")]) == (code == 2)


DESCRIBED = {
    "vectors cut off": (descriptors(lambda d: (d / "descriptors.npy").write_bytes(b"\x93NUMPY")), ""),
    "meta no json": (descriptors(lambda d: (d / "meta.json").write_text("{")), ""),
    "table of words": (descriptors(lambda d: (d / "places.parquet").write_text("a,b")), ""),
    "config no json": (lambda f: (f / "config.json").write_text("{"), ""),
    "batches no json": (lambda f: (f / "batches.json").write_text("{"), ""),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_report_of_broken_files(refused, world, here, name):
    change, said = DESCRIBED[name]
    shutil.copytree(world.evaluation, here / "e")
    change(here / "e")
    refused(["report", "e", "--out", "r.html"], "e", said)


WORDS = {
    "compare nothing": (["compare"], ""),
    "compare one": (["compare", "EVALUATION"], ""),
    "compare three": (["compare", "EVALUATION", "EVALUATION", "EVALUATION"], ""),
    "compare an absent folder": (["compare", "EVALUATION", "absent"], ""),
    "compare a table": (["compare", "EVALUATION", "PLACES"], ""),
    "compare a model": (["compare", "MODEL", "EVALUATION"], ""),
    "compare a folder of photos": (["compare", "EVALUATION", "STREET"], ""),
    "compare seeds of other numbers": (
        ["compare", "EVALUATION,EVALUATION", "EVALUATION,EVALUATION,EVALUATION"],
        "",
    ),
    "compare an unknown descriptor": (["compare", "EVALUATION", "EVALUATION", "--descriptor", "7"], ""),
    "compare with a negative seed": (["compare", "EVALUATION", "EVALUATION", "--seed", "-1"], ""),
    "compare other queries": (["compare", "EVALUATION", "HERE/queries"], ""),
    "compare another protocol": (["compare", "EVALUATION", "HERE/protocol"], ""),
    "compare another map": (["compare", "EVALUATION", "HERE/map"], ""),
    "compare another truth": (["compare", "EVALUATION", "HERE/truth"], ""),
    "compare a folder of several recipes": (["compare", "HERE", "EVALUATION"], ""),
    "report nothing": (["report"], ""),
    "report an absent folder": (["report", "absent"], ""),
    "report a table": (["report", "PLACES"], ""),
    "report photos": (["report", "STREET"], ""),
    "report a model": (["report", "MODEL"], ""),
    "report into a folder": (["report", "EVALUATION", "--out", "STREET"], ""),
    "report under a file": (["report", "EVALUATION", "--out", "PLACES/r.html"], ""),
    "report where nobody writes": (["report", "EVALUATION", "--out", "/proc/r.html"], ""),
    "unknown protocol": (["protocols", "kitti"], ""),
    "protocols of a table": (["protocols", "PLACES", "PLACES"], ""),
}


def altered(world, folder, change):
    shutil.copytree(world.evaluation, folder, ignore=shutil.ignore_patterns("descriptors", "*.png"))
    edited(change)(folder)


@pytest.mark.parametrize("name", WORDS)
def test_what_cannot_be_compared_or_reported(refused, world, here, name):
    words, said = WORDS[name]
    if "HERE" in " ".join(words):
        altered(world, here / "queries", lambda c: c["queries"]["name"].__setitem__(0, "other.jpg"))
        altered(world, here / "protocol", lambda c: c["protocol"].update(positive="within 5 m"))
        altered(world, here / "map", lambda c: c["cases"][0].update({"map images": 99}))
        altered(world, here / "truth", lambda c: c["queries"]["counted"].__setitem__(0, False))
    evaluation = str(world.evaluation)
    refused([word.replace("EVALUATION", evaluation) for word in words], said)


def test_a_folder_of_runs_is_compared_seed_by_seed(done, world, here):
    for side in ("a", "b"):
        for seed in (0, 1, 2):
            altered(
                world,
                here / side / f"run{seed}",
                lambda c, seed=seed: c["model"].update(training={"options": {"seed": seed, "loss": "gcl"}}),
            )
    told = done(["compare", "HERE/a", "HERE/b"], "and 2 more")
    if told:
        assert told["runs"] == [3, 3]
    done(["report", "HERE/a", "--out", "r.html"], "wrote r.html")
    assert all(f"run{seed}" in (here / "r.html").read_text() for seed in range(3))
