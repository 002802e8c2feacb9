"""Opening and writing a map: one line for whatever is wrong, one writer at a time, nothing lost."""

import errno
import json
import os
import shutil
import signal
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

from samespot import InputError, Places
from samespot.maps import build, folder
from samespot.maps.build import update_map
from samespot.maps.folder import open_generation
from samespot.maps.own_model import load_own
from tests import warm

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def made(street, tmp_path, net):
    """A map of five photos."""
    update_map(street(5), tmp_path / "map", model=net)
    return tmp_path / "map"


def change(path, **facts):
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps({**meta, **facts}))


# ---- opening ----


def test_no_map(tmp_path):
    with pytest.raises(InputError, match="no such folder; build a map with"):
        open_generation(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no map here"):
        open_generation(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        open_generation(tmp_path / "file")


def test_a_map_that_was_never_finished(made):
    (made / "meta.json").unlink()
    with pytest.raises(InputError, match=r"not finished; the same .samespot index. again resumes"):
        open_generation(made)


def test_a_newer_format(made):
    change(made, format=folder.FORMAT + 1)
    with pytest.raises(
        InputError, match="a map of format 2, and this version reads up to 1; update samespot"
    ):
        open_generation(made)


def test_another_json_is_no_map(made):
    (made / "meta.json").write_text('{"model": 3}')
    with pytest.raises(InputError, match="is not of a map"):
        open_generation(made)


@pytest.mark.parametrize(
    "name",
    [
        "segments/000000.safetensors",
        *(f"generations/000001/{n}" for n in ("places.parquet", "rows.npy", "vectors.npy", "left_out.json")),
    ],
)
@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_half_copied(made, name, harm):
    path = made / name
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        InputError, match=rf"this map is not whole .*{path.name}.*copy the whole folder again"
    ):
        open_generation(made)


def test_facts_that_do_not_fit_the_files(made):
    change(made, photos=4)
    with pytest.raises(InputError, match="do not fit one another"):
        open_generation(made)
    change(made, segments=3)
    with pytest.raises(InputError, match="this map is broken"):
        open_generation(made)


def test_more_segments_than_a_process_may_map(made, monkeypatch):
    def full(path):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(folder, "Segment", full)
    with pytest.raises(InputError, match=r"its \d+ segments are .* raise vm\.max_map_count \(sysctl\)"):
        open_generation(made)


def test_another_model(made, net):
    assert len(open_generation(made, model=net.digest())) == 5
    with pytest.raises(InputError, match="a map of another model"):
        open_generation(made, model="0" * 32)
    meta = open_generation(made).meta["model"]
    with pytest.raises(InputError, match="was made with another samespot-lite"):
        load_own(made, {**meta, "kept": False, "name": "samespot-lite"})


def test_a_generation_that_is_replaced_while_it_is_opened(made, street, net, monkeypatch):
    first, real = folder.read_meta(made), folder.mapped
    photos = street(1, first=9)
    update_map(photos, made, model=net)
    shutil.rmtree(made / "generations" / "000001")
    told = iter([first])
    now = folder.read_meta
    monkeypatch.setattr(folder, "read_meta", lambda path: next(told, None) or now(path))
    opened = open_generation(made)
    assert (opened.number, len(opened)) == (2, 6)
    assert folder.mapped is real


# ---- writing ----


def test_a_second_writer_is_refused_and_a_dead_one_holds_nothing(made, street, net):
    photos = street(6)
    code = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from samespot.files import locked
        with locked(Path(sys.argv[1]), "a map"):
            print("held", flush=True)
            time.sleep(60)
    """)
    with warm.Popen(["-c", code, made]) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another process is writing a map there"):
            update_map(photos, made, model=net)
        assert len(open_generation(made)) == 5  # readers do not wait
        holder.send_signal(signal.SIGKILL)
    assert len(update_map(photos, made, model=net).generation) == 6


def test_a_folder_of_other_things_is_left_alone(street, tmp_path, net):
    photos = street(3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for out in (tmp_path / "mine", photos):
        with pytest.raises(InputError, match="holds other files and is no map"):
            update_map(photos, out, model=net)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    with pytest.raises(InputError, match="is a file"):
        update_map(photos, tmp_path / "mine" / "letter.txt", model=net)


def test_hidden_files_count_as_other_files(street, tmp_path, net):
    mine = tmp_path / "mine"
    (mine / ".git").mkdir(parents=True)
    (mine / ".git" / "HEAD").write_text("ref")
    with pytest.raises(InputError, match="holds other files and is no map"):
        update_map(street(2), mine, model=net)
    assert (mine / ".git" / "HEAD").read_text() == "ref"
    own = tmp_path / "own"
    own.mkdir()
    (own / ".lock").write_text("of another program")
    with pytest.raises(InputError, match="holds other files and is no map"):
        update_map(street(2), own, model=net)
    assert (own / ".lock").read_text() == "of another program"


def test_only_our_own_scratch_is_removed(made, street, net):
    ours = [".meta.json.123.partial", "segments/.000001.safetensors.45.partial"]
    ours += [
        "generations/.000002.part-my-host-17-ab_12cd3",
        "generations/.000002.part-my-host-17-ab_12cd3.old",
    ]
    theirs = [
        ".gitignore",
        ".git",
        "segments/.gitattributes",
        "generations/.keep",
        "models/.DS_Store",
        ".partial",
    ]
    for name in (*ours, *theirs):
        path = made / name
        if ".part-" in name or name == ".git":
            path.mkdir()
            (path / "HEAD").write_text("ref")
        else:
            path.write_text("x")
    update_map(street(6), made, model=net)
    assert [name for name in ours if (made / name).exists()] == []
    assert [name for name in theirs if not (made / name).exists()] == []
    assert (made / ".git" / "HEAD").read_text() == "ref"


def test_a_folder_that_a_killed_first_run_left_is_free(street, tmp_path, net):
    (tmp_path / "map").mkdir()
    (tmp_path / "map" / ".lock").touch()
    (tmp_path / "map" / ".meta.json.123.partial").touch()
    assert len(update_map(street(2), tmp_path / "map", model=net).generation) == 2


def test_the_model_of_the_generation_before_stays(made, street, net):
    import torch

    from samespot.model.network import PlaceNet

    torch.manual_seed(2)
    others = [
        PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64)).eval() for _ in range(2)
    ]
    reader = open_generation(made)
    update_map(street(5), made, model=others[0])
    assert load_own(made, reader.meta["model"]).digest() == net.digest()  # only now
    update_map(street(5), made, model=others[1])
    left = {path.name for path in (made / "models").iterdir()}
    assert left == {other.digest() for other in others}


def test_nothing_is_swept_that_an_unread_generation_may_need(made, street, net, touch):
    photos = street(5)
    for path in photos.iterdir():
        touch(path)
    update_map(photos, made, model=net)
    own = made / "generations" / "000001" / "segments.json"
    there = sorted((made / "segments").iterdir())
    own.write_text("[")
    folder.sweep(made)
    assert sorted((made / "segments").iterdir()) == there
    own.write_text("[]")
    folder.sweep(made)
    assert sorted((made / "segments").iterdir()) == there[1:]


def test_what_to_do_about_a_broken_map_can_be_done(made, street, net):
    (made / "generations" / "000001" / "rows.npy").unlink()
    with pytest.raises(InputError, match="or index the photos into a new folder"):
        update_map(street(5), made, model=net)
    assert len(update_map(street(5), made.parent / "new", model=net).generation) == 5


def test_the_calibration_sees_the_new_map_and_the_switch_comes_after_it(made, street, net, monkeypatch):
    seen = []

    def ask(work, generation):
        seen.append((len(generation), generation.keypoints(5).size, open_generation(made).number))
        return {"asked": 5}

    monkeypatch.setattr(build._Work, "_calibration", ask)
    built = update_map(street(6), made, model=net)
    assert seen == [(6, (48, 64), 1)]
    assert open_generation(made).meta["calibration"] == built.generation.meta["calibration"] == {"asked": 5}


def test_a_calibration_stays_while_few_photos_change(street, tmp_path, net, monkeypatch):
    asked, out, photos = [], tmp_path / "map", street(60)

    def ask(work, generation):
        asked.append(generation.number)
        return {"source": "map", "of": generation.number}

    monkeypatch.setattr(build._Work, "_calibration", ask)
    update_map(photos, out, model=net, dims=16)
    for name in ("000.jpg", "001.jpg"):
        (photos / name).unlink()
        meta = update_map(photos, out, model=net).generation.meta
        assert meta["calibration"] == {"source": "map", "of": 1}
    assert meta["calibrated"] == {"generation": 1, "photos_changed_since": 2}
    (photos / "002.jpg").unlink()  # with the two before more than one in twenty
    assert update_map(photos, out, model=net).generation.meta["calibration"]["of"] == 4
    update_map(photos, out, model=net, within=10)  # another question
    assert asked == [1, 4, 5]


def test_a_photo_that_changed_or_moved_counts_once(street, tmp_path, net, touch):
    photos = street(64)
    columns = {"image": [f"{i:03d}.jpg" for i in range(64)], "easting": 0.0, "northing": np.arange(64) * 9.0}

    def again():
        table = Places.build(photos, {**columns, "heading": 0.0})
        return update_map(table, tmp_path / "map", model=net, dims=16).generation.meta["calibrated"]

    again()
    touch(photos / "000.jpg")
    assert again() == {"generation": 1, "photos_changed_since": 1}
    columns["easting"] = np.eye(64)[1]
    assert again() == {"generation": 1, "photos_changed_since": 2}
    columns = {name: values[:-1] for name, values in columns.items()}
    assert again() == {"generation": 1, "photos_changed_since": 3}


def test_an_error_on_the_way_leaves_the_old_map(made, street, net, monkeypatch):
    def ask(work, generation):
        raise RuntimeError("of ours")

    photos = street(6)
    monkeypatch.setattr(build._Work, "_calibration", ask)
    with pytest.raises(RuntimeError):
        update_map(photos, made, model=net)
    assert (open_generation(made).number, len(open_generation(made))) == (1, 5)
    monkeypatch.setattr(build._Work, "_calibration", lambda work, generation: None)
    built = update_map(photos, made, model=net)
    assert (built.described, len(built.generation)) == (0, 6)  # what was described is not described again


def test_ctrl_c_keeps_what_is_done(street, tmp_path, net, monkeypatch):
    from samespot.maps import looking

    photos, looked, real = street(40), [], looking.Looking.at

    def look(how, path):
        looked.append(path.name)
        if len(looked) == 30:
            raise KeyboardInterrupt
        return real(how, path)

    monkeypatch.setattr(looking.Looking, "at", look)
    with pytest.raises(KeyboardInterrupt):
        update_map(photos, tmp_path / "map", model=net, workers=1)
    looked.clear()
    built = update_map(photos, tmp_path / "map", model=net)
    assert len(built.generation) == 40
    assert built.described == len(looked) == 40 - 16  # a batch was through


def test_an_error_keeps_what_is_done(street, tmp_path, net, monkeypatch):
    """As from a cluster whose nodes are gone, or of the network."""
    photos, batches, real = street(40), [], build.PhotoLooker._made

    def made(looker, some):
        batches.append(len(some))
        if len(batches) == 2:
            raise InputError("no node of the cluster has a core")
        return real(looker, some)

    monkeypatch.setattr(build.PhotoLooker, "_made", made)
    with pytest.raises(InputError, match="no node"):
        update_map(photos, tmp_path / "map", model=net)
    assert update_map(photos, tmp_path / "map", model=net).described == 40 - batches[0]


PASSING = [errno.ESTALE, errno.EIO, errno.EMFILE, errno.EACCES]  # what a disk refuses and may give later


@pytest.mark.parametrize("number", PASSING)
def test_a_segment_that_cannot_be_read_just_now_is_kept(made, monkeypatch, number):
    opened, said = Path.open, os.strerror(number)

    def failing(path, *words, **how):
        if path.suffix == ".safetensors":
            raise OSError(number, said)
        return opened(path, *words, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", failing)
        refused = rf"\.safetensors: cannot be read \({said}\); the map is as it was; fix that, .* resumes"
        with pytest.raises(InputError, match=refused):
            folder.photos_there(made)
        with pytest.raises(InputError, match=rf"map: cannot be read \({said}\); fix that"):
            open_generation(made)
    assert len(folder.photos_there(made)) == 5


def test_segments_that_cannot_be_listed_are_not_taken_for_none(made, monkeypatch):
    """Their names would be given to new ones."""

    def failing(*_):
        raise OSError(errno.EACCES, "Permission denied")

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, failing)
    for ask in (folder.photos_there, lambda made: next(folder.new_segments(made))):
        with pytest.raises(InputError, match=r"segments: cannot be read \(Permission denied\)"):
            ask(made)


def test_a_segment_that_is_cut_off_goes_and_one_that_is_absent_does_not_matter(made):
    whole = made / "segments" / "000000.safetensors"
    (made / "segments" / "000001.safetensors").write_bytes(whole.read_bytes()[:-1])
    (made / "segments" / "000002.safetensors").symlink_to("nowhere")
    assert {name for name, _ in folder.photos_there(made).values()} == {whole.name}
    left = sorted(path.name for path in (made / "segments").iterdir())
    assert left == [whole.name, "000002.safetensors"]


LIMITED = """
import resource, sys
import torch
from samespot import Places
from samespot.maps import build
from samespot.errors import InputError
from samespot.model.network import PlaceNet
build._Work._calibration = lambda self, generation: None
net = PlaceNet.load(sys.argv[3])
if int(sys.argv[4]) > 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), resource.RLIM_INFINITY))
else:
    import os
    os.setuid(65534)
try:
    build.update_map(sys.argv[1], sys.argv[2], model=net, verify=False)
except InputError as error:
    print("refused:", error)
"""


def in_a_process(*words):
    done = warm.run(["-c", LIMITED, *words])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("limit", [1_000, 20_000])  # [bytes] of a file: of a json, of a segment
def test_a_full_disk(street, tmp_path, net, limit):
    out, photos = tmp_path / "map", street(5)
    net.save(tmp_path / "model")
    update_map(photos, out, model=net, verify=False)
    photos = street(30)
    said = in_a_process(photos, out, tmp_path / "model", limit)
    assert said.startswith(f"refused: {out}")
    assert "cannot write" in said
    assert "resumes where it left off" in said
    assert said.count("\n") == 1
    assert len(open_generation(out)) == 5
    assert not list(out.rglob("*.partial"))
    assert len(update_map(photos, out, model=net).generation) == 30


def test_a_map_that_may_only_be_read(shoot, net):
    if os.getuid() != 0:
        pytest.skip("needs a second user to be somebody else")
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        os.chmod(name, 0o755)
        photos, out, model = (Path(name) / word for word in ("photos", "map", "model"))
        for scene in range(5):
            shoot(photos / f"{scene}.jpg", scene)
        net.save(model)
        update_map(photos, out, model=net, verify=False)
        shoot(photos / "9.jpg", 9)
        said = in_a_process(photos, out, model, 0)
        assert said.startswith("refused:")
        assert "ermission denied" in said
        assert said.count("\n") == 1
        assert len(open_generation(out)) == 5


def test_killed_at_random_moments(tmp_path):
    """Forty kills; `python -m tests.maps.kills 300` does more."""
    words = ["-m", "tests.maps.kills", 40, 5]
    done = warm.run(words, cwd=ROOT, env={"TMPDIR": str(tmp_path)}, forks=True)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] == 40
    assert seen["as it was"] > 0
    assert seen["segments that wait for the next writer"] > 0


def test_vectors_are_a_plain_npy_file(made):
    path = made / "generations" / "000001" / "vectors.npy"
    np.testing.assert_array_equal(np.load(path), open_generation(made).vectors)
    assert np.load(path).dtype == np.float16


def test_a_reader_never_falls_while_generations_come_and_go(made, street, net):
    """A writer in a process of its own makes one generation after the other; every opening gives a whole map."""
    photos, model = street(0, "photos"), net.save(made.parent / "model")
    code = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from samespot.maps import build
        from samespot.model.network import PlaceNet
        build._Work._calibration = lambda self, generation: None
        net, photos = PlaceNet.load(sys.argv[3]), Path(sys.argv[1])
        for i in range(12):
            path = photos / f"{i % 5:03d}.jpg"
            os.utime(path, (i + 1, i + 1))
            build.update_map(photos, sys.argv[2], model=net, verify=False)
    """)
    writer = warm.Popen(["-c", code, photos, made, model])
    seen, opened = set(), 0
    while writer.poll() is None:
        generation = open_generation(made)
        assert len(generation) == 5
        assert np.isfinite(generation.plain(np.arange(5))).all()
        assert all(generation.thumbnail(row)[:2] == b"\xff\xd8" for row in range(5))
        seen.add(generation.number)
        opened += 1
    assert writer.returncode == 0, writer.stderr.read()
    assert open_generation(made).number == 13
    assert len(seen) > 1
    assert opened > 20
