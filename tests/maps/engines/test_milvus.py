"""Milvus Lite in a file; and a real server: SAMESPOT_MILVUS names one, or the package milvus brings one, as in CI."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from samespot import InputError
from samespot.maps.engines import milvus, milvus_client, milvus_load, regions
from samespot.maps.engines.engine import asked_for, is_sound
from samespot.maps.folder import OWN_ENGINE, generation_folder
from samespot.maps.limits import Columns
from samespot.progress import silent
from tests.maps.engines import checks
from tests.maps.engines.conftest import COUNT, DIMS, cloud, engine_of, generation_of

pytest.importorskip("pymilvus", reason="needs samespot[milvus]")
pytest.importorskip("milvus_lite", reason="needs samespot[milvus]")


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    """A server of our own, which may be killed."""
    package = pytest.importorskip(
        "milvus", reason="the package milvus is not installed: 2.3.5 holds a server"
    )
    server = package.MilvusServer(data_dir=str(tmp_path_factory.mktemp("milvus")))
    server.start()
    # started again it takes the ports it had: it would leave those whose old connections the kernel still remembers
    server.config.try_bind_port = lambda port: socket.socket()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def server(request):
    named = os.environ.get("SAMESPOT_MILVUS")
    return named or f"http://127.0.0.1:{request.getfixturevalue('own_server').listen_port}"


@pytest.fixture(params=["lite", "server"])
def uri(request, tmp_path):
    if request.param == "lite":
        yield str(tmp_path / "map.db")
        return
    at = request.getfixturevalue("server")
    yield at
    for name in collections(at, tmp_path):
        milvus_client.connected(at).drop_collection(name)


def collections(uri, folder):
    """Those of the maps in a folder: a server has others, too."""
    maps = [path.parent for path in folder.rglob(milvus.OURS)]
    own = tuple(milvus._named(one, json.loads((one / milvus.OURS).read_text())["id"]) for one in maps)
    return sorted(name for name in milvus_client.connected(uri).list_collections() if name.startswith(own))


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


@pytest.fixture
def eight_regions(monkeypatch):
    """Of 375 photos each, sent in batches of 100."""
    monkeypatch.setattr(regions, "PER_REGION", COUNT // 8)
    monkeypatch.setattr(milvus_load, "AT_ONCE", 100)


def sending(monkeypatch, then=lambda number: None):
    """The batches that are sent, in a list; `then` is called with the number of each after it."""
    sent, real = [], milvus_load._Load._send_batch

    def noted(load, client, batch, numbers):
        real(load, client, batch, numbers)
        sent.append(batch)
        then(len(sent))

    monkeypatch.setattr(milvus_load._Load, "_send_batch", noted)
    return sent


def stop_at(number):
    def then(now):
        if now >= number:
            raise milvus_client.AwayError("it went away")

    return then


def test_each_region_is_a_partition_and_a_filter_asks_only_those_it_needs(
    uri, vectors, queries, there, tmp_path, monkeypatch, eight_regions
):
    generation = generation_of(tmp_path / "map", vectors, there, engine="milvus", uri=uri)
    facts, cut = generation.meta["engine"], regions.Regions.cut(there.positions[:, :2], 8)
    assert facts["regions"] == 8
    client, name = milvus_client.connected(uri), facts["collection"]
    names = [milvus.partition(region) for region in range(8)]
    assert set(client.list_partitions(name)) == {"_default", *names}
    for region, size in enumerate(cut.sizes):
        held = client.query(name, filter="id >= 0", output_fields=["id"], partition_names=[names[region]])
        assert sorted(one["id"] for one in held) == cut.rows(region).tolist()
        assert milvus.count(client, name, region) == size
    engine, asked = engine_of(generation), []
    checks.finds_what_exact_search_finds(engine, vectors, queries[18:], there)
    real = engine._client.plain.search

    def noted(*given, **named):
        asked.append(named.get("partition_names"))
        return real(*given, **named)

    monkeypatch.setattr(engine._client.plain, "search", noted)
    whole = milvus.MilvusEngine(client, facts, vectors, regions.Regions.cut(there.positions[:, :2], 1), "")
    for limits in (one for one in checks.all_cases(there) if one is not None and one.allowed.any()):
        asked.clear()
        found = engine.nearest(queries[0], 20, limits)
        needed = sorted({milvus.partition(region) for region in cut.of[limits.allowed]})
        assert {tuple(sorted(one or names)) for one in asked} == {tuple(needed)}
        for ours, theirs in zip(found, whole.nearest(queries[0], 20, limits), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_hnsw_asks_the_regions_that_a_wide_filter_leaves(
    uri, vectors, queries, there, tmp_path, monkeypatch, eight_regions
):
    monkeypatch.setattr(milvus, "ONE_BY_ONE", 0)
    typed = {"engine": "milvus", "uri": uri, "milvus_index": "hnsw"}
    generation = generation_of(tmp_path / "map", vectors, there, **typed)
    checks.finds_most(engine_of(generation), vectors, queries, there, 0.95)


def test_a_load_that_was_cut_off_goes_on(uri, vectors, queries, there, tmp_path, monkeypatch, eight_regions):
    """Batches that were under way when it was cut off may have arrived or not."""
    typed = {"engine": "milvus", "uri": uri}
    with monkeypatch.context() as patch:
        sending(patch, stop_at(13))
        with pytest.raises(
            InputError, match=r"it went away; [\d,]+ of 3,000 photos are loaded; what is"
        ) as caught:
            generation_of(tmp_path / "map", vectors, there, **typed)
    assert str(caught.value).endswith(
        "what is loaded is kept, and the same command again resumes where it left off"
    )
    (name,) = collections(uri, tmp_path)
    client = milvus_client.connected(uri)
    before = milvus.count(client, name)
    assert 1200 <= before < COUNT
    upserted, real = [], client.plain.upsert
    monkeypatch.setattr(
        type(client.plain),
        "upsert",
        lambda own, *given, **named: upserted.append(given[1]) or real(*given, **named),
    )
    generation = generation_of(tmp_path / "map", vectors, there, **typed)
    assert sum(len(one) for one in upserted) == COUNT - before  # what was there is not sent again
    assert collections(uri, tmp_path) == [name]
    assert milvus.count(client, name) == COUNT
    checks.finds_what_exact_search_finds(engine_of(generation), vectors, queries[:3], there)
    upserted.clear()
    generation_of(tmp_path / "map", vectors, there, **typed)
    assert upserted == []


def test_a_server_that_is_killed_and_comes_back(
    own_server, vectors, queries, there, tmp_path, monkeypatch, eight_regions
):
    """In the middle of a load, which goes on by itself; and before a question, which waits for no more than seconds."""
    uri, back = f"http://127.0.0.1:{own_server.listen_port}", []

    def killed(number):
        if number == 13:
            own_server.server_proc.kill()
            own_server.server_proc.wait()
            back.append(threading.Timer(2.0, own_server.start))
            back[-1].start()

    with monkeypatch.context() as patch:
        batches = sending(patch, killed)
        generation = generation_of(tmp_path / "map", vectors, there, engine="milvus", uri=uri)
    assert len(batches) > 13
    (name,) = collections(uri, tmp_path)
    assert milvus.count(milvus_client.connected(uri), name) == COUNT
    engine = engine_of(generation)
    checks.finds_what_exact_search_finds(engine, vectors, queries[:3], there)
    back[-1].join()
    own_server.server_proc.kill()
    own_server.server_proc.wait()
    asked = time.monotonic()
    with pytest.raises(
        milvus_client.AwayError, match=f"^{uri}: Milvus cannot be reached, or is not ready yet"
    ) as caught:
        engine.nearest(queries[0], 5)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - asked < milvus.SLOWEST + milvus.PATIENCE
    own_server.start()
    for _ in range(30):
        try:
            engine.nearest(queries[0], 5)
            break
        except milvus_client.AwayError:
            time.sleep(1.0)
    checks.finds_what_exact_search_finds(engine, vectors, queries[:3], there)


def test_counts_that_stay_wrong_are_told_and_what_is_too_much_is_loaded_afresh(
    uri, vectors, there, tmp_path, monkeypatch, eight_regions
):
    typed = {"engine": "milvus", "uri": uri}
    generation = generation_of(tmp_path / "map", vectors, there, **typed)
    name, client = generation.meta["engine"]["collection"], milvus_client.connected(uri)
    some = dict.fromkeys(milvus_load.NUMBERS, 0.0)
    stranger = {"id": COUNT + 7, "vector": vectors[0].astype(np.float32), "condition": "", **some}
    client.upsert(name, [stranger], partition_name=milvus.partition(2))
    generation_of(tmp_path / "map", vectors, there, **typed)
    assert milvus.count(client, name) == COUNT
    client.drop_collection(name)
    monkeypatch.setattr(
        milvus_load, "count", lambda client, name, region: milvus.count(client, name, region) - (region == 3)
    )
    with pytest.raises(
        InputError, match=r"counts 374 of 375 in region_3 of .*, and 2,999 of 3,000 in all; look"
    ):
        generation_of(tmp_path / "map", vectors, there, **typed)


def test_a_server_that_is_away_for_a_moment_is_asked_again(monkeypatch):
    from pymilvus.exceptions import MilvusException

    monkeypatch.setattr(milvus_client, "SOON", 0.01)
    said = []
    starting = [
        (2, "Fail connecting to server"),
        (101, "collection not loaded"),
        (65535, "stack trace: /w/pkg/trace.go:51 github.com/x.Trace\n/w/a.go:5 b: node not found[node=5]"),
    ]

    class Starting:
        def search(self, timeout):
            said.append(timeout)
            if len(said) < 4:
                raise MilvusException(*starting[len(said) - 1])
            return "found"

        def upsert(self, timeout):
            said.append(timeout)
            raise MilvusException(1100, "no such field")

    client = milvus_client.Client("http://there", Starting(), patience=5.0)
    assert client.search() == "found"
    assert len(said) == 4
    with pytest.raises(InputError, match="http://there: Milvus says: no such field"):
        client.upsert()  # what is wrong stays wrong
    assert len(said) == 5
    said.clear()
    with pytest.raises(milvus_client.AwayError, match="cannot be reached, or is not ready yet") as caught:
        client.waiting(0.02).search()
    assert len(said) < 4
    starting[:] = starting[2:]
    said.clear()
    with pytest.raises(milvus_client.AwayError) as caught:
        client.waiting(0.0).search()
    assert (
        str(caught.value)
        == "http://there: Milvus cannot be reached, or is not ready yet (node not found[node=5])"
    )


def test_a_load_waits_for_a_server_that_is_just_starting(monkeypatch):
    import pymilvus
    from pymilvus.exceptions import MilvusException

    asked, waited = [], []

    class Starting:
        def __init__(self, uri, **how):
            asked.append(uri)
            if len(asked) < 4:
                raise MilvusException(2, "Fail connecting to server")

        def list_collections(self, timeout):
            return []

    monkeypatch.setattr(pymilvus, "MilvusClient", Starting)
    monkeypatch.setattr(milvus_client.time, "sleep", waited.append)
    assert milvus_client.connected("http://there:1", patience=60.0)._patience == 60.0
    assert waited == [1.0, 1.0, 1.0]
    asked.clear()
    with pytest.raises(InputError, match="http://there:1: no Milvus answers there"):  # others ask once
        milvus_client.connected("http://there:1")
    assert len(asked) == 1


def test_what_is_gone_or_other_says_what_to_do(uri, vectors, queries, there, tmp_path):
    typed = {"engine": "milvus", "uri": uri}
    generation = generation_of(tmp_path / "map", vectors, there, **typed)
    engine, client = engine_of(generation), milvus_client.connected(uri)
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
    other = cloud(20, 3, 7)
    milvus_load._Load(
        client,
        name,
        "flat",
        other,
        Columns(there.select(np.arange(20))),
        regions.Regions(np.zeros(20, int)),
        silent,
    ).run()
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
    whole = (generation_folder(ours, 1) / OWN_ENGINE).read_text()
    (generation_folder(ours, 1) / OWN_ENGINE).write_text(whole[:-9])
    milvus.drop_unneeded(ours)
    assert set(collections(uri, tmp_path)) == {first, second, strange}  # nobody tells which are needed
    (generation_folder(ours, 1) / OWN_ENGINE).write_text(whole)
    (generation_folder(ours, 1).parent / ".keep").touch()  # is no generation
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
    monkeypatch.setenv(milvus_client.TOKEN, "root:secret")
    for uri, line in (
        ("http://localhost:9", "http://localhost:9: no Milvus answers there"),
        (str(tmp_path / "none/map.db"), "there is no folder"),
    ):
        with pytest.raises(InputError, match=line) as caught:
            milvus_client.connected(uri)
        assert "\n" not in str(caught.value)
    assert "secret" not in "".join(capfd.readouterr())


def test_a_file_that_another_process_holds(tmp_path):
    held = tmp_path / "map.db"
    code = f"""
from samespot.maps.engines.milvus_client import connected
client = connected({str(held)!r})
print("open", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(InputError, match="one process at a time can"):
            milvus_client.connected(str(held))
        other.communicate("\n")


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(InputError, match=r"pip install 'samespot\[milvus\]'"):
        milvus_client.connected("http://localhost:19530")
