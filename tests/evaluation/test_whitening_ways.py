"""Damped and learned whitening as variants of an evaluation: names, what they are fitted on, what is found and told."""

import numpy as np
import pytest

from samespot import InputError, Places
from samespot.evaluation.cases import Case
from samespot.evaluation.compare import compare
from samespot.evaluation.folder import write_evaluation
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.results import Evaluation
from samespot.evaluation.run import evaluate_cases
from samespot.evaluation.variants import Other
from samespot.overlap.rules import Sectors, label_pairs
from samespot.retrieval.descriptors import Descriptors
from samespot.whitening.whitening import Whitening

DIMS, PLACES = 16, 24


def street(name, n, shift=0.0):
    columns = {"easting": 20.0 * np.arange(n) + shift, "northing": 0.0, "heading": 0.0}
    return Places.build(
        ".", {"image": [f"{name}/{i}.jpg" for i in range(n)], **columns}, missing_images="ignore"
    )


@pytest.fixture
def world():
    queries, map_, train = street("query", PLACES, 1.0), street("map", PLACES), street("train", 60)
    dice = np.random.default_rng(0)
    look = dice.standard_normal((60, DIMS)).astype(np.float32) * np.geomspace(3, 0.1, DIMS).astype(np.float32)

    def describe(places, name):
        noise = np.random.default_rng(len(name)).standard_normal((len(places), DIMS)).astype(np.float32)
        vectors = look[: len(places)] + 0.3 * noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Descriptors(None, vectors, {"bad": {}})

    rule = Sectors(90.0, 50.0)
    case = Case("street", queries, map_, [np.array([i]) for i in range(PLACES)], rule)
    return case, describe, Other("training places", train)


def run(world, other=True, rule=True, **options):
    case, describe, train = world
    if not rule:
        case = Case(case.name, case.queries, case.places, case.positives)
    words = {"queries": "all", "positive": "itself", "exclusions": "", "citation": "none"}
    protocol = Protocol("street", "A street", "places", make=lambda root: [], **words)
    return evaluate_cases(
        protocol,
        [case],
        describe,
        margin=0.5,
        model={},
        options=EvaluateOptions(acceptance=False, **options),
        other=train if other else None,
    )


def names(done):
    return [one.name for one in done.evaluation.variants]


def test_every_way_is_a_variant_named_by_it(world):
    done = run(world, whiten="4,4:damped,full:damped=0.3,auto,4:learned")
    on_map, on_train = "whitened on the map", "whitened on training places"
    assert names(done) == [
        "16",
        f"4 {on_map}",
        f"4 {on_map}, damped",
        f"16 {on_map}, damped",  # auto: 256, or as many as there are
        f"16 {on_map}, damping 0.3",
        f"4 {on_train}",
        f"4 {on_train}, damped",
        f"16 {on_train}, damped",
        f"16 {on_train}, damping 0.3",
        f"4 {on_train}, learned",
    ]
    assert done.evaluation.variants[2].title == f"4 dims, {on_map}, damped"
    assert [(one.fitted_on, one.how) for one in done.whitenings] == [
        *((on, how) for on in ("the map", "training places") for how in ("", "damping 3", "damping 0.3")),
        ("training places", "learned"),
    ]
    assert "whitened on the map to at most 16 dims: its images span no more" in done.notes


def test_what_is_found_is_what_the_whitening_gives(world):
    case, describe, train = world
    done = run(world, whiten="6:damped=0.5,6:learned=1")
    of_map, of_queries = describe(case.places, "street-map"), describe(case.queries, "street-queries")
    trained = describe(train.places, "training places").vectors
    labels = label_pairs(train.places, train.places, 90.0, 50.0)
    by_hand = {
        "6 whitened on the map, damping 0.5": Whitening.fit(of_map.vectors, "", damping=0.5),
        "6 whitened on training places, damping 0.5": Whitening.fit(trained, "", damping=0.5),
        "6 whitened on training places, learned, damping 1": Whitening.learn(trained, labels, "", damping=1),
    }
    for name, whitening in by_hand.items():
        alike = whitening(of_queries.vectors, 6) @ whitening(of_map.vectors, 6).T
        np.testing.assert_array_equal(done.found[name][0].rows[:, 0], alike.argmax(axis=1))


def test_queries_do_not_count(world):
    """Other queries, the same whitening: it is fitted on the map and on training places alone."""
    case, describe, train = world
    one = run(world, whiten="auto,4:learned")

    def other_queries(places, name):
        described = describe(places, name)
        if "queries" in name:
            described.vectors[:] = described.vectors[::-1]
        return described

    other = run((case, other_queries, train), whiten="auto,4:learned")
    assert [w.digest() for w in one.whitenings] == [w.digest() for w in other.whitenings]


def test_how_much_is_chosen_on_a_map_that_no_query_is_in(world):
    """A map looked up in itself is asked for what it was chosen on: then, as on training places, it is the usual."""
    case, describe, train = world
    said = "whitening on the map: damping 3, chosen on its own photos"
    assert said in run(world, whiten="auto").notes
    assert not any("chosen" in note for note in run(world, whiten="auto", whiten_on="train").notes)
    itself = Case(case.name, case.places, case.places, case.positives, case.rule)
    among = Case(case.name, case.places.select([0, 1]), case.places, case.positives[:2], case.rule)
    for own in (itself, among):
        done = run((own, describe, train), whiten="auto", whiten_on="map")
        assert not any("chosen" in note for note in done.notes)
        assert [one.damping for one in done.whitenings] == [3.0]


def test_a_file_tells_the_ways_apart(world, tmp_path):
    done = run(world, whiten="4,4:damped,4:learned", whiten_on="train")
    _, files = write_evaluation(done, tmp_path)
    again = Evaluation.load(tmp_path)
    assert names(done) == [one.name for one in again.variants]
    assert [one.whitened_how for one in again.variants] == ["", "", "damped", "learned"]
    assert again.settings["whiten"] == ["4", "4:damped", "4:learned"]
    assert [one["damping"] for one in again.settings["whitenings"]] == [0, 3, 3]
    kept = sorted(path.name for path in files if path.name.startswith("whitening"))
    assert kept == [
        "whitening-training-places-damping-3.safetensors",
        "whitening-training-places-learned.safetensors",
        "whitening-training-places.safetensors",
    ]
    loaded = [Whitening.load(tmp_path / name) for name in kept]
    assert [one.how for one in loaded] == ["damping 3", "learned", ""]
    sides = ("4 whitened on training places", "4 dims, whitened on training places, damped")
    assert compare(again, again, variants=sides).second == "4 whitened on training places, damped"


def test_names_are_known_before_the_work_is_done(world):
    from samespot.evaluation.run import _describe_all
    from samespot.evaluation.variants import Kinds

    case, describe, train = world
    options = EvaluateOptions(whiten="4,auto,full,full:damped=1,4:learned,learned")
    base, _, _ = _describe_all([case], describe, train)
    kinds = Kinds(base, options, train, rule=case.rule)
    assert sorted(set(kinds.names())) == sorted(kind.name for kind in kinds)


def test_learning_needs_places_and_a_rule(world):
    with pytest.raises(InputError, match="a learned whitening needs `train`"):
        run(world, other=False, whiten="4:learned")
    with pytest.raises(InputError, match="needs a protocol with graded truth"):
        run(world, rule=False, whiten="4:learned")
    case, describe, train = world
    lost = Places(train.places.root, train.places.table.assign(heading=np.nan))
    with pytest.raises(
        InputError, match="no learned whitening on training places: 60 of its images have no heading"
    ):
        run((case, describe, Other("training places", lost)), whiten="4:learned")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"whiten": "4:learned"}, "`whiten=4:learned` needs `train`, the places to learn it on"),
        ({"whiten": "model", "whiten_on": "map"}, "`whiten_on` has no effect on a learned whitening or the"),
        ({"whiten": "4:dampened"}, "`whiten` '4:dampened': '4:dampened' is not a way to whiten; write SIZE"),
        ({"whiten": [4, "x"]}, "`whiten` 'x' is not a way to whiten"),
        ({"whiten": 2.5}, "`whiten` 2.5 is not a way to whiten"),
    ],
)
def test_wishes_that_cannot_be(given, says):
    with pytest.raises(InputError) as caught:
        EvaluateOptions.of({"map": "m", **given})
    assert says in str(caught.value)
