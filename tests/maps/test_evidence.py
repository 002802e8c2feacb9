"""The order of candidates and the evidence for the first, worked out by hand."""

import numpy as np
import pytest

from samespot.maps.evidence import BY_CHANCE, EVIDENCE, evidence_of, places_among

HERE, THERE = (0.0, 0.0), (500.0, 0.0)


def named(values):
    return dict(zip(EVIDENCE, values, strict=True))


def test_without_inliers_the_nearest_descriptor_is_first():
    order, values = evidence_of([0.4, 0.5, 0.8], [HERE, (10, 0), THERE])
    found = named(values)
    assert order.tolist() == [0, 1, 2]
    assert found["distance"] == 0.4
    assert found["ratio"] == pytest.approx(
        0.4 / 0.8
    )  # the second stands beside the first, the third elsewhere
    assert np.isnan(found["inliers"])
    assert np.isnan(found["contrast"])


def test_the_most_inliers_come_first_and_equal_ones_by_distance():
    order, values = evidence_of(
        [0.4, 0.5, 0.6, 0.7], [HERE, THERE, (900, 0), (1300, 0)], [20, 90, 20, np.nan]
    )
    assert order.tolist() == [1, 0, 2, 3]  # what was not verified comes last
    found = named(values)
    assert found["inliers"] == 90
    assert found["distance"] == 0.5
    assert found["contrast"] == pytest.approx(91 / 21)
    assert found["ratio"] == pytest.approx(0.5 / 0.4)  # the first elsewhere is nearer by its descriptor


def test_photos_of_one_place_speak_together_with_what_is_beyond_chance():
    some, most = BY_CHANCE + 30, BY_CHANCE + 40
    order, values = evidence_of([0.4, 0.5, 0.6], [THERE, HERE, (5, 0)], [most, some, some])
    assert order.tolist() == [1, 2, 0]
    assert named(values)["inliers"] == some + 30
    below = BY_CHANCE - 1  # neighbours at the level of chance say nothing, however many
    order, values = evidence_of([0.4, 0.5, 0.6], [THERE, HERE, (5, 0)], [below + 1, below, below])
    assert order[0] == 0
    assert named(values)["inliers"] == below + 1


def test_few_inliers_are_no_contrast_where_nothing_lies_elsewhere():
    _, values = evidence_of([0.4, 0.5], [HERE, (5, 0)], [6, 3])
    assert named(values)["contrast"] == pytest.approx(7 / (BY_CHANCE + 1))


def test_candidates_in_one_spot_have_no_spread_and_scattered_ones_have():
    tight = named(evidence_of([0.4, 0.5, 0.6], [HERE, HERE, HERE])[1])["spread"]
    wide = named(evidence_of([0.4, 0.4, 0.4, 0.4], [HERE, THERE, HERE, THERE])[1])["spread"]
    assert tight == 0
    assert wide == pytest.approx(250)


def test_the_last_stands_for_what_lies_elsewhere_where_nothing_does():
    assert named(evidence_of([0.4, 0.5], [HERE, HERE])[1])["ratio"] == pytest.approx(0.8)


def test_nothing_found_is_no_evidence():
    order, values = evidence_of([], np.zeros((0, 2)), [])
    assert len(order) == 0
    assert values.shape == (len(EVIDENCE),)
    assert np.isposinf(values[0])


def test_the_places_among_candidates_are_those_that_lie_apart_and_the_answer_is_the_first():
    distances = [0.5, 0.55, 0.6, 0.7]
    positions = [(0, 0), (500, 0), (5, 0), (900, 0)]
    inliers = [20, 60, 18, np.nan]
    firsts, evidence = places_among(distances, positions, inliers)
    order, answer = evidence_of(distances, positions, inliers)
    assert list(firsts) == [1, 0]  # the last was not compared, and others were
    assert firsts[0] == order[0]
    assert np.array_equal(evidence[0], answer)
    other = named(evidence[1])
    assert other["distance"] == 0.5
    assert other["inliers"] == 20 + (18 - BY_CHANCE)
    assert other["contrast"] == pytest.approx((26 + 1) / (60 + 1))
    assert other["ratio"] == pytest.approx(0.5 / 0.55)
    assert list(places_among(distances, positions)[0]) == [0, 1, 3]


def test_the_evidence_does_not_depend_on_the_order_in_which_candidates_come():
    rng = np.random.default_rng(0)
    distances, positions = np.sort(rng.uniform(0.4, 1.2, 30)), rng.uniform(0, 400, (30, 2))
    inliers = np.where(np.arange(30) < 20, rng.integers(0, 80, 30), np.nan)
    order, values = evidence_of(distances, positions, inliers)
    again, same = evidence_of(distances[order], positions[order], inliers[order])
    assert again.tolist() == list(range(30))
    assert np.array_equal(same, values)


def test_no_candidates_are_no_places():
    firsts, evidence = places_among([], np.zeros((0, 2)))
    assert (len(firsts), evidence.shape) == (0, (0, len(EVIDENCE)))


def test_of_photos_of_one_place_the_one_with_most_inliers_is_first():
    order, _ = evidence_of([0.4, 0.5, 0.6], [HERE, (3, 0), THERE], [20, 300, 5])
    assert order.tolist() == [1, 0, 2]
