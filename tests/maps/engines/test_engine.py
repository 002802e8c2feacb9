"""Engines that need no database: the same answers as a loop over all photos, or most of them."""

import json

import numpy as np
import pytest

from samespot import InputError
from samespot.maps.engines.engine import Exact, asked_for, is_sound, recall_of
from samespot.maps.folder import generation_folder
from tests.maps.engines import checks
from tests.maps.engines.conftest import COUNT, cloud, engine_of, generation_of


def test_this_process_finds_what_a_loop_finds(vectors, queries, there):
    checks.finds_what_exact_search_finds(Exact(vectors), vectors, queries, there)
    in_memory = Exact(np.asarray(vectors, dtype=np.float32))
    checks.finds_what_exact_search_finds(in_memory, vectors, queries, there)


@pytest.mark.parametrize("kind", ["hnsw", "ivfpq"])
def test_an_index_finds_most_and_knows_how_many(kind, vectors, queries, there, tmp_path):
    generation = generation_of(tmp_path, vectors, there, engine=kind)
    checks.finds_most(engine_of(generation), vectors, queries, there, 0.97)
    facts = generation.meta["engine"]
    assert facts["recall"]["share"] > 0.95
    assert facts["recall"] | {"share": 0} == {"at": 10, "photos asked": 100, "share": 0}
    assert facts["bytes"] == (generation_folder(tmp_path, 1) / facts["file"]).stat().st_size
    assert is_sound(generation)
    json.dumps(facts)


def test_an_index_that_is_not_whole_says_what_to_do(vectors, there, tmp_path):
    generation = generation_of(tmp_path, vectors, there, engine="hnsw")
    path = generation_folder(tmp_path, 1) / "index.faiss"
    whole = path.read_bytes()
    for content, line in (
        (whole[:-5], "missing or cut off"),
        (b"x" * len(whole), "broken"),
        (None, "missing"),
    ):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{line}.*; `samespot index --out {tmp_path} --engine hnsw`"):
            engine_of(generation)
    assert not is_sound(generation)


def test_recall_counts_what_is_missed(vectors):
    class Blind:
        """Sees nothing but the first half of the map."""

        def nearest(self, vector, count, limits=None):
            return Exact(vectors[: COUNT // 2]).nearest(vector, count)

    assert recall_of(Exact(vectors), vectors)["share"] == 1.0
    assert 0.3 < recall_of(Blind(), vectors)["share"] < 0.7
    assert recall_of(Exact(vectors[:1]), vectors[:1])["share"] == 1.0


def test_a_map_keeps_its_engine_unless_another_is_typed():
    kept = {"engine": {"name": "milvus", "uri": "http://here:19530", "index": "hnsw", "collection": "c"}}
    assert asked_for({}, None).engine == "exact"
    assert asked_for({}, {}).engine == "exact"  # of before there were engines
    same = asked_for({}, kept)
    assert (same.engine, same.uri, same.milvus_index) == ("milvus", "http://here:19530", "hnsw")
    assert asked_for({"engine": "milvus", "uri": "http://there:1"}, kept).uri == "http://there:1"
    assert asked_for({"engine": "ivfpq"}, kept).to_dict() == {
        "engine": "ivfpq",
        "uri": None,
        "milvus_index": "flat",
    }
    assert asked_for({"engine": "hnsw", "dims": 3}, {}).engine == "hnsw"


def test_too_few_photos_for_codes(there, tmp_path):
    with pytest.raises(InputError, match="256 photos or more, there are 100"):
        generation_of(tmp_path, cloud(100, 3), there, engine="ivfpq")
