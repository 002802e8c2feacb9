"""Weights are fetched whole and once: a broken download goes on, a wrong file is not kept, and no error is silent."""

import hashlib
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.model.published import download, published_models
from samespot.model.published.record import WeightsFile

CONTENT = np.random.default_rng(0).bytes(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT. A first answer ends after `breaks_after` bytes; `status` and `kind` are those of any answer."""

    breaks_after: int | None = None
    ranges = True
    status = 200
    kind = "application/octet-stream"
    etag = '"one"'

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked = []

    def handle_error(self, request, client_address):
        """A client that hangs up early is no error."""


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.asked.append(self.headers.get("Range"))
        if server.status >= 400:
            self.send_error(server.status)
            return
        start = 0
        wanted = self.headers.get("Range")
        if wanted and server.ranges and self.headers.get("If-Range") == server.etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else server.status)
        body = CONTENT[start:]
        self.send_header("Content-Type", server.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", server.etag)
        self.end_headers()
        stop, server.breaks_after = server.breaks_after, None
        self.wfile.write(body[:stop])

    def log_message(self, *words):
        pass


@pytest.fixture
def server():
    served = Server()
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return tmp_path / "cache" / "weights"


@pytest.fixture
def model(server, cache):
    port = server.server_address[1]
    file = WeightsFile(f"http://127.0.0.1:{port}/weights.pth", "weights.pth", DIGEST)
    return replace(published_models()["salad"], weights=file)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_weights_are_fetched_once_and_progress_is_told(model, cache, server):
    told = []
    path = download.local_file(model, lambda *words: told.append(words))
    assert path == cache / "weights.pth"
    assert path.read_bytes() == CONTENT
    assert names(cache) == ["weights.pth"]
    assert told[-1] == ("fetching salad [MB]", 3, 3)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert download.local_file(model) == path
    assert len(server.asked) == 1


def test_a_download_that_broke_off_goes_on(model, cache, server):
    server.breaks_after = 1_200_000
    with pytest.raises(
        InputError, match=r"interrupted after 1\.\d+ MB of 3 MB; run it again to resume from there"
    ):
        download.local_file(model)
    assert names(cache) == ["weights.pth.etag", "weights.pth.partial"]
    assert download.local_file(model).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1200000-"]
    assert names(cache) == ["weights.pth"]


@pytest.mark.parametrize("change", [{"ranges": False}, {"etag": '"another"'}])
def test_what_cannot_go_on_starts_again(model, server, change):
    """A server without ranges, and a file that has changed meanwhile."""
    server.breaks_after = 1_200_000
    with pytest.raises(InputError, match="interrupted"):
        download.local_file(model)
    for name, value in change.items():
        setattr(server, name, value)
    assert download.local_file(model).read_bytes() == CONTENT


def test_what_was_whole_when_the_process_was_killed_is_fetched_again(model, cache, server):
    cache.mkdir(parents=True)
    (cache / "weights.pth.partial").write_bytes(CONTENT)
    (cache / "weights.pth.etag").write_text(server.etag)
    assert download.local_file(model).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT)}-", None]


def test_a_wrong_file_is_not_kept(model, cache):
    wrong = replace(model, weights=replace(model.weights, sha256="0" * 64))
    with pytest.raises(
        InputError, match=r"not the file that was published \(sha256 .* instead of 000000000000…\)"
    ):
        download.local_file(wrong)
    assert names(cache) == []


def test_without_a_known_digest_what_comes_is_kept(model):
    unknown = replace(model, weights=replace(model.weights, sha256=None))
    assert download.local_file(unknown).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [404, 403, 416, 500])
def test_an_error_of_the_server_is_one_line_with_what_to_do(model, cache, server, status):
    server.status = status
    with pytest.raises(InputError) as caught:
        download.local_file(model)
    line = str(caught.value)
    assert f"the server answered {status}" in line
    assert model.weights.address in line
    assert f"put it at {cache / 'weights.pth'}, or give it with `weights=FILE`" in line
    assert "\n" not in line


def test_a_web_page_is_no_file(model, cache, server):
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(InputError, match="the server answered with a web page"):
        download.local_file(model)
    assert names(cache) == []


def test_a_refused_connection_is_one_line(model, cache):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lost = replace(model, weights=replace(model.weights, address=f"http://127.0.0.1:{port}/weights.pth"))
    with pytest.raises(InputError, match="it cannot be reached: Connection refused"):
        download.local_file(lost)


def test_offline_nothing_is_asked(model, server, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="HF_HUB_OFFLINE is set"):
        download.local_file(model)
    assert server.asked == []


def test_a_full_disk_is_named_before_anything_is_fetched(model, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(
        InputError, match="the weights need 3 MB, but only 1 kB of disk is free; set SAMESPOT_CACHE"
    ):
        download.local_file(model)


def test_a_cache_that_cannot_be_written_is_named(model, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cannot be written .* set SAMESPOT_CACHE to another folder"):
        download.local_file(model)


def test_of_several_processes_one_fetches(model, server):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: download.local_file(model), range(4)))
    assert len(set(paths)) == 1
    assert len(server.asked) == 1


def test_files_of_torchs_cache_are_used_where_they_lie(model, tmp_path, server):
    path = tmp_path / "torch" / "hub" / "checkpoints" / "weights.pth"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert download.local_file(model) == path
    assert server.asked == []


def test_the_cache_is_where_caches_are(monkeypatch, tmp_path):
    monkeypatch.delenv("SAMESPOT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert download.cache_folder() == tmp_path / "samespot"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert download.cache_folder() == tmp_path / ".cache" / "samespot"


def test_addresses_of_the_hub_are_looked_for_in_its_cache(monkeypatch, cache, tmp_path):
    asked = []

    def found(repository, path, revision):
        asked.append((repository, path, revision))
        return str(tmp_path / "there")

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", found)
    assert download.found_file(published_models()["megaloc"].weights) == tmp_path / "there"
    assert asked == [("gberton/MegaLoc", "model.safetensors", "7cb9f7970d366fdf059963d04d372e503e8e9df9")]
