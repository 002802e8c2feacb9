"""Tokyo on a few images along a street, with positives worked out by hand."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.protocols.tokyo import PROTOCOLS

NAMED = {protocol.name: protocol for protocol in PROTOCOLS}
WEST, SOUTH = 584000.0, 4477000.0


def at(*metres):
    """Positions so far along a street."""
    return [(WEST + x, SOUTH) for x in metres]


def plain(found):
    return [rows.tolist() for rows in found]


def test_tokyo_24_7_by_hand_and_by_condition(tmp_path, save_struct):
    views = [f"03814/a/JHVdmPpMNQcjBfR7qsWEtA_012_{yaw:03d}.jpg" for yaw in (0, 30, 60)]
    phone = [f"{i:05d}.jpg" for i in range(4)]
    save_struct(
        tmp_path / "datasets/tokyo247.mat", views, at(0.0, 0.0, 60.0), phone, at(25.0, 35.0, 85.1, 30.0)
    )
    (case,) = NAMED["tokyo247"].cases(tmp_path)
    assert plain(case.positives) == [[0, 1], [2], [], []]
    assert case.groups["condition"].tolist() == ["day", "sunset", "night", "day"]
    assert case.counted.tolist() == [True, True, False, False]
    assert case.overlap() is None


def machine(*months):
    """Names of Time Machine views of the given months."""
    cut = "zZ5DQGP_GFqY-YofAb-rxA__{}_35.652657_139.680667_{:03d}_012.jpg"
    return [f"zz/zZ5DQGP_GFqY-YofAb-rxA/_{month}/{cut.format(month, i)}" for i, month in enumerate(months)]


def save_time_machine(save_struct, root, database, queries, **stamps):
    (months, where), (own, positions) = database, queries
    stamps = stamps or {"dbTimeStamp": np.array([months]), "qTimeStamp": np.array([own])}
    path = root / "datasets/tokyoTM_val.mat"
    save_struct(path, machine(*months), at(*where), machine(*own), at(*positions), **stamps)


def test_time_machine_leaves_out_the_months_of_the_query(tmp_path, save_struct):
    database = [201306, 201307, 201206, 201312, 201401], [0.0, 5.0, 10.0, 200.0, 200.0]
    queries = [201306, 201401, 201306], [0.0, 200.0, 900.0]
    save_time_machine(save_struct, tmp_path, database, queries)
    (case,) = NAMED["tokyotm-val"].cases(tmp_path)
    # June 2012 is another month than June 2013; December 2013 is the month before January 2014
    assert plain(case.positives) == [[1, 2], [3], []]
    barred = case.excluded(slice(0, 3), slice(0, 5))
    expected = [[True, False, False, False, False], [False] * 4 + [True], [True] + [False] * 4]
    assert barred.tolist() == expected
    assert case.counted.tolist() == [True, True, False]


def test_a_query_with_its_own_month_only_does_not_count(tmp_path, save_struct):
    save_time_machine(save_struct, tmp_path, ([201306], [0.0]), ([201306], [0.0]))
    (case,) = NAMED["tokyotm-val"].cases(tmp_path)
    assert plain(case.positives) == [[]]


def test_time_machine_without_time_stamps_is_refused(tmp_path, save_struct):
    save_time_machine(save_struct, tmp_path, ([201306], [0.0]), ([201307], [0.0]), numImages=1)
    with pytest.raises(InputError, match=r"tokyoTM_val\.mat has no time stamps"):
        NAMED["tokyotm-val"].cases(tmp_path)
