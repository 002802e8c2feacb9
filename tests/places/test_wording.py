"""The words that all readers share."""

from pathlib import Path

from samespot.places.catalogue import DATA_SETS
from samespot.places.table import Places
from samespot.places.wording import first_few, told_of, unknown_part


def test_the_first_few_end_in_dots_only_when_there_are_more():
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few(["a", "b", "c", "d"]) == "a, b, c, …"
    assert first_few([1, 2], 1) == "1, …"
    assert first_few([]) == ""


def test_a_reader_without_parts_points_to_a_layout_that_exists(tmp_path):
    """`samespot datasets --layout NAME` must know every name that the readers give."""
    names = {known.name for known in DATA_SETS}
    for known in DATA_SETS:
        try:
            known.read(tmp_path, "nowhere")
        except ValueError as error:
            told = str(error).partition("--layout ")[2].partition("`")[0]
            assert told in names | {""}
    assert str(unknown_part(Path("d"), "x", "MSLS", "msls", ["a"])) == (
        "d: no part 'x' of MSLS; the parts are a"
    )


def test_what_a_note_says_already_is_not_said_again(tmp_path):
    columns = {"image": ["a"], "easting": 0.0, "northing": 0.0}
    one = Places.build(
        tmp_path,
        columns,
        dropped={"no GPS in EXIF": 26, "image file missing": 2},
        notes=("photos: 26 photos left out, no GPS in EXIF (x.jpg, …)",),
        missing_images="ignore",
    )
    assert told_of([one, one]) == [("note", one.notes[0]), ("dropped", "2 images: image file missing")]
