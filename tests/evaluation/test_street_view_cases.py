"""Pittsburgh and Tokyo on a few images along a street, with positives worked out by hand."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.street_view_cases import PROTOCOLS

NAMED = {protocol.name: protocol for protocol in PROTOCOLS}
WEST, SOUTH = 584000.0, 4477000.0


def at(*metres):
    """Positions so far along a street."""
    return [(WEST + x, SOUTH) for x in metres]


def plain(found):
    return [rows.tolist() for rows in found]


def names(count, folder="000"):
    return [f"{folder}/{i:06d}_pitch1_yaw1.jpg" for i in range(count)]


@pytest.mark.parametrize("size", ["30k", "250k"])
def test_pittsburgh_by_hand(tmp_path, save_struct, size):
    # exactly 25 m away on both sides, past it, and two images of one place
    street = at(25.0, -25.0, 25.01, 0.0, 0.0)
    save_struct(
        tmp_path / f"datasets/pitts{size}_test.mat", names(5), street, names(2, "001"), at(0.0, 500.0)
    )
    (case,) = NAMED[f"pitts{size}-test"].cases(tmp_path)
    assert case.name == f"pitts{size}_test"
    assert plain(case.positives) == [[0, 1, 3, 4], []]
    assert case.counted.tolist() == [True, False]
    assert (case.overlap, case.excluded, dict(case.groups)) == (None, None, {})
    published = "6,816 queries and 10,000" if size == "30k" else "8,280 queries and 83,952"
    assert case.notes == (
        "headings are not known, so there is no graded truth",
        f"2 queries and 5 map images, where the published set has {published} map images",
    )


def test_pittsburgh_of_images_named_with_at_signs(tmp_path):
    for side, metres in (("queries", [0.0, 100.0]), ("database", [110.0, 10.0])):
        folder = tmp_path / "images/test" / side
        folder.mkdir(parents=True)
        for i, x in enumerate(metres):
            name = f"@{WEST + x:010.2f}@{SOUTH:.2f}@17@T@040.44060@-079.99980@{i:06d}@@@@@@@pitch1_yaw1@.jpg"
            (folder / name).touch()
    (case,) = NAMED["pitts30k-test"].cases(tmp_path)
    apart = np.abs(case.queries.positions[:, None, 0] - case.places.positions[None, :, 0])
    assert plain(case.positives) == [np.flatnonzero(row <= 25).tolist() for row in apart]
    assert sorted(len(rows) for rows in case.positives) == [1, 1]


def test_an_absent_listing_is_told(tmp_path):
    with pytest.raises(InputError, match="no part 'pitts30k_test/query' of Pittsburgh"):
        NAMED["pitts30k-test"].cases(tmp_path)


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
    assert case.overlap is None


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
