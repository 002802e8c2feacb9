"""`samespot index` as a user meets it."""

import json

import pytest

from samespot.maps.folder import open_generation

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def model(net, tmp_path):
    return net.save(tmp_path / "model")


def test_a_folder_becomes_a_map_and_again_nothing_changes(samespot, street, model, tmp_path):
    photos, out = street(5), tmp_path / "map"
    told = tmp_path / "told.json"
    code, said, err = samespot("index", photos, "--out", out, "--model", model, "--json", told)
    assert code == 0, err
    assert "generation 1" in " ".join(said.split())
    assert "kB a photo" in said
    facts = json.loads(told.read_text())
    assert (facts["photos"], facts["described"], facts["changed"]) == (5, 5, True)
    assert f"samespot locate {out} PHOTO" in err + said
    code, said, _ = samespot("index", photos, "--out", out)
    assert code == 0
    assert "nothing changed" in " ".join(said.split())
    assert open_generation(out).number == 1


def test_what_is_left_out_is_told(samespot, street, shoot, model, tmp_path):
    photos = street(3)
    shoot(photos / "inside.jpg", 9, latitude=None)
    code, said, err = samespot("index", photos, "--out", tmp_path / "map", "--model", model, "--no-verify")
    assert code == 0, err
    assert "left out, no GPS in EXIF" in said
    assert open_generation(tmp_path / "map").keypoints(0) is None


def test_adding_and_removing(samespot, street, model, tmp_path):
    photos, more, out = street(4), street(2, "more", first=30), tmp_path / "map"
    assert samespot("index", photos, "--out", out, "--model", model)[0] == 0
    assert (
        samespot("index", "--out", out, "--add", more, "--remove", "000.jpg", "--remove", "00[12]*")[0] == 0
    )
    names = open_generation(out).places.table["image"].tolist()
    assert names == ["003.jpg", "../more/030.jpg", "../more/031.jpg"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "give a folder or table of photos, or --add, --remove or --engine"),
        (("--remove", "x"), "no map here to take photos out of"),
        (("nowhere",), "nowhere"),
        (("photos", "--no-verify", "--keypoints", "20"), "--keypoints has no effect with --no-verify"),
        (("photos", "--whiten", "model"), "--whiten model: this model has no whitening of its own"),
        (("photos", "--model", "none-such"), "no such folder, and no network of that name"),
        (("photos", "--dims", "0"), "--dims"),
    ],
)
def test_one_line_for_a_mistake(samespot, street, model, tmp_path, monkeypatch, words, line):
    street(2)
    monkeypatch.chdir(tmp_path)
    if words[:1] == ("photos",) and "--model" not in words:
        words = (*words, "--model", str(model))
    code, _, err = samespot("index", *words, "--out", tmp_path / "map")
    assert code == 2
    assert line in " ".join(err.split())
    assert len(err.strip().splitlines()) == 1


def test_a_map_of_another_folder_says_how_to_add(samespot, street, model, tmp_path):
    out = tmp_path / "map"
    assert samespot("index", street(2), "--out", out, "--model", model)[0] == 0
    code, _, err = samespot("index", street(2, "other", first=9), "--out", out)
    assert code == 2
    assert "add its photos with --add" in err
