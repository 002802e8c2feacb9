"""Each rule against values worked out by hand, and against itself: labels, pairs, batches and files must agree."""

import math

import numpy as np
import pytest

from samespot import InputError, Places, sector_overlap
from samespot.overlap.rules import (
    FAINT,
    Points,
    Sectors,
    SoftDistance,
    Within,
    label_within,
    parse_soft_distance,
    parse_within,
    rule_of,
    words_of,
)


def test_soft_distance_by_hand():
    # 15 m, 0.8 / m: one e-fold of the odds every 1.25 m
    assert SoftDistance().at(15.0).item() == 0.5
    assert SoftDistance().at(15.0 + 1.25).item() == pytest.approx(1 / (1 + math.e), rel=1e-12)
    assert SoftDistance().at(15.0 - 1.25).item() == pytest.approx(math.e / (1 + math.e), rel=1e-12)
    assert SoftDistance().at(0.0).item() == pytest.approx(1 - 6.1e-6, abs=1e-7)


def test_it_ends_where_it_is_faint():
    reach = SoftDistance(15.0, 0.8).reach
    assert reach == pytest.approx(23.6334, abs=1e-4)
    assert SoftDistance().at(reach).item() == pytest.approx(FAINT, rel=1e-9)
    assert SoftDistance().at([reach + 1e-6, 1e6, np.inf]).tolist() == [0, 0, 0]


def test_it_falls_with_distance_and_is_a_step_where_steep():
    apart = np.linspace(0, 30, 301)
    assert (np.diff(SoftDistance().at(apart)) <= 0).all()
    steep = SoftDistance(10.05, 500.0).at(apart)
    np.testing.assert_array_equal(steep[apart < 10.0], 1.0)
    np.testing.assert_array_equal(steep[apart > 10.1], 0.0)


def table(seed, n=40, panoramas=False, unknown=False):
    dice = np.random.default_rng(seed)
    columns = {
        "image": [f"{seed}-{i}.jpg" for i in range(n)],
        "easting": dice.uniform(0, 80, n),
        "northing": dice.uniform(0, 80, n),
        "heading": dice.uniform(0, 360, n),
    }
    if panoramas:
        columns["pano"] = dice.random(n) < 0.3
    if unknown:
        columns["heading"][::5] = np.nan
    return Places.build("photos", columns, missing_images="ignore")


RULES = [
    Sectors(90.0, 30.0),
    Sectors(60.0, 25.0, "iou", unknown_heading="disk"),
    Sectors(90.0, 30.0, panoramas="sector", unknown_heading="disk"),
    Within(25.0, 40.0),
    Within(25.0, None),
    SoftDistance(),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.words())
def test_labels_pairs_and_batches_of_a_rule_agree(rule):
    """One rule, three ways to compute: the sparse kernel, pair by pair, and the matrix of a batch."""
    unknown = getattr(rule, "unknown_heading", "error") == "disk"
    queries, places = table(1, 40, panoramas=True, unknown=unknown), table(2, 50, panoramas=True)
    dense = rule.label(queries, places).dense()
    assert 0 < (dense > 0).mean() < 1
    pairs = np.stack(np.meshgrid(np.arange(40), np.arange(50), indexing="ij"), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(rule.of_pairs(queries, places, pairs), dense.ravel(), atol=2e-7)
    cameras = np.concatenate([rule.cameras(queries), rule.cameras(places)])
    np.testing.assert_allclose(rule.matrix(cameras)[:40, 40:], dense, atol=2e-7)
    again = rule_of(rule.label(queries, places).meta)
    assert again == rule


def test_a_panorama_sees_all_around_unless_it_is_told_not_to():
    at = Places.build(
        "p",
        {
            "image": ["a", "b"],
            "easting": [0.0, 20.0],
            "northing": 0.0,
            "heading": [0.0, 0.0],
            "pano": [True, False],
        },
        missing_images="ignore",
    )
    pair = np.array([[0, 1]])
    around = Sectors(90.0, 50.0).of_pairs(at, at, pair)[0]
    along = Sectors(90.0, 50.0, panoramas="sector").of_pairs(at, at, pair)[0]
    a, b = at.positions
    assert around == pytest.approx(float(sector_overlap(a, b, 360.0, 50.0, theta_b=90.0)))
    assert along == pytest.approx(float(sector_overlap(a, b, 90.0, 50.0)))
    assert around > along + 0.1


def test_what_a_rule_needs_and_lacks():
    lacking = table(3, 10, panoramas=True, unknown=True)
    turned = np.isnan(lacking.positions[:, 2])
    assert (Sectors(panoramas="sector").unknown(lacking)["heading"] == turned).all()
    assert (Sectors().unknown(lacking).get("heading", turned & False) == (turned & ~lacking.panoramas)).all()
    assert Sectors(unknown_heading="disk").unknown(lacking) == {}
    assert Within(25.0, None).unknown(lacking) == {}
    with pytest.raises(InputError, match=r"2 of 10 query images have no heading .*leave out the angle"):
        Within(25.0, 40.0).label(lacking, lacking)


def test_graded_nearness_of_a_binary_rule_by_hand():
    cameras = np.array([[0.0, 0, 0], [10, 0, 0], [25, 0, 30], [30, 0, 100], [60, 0, 0]])
    by_hand = [1, 1 - 10 / 50, 0.5, 0, 0]  # the fourth is turned too far, the last is twice the limit away
    np.testing.assert_allclose(Within(25.0, 40.0).graded(cameras)[0], by_hand, atol=1e-7)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        (Sectors(90, 50).to_dict(), "2D, overlap, θ = 90°, r = 50 m"),
        (Within(25, 40).to_dict(), "binary, within 25 m and 40°"),
        (SoftDistance().to_dict(), "soft, ½ at 15 m, steepness 0.8/m"),
        (
            {"kind": Points.KIND, "measure": "iou", "points": 1200, "occlusion": "none"},
            "3D, IoU of 1,200 points",
        ),
        ({"kind": "reference file"}, "reference file"),
    ],
)
def test_rules_in_words_from_what_labels_say(meta, words):
    assert words_of(meta).startswith(words)
    assert (rule_of(meta) is None) == ("theta" not in meta and "metres" not in meta)


def test_rules_are_read_from_words():
    assert parse_within("25m,40deg") == Within(25.0, 40.0)
    assert parse_within("5 m") == Within(5.0, None)
    assert parse_soft_distance("15m,0.8/m") == SoftDistance(15.0, 0.8)
    for wrong in ("25", "40deg", "25m,40", "25 feet"):
        with pytest.raises(InputError):
            parse_within(wrong)
    for wrong in ("15", "15m,0.8", "m"):
        with pytest.raises(InputError, match="write metres"):
            parse_soft_distance(wrong)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sectors(theta=0), "`theta` 0 is not in"),
        (lambda: Sectors(radius=math.inf), "`radius` inf is not a positive"),
        (lambda: Sectors(measure="dice"), "`measure` 'dice' is unknown; choose one of overlap, iou"),
        (lambda: Within(0.0), "a distance of 0 m is not positive"),
        (lambda: Within(5.0, 181), "not in \\[0, 180\\]"),
        (lambda: SoftDistance(15, -1), "a steepness of -1 is not positive"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()


def test_where_nobody_says_it_the_same_place_is_25_metres_and_no_angle(tmp_path):
    """One meaning for the rule, its short form, training and evaluation; MSLS says its 40 degrees itself."""
    from samespot.evaluation.protocols.tables import WITHIN
    from samespot.training.options import TrainingData

    table = {"image": ["a", "b"], "easting": [0.0, 24.0], "northing": 0.0, "heading": [0.0, 180.0]}
    places = Places.build(tmp_path, table, missing_images="ignore")
    assert Within() == Within(25.0, None) == WITHIN == TrainingData("p.csv").within == parse_within("25m")
    np.testing.assert_array_equal(
        Within().label(places, places).dense(), label_within(places, places).dense()
    )
    assert label_within(places, places).dense().all()
