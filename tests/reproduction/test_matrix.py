"""The matrix and the claims fit each other, and the budget is the same for all."""

import re

import pytest

from reproduction.claims import claims
from reproduction.comparators import COMPARATORS
from reproduction.data_sets import KINDS
from reproduction.matrix import LOSSES, experiments, options_of
from samespot.overlap.classes import POSITIVE
from samespot.training.losses import loss_names
from samespot.training.strategies import strategy_named

EVERY = experiments(list(KINDS))


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    nowhere = tmp_path_factory.mktemp("nowhere")
    base = {name: kind(nowhere, nowhere).options for name, kind in KINDS.items()}
    return {one.key: options_of(one, base[one.data]) for one in EVERY}


def photos_learned_from(options):
    a_step = (2 + options.negatives if options.kind == "tuples" else 2) * options.batch_pairs
    return options.steps * a_step


def test_every_experiment_of_a_data_set_learns_from_the_same_number_of_photos(options):
    for name in KINDS:
        seen = [photos_learned_from(options[one.key]) / one.share for one in EVERY if one.data == name]
        assert max(seen) <= 1.01 * min(seen), name


def test_a_shorter_budget_is_shorter_for_all(tmp_path):
    base = KINDS["campus"](tmp_path, tmp_path).options
    triplet = next(one for one in EVERY if one.name == "vgg16-gem-triplet-rate-0.04")
    graded = next(one for one in EVERY if one.key == "campus/vgg16-gem-graded")
    assert options_of(graded, base, 30).steps == 30
    assert photos_learned_from(options_of(triplet, base, 30)) == 30 * 128


def test_rates_of_one_thing_differ_in_the_rate_only(options):
    families = {one.rate_of for one in EVERY if one.rate_of}
    for family in families:
        members = [one for one in EVERY if family in (one.rate_of, one.key)]
        assert len(members) > 1, family
        made = [{**options[one.key].to_dict(), "labels": one.labels} for one in members]
        assert len({one["learning_rate"] for one in made}) == len(members)
        assert {key for one in made for key in one if one[key] != made[0][key]} == {"learning_rate"}
    assert all(("rate-" in one.name) == bool(one.rate_of) for one in EVERY if one.data == "campus")


def test_names_are_distinct_and_good_for_paths():
    assert len({one.key for one in EVERY}) == len(EVERY)
    assert all(re.fullmatch(r"[a-zA-Z0-9+.-]+", one.name) for one in EVERY)


def test_labels_are_of_kinds_that_the_data_set_has():
    assert all(one.labels in KINDS[one.data].kinds for one in EVERY)


def test_every_claim_and_comparator_asks_for_experiments_that_there_are():
    known = {one.key for one in EVERY}
    for claim in claims(list(KINDS)):
        assert claim.experiments
        assert set(claim.experiments) <= known, claim.id
    for comparator in COMPARATORS:
        assert set(comparator.side.experiments) <= known, comparator.words


def test_every_experiment_is_there_for_a_claim_or_a_comparator():
    asked = {key for claim in claims(list(KINDS)) for key in claim.experiments}
    asked |= {key for comparator in COMPARATORS for key in comparator.side.experiments}
    alone = {one.key for one in EVERY} - asked
    assert all("as-it-comes" in key or key.startswith("msls/") for key in alone), alone


def test_graded_and_binary_differ_in_labels_batches_and_rate_only(options):
    for trunk in ("vgg16", "lite0"):
        one, other = (options[f"campus/{trunk}-gem-{kind}"].to_dict() for kind in ("graded", "binary"))
        assert {key for key in one if one[key] != other[key]} == {"batches", "learning_rate"}


def test_soft_shares_have_the_same_positives(options):
    for share in ("0", "0.125", "0.5"):
        mixture = strategy_named(options[f"campus/vgg16-gem-soft-{share}"].batches)
        parts = dict(zip(mixture.classes, mixture.fractions, strict=True))
        positive = sum(part for kind, part in parts.items() if kind.low >= POSITIVE)
        soft = sum(part for kind, part in parts.items() if 0 < kind.low < POSITIVE)
        assert (positive, soft) == (0.5, float(share))


def test_every_loss_is_tried():
    # our own is no comparator
    assert set(LOSSES) == {*loss_names("batch"), *loss_names("tuples")} - {"graded-multi-similarity"}


def test_claims_have_a_figure_and_a_place_and_their_ids_are_distinct():
    every = claims()
    assert len({one.id for one in every}) == len(every)
    assert all(one.paper and one.where for one in every)


def test_an_own_street_data_set_is_asked_the_same(options):
    usual, more = claims(), claims(["campus", "town", "redkitchen", "msls"])
    asked = {key for claim in more for key in claim.experiments} - {
        key for claim in usual for key in claim.experiments
    }
    assert asked
    assert all(key.startswith("msls/") for key in asked)
