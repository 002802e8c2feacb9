"""The command line as a user meets it: results, figures, json, and one line for each mistake."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest

from samespot import PairLabels, Places, label_pairs
from samespot.cli import run


@pytest.fixture
def samespot(monkeypatch, capsys):
    """Runs a command in this process; returns exit code, output and error output."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["samespot", *map(str, words)])
        code = 0
        try:
            run()
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


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
    heavy = ["numpy", "numba", "pandas", "torch", "scipy", "matplotlib", "h5py", "pyproj"]
    code = f"import sys, samespot.cli; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


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
        (["label", "T", "--pair", "1"], "--pair '1': give the row of a query and of a map image"),
        (["label", "T", "--pair", "1,999"], "--pair 1,999: there are 20 queries and 20 map images"),
        (["label", "T", "--split", "query"], "no column split"),
        (["label", "T", "--kind", "3d"], "3D labels need a cloud"),
        (["label", "T", "--from-pose"], "no 6DOF pose in this table"),
        (["label", "T", "--from-pose", "--up", "w"], "up axis 'w' is unknown"),
        (["label", "D"], "nothing here that samespot reads"),
        (["places", "T", "--dataset", "kitti"], "not a folder"),
        (["datasets", "absent"], "absent: no such folder"),
        (["import-labels", "T"], "cannot be read as HDF5"),
        (["export-labels", "D", "--out", "x.h5"], "not a label folder"),
        (["label", "T", "--json", "T/x.json", "--no-figures"], "cannot be written"),
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
