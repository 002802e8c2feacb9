"""What a map can be asked about."""

import io
import json
import sys

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.maps.answer import Trouble
from samespot.maps.questions import _upright, frames, is_video, questions
from samespot.maps.results import refuse_without_degrees, write_answers
from tests.maps.test_answer import answer


def photo(path, colour=(200, 30, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (24, 16), colour).save(path)
    return path


def test_files_folders_and_tables_in_the_order_they_are_given(tmp_path):
    photo(tmp_path / "folder/b.jpg")
    photo(tmp_path / "folder/sub/a.png")
    photo(tmp_path / "photos/c.jpg")
    (tmp_path / "list.csv").write_text("image,time\nphotos/c.jpg,2024-05-01 10:00:07\nphotos/none.jpg,\n")
    asked = list(questions([tmp_path / "x.jpg", tmp_path / "folder", tmp_path / "list.csv"]))
    assert [one.photo.relative_to(tmp_path).as_posix() for one in asked] == [
        "x.jpg",
        "folder/b.jpg",
        "folder/sub/a.png",
        "photos/c.jpg",
        "photos/none.jpg",
    ]
    assert asked[3].time % 60 == 7
    assert asked[4].time is None
    assert asked[0].time is None


def test_a_table_knows_where_its_photos_are_by_the_file_beside_it(tmp_path):
    (tmp_path / "list.csv").write_text("image\nc.jpg\n")
    (tmp_path / "list.csv.meta.json").write_text(json.dumps({"root": "elsewhere"}))
    assert next(questions([tmp_path / "list.csv"])).photo == tmp_path / "elsewhere/c.jpg"


def test_a_photo_comes_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"bytes of a photo")))
    assert next(questions(["-"])).photo == b"bytes of a photo"
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it where it is closed
    with pytest.raises(InputError, match="standard input: is closed"):
        next(questions(["-"]))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder, "no photos there"),
        (lambda folder: _written(folder / "t.csv", "a,b\n1,2\n"), "no column image"),
    ],
)
def test_what_holds_no_photos_is_refused_in_one_line(tmp_path, make, said):
    with pytest.raises(InputError, match=said):
        list(questions([make(tmp_path)]))


def _written(path, text):
    path.write_text(text)
    return path


def video(path, seconds=3, rate=5):
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(seconds * rate):
            pixels = np.full((48, 64, 3), 10 * number, np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        out.mux(stream.encode())
    return path


def test_a_video_is_asked_about_frame_by_frame(tmp_path):
    path = video(tmp_path / "walk.mp4")
    assert is_video(path)
    found = list(frames(path, every=1.0))
    assert [round(one.time, 1) for one in found] == [0.0, 1.0, 2.0]
    assert found[1].photo.shape == (48, 64, 3)
    assert abs(float(found[1].photo.mean()) - 50) < 8  # the sixth frame


def test_what_is_no_video_is_one_line(tmp_path):
    pytest.importorskip("av")
    with pytest.raises(InputError, match=r"walk\.mp4: cannot read the video"):
        list(frames(_written(tmp_path / "walk.mp4", "no video"), 1.0))


def test_tables_of_answers_have_a_line_for_every_photo(tmp_path):
    import pandas as pd

    outcomes = [answer(), Trouble("broken.jpg", "cannot decode"), answer(found=False)]
    for name in ("a.parquet", "a.csv"):
        path = write_answers(iter(outcomes), tmp_path / name)
        table = pd.read_parquet(path) if name.endswith("t") else pd.read_csv(path, keep_default_na=True)
        assert list(table["photo"]) == ["q.jpg", "broken.jpg", "q.jpg"]
        assert list(table["found"]) == [True, False, False]
        assert table["trouble"][1] == "cannot decode"


def test_a_long_list_is_written_in_parts_and_whole(tmp_path, monkeypatch):
    import pandas as pd

    from samespot.maps import results

    monkeypatch.setattr(results, "AT_ONCE", 7)
    path = write_answers((answer(photo=str(n)) for n in range(50)), tmp_path / "a.parquet")
    assert list(pd.read_parquet(path)["photo"]) == [str(n) for n in range(50)]


def test_an_interrupted_list_leaves_no_half_file(tmp_path):
    def broken():
        yield answer()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_answers(broken(), tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.json, \.geojson, \.gpx, \.parquet, \.csv"):
        write_answers(iter([]), tmp_path / "a.txt")


def test_a_video_that_lies_on_its_side_is_turned_upright():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)

    class Frame:
        rotation = -90

        def to_ndarray(self, format):
            return pixels

    assert np.array_equal(_upright(Frame()), np.rot90(pixels, -1))


def test_numbers_in_a_column_time_are_seconds(tmp_path):
    (tmp_path / "list.csv").write_text("image,time\na.jpg,3.5\nb.jpg,\nc.jpg,10\n")
    assert [one.time for one in questions([tmp_path / "list.csv"])] == [3.5, None, 10.0]


def test_degrees_are_not_asked_of_a_map_that_knows_only_metres(tmp_path):
    for name in ("a.gpx", "a.geojson"):
        with pytest.raises(InputError, match="knows only metres"):
            refuse_without_degrees(tmp_path / name, None)
        refuse_without_degrees(tmp_path / name, "EPSG:32633")
    refuse_without_degrees(tmp_path / "a.csv", None)
