"""Pittsburgh on a few images along a street, with positives worked out by hand."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.protocols.pittsburgh import PROTOCOLS

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
    assert (case.overlap(), case.excluded, dict(case.groups)) == (None, None, {})
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
