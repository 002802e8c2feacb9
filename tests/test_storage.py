"""Photos at a real web server, and on disks that fail: what is read, what is missing, what says nothing of them."""

import errno
import gzip
import os
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from samespot import storage
from samespot.errors import InputError
from samespot.photo_files import header
from samespot.places.photos import read
from samespot.places.table import Places
from samespot.storage import (
    AT_ONCE,
    MissingPhotoError,
    StorageError,
    full_name,
    in_threads,
    is_file,
    photo_at,
    read_encoded,
    shown,
    state_of,
    states_of,
)

pytest.importorskip("aiohttp", reason="fsspec[http] is not installed")
PHOTO = bytes(range(256)) * 40
PIECE = bytes(100_000)


class Answers(BaseHTTPRequestHandler):
    """One way to answer for each address."""

    def do_GET(self):
        server = self.server
        server.asked.append((self.command, self.path))
        name = self.path.partition("?")[0].strip("/")
        if name.isdigit():
            self.send_error(int(name))
        elif name == "busy" and len(server.asked) < 3:
            self.send_error(503)
        elif name == "slow":
            self.told({"Content-Length": len(PHOTO)}, PHOTO[:100])
            time.sleep(0.2)
            self.wfile.write(PHOTO[100:])
        elif name == "stuck":
            self.told({"Content-Length": len(PHOTO)}, PHOTO[:100])
            server.over.wait(20)
        elif name == "short":
            self.told({"Content-Length": len(PHOTO)}, PHOTO[:100])
        elif name == "unmeasured":
            self.told({}, PHOTO)  # until the connection ends
        elif name == "packed":
            packed = gzip.compress(PHOTO)
            self.told({"Content-Length": len(packed), "Content-Encoding": "gzip"}, packed)
        elif name == "endless":
            self.told({})
            while not server.over.is_set():
                server.sent += self.wfile.write(PIECE)
        elif name == "huge":
            self.told({"Content-Length": 10**12}, PIECE)
        elif name == "empty":
            self.told({"Content-Length": 0})
        else:
            self.told({"Content-Length": len(PHOTO), "ETag": server.tag}, PHOTO)

    def do_HEAD(self):
        self.do_GET()

    def told(self, headers, body=b""):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass

    def handle(self):
        with suppress(OSError):  # who asked went away
            super().handle()


@pytest.fixture
def web(monkeypatch):
    monkeypatch.setattr(storage, "WAITS", (0.01, 0.01))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.asked, server.sent, server.tag, server.over = [], 0, "one", threading.Event()
    server.at = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["plain", "unmeasured", "packed", "slow"])
def test_a_photo_is_read_in_one_request(web, name):
    assert read_encoded(f"{web.at}/{name}") == PHOTO
    assert web.asked == [("GET", f"/{name}")]


@pytest.mark.parametrize("status", [404, 410])
def test_what_a_server_does_not_have_is_missing(web, status):
    for ask in (read_encoded, state_of):
        with pytest.raises(MissingPhotoError, match=f"/{status}: no such photo; check the address$"):
            ask(f"{web.at}/{status}")


@pytest.mark.parametrize(
    ("name", "words", "times"),
    [
        ("401", "401 Unauthorized", 1),
        ("403", "403 Forbidden", 1),
        ("429", "429 Too Many Requests", 3),
        ("503", "503 Service Unavailable", 3),
        ("short", "(?i)content.length|payload", 3),
        ("stuck", "it takes too long to answer", 3),
    ],
)
def test_a_server_that_refuses_says_nothing_of_the_photo(web, monkeypatch, name, words, times):
    monkeypatch.setattr(storage, "PATIENCE", 0.3)
    with pytest.raises(StorageError, match=words) as refused:
        read_encoded(f"{web.at}/{name}")
    assert str(refused.value).startswith(f"{web.at}/{name}: cannot read the image (")
    assert "\n" not in str(refused.value)
    assert len(web.asked) == times


@pytest.mark.parametrize("name", ["403", "503"])
def test_a_state_that_is_refused_is_not_missing(web, name):
    """fsspec says that there is no such file, whatever the server said."""
    with pytest.raises(StorageError, match=name):
        state_of(f"{web.at}/{name}")
    with pytest.raises(StorageError, match=name):
        states_of([f"{web.at}/plain", f"{web.at}/{name}"])


def test_a_server_that_was_busy_is_asked_again(web):
    assert read_encoded(f"{web.at}/busy") == PHOTO


def test_where_no_server_is_nothing_is_missing(web):
    web.shutdown()
    web.server_close()
    for ask in (read_encoded, state_of):
        with pytest.raises(StorageError, match="check the address and the access"):
            ask(f"{web.at}/plain")


@pytest.mark.parametrize("name", ["endless", "huge"])
def test_no_more_is_read_than_a_photo_may_have(web, monkeypatch, name):
    """A server need not say how much it will send."""
    monkeypatch.setattr(storage, "MOST_BYTES", 50_000)
    with pytest.raises(InputError, match="more than 50 kB is too large for a photo") as refused:
        read_encoded(f"{web.at}/{name}")
    assert not isinstance(refused.value, StorageError)
    web.over.set()
    assert web.sent < 100 * len(PIECE)  # what fits into the sockets


def test_an_empty_answer_is_a_bad_photo(web):
    with pytest.raises(InputError, match="the file is empty") as refused:
        read_encoded(f"{web.at}/empty")
    assert not isinstance(refused.value, StorageError)


def test_the_state_is_another_when_the_content_is(web):
    before = states_of([f"{web.at}/plain", f"{web.at}/404"])
    assert before == [f"{len(PHOTO)}\none", None]
    web.tag = "two"
    assert state_of(f"{web.at}/plain") != before[0]


def test_a_token_in_an_address_is_used_and_not_shown(web):
    for name in ("403", "503", "404", "empty"):
        address = f"{web.at}/{name}?X-Amz-Signature=secret&x=1"
        with pytest.raises(InputError) as refused:
            read_encoded(address)
        assert web.asked[-1] == ("GET", f"/{name}?X-Amz-Signature=secret&x=1")
        assert "secret" not in str(refused.value)
        assert f"{web.at}/{name}?…: " in str(refused.value)
    assert shown("s3://bucket/why?.jpg") == "s3://bucket/why?.jpg"  # a name like any other


def test_many_states_are_asked_for_at_once(monkeypatch):
    """As many as are said, or this waits until it breaks."""
    all_there = threading.Barrier(AT_ONCE)
    monkeypatch.setattr(storage, "state_of", lambda photo: str(all_there.wait(20)) and "1")
    assert states_of([f"https://host/{i}.jpg" for i in range(AT_ONCE)]) == ["1"] * AT_ONCE


def test_the_first_error_ends_the_work():
    done = []

    def work(number):
        if number == 5:
            raise StorageError("gone")
        time.sleep(0.01)
        done.append(number)

    with pytest.raises(StorageError, match="gone"):
        in_threads(work, range(1000), 4)
    assert len(done) < 50
    assert in_threads(abs, range(-9, 0), 4) == list(range(9, 0, -1))


# ---- names ----


@pytest.mark.parametrize(
    "address",
    [
        "https://me:secret@host/a.jpg",
        "https://secret@host/a.jpg",
        "https://me:sec@ret@host/a.jpg",
        "s3://key:secret@bucket/a.jpg",
        "sftp://me:secret@host/a.jpg",
        "https://me:secret@host//a.jpg",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(tmp_path, address):
    build = lambda: Places.build(tmp_path, {"image": [address], "easting": 0.0, "northing": 0.0})  # noqa: E731
    for ask in (build, lambda: photo_at(tmp_path, address), lambda: read_encoded(address)):
        with pytest.raises(InputError, match="a password does not belong in an address") as refused:
            ask()
        assert "ret@" not in str(refused.value)
        assert "secret" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_what_an_address_is_chained_to_is_not_shown(tmp_path):
    with pytest.raises(
        InputError, match=r"^zip://a\.jpg: addresses with // or :: in them are not understood"
    ):
        photo_at(tmp_path, "zip://a.jpg::https://me:secret@host/x.zip")


@pytest.mark.parametrize(
    "address", ["sftp://me@host/a.jpg", "abfs://photos@account.dfs.core.windows.net/a.jpg", "s3://b/me@x.jpg"]
)
def test_a_name_alone_is_no_password(tmp_path, address):
    assert full_name(photo_at(tmp_path, address)) == address


def test_a_file_address_is_the_path(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(PHOTO)
    assert photo_at(tmp_path / "elsewhere", f"file://{path}") == path
    assert full_name(f"file://{path}") == str(path)
    assert read_encoded(f"file://{path}") == PHOTO
    assert state_of(f"file://{path}") == state_of(path) == f"{len(PHOTO)}\n{path.stat().st_mtime_ns}"


# ---- disks ----


@pytest.fixture
def fails(monkeypatch):
    """Lets a call of `os` fail for some paths, and counts how often it was asked."""
    monkeypatch.setattr(storage, "WAITS", (0, 0))

    def let(call, number, *names):
        original, asked = getattr(os, call), []

        def failing(path, *more, **how):
            if str(path).endswith(names):
                asked.append(path)
                raise OSError(number, os.strerror(number), str(path))
            return original(path, *more, **how)

        monkeypatch.setattr(os, call, failing)
        return asked

    return let


@pytest.mark.parametrize(("number", "times"), [(errno.ESTALE, 3), (errno.EIO, 3), (errno.EACCES, 1)])
def test_a_disk_that_fails_says_nothing_of_the_photo(tmp_path, fails, number, times):
    (tmp_path / "a.jpg").write_bytes(PHOTO)
    asked = fails("stat", number, "a.jpg")
    for ask in (read_encoded, state_of, is_file):
        asked.clear()
        with pytest.raises(StorageError, match=os.strerror(number)) as refused:
            ask(tmp_path / "a.jpg")
        assert str(refused.value).startswith(f"{tmp_path / 'a.jpg'}: cannot read the image (")
        assert len(asked) == times


@pytest.mark.parametrize("name", ["none.jpg", "a.jpg/b.jpg", "x" * 300, "a\0b", "loop.jpg"])
def test_what_cannot_be_there_is_missing(tmp_path, monkeypatch, name):
    monkeypatch.setattr(storage.time, "sleep", lambda _: pytest.fail("waited for nothing"))
    (tmp_path / "a.jpg").write_bytes(PHOTO)
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    assert states_of([tmp_path / name]) == [None]
    assert not is_file(tmp_path / name)
    with pytest.raises(MissingPhotoError, match="cannot read the image"):
        read_encoded(tmp_path / name)


def test_a_header_on_a_disk_that_fails_is_no_broken_photo(tmp_path, fails, monkeypatch):
    Image.new("RGB", (4, 3)).save(tmp_path / "a.png")
    (tmp_path / "b.tif").write_bytes(b"II*\0\xff\xff\xff\x7f")  # points outside of itself
    with header(tmp_path / "a.png") as image:
        assert image.size == (4, 3)
    with pytest.raises(Exception, match=r".") as broken, header(tmp_path / "b.tif"):
        pass
    assert not isinstance(broken.value, StorageError)

    def refuse(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(StorageError, match="Input/output error"), header(tmp_path / "a.png"):
        pass
    with pytest.raises(StorageError, match="Input/output error"):
        read(tmp_path)  # a folder of photos, by their EXIF data


def test_a_folder_that_lets_nobody_in_is_not_empty(tmp_path, fails):
    (tmp_path / "closed").mkdir()
    (tmp_path / "lost+found").mkdir()
    Image.new("RGB", (4, 3)).save(tmp_path / "a.jpg")
    fails("scandir", errno.EACCES, "closed", "lost+found")
    with pytest.raises(StorageError, match="closed: cannot read the folder") as refused:
        read(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_table_drops_no_photo_of_a_disk_that_fails(tmp_path, fails):
    (tmp_path / "a.jpg").write_bytes(PHOTO)
    fails("stat", errno.ESTALE, "a.jpg")
    with pytest.raises(StorageError, match=r"a\.jpg"):
        Places.build(
            tmp_path,
            {"image": ["a.jpg", "b.jpg"], "easting": 0.0, "northing": [0.0, 1.0]},
            missing_images="drop",
        )


@pytest.mark.parametrize(
    "refused", [OSError(errno.EINVAL, "the range is not satisfiable"), PermissionError("no")]
)
def test_an_empty_file_of_a_storage_that_has_no_range_of_it(monkeypatch, refused):
    """As s3fs and gcsfs have it; what is refused for another reason is no empty file."""
    asked = []

    class Objects:
        def cat_file(self, path, start, end):
            asked.append((start, end))
            raise refused

        def info(self, path):
            return {"size": 0}

    monkeypatch.setattr(storage, "_system", lambda address: (Objects(), address))
    kind, words = (InputError, "is empty") if refused.errno else (StorageError, r"\(no\)")
    with pytest.raises(kind, match=words):
        read_encoded("s3://bucket/a.jpg")
    assert asked == [(0, storage.MOST_BYTES + 1)]
