"""Evaluating, comparing, reporting: questions without an answer, results that are broken or of something else."""

import json
import shutil

import numpy as np
import pytest

from samespot.statistics.acceptance import promise_in_words

HEAD = "image,easting,northing,heading\n"
OPTIONS = {
    "nothing": ([], "name a protocol (`samespot protocols` lists them), or give --map and"),
    "unknown protocol": (["msls-vall"], "PROTOCOL 'msls-vall' is unknown; choose one of msls-val,"),
    "root that is not there": (
        ["msls-val", "--root", "absent"],
        "--root absent: no such folder; give the folder of the data set, or one",
    ),
    "root without the data set": (
        ["msls-val", "--root", "STREET"],
        "msls-val needs msls, which is not there nor directly below; `samespot",
    ),
    "root without a protocol": (
        ["--map", "PLACES", "--root", "STREET"],
        "--root has no effect without a protocol",
    ),
    "protocol and map": (
        ["campus-east", "--map", "PLACES"],
        "--map has no effect with the protocol campus-east, which has its own",
    ),
    "protocol and rule": (
        ["campus-east", "--within", "25m"],
        "--within has no effect with the protocol campus-east, which has its own",
    ),
    "option of another protocol": (
        ["campus-east", "--root", "STREET", "--subtask", "s2w"],
        "protocol campus-east has no option 'subtask'; it has: none",
    ),
    "option of a protocol without one": (
        ["--map", "PLACES", "--scenes", "heads"],
        "--scenes has no effect without a protocol",
    ),
    "unknown subtask": (
        ["msls-val", "--root", "HERE/MSLS", "--subtask", "x2y"],
        "--subtask 'x2y' is unknown; choose one of all, s2w, w2s, o2n, n2o, d2n,",
    ),
    "unknown task": (
        ["msls-val", "--root", "HERE/MSLS", "--task", "im2vid"],
        "--task 'im2vid' is unknown; choose one of im2im, im2seq, seq2im, seq2seq",
    ),
    "even sequences": (
        ["msls-val", "--root", "HERE/MSLS", "--task", "seq2seq", "--seq-length", "2"],
        "seq_length 2: give an odd number, so that a sequence has a middle frame",
    ),
    "unknown city": (
        ["msls-val", "--root", "HERE/MSLS", "--cities", "atlantis"],
        "'atlantis' is not a city of MSLS; they are amman, amsterdam, athens,",
    ),
    "two rules": (
        ["--map", "PLACES", "--within", "25m", "--frames", "3"],
        "give one of --within, --frames and --overlap: which matches are right",
    ),
    "within nothing": (
        ["--map", "PLACES", "--within", "near"],
        "--within 'near': 'near' is neither metres (25m) nor degrees (40deg)",
    ),
    "negative frames": (["--map", "PLACES", "--frames", "-1"], "--frames -1 must be at least 0"),
    "frames without the column": (
        ["--map", "PLACES", "--frames", "3"],
        "the query table has no column frame, which --frames compares; add it",
    ),
    "overlap 0": (["--map", "PLACES", "--overlap", "0"], "--overlap 0 must be above 0"),
    "overlap 2": (["--map", "PLACES", "--overlap", "2"], "--overlap 2 must be at most 1"),
    "theta 0": (["--map", "PLACES", "--theta", "0"], "--theta 0 must be above 0"),
    "radius nan": (["--map", "PLACES", "--radius", "nan"], "--radius nan is not a finite number"),
    "negative time gap": (["--map", "PLACES", "--time-gap", "-1"], "--time-gap -1 must be at least 0"),
    "infinite time gap": (["--map", "PLACES", "--time-gap", "inf"], "--time-gap inf is not a finite number"),
    "time gap beyond all clocks": (
        ["--map", "PLACES", "--time-gap", "1e300"],
        "--time-gap 1e+300 must be at most 1e+10",
    ),
    "whiten to 0": (
        ["--map", "PLACES", "--whiten", "0"],
        "--whiten '0': '0' is not a number of dims; write SIZE, SIZE:damped,",
    ),
    "whiten to words": (
        ["--map", "PLACES", "--whiten", "a,b"],
        "--whiten 'a,b': 'a' is not a way to whiten; write SIZE, SIZE:damped,",
    ),
    "whiten to nothing": (
        ["--map", "PLACES", "--whiten", ""],
        "--whiten '': '' is not a way to whiten; write SIZE, SIZE:damped,",
    ),
    "whiten to more than there is": (
        ["--map", "PLACES", "--whiten", "64"],
        "whitening on the map: 12 images span 11 dims, too few for 64; ask for",
    ),
    "whiten to more than any": (
        ["--map", "PLACES", "--whiten", "100000"],
        "whitening on the map: 12 images span 11 dims, too few for 100000; ask",
    ),
    "whiten to an unknown way": (
        ["--map", "PLACES", "--whiten", "4:dampened"],
        "--whiten '4:dampened': '4:dampened' is not a way to whiten; write SIZE,",
    ),
    "whiten with less than no damping": (
        ["--map", "PLACES", "--whiten", "4:damped=-1"],
        "--whiten '4:damped=-1': the damping '-1' is not a number of at least 0",
    ),
    "whiten by a model that has no whitening": (
        ["--map", "PLACES", "--whiten", "model"],
        "--whiten model: this model has no whitening of its own; --whiten auto",
    ),
    "whiten by labels of nothing": (
        ["--map", "PLACES", "--whiten", "4:learned"],
        "--whiten 4:learned needs --train, the places to learn it on",
    ),
    "whiten on the moon": (
        ["--map", "PLACES", "--whiten", "2", "--whiten-on", "moon"],
        "--whiten-on 'moon' is unknown; choose one of map, train, both",
    ),
    "whiten on nothing": (
        ["--map", "PLACES", "--whiten-on", "map"],
        "--whiten-on has no effect without --whiten",
    ),
    "whiten on training places that are not given": (
        ["--map", "PLACES", "--whiten", "2", "--whiten-on", "train"],
        "--whiten-on train needs --train, the places to fit it on",
    ),
    "whiten with a table": (
        ["--map", "PLACES", "--whiten-with", "PLACES"],
        "not a complete safetensors file",
    ),
    "whiten with nothing": (
        ["--map", "PLACES", "--whiten-with", "absent"],
        "no such whitening; check the path",
    ),
    "whiten with a model": (
        ["--map", "PLACES", "--whiten-with", "MODEL/model.safetensors"],
        "not a whitening that samespot saved; give the file of Whitening.save",
    ),
    "split without training places": (
        ["--map", "PLACES", "--train-split", "train"],
        "--train-split has no effect without --train",
    ),
    "training places that are not there": (
        ["--map", "PLACES", "--train", "absent.csv"],
        "no such file; a table of places is a .csv or .parquet with the columns",
    ),
    "a split that is not there": (
        ["--map", "PLACES", "--train", "PLACES", "--train-split", "val"],
        "no image with split 'val'; there are map, query, train",
    ),
    "precision 0": (["--map", "PLACES", "--accept-precision", "0"], "--accept-precision 0 must be above 0"),
    "precision in percent": (
        ["--map", "PLACES", "--accept-precision", "95"],
        "--accept-precision 95 must be at most 1",
    ),
    "precision without acceptance": (
        ["--map", "PLACES", "--no-acceptance", "--accept-precision", "0.9"],
        "--accept-precision has no effect with --no-acceptance",
    ),
    "negative seed": (["--map", "PLACES", "--seed", "-1"], "--seed -1 must be at least 0"),
    "rerank by magic": (
        ["--map", "PLACES", "--rerank", "magic"],
        "--rerank 'magic' is unknown; choose one of patch-netvlad, xfeat, lighterglue, aliked, disk",
    ),
    "rerank options without rerank": (
        ["--map", "PLACES", "--rerank-top", "5"],
        "--rerank-top has no effect without --rerank",
    ),
    "rerank none": (
        ["--map", "PLACES", "--rerank", "xfeat", "--rerank-top", "0"],
        "--rerank-top 0 must be at least 1",
    ),
    "rerank by 4 keypoints": (
        ["--map", "PLACES", "--rerank", "xfeat", "--rerank-keypoints", "4"],
        "--rerank-keypoints 4 must be at least 5",
    ),
    "rerank by patches of a CNN": (
        ["--map", "PLACES", "--rerank", "patch-netvlad"],
        "Patch-NetVLAD needs a network that pools by NetVLAD, and this one pools",
    ),
    "rerank patches of words": (
        ["--map", "PLACES", "--rerank", "patch-netvlad", "--rerank-patches", "a:b"],
        "--rerank-patches 'a:b' is not understood: Patch-NetVLAD: sizes of the",
    ),
    "negative gallery": (["--map", "PLACES", "--gallery", "-1"], "--gallery -1 must be at least 0"),
    "device cuda": (
        ["--map", "PLACES", "--device", "cuda"],
        "--device cuda: torch sees no GPU; check the driver with nvidia-smi, or",
    ),
    "map that is not there": (
        ["--map", "absent.csv"],
        "no such file; a table of places is a .csv or .parquet with the columns",
    ),
    "queries that are not there": (
        ["--map", "PLACES", "--queries", "absent.csv"],
        "no such file; a table of places is a .csv or .parquet with the columns",
    ),
    "queries alone": (
        ["--queries", "PLACES"],
        "name a protocol (`samespot protocols` lists them), or give --map and",
    ),
    "out is a file": (["--map", "PLACES", "--out", "PLACES"], "is a file; give the name of a folder"),
    "out under a file": (["--map", "PLACES", "--out", "PLACES/e"], "is a file)"),
    "json is a folder": (["--map", "PLACES", "--json", "STREET"], "is a folder; give the name of a file"),
    "nothing to find": (
        ["--map", "PLACES", "--within", "0.001m"],
        "protocol own-tables: none of the 12 queries has anything to find in the",
    ),
    "queries elsewhere": (
        ["--map", "PLACES", "--queries", "HERE/far.csv"],
        "protocol own-tables: none of the 1 queries has anything to find in the",
    ),
    "one photo": (
        ["--map", "HERE/one.csv"],
        "protocol own-tables: none of the 1 queries has anything to find in the",
    ),
    "no photo": (["--map", "HERE/none.csv"], "the table has no rows; give it one for each image"),
    "map of another plane": (
        ["--map", "HERE/utm.csv", "--queries", "HERE/other.csv"],
        "protocol own-tables: none of the 1 queries has anything to find in the",
    ),
    "typo": (
        ["--map", "PLACES", "--witin", "25m"],
        "No such option: --witin (Possible options: --train, --whiten, --within)",
    ),
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
    "another model": (["evaluate", "OTHER_MODEL", "--map", "PLACES"], "holds an evaluation of another model"),
    "another rule": (
        ["evaluate", "MODEL", "--map", "PLACES", "--within", "30m"],
        "holds an evaluation of another rule of what is right (within 25 m, now",
    ),
    "another view": (
        ["evaluate", "MODEL", "--map", "PLACES", "--radius", "20"],
        "holds an evaluation of another radius (50.0, now 20.0); choose another",
    ),
    "another table": (
        ["evaluate", "MODEL", "--map", "PLACES", "--queries", "HERE/some.csv"],
        "holds an evaluation of another rule of what is never retrieved (the",
    ),
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


AT = {
    "asked": 0.95,
    "distance": 0.183,
    "precision": 1.0,
    "accepted": 1,
    "low": 0.2,
    "high": 1.0,
    "recall": 0.1,
}


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ({"distance": None}, "no threshold on the distance is enough"),
        ({"accepted": 1}, "no threshold can be named: the best rests on 1 answer, and 20 are needed"),
        ({"accepted": 19}, "no threshold can be named: the best rests on 19 answers, and 20 are needed"),
        ({"accepted": 20}, "accept d ≤ 0.183: 100.0 % of 20 answers were right (95 % interval 20.0–100.0 %)"),
        ({"asked": 0.99, "accepted": 99}, "and 100 are needed"),
    ],
)
def test_a_promise_says_what_it_rests_on(at, said):
    assert said in promise_in_words({**AT, "false_accepts": 0.0, **at})


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
    "empty": (
        lambda f: (f / "evaluation.json").write_text(
            "not an evaluation of samespot (no json); give what `samespot evaluate`"
        ),
        "not an evaluation of samespot (no json); give what `samespot evaluate`",
    ),
    "no json": (
        lambda f: (f / "evaluation.json").write_text("{"),
        "not an evaluation of samespot (no json); give what `samespot evaluate`",
    ),
    "binary": (
        lambda f: (f / "evaluation.json").write_bytes(b"\xff\xfe\0\1"),
        "not an evaluation of samespot (no json); give what `samespot evaluate`",
    ),
    "a list": (
        lambda f: (f / "evaluation.json").write_text("[]"),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "a number": (
        lambda f: (f / "evaluation.json").write_text("7"),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "another json": (
        lambda f: (f / "evaluation.json").write_text('{"type": "FeatureCollection"}'),
        "not an evaluation of samespot (it lacks 'format'); give what `samespot",
    ),
    "another format": (
        set_("format", 99),
        "evaluation of format 99, this version reads up to 2; update samespot,",
    ),
    "format of words": (
        set_("format", "two"),
        "evaluation of format two, this version reads up to 2; update samespot,",
    ),
    "no queries": (
        without("queries"),
        "not an evaluation of samespot (it lacks 'queries'); give what `samespot",
    ),
    "no variants": (without("variants"), "not an evaluation of samespot (it lacks 'variants'); give what"),
    "no descriptor": (
        set_("variants", []),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "variants of numbers": (
        set_("variants", [7]),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "queries of a list": (
        set_("queries", []),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "protocol of a number": (
        set_("protocol", 7),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "model of nothing": (
        set_("model", None),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "fewer outcomes than queries": (
        edited(lambda c: c["variants"][0]["per_query"].__setitem__("first_hit", [1])),
        "not an evaluation of samespot (it says what none would); give what",
    ),
    "a folder": (
        lambda f: ((f / "evaluation.json").unlink(), (f / "evaluation.json").mkdir()),
        "Is a directory; give what `samespot evaluate` wrote",
    ),
    "nothing there": (
        lambda f: (f / "evaluation.json").unlink(),
        "no such file; give what `samespot evaluate` wrote",
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_broken_result_cannot_be_compared(refused, world, here, name):
    change, said = RESULTS[name]
    shutil.copytree(world.evaluation, here / "e")
    change(here / "e")
    refused(["compare", "EVALUATION", "e"], "e", said)


@pytest.mark.parametrize("name", RESULTS)
def test_a_broken_result_cannot_be_reported(refused, world, here, name):
    shutil.copytree(world.evaluation, here / "e", ignore=shutil.ignore_patterns("descriptors"))
    RESULTS[name][0](here / "e")
    refused(
        ["report", "e", "--out", "r.html"],
        "e",
        "`samespot evaluate`" if "format" not in name else "update samespot",
    )
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
    "metrics no json": lambda f: (f / "metrics.jsonl").write_text("x\n{}\n"),
}


@pytest.mark.parametrize("name", MATCHES)
def test_a_result_without_its_matches_is_still_reported(done, world, here, name):
    """Whatever is not there, or is of something else, is left out of the page."""
    shutil.copytree(world.evaluation, here / "e")
    MATCHES[name](here / "e")
    done(["report", "e", "--out", "r.html"], "wrote r.html")
    assert (here / "r.html").stat().st_size > 10_000


DESCRIBED = {
    "vectors cut off": (
        descriptors(lambda d: (d / "descriptors.npy").write_bytes(b"\x93NUMPY")),
        "not the whole array of 12 × 96 float32 that meta.json tells of; copy",
    ),
    "meta no json": (descriptors(lambda d: (d / "meta.json").write_text("{")), "not valid json"),
    "table of words": (
        descriptors(lambda d: (d / "places.parquet").write_text("a,b")),
        "cannot be read as parquet",
    ),
    "config no json": (lambda f: (f / "config.json").write_text("{"), "not valid json"),
    "batches no json": (lambda f: (f / "batches.json").write_text("{"), "not valid json"),
    "calibration of words": (
        lambda f: ((f / "calibration").mkdir(), (f / "calibration" / "96.json").write_text("{}")),
        "not a calibration ('distances'); fit and save it again",
    ),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_report_of_broken_files(refused, world, here, name):
    change, said = DESCRIBED[name]
    shutil.copytree(world.evaluation, here / "e")
    change(here / "e")
    refused(["report", "e", "--out", "r.html"], "e", said)


WORDS = {
    "compare nothing": (["compare"], "Missing argument"),
    "compare one": (["compare", "EVALUATION"], "Missing argument"),
    "compare three": (
        ["compare", "EVALUATION", "EVALUATION", "EVALUATION"],
        "Got unexpected extra argument(s)",
    ),
    "compare an absent folder": (
        ["compare", "EVALUATION", "absent"],
        "no such file; give what `samespot evaluate` wrote",
    ),
    "compare a table": (
        ["compare", "EVALUATION", "PLACES"],
        "not an evaluation of samespot (no json); give what `samespot evaluate`",
    ),
    "compare a model": (
        ["compare", "MODEL", "EVALUATION"],
        "no such file; give what `samespot evaluate` wrote",
    ),
    "compare a folder of photos": (
        ["compare", "EVALUATION", "STREET"],
        "no such file; give what `samespot evaluate` wrote",
    ),
    "compare seeds of other numbers": (
        ["compare", "EVALUATION,EVALUATION", "EVALUATION,EVALUATION,EVALUATION"],
        "A has 2 runs and B has 3: give as many of each, seed by seed, or one of",
    ),
    "compare an unknown descriptor": (
        ["compare", "EVALUATION", "EVALUATION", "--descriptor", "7"],
        "no descriptor '7' in this evaluation; it has 96",
    ),
    "compare with a negative seed": (
        ["compare", "EVALUATION", "EVALUATION", "--seed", "-1"],
        "--seed -1 must be at least 0",
    ),
    "compare other queries": (
        ["compare", "EVALUATION", "HERE/queries"],
        "these runs cannot be compared: 2 queries are in one of them only;",
    ),
    "compare another protocol": (
        ["compare", "EVALUATION", "HERE/protocol"],
        "these runs cannot be compared: positive is 'within 25 m' in one and",
    ),
    "compare another map": (
        ["compare", "EVALUATION", "HERE/map"],
        "these runs cannot be compared: the map of table has 12 images in one",
    ),
    "compare another truth": (
        ["compare", "EVALUATION", "HERE/truth"],
        "these runs cannot be compared: 1 queries have something to find in one",
    ),
    "compare a folder of several recipes": (
        ["compare", "HERE", "EVALUATION"],
        "holds runs of 4 settings: map (1 runs), protocol (1 runs), queries (1",
    ),
    "report nothing": (["report"], "Missing argument"),
    "report an absent folder": (
        ["report", "absent"],
        "no such folder; name one of `samespot train` or `samespot evaluate`",
    ),
    "report a table": (
        ["report", "PLACES"],
        "not an evaluation of samespot (no json); give what `samespot evaluate`",
    ),
    "report photos": (
        ["report", "STREET"],
        "neither a run nor an evaluation; name a folder of `samespot train` or",
    ),
    "report a model": (
        ["report", "MODEL"],
        "neither a run nor an evaluation; name a folder of `samespot train` or",
    ),
    "report into a folder": (
        ["report", "EVALUATION", "--out", "STREET"],
        "is a folder; give the name of a file",
    ),
    "report under a file": (["report", "EVALUATION", "--out", "PLACES/r.html"], "is a file)"),
    "report where nobody writes": (
        ["report", "EVALUATION", "--out", "/proc/r.html"],
        "--out /proc/r.html: cannot be written (No such file or directory)",
    ),
    "unknown protocol": (
        ["protocols", "kitti"],
        "protocol 'kitti' is unknown; choose one of msls-val, msls-val-40deg,",
    ),
    "protocols of a table": (["protocols", "PLACES", "PLACES"], "Got unexpected extra argument(s)"),
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
    assert told["runs"] == [3, 3]
    done(["report", "HERE/a", "--out", "r.html"], "wrote r.html")
    assert all(f"run{seed}" in (here / "r.html").read_text() for seed in range(3))
