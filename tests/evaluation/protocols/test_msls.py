"""MSLS on miniature cities along a line, with positives worked out by hand from the rule of its script."""

import numpy as np
import pandas as pd
import pytest

from samespot.errors import InputError
from samespot.evaluation.protocols.msls import PROTOCOLS, windows
from samespot.overlap.sector import sector_overlap
from samespot.places.msls import SUBTASKS
from samespot.places.table import Places

NAMED = {protocol.name: protocol for protocol in PROTOCOLS}


def photo(key, x, *, seq=None, frame=0, ca=0.0, pano=False, night=False, subtasks="all"):
    """One image at (x, 0) m; by default alone in its sequence."""
    flags = {name: name in subtasks.split() for name in SUBTASKS}
    return {
        "key": key,
        "sequence_key": seq or f"alone-{key}",
        "frame_number": frame,
        **{"lon": 8.54, "lat": 47.37, "ca": ca, "captured_at": "2018-05-11", "pano": pano},
        **{"easting": x, "northing": 0.0, "night": night, "view_direction": "Forward"},
        **flags,
    }


CSVS = {
    "seq_info.csv": ["key", "sequence_key", "frame_number"],
    "raw.csv": ["key", "lon", "lat", "ca", "captured_at", "pano"],
    "postprocessed.csv": ["key", "easting", "northing", "night", "view_direction"],
    "subtask_index.csv": ["key", *SUBTASKS],
}


def write_city(root, city, query, database, *, secret=False):
    for side, photos in (("query", query), ("database", database)):
        folder = root / ("test" if secret else "train_val") / city / side
        folder.mkdir(parents=True)
        for name, columns in CSVS.items():
            if not (secret and name in ("raw.csv", "postprocessed.csv")):
                pd.DataFrame(photos)[columns].to_csv(folder / name)
    return root


def keys(names):
    return [",".join(image.rsplit("/", 1)[1].removesuffix(".jpg") for image in n.split(",")) for n in names]


def found(case):
    """Keys of the positives of each query, by its key."""
    names = keys(case.place_names)
    return {
        query: [names[row] for row in rows]
        for query, rows in zip(keys(case.query_names), case.positives, strict=True)
    }


def cph(root):
    query = [
        photo("near", 0.0, subtasks="all d2n"),
        photo("by-panorama", 100.0, night=True),
        photo("lost", 1000.0),
        photo("other-task", 0.0, subtasks="s2w"),
        photo("panorama-query", 0.0, pano=True),
    ]
    database = [
        photo("at-25", 25.0),
        photo("past-25", -25.001),
        photo("panorama", 100.0, pano=True),
        photo("not-in-all", 0.0, subtasks="d2n"),
        photo("ten", 10.0),
        photo("ten-again", 10.0),
    ]
    return write_city(root, "cph", query, database)


def sf(root):
    """Copenhagen's metres, an ocean away."""
    return write_city(root, "sf", [photo("sf-q", 3.0)], [photo("sf-far", 60.0), photo("sf-near", 0.0)])


@pytest.fixture
def val(tmp_path):
    cph(tmp_path)
    return sf(tmp_path)


def test_images_of_each_city_by_hand(val):
    copenhagen, francisco = NAMED["msls-val"].cases(val)
    assert (copenhagen.name, francisco.name) == ("cph", "sf")
    assert keys(copenhagen.place_names) == ["at-25", "past-25", "ten", "ten-again"]
    assert found(copenhagen) == {"near": ["at-25", "ten", "ten-again"], "by-panorama": [], "lost": []}
    assert copenhagen.counted.tolist() == [True, False, False]
    assert copenhagen.groups["condition"].tolist() == ["day", "night", "day"]
    assert found(francisco) == {"sf-q": ["sf-near"]}
    assert (copenhagen.query_frames, copenhagen.excluded, copenhagen.notes) == (None, None, ())
    assert NAMED["msls-val"].ks == (1, 5, 10, 20)


def test_a_subtask_has_its_own_queries_and_map_and_an_empty_city_is_left_out(val):
    (case,) = NAMED["msls-val"].cases(val, subtask="d2n")
    assert found(case) == {"near": ["not-in-all"]}
    assert case.notes == ("sf: left out, without queries or without a map in d2n",)
    with pytest.raises(InputError, match="no queries or no map of n2d, im2im in cph, sf"):
        NAMED["msls-val"].cases(val, subtask="n2d")


def test_the_graded_truth_is_the_overlap_at_50_m(val):
    case, _ = NAMED["msls-val"].cases(val)
    labels = case.overlap(None)
    labels.check(case.queries, case.places)
    expected = sector_overlap(case.queries.positions[:, None], case.places.positions[None], 90.0, 50.0)
    np.testing.assert_allclose(labels.dense(), expected, atol=1e-6)
    assert 0 < labels.dense()[0, 1] < 1  # 25.001 m away is no positive, yet half the view is the same


def test_the_angle_is_taken_across_north_and_an_unknown_one_matches_nothing(tmp_path):
    query = [photo("q", 0.0, ca=350.0), photo("no-compass", 0.0, ca=np.nan)]
    database = [photo(f"at-{ca}", 5.0, ca=ca) for ca in (30.0, 31.0, 310.0, 170.0, np.nan)]
    write_city(tmp_path, "zurich", query, database)
    (strict,) = NAMED["msls-val-40deg"].cases(tmp_path, cities="zurich")
    assert found(strict) == {"q": ["at-30.0", "at-310.0"], "no-compass": []}
    (loose,) = NAMED["msls-val"].cases(tmp_path, cities="zurich")
    assert [len(rows) for rows in loose.positives] == [5, 5]
    assert loose.overlap() is None
    assert loose.notes == ("zurich: 1 of 2 query images have no heading, so there is no graded truth",)


def ride(prefix, seq, frames, xs, **unlike):
    """Frames of one sequence; `unlike` changes single images by their key."""
    return [
        photo(f"{prefix}{i}", x, seq=seq, frame=frame, **unlike.get(f"{prefix}{i}", {}))
        for i, (frame, x) in enumerate(zip(frames, xs, strict=True))
    ]


@pytest.fixture
def rides(tmp_path):
    out = {"subtasks": "s2w"}
    pano = {"pano": True}
    database = [
        *ride("a", "A", [0, 1, 2, 3, 5], [0, 100, 200, 300, 400], a2=out),  # frame 4 is missing
        *ride("b", "B", [6, 7, 8], [500, 600, 700], b1=pano),  # frame 6 follows on, in another sequence
        *ride("c", "C", [0, 1, 2], [800, 900, 1000], c0=pano, c2=out),
    ]
    query = [
        *ride("q", "Q", [7, 8, 9, 10], [5000, 5000, 215, 775], q2=out),
        *ride("p", "P", [11, 12], [0, 0]),
    ]
    return write_city(tmp_path, "zurich", query, database)


def zurich(root, task, **options):
    (case,) = NAMED["msls-val"].cases(root, cities="zurich", task=task, **options)
    return case


def test_sequences_by_hand(rides):
    case = zurich(rides, "seq2seq")
    # of the windows (a0 a1 a2), (a1 a2 a3), (b0 b1 b2), (c0 c1 c2) the middle frames a2 and b1 are out
    assert keys(case.place_names) == ["a0,a1,a2", "c0,c1,c2"]
    # (q1 q2 q3) has its middle out, and so q3 at 775 m, within 25 m of c0, is asked for nowhere
    assert found(case) == {"q0,q1,q2": ["a0,a1,a2"]}  # q2 is 15 m from a2: both at the edge, both out alone
    assert keys(case.queries.table["image"]) == ["q0", "q1", "q2"]
    assert (case.query_frames.tolist(), case.place_frames.tolist()) == ([[0, 1, 2]], [[0, 1, 2], [3, 4, 5]])
    assert case.overlap() is None
    assert case.notes == ("graded truth is of images; there is none of sequences",)
    assert len(case.groups["condition"]) == 1


def test_images_in_sequences_and_sequences_in_images(rides):
    into_sequences = zurich(rides, "im2seq")
    # q3 is 25 m from c0, a panorama at the edge of a window
    expected = {"q0": [], "q1": [], "q3": ["c0,c1,c2"], "p0": ["a0,a1,a2"], "p1": ["a0,a1,a2"]}
    assert found(into_sequences) == expected
    assert into_sequences.query_frames is None
    into_images = zurich(rides, "seq2im")
    assert keys(into_images.place_names) == ["a0", "a1", "a3", "a4", "b0", "b2", "c1"]
    assert found(into_images) == {"q0,q1,q2": []}  # a2 is out, and it was the only one near
    assert into_images.place_frames is None


def test_a_longer_window_and_the_ends_of_the_table(rides):
    with pytest.raises(InputError, match="no queries or no map of all, seq2seq in zurich"):
        zurich(rides, "seq2seq", seq_length=5)  # no ride has 5 frames in a row
    assert zurich(rides, "im2im", seq_length="5").query_count == 5  # of no effect on single images


def test_windows_are_runs_of_one_sequence():
    columns = {"image": list("abcdefg"), "sequence": list("AAAABBB"), "frame": [1, 2, 3, 5, 6, 7, 8]}
    table = Places.build(".", {**columns, "easting": 0.0, "northing": 0.0}, missing_images="ignore")
    assert windows(table, 3).tolist() == [[0, 1, 2], [4, 5, 6]]
    assert windows(table, 1).tolist() == [[i] for i in range(7)]
    assert windows(table, 9).shape == (0, 9)


def test_windows_against_the_rule_in_plain_words():
    dice = np.random.default_rng(3)
    n = 300
    sequence, step = np.cumsum(dice.random(n) < 0.1), np.where(dice.random(n) < 0.1, 2, 1)
    columns = {"image": [str(i) for i in range(n)], "sequence": sequence, "frame": np.cumsum(step)}
    table = Places.build(".", {**columns, "easting": 0.0, "northing": 0.0}, missing_images="ignore")
    expected = []
    for middle in range(2, n - 2):
        rows = list(range(middle - 2, middle + 3))
        frames = columns["frame"][rows]
        if len(set(sequence[rows])) == 1 and (np.diff(frames) == 1).all():
            expected.append(rows)
    assert 0 < len(expected) < n - 4
    assert windows(table, 5).tolist() == expected


def test_test_cities_have_no_truth_and_keep_every_image_of_the_subtask(tmp_path):
    query = [photo("q0", 0.0), photo("q1", 0.0, subtasks="s2w"), photo("q2", 0.0, pano=True)]
    write_city(tmp_path, "miami", query, [photo("d0", 0.0)], secret=True)
    write_city(tmp_path, "athens", [photo("q3", 0.0, subtasks="")], [photo("d1", 0.0)], secret=True)
    protocol = NAMED["msls-test"]
    (case,) = protocol.cases(tmp_path, cities="miami,athens")
    assert protocol.truth == "secret"
    assert (keys(case.query_names), keys(case.place_names)) == (["q0", "q2"], ["d0"])
    assert (case.positives, case.overlap()) == (None, None)
    assert case.notes == ("athens: left out, without queries or without a map in all",)
    with pytest.raises(InputError, match="no test/buenosaires/query here"):
        protocol.cases(tmp_path, cities="miami,buenosaires")


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"subtask": "dusk"}, "`subtask` 'dusk' is unknown; choose one of all, s2w"),
        ({"task": "im2video"}, "`task` 'im2video' is unknown; choose one of im2im"),
        ({"task": "seq2seq", "seq_length": 4}, "seq_length 4: give an odd number"),
        ({"task": "seq2im", "seq_length": 1}, "seq_length 1: seq2im needs sequences of 3"),
        ({"seq_length": "three"}, "seq_length 'three' is not a number"),
        ({"cities": "miami"}, "city 'miami': its truth is secret; use msls-test"),
        ({"cities": "atlantis"}, "'atlantis' is not a city of MSLS"),
        ({"cities": "cph,paris"}, "no train_val/paris/query here"),
        ({"cities": " , "}, "cities is empty"),
        ({"keys": "a.txt"}, "protocol msls-val has no option 'keys'"),
    ],
)
def test_a_wrong_option_is_answered_in_one_line(val, options, answer):
    with pytest.raises(InputError) as error:
        NAMED["msls-val"].cases(val, **options)
    assert answer in str(error.value)
    assert "\n" not in str(error.value)


def test_a_train_city_is_refused_among_the_test_cities(val):
    with pytest.raises(InputError, match="city 'cph': it is not a test city; use msls-val"):
        NAMED["msls-test"].cases(val, cities="cph")


def test_every_query_of_both_cities_in_one_map(val):
    (case,) = NAMED["msls-val-11k"].cases(val)
    in_reach = ["at-25", "not-in-all", "ten", "ten-again"]
    assert found(case) == {
        "near": in_reach,
        "by-panorama": [],
        "lost": [],
        "other-task": in_reach,
        "sf-q": ["sf-near"],  # Copenhagen has the same metres, and none of it is found
    }
    assert case.groups["city"].tolist() == ["cph"] * 4 + ["sf"]
    assert case.place_count == 5 + 2


def test_the_pooled_graded_truth_does_not_cross_the_ocean(val):
    (case,) = NAMED["msls-val-11k"].cases(val)
    labels = case.overlap(None)
    labels.check(case.queries, case.places)
    dense = labels.dense()
    expected = sector_overlap(case.queries.positions[:, None], case.places.positions[None], 90.0, 50.0)
    same_city = case.groups["city"][:, None] == case.places.table["city"].to_numpy(dtype=str)
    np.testing.assert_allclose(dense, np.where(same_city, expected, 0.0), atol=1e-6)
    assert expected[~same_city].max() > 0.9  # as if it were the same place


def write_arrays(folder, **named):
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in named.items():
        np.save(folder / f"msls_val_{name}.npy", values)


LISTED_QUERIES = ["cph/query/images/lost", "sf/query/images/sf-q", "cph/query/images/near"]
LISTED_MAP = ["sf/database/images/sf-near", "cph/database/images/ten", "cph/database/images/panorama"]


def paths(names):
    return np.array([f"train_val/{name}.jpg" for name in names])


def expect_the_listed(case):
    # city by city, in the order of the list
    assert found(case) == {"near": ["ten"], "sf-q": ["sf-near"]}
    assert keys(case.place_names) == ["ten", "panorama", "sf-near"]


def test_the_lists_that_circulate_are_read_and_their_pickle_is_not(val):
    write_arrays(val / "msls_val", qImages=paths(LISTED_QUERIES), qIdx=[1, 2], dbImages=paths(LISTED_MAP))
    (val / "msls_val/msls_val_pIdx.npy").write_bytes(b"a pickle that would run")
    (case,) = NAMED["msls-val-740"].cases(val)
    expect_the_listed(case)
    assert case.name == "cph+sf"


def test_lists_as_text_by_key_or_path(val, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    (folder / "q.txt").write_text("sf-q near\n")  # as one line, as it circulates
    (folder / "m.txt").write_text("\n".join(f"{name}.JPG" for name in LISTED_MAP).replace("/", "\\"))
    (case,) = NAMED["msls-val-740"].cases(val, keys=f"{folder}/q.txt,{folder}/m.txt")
    expect_the_listed(case)


def test_queries_alone_have_every_image_but_panoramas_as_their_map(val):
    (val / "key_mslsval.txt").write_text("near sf-q near")
    (case,) = NAMED["msls-val-740"].cases(val)
    assert found(case) == {"near": ["at-25", "not-in-all", "ten", "ten-again"], "sf-q": ["sf-near"]}
    assert case.notes == (
        f"{val}/key_mslsval.txt: 1 keys stand there again and are taken once",
        "the map is every database image that is not a panorama, for want of a list",
    )


def test_absent_lists_are_named(val):
    with pytest.raises(InputError, match=r"no msls_val_qImages\.npy with msls_val_dbImages\.npy here"):
        NAMED["msls-val-740"].cases(val)


def test_a_list_of_one_city_leaves_the_other_in_the_map(val):
    (val / "msls_val_queries.txt").write_text("near")
    (val / "msls_val_map.txt").write_text("sf-near ten ten")  # a map image listed twice
    (case,) = NAMED["msls-val-740"].cases(val)
    assert found(case) == {"near": ["ten"]}
    assert case.place_count == 2
    assert case.overlap(None).dense().shape == (1, 2)
