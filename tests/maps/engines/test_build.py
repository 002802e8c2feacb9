"""Maps with an engine, as `index` makes them: which engine a map has, the switch, kills, and repairs."""

import json
import signal

import numpy as np
import pytest

from samespot import InputError
from samespot.maps import build
from samespot.maps.build import update_map
from samespot.maps.folder import open_generation, read_meta
from samespot.maps.map import open_map
from tests import warm

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def model(net, tmp_path):
    return net.save(tmp_path / "model")


@pytest.fixture(params=["hnsw", "milvus"])
def engine(request, tmp_path):
    if request.param == "milvus":
        pytest.importorskip("pymilvus", reason="needs samespot[milvus]")
        pytest.importorskip("milvus_lite", reason="needs samespot[milvus]")
        return {"engine": "milvus", "uri": str(tmp_path / "vectors.db")}
    return {"engine": request.param}


def collections(tmp_path):
    from samespot.maps.engines.milvus_client import connected

    return sorted(connected(str(tmp_path / "vectors.db")).list_collections())


def answers(folder, photos):
    """Names and distances: what an engine finds."""
    there = open_map(folder, device="cpu")
    found = [there.locate(path, k=50, verify=False) for path in sorted(photos.iterdir())[:4]]
    return [[(match.image, match.distance) for match in one.matches] for one in found]


def test_a_map_answers_the_same_with_any_engine(street, model, tmp_path, engine):
    photos, out = street(30), tmp_path / "map"
    update_map(photos, out, model=model, device="cpu")
    expected = answers(out, photos)
    built = update_map(None, out, device="cpu", **engine)
    assert (built.changed, built.described) == (True, 0)
    assert built.generation.meta["engine"]["name"] == engine["engine"]
    assert answers(out, photos) == expected
    assert not update_map(photos, out, device="cpu").changed  # it keeps its engine
    assert not update_map(photos, out, device="cpu", **engine).changed
    (photos / "007.jpg").unlink()
    later = update_map(photos, out, device="cpu").generation
    assert later.meta["engine"]["name"] == engine["engine"]
    assert "007.jpg" not in {name for one in answers(out, photos) for name, _ in one}
    assert update_map(None, out, device="cpu", engine="exact").generation.meta["engine"] == {"name": "exact"}
    assert len(answers(out, photos)[0]) == 29


def test_the_calibration_stays_when_only_the_engine_changes(street, model, tmp_path, monkeypatch):
    photos, out = street(8), tmp_path / "map"
    update_map(photos, out, model=model, device="cpu")
    monkeypatch.setattr(build._Work, "_calibration", lambda *_: pytest.fail("it asked itself again"))
    assert update_map(None, out, device="cpu", engine="hnsw").changed


def test_a_map_without_a_word_about_engines_is_exact(street, model, tmp_path):
    """As maps were written before there were engines."""
    photos, out = street(6), tmp_path / "map"
    update_map(photos, out, model=model, device="cpu")
    meta = read_meta(out)
    del meta["engine"]
    (out / "meta.json").write_text(json.dumps(meta))
    assert len(answers(out, photos)[0]) == 6
    assert not update_map(photos, out, device="cpu").changed


def test_a_reader_keeps_its_generation_and_old_collections_go(street, model, tmp_path, engine):
    photos, out = street(20), tmp_path / "map"
    update_map(photos, out, model=model, device="cpu", **engine)
    old, photo = open_map(out, device="cpu"), photos / "003.jpg"
    before, numbers = old.locate(photo, verify=False), []
    for gone in ("019.jpg", "018.jpg", "017.jpg"):
        (photos / gone).unlink()
        numbers.append(update_map(photos, out, device="cpu").generation.number)
        if len(numbers) == 1:
            assert old.locate(photo, verify=False) == before
    assert len(open_map(out, device="cpu").locate(photo, verify=False, k=50).matches) == 17
    if engine["engine"] == "milvus":
        assert len(collections(tmp_path)) == 2  # of the newest generation and of the one before
        with pytest.raises(InputError, match="is gone"):
            old.locate(photo, verify=False)
        assert old.newest().locate(photo, verify=False).matches[0].image == "003.jpg"
    else:
        assert old.locate(photo, verify=False) == before


def test_index_again_repairs_what_is_broken(street, model, tmp_path, engine):
    photos, out = street(12), tmp_path / "map"
    update_map(photos, out, model=model, device="cpu", **engine)
    expected = answers(out, photos)
    if engine["engine"] == "milvus":
        from samespot.maps.engines.milvus_client import connected

        connected(engine["uri"]).drop_collection(collections(tmp_path)[0])
    else:
        next(out.glob("generations/*/index.faiss")).unlink()
    with pytest.raises(InputError, match=rf"`samespot index --out {out} --engine {engine['engine']}`"):
        answers(out, photos)
    assert update_map(None, out, device="cpu", engine=engine["engine"]).changed
    assert answers(out, photos) == expected


def test_a_damaged_index_is_made_again_too(street, model, tmp_path):
    """Of the right size, so that only opening it tells."""
    photos, out = street(12), tmp_path / "map"
    update_map(photos, out, model=model, device="cpu", engine="hnsw")
    expected = answers(out, photos)
    index = next(out.glob("generations/*/index.faiss"))
    index.write_bytes(bytes(len(index.read_bytes())))
    with pytest.raises(
        InputError, match=rf"broken; `samespot index --out {out} --engine hnsw` makes it again"
    ):
        answers(out, photos)
    assert update_map(None, out, device="cpu", engine="hnsw").changed
    assert answers(out, photos) == expected


def test_damage_to_the_vectors_does_not_live_on_with_another_engine(street, model, tmp_path):
    photos, out = street(12), tmp_path / "map"
    update_map(photos, out, model=model, device="cpu")
    expected = answers(out, photos)
    (path,) = out.glob("generations/*/vectors.npy")
    content = bytearray(path.read_bytes())
    content[-200:] = bytes(200)
    path.write_bytes(content)
    update_map(None, out, device="cpu", engine="hnsw")
    assert answers(out, photos) == expected


KILLED = """
import os, pathlib, signal, sys
from samespot.maps import build

out, uri, told = sys.argv[1:]

def die(folder, meta):
    pathlib.Path(told).write_text(meta["engine"]["collection"])
    os.kill(os.getpid(), signal.SIGKILL)

build.files.switch = die
build.update_map(None, out, device="cpu", engine="milvus", uri=uri)
"""


def test_a_kill_between_load_and_switch_leaves_the_old_map(street, model, tmp_path, monkeypatch):
    """In a process of its own, forked before Milvus Lite has threads, which a fork would lose."""
    pytest.importorskip("milvus_lite", reason="needs samespot[milvus]")
    photos, out, uri = street(12), tmp_path / "map", str(tmp_path / "vectors.db")
    update_map(photos, out, model=model, device="cpu", verify=False)
    expected = answers(out, photos)
    done = warm.run(["-c", KILLED, out, uri, tmp_path / "loaded"], timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert open_generation(out).number == 1
    assert answers(out, photos) == expected
    sent = []
    from samespot.maps.engines import milvus_load

    monkeypatch.setattr(milvus_load._Load, "_send", lambda *given: sent.append(given))
    built = update_map(None, out, device="cpu", engine="milvus", uri=uri)
    assert built.generation.meta["engine"]["collection"] == (tmp_path / "loaded").read_text()
    assert sent == []  # all was there
    assert answers(out, photos) == expected
    assert len(collections(tmp_path)) == 1


def test_a_collection_that_a_killed_run_left_goes_with_the_next(street, model, tmp_path, monkeypatch):
    pytest.importorskip("milvus_lite", reason="needs samespot[milvus]")
    photos, out, uri = street(12), tmp_path / "map", str(tmp_path / "vectors.db")
    with monkeypatch.context() as patch:
        patch.setattr(build.files, "switch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            update_map(photos, out, model=model, device="cpu", engine="milvus", uri=uri)
    (photos / "001.jpg").unlink()
    built = update_map(photos, out, model=model, device="cpu", engine="milvus", uri=uri)
    assert collections(tmp_path) == [built.generation.meta["engine"]["collection"]]


def test_by_commands(samespot, street, model, tmp_path, engine):
    photos, out = street(20), tmp_path / "map"
    words = [word for name, value in engine.items() for word in (f"--{name}", value)]
    code, said, err = samespot("index", photos, "--out", out, "--model", model, *words)
    assert code == 0, err
    told = " ".join(said.split())
    assert ("milvus (flat, 1 region) at" if engine["engine"] == "milvus" else "hnsw, finds") in told
    code, said, err = samespot(
        "locate", out, photos / "005.jpg", "--no-verify", "--json", tmp_path / "told.json"
    )
    assert code == 0, err
    (answer,) = json.loads((tmp_path / "told.json").read_text())["answers"]
    assert answer["matches"][0]["image"] == "005.jpg"
    code, said, err = samespot("index", "--out", out, "--engine", "exact")
    assert code == 0, err
    assert "exact" in said


def test_a_milvus_that_goes_away_is_one_line_and_the_same_command_goes_on(
    samespot, street, model, tmp_path, monkeypatch
):
    pytest.importorskip("milvus_lite", reason="needs samespot[milvus]")
    from samespot.maps.engines import milvus_load, regions
    from samespot.maps.engines.milvus_client import AwayError

    monkeypatch.setattr(regions, "PER_REGION", 5)
    photos, out, uri = street(20), tmp_path / "map", str(tmp_path / "vectors.db")
    words = ("index", photos, "--out", out, "--model", model, "--engine", "milvus", "--uri", uri)
    sent, real = [], milvus_load._Load._send_batch

    def goes_away(load, client, batch, numbers):
        if batch.region == 3:
            raise AwayError(f"{uri}: Milvus cannot be reached, or is not ready yet (connection refused)")
        real(load, client, batch, numbers)

    with monkeypatch.context() as patch:
        patch.setattr(milvus_load._Load, "_send_batch", goes_away)
        code, _, err = samespot(*words)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    told = " ".join(err.split())
    assert (
        "cannot be reached, or is not ready yet (connection refused); 15 of 20 photos are loaded; what is"
        in told
    )
    assert not (out / "meta.json").exists()
    monkeypatch.setattr(
        milvus_load._Load, "_send_batch", lambda *given: (sent.append(given[2].region), real(*given))
    )
    code, said, err = samespot(*words)
    assert code == 0, err
    assert sent == [3]
    assert "milvus (flat, 4 regions) at" in " ".join(said.split())
    near = answers_near(out, photos / "005.jpg")
    assert update_map(None, out, device="cpu", engine="exact").changed
    assert near == answers_near(out, photos / "005.jpg")


def answers_near(folder, photo):
    """With a position that is known beforehand."""
    there = open_map(folder, device="cpu")
    east, north = there.positions[5]
    found = there.locate(photo, k=50, verify=False, near=f"{east}m,{north}m,40").matches
    assert 0 < len(found) < 20
    return [(match.image, match.distance) for match in found]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--engine", "milvus"), "--engine milvus needs --uri: a file such as ./map.db"),
        (("--engine", "hnsw", "--uri", "x.db"), "--uri has no effect without --engine milvus"),
        (("--uri", "x.db"), "--uri has no effect without --engine milvus"),
        (
            ("--engine", "milvus", "--uri", "http://localhost:9"),
            "http://localhost:9: no Milvus answers there",
        ),
        (("--engine", "lucene"), "choose one of exact, hnsw, ivfpq, milvus"),
        (("--engine", "ivfpq"), "IVF-PQ learns from 256 photos or more, there are 2"),
    ],
)
def test_one_line_for_a_mistake(samespot, street, model, tmp_path, words, line):
    pytest.importorskip("pymilvus", reason="needs samespot[milvus]")
    code, _, err = samespot("index", street(2), "--out", tmp_path / "map", "--model", model, *words)
    assert code == 2
    assert line in " ".join(err.split())
    assert len(err.strip().splitlines()) == 1


def test_an_engine_of_no_map(samespot, tmp_path):
    code, _, err = samespot("index", "--out", tmp_path / "map", "--engine", "hnsw")
    assert code == 2
    assert "no map here; index some photos first" in " ".join(err.split())


def test_vectors_of_a_map_are_what_milvus_holds(street, model, tmp_path):
    pytest.importorskip("milvus_lite", reason="needs samespot[milvus]")
    photos, out = street(9), tmp_path / "map"
    built = update_map(
        photos, out, model=model, device="cpu", engine="milvus", uri=str(tmp_path / "vectors.db")
    )
    from samespot.maps.engines.milvus_client import connected

    facts, generation = built.generation.meta["engine"], built.generation
    rows = connected(facts["uri"]).query(
        facts["collection"], filter="id >= 0", output_fields=["*"], limit=100
    )
    rows.sort(key=lambda row: row["id"])
    np.testing.assert_array_equal([row["vector"] for row in rows], generation.vectors.astype(np.float32))
    np.testing.assert_array_equal([row["easting"] for row in rows], generation.places.table["easting"])
    assert all(48.1 < row["latitude"] < 48.2 and 11.5 < row["longitude"] < 11.6 for row in rows)
