"""The map of the town and the contact sheet: drawn, and with the photos that belong together."""

import numpy as np
import pytest
from PIL import Image

from samespot import Places
from samespot.figures.contact_sheet import FARTHEST, MOST_TURNED, draw_contact_sheet, same_spots
from samespot.figures.town_map import draw_town_map
from samespot.town.build import describe_plan
from samespot.town.plan import make_plan


@pytest.fixture
def places(tmp_path):
    """Two visits along a line to the east: the second one 1 m on, and turned by 10°."""
    n = 12
    along = np.arange(n) * 8.0
    table = {
        "image": [f"{v}-{k}.png" for v in range(2) for k in range(n)],
        "easting": np.concatenate([along, along + 1.0]),
        "northing": np.zeros(2 * n),
        "heading": np.repeat([90.0, 100.0], n),
        "sequence": [f"visit{v}-train" for v in range(2) for _ in range(n)],
        "condition": np.repeat(["day", "night"], n),
        "split": ["train"] * (2 * n),
    }
    for name in table["image"]:
        Image.new("RGB", (16, 12), (200, 30, 30) if name.startswith("0") else (20, 20, 90)).save(
            tmp_path / name
        )
    return Places.build(tmp_path, table)


def test_each_row_of_the_sheet_is_one_spot(places):
    rows = same_spots(places, 4)
    assert rows.shape == (4, 2)
    assert (rows[:, 1] - rows[:, 0] == 12).all()


def test_a_visit_that_was_not_near_leaves_a_gap(places):
    far = places.table.copy()
    far.loc[12:, "easting"] += 1000 + FARTHEST
    assert (same_spots(Places.build(places.root, far), 3)[:, 1] == -1).all()
    turned = places.table.copy()
    turned.loc[12:, "heading"] = 90.0 + MOST_TURNED + 1
    assert (same_spots(Places.build(places.root, turned), 3)[:, 1] == -1).all()


def test_the_sheet_shows_the_photos(places, tmp_path):
    path = draw_contact_sheet(tmp_path / "sheet.png", places, spots=2)
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    for colour in ((200, 30, 30), (20, 20, 90)):
        assert (np.abs(pixels.astype(int) - colour).max(axis=1) < 3).mean() > 0.2


def test_the_map_shows_tracks_in_the_colour_of_their_split(places, tmp_path):
    path = draw_town_map(tmp_path / "map.png", places, describe_plan(make_plan(7)))
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3).astype(int)
    assert (np.abs(pixels - (0x4A, 0x9D, 0x6F)).max(axis=1) < 3).sum() > 50  # train
    assert (np.abs(pixels - (0xB9, 0xA9, 0x9A)).max(axis=1) < 3).mean() > 0.02  # houses
