"""The command line as a user meets it: results, figures, json, and one line for each mistake."""

import json
import os
import re
import subprocess
import sys
from dataclasses import fields

import h5py
import numpy as np
import pytest
from PIL import Image

from samespot import PairLabels, Places, label_pairs


def photos(folder, n=40, seed=0, **columns):
    rng = np.random.default_rng(seed)
    table = {
        "image": [f"{i:03d}.jpg" for i in range(n)],
        "easting": rng.uniform(0, 120, n),
        "northing": rng.uniform(0, 120, n),
        "heading": rng.uniform(0, 360, n),
        **columns,
    }
    places = Places.build(folder, table, missing_images="ignore")
    places.save(folder / f"places{seed}.csv")
    return folder / f"places{seed}.csv"


def test_help_loads_no_heavy_module():
    heavy = [
        "importlib.metadata",
        "numpy",
        "numba",
        "pandas",
        "torch",
        "scipy",
        "matplotlib",
        "h5py",
        "pyproj",
    ]
    code = f"import sys, samespot.cli; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--nonsense"], "No such option: --nonsense"),
        (["samespot-lite", "no-such-protocol"], "PROTOCOL 'no-such-protocol' is unknown"),
        (["samespot-lite", "campus-east", "--root", "/nowhere"], "--root /nowhere: no such folder"),
        (["samespot-lite", "campus-east"], "campus-east needs campus"),
        (["megalock", "--map", "a.csv", "--queries", "b.csv"], "did you mean megaloc"),
    ],
)
def test_a_mistake_in_evaluate_is_said_before_torch_is_loaded(typed, said, tmp_path):
    code = (
        "import sys, samespot.cli\n"
        f"sys.argv = ['samespot', 'evaluate', *{typed!r}]\n"
        "try: samespot.cli.run()\n"
        "finally: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert said in " ".join(done.stderr.split())
    assert (done.returncode, done.stdout.strip()) == (2, "False")


def test_every_command_has_help_and_json(samespot):
    from typer.main import get_command

    from samespot.cli import app

    commands = get_command(app).commands
    assert {"label", "places", "datasets", "demo", "import-labels", "export-labels"} <= set(commands)
    for name, command in commands.items():
        assert any("--json" in p.opts for p in command.params), name
        assert command.help, name
        code, _, _ = samespot(name, "--help")
        assert code == 0


def test_label_writes_labels_figures_table_and_json(samespot, tmp_path):
    queries, map_ = photos(tmp_path, 30, 1), photos(tmp_path, 50, 2)
    code, out, err = samespot(
        "label", queries, map_, "--out", tmp_path / "out", "--json", tmp_path / "r.json", "--h5"
    )
    assert code == 0, err
    labels = PairLabels.open(tmp_path / "out" / "labels")
    expected = label_pairs(Places.read(queries), Places.read(map_))
    np.testing.assert_array_equal(labels.dense(), expected.dense())
    (result,) = json.loads((tmp_path / "r.json").read_text())["labels"]
    assert result["positive"] == expected.counts()["positive"]
    assert f"{expected.counts()['soft negative']:,}" in out
    assert "2D, overlap, θ = 90°, r = 50 m" in out
    for name in ("similarity.png", "distance_and_turn.png", "pair_050.png"):
        assert (tmp_path / "out" / "figures" / name).stat().st_size > 10_000
    with h5py.File(tmp_path / "out" / "labels_gt.h5") as file:
        np.testing.assert_array_equal(file["fov"][:], expected.dense())
    assert "30 of 30 images are not under" in err  # said, since there are no files


def test_splits_binary_labels_and_a_chosen_pair(samespot, tmp_path):
    table = photos(tmp_path, 40, 3, split=["query"] * 10 + ["map"] * 30)
    code, _, err = samespot(
        "label", table, "--split", "query", "--map-split", "map", "--pair", "3,7", "--out", tmp_path / "o"
    )
    assert code == 0, err
    assert PairLabels.open(tmp_path / "o" / "labels").shape == (10, 30)
    assert (tmp_path / "o" / "figures" / "pair_3_7.png").is_file()
    code, out, _ = samespot("label", table, "--within", "25m,40deg", "--out", tmp_path / "b", "--no-figures")
    assert code == 0
    assert "binary, within 25 m and 40°" in out
    assert set(PairLabels.open(tmp_path / "b" / "labels").similarity) == {1.0}


def test_labels_go_to_the_reference_and_back(samespot, tmp_path):
    table = photos(tmp_path, 25, 4)
    samespot("label", table, "--out", tmp_path / "o", "--no-figures")
    code, _, err = samespot(
        "export-labels", tmp_path / "o" / "labels", "--out", tmp_path / "x.h5", "--condensed"
    )
    assert code == 0, err
    code, _, err = samespot("import-labels", tmp_path / "x.h5", "--out", tmp_path / "again")
    assert code == 0, err
    first, again = (PairLabels.open(p).dense() for p in (tmp_path / "o" / "labels", tmp_path / "again"))
    np.fill_diagonal(first, 0)
    np.testing.assert_array_equal(first, again)


def test_a_photo_that_cannot_be_drawn_takes_nothing_away(samespot, tmp_path):
    """The labels are there, so the table is printed and the command succeeds."""
    table = photos(tmp_path, 30, 8)
    for name in Places.read(table).table["image"]:
        (tmp_path / name).write_bytes(b"no image")
    code, out, err = samespot("label", table, "--out", tmp_path / "o", "--json", tmp_path / "r.json")
    assert code == 0, err
    assert "not all figures were drawn" in err
    assert "soft negative" in out
    assert (tmp_path / "o" / "labels" / "meta.json").is_file()
    assert (tmp_path / "r.json").is_file()


def test_places_converts_and_counts(samespot, tmp_path):
    (tmp_path / "gps.csv").write_text(
        "image,latitude,longitude,heading\na.jpg,53.22,6.56,10\nb.jpg,53.23,6.57,\n"
    )
    code, out, err = samespot(
        "places", tmp_path / "gps.csv", "--out", tmp_path / "m.parquet", "--json", tmp_path / "p.json"
    )
    assert code == 0, err
    facts = json.loads((tmp_path / "p.json").read_text())
    assert facts["projection"] == "EPSG:32632"
    assert (facts["images"], facts["with heading"]) == (2, 1)
    assert "EPSG:32632" in out
    again = Places.read(tmp_path / "m.parquet")
    assert np.hypot(*np.diff(again.positions[:, :2], axis=0)[0]) == pytest.approx(
        1298, abs=3
    )  # 0.01° of each


def test_datasets_says_what_is_here(samespot, tmp_path):
    sequence = tmp_path / "kitchen"
    sequence.mkdir()
    (sequence / "frame-000000.pose.txt").write_text("1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")
    (sequence / "frame-000000.color.png").touch()
    code, out, _ = samespot("datasets", tmp_path, "--json", tmp_path / "d.json")
    assert code == 0
    found = {d["name"]: d["found"] for d in json.loads((tmp_path / "d.json").read_text())}
    assert found["7scenes"][0]["parts"] == ["sequence"]
    assert found["msls"] == []
    assert "https://www.mapillary.com/dataset/places" in out
    assert "train_val" in samespot("datasets", "--layout", "msls")[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["label", "absent.csv"], "absent.csv: no such file"),
        (["label", "T", "--theta", "400"], "theta 400 is not in (0, 360] degrees"),
        (["label", "T", "--measure", "dice"], "--measure 'dice' is unknown; choose one of overlap, iou"),
        (["label", "T", "--within", "25"], "--within '25': '25' is neither metres (25m) nor degrees (40deg)"),
        (["label", "T", "--within", "40deg"], "names no distance"),
        (["label", "T", "--preset", "kitti"], "preset 'kitti' is unknown; choose one of msls, tb-places"),
        (["label", "D", "--preset", "msls"], "no Mapillary Street-Level Sequences here; ask for it at"),
        (["label", "T", "--pair", "1"], "--pair '1' is not understood: Draw this pair"),
        (["label", "T", "--pair", "1,999"], "--pair 1,999: there are 20 queries and 20 map images"),
        (["label", "T", "--split", "query"], "no column split"),
        (["label", "T", "--kind", "3d"], "3D labels need a cloud"),
        (["label", "T", "--from-pose"], "no 6DOF pose in this table"),
        (["label", "T", "--from-pose", "--up", "w"], "up axis 'w' is unknown"),
        (["label", "D"], "nothing here that samespot reads"),
        (["places", "T", "--dataset", "kitti"], "--dataset 'kitti' is unknown"),
        (["places", "T", "--dataset", "msls"], "not a folder"),
        (["datasets", "absent"], "absent: no such folder"),
        (["import-labels", "T"], "cannot be read as HDF5"),
        (["export-labels", "D", "--out", "x.h5"], "not a label folder"),
        (["label", "T", "--json", "T/x.json", "--no-figures"], "--json T/x.json: cannot be written (T is a file)"),
        (["label", "T", "--json", "/proc/x"], "--json /proc/x: cannot be written"),
        (["label", "T", "--json", "D"], "--json D: is a folder; give the name of a file"),
        (["label", "T", "--out", "T"], "--out T: is a file; give the name of a folder"),
        (["label", "T", "--out", "/proc/x"], "--out /proc/x: cannot be written"),
        (["import-labels", "T", "--out", "T"], "--out T: is a file; give the name of a folder"),
        (["export-labels", "D", "--out", "D"], "--out D: is a folder; give the name of a file"),
        (["label", "T", "--theta", "wide"], "Invalid value for '--theta'"),
        (["label", "T", "--thetta", "9"], "No such option: --thetta"),
        (["label"], "Missing argument"),
        (["lable", "T"], "No such command 'lable'"),
        (["label", "T", "--device", "tpu"], "--device 'tpu' is unknown"),
        (["label", "T", "--device", "cuda"], "--device has no effect without --kind 3d"),
        (["label", "T", "--kind", "3d", "--device", "cuda"], "torch sees no GPU"),
        (["label", "T", "--kind", "3d", "--theta", "30"], "--theta has no effect with --kind 3d"),
        (["label", "T", "--preset", "campus", "--radius", "10"], "--radius has no effect with --preset campus"),
        (["label", "T", "--pair", "9,0", "--no-figures"], "--pair has no effect with --no-figures"),
        (["label", "T", "--from-pose", "--forward", "q"], "forward axis 'q' is unknown"),
        (["places", "T", "--missing-images", "hide"], "--missing-images 'hide' is unknown; choose one of error"),
        (["train", "T"], "--labels is missing"),
        (["train", "T", "--backbne", "vgg16"], "No such option: --backbne"),
        (["train", "T", "--schedule", "stepp"], "--schedule 'stepp' is unknown; choose one of step"),
        (["train", "T", "--image-size", "4y4"], "--image-size '4y4' is not understood"),
        (["train", "T", "--class-weights", "1,x,1"], "--class-weights '1,x,1' is not understood"),
        (["train", "T", "--within", "5m"], "--within has no effect without --validate"),
        (["train", "T", "--validate-map", "T"], "--validate-map has no effect without --validate"),
        (["train", "T", "--only", "london"], "--only has no effect without --preset"),
        (["train", "T", "T", "--preset", "campus"], "MAP has no effect with --preset campus"),
        (["train", "T", "--run", "T"], "--run T: is a file; give the name of a folder"),
        (["convert", "T", "--out", "M"], "T: "),
        (["convert", "absent.pth"], "absent.pth"),
        (["convert", "T", "--pol", "gem"], "No such option: --pol"),
        (["export", "D"], "D: "),
        (["export", "D", "--oot", "x.onnx"], "No such option: --oot"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(samespot, tmp_path, monkeypatch, words, line):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path, 20, 9).rename(tmp_path / "T")
    (tmp_path / "places9.csv.meta.json").unlink()
    (tmp_path / "D").mkdir()
    code, _, err = samespot(*words)
    assert code == 2
    said = [x for x in err.splitlines() if not x.startswith("note")]
    assert len(said) == 1, err
    assert said[0].startswith("samespot: ")
    assert line in said[0]
    assert "Traceback" not in err


def test_a_late_mistake_leaves_old_labels_as_they_were(samespot, tmp_path):
    table = photos(tmp_path, 20, 5)
    samespot("label", table, "--out", tmp_path / "o", "--no-figures")
    for words in (["--pair", "99,99"], ["--json", "/proc/x"]):
        code, _, _ = samespot("label", table, "--out", tmp_path / "o", "--radius", "5", *words)
        assert code == 2
        assert PairLabels.open(tmp_path / "o" / "labels").meta["radius"] == 50


def test_what_the_system_refuses_is_one_line_with_the_path(samespot, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "secret/places.csv")

    monkeypatch.setattr("samespot.cli.places.open_places", refuse)
    code, _, err = samespot("places", "secret/places.csv")
    assert (code, err) == (2, "samespot: secret/places.csv: Permission denied\n")


def test_ctrl_c_is_one_line_and_exit_code_130(samespot, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("samespot.cli.places.open_places", interrupt)
    code, _, err = samespot("places", "places.csv")
    assert (code, err.strip()) == (130, "samespot: interrupted")


def test_a_mistake_of_ours_is_not_hidden(samespot, monkeypatch):
    def divide(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("samespot.cli.places.open_places", divide)
    with pytest.raises(ZeroDivisionError):
        samespot("places", "places.csv")


def test_a_json_that_can_be_written_leaves_nothing_behind_on_failure(samespot, tmp_path):
    code, _, _ = samespot("label", tmp_path / "absent.csv", "--json", tmp_path / "new" / "r.json")
    assert code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_table_against_itself_says_how_many_pairs_are_an_image_with_itself(samespot, tmp_path):
    code, out, _ = samespot(
        "label",
        photos(tmp_path, 40, 6),
        "--out",
        tmp_path / "o",
        "--no-figures",
        "--json",
        tmp_path / "r.json",
    )
    assert code == 0
    assert "incl. 40 pairs of an image with itself" in out
    (result,) = json.loads((tmp_path / "r.json").read_text())["labels"]
    assert result["self pairs"] == 40
    assert re.search(r"labelled in \d+\.\d\d s: \S+ \w? ?pairs/s, of which \S+ \w? ?non-zero", out)


def test_the_layout_of_a_data_set_as_json(samespot, tmp_path):
    code, out, _ = samespot("datasets", "--layout", "msls", "--json", tmp_path / "l.json")
    facts = json.loads((tmp_path / "l.json").read_text())
    assert code == 0
    assert facts["name"] == "msls"
    assert facts["layout"].split() == out.split()


def test_help_shows_the_defaults_that_are_used():
    """Flags come from the options classes, so help and code cannot disagree; a few are checked against both."""
    from typer.main import get_command

    from samespot.cli import app
    from samespot.overlap.options import LabelOptions

    shown = {p.name: p.default for p in get_command(app).commands["label"].params}
    used = LabelOptions("places.csv")
    for name in (
        "theta",
        "radius",
        "measure",
        "unknown_heading",
        "panoramas",
        "kind",
        "occlusion",
        "forward",
    ):
        assert shown[name] == getattr(used, name)
    assert (shown["theta"], shown["radius"], shown["missing_images"]) == (90.0, 50.0, "warn")


def test_errors_of_the_library_name_parameters_and_those_of_the_command_line_flags(samespot, tmp_path):
    from samespot import InputError
    from samespot.training.options import TrainingOptions

    with pytest.raises(InputError, match=r"^`micro_pairs` 0 must be at least 1$"):
        TrainingOptions.of({"micro_pairs": 0})
    code, _, err = samespot("train", tmp_path, "--run", tmp_path / "r", "--micro-pairs", "0")
    assert (code, err.strip()) == (2, "samespot: --micro-pairs 0 must be at least 1")


def test_every_training_option_is_a_flag():
    """An error names options by their flags, so each must be one."""
    from typer.main import get_command

    from samespot.cli import app
    from samespot.training.options import TrainingOptions

    flags = {p.name for p in get_command(app).commands["train"].params}
    assert {f.name for f in fields(TrainingOptions)} <= flags


def test_public_names_are_there():
    import samespot as package

    assert {"label_pairs", "label_within", "label_scene", "GeneralizedContrastiveLoss"} <= set(
        package.__all__
    )
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    assert re.match(r"\d", package.__version__)


def street(folder, n=12):
    """Small coloured photos every 12 m along a street, and their table."""
    dice = np.random.default_rng(7)
    folder.mkdir()
    for i in range(n):
        colours = dice.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((64, 48)).save(folder / f"{i}.jpg")
    table = {
        "image": [f"{i}.jpg" for i in range(n)],
        "easting": 0.0,
        "northing": np.arange(n) * 12.0,
        "heading": 90.0,
    }
    return Places.build(folder, table).save(folder / "places.csv")


def test_train_on_mined_tuples_says_what_mining_cost(samespot, tmp_path):
    table = street(tmp_path / "street")
    assert samespot("label", table, "--out", tmp_path / "o", "--no-figures")[0] == 0
    run_folder, result = tmp_path / "run", tmp_path / "t.json"
    words = ["train", table, "--labels", tmp_path / "o" / "labels", "--run", run_folder, "--json", result]
    words += ["--backbone", "test_resnet.r160_in1k", "--pretrained", "no", "--image-size", "64"]
    words += ["--device", "cpu", "--batch-pairs", "3", "--no-tensorboard", "--steps", "1"]
    code, out, err = samespot(*words, "--loss", "triplet", "--negatives", "2")
    assert code == 0, err
    facts = json.loads(result.read_text())
    assert facts["learning_images"] == 3 * (1 + 1 + 2)
    assert facts["mining_images"] > 0
    assert "12 images" in out
    assert f"{facts['mining_images']:,} images in" in out
    assert not (run_folder / "batches.png").exists()


def test_train_resume_and_export(samespot, tmp_path):
    table = street(tmp_path / "street")
    assert samespot("label", table, "--out", tmp_path / "o", "--no-figures")[0] == 0
    run_folder, result = tmp_path / "run", tmp_path / "t.json"
    words = ["train", table, "--labels", tmp_path / "o" / "labels", "--run", run_folder, "--json", result]
    words += [
        "--backbone",
        "test_resnet.r160_in1k",
        "--pretrained",
        "no",
        "--image-size",
        "64",
        "--device",
        "cpu",
    ]
    words += ["--batch-pairs", "6", "--log-every", "1", "--no-tensorboard"]
    validation = ["--validate", table, "--validate-map", table, "--within", "15m,30deg"]

    code, out, err = samespot(*words, *validation, "--steps", "3")
    assert code == 0, err
    facts = json.loads(result.read_text())
    assert (facts["steps"], facts["pairs"]) == (3, 18)
    assert facts["recall"]["1"] == 1.0  # each photo finds itself
    assert "3 steps, 18 pairs" in " ".join(out.split())  # a long folder name breaks the line
    assert (run_folder / "batches.png").stat().st_size > 5_000

    code, _, err = samespot(*words, "--steps", "5")
    assert code == 2
    assert "pass --resume to continue it" in err
    code, _, err = samespot(*words, *validation, "--steps", "5", "--resume")
    assert code == 0, err
    assert json.loads(result.read_text())["steps"] == 5
    logged = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in logged if "loss" in line] == [1, 2, 3, 4, 5]

    code, out, err = samespot("export", run_folder / "last", "--out", tmp_path / "m.onnx", "--json", result)
    assert code == 0, err
    assert json.loads(result.read_text())["largest difference"] < 1e-4
    assert (tmp_path / "m.onnx").stat().st_size > 100_000


def test_json_to_standard_output_is_all_that_is_there(tmp_path):
    words = [sys.executable, "-m", "samespot", "places", str(photos(tmp_path, 12, 9)), "--json", "-"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert json.loads(done.stdout)["images"] == 12
    assert "with position" in done.stderr  # the table for people


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_question_marks_not_a_crash(tmp_path, encoding):
    words = [sys.executable, "-m", "samespot", "label", str(photos(tmp_path, 12, 9)), "--no-figures"]
    words += ["--out", str(tmp_path / "o")]
    done = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.returncode == 0, done.stderr
    assert b"r = 50 m" in done.stdout


def test_progress_in_a_pipe_is_a_line_now_and_then(capsys):
    from samespot.cli.console import EVERY, PlainProgress

    now = [0.0]
    progress = PlainProgress(lambda: now[0])
    for second in range(0, 40):
        now[0] = float(second)
        progress("describing", second * 25, 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["describing: 375 of 1,000 (38%)", "describing: 750 of 1,000 (75%)"]
    assert EVERY == 15.0
