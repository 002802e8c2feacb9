"""Figures of a labelled set: the numbers behind them, and that each is drawn."""

import time
import warnings

import numpy as np
import pytest
from PIL import Image

from samespot import Places, label_pairs, sector_overlap
from samespot.errors import InputError
from samespot.figures import cloud_pair, label_set, sectors, similarity, style
from samespot.figures.label_set import draw_label_set, example_pairs
from samespot.figures.sectors import draw_pair
from samespot.figures.similarity import (
    PairSample,
    draw_relation,
    mean_over_distance_and_turn,
    sample_pairs,
    similarity_histogram,
)
from samespot.figures.style import without_pale
from samespot.overlap.cloud import PointCloud
from samespot.overlap.rules import Points, Sectors, Within
from samespot.overlap.scene import Scene
from samespot.overlap.task import LabelTask, run_task
from samespot.places.camera import Camera


def town(seed, n=150, **columns):
    rng = np.random.default_rng(seed)
    table = {"image": [f"{i}.jpg" for i in range(n)], "easting": rng.uniform(0, 150, n),
             "northing": rng.uniform(0, 150, n), "heading": rng.uniform(0, 360, n), **columns}  # fmt: skip
    return Places.build(".", table, missing_images="ignore")


def test_the_sample_is_every_pair_within_the_distance():
    queries, places = town(0), town(1)
    labels = label_pairs(queries, places)
    sample = sample_pairs(labels, queries, places, within=40.0)
    offset = queries.positions[:, None] - places.positions[None]
    near = np.hypot(offset[..., 0], offset[..., 1]) <= 40.0
    assert len(sample.distance) == near.sum()
    assert np.sort(sample.similarity).tolist() == np.sort(labels.dense()[near]).tolist()
    turn = np.abs((offset[..., 2] + 180) % 360 - 180)
    np.testing.assert_allclose(np.sort(sample.turn), np.sort(turn[near]))
    assert len(sample_pairs(labels, queries, places, within=40.0, most=100).distance) < near.sum()


def test_the_heat_map_is_the_mean_of_each_cell():
    queries, places = town(2), town(3)
    sample = sample_pairs(label_pairs(queries, places), queries, places, within=100.0)
    means, distances, turns = mean_over_distance_and_turn(sample, bins=6)
    cell = (
        (sample.distance >= distances[1]) & (sample.distance < distances[2])
        & (sample.turn >= turns[0]) & (sample.turn < turns[1])
    )  # fmt: skip
    assert cell.sum() > 20
    assert means[0, 1] == pytest.approx(sample.similarity[cell].mean(), rel=1e-6)


def test_examples_are_real_pairs_near_the_wanted_similarity():
    places = town(4)
    labels = label_pairs(places, places)
    found = example_pairs(labels)
    assert set(found) == {0.75, 0.5, 0.25}
    for psi, (i, j) in found.items():
        assert i != j
        assert sector_overlap(places.positions[i], places.positions[j]) == pytest.approx(psi, abs=0.1)


def test_figures_are_drawn_also_for_disks_and_empty_labels(tmp_path):
    heading = np.full(150, np.nan)
    blind = town(5, heading=heading)
    done = run_task(LabelTask("blind", blind, town(6), Sectors(unknown_heading="disk")))
    drawn = draw_label_set(done, tmp_path / "blind")
    assert {p.name for p in drawn} >= {"similarity.png", "distance_and_turn.png", "pair_050.png"}
    far = town(7, easting=np.full(150, 1e5))
    alone = run_task(LabelTask("alone", far, town(8), Sectors()))
    assert [p.name for p in draw_label_set(alone, tmp_path / "alone")] == ["similarity.png"]


def test_what_two_views_share_is_magenta(tmp_path):
    path = draw_pair(tmp_path / "pair.png", [0, 0, 0], [5, 0, 0], theta=90, radius=50)
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3).astype(int)
    magenta = (np.abs(pixels - [190, 115, 180]).max(axis=1) < 45).mean()
    path = draw_pair(tmp_path / "apart.png", [0, 0, 0], [5, 0, 180], theta=90, radius=50)
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3).astype(int)
    assert magenta > 0.1
    assert (np.abs(pixels - [190, 115, 180]).max(axis=1) < 45).mean() < 0.01


@pytest.fixture
def drawn(monkeypatch):
    """Figures as matplotlib objects: what is saved is also kept here."""
    figures = []

    def keep(figure, path):
        figures.append(figure)
        return style.save(figure, path)

    for module in (similarity, sectors, cloud_pair):
        monkeypatch.setattr(module, "save", keep)
    return figures


@pytest.fixture
def no_relation(monkeypatch):
    """The largest figure takes a second to draw, and some tests are about the others."""

    def pretend(path, sample):
        path.write_text("a figure")
        return path

    monkeypatch.setattr(label_set, "draw_relation", pretend)


def luminance(colours):
    return (np.asarray(colours)[:, :3] @ [0.2126, 0.7152, 0.0722]).tolist()


@pytest.mark.parametrize("number", [1, 60, 1500, 4000])
def test_every_pair_can_be_seen_on_white(tmp_path, drawn, number):
    rng = np.random.default_rng(0)
    sample = PairSample(
        rng.uniform(0, 100, number),
        rng.uniform(0, 180, number),
        rng.uniform(0.1, 1, number).astype(np.float32),
    )
    draw_relation(tmp_path / "relation.png", sample)
    for panel in drawn[0].axes[:2]:
        marks = panel.collections[0]
        colours = marks.get_facecolors()
        assert max(luminance(colours)) < 0.86
        if number < 2000:
            assert len(marks.get_offsets()) == number
    assert luminance(without_pale("Greys")([0.0, 1.0])) == pytest.approx([0.85, 0.0], abs=0.02)


def test_nothing_is_drawn_where_no_pair_is(tmp_path, drawn, monkeypatch):
    from mpl_toolkits.mplot3d import Axes3D

    surfaces, plot = [], Axes3D.plot_surface
    monkeypatch.setattr(
        Axes3D, "plot_surface", lambda axes, *xyz, **look: [surfaces.append(xyz), plot(axes, *xyz, **look)]
    )
    rng = np.random.default_rng(1)
    n = 6000  # near pairs at 1, far ones at 0, none between
    near = np.arange(n) < n // 2
    distance = np.where(near, rng.uniform(0, 30, n), rng.uniform(70, 100, n))
    sample = PairSample(distance, rng.uniform(0, 180, n), near.astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_relation(tmp_path / "relation.png", sample)
    assert len(surfaces) == 1
    x, _, z = surfaces[0]
    gap = (x > 35) & (x < 65)
    assert np.ma.getmaskarray(z)[gap].all()
    assert not np.ma.getmaskarray(z)[(x < 28) | (x > 72)].any()
    heat = drawn[0].axes[2]
    contours = [p for c in heat.collections[1:] for p in c.get_paths() if len(p.vertices)]
    assert contours == []  # an invented 0 beside the near pairs would put ψ = .5 there
    assert "no pair" in heat.get_title(loc="left")


def test_too_few_pairs_for_a_surface_is_said(tmp_path, drawn):
    draw_relation(
        tmp_path / "r.png", PairSample(np.array([3.0]), np.array([9.0]), np.array([0.7], np.float32))
    )
    surface = next(axes for axes in drawn[0].axes if axes.name == "3d")
    assert [t.get_text() for t in surface.texts] == ["too few pairs for a surface"]
    assert len(surface.collections) == 0


def test_an_images_pair_with_itself_is_not_in_the_histogram(tmp_path, drawn):
    places = town(9)
    labels = label_pairs(places, places)
    dense = labels.dense()
    off = dense[~np.eye(150, dtype=bool)]
    found = similarity_histogram(labels)
    assert found.heights.tolist() == np.histogram(off[off > 0], 40, (0, 1))[0].tolist()
    assert found.counts == {
        "pairs": 150 * 149,
        "nonzero": (off > 0).sum(),
        "positive": (off >= 0.5).sum(),
        "hard positive": (off >= 0.75).sum(),
        "soft negative": ((off > 0) & (off < 0.5)).sum(),
        "hard negative": (off == 0).sum(),
    }
    similarity.draw_histogram(tmp_path / "own.png", labels)
    assert "without each image's pair with itself" in drawn[0].axes[0].get_legend().get_title().get_text()
    queries = town(10)
    labels = label_pairs(queries, places)
    assert similarity_histogram(labels).counts == labels.counts()
    similarity.draw_histogram(tmp_path / "other.png", labels)
    assert "itself" not in drawn[1].axes[0].get_legend().get_title().get_text()


def test_the_sample_of_a_table_with_itself_has_the_stored_similarities():
    places = town(11)
    labels = label_pairs(places, places)
    sample = sample_pairs(labels, places, places, within=100.0)
    offset = places.positions[:, None] - places.positions[None]
    near = (np.hypot(offset[..., 0], offset[..., 1]) <= 100.0) & ~np.eye(150, dtype=bool)
    assert np.sort(sample.similarity).tolist() == np.sort(labels.dense()[near]).tolist()


def test_sampling_a_large_sparse_set_takes_seconds():
    rng, n, side = np.random.default_rng(2), 50_000, 75_000.0
    where = {"easting": rng.uniform(0, side, n), "northing": rng.uniform(0, side, n)}
    places = town(12, n=n, **where)
    labels = label_pairs(places, places)
    start = time.perf_counter()
    sample = sample_pairs(labels, places, places, within=100.0)
    assert time.perf_counter() - start < 5.0  # 0.4 s; a copy of the table for each query took a minute
    assert len(sample.distance) == pytest.approx(n * n * np.pi * 100.0**2 / side**2, rel=0.05)


def test_a_pair_figure_says_which_rows_to_ask_for(tmp_path, drawn, no_relation):
    places = town(13)
    done = run_task(LabelTask("t", places, places, Sectors()))
    draw_label_set(done, tmp_path, (12, 34))
    legend = drawn[-1].axes[0].get_legend()
    assert [t.get_text() for t in legend.get_texts()] == ["query 12: 12.jpg", "map 34: 34.jpg"]
    for name in ("12.jpg", "34.jpg"):
        Image.new("RGB", (64, 48)).save(tmp_path / name)
    there = Places(tmp_path, places.table)
    draw_label_set(run_task(LabelTask("t", there, there, Sectors())), tmp_path, (12, 34))
    titles = [axes.get_title(loc="left") for axes in drawn[-1].axes[:2]]
    assert titles == ["query 12: 12.jpg", "map 34: 34.jpg"]
    (tmp_path / "34.jpg").write_bytes(b"torn")
    with pytest.raises(InputError, match=r"34\.jpg: cannot decode the image"):
        draw_label_set(run_task(LabelTask("t", there, there, Sectors())), tmp_path, (12, 34))


def test_so_does_the_figure_of_a_3d_pair(tmp_path, drawn, no_relation):
    x, y = np.meshgrid(np.arange(-2, 2, 0.1), np.arange(-1, 1, 0.1))
    wall = PointCloud(np.stack([x.ravel(), y.ravel(), np.full(x.size, 3.0)], axis=1))
    scene = Scene(wall, Camera(64, 48, 50.0, 50.0, 32.0, 24.0), "a wall")
    pose = {"tx": [0.0, 0.3, 0.6], "ty": 0.0, "tz": 0.0, "qw": 1.0, "qx": 0.0, "qy": 0.0, "qz": 0.0}
    places = town(16, n=3, **pose)
    draw_label_set(run_task(LabelTask("t", places, places, Points(lambda _: scene))), tmp_path, (0, 2))
    photos = [axes.texts[-1].get_text() for axes in drawn[-1].axes[:2]]
    assert photos == ["query 0: 0.jpg", "map 2: 2.jpg"]


def test_each_camera_of_a_3d_pair_is_drawn_with_its_own_lens(tmp_path, monkeypatch, no_relation):
    asked = {}
    monkeypatch.setattr(cloud_pair, "draw_cloud_pair", lambda out, **what: asked.update(what) or out)
    wall = PointCloud(np.array([[x, y, 3.0] for x in (-0.2, 0, 0.2) for y in (-0.2, 0.2)]))
    lenses = {1: Camera(64, 48, 50.0, 50.0, 32.0, 24.0), 2: Camera(80, 80, 90.0, 90.0, 40.0, 40.0)}
    pose = {"tx": [0.0, 0.1], "ty": 0.0, "tz": 0.0, "qw": 1.0, "qx": 0.0, "qy": 0.0, "qz": 0.0}
    places = town(17, n=2, camera_id=[1, 2], **pose)
    done = run_task(LabelTask("t", places, places, Points(lambda _: Scene(wall, lenses, "six points"))))
    draw_label_set(done, tmp_path, (0, 1))
    assert asked["camera"] == (lenses[1], lenses[2])


def test_a_long_file_name_keeps_its_ends():
    one = town(14, n=1, image=["city/" + "a" * 30 + "b" * 30 + ".jpg"])
    name = label_set._name(one)
    assert len(name) == 28
    assert name.startswith("aaaa")
    assert name.endswith("bbb.jpg")


def test_a_heading_that_is_unknown_is_not_drawn(tmp_path, drawn):
    draw_pair(tmp_path / "blind.png", [0, 0, np.nan], [5, 0, 90], theta=(360.0, 90.0))
    axes = drawn[0].axes[0]
    assert len(axes.texts) == 1  # the arrow of the other
    assert "turn unknown" in axes.get_title(loc="left")


def test_figures_of_an_earlier_rule_are_removed_and_others_stay(tmp_path, no_relation):
    places = town(15)
    graded = run_task(LabelTask("t", places, places, Sectors()))
    first = draw_label_set(graded, tmp_path, (3, 4)) + draw_label_set(graded, tmp_path)
    assert not (tmp_path / "pair_3_4.png").exists()
    assert (tmp_path / "pair_075.png") in first
    for name in ("town.png", "pair_mine.png", "notes.txt"):
        (tmp_path / name).write_text("not ours")
    with pytest.raises(InputError, match="`pair` 150,0: there are 150 queries"):
        draw_label_set(graded, tmp_path, (150, 0))
    assert (tmp_path / "pair_075.png").exists()  # a refused call changes nothing
    binary = run_task(LabelTask("t", places, places, Within(25.0, 40.0)))
    now = draw_label_set(binary, tmp_path)
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {p.name for p in now} | {"town.png", "pair_mine.png", "notes.txt"}
    assert "pair_075.png" not in left
