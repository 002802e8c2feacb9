"""The town's truth as a rule: measured on depth images, for labels and for pairs alike."""

import numpy as np
import pandas as pd
import pytest

from samespot import InputError, Places
from samespot.evaluation.protocols.town import PROTOCOLS, SharedView
from samespot.overlap.rules import rule_of
from samespot.town.build import build_town
from samespot.town.overlap import true_overlap

(TOWN,) = PROTOCOLS


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    build_town(folder, 3, 2, size=(48, 64), photos_per_visit=40)
    return folder


@pytest.fixture(scope="module")
def case(root):
    return TOWN.cases(root)[0]


def test_labels_and_pairs_are_the_overlap_that_depth_tells(case):
    labels = case.overlap()
    assert case.overlap() is labels  # measured once
    both = Places(case.queries.root, pd.concat([case.queries.table, case.places.table], ignore_index=True))
    count, places = len(case.queries), len(case.places)
    pairs = np.stack([grid.ravel() for grid in np.mgrid[:count, :places]], axis=1)
    expected = true_overlap(both, pairs + np.array([0, count])).reshape(count, places)
    assert (expected > 0.2).sum() > 5
    np.testing.assert_allclose(labels.dense(), expected, atol=1e-6)
    labels.check(case.queries, case.places)
    np.testing.assert_allclose(
        case.rule.of_pairs(case.queries, case.places, pairs[:50]), expected.ravel()[:50]
    )
    own = case.rule.of_pairs(case.places, case.places, np.array([[3, 3], [0, 1]]))
    np.testing.assert_allclose(own, true_overlap(case.places, [[3, 3], [0, 1]]))
    assert own[0] > 0.95


def test_it_says_what_it_is_and_cannot_be_taken_for_sectors(case):
    meta = case.overlap().meta
    assert (meta["kind"], meta["measure"]) == (SharedView.KIND, "shared view")
    assert rule_of(meta) is None


def test_photos_without_depth_are_known_to_be_so(case):
    rule, table = SharedView(), case.places.table
    assert rule.unknown(case.places) == {}
    gone = Places(case.places.root, table.assign(depth=[None, *table["depth"][1:]]))
    assert rule.unknown(gone)["depth image"].tolist() == [True] + [False] * (len(table) - 1)
    assert rule.unknown(Places(case.places.root, table.drop(columns="depth")))["depth image"].all()


def test_a_town_of_one_visit_has_no_queries(root, tmp_path):
    table = pd.read_csv(root / "places.csv")
    table[table["split"] != "query"].to_csv(tmp_path / "places.csv", index=False)
    (tmp_path / "town.json").write_text((root / "town.json").read_text())
    with pytest.raises(InputError, match=r"no queries; build it with `visits=2`"):
        TOWN.cases(tmp_path)
