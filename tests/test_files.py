"""Files and folders appear whole or not at all."""

import errno
import json
import os
import subprocess
import sys

import pytest

from samespot import InputError, files
from samespot.files import (
    disk_errors,
    in_bytes,
    locked,
    read_json,
    replace_folder,
    reserve,
    whole_file,
    whole_folder,
    write_json,
)


@pytest.mark.parametrize("exchange", [True, False])
def test_a_finished_folder_takes_the_place_of_another(tmp_path, monkeypatch, exchange):
    """In one step where the system can do that, else in two."""
    if not exchange:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    replace_folder(tmp_path / "new", tmp_path / "old")
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old" / "file").read_text() == "new"


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path):
    write_json(tmp_path / "a.json", {"old": 1})

    def broken():
        with whole_file(tmp_path / "a.json") as partial:
            partial.write_text("half")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        broken()
    assert json.loads((tmp_path / "a.json").read_text()) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path):
    def fill(word, fails=False):
        with whole_folder(tmp_path / "map") as scratch:
            (scratch / "word").write_text(word)
            if fails:
                raise KeyboardInterrupt

    fill("old")
    with pytest.raises(KeyboardInterrupt):
        fill("new", fails=True)
    assert (tmp_path / "map" / "word").read_text() == "old"
    fill("new")
    assert (tmp_path / "map" / "word").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["map"]


@pytest.mark.parametrize(
    ("content", "said"), [("{", "not valid json"), ("[1]", "holds no json object"), (None, "cannot be read")]
)
def test_json_that_cannot_be_read_is_one_line_with_advice(tmp_path, content, said):
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match=f"a.json: {said}.*; ask again"):
        read_json(tmp_path / "a.json", "ask again")


def test_two_writers_are_told_apart_and_a_dead_one_holds_nothing(tmp_path):
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from samespot.files import locked\n"
        "with locked(Path(sys.argv[1]), 'a run'):\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout.readline() == "writing\n"
        with (
            pytest.raises(InputError, match="another process is writing a run there"),
            locked(tmp_path / "run", "a run"),
        ):
            pytest.fail("two writers")
        writer.kill()
    with locked(tmp_path / "run", "a run"):
        assert (tmp_path / "run").is_dir()


def test_a_reserved_file_is_no_file_of_holes(tmp_path):
    reserve(tmp_path / "a", 1_000_001)
    there = (tmp_path / "a").stat()
    assert there.st_size == 1_000_001
    assert there.st_blocks * 512 >= 1_000_001
    reserve(tmp_path / "a", 0)
    assert (tmp_path / "a").read_bytes() == b""


@pytest.mark.parametrize(("number", "left"), [(errno.ENOSPC, None), (errno.EOPNOTSUPP, 1000)])
def test_what_cannot_be_reserved(tmp_path, monkeypatch, number, left):
    """A full disk is an error and leaves nothing; a disk that cannot reserve gets a file of holes."""

    def failing(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", failing)
    if left is None:
        with pytest.raises(OSError, match="No space left"):
            reserve(tmp_path / "a", 1000)
        assert not list(tmp_path.iterdir())
    else:
        reserve(tmp_path / "a", 1000)
        assert (tmp_path / "a").read_bytes() == bytes(1000)


def test_what_the_disk_refuses_is_one_line_with_what_to_do(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    resumes = "fix that, and the same command again resumes where it left off"
    with (
        pytest.raises(InputError, match=rf"^.*a: cannot write \(No space left on device\); {resumes}$"),
        disk_errors(tmp_path / "a"),
    ):
        raise full


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (65_536, "65.5 kB"),
        (999_499, "999 kB"),
        (999_600, "1 MB"),
        (1.256e9, "1.26 GB"),
        (430e9, "430 GB"),
        (10**15, "1,000 TB"),
    ],
)
def test_a_size_is_told_in_a_unit_that_fits(size, told):
    assert in_bytes(size) == told
