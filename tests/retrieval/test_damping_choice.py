"""How much damping is chosen: what finds most, the usual where nothing is clearly better, and never by chance."""

import inspect

import numpy as np
import pytest

from samespot import Places
from samespot.overlap.rules import Sectors, Within
from samespot.retrieval import damping_choice
from samespot.retrieval.damping_choice import STRENGTHS, Known, choose_damping
from samespot.whitening.damping import AUTO
from samespot.whitening.whitening import Whitening

PHOTOS, DIMS = 4, 40  # of each place


def street(places, **more):
    """PHOTOS photos at each place, 100 m apart."""
    n = places * PHOTOS
    columns = {"easting": 100.0 * np.repeat(np.arange(places), PHOTOS), "northing": 0.0, "heading": 0.0}
    names = [f"{i}.jpg" for i in range(n)]
    return Places.build(".", {"image": names, **columns, **more}, missing_images="ignore")


def descriptors(places, telling, seed=0):
    """The place shows along the `telling` dims alone; along the others is noise, strong in the first ones."""
    dice = np.random.default_rng(seed)
    deviations = np.geomspace(1, 0.03, DIMS)
    noise = dice.standard_normal((places * PHOTOS, DIMS)) * deviations
    place = np.repeat(dice.standard_normal((places, DIMS)), PHOTOS, axis=0) * deviations
    return np.where(np.isin(np.arange(DIMS), telling), place + 0.5 * noise, noise)


def chosen(vectors, places, rule=None):
    return choose_damping(
        Whitening.fit(vectors, "map"), [Known(vectors, places)], rule or Within(10.0), "cpu"
    )


def test_weak_directions_that_tell_the_place_ask_for_little():
    assert chosen(descriptors(100, range(20, 40)), street(100)).damping == min(STRENGTHS)


def test_strong_directions_that_tell_the_place_ask_for_much():
    assert chosen(descriptors(100, range(8)), street(100)).damping > AUTO


def test_where_nothing_is_better_it_is_the_usual():
    every = np.random.default_rng(0).standard_normal((100, DIMS))
    copies = np.repeat(every[:25], PHOTOS, axis=0) + 1e-6 * every
    assert chosen(copies, street(25)).damping == AUTO  # everything is found
    lonely = street(100).select(slice(None, None, PHOTOS))
    assert chosen(every, lonely).damping == AUTO  # there is nothing to find


def test_the_same_photos_make_the_same_choice():
    vectors = np.random.default_rng(0).standard_normal((200, DIMS)) * np.geomspace(1, 0.1, DIMS)
    assert len({chosen(vectors, street(50)).damping for _ in range(3)}) == 1


def test_the_axes_stay():
    vectors = descriptors(50, range(8))
    before, after = Whitening.fit(vectors, "map"), chosen(vectors, street(50))
    np.testing.assert_array_equal(after.axes, before.axes)
    assert after.fitted_on == "map"


@pytest.mark.parametrize("column", ["sequence", "time"])
def test_what_was_taken_together_is_no_proof(column, monkeypatch):
    """Photos of one moment are never found for one another: here that leaves nothing to find."""
    moment = np.repeat([f"15:{i:02d}" for i in range(50)], PHOTOS)
    seen = []
    hits = damping_choice._Trial.hits
    monkeypatch.setattr(damping_choice._Trial, "hits", lambda *given: seen.append(hits(*given)) or seen[-1])
    assert chosen(descriptors(50, range(8)), street(50, **{column: moment})).damping == AUTO
    assert sum(map(np.sum, seen)) == 0
    chosen(descriptors(50, range(8)), street(50, **{column: "the same for all"}))
    assert sum(map(np.sum, seen)) > 0  # a column of one value says nothing


def test_photos_of_unknown_heading_leave_it_at_the_usual():
    places = street(100)
    places.table.loc[3, "heading"] = np.nan
    assert chosen(descriptors(100, range(8)), places, Sectors(90.0, 30.0)).damping == AUTO


def test_unreadable_photos_do_not_harm():
    vectors = descriptors(100, range(8))
    vectors[::10] = 0
    assert chosen(vectors, street(100)).damping > AUTO


def test_a_map_of_a_handful():
    for places in (1, 2):
        vectors = descriptors(places, range(8))
        assert chosen(vectors, street(places)).damping in STRENGTHS


def test_large_maps_are_sampled(monkeypatch):
    monkeypatch.setattr(damping_choice, "MOST_LOOKED_UP", 60)
    monkeypatch.setattr(damping_choice, "MOST_PHOTOS", 300)
    assert chosen(descriptors(100, range(8)), street(100)).damping > AUTO


def test_several_maps_are_each_looked_up_in_themselves():
    """The same positions in two cities: a photo of the one is no match of the other."""
    both = [descriptors(50, range(8), seed) for seed in (0, 1)]
    whitening = Whitening.fit(np.concatenate(both), "map")
    known = [Known(vectors, street(50)) for vectors in both]
    assert choose_damping(whitening, known, Within(10.0), "cpu").damping > AUTO


def test_it_has_no_room_for_queries():
    assert list(inspect.signature(choose_damping).parameters) == ["whitening", "known", "rule", "device"]
