"""The gallery, read back pixel by pixel: frames, missing photos, and a map whose north is up and whose areas hold."""

import math

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.figures import gallery
from samespot.figures.gallery import (
    MAP_SIDE,
    PALE,
    PAPER,
    RIGHT,
    WRONG,
    GalleryMatch,
    GalleryRow,
    gallery_figure,
    sample_rows,
)
from samespot.figures.style import INK


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def where(picture, colour):
    return np.nonzero((picture == rgb(colour)).all(axis=2))


def map_of(picture):
    """The square of the (only) row's map, without its frame."""
    side = round(MAP_SIDE * gallery.DPI)
    top = round((gallery.HEAD + gallery.CAPTION) * gallery.DPI)
    right = picture.shape[1] - round(gallery.GAP * gallery.DPI)
    return picture[top + 2 : top + side - 2, right - side + 2 : right - 2]


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.new("RGB", (64, 48), (200, 180, 30)).save(path)
    return path


def test_hits_come_first_then_misses_half_of_them_found_later():
    first_hit = np.array([1, 0, 2, 1, 0, 5, 1, 0, 1, 1, 0, 3])
    chosen = sample_rows(first_hit, hits=3, misses=4, seed=1)
    assert (first_hit[chosen[:3]] == 1).all()
    assert (first_hit[chosen[3:]] > 1).sum() == 2
    assert (first_hit[chosen[3:]] == 0).sum() == 2
    assert len(set(chosen.tolist())) == 7
    np.testing.assert_array_equal(sample_rows(first_hit, hits=3, misses=4, seed=1), chosen)
    seeds = {tuple(sample_rows(first_hit, hits=3, misses=4, seed=seed)) for seed in range(20)}
    assert len(seeds) > 5


def test_the_sample_takes_what_there_is_and_never_a_query_that_does_not_count():
    first_hit = np.array([1, 0, 0, 2, 0, 0])
    counted = np.array([True, True, False, True, True, True])
    assert sample_rows(first_hit, counted).tolist() == [
        0,
        1,
        3,
        4,
        5,
    ]  # the only late one, and three of the lost
    assert sample_rows(first_hit, counted, hits=0, misses=1).tolist() == [3]
    assert sample_rows(np.array([2, 3, 4]), misses=3).tolist() == [0, 1, 2]
    assert sample_rows(np.zeros(0, int)).tolist() == []


def test_frames_are_green_for_a_positive_and_orange_for_another_place(photo, tmp_path):
    here, there = (0.0, 0.0, 0.0), (2.0, 0.0, 0.0)
    counts = {}
    for answers in ((True, True), (True, False), (False, False)):
        matches = [GalleryMatch(photo, there, 0.1, answer) for answer in answers]
        drawn = pixels(gallery_figure([GalleryRow(photo, here, matches)], tmp_path / "g.png"))
        drawn = drawn[:, : -round(MAP_SIDE * gallery.DPI) - 20]  # the photos, not the map
        counts[answers] = len(where(drawn, RIGHT)[0]), len(where(drawn, WRONG)[0])
    half = counts[True, False]
    assert min(half) > 500
    assert counts[True, True][0] - half[0] == pytest.approx(half[0], rel=0.2)
    assert counts[False, False][1] - half[1] == pytest.approx(half[1], rel=0.2)


def test_a_missing_photo_is_a_grey_tile_and_not_an_error(photo, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no photo")
    grey = []
    for image in (photo, tmp_path / "absent.jpg", broken):
        row = GalleryRow(photo, (0.0, 0.0, 0.0), [GalleryMatch(image, (2.0, 0.0, 0.0), 0.1, True)])
        grey.append(len(where(pixels(gallery_figure([row], tmp_path / "g.png")), PALE)[0]))
    tile = (gallery.TILE * gallery.DPI) ** 2
    assert grey[0] < 0.02 * tile
    assert min(grey[1:]) > 0.75 * tile


def test_photos_keep_their_shape(tmp_path):
    shapes = {}
    for size in ((300, 150), (150, 300)):
        path = tmp_path / f"{size[0]}.png"
        Image.new("RGB", size, (200, 180, 30)).save(path)
        drawn = pixels(gallery_figure([GalleryRow(path, (0.0, 0.0, 0.0), [])], tmp_path / "g.png"))
        yellow = np.abs(drawn.astype(int) - [200, 180, 30]).max(axis=2) < 12
        rows, columns = np.nonzero(yellow)
        shapes[size] = np.ptp(columns) / np.ptp(rows)
    assert shapes[300, 150] == pytest.approx(2, rel=0.12)  # the frame covers a little of the edge
    assert shapes[150, 300] == pytest.approx(0.5, rel=0.12)


@pytest.mark.parametrize(("east", "north"), [(0, 60), (60, 0), (-60, 0), (0, -60)])
def test_north_is_up_and_east_is_right(photo, tmp_path, east, north):
    match = GalleryMatch(photo, (1000.0 + east, 5000.0 + north, 90.0), 0.1, True)
    row = GalleryRow(photo, (1000.0, 5000.0, 90.0), [match])
    drawn = map_of(pixels(gallery_figure([row], tmp_path / "g.png", theta=None))).copy()
    drawn[-round(0.16 * len(drawn)) :, : round(0.42 * len(drawn))] = 255  # without the scale bar
    query, found = (np.mean(where(drawn, colour), axis=1) for colour in (INK, RIGHT))
    down, right = found - query
    assert np.hypot(down, right) > 20
    assert (right * east - down * north) / np.hypot(down, right) / 60 > 0.95


@pytest.mark.parametrize(
    ("heading", "panorama", "theta", "square_metres"),
    [
        (30.0, False, 90.0, math.pi * 50**2 / 4),
        (210.0, False, 180.0, math.pi * 50**2 / 2),
        (np.nan, True, 90.0, math.pi * 50**2),
        (10.0, True, 90.0, math.pi * 50**2),
        (np.nan, False, 90.0, 0.0),
        (10.0, False, None, 0.0),
    ],
)
def test_a_camera_covers_the_area_it_sees(photo, tmp_path, heading, panorama, theta, square_metres):
    row = GalleryRow(photo, (0.0, 0.0, heading), [], panorama=panorama)
    drawn = map_of(pixels(gallery_figure([row], tmp_path / "g.png", theta=theta, radius=50.0)))
    camera = gallery._camera(row, row.position, "", INK, theta)
    metres_a_pixel = gallery.map_window([camera], 50.0)[1] / (MAP_SIDE * gallery.DPI)
    covered = (np.abs(drawn.astype(int) - rgb(PAPER)) > 6).any(axis=2)
    covered[-round(0.2 * len(covered)) :, : round(0.5 * len(covered))] = False  # the scale bar
    area = covered.sum() * metres_a_pixel**2
    assert area == pytest.approx(square_metres, rel=0.08, abs=60)  # a dot is some pixels wide


def test_the_window_holds_every_near_view_and_a_far_match_does_not_shrink_it(photo):
    def window(*positions):
        cameras = [
            gallery._camera(GalleryMatch(photo, p, 0.1), (0, 0, 0), "1", RIGHT, 90.0) for p in positions
        ]
        low, side = gallery.map_window(cameras, 50.0)
        for camera in cameras:
            assert (camera.outline(50.0) > low).all()
            assert (camera.outline(50.0) < low + side).all()
        return side

    assert window((0, 0, 0)) < window((0, 0, 0), (100, 0, 180))
    assert window((0, 0, 0)) == pytest.approx(1.16 * 2 * 50 * math.sin(math.pi / 4))


def test_far_matches_are_named_with_their_distance(photo, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(gallery, "_write", lambda axes, at, words, colour: written.append((words, tuple(at))))
    places = [(0, 900, 0), (3000, 4000, 0), (0, 1000, 0), (np.nan, 0, 0), (10, 0, 0)]
    matches = [GalleryMatch(photo, place, 0.1, False) for place in places]
    gallery_figure([GalleryRow(photo, (0.0, 0.0, 0.0), matches)], tmp_path / "g.png", shown=5)
    assert [words for words, _ in written] == ["5", "1: 900 m", "2: 5.0 km", "3: 1.0 km"]
    assert len({at for _, at in written}) == 4


@pytest.mark.parametrize(
    "places",
    [
        [(0, 900, 0), (10, 905, 0), (-10, 910, 0), (20, 920, 0)],  # all to the north
        [(-900, -900, 0), (-905, -910, 0), (-900, -905, 0), (-1000, -1000, 90)],  # where the scale is
        [(900, 0, 0), (2, 1, 30), (-3, 0, 40), (0, 3, 350)],  # near ones on top of each other, and one far
        [(0, 40, 180), (5, 42, 182), (2000, 1, 0), (2100, -1, 0)],
    ],
)
def test_words_on_a_map_do_not_cover_each_other_and_are_inside(photo, places):
    """As they are drawn: numbers, distances and the scale."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(gallery.MAP_SIDE, gallery.MAP_SIDE), dpi=gallery.DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    matches = [GalleryMatch(photo, place, 0.1, i % 2 == 0) for i, place in enumerate(places)]
    gallery._draw_map(axes, GalleryRow(photo, (0.0, 0.0, 0.0), matches), matches, 90.0, 30.0)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert len(boxes) >= 4
    for i, one in enumerate(boxes):
        assert axes.bbox.padded(1).fully_containsx(one.x0)
        assert axes.bbox.padded(1).fully_containsx(one.x1)
        assert axes.bbox.padded(1).fully_containsy(one.y0)
        assert axes.bbox.padded(1).fully_containsy(one.y1)
        for other in boxes[i + 1 :]:
            assert not one.padded(-0.5).overlaps(other.padded(-0.5))
    plt.close(figure)


def test_eight_rows_of_real_sizes_stay_small_enough_to_send(tmp_path):
    dice = np.random.default_rng(0)
    images = []
    for i in range(10):
        coarse = Image.fromarray(dice.integers(0, 255, (40, 40, 3), dtype=np.uint8))
        images.append(tmp_path / f"{i}.png")
        coarse.resize((320, 240), Image.Resampling.BICUBIC).save(images[-1])
    rows = [
        GalleryRow(
            images[i],
            (0.0, 0.0, 10.0 * i),
            [GalleryMatch(images[(i + j) % 10], (9.0 * j, 0, 0), 0.1, j < 2, 0.8, 0.7) for j in range(4)],
            caption=f"query {i}",
        )
        for i in range(8)
    ]
    out = gallery_figure(rows, tmp_path / "deep" / "gallery.png")
    assert out.stat().st_size < 300_000
    drawn = pixels(out)
    assert (drawn[0, 0] == 255).all()
    assert len(where(drawn, RIGHT)[0]) > 16 * 400


def test_no_rows_are_refused_and_other_formats_are_written(photo, tmp_path):
    with pytest.raises(InputError, match="no queries to show"):
        gallery_figure([], tmp_path / "g.png")
    row = GalleryRow(photo, (np.nan, np.nan, np.nan), [GalleryMatch(photo, (0, 0, 0), 0.1)])
    assert gallery_figure([row], tmp_path / "g.pdf").read_bytes().startswith(b"%PDF")
