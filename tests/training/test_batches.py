"""Batches against the dense label matrix, and the promise that a batch depends on (seed, step) alone."""

import subprocess
import sys

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import label_by_distance, label_pairs, label_within
from samespot.places.table import Places
from samespot.training.batches import Batches
from samespot.training.sets import LabelledSet
from samespot.training.strategies import CLASSES, strategy_named


def class_counts(similarity: np.ndarray, keys: list[str]) -> list[int]:
    return [int(((similarity >= CLASSES[k].low) & (similarity < CLASSES[k].high)).sum()) for k in keys]


@pytest.mark.parametrize(
    ("strategy", "keys", "expected"),
    [
        ("A", ["pos", "soft", "hard"], [32, 16, 16]),
        ("B", ["hardpos", "softpos", "soft", "hard"], [16, 16, 16, 16]),
        ("D", ["pos", "neg"], [32, 32]),
        ("pos=0.25,hard=0.75", ["pos", "soft", "hard"], [16, 0, 48]),
    ],
)
def test_composition_is_exact(graded_set, strategy, keys, expected):
    batches = Batches([graded_set], strategy, 64, seed=4)
    for step in range(5):
        assert class_counts(batches(step).similarity, keys) == expected


def test_thirds_are_met_over_batches(graded_set):
    counts = np.array(
        [
            class_counts(Batches([graded_set], "C", 64)(s).similarity, ["pos", "soft", "hard"])
            for s in range(60)
        ]
    )
    assert set(counts.ravel()) == {21, 22}
    np.testing.assert_allclose(counts.mean(axis=0), 64 / 3, atol=0.2)


@pytest.mark.parametrize("order", ["uniform", "refill"])
@pytest.mark.parametrize("strategy", ["A", "D"])
def test_similarities_are_the_labels(graded_set, strategy, order):
    dense = graded_set.labels.dense()
    batches = Batches([graded_set], strategy, 64, order=order)
    for step in range(10):
        batch = batches(step)
        np.testing.assert_array_equal(batch.similarity, dense[batch.queries, batch.matches])


def test_binary_rounds_the_similarity(graded_set):
    dense = graded_set.labels.dense()
    batch = Batches([graded_set], "binary", 64)(0)
    np.testing.assert_array_equal(batch.similarity, dense[batch.queries, batch.matches] >= 0.5)
    assert batch.similarity.sum() == 32


def test_matches_of_a_class_are_equally_likely(some_places):
    # one query; columns 1, 3, 5 are hard negatives, 0 and 4 positive, 2 soft
    labels = PairLabels(
        np.array([0, 3]), np.array([0, 2, 4], np.int32), np.array([0.9, 0.2, 0.6], np.float32), (1, 6), {}
    )
    one = LabelledSet(some_places(1, 0), some_places(6, 1, "m"), labels)
    drawn = np.concatenate([Batches([one], "A", 400, seed=s)(0).matches for s in range(10)])
    counts = np.bincount(drawn, minlength=6)
    assert counts[2] == 1000
    # 2,000 positives over two columns, 1,000 hard negatives over three: four standard deviations
    np.testing.assert_allclose(counts[[0, 4]], 1000, atol=90)
    np.testing.assert_allclose(counts[[1, 3, 5]], 1000 / 3, atol=60)


def test_hard_negatives_of_d_include_soft_ones_in_proportion(graded_set):
    dense = graded_set.labels.dense()
    negatives = dense < 0.5
    expected = np.mean((dense > 0).sum(1, where=negatives) / negatives.sum(1))
    drawn = np.concatenate([Batches([graded_set], "neg=1", 512, seed=s)(0).similarity for s in range(20)])
    assert (drawn > 0).mean() == pytest.approx(expected, abs=4 * np.sqrt(expected / len(drawn)))


def test_no_photo_is_paired_with_itself(self_set):
    for strategy in ("A", "pos=0,neg=1", "hardpos=1"):
        batches = Batches([self_set], strategy, 64)
        for step in range(30):
            batch = batches(step)
            assert (batch.queries != batch.matches).all()
            assert (batch.query_images != batch.match_images).all()


def test_a_batch_depends_on_seed_and_step_alone(graded_set):
    fresh = Batches([graded_set], "A", 64, seed=11, order="refill")(7)
    used = Batches([graded_set], "A", 64, seed=11, order="refill")
    for step in (3, 9, 0):
        used(step)
    again = used(7)
    for name in ("queries", "matches", "similarity"):
        np.testing.assert_array_equal(getattr(fresh, name), getattr(again, name))
    assert not np.array_equal(
        fresh.queries, Batches([graded_set], "A", 64, seed=12, order="refill")(7).queries
    )


def test_a_batch_is_the_same_in_another_process(tmp_path, graded_set):
    graded_set.labels.save(tmp_path / "labels")
    graded_set.queries.save(tmp_path / "q.csv")
    graded_set.places.save(tmp_path / "m.csv")
    code = f"""
from samespot.places.table import Places
from samespot.overlap.labels import PairLabels
from samespot.training.batches import Batches
from samespot.training.sets import LabelledSet
q, m = (Places.read(r'{tmp_path}/' + n, missing_images='ignore') for n in ('q.csv', 'm.csv'))
b = Batches([LabelledSet(q, m, PairLabels.open(r'{tmp_path}/labels'))], 'A', 16, seed=5)(1000)
print(b.queries.tolist(), b.matches.tolist())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = Batches([graded_set], "A", 16, seed=5)(1000)
    assert out.strip() == f"{here.queries.tolist()} {here.matches.tolist()}"


def test_the_drawn_pairs_are_known_ones(graded_set):
    """A change of these numbers would break the resume of runs begun with an earlier version."""
    batch = Batches([graded_set], "A", 6, seed=1)(2)
    assert batch.queries.tolist() == [54, 2, 71, 51, 28, 40]
    assert batch.matches.tolist() == [88, 47, 4, 68, 3, 56]


def test_parts_of_processes_make_up_the_batch(graded_set):
    whole = Batches([graded_set], "all", 10)(3)
    parts = [whole.part(rank, 3) for rank in range(3)]
    np.testing.assert_array_equal(np.concatenate([p.queries for p in parts]), whole.queries)
    np.testing.assert_array_equal(np.concatenate([p.match_images for p in parts]), whole.match_images)
    assert all(p.in_batch is whole.in_batch for p in parts)


def test_refill_shows_every_query_once_an_epoch(some_places):
    queries, places = some_places(96, 1, side=40.0), some_places(150, 2, "m", side=40.0)
    one = LabelledSet(queries, places, label_pairs(queries, places, theta=270.0))
    batches = Batches([one], "D", 32, order="refill")
    first, second = ([batches(step) for step in range(e * 3, e * 3 + 3)] for e in (0, 1))
    assert sum(batch.redrawn for batch in first + second) == 0  # so near to each other that all have matches
    for epoch in (first, second):
        assert sorted(np.concatenate([batch.queries for batch in epoch])) == list(range(96))
    assert not np.array_equal(first[0].queries, second[0].queries)


def test_refill_redraws_within_the_refill(graded_set):
    batches = Batches([graded_set], "hardpos=1", 20, order="refill", refill=40)
    order = batches._shuffled(0)
    for step in range(6):
        refill = order[step // 2 * 40 : step // 2 * 40 + 40]
        assert set(batches(step).queries) <= set(refill)
    assert sum(batches(step).redrawn for step in range(6)) > 0


def test_queries_without_a_match_are_redrawn_and_counted(some_places):
    # only query 3 of 200 has a positive
    labels = PairLabels(
        np.array([0, 0, 0, 0] + [1] * 197), np.array([5], np.int32), np.array([0.8], np.float32), (200, 9), {}
    )
    one = LabelledSet(some_places(200, 0), some_places(9, 1, "m"), labels)
    batch = Batches([one], "pos=0.5,hard=0.5", 8)(0)
    positive = batch.similarity > 0
    assert batch.queries[positive].tolist() == [3] * 4
    assert batch.matches[positive].tolist() == [5] * 4
    assert batch.redrawn > 50


def test_too_few_of_a_class_want_another_radius_in_the_right_direction(some_places):
    """Where every pair shares something there is no hard negative: cameras see too far. And the other way round."""
    queries, places = some_places(4, 0), some_places(3, 1, "m")
    rows = np.arange(0, 13, 3)
    everything = PairLabels(
        rows, np.tile(np.arange(3, dtype=np.int32), 4), np.full(12, 0.3, np.float32), (4, 3), {}
    )
    nothing = PairLabels(np.zeros(5, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), (4, 3), {})
    with pytest.raises(InputError, match=r"need a hard negative pair.*with a smaller radius"):
        Batches([LabelledSet(queries, places, everything)], "soft=0.5,hard=0.5", 4)(0)
    with pytest.raises(InputError, match=r"need a positive pair.*with a larger radius"):
        Batches([LabelledSet(queries, places, nothing)], "pos=0.5,hard=0.5", 4)(0)


def test_a_class_that_does_not_exist_is_one_clear_line(binary_set, graded_set):
    with pytest.raises(
        InputError, match=r"need a soft negative pair, and the labels hold none; use `batches=binary`"
    ):
        Batches([binary_set], "A", 8)(0)
    assert Batches([binary_set], "binary", 8)(0).similarity.tolist().count(1.0) == 4


def test_panoramas_can_be_left_out(some_places):
    queries, places = some_places(80, 1, panoramas=0.4), some_places(90, 2, "m", panoramas=0.5)
    one = LabelledSet(queries, places, label_pairs(queries, places))
    with_them, without = Batches([one], "A", 64), Batches([one], "A", 64, panoramas=False)
    assert any(places.panoramas[with_them(s).matches].any() for s in range(3))
    for step in range(20):
        batch = without(step)
        assert not queries.panoramas[batch.queries].any()
        assert not places.panoramas[batch.matches].any()
    assert without.query_count == (~queries.panoramas).sum()


def test_several_sets_in_proportion_and_never_across(graded_set, self_set):
    batches = Batches([graded_set, self_set], "A", 64)
    drawn = [batches(step) for step in range(60)]
    of_set = np.concatenate([batch.sets for batch in drawn])
    assert (of_set == 0).mean() == pytest.approx(120 / 210, abs=0.04)
    dense = [graded_set.labels.dense(), self_set.labels.dense()]
    for batch in drawn[:10]:
        for s, q, m, psi in zip(batch.sets, batch.queries, batch.matches, batch.similarity, strict=True):
            assert psi == dense[s][q, m]
    names = {batches.images.path(int(i)).name for batch in drawn for i in batch.match_images[batch.sets == 0]}
    assert all(name.startswith("m") for name in names)
    # queries and map of the second set are one table, so its images are numbered once
    assert len(batches.images) == 120 + 150 + 90


def test_labels_stay_on_disk(graded_set, tmp_path):
    opened = graded_set.labels.save(tmp_path / "labels")
    batches = Batches([LabelledSet(graded_set.queries, graded_set.places, opened)], "A", 64)
    held = opened.indptr, opened.columns, opened.similarity
    assert all(isinstance(array, np.memmap) for array in held)
    assert all(map(np.shares_memory, batches._views[0].arrays, held))
    np.testing.assert_array_equal(batches(3).matches, Batches([graded_set], "A", 64)(3).matches)


def test_labels_of_another_table_are_refused(graded_set):
    moved = graded_set.places.table.assign(easting=0.0)
    other = Places.build("nowhere", moved, missing_images="ignore")
    with pytest.raises(InputError, match="made from another table of places"):
        LabelledSet(graded_set.queries, other, graded_set.labels)


@pytest.mark.parametrize("measure", ["overlap", "iou"])
def test_all_pairs_similarity_is_that_of_the_labels(measure, some_places):
    queries = some_places(60, 1, panoramas=0.2)
    places = some_places(70, 2, "m", panoramas=0.2)
    one = LabelledSet(queries, places, label_pairs(queries, places, measure=measure))
    batch = Batches([one], "all", 24)(0)
    dense = one.labels.dense()
    np.testing.assert_array_equal(
        batch.in_batch[:24, 24:], known(dense[np.ix_(batch.queries, batch.matches)], batch)
    )
    # geometry also knows two queries: the labels of the table against itself say the same
    among = label_pairs(queries, queries, measure=measure).dense()[np.ix_(batch.queries, batch.queries)]
    same = batch.queries[:, None] == batch.queries[None, :]
    np.testing.assert_array_equal(batch.in_batch[:24, :24], np.where(same, np.nan, among))
    np.testing.assert_array_equal(batch.in_batch, batch.in_batch.T)


def known(block, batch):
    return np.where(batch.query_images[:, None] == batch.match_images[None, :], np.nan, block)


def test_all_pairs_of_binary_labels(binary_set):
    batch = Batches([binary_set], "all:D", 24)(0)
    dense = binary_set.labels.dense()
    np.testing.assert_array_equal(batch.in_batch[:24, 24:], dense[np.ix_(batch.queries, batch.matches)])
    among = label_within(binary_set.queries, binary_set.queries, 25.0, 40.0).dense()
    expected = among[np.ix_(batch.queries, batch.queries)]
    expected[batch.queries[:, None] == batch.queries[None, :]] = np.nan
    np.testing.assert_array_equal(batch.in_batch[:24, :24], expected)


def test_all_pairs_of_labels_without_geometry_are_looked_up(self_set, graded_set):
    plain = PairLabels(
        *(getattr(self_set.labels, n) for n in ("indptr", "columns", "similarity", "shape")),
        {"same_table": True},
    )
    one = LabelledSet(self_set.queries, self_set.places, plain)
    by_lookup, by_geometry = Batches([one], "all", 16)(0), Batches([self_set], "all", 16)(0)
    np.testing.assert_array_equal(by_lookup.in_batch, by_geometry.in_batch)

    two_tables = PairLabels(
        *(getattr(graded_set.labels, n) for n in ("indptr", "columns", "similarity", "shape")), {}
    )
    batch = Batches([LabelledSet(graded_set.queries, graded_set.places, two_tables)], "all", 16)(0)
    assert np.isnan(batch.in_batch[:16, :16]).all()  # two queries: nobody knows
    dense = graded_set.labels.dense()
    np.testing.assert_array_equal(batch.in_batch[:16, 16:], dense[np.ix_(batch.queries, batch.matches)])


def test_all_pairs_of_soft_labels_by_distance(some_places):
    queries, places = some_places(60, 1), some_places(70, 2, "m")
    one = LabelledSet(queries, places, label_by_distance(queries, places, 30.0, 0.2))
    batch = Batches([one], "all", 24)(0)
    dense = one.labels.dense()[np.ix_(batch.queries, batch.matches)]
    np.testing.assert_allclose(batch.in_batch[:24, 24:], dense, rtol=1e-6)
    np.testing.assert_array_equal(batch.in_batch, batch.in_batch.T)


def test_binary_labels_are_graded_by_distance_for_a_loss_that_needs_degrees(binary_set):
    batch = Batches([binary_set], "all:D", 24, graded=True)(0)
    at = np.concatenate(
        [binary_set.queries.positions[batch.queries], binary_set.places.positions[batch.matches]]
    )
    apart = np.hypot(*(at[:, None, :2] - at[None, :, :2]).transpose(2, 0, 1))
    turned = np.abs((at[:, None, 2] - at[None, :, 2] + 180) % 360 - 180)
    expected = np.where(turned <= 40, np.maximum(1 - apart / 50, 0), 0)
    expected[batch.images[:, None] == batch.images[None, :]] = np.nan
    np.testing.assert_allclose(batch.in_batch, expected, atol=1e-6)
    drawn = batch.in_batch[np.arange(24), 24 + np.arange(24)]
    np.testing.assert_array_equal(drawn >= 0.5, batch.similarity == 1)  # within 25 m and 40 degrees


def test_photos_of_different_sets_share_nothing(graded_set, self_set):
    batch = Batches([graded_set, self_set], "all", 32)(0)
    of_set = np.concatenate([batch.sets, batch.sets])
    assert (batch.in_batch[of_set[:, None] != of_set[None, :]] == 0).all()
    drawn = batch.in_batch[np.arange(32), 32 + np.arange(32)]
    np.testing.assert_array_equal(drawn, batch.similarity)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("E", "'E' is not understood"),
        ("pos=0.5,soft=0.2", "sum to 0.7"),
        ("all:binary", "nothing is rounded; use binary, or binary labels with all:D"),
        ("pos=half,soft=0.5", "'half' is not a number"),
    ],
)
def test_unknown_strategies_are_one_clear_line(text, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        strategy_named(text)
    assert "\n" not in str(error.value)


def test_binary_labels_are_sent_to_batches_they_can_fill(binary_set):
    for strategy, other in (("all", "all:D"), ("A", "binary")):
        with pytest.raises(InputError, match=f"use `batches={other}`"):
            Batches([binary_set], strategy, 8)(0)
        assert len(Batches([binary_set], other, 8)(0)) == 8


def test_photos_taken_too_soon_after_each_other_are_no_pair(self_set):
    table = self_set.queries
    minutes = np.arange(len(table)) // 10  # ten photos a minute
    timed = Places(table.root, table.table.assign(time=[f"12:{m:02d}" for m in minutes]))
    same = LabelledSet(timed, timed, label_pairs(timed, timed))
    batches = Batches([same], "all:A", 32, apart=60.0)
    for step in range(5):
        batch = batches(step)
        assert (minutes[batch.queries] != minutes[batch.matches]).all()
        when = np.concatenate([minutes[batch.queries], minutes[batch.matches]])
        together = when[:, None] == when[None, :]
        assert np.isnan(batch.in_batch[together]).all()
        assert not np.isnan(batch.in_batch[~together]).any()


def test_photos_of_unknown_time_are_paired_as_ever(self_set):
    plain, asked = (Batches([self_set], "all:A", 16, apart=apart)(3) for apart in (0.0, 60.0))
    assert np.array_equal(plain.matches, asked.matches)
    assert np.array_equal(plain.in_batch, asked.in_batch, equal_nan=True)
