"""A map is what its photos are, whatever came between: additions, removals, moves, other settings."""

import hashlib
import json
import os
import shutil
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import samespot
from samespot import InputError, Places
from samespot.images.reading import read_image
from samespot.maps import build, folder
from samespot.maps.build import update_map
from samespot.maps.folder import open_generation
from samespot.places.pose import PoseFrame
from samespot.retrieval.describe import OnDevice
from samespot.storage import MissingPhotoError

pytestmark = pytest.mark.usefixtures("quick")


def made(source, out, net, **options):
    return update_map(source, out, model=net, **options)


def names(generation):
    return generation.places.table["image"].tolist()


def assert_sound(generation, net):
    """Every row is of the photo that its name tells, in all that is kept of it."""
    paths = generation.places.images
    plain = generation.plain(np.arange(len(generation)))
    expected = net.describe_images(paths).numpy()
    np.testing.assert_allclose(plain, expected, atol=2e-3)
    for row, path in enumerate(paths):
        image = read_image(path)
        if (keypoints := generation.keypoints(row)) is not None:
            first = image.reshape(3, -1)[:, : len(keypoints)].T.numpy().astype(np.int16) - 128
            np.testing.assert_array_equal(keypoints.descriptors, first)
            assert keypoints.size == tuple(image.shape[1:])
        (generation.folder / "x.jpg").write_bytes(generation.thumbnail(row))
        shown = read_image(generation.folder / "x.jpg").float()
        (generation.folder / "x.jpg").unlink()
        assert (shown - image.float()).abs().mean() < 6  # a JPEG of it, not of another scene
    whitened = plain.astype(np.float32)
    if generation.whitening is not None:
        whitened = generation.whitening(plain)
    np.testing.assert_allclose(generation.vectors, whitened, atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(generation.vectors.astype(np.float32), axis=1), 1, atol=2e-3)


def test_what_is_built_is_what_is_opened(street, tmp_path, net):
    photos = street(9)
    built = made(photos, tmp_path / "map", net)
    assert (built.described, built.gone, built.changed) == (9, 0, True)
    opened = open_generation(tmp_path / "map")
    assert names(opened) == [f"{i:03d}.jpg" for i in range(9)]
    assert opened.meta == built.generation.meta
    assert opened.places.projection == "EPSG:32632"
    assert opened.places.root == photos
    from samespot import open_places

    there = open_places(photos)
    np.testing.assert_array_equal(opened.places.positions, there.positions)
    assert opened.places.table.columns.tolist() == there.table.columns.tolist()
    assert_sound(opened, net)


def test_the_facts_of_a_map(street, tmp_path, net):
    meta = made(street(5), tmp_path / "map", net).generation.meta
    assert meta["photos"] == 5
    assert meta["model"]["digest"] == net.digest()
    low, high = meta["bounds"]["latitude"]
    assert low == pytest.approx(48.137, abs=1e-6)
    assert high == pytest.approx(48.1374, abs=1e-6)
    north = meta["bounds"]["northing"]
    assert north[1] - north[0] == pytest.approx(4 * 11.12, abs=0.1)
    assert meta["bytes_per_photo"]["plain descriptors"] == 2 * net.descriptor_size
    assert folder.bytes_of(meta) == sum(
        path.stat().st_size
        for part in ("segments", "generations")
        for path in (tmp_path / "map" / part).rglob("*")
        if path.is_file()
    )


def test_again_and_nothing_changed(street, tmp_path, net):
    photos, out = street(4), tmp_path / "map"
    made(photos, out, net)
    before = {
        path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and path.name != ".lock"
    }
    again = made(photos, out, net)
    assert (again.changed, again.described, again.generation.number) == (False, 0, 1)
    after = {
        path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and path.name != ".lock"
    }
    assert after == before


def test_only_what_is_new_or_changed_is_described(street, tmp_path, net, shoot, touch):
    photos, out = street(6), tmp_path / "map"
    made(photos, out, net)
    (photos / "000.jpg").unlink()
    shoot(photos / "006.jpg", 77, 48.2)
    shoot(photos / "002.jpg", 78, 48.1372)
    touch(photos / "002.jpg")
    built = made(photos, out, net)
    assert (built.described, built.gone, built.generation.number) == (2, 1, 2)
    assert names(built.generation) == [f"{i:03d}.jpg" for i in range(1, 7)]
    assert_sound(built.generation, net)


def test_a_position_that_changed_needs_no_new_description(street, tmp_path, net):
    photos = street(4)
    table = {"image": [f"{i:03d}.jpg" for i in range(4)], "easting": 0.0, "northing": np.arange(4) * 9.0}
    made(Places.build(photos, {**table, "heading": 0.0}), tmp_path / "map", net)
    table["easting"] = np.array([0.0, 0.0, 5.0, 0.0])
    built = made(Places.build(photos, {**table, "heading": 0.0}), tmp_path / "map", net)
    assert (built.described, built.changed) == (0, True)
    assert built.generation.places.positions[2, 0] == 5.0


def test_step_by_step_gives_the_map_that_is_made_at_once(street, tmp_path, net):
    photos = street(60)
    made(photos, tmp_path / "once", net)
    late = tmp_path / "late"
    late.mkdir()
    for i in range(30, 60):
        shutil.move(photos / f"{i:03d}.jpg", late / f"{i:03d}.jpg")
    made(photos, tmp_path / "steps", net)
    for i in range(30, 60):
        shutil.move(late / f"{i:03d}.jpg", photos / f"{i:03d}.jpg")
    made(photos, tmp_path / "steps", net)
    once, steps = open_generation(tmp_path / "once"), open_generation(tmp_path / "steps")
    assert names(once) == names(steps)
    np.testing.assert_allclose(once.plain(np.arange(60)), steps.plain(np.arange(60)), atol=1e-3)
    # signs and axes follow from the descriptors
    similar = [g.vectors.astype(np.float32) @ g.vectors.astype(np.float32).T for g in (once, steps)]
    np.testing.assert_allclose(*similar, atol=0.02)


# ---- several sources ----


def test_add_keeps_the_others_and_names_stay_unique(street, tmp_path, net):
    photos, more = street(4), street(3, "more")  # 000.jpg to 002.jpg are in both
    made(photos, tmp_path / "map", net)
    built = made(None, tmp_path / "map", net, add=[str(more)])
    assert built.described == 3
    assert names(built.generation)[4:] == [f"../more/{i:03d}.jpg" for i in range(3)]
    assert all(path.is_file() for path in built.generation.places.images)
    assert_sound(built.generation, net)
    again = made(photos, tmp_path / "map", net)
    assert not again.changed
    assert not made(None, tmp_path / "map", net, add=[str(more)]).changed


def test_an_added_source_is_brought_up_to_date_by_adding_it_again(street, tmp_path, net):
    photos, more = street(4), street(3, "more", first=50)
    made(photos, tmp_path / "map", net)
    made(None, tmp_path / "map", net, add=[str(more)])
    (more / "051.jpg").unlink()
    built = made(None, tmp_path / "map", net, add=[str(more)])
    assert (built.described, built.gone) == (0, 1)
    assert names(built.generation)[4:] == ["../more/050.jpg", "../more/052.jpg"]


def table_of(photos, rows, easting=0.0, **more):
    columns = {"image": [f"{i:03d}.jpg" for i in rows], "easting": easting, "northing": np.array(rows) * 9.0}
    return Places.build(photos, {**columns, "heading": 0.0, **more})


def test_another_table_of_a_known_root_is_added(street, tmp_path, net):
    photos, out = street(6), tmp_path / "map"
    made(table_of(photos, [0, 1, 2, 3]), out, net)
    built = made(None, out, net, add=[table_of(photos, [2, 5], easting=7.0)])
    assert names(built.generation) == ["000.jpg", "001.jpg", "002.jpg", "003.jpg", "005.jpg"]
    assert built.generation.places.positions[:, 0].tolist() == [0, 0, 7, 0, 7]
    assert (built.described, built.gone) == (1, 0)
    assert_sound(built.generation, net)
    assert not made(None, out, net, add=[table_of(photos, [2, 5], easting=7.0)]).changed


def test_a_root_is_given_and_added_at_once(street, tmp_path, net):
    photos = street(4)
    built = made(table_of(photos, [0, 1]), tmp_path / "map", net, add=[table_of(photos, [3])])
    assert names(built.generation) == ["000.jpg", "001.jpg", "003.jpg"]


def test_another_split_of_a_known_table_is_added(street, tmp_path, net):
    photos, out = street(4), tmp_path / "map"
    table_of(photos, [0, 1, 2, 3], split=["map", "query"] * 2).save(photos / "places.csv")
    made(photos / "places.csv", out, net, split="map")
    built = made(None, out, net, add=[str(photos / "places.csv")], split="query")
    assert sorted(names(built.generation)) == [f"{i:03d}.jpg" for i in range(4)]
    assert built.described == 2
    for split in ("map", "query"):
        assert not made(None, out, net, add=[str(photos / "places.csv")], split=split).changed


def test_a_table_on_another_plane_joins_its_source(street, tmp_path, net):
    photos, out = street(6), tmp_path / "map"
    degrees = {"image": [f"{i:03d}.jpg" for i in range(6)], "latitude": 48.137, "longitude": 11.575}
    pd.DataFrame(degrees).to_csv(photos / "places.csv", index=False)
    first = samespot.open_places(photos / "places.csv", projection="EPSG:32632").select(slice(0, 3))
    second = samespot.open_places(photos / "places.csv", projection="EPSG:32633").select(slice(3, 6))
    made(first, out, net)
    at = made(None, out, net, add=[second]).generation.places.positions[:, :2]
    np.testing.assert_allclose(at, np.tile(at[:1], (6, 1)), atol=0.01)


def test_only_what_is_added_again_comes_back(street, tmp_path, net):
    photos, out = street(5), tmp_path / "map"
    made(table_of(photos, range(5)), out, net)
    made(None, out, net, remove=["00[123]*", "004.jpg"])
    built = made(None, out, net, add=[table_of(photos, [2])])
    assert names(built.generation) == ["000.jpg", "002.jpg"]
    built = made(table_of(photos, range(5)), out, net)
    assert names(built.generation) == ["000.jpg", "002.jpg"]


def test_a_photo_that_two_sources_have_is_taken_once(street, tmp_path, net):
    photos = street(4)
    inner = street(2, "photos/inner", first=20)
    made(photos, tmp_path / "map", net)
    built = made(None, tmp_path / "map", net, add=[str(inner)])
    assert len(built.generation) == 6
    assert built.generation.meta["left_out"] == {"in the map already": 2}


def test_another_folder_is_no_new_state_of_the_map(street, tmp_path, net):
    made(street(4), tmp_path / "map", net)
    with pytest.raises(InputError, match=r"is a map of .*photos, not of .*other; add its photos with `add`"):
        made(street(4, "other", first=30), tmp_path / "map", net)
    assert len(open_generation(tmp_path / "map")) == 4


def test_a_folder_that_moved_is_known_again(street, tmp_path, net):
    photos, more = street(5), street(2, "more", first=50)
    made(photos, tmp_path / "map", net)
    made(None, tmp_path / "map", net, add=[str(more)])
    photos.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "004.jpg").unlink()
    built = made(tmp_path / "elsewhere", tmp_path / "map", net)
    assert (built.described, len(built.generation)) == (0, 6)
    assert all(path.is_file() for path in built.generation.places.images)


def test_towns_far_apart_share_one_plane(tmp_path, shoot, net):
    for i in range(3):
        shoot(tmp_path / "munich" / f"{i}.jpg", i, 48.137 + i * 1e-4, 11.575)
        shoot(tmp_path / "rio" / f"{i}.jpg", 9 + i, -22.908 - i * 1e-4, -43.175)
    made(tmp_path / "munich", tmp_path / "map", net)
    generation = made(None, tmp_path / "map", net, add=[str(tmp_path / "rio")]).generation
    low, high = generation.meta["bounds"]["latitude"]
    assert (low, high) == (pytest.approx(-22.9082, abs=1e-5), pytest.approx(48.1372, abs=1e-5))
    at = generation.places.positions[:, :2]
    apart = np.hypot(*(at[0] - at[3]))
    assert apart == pytest.approx(9_850e3, rel=0.05)
    for first in (0, 3):  # neighbours stay 11 m apart, nearly: no plane is true over half the earth
        assert np.hypot(*(at[first] - at[first + 1])) == pytest.approx(11.1, rel=0.15)
    assert_sound(generation, net)


def test_two_towns_in_one_folder(tmp_path, shoot, net):
    shoot(tmp_path / "photos/a.jpg", 0, 48.137, 11.575)
    shoot(tmp_path / "photos/b.jpg", 1, -22.908, -43.175)
    generation = made(tmp_path / "photos", tmp_path / "map", net).generation
    assert any("km" in note for note in generation.places.notes)
    assert len(generation) == 2


# ---- removal ----


@pytest.mark.parametrize(
    "word", ["walk/001.jpg", "walk", "walk/", "w*/00?.jpg", "{root}/walk", "{root}/walk/001.jpg"]
)
def test_a_name_a_pattern_or_a_folder_is_taken_out(street, tmp_path, net, word):
    street(2, "photos/walk")
    photos = street(3, first=10)
    made(photos, tmp_path / "map", net)
    built = made(None, tmp_path / "map", net, remove=[word.format(root=photos)])
    left = ["walk/000.jpg"] if word.endswith("001.jpg") else []
    assert names(built.generation) == ["010.jpg", "011.jpg", "012.jpg", *left]
    assert built.gone == 2 - len(left)
    assert_sound(built.generation, net)


def test_what_was_taken_out_stays_out_until_it_is_added_again(street, tmp_path, net):
    photos, out = street(4), tmp_path / "map"
    made(photos, out, net)
    made(None, out, net, remove=["001.jpg"])
    assert not made(photos, out, net).changed
    assert open_generation(out).meta["left_out"] == {"taken out with --remove": 1}
    built = made(None, out, net, add=[str(photos)])
    assert len(built.generation) == 4


@pytest.mark.parametrize("word", ["photos/walk", "./photos/walk/", "photos/walk/001.jpg"])
def test_a_relative_path_means_the_same_from_everywhere(street, tmp_path, net, monkeypatch, word):
    street(2, "photos/walk")
    photos, out = street(3, first=10), tmp_path / "map"
    made(photos, out, net)
    monkeypatch.chdir(tmp_path)
    left = names(made(None, out, net, remove=[word]).generation)
    assert len(left) == (4 if word.endswith(".jpg") else 3)
    monkeypatch.chdir("/")
    assert not made(photos, out, net).changed
    photos.rename(tmp_path / "elsewhere")
    assert names(made(tmp_path / "elsewhere", out, net).generation) == left


def test_a_word_never_comes_to_mean_a_path(street, tmp_path, net, monkeypatch):
    """What was said of names in the source is not read as a path of the working directory later."""
    photos, out = street(3), tmp_path / "map"
    street(1, "photos/walk", first=1)
    made(photos, out, net)
    made(None, out, net, remove=["001.jpg"])
    monkeypatch.chdir(photos / "walk")
    built = made(photos, out, net)
    assert not built.changed
    assert names(built.generation) == ["000.jpg", "002.jpg", "walk/001.jpg"]


def test_a_folder_above_the_source_is_taken_out(street, tmp_path, net, monkeypatch):
    photos, out = street(2), tmp_path / "map"
    more = street(2, "far/more", first=9)
    made(photos, out, net)
    made(None, out, net, add=[str(more)])
    monkeypatch.chdir(tmp_path)
    assert names(made(None, out, net, remove=["far"]).generation) == ["000.jpg", "001.jpg"]
    monkeypatch.chdir("/")
    assert not made(photos, out, net).changed


def test_a_removal_that_means_nothing_is_refused(street, tmp_path, net):
    made(street(2), tmp_path / "map", net)
    with pytest.raises(InputError, match="no photo of the map is meant"):
        made(None, tmp_path / "map", net, remove=["nothing*"])
    with pytest.raises(InputError, match="no photo is left for the map"):
        made(None, tmp_path / "map", net, remove=["*"])
    assert len(open_generation(tmp_path / "map")) == 2


def test_removing_from_no_map(tmp_path, net):
    with pytest.raises(InputError, match="no map here to take photos out of"):
        made(None, tmp_path / "map", net, remove=["a"])


# ---- what is kept ----


def test_without_local_features(street, tmp_path, net):
    generation = made(street(3), tmp_path / "map", net, verify=False).generation
    assert generation.keypoints(0) is None
    assert generation.meta["verifier"] is None
    assert_sound(generation, net)


def test_a_map_keeps_its_own_settings(street, tmp_path, net):
    photos = street(3)
    made(photos, tmp_path / "map", net, keypoints=20, dims=16, whiten="none")
    again = update_map(photos, tmp_path / "map")  # nothing is said, not even of the model
    assert not again.changed
    assert len(again.generation.keypoints(0)) == 20


def recipe_of_before(meta):
    """As maps had it whose meta.json did not tell a precision."""
    model = meta["model"]
    told = [folder.FORMAT, model["digest"], model["preprocessing"], meta["verifier"], 192]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def test_a_map_keeps_its_precision_and_another_means_that_all_is_described_again(street, tmp_path, net):
    photos, out = street(3), tmp_path / "map"
    assert made(photos, out, net, device="cpu").generation.precision == "32"
    built = made(photos, out, net, device="cpu", precision="bf16")
    assert (built.described, built.generation.meta["precision"]) == (3, "bf16")
    street(1, first=3)
    built = made(photos, out, net, device="cpu")  # the map's own
    assert (built.described, built.generation.precision) == (1, "bf16")
    assert not made(photos, out, net, device="cpu", precision="bf16").changed
    half = built.generation.plain([3])
    built = made(photos, out, net, device="cpu", precision="32")
    assert (built.described, built.generation.precision) == (4, "32")
    assert 1e-5 < np.abs(built.generation.plain([3]) - half).max() < 0.05


def test_what_was_begun_in_another_precision_is_not_gone_on_with(street, tmp_path, net, monkeypatch):
    monkeypatch.setattr(build, "SEGMENT", 2)
    photos, out = street(6), tmp_path / "map"

    def kill(what, done, total):
        if what.startswith("describing") and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(photos, out, net, device="cpu", precision="bf16", progress=kill)
    assert len(folder.photos_there(out)) == 6
    built = made(photos, out, net, device="cpu")
    assert built.described == 6
    alone = made(photos, tmp_path / "alone", net, device="cpu").generation
    np.testing.assert_array_equal(built.generation.plain(np.arange(6)), alone.plain(np.arange(6)))


def test_a_map_that_does_not_tell_its_precision_is_of_full_precision(street, tmp_path, net):
    photos, out = street(3), tmp_path / "map"
    meta = dict(made(photos, out, net, device="cpu").generation.meta)
    assert meta["recipe"] == recipe_of_before(meta)
    del meta["precision"]
    (out / "meta.json").write_text(json.dumps(meta))
    assert open_generation(out).precision == "32"
    for precision in ("auto", "32"):
        assert not made(photos, out, net, device="cpu", precision=precision).changed
    street(1, first=3)
    built = made(photos, out, net, device="cpu")
    assert (built.described, built.generation.meta["precision"]) == (1, "32")


def test_a_new_map_on_a_cluster_is_of_the_precision_that_suits_its_nodes(street, tmp_path, net, monkeypatch):
    """They are asked where they may have GPUs, and the map does not say it already."""
    asked, described = [], []

    def on_nodes(cluster, options, precision):
        asked.append((options.device, precision))
        return OnDevice("cuda", "bf16", 2)

    def made_on_nodes(cluster, work, paths):
        described.append(work.precision)
        return build._looker(work, len(paths))(paths)

    monkeypatch.setattr(build, "joined_cluster", lambda address, tell: nullcontext())
    monkeypatch.setattr(build, "on_nodes", on_nodes)
    monkeypatch.setattr(build, "_made_on_nodes", made_on_nodes)
    photos, out = street(2), tmp_path / "map"
    assert made(photos, out, net, ray="local").generation.precision == "bf16"
    street(1, first=2)
    assert made(photos, out, net, ray="local").generation.precision == "bf16"
    assert made(photos, out, net, ray="local", precision="32").generation.precision == "32"
    assert made(photos, tmp_path / "cpu", net, ray="local", device="cpu").generation.precision == "32"
    assert asked == [("auto", "auto")]
    assert described == ["bf16", "bf16", "32", "32"]


def test_weights_do_not_outlive_their_model(street, tmp_path, net):
    photos, out = street(3), tmp_path / "map"
    made(photos, out, net)
    meta = json.loads((out / "meta.json").read_text())
    meta["options"]["weights"] = "weights.pth"
    (out / "meta.json").write_text(json.dumps(meta))
    built = made(photos, out, net, keypoints=20)
    assert built.generation.meta["options"]["weights"] is None


def test_build_map_takes_what_open_places_takes(street, tmp_path, net):
    photos = street(2)
    pose = dict.fromkeys(("tx", "tz", "qx", "qy", "qz"), 0.0) | {"ty": [1.0, 5.0], "qw": 1.0}
    table_of(photos, [0, 1], **pose).save(photos / "places.csv")
    frame = PoseFrame(forward=(0.0, 1.0, 0.0))
    map = samespot.build_map(
        photos / "places.csv", net, tmp_path / "map", frame=frame, missing_images="error", verify=False
    )
    assert map.positions[:, 1].tolist() == [1.0, 5.0]


def test_other_local_features_mean_that_all_is_described_again(street, tmp_path, net):
    photos, more, out = street(3), street(2, "more", first=9), tmp_path / "map"
    made(photos, out, net, keypoints=20)
    made(None, out, net, add=[str(more)])
    built = made(photos, out, net, keypoints=30)
    assert built.described == 5
    assert [len(built.generation.keypoints(row)) for row in range(5)] == [30] * 5
    assert_sound(built.generation, net)


def test_described_again_needs_the_photos(street, tmp_path, net):
    photos, more, out = street(3), street(2, "more", first=9), tmp_path / "map"
    made(photos, out, net)
    made(None, out, net, add=[str(more)])
    shutil.rmtree(more)
    assert not made(photos, out, net).changed  # not looked at
    with pytest.raises(InputError, match="are not there to be described again"):
        made(photos, out, net, verify=False)


def test_other_dims_need_no_new_description(street, tmp_path, net):
    photos = street(60)
    assert made(photos, tmp_path / "map", net, dims=32).generation.vectors.shape == (60, 32)
    built = made(photos, tmp_path / "map", net, dims=8)
    assert built.described == 0
    assert built.generation.vectors.shape == (60, 8)
    assert built.generation.meta["whitening"]["fitted on"] == "the map"
    assert_sound(built.generation, net)


def test_a_small_map_uses_the_models_whitening(street, tmp_path, net):
    from dataclasses import replace

    from samespot import Whitening

    dice = np.random.default_rng(0)
    fitted = Whitening.fit(
        dice.normal(size=(80, net.descriptor_size)).astype(np.float32), "elsewhere", most=24
    )
    assert made(street(5), tmp_path / "plain", net).generation.whitening is None
    net.whitening = replace(fitted)
    try:
        generation = made(street(5), tmp_path / "map", net, dims=10).generation
        assert generation.meta["whitening"]["fitted on"] == "elsewhere"
        assert generation.vectors.shape == (5, 10)
        assert_sound(generation, net)
    finally:
        net.whitening = None


def test_the_model_goes_with_the_map(street, tmp_path, net):
    from samespot.maps.own_model import load_own

    photos = street(3)
    net.save(tmp_path / "mine")
    update_map(photos, tmp_path / "map", model=str(tmp_path / "mine"))
    shutil.rmtree(tmp_path / "mine")
    meta = open_generation(tmp_path / "map").meta
    assert load_own(tmp_path / "map", meta["model"]).digest() == net.digest()
    assert not update_map(photos, tmp_path / "map").changed


def test_small_segments_are_put_together(street, tmp_path, net, monkeypatch):
    monkeypatch.setattr(build, "SEGMENT", 10)
    monkeypatch.setattr(build, "SPARSE", 5)
    photos, out = street(1), tmp_path / "map"
    for count in range(2, 14):
        street(1, first=count)
        made(photos, out, net)
    generation = open_generation(out)
    assert len(generation) == 13
    assert len(generation.segments) < build.FEW_SPARSE
    assert_sound(generation, net)


def test_old_generations_go_but_the_last(street, tmp_path, net):
    photos, out = street(3), tmp_path / "map"
    made(photos, out, net)
    reader = open_generation(out)
    for count in range(3, 6):
        os.unlink(photos / f"{count - 3:03d}.jpg")
        street(1, first=count)
        made(photos, out, net)
    there = sorted(path.name for path in (out / "generations").iterdir())
    assert there == ["000003", "000004"]
    assert open_generation(out).number == 4
    assert names(reader) == ["000.jpg", "001.jpg", "002.jpg"]  # and all of it can still be read
    assert reader.keypoints(0) is not None
    assert len(reader.thumbnail(0)) > 100
    assert np.isfinite(reader.vectors).all()


# ---- photos of all kinds ----


def test_photos_of_all_kinds(tmp_path, shoot, net):
    photos = tmp_path / "photos"
    shoot(photos / "good.jpg", 0)
    shoot(photos / "cmyk.jpg", 1, mode="CMYK")
    shoot(photos / "grey.jpg", 2, mode="L")
    shoot(photos / "turned.jpg", 3, turn=6)
    shoot(photos / "dot.jpg", 4, size=(1, 1))
    shoot(photos / "far.jpg", 5, latitude=None)
    shoot(photos / "lost.jpg", 6, heading=None)
    whole = shoot(photos / "cut.jpg", 7, size=(640, 480)).read_bytes()
    (photos / "cut.jpg").write_bytes(whole[: len(whole) // 3])
    (photos / "text.jpg").write_text("not an image")
    head = bytearray(shoot(photos / "bomb.jpg", 8).read_bytes())
    at = head.index(b"\xff\xc0") + 5
    head[at : at + 4] = b"\xff\xff\xff\xff"
    (photos / "bomb.jpg").write_bytes(bytes(head))
    expected = ["cmyk.jpg", "dot.jpg", "good.jpg", "grey.jpg", "lost.jpg", "turned.jpg"]
    try:
        from pillow_heif import register_heif_opener

        register_heif_opener()
        with Image.open(photos / "good.jpg") as image:
            image.save(photos / "phone.heic", exif=image.getexif())
        expected = sorted([*expected, "phone.heic"])
    except ImportError:
        pass
    generation = made(photos, tmp_path / "map", net).generation
    found = set(names(generation))
    assert found == set(expected)
    assert generation.meta["left_out"] == {"no GPS in EXIF": 1, "unreadable image file": 3}
    assert generation.meta["without_heading"] == 1
    assert list(generation.left_out()[0]) == ["cut.jpg"]  # a header tells of the others
    assert "truncated" in generation.left_out()[0]["cut.jpg"]
    row = names(generation).index("turned.jpg")
    assert generation.keypoints(row).size == (64, 48)  # upright
    again = made(photos, tmp_path / "map", net)
    assert not again.changed


def test_a_photo_that_was_mended_comes_in(street, tmp_path, net):
    photos = street(3)
    columns = {"image": [f"{i:03d}.jpg" for i in range(3)], "easting": 0.0, "northing": np.arange(3.0)}
    good = (photos / "001.jpg").read_bytes()
    (photos / "001.jpg").write_text("nothing")
    first = made(Places.build(photos, columns), tmp_path / "map", net).generation
    assert names(first) == ["000.jpg", "002.jpg"]
    assert first.meta["left_out"] == {"unreadable image file": 1}
    (photos / "001.jpg").write_bytes(good)
    second = made(Places.build(photos, columns), tmp_path / "map", net)
    assert (second.described, len(second.generation), second.generation.meta["left_out"]) == (1, 3, {})


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_photos(street, tmp_path, net, count):
    generation = made(street(count), tmp_path / "map", net).generation
    assert generation.vectors.shape == (count, net.descriptor_size)
    assert_sound(generation, net)


def test_the_same_photo_many_times_at_one_spot(tmp_path, shoot, net):
    for i in range(60):
        shoot(tmp_path / "photos" / f"{i}.jpg", 5)
    generation = made(tmp_path / "photos", tmp_path / "map", net).generation
    assert generation.whitening is None  # nothing to tell apart
    assert len(generation) == 60


def test_headings_can_be_asked_for(tmp_path, shoot, net):
    shoot(tmp_path / "photos/a.jpg", 0)
    shoot(tmp_path / "photos/b.jpg", 1, heading=None)
    generation = made(tmp_path / "photos", tmp_path / "map", net, need_heading=True).generation
    assert names(generation) == ["a.jpg"]
    assert generation.meta["left_out"] == {"heading unknown": 1}


def test_photos_that_are_not_there_are_left_out(street, tmp_path, net):
    photos = street(2)
    columns = {"image": ["000.jpg", "gone.jpg", "001.jpg"], "easting": 0.0, "northing": [0.0, 9.0, 18.0]}
    places = Places.build(photos, {**columns, "heading": 0.0})
    generation = made(places, tmp_path / "map", net).generation
    assert names(generation) == ["000.jpg", "001.jpg"]
    assert generation.meta["left_out"] == {"image file missing": 1}


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "a folder with a note"])
def test_a_disk_that_goes_away_meanwhile_does_not_make_the_map_smaller(street, tmp_path, net, left):
    photos = street(9)
    made(photos, tmp_path / "map", net)
    away, more = tmp_path / "away", shutil.copytree(photos, tmp_path / "more")
    for path in more.iterdir():
        Image.open(path).rotate(180).save(path, exif=Image.open(path).getexif())

    def unmounted(what, done, total):
        if what.startswith("describing") and not away.exists():
            more.rename(away)
            if left != "nothing":
                more.mkdir()
            if left == "a folder with a note":
                (more / "not mounted").touch()

    with pytest.raises(InputError, match=r"more: its photos are no longer there; put them back.*resumes"):
        update_map(None, tmp_path / "map", add=(str(more),), progress=unmounted)
    assert len(open_generation(tmp_path / "map")) == 9
    shutil.rmtree(more, ignore_errors=True)
    away.rename(more)
    assert len(update_map(None, tmp_path / "map", add=(str(more),)).generation) == 18


def test_photos_are_added_while_the_first_folder_is_away(street, tmp_path, net):
    photos = street(5)
    made(photos, tmp_path / "map", net)
    more = street(4, "more", first=5)
    photos.rename(tmp_path / "away")
    assert len(update_map(None, tmp_path / "map", add=(str(more),)).generation) == 9


def of_two_cameras(street, tmp_path):
    """A table of photos in two folders beside it."""
    root = street(4, "table/left").parent
    street(4, "table/right", first=4)
    columns = {"image": [f"{'left' if i < 4 else 'right'}/{i:03d}.jpg" for i in range(8)], "easting": 0.0}
    return Places.build(root, {**columns, "northing": np.arange(8) * 9.0, "heading": 0.0})


def test_a_disk_below_a_table_that_goes_away_meanwhile(street, tmp_path, net):
    places = of_two_cameras(street, tmp_path)
    right = places.root / "right"

    def unmounted(what, done, total):
        if what.startswith("describing") and any(right.iterdir()):
            shutil.rmtree(right)
            right.mkdir()

    with pytest.raises(InputError, match=r"right: its photos are no longer there; put them back"):
        made(places, tmp_path / "map", net, progress=unmounted)


def test_a_photo_that_is_deleted_meanwhile_is_left_out(street, tmp_path, net):
    places = of_two_cameras(street, tmp_path)

    def deleted(what, done, total):
        if what.startswith("describing"):
            (places.root / "right" / "006.jpg").unlink(missing_ok=True)

    generation = made(places, tmp_path / "map", net, progress=deleted).generation
    assert len(generation) == 7
    assert generation.meta["left_out"] == {"unreadable image file": 1}


def test_a_photo_that_is_there_and_was_not_found_is_not_left_out(street, tmp_path, net, monkeypatch):
    """As of a node of a cluster that lost its mount."""
    original = build.PhotoLooker._made

    def lost(looker, some):
        seen = original(looker, some)
        return [*seen[:-1], MissingPhotoError("cannot read the image (No such file or directory)")]

    monkeypatch.setattr(build.PhotoLooker, "_made", lost)
    with pytest.raises(InputError, match=r"004\.jpg: exists here but was not found; check the disk"):
        made(street(5), tmp_path / "map", net)


def test_a_photo_of_unknown_position_is_left_out(street, tmp_path, net):
    photos = street(3)
    columns = {"image": [f"{i:03d}.jpg" for i in range(3)], "easting": [0.0, np.nan, 1.0], "northing": 0.0}
    places = Places.build(photos, columns, unknown_positions=True)
    generation = made(places, tmp_path / "map", net).generation
    assert names(generation) == ["000.jpg", "002.jpg"]
    assert generation.meta["left_out"] == {"position unknown": 1}


def test_one_split_of_a_table(street, tmp_path, net):
    photos = street(4)
    columns = {"image": [f"{i:03d}.jpg" for i in range(4)], "easting": 0.0, "northing": np.arange(4.0)}
    Places.build(photos, {**columns, "split": ["map", "query"] * 2}).save(photos / "places.csv")
    generation = made(photos, tmp_path / "map", net, split="map").generation
    assert names(generation) == ["000.jpg", "002.jpg"]


def test_an_empty_folder(tmp_path, net):
    (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match="nothing here that samespot reads"):
        made(tmp_path / "photos", tmp_path / "map", net)
    assert not (tmp_path / "map").exists()


def test_none_of_the_photos_can_be_read(street, tmp_path, net):
    photos = street(2)
    columns = {"image": ["000.jpg", "001.jpg"], "easting": 0.0, "northing": [0.0, 9.0], "heading": 0.0}
    places = Places.build(photos, columns)
    for name in columns["image"]:
        (photos / name).write_text("nothing")
    with pytest.raises(InputError, match=r"no photo is left for the map .2 unreadable image file"):
        made(places, tmp_path / "map", net)
