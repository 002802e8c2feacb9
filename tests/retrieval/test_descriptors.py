"""A descriptor folder is whole or says that it is not, and never passes for one of other places."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places.table import Places
from samespot.retrieval import descriptors as module
from samespot.retrieval.descriptors import Begun, Descriptors, DescriptorWriter


def street(n, first=0.0):
    columns = {
        "image": [f"{i}.jpg" for i in range(n)],
        "easting": np.full(n, first),
        "northing": np.arange(n) * 5.0,
        "heading": np.zeros(n),
    }
    return Places.build("nowhere", columns, missing_images="ignore")


def facts_of(places, dims=3, **changes):
    facts = {"model": "a" * 32, "places": places.digest(), "images": len(places), "dims": dims}
    return {**facts, "dtype": "float32", "precision": "32", "margin": 0.5, "backbone": "none", **changes}


def filled(folder, places, **changes):
    """A folder whose row i is (i, i, i), written in two blocks, the later one first."""
    writer = DescriptorWriter(folder, facts_of(places, **changes))
    writer.begin(places)
    writer.open()
    rows = np.repeat(np.arange(len(places), dtype=np.float32)[:, None], 3, axis=1)
    writer.write(2, rows[2:], {})
    writer.write(0, rows[:2], {0: "0.jpg: the file is empty"})
    writer.close()
    writer.finish({0: "0.jpg: the file is empty"})
    return rows


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_written_is_what_is_opened(tmp_path, dtype):
    places = street(5)
    rows = filled(tmp_path / "d", places, dtype=dtype)
    found = Descriptors.open(tmp_path / "d")
    assert isinstance(found.vectors, np.memmap)
    assert found.vectors.dtype == dtype
    np.testing.assert_array_equal(found.vectors, rows.astype(dtype))
    assert found.good.tolist() == [False, True, True, True, True]
    assert found.meta["bad"] == {"0": "0.jpg: the file is empty"}
    kept = Places.read(tmp_path / "d" / "places.parquet", missing_images="ignore")
    assert kept.digest() == places.digest() == found.meta["places"]
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == [
        "descriptors.npy",
        "meta.json",
        "places.parquet",
        "places.parquet.meta.json",
        "states.npy",
    ]


def test_other_places_are_refused(tmp_path):
    filled(tmp_path / "d", street(5))
    found = Descriptors.open(tmp_path / "d")
    found.check(street(5))
    with pytest.raises(InputError, match=r"d: holds descriptors of 5 images, the table nowhere has 6"):
        found.check(street(6))
    with pytest.raises(InputError, match=r"d: holds descriptors of other places than nowhere \(digest"):
        found.check(street(5, first=1.0))


def test_an_unfinished_folder_does_not_open(tmp_path):
    places = street(5)
    writer = DescriptorWriter(tmp_path / "d", facts_of(places))
    assert writer.begin(places) == Begun()
    with pytest.raises(InputError, match="not finished; the same `describe` again resumes where it left off"):
        Descriptors.open(tmp_path / "d")
    writer.open()
    writer.write(0, np.ones((5, 3)), {})
    writer.close()
    with pytest.raises(InputError, match="not finished"):
        Descriptors.open(tmp_path / "d")
    with pytest.raises(InputError, match=r"no descriptors here \(meta.json is missing\)"):
        Descriptors.open(tmp_path)


def test_a_cut_off_array_does_not_open(tmp_path):
    filled(tmp_path / "d", street(5))
    os.truncate(tmp_path / "d" / "descriptors.npy", 150)
    with pytest.raises(InputError, match=r"descriptors\.npy: not the whole array of 5 × 3 float32"):
        Descriptors.open(tmp_path / "d")


def test_a_folder_of_anything_else_is_left_alone(tmp_path):
    places = street(5)
    writer = DescriptorWriter(tmp_path, facts_of(places))
    (tmp_path / "meta.json").write_text('{"measure": "overlap"}')
    with pytest.raises(InputError, match="exists and is not a descriptor folder"):
        writer.begin(places)
    (tmp_path / "meta.json").rename(tmp_path / "holiday.jpg")
    with pytest.raises(InputError, match="exists and is not a descriptor folder"):
        writer.begin(places)
    with pytest.raises(InputError, match="is a file; give a folder"):
        DescriptorWriter(tmp_path / "holiday.jpg", facts_of(places)).begin(places)
    assert [p.name for p in tmp_path.iterdir()] == ["holiday.jpg"]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "b" * 32}, r"another model \(aaaaaaaaaaaa, now bbbbbbbbbbbb\)"),
        ({"places": "c" * 32}, "another table of places"),
        ({"precision": "bf16"}, r"another precision \(32, now bf16\)"),
        ({"dtype": "float16", "margin": 1.0}, r"dtype \(float32, now float16\), margin \(0.5, now 1.0\)"),
        ({"preprocessing": {"size": [2, 2]}}, "another preprocessing; choose another folder"),
    ],
)
def test_a_folder_of_something_else_is_not_gone_on_with(tmp_path, finished, change, said):
    places = street(5)
    if finished:
        filled(tmp_path / "d", places)
    else:
        DescriptorWriter(tmp_path / "d", facts_of(places)).begin(places)
    state = "holds descriptors made" if finished else "was begun"
    with pytest.raises(InputError, match=f"d: {state} with .*{said}"):
        DescriptorWriter(tmp_path / "d", {**facts_of(places), **change}).begin(places)


def test_rows_count_as_done_once_they_are_on_the_disk(tmp_path, monkeypatch):
    places = street(9)
    facts = facts_of(places)
    first, second = (DescriptorWriter(tmp_path / "d", facts, process) for process in (0, 1))
    first.begin(places)
    first.open()
    second.open()
    first.write(0, np.ones((3, 3)), {2: "2.jpg: gone"})
    assert DescriptorWriter(tmp_path / "d", facts).begin(places).done == []  # a kill here would lose them
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    second.write(6, np.ones((2, 3)), {})
    assert DescriptorWriter(tmp_path / "d", facts).begin(places).done == [(6, 8)]
    first.close()
    second.close()
    begun = DescriptorWriter(tmp_path / "d", facts).begin(places)
    assert sorted(begun.done) == [(0, 3), (6, 8)]
    assert begun.bad == {2: "2.jpg: gone"}
    assert not begun.finished


def test_a_record_that_a_kill_cut_off_says_nothing(tmp_path):
    """Cut at every byte: only rows whose line is whole count, and what is written later still counts."""
    places = street(9)
    facts = facts_of(places)
    writer = DescriptorWriter(tmp_path / "d", facts)
    writer.begin(places)
    writer.open()
    writer.write(0, np.ones((3, 3)), {})
    writer.write(3, np.ones((3, 3)), {4: "4.jpg: bröken"})
    writer.close()
    record = tmp_path / "d" / "done-00000.jsonl"
    whole = record.read_bytes()
    ends = [at for at in range(1, len(whole)) if whole[at : at + 1] == b"\n"]
    for length in range(len(whole)):
        record.write_bytes(whole[:length])
        lines = sum(length >= end for end in ends)
        assert writer.begin(places).done == [(0, 3), (3, 6)][:lines]
        again = DescriptorWriter(tmp_path / "d", facts)
        again.open()
        again.write(6, np.ones((3, 3)), {})
        again.close()
        assert writer.begin(places).done == [*[(0, 3), (3, 6)][:lines], (6, 9)]


def test_of_rows_done_twice_the_last_word_counts(tmp_path):
    places = street(5)
    writer = DescriptorWriter(tmp_path / "d", facts_of(places))
    writer.begin(places)
    writer.open()
    writer.write(0, np.zeros((2, 3)), {0: "0.jpg: gone", 1: "1.jpg: gone"})
    writer.write(1, np.ones((4, 3)), {})  # in blocks of another size, and the image is back
    writer.close()
    assert writer.begin(places).bad == {0: "0.jpg: gone"}


def test_records_of_a_lost_array_do_not_count(tmp_path):
    places = street(5)
    writer = DescriptorWriter(tmp_path / "d", facts_of(places))
    writer.begin(places)
    writer.open()
    writer.write(0, np.ones((5, 3)), {})
    writer.close()
    os.truncate(tmp_path / "d" / "descriptors.npy", 20)
    assert writer.begin(places).done == []
    assert np.load(tmp_path / "d" / "descriptors.npy").shape == (5, 3)


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EMFILE, errno.EACCES])
@pytest.mark.parametrize("name", ["descriptors.npy", "places.parquet", "done-00000.jsonl"])
def test_what_cannot_be_read_just_now_is_kept(tmp_path, monkeypatch, number, name):
    places = street(5)
    writer = DescriptorWriter(tmp_path / "d", facts_of(places))
    writer.begin(places)
    writer.open()
    writer.write(0, np.ones((5, 3)), {})
    writer.close()

    def failing(real):
        def call(path, *words, **how):
            if str(path).endswith(name):
                raise OSError(number, os.strerror(number))
            return real(path, *words, **how)

        return call

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", failing(open))
        for asked in ("stat", "read_text"):
            patch.setattr(Path, asked, failing(getattr(Path, asked)))
        refused = rf"d: cannot be read \({os.strerror(number)}\); fix that, .* resumes"
        with pytest.raises(InputError, match=refused):
            writer.begin(places)
    assert writer.begin(places).done == [(0, 5)]
    assert np.load(tmp_path / "d" / "descriptors.npy").all()


def test_finished_descriptors_that_cannot_be_read_just_now_are_not_called_broken(tmp_path, monkeypatch):
    filled(tmp_path / "d", street(5))

    def failing(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module, "mapped_npy", failing)
    with pytest.raises(InputError, match=r"npy: cannot be read \(Too many open files\); fix that and run"):
        Descriptors.open(tmp_path / "d")


def test_a_kill_between_the_last_two_steps_leaves_a_whole_folder(tmp_path):
    places = street(5)
    filled(tmp_path / "d", places)
    (tmp_path / "d" / "begun.json").write_text(json.dumps(facts_of(places)))
    (tmp_path / "d" / "done-00000.jsonl").write_text('{"rows": [0, 2], "bad": {}}\n')
    begun = DescriptorWriter(tmp_path / "d", facts_of(places)).begin(places)
    assert begun.finished
    assert begun.bad == {0: "0.jpg: the file is empty"}
    assert not (tmp_path / "d" / "begun.json").exists()
    assert not (tmp_path / "d" / "done-00000.jsonl").exists()


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    places = street(5)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(InputError, match=r"the descriptors need .* bytes, but only 10 bytes of disk is free"):
        DescriptorWriter(tmp_path / "d", facts_of(places)).begin(places)
    monkeypatch.undo()
    writer = DescriptorWriter(tmp_path / "d", facts_of(places))
    writer.begin(places)
    writer.open()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "pwrite", full)
    with pytest.raises(InputError, match=r"cannot write \(No space left on device\)"):
        writer.write(0, np.ones((5, 3)), {})
    writer.close()
    assert writer.begin(places).done == []
