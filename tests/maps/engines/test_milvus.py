"""Milvus Lite in a file; and a real server, where SAMESPOT_MILVUS names its address."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from samespot import InputError
from samespot.maps.engines import milvus
from samespot.maps.engines.engine import asked_for, is_sound
from samespot.maps.folder import OWN_ENGINE, generation_folder
from tests.maps.engines import checks
from tests.maps.engines.conftest import COUNT, DIMS, cloud, engine_of, generation_of

pytest.importorskip("pymilvus", reason="needs samespot[milvus]")
pytest.importorskip("milvus_lite", reason="needs samespot[milvus]")
SERVER = os.environ.get("SAMESPOT_MILVUS")


@pytest.fixture(params=["lite", "server"])
def uri(request, tmp_path):
    if request.param == "lite":
        yield str(tmp_path / "map.db")
        return
    if SERVER is None:
        pytest.skip("SAMESPOT_MILVUS names no server")
    yield SERVER
    for name in collections(SERVER, tmp_path):
        milvus.connected(SERVER).drop_collection(name)


def collections(uri, folder):
    """Those of the maps in a folder: a server has others, too."""
    maps = [path.parent for path in folder.rglob(milvus.OURS)]
    own = tuple(milvus._named(one, json.loads((one / milvus.OURS).read_text())["id"]) for one in maps)
    return sorted(name for name in milvus.connected(uri).list_collections() if name.startswith(own))


def test_a_flat_index_finds_what_exact_search_finds(uri, vectors, queries, there, tmp_path):
    generation = generation_of(tmp_path / "map", vectors, there, engine="milvus", uri=uri)
    checks.finds_what_exact_search_finds(engine_of(generation), vectors, queries, there)
    facts = generation.meta["engine"]
    assert (facts["name"], facts["uri"], facts["index"], facts["dims"]) == ("milvus", uri, "flat", DIMS)
    assert facts["collection"] in collections(uri, tmp_path)
    assert "recall" not in facts
    assert is_sound(generation)


def test_hnsw_finds_most_and_knows_how_many(uri, vectors, queries, there, tmp_path):
    typed = {"engine": "milvus", "uri": uri, "milvus_index": "hnsw"}
    generation = generation_of(tmp_path / "map", vectors, there, **typed)
    checks.finds_most(engine_of(generation), vectors, queries, there, 0.97)
    assert generation.meta["engine"]["recall"]["share"] > 0.95


def test_a_load_that_was_cut_off_goes_on(uri, vectors, queries, there, tmp_path, monkeypatch):
    monkeypatch.setattr(milvus, "AT_ONCE", 500)
    typed = {"engine": "milvus", "uri": uri}
    sent, real = [], milvus._send

    def cut_off(client, collection, some, columns, start, tell):
        real(client, collection, some[:1200], columns, start, tell)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(milvus, "_send", cut_off)
        with pytest.raises(KeyboardInterrupt):
            generation_of(tmp_path / "map", vectors, there, **typed)
    monkeypatch.setattr(milvus, "_send", lambda *given: (sent.append(given[4]), real(*given)))
    generation = generation_of(tmp_path / "map", vectors, there, **typed)
    assert sent == [1000]  # of three whole batches, the last of which was not full
    assert len(collections(uri, tmp_path)) == 1
    checks.finds_what_exact_search_finds(engine_of(generation), vectors, queries[:3], there)
    sent.clear()
    generation_of(tmp_path / "map", vectors, there, **typed)
    assert sent == []


def test_what_is_gone_or_other_says_what_to_do(uri, vectors, queries, there, tmp_path):
    typed = {"engine": "milvus", "uri": uri}
    generation = generation_of(tmp_path / "map", vectors, there, **typed)
    engine, client = engine_of(generation), milvus.connected(uri)
    name = generation.meta["engine"]["collection"]
    again = rf"; `samespot index --out {tmp_path / 'map'} --engine milvus` loads it again"
    client.delete(name, ids=[3, 4])
    with pytest.raises(InputError, match=rf"holds {COUNT - 2:,} photos, and the map {COUNT:,}{again}"):
        engine_of(generation)
    assert not is_sound(generation)
    client.drop_collection(name)
    for ask in (lambda: engine.nearest(queries[0], 5), lambda: engine_of(generation)):
        with pytest.raises(InputError, match=f"its collection {name} is gone{again}") as caught:
            ask()
        assert "\n" not in str(caught.value)
    assert not is_sound(generation)
    milvus._create(client, name, 7, "flat")
    with pytest.raises(InputError, match=f"is of 7 dims, and the map of {DIMS}{again}"):
        engine_of(generation)
    again = generation_of(tmp_path / "map", vectors, there, engine="milvus", uri=uri, milvus_index="hnsw")
    assert len(engine_of(again).nearest(queries[0], 5)[0]) == 5


def test_only_the_map_s_own_collections_that_no_generation_needs_are_dropped(uri, vectors, there, tmp_path):
    from samespot.files import write_json

    def made(folder, seed):
        generation = generation_of(
            folder, cloud(300, seed), there.select(np.arange(300)), engine="milvus", uri=uri
        )
        write_json(generation_folder(folder, 1) / OWN_ENGINE, generation.meta["engine"])
        return generation.meta["engine"]["collection"]

    ours, others = tmp_path / "map", tmp_path / "other"
    first, second, strange = made(ours, 1), made(ours, 2), made(others, 1)
    assert len({first, second, strange}) == 3
    milvus.drop_unneeded(ours)
    assert set(collections(uri, tmp_path)) == {second, strange}
    write_json(generation_folder(ours, 1) / OWN_ENGINE, {"name": "exact"})
    milvus.drop_unneeded(ours)
    assert collections(uri, tmp_path) == [strange]
    assert uri not in (ours / milvus.OURS).read_text()


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        (None, "`engine=milvus` needs `uri`: a file such as ./map.db"),
        ("map", "`uri` 'map' is no address of Milvus"),
        ("ftp://somewhere", "is no address of Milvus"),
        ("http://me:secret@host:19530", "`uri` holds a name or password; give them as SAMESPOT_MILVUS_TOKEN"),
    ],
)
def test_an_address_that_is_none(uri, line):
    with pytest.raises(InputError, match=line) as caught:
        asked_for({"engine": "milvus", "uri": uri}, None)
    assert "secret" not in str(caught.value)


def test_nobody_there(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv(milvus.TOKEN, "root:secret")
    for uri, line in (
        ("http://localhost:9", "http://localhost:9: no Milvus answers there"),
        (str(tmp_path / "none/map.db"), "there is no folder"),
    ):
        with pytest.raises(InputError, match=line) as caught:
            milvus.connected(uri)
        assert "\n" not in str(caught.value)
    assert "secret" not in "".join(capfd.readouterr())


def test_a_file_that_another_process_holds(tmp_path):
    held = tmp_path / "map.db"
    code = f"""
from samespot.maps.engines.milvus import connected
client = connected({str(held)!r})
print("open", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(InputError, match="one process at a time can"):
            milvus.connected(str(held))
        other.communicate("\n")


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(InputError, match=r"pip install 'samespot\[milvus\]'"):
        milvus.connected("http://localhost:19530")
