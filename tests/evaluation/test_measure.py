"""Descriptors drawn so that every figure of the evaluation is known beforehand."""

from dataclasses import replace

import numpy as np
import pytest

from samespot import InputError, Places
from samespot.evaluation.cases import Case
from samespot.evaluation.compare import compare
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.results import Evaluation
from samespot.evaluation.run import evaluate_cases
from samespot.evaluation.variants import GivenWhitening, Other
from samespot.matching.reranker import Reranking
from samespot.overlap.rules import Sectors, label_pairs
from samespot.retrieval.descriptors import Descriptors
from samespot.whitening.whitening import Whitening

PLACES = 40
RIGHT = 30  # queries whose nearest descriptor is that of their own place
MARGIN = 0.5


def street(names, offset):
    """Cameras 200 m apart along a street, all looking north, `offset` metres east of the places."""
    n = len(names)
    columns = {"image": names, "easting": 200.0 * np.arange(n) + offset, "northing": 0.0, "heading": 0.0}
    return Places.build(".", columns, missing_images="ignore")


def protocol(**changes):
    words = {"queries": "all", "positive": "same place", "exclusions": "", "citation": "none"}
    return Protocol("mini", "Miniature", "places", make=lambda root: [], **{**words, **changes})


def unit(rng, n, d):
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture
def world():
    """A case of 41 queries, the last one far from the map, and a describer with vectors of known neighbours."""
    rng = np.random.default_rng(0)
    places = street([f"map/{i}" for i in range(PLACES)], 0.0)
    table = street([f"query/{i}" for i in range(PLACES + 1)], 10.0)
    table.table.loc[PLACES, "northing"] = 5000.0
    positives = [np.array([i]) for i in range(PLACES)] + [np.array([], dtype=int)]
    case = Case(
        "town", table, places, positives,
        Sectors(),
        groups={"condition": np.array(["day"] * RIGHT + ["night"] * (PLACES + 1 - RIGHT))},
        reach=100.0,
    )  # fmt: skip
    maps = unit(rng, PLACES, 32)
    meant = np.arange(PLACES + 1)
    meant[RIGHT:PLACES] = (meant[RIGHT:PLACES] + 1) % RIGHT  # the others look like another place
    meant[PLACES] = 0
    queries = maps[meant] + rng.uniform(0.01, 0.05, (PLACES + 1, 1)) * unit(rng, PLACES + 1, 32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    vectors = {len(places): maps, len(table): queries}

    def describe(table, name):
        x = vectors[len(table)] if "training" not in name else unit(rng, len(table), 32)
        return Descriptors(None, x.astype(np.float32), {"bad": {}})

    return case, describe


def run(world, options=None, other=None, given=(), **changes):
    case, describe = world
    further = {"options": options, "other": other, "given": given}
    return evaluate_cases(protocol(**changes), [case], describe, margin=MARGIN, model={}, **further)


def test_recall_is_what_was_drawn(world):
    plain = run(world).evaluation.variant()
    assert plain.metrics["R@1"].value == RIGHT / PLACES
    assert plain.metrics["R@1"].n == PLACES  # the query far away has nothing to find and does not count
    assert plain.metrics["R@1"].low < RIGHT / PLACES < plain.metrics["R@1"].high


def test_groups_share_the_queries_out(world):
    by = run(world).evaluation.variant().by["condition"]
    assert by["day"]["R@1"].value == 1.0
    assert by["night"]["R@1"].value == 0.0
    assert (by["day"]["R@1"].n, by["night"]["R@1"].n) == (RIGHT, PLACES - RIGHT)


def test_graded_metrics_of_the_top_match(world):
    case, _ = world
    true = float(label_pairs(case.queries, case.places).lookup(np.array(0), np.array(0)))
    plain = run(world).evaluation.variant()
    assert plain.metrics["overlap@1"].value == pytest.approx(true * RIGHT / PLACES, rel=1e-6)
    assert plain.metrics["nDCG@10"].value == pytest.approx(
        RIGHT / PLACES, abs=0.2
    )  # the misses find theirs late


def test_predicted_overlap_comes_from_the_distance(world):
    plain = run(world).evaluation.variant()
    distance, predicted = plain.outcomes["distance"], plain.outcomes["predicted"]
    np.testing.assert_allclose(predicted, 1 - distance / MARGIN)


def test_every_size_of_whitening_is_a_variant(world):
    other = Other("training places", street([f"train/{i}" for i in range(60)], 0.0))
    done = run(world, EvaluateOptions(whiten=(4, 16, 999)), other)
    kinds = [(v.dims, v.whitened_on) for v in done.evaluation.variants]
    assert kinds == [
        (32, None),
        (4, "the map"),
        (16, "the map"),
        (4, "training places"),
        (16, "training places"),
    ]
    assert done.evaluation.variant("16 whitened on the map").metrics["R@1"].value == RIGHT / PLACES


def test_sizes_above_the_rank_are_said_to_be_left_out(world):
    notes = run(world, EvaluateOptions(whiten=(4, 999))).evaluation.notes
    assert any("999" in note for note in notes)


def test_only_sizes_above_the_rank_are_an_error(world):
    with pytest.raises(InputError, match="999"):
        run(world, EvaluateOptions(whiten=(999,)))


def test_acceptance_asks_each_query_again_without_its_place(world):
    """By hand: the place itself, the only map image within 100 m, is taken away; thresholds one by one."""
    case, describe = world
    q, p = (describe(t, "").vectors.astype(np.float64) for t in (case.queries, case.places))
    d = np.linalg.norm(q[:, None] - p[None], axis=2)
    present, right = d[:PLACES].min(axis=1), d[:PLACES].argmin(axis=1) == np.arange(PLACES)
    d[np.arange(PLACES), np.arange(PLACES)] = np.inf
    absent = d.min(axis=1)
    best = 0.0
    for t in np.concatenate([present, absent]):
        accepted = (present <= t).sum() + (absent <= t).sum()
        if ((present <= t) & right).sum() / accepted >= 0.7:
            best = max(best, t)
    at = run(world, EvaluateOptions(accept_precision=0.7)).evaluation.variant().curves["acceptance"]["at"]
    assert at["distance"] == pytest.approx(best, abs=1e-6)
    assert at["recall"] == pytest.approx(((present <= best) & right).mean())
    assert at["false_accepts"] == pytest.approx((absent <= best).mean())


def test_recall_over_distance_counts_only_queries_with_something_that_near(world):
    curve = run(world).evaluation.variant().curves["distance"]
    counts = dict(zip(curve["thresholds"], curve["queries"], strict=True))
    assert counts[5] == 0  # the places lie 10 m from the queries
    assert counts[10] == counts[50] == PLACES


def test_average_precision_over_all_pairs(world):
    from sklearn.metrics import average_precision_score

    case, describe = world
    done = run(world, all_pairs=True)
    q, p = describe(case.queries, "q").vectors, describe(case.places, "p").vectors
    truth = np.zeros((len(q), len(p)), dtype=bool)
    truth[np.arange(PLACES), np.arange(PLACES)] = True
    expected = average_precision_score(truth.ravel(), (q @ p.T).ravel())
    measured = done.evaluation.variant().curves["pairs"]["town"]["average precision"]
    assert measured == pytest.approx(expected, abs=1e-4)


def test_a_result_survives_its_file(world, tmp_path):
    first = run(world, EvaluateOptions(whiten=(4,))).evaluation
    first.save(tmp_path / "evaluation.json")
    again = Evaluation.load(tmp_path)
    assert [v.name for v in again.variants] == [v.name for v in first.variants]
    for mine, theirs in zip(again.variants, first.variants, strict=True):
        assert list(mine.metrics) == list(theirs.metrics)
        assert [m.low for m in mine.metrics.values()] == pytest.approx(
            [m.low for m in theirs.metrics.values()], abs=1e-6
        )
    np.testing.assert_array_equal(
        again.variant().outcomes["first_hit"], first.variant().outcomes["first_hit"]
    )
    np.testing.assert_array_equal(again.queries.counted, first.queries.counted)


def test_a_broken_result_file_is_named(tmp_path):
    (tmp_path / "evaluation.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match="not an evaluation"):
        Evaluation.load(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        Evaluation.load(tmp_path / "absent.json")


def test_a_run_does_not_differ_from_itself(world):
    one = run(world).evaluation
    same = compare([one], [one])
    assert {
        (d.metric, d.difference.value, d.difference.low, d.difference.high) for d in same.differences
    } >= {("R@1", 0.0, 0.0, 0.0)}
    assert not any(d.significant for d in same.differences)


def test_comparison_finds_queries_by_name_whatever_their_order(world):
    """The same answers with the queries in another order: no difference."""
    case, describe = world
    order = np.random.default_rng(1).permutation(PLACES + 1)
    turned = Case(
        "town", case.queries.select(order), case.places, [case.positives[i] for i in order],
        Sectors(), reach=100.0,
    )  # fmt: skip

    def reordered(table, name):
        x = describe(table, name)
        return Descriptors(None, x.vectors[order], x.meta) if "queries" in name else x

    one, other = run(world).evaluation, run((turned, reordered)).evaluation
    assert compare([one], [other]).differences[0].difference.value == 0.0


def test_other_protocols_and_queries_are_not_compared(world):
    case, describe = world
    one = run(world).evaluation
    with pytest.raises(InputError, match="positive"):
        compare([one], [run(world, positive="within 25 m").evaluation])
    fewer = Case("town", case.queries.select(slice(0, PLACES)), case.places, case.positives[:PLACES])
    vectors = describe(case.queries, "").vectors[:PLACES]
    places = describe(case.places, "")
    other = run(
        (fewer, lambda t, name: Descriptors(None, vectors, {"bad": {}}) if "queries" in name else places)
    )
    with pytest.raises(InputError, match="1 queries are in one of them only"):
        compare([one], [other.evaluation])


def test_no_case_is_an_error():
    with pytest.raises(InputError, match="no case"):
        evaluate_cases(protocol(), [], lambda table, name: None, margin=0.5, model={})


def test_unreadable_images_are_recorded_and_cannot_be_found(world):
    case, describe = world

    def with_bad(table, name):
        one = describe(table, name)
        if "map" not in name:
            return one
        vectors = one.vectors.copy()
        vectors[3] = 0
        return Descriptors(None, vectors, {"bad": {"3": "empty file"}})

    done = run((case, with_bad))
    assert "town map row 3" in done.evaluation.settings["images that could not be read"]
    assert "map/3" not in done.evaluation.variant().outcomes["top"]
    assert done.evaluation.variant().metrics["R@1"].value == (RIGHT - 1) / PLACES


def test_training_places_of_unknown_heading_whiten_but_do_not_calibrate(world):
    train = street([f"train/{i}" for i in range(60)], 0.0)
    train.table.loc[3, "heading"] = np.nan
    done = run(world, EvaluateOptions(whiten=(4,)), Other("training places", train))
    assert done.calibrations == {}
    assert done.evaluation.variants[-1].whitened_on == "training places"
    assert any(note.startswith("no calibration on training places") for note in done.evaluation.notes)


@pytest.mark.parametrize(
    ("on", "sets"),
    [
        ("map", ["the map"]),
        ("train", ["training places"]),
        ("both", ["the map", "training places"]),
        (None, ["the map", "training places"]),
    ],
)
def test_whitening_is_fitted_on_the_sets_asked_for(world, on, sets):
    other = Other("training places", street([f"train/{i}" for i in range(60)], 0.0))
    done = run(world, EvaluateOptions(whiten=(4,), whiten_on=on), other)
    assert [variant.whitened_on for variant in done.evaluation.variants] == [None, *sets]
    assert [whitening.fitted_on for whitening in done.whitenings] == sets


def test_one_run_stands_against_each_seed_of_the_other_side(world):
    one = run(world).evaluation
    alone, repeated = compare([one], [one, one, one]), compare([one] * 3, [one] * 3)
    assert (alone.runs, alone.queries) == (
        (1, 3),
        PLACES,
    )  # the query that has nothing to find does not count
    assert [d.difference for d in alone.differences] == [d.difference for d in repeated.differences]
    with pytest.raises(InputError, match="A has 3 runs and B has 2"):
        compare([one] * 3, [one] * 2)


def test_the_same_queries_in_another_map_are_not_compared(world):
    case, describe = world
    one = run(world).evaluation
    fewer = Case(
        "town",
        case.queries,
        case.places.select(slice(0, PLACES - 1)),
        case.positives[: PLACES - 1] + [[]] * 2,
    )

    def smaller(table, name):
        vectors = describe(case.places if "map" in name else table, name).vectors
        return Descriptors(None, vectors[: len(table)], {"bad": {}})

    with pytest.raises(InputError, match="the map of town has 40 images in one and 39 in another"):
        compare([one], [run((fewer, smaller)).evaluation])
    lacking = Case("town", case.queries, case.places, [*case.positives[: PLACES - 1], [], []])
    with pytest.raises(InputError, match="1 queries have something to find in one of them only"):
        compare([one], [run((lacking, describe)).evaluation])


def test_queries_with_nothing_to_find_are_an_error_before_any_photo_is_read(world):
    case, _ = world
    nothing = Case("town", case.queries, case.places, [[]] * (PLACES + 1))
    with pytest.raises(InputError, match="none of the 41 queries has anything to find"):
        evaluate_cases(protocol(), [nothing], lambda table, name: 1 / 0, margin=MARGIN, model={})


def test_a_map_against_itself_is_described_once(world):
    case, describe = world
    names = []
    around = [np.array([(i + 1) % PLACES]) for i in range(PLACES)]
    same = Case("town", case.places, case.places, around)
    run((same, lambda table, name: names.append(name) or describe(table, name)))
    assert names == ["town-map"]


def test_calibration_is_of_the_first_ten_whatever_ranks_are_asked_for(world):
    for ks in ((1, 5), (1, 25)):
        curve = run(world, ks=ks).evaluation.variant().curves["calibration"]
        assert sum(curve["counts"]) == 10 * (PLACES + 1)


class Knowing:
    """A reranker, and its own store: a photo's only feature is the number of its place."""

    name, facts, settings, width = "knowing", {"model": "none"}, {"how": "it knows"}, 1

    def features(self, reranker, places, name, progress):
        return np.arange(len(places), dtype=np.float16)[:, None]

    def scores(self, query, places, rows):
        return -np.abs(places[rows, 0].astype(float) - float(query[0]))


def reranked(world, top, of=None, **further):
    case, describe = world
    by = Reranking(Knowing(), top, of, store=Knowing())
    return evaluate_cases(protocol(), [case], describe, margin=MARGIN, model={}, reranking=by, **further)


def test_a_re_ranked_list_is_one_more_variant(world, tmp_path):
    done = reranked(world, PLACES)
    plain, better = done.evaluation.variants
    assert (plain.name, better.name) == ("32", "32 re-ranked by knowing")
    assert plain.metrics["R@1"].value == RIGHT / PLACES
    assert (better.metrics["R@1"].value, better.metrics["R@1"].n) == (1.0, PLACES)
    assert better.by["condition"]["night"]["R@1"].value == 1.0
    np.testing.assert_array_equal(better.outcomes["score"][:PLACES], 0)
    assert done.found[better.name][0].rows[:PLACES, 0].tolist() == list(range(PLACES))
    told = done.evaluation.settings["re-ranking"]
    assert (told["by"], told["top"], told["of"], told["how"]) == ("knowing", PLACES, "32", "it knows")
    again = Evaluation.load(done.evaluation.save(tmp_path / "e.json")).variant("32 re-ranked by knowing")
    assert again.reranked_by == "knowing"
    assert again.metrics["R@1"].value == 1.0


def test_re_ranking_reaches_as_far_down_as_asked(world):
    """Those who look like their neighbour have their place somewhere in the list, not first."""
    case, describe = world
    queries, maps = (describe(table, "").vectors.astype(float) for table in (case.queries, case.places))
    cosine = queries[:PLACES] @ maps.T
    nearer = (cosine > np.diag(cosine)[:, None]).sum(axis=1)
    for top in (1, 5, 20):
        better = reranked(world, top).evaluation.variant("32 re-ranked by knowing")
        assert better.metrics["R@1"].value == pytest.approx((nearer < top).mean())


def test_nothing_that_rests_on_distances_is_told_of_a_re_ranked_list(world):
    plain, better = reranked(world, PLACES).evaluation.variants
    assert {"calibration", "acceptance", "distance", "overlap"} <= plain.curves.keys()
    assert better.curves.keys() == {"distance", "overlap"}  # recalls over thresholds, which rest on ranks
    assert "predicted" in plain.outcomes
    assert "predicted" not in better.outcomes
    case, describe = world
    queries, maps = (describe(table, "").vectors for table in (case.queries, case.places))
    apart = np.linalg.norm(queries[:PLACES] - maps, axis=1)  # still of the top match's descriptor
    np.testing.assert_allclose(better.outcomes["distance"][:PLACES], apart, atol=1e-6)


def test_a_re_ranked_list_compares_with_the_plain_one(world):
    run = [reranked(world, PLACES).evaluation]
    result = compare(run, run, variants=("32 re-ranked by knowing", "32"))
    (first,) = [one for one in result.differences if one.metric == "R@1"]
    assert first.difference.value == 1 - RIGHT / PLACES
    assert first.significant


def test_the_lists_of_a_whitened_descriptor_can_be_re_ranked(world):
    sizes = EvaluateOptions(whiten=(4, 16))
    done = reranked(world, 5, "16 whitened on the map", options=sizes)
    names = [variant.name for variant in done.evaluation.variants]
    assert names[2:] == ["16 whitened on the map", "16 whitened on the map re-ranked by knowing"]
    with pytest.raises(InputError, match="no descriptor '8' to re-rank; this evaluation has 32, 4 whitened"):
        reranked(world, 5, "8", options=sizes)


def test_sequences_are_not_re_ranked(world):
    case, describe = world
    one_frame = replace(case, query_frames=np.arange(PLACES + 1)[:, None])
    with pytest.raises(InputError, match="single photos"):
        reranked((one_frame, describe), 5)


# ---- a whitening from a file ----


@pytest.fixture
def affine():
    """(10, 32) and (10,): descriptors v become weight · v + bias, the shortest row first."""
    rng = np.random.default_rng(5)
    return rng.normal(size=(10, 32)) * np.geomspace(1, 20, 10)[:, None], rng.normal(size=10)


@pytest.fixture
def given(affine, tmp_path):
    return GivenWhitening.load(
        Whitening.from_affine(*affine, "streets of Pittsburgh").save(tmp_path / "w.safetensors")
    )


def test_a_given_whitening_finds_what_its_arrays_say(world, affine, given, tmp_path):
    case, describe = world
    weight, bias = affine

    def whitened(table):
        rows = describe(table, "").vectors.astype(np.float64) @ weight.T + bias
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    order = np.argsort(-whitened(case.queries) @ whitened(case.places).T, axis=1)
    nearest = order[:, 0]
    done = run(world, given=[given])
    plain, white = done.evaluation.variants
    assert (white.name, white.dims) == ("10 whitened with w.safetensors", 10)
    assert (white.whitened_on, white.whitened_with) == ("streets of Pittsburgh", "w.safetensors")
    rows, before = (done.found[name][0].rows[:, :10] for name in (white.name, plain.name))
    np.testing.assert_array_equal(rows, order[:, :10])
    assert (rows != before).mean() > 0.5  # it does something
    right = (nearest[:PLACES] == np.arange(PLACES)).mean()
    score = white.metrics["R@1"]
    assert (score.value, score.n) == (right, PLACES)
    assert score.low < right < score.high
    assert "calibration" not in white.curves  # 1 - d/τ holds for distances of the network only
    assert done.whitenings == []  # none was fitted
    again = Evaluation.load(done.evaluation.save(tmp_path / "e.json"))
    assert [one.name for one in again.variants] == [plain.name, white.name]
    assert again.variant(white.name).whitened_on == "streets of Pittsburgh"
    (told,) = again.settings["whitened with"]
    assert (told["fitted on"], told["dims"], told["images"]) == ("streets of Pittsburgh", 10, None)
    assert any("streets of Pittsburgh" in note for note in again.notes)


def test_a_given_whitening_stands_beside_fitted_ones_in_the_same_sizes(world, given):
    other = Other("training places", street([f"train/{i}" for i in range(60)], 0.0))
    done = run(world, EvaluateOptions(whiten=(4, 10, 16)), other, [given])
    assert [variant.name for variant in done.evaluation.variants] == [
        "32",
        *(f"{d} whitened on {s}" for s in ("the map", "training places") for d in (4, 10, 16)),
        "4 whitened with w.safetensors",
        "10 whitened with w.safetensors",
    ]
    assert "not whitened with w.safetensors to 16 dims: it has 10" in done.evaluation.notes
    assert [one.fitted_on for one in done.whitenings] == ["the map", "training places"]
    assert "calibration, isotonic" in done.evaluation.variant("10 whitened with w.safetensors").curves


def test_the_lists_of_a_given_whitening_can_be_re_ranked(world, given):
    done = reranked(world, PLACES, "10 whitened with w.safetensors", given=[given])
    _, white, better = done.evaluation.variants
    assert better.name == "10 whitened with w.safetensors re-ranked by knowing"
    assert (better.whitened_with, better.whitened_on) == (white.whitened_with, white.whitened_on)
    assert better.metrics["R@1"].value == 1.0 > white.metrics["R@1"].value


def test_a_file_fitted_on_some_map_is_not_taken_for_one_fitted_on_this_map(world, tmp_path):
    elsewhere = Whitening.fit(unit(np.random.default_rng(1), 50, 32), "the map")
    given = GivenWhitening.load(elsewhere.save(tmp_path / "w.safetensors"))
    done = run(world, EvaluateOptions(whiten=(8,)), given=[given])
    names = [variant.name for variant in done.evaluation.variants]
    assert names == [
        "32",
        "8 whitened on the map",
        "8 whitened with w.safetensors",
        "32 whitened with w.safetensors",
    ]
    assert [one.images for one in done.whitenings] == [PLACES]


def test_a_file_that_does_not_say_where_it_was_fitted(world, affine, tmp_path):
    file = Whitening.from_affine(*affine, "").save(tmp_path / "w.safetensors")
    white = run(world, given=[GivenWhitening.load(file)]).evaluation.variants[1]
    assert (white.whitened_on, white.name) == ("not known", "10 whitened with w.safetensors")


def test_a_whitening_of_another_size_is_refused(world, tmp_path):
    file = Whitening.fit(unit(np.random.default_rng(1), 50, 31), "x").save(tmp_path / "w.safetensors")
    with pytest.raises(
        InputError, match=r"w\.safetensors: whitens descriptors of 31 dims, .* gives 32; give"
    ):
        run(world, given=[GivenWhitening.load(file)])
