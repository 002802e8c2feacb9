"""Mined tuples against brute force over all photos, on descriptors that are known."""

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.overlap.rules import label_pairs
from samespot.training.mining import Candidates, Mined, Tuples, choose, nearness
from samespot.training.sets import LabelledSet


class Known:
    """Random unit descriptors of all images, and a record of what was asked for."""

    def __init__(self, tuples: Tuples, unreadable=(), seed=0) -> None:
        dice = np.random.default_rng(seed)
        values = dice.standard_normal((len(tuples.images), 6))
        self.values = values / np.linalg.norm(values, axis=1, keepdims=True)
        self.unreadable, self.asked = list(unreadable), []

    def __call__(self, numbers):
        self.asked.append(numbers)
        return torch.from_numpy(self.values[numbers]).float(), ~np.isin(numbers, self.unreadable)

    def distances(self, image, others):
        return np.linalg.norm(self.values[others] - self.values[image], axis=1)


def expected_tuple(labelled, row, first, known, negatives, columns=None):
    """By brute force: the nearest positive and the nearest photos without overlap. None where there is none."""
    similarity = labelled.labels.dense()[row]
    positives, others = np.flatnonzero(similarity >= 0.5), np.flatnonzero(similarity == 0)
    if labelled.same_table:
        positives, others = positives[positives != row], others[others != row]
    usable = [c for c in range(len(similarity)) if first[1] + c not in known.unreadable]
    positives, others = (
        np.intersect1d(x, usable if columns is None else columns) for x in (positives, others)
    )
    if len(positives) == 0 or len(others) == 0:
        return None
    image = first[0] + row
    best = positives[np.argmin(known.distances(image, first[1] + positives))]
    hardest = others[np.argsort(known.distances(image, first[1] + others), kind="stable")][:negatives]
    return best, first[1] + hardest


@pytest.mark.parametrize("name", ["graded_set", "self_set", "binary_set"])
def test_best_positive_and_hardest_negatives_by_brute_force(request, name):
    labelled = request.getfixturevalue(name)
    tuples = Tuples([labelled], 10, seed=4, negatives=5, every=40, pool=10_000)  # the whole map
    known = Known(tuples)
    similarity, checked = labelled.labels.dense(), 0
    for step in range(0, 8):
        if not tuples.is_mined(step):
            tuples.mine(step, known)
        batch = tuples(step)
        assert (similarity[batch.queries, batch.matches] == batch.similarity).all()
        assert (batch.similarity >= 0.5).all()
        columns = batch.negatives - tuples.images.first[1]
        assert (similarity[batch.queries[:, None], columns] == 0).all()
        assert (batch.negatives != batch.query_images[:, None]).all()
        assert (batch.match_images != batch.query_images).all()
        for row, match, negatives in zip(batch.queries, batch.matches, batch.negatives, strict=True):
            best, hardest = expected_tuple(labelled, row, tuples.images.first, known, 5)
            assert match == best
            assert negatives.tolist() == hardest.tolist()
            checked += 1
    assert checked == 80


def test_equally_near_photos_come_by_their_number():
    # the query at 1 is as near to 2 and 5 (the same spot) as to 3 and 4 (mirrored): all exact in binary
    at = torch.tensor(
        [[1.0, 0.0], [1.0, 0.0], [0.75, 0.5], [0.75, -0.5], [0.75, 0.5], [0.75, 0.5], [0.5, 0.5]]
    )
    score = nearness(np.arange(7), at, np.ones(7, dtype=bool))
    some = Candidates(
        np.array([1]), [np.array([2, 5])], np.array([2, 3, 4, 5, 6]), np.ones((1, 5), dtype=bool)
    )
    best, hardest = choose(some, score, 4)
    assert best.tolist() == [2]
    assert hardest.tolist() == [[2, 3, 4, 5]]
    allowed = np.array([[False, True, False, True, False]])
    best, hardest = choose(Candidates(some.queries, [np.array([4, 5])], some.pool, allowed), score, 4)
    assert best.tolist() == [4]
    assert hardest.tolist() == [[3, 5, -1, -1]]  # only so many are there


def test_many_queries_in_blocks_are_chosen_as_one_by_one():
    dice = np.random.default_rng(1)
    n = 600  # more than two blocks
    values = torch.nn.functional.normalize(torch.from_numpy(dice.standard_normal((n, 8))), dim=1).float()
    pool = np.sort(dice.choice(n, 90, replace=False))
    positives = [np.sort(dice.choice(n, dice.integers(1, 6), replace=False)) for _ in range(n)]
    some = Candidates(np.arange(n), positives, pool, dice.random((n, 90)) < 0.5)
    score = nearness(np.arange(n), values, np.ones(n, dtype=bool))
    best, hardest = choose(some, score, 7)
    for row in range(0, n, 37):
        alone = choose(some.of(np.array([row])), score, 7)
        assert alone[0].tolist() == [best[row]]
        assert alone[1].tolist() == [hardest[row].tolist()]


def test_only_the_pool_is_searched_for_negatives(graded_set):
    tuples = Tuples([graded_set], 10, seed=4, negatives=5, every=40, pool=25)
    known = Known(tuples)
    tuples.mine(0, known)
    (asked,) = known.asked
    seen = np.setdiff1d(np.unique(tuples.mined.negatives), [-1])
    assert 5 <= len(seen) <= 25
    positives = {
        120 + c
        for row in tuples.mined.queries
        for c, s in zip(*graded_set.labels.row(int(row)), strict=True)
        if s >= 0.5
    }
    pool = (
        set(asked.tolist()) - positives - set(range(120))
    )  # map photos that were described for no other reason
    assert len(pool) <= 25
    assert pool <= set(range(120, 270))


def test_what_is_described_is_counted_and_described_once(self_set):
    """Queries, positives and pool are of one table: a photo that is all three costs one pass."""
    tuples = Tuples([self_set], 9, seed=0, negatives=3, every=45, pool=30)
    known = Known(tuples)
    count = tuples.mine(0, known)
    (asked,) = known.asked
    assert count == len(asked) == len(np.unique(asked)) < 90
    assert (np.diff(asked) > 0).all()
    assert np.isin(tuples.mined.queries, asked).all()
    assert np.isin(tuples.mined.matches, asked).all()


def test_every_query_comes_once_an_epoch(graded_set):
    tuples = Tuples([graded_set], 10, seed=1, every=30, pool=10_000)  # 120 queries, 12 steps an epoch
    assert tuples.stretch_steps == 3
    assert tuples.stretch(7) == range(6, 9)
    known, own = Known(tuples), []
    for step in range(24):
        if not tuples.is_mined(step):
            tuples.mine(step, known)
        batch = tuples(step)
        at = (step % 3) * 10
        own.append(np.where(tuples.mined.replaced[at : at + 10], -1, batch.queries))
    for epoch in (np.concatenate(own[:12]), np.concatenate(own[12:])):
        kept = epoch[epoch >= 0]
        assert len(kept) == len(np.unique(kept))
        able = [r for r in range(120) if expected_tuple(graded_set, r, tuples.images.first, known, 10)]
        assert sorted(kept.tolist()) == able  # the others have no positive, and gave their place away
    assert own[0].tolist() != own[12].tolist()


def test_queries_without_a_positive_or_a_negative_are_left_out_and_counted(some_places):
    queries, places = some_places(60, 1, side=400.0), some_places(40, 2, "m", side=400.0)
    sparse = LabelledSet(queries, places, label_pairs(queries, places))
    tuples = Tuples([sparse], 10, seed=3, negatives=2, every=60, pool=100)
    known = Known(tuples)
    tuples.mine(0, known)
    able = {r for r in range(60) if expected_tuple(sparse, r, tuples.images.first, known, 2)}
    assert 3 < len(able) < 40
    assert set(tuples.mined.queries.tolist()) == able
    assert sum(tuples(step).redrawn for step in range(6)) == 60 - len(able)
    queries_described = known.asked[0][known.asked[0] < 60]
    assert set(queries_described.tolist()) == able  # no pass is spent on the others


def test_no_tuple_at_all_is_one_line(some_places):
    queries, places = some_places(10, 1, side=1e6), some_places(12, 2, "m", side=1e6)
    apart = LabelledSet(queries, places, label_pairs(queries, places))
    with pytest.raises(
        InputError, match=r"none of 10 queries has a photo with ψ >= 0\.5 .* check the labels"
    ):
        Tuples([apart], 10).mine(0, lambda numbers: pytest.fail("nothing to describe"))


def test_unreadable_photos_are_not_mined(self_set):
    plain = Tuples([self_set], 10, seed=2, negatives=4, every=80, pool=90)
    plain.mine(0, Known(plain))
    bad = [int(plain.mined.queries[0]), int(plain.mined.matches[1]), int(plain.mined.negatives[2, 0])]
    tuples = Tuples([self_set], 10, seed=2, negatives=4, every=80, pool=90)
    known = Known(tuples, bad)
    tuples.mine(0, known)
    for name in ("queries", "matches", "negatives"):
        assert not np.isin(getattr(tuples.mined, name), bad).any()
    for row, match, negatives in zip(
        tuples.mined.queries, tuples.mined.matches, tuples.mined.negatives, strict=True
    ):
        best, hardest = expected_tuple(self_set, row, tuples.images.first, known, 4)
        assert match == best
        assert negatives.tolist() == hardest.tolist()


def test_photos_of_other_sets_share_nothing_and_may_be_negatives(graded_set, some_places):
    q, p = some_places(40, 8, "a"), some_places(50, 9, "b")
    tuples = Tuples([graded_set, LabelledSet(q, p, label_pairs(q, p))], 20, seed=0, every=160, pool=1000)
    tuples.mine(0, Known(tuples))
    first = tuples.images.first
    assert first == [0, 120, 270, 310]
    of_second = tuples.mined.negatives >= 310
    for of_set in (0, 1):
        mixed = of_second[tuples.mined.sets == of_set]
        assert mixed.any()
        assert not mixed.all()
    assert not ((tuples.mined.negatives < 120) | (np.abs(tuples.mined.negatives - 290) < 20)).any()  # queries


def test_panoramas_stay_out(some_places):
    table = some_places(80, 5, panoramas=0.3)
    labelled = LabelledSet(table, table, label_pairs(table, table))
    tuples = Tuples([labelled], 10, every=80, pool=1000, panoramas=False)
    known = Known(tuples)
    tuples.mine(0, known)
    assert tuples.query_count == int((~table.panoramas).sum())
    assert not table.panoramas[known.asked[0]].any()
    used = [tuples.mined.queries, tuples.mined.matches, tuples.mined.negatives.ravel()]
    assert not table.panoramas[np.concatenate(used)].any()


def test_random_tuples_cost_nothing_and_are_spread_out(graded_set):
    tuples = Tuples([graded_set], 10, seed=4, negatives=5, hard=False, every=120, pool=10_000)
    assert tuples.mine(0, lambda numbers: pytest.fail("nothing is described")) == 0
    similarity = graded_set.labels.dense()
    columns = tuples.mined.negatives - 120
    assert (similarity[tuples.mined.queries[:, None], columns] == 0).all()
    assert (similarity[tuples.mined.queries, tuples.mined.matches] >= 0.5).all()
    assert all(len(set(row)) == 5 for row in columns.tolist())
    counts = np.bincount(columns.ravel(), minlength=150)
    assert counts.sum() == 600
    assert counts.max() < 20  # 4 on average


def test_a_stretch_depends_on_seed_and_number_alone(graded_set):
    def mined(step, seed=7):
        tuples = Tuples([graded_set], 10, seed=seed, every=50, pool=60)
        tuples.mine(step, Known(tuples))
        return tuples.mined

    once, again, other = mined(5), mined(7), mined(0)
    assert once.stretch == again.stretch == 1
    for name in ("sets", "queries", "matches", "negatives", "similarity", "replaced"):
        assert np.array_equal(getattr(once, name), getattr(again, name))
    assert not np.array_equal(once.queries, other.queries)
    assert not np.array_equal(once.queries, mined(5, seed=8).queries)


def test_a_checkpoint_brings_the_tuples_back(graded_set, tmp_path):
    tuples = Tuples([graded_set], 10, every=50, pool=60, negatives=12)
    tuples.mine(0, Known(tuples))
    torch.save(tuples.mined.state(), tmp_path / "x.pt")
    back = Mined.from_state(torch.load(tmp_path / "x.pt", weights_only=True))
    again = Tuples([graded_set], 10, every=50, pool=60, negatives=12)
    again.mined = back
    for name in ("images", "negatives", "similarity", "redrawn", "matches"):
        assert np.array_equal(getattr(again(3), name), getattr(tuples(3), name))
    assert not again.is_mined(5)


def test_images_of_a_batch_and_its_parts(graded_set):
    tuples = Tuples([graded_set], 6, every=12, pool=8, negatives=4)
    tuples.mine(0, Known(tuples))
    batch = tuples(0)
    lacking = batch.negatives.copy()
    lacking[1, 2:] = -1
    batch = type(batch)(**{**batch.__dict__, "negatives": lacking})
    images = batch.images
    assert len(images) == 6 * (2 + 4)
    assert images[12:16].tolist() == batch.negatives[0].tolist()
    assert images[16:20].tolist() == [*batch.negatives[1, :2], batch.query_images[1], batch.query_images[1]]
    halves = [batch.part(rank, 2) for rank in (0, 1)]
    assert np.array_equal(np.concatenate([half.negatives for half in halves]), batch.negatives)
    assert len(halves[1].images) == 3 * (2 + 4)
