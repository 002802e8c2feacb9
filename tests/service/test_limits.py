"""Who may ask, how much, and what strangers' bytes may do: little."""

import asyncio
import io
import json
import logging
import os
import signal
import struct
import threading
import zlib

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.service.batching import Batcher
from samespot.service.decoding import Decoder
from samespot.service.keys import Keys, Rates
from samespot.service.options import KEYS, ServeOptions, named_maps
from tests.service.conftest import PNG

pytestmark = pytest.mark.usefixtures("one_thread")
KEY, OTHER = "a-key-of-twenty-chars", "another-key-of-some-length"


def bearer(key):
    return {"authorization": f"Bearer {key}"}


# ---- who ----


def test_an_address_that_others_reach_needs_keys(tmp_path):
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(InputError, match="give `keys`, or `no_auth`"):
            ServeOptions(maps=["map"], host=host)
        ServeOptions(maps=["map"], host=host, no_auth=True)
        ServeOptions(maps=["map"], host=host, keys=tmp_path / "keys")
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        ServeOptions(maps=["map"], host=host)


def test_an_empty_file_of_keys_lets_nobody_in_from_outside(street, tmp_path):
    from samespot.service.state import Service

    (tmp_path / "keys").write_text("# none yet\n")
    with pytest.raises(InputError, match="there are no keys in it"):
        Service(ServeOptions(maps=[str(street / "map")], host="0.0.0.0", keys=tmp_path / "keys"))


def test_keys_come_and_go_without_a_restart(serving, tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"robot:{KEY}\n")
    with serving(maps=("map",), keys=file) as client:
        assert client.get("/v1/map").status_code == 401
        assert client.get("/v1/map", headers=bearer("a wrong key")).status_code == 401
        assert client.get("/v1/map", headers={"authorization": f"Basic {KEY}"}).status_code == 401
        assert client.get("/v1/map", headers=bearer(KEY)).status_code == 200
        file.write_text(f"{OTHER}\n")
        os.utime(file, ns=(1, 1))
        assert client.get("/v1/map", headers=bearer(KEY)).status_code == 401
        assert client.get("/v1/map", headers=bearer(OTHER)).status_code == 200
        file.unlink()
        assert client.get("/v1/map", headers=bearer(OTHER)).status_code == 401
        file.write_text(f"robot: {KEY}\n")
        assert client.get("/v1/map", headers=bearer(KEY)).status_code == 200  # it is there again
        file.write_bytes(f"carol:short\nrobot:{KEY}\n".encode() + b"\xff\n")
        wrong = client.get("/v1/map", headers=bearer(OTHER))
        assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, "Bearer")
        assert str(file) not in wrong.text
        assert client.get("/v1/map", headers=bearer(KEY)).status_code == 200  # a wrong line harms no other
        file.unlink()
        for address in ("/", "/healthz", "/readyz", "/geopose"):  # nothing of the map
            assert client.get(address).status_code == 200
        for address in ("/v1/maps", "/v1/cameras", "/v1/places/0", "/v1/places/0/photo", "/metrics"):
            assert client.get(address).status_code == 401
        assert client.post("/geopose", json={}).status_code == 401


def test_keys_of_the_environment(monkeypatch):
    monkeypatch.setenv(KEYS, f"robot:{KEY},{OTHER}")
    keys = Keys(None)
    assert (keys.owner(KEY), keys.owner(OTHER), keys.owner("")) == ("robot", "key 2", None)


def test_keys_of_the_environment_are_enough_for_any_address(monkeypatch):
    monkeypatch.setenv(KEYS, KEY)
    ServeOptions(maps=["map"], host="0.0.0.0")
    with pytest.raises(InputError, match="exclude each other"):
        ServeOptions(maps=["map"], host="0.0.0.0", no_auth=True)


@pytest.mark.parametrize("odd", [{"allow_origin": ("*",)}, {"images": 5, "waiting": 4}])
def test_options_that_do_harm_are_refused(odd):
    with pytest.raises(InputError, match=r"any web page|more than may wait"):
        ServeOptions(maps=["map"], **odd)


def test_a_short_key_is_refused(tmp_path):
    (tmp_path / "keys").write_text("secret\n")
    with pytest.raises(InputError, match="at least 16 characters"):
        Keys(tmp_path / "keys")


def test_a_key_has_so_many_requests_a_minute(serving, tmp_path):
    (tmp_path / "keys").write_text(f"a:{KEY}\nb:{OTHER}\n")
    with serving(maps=("map",), keys=tmp_path / "keys", rate=3) as client:
        codes = [client.get("/v1/maps", headers=bearer(KEY)).status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        last = client.get("/v1/maps", headers=bearer(KEY))
        assert 1 <= int(last.headers["retry-after"]) <= 20
        assert client.get("/v1/maps", headers=bearer(OTHER)).status_code == 200


def test_requests_come_back_evenly(monkeypatch):
    now = 0.0
    monkeypatch.setattr("samespot.service.keys.time.monotonic", lambda: now)
    rates = Rates(60)
    assert all(rates.wait("a") == 0 for _ in range(60))
    assert rates.wait("a") == pytest.approx(1.0)
    now = 1.01
    assert rates.wait("a") == 0
    assert rates.wait("a") > 0


def test_maps_have_names(tmp_path):
    assert named_maps(["a=x", str(tmp_path / "my map")]) == {
        "a": tmp_path.__class__("x"),
        "my-map": tmp_path / "my map",
    }
    with pytest.raises(InputError, match="a map named x already"):
        named_maps(["one/x", "two/x"])
    with pytest.raises(InputError, match="the name of a map has letters"):
        named_maps(["b.c=map"])


# ---- how much ----


def test_too_many_bytes(serving, photo):
    with serving(maps=("map",), megabytes=0.1, images=2) as client:
        large = client.post("/v1/locate", content=bytes(100_001), headers=PNG)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "too_large")
        endless = client.post("/v1/locate", content=(bytes(60_000) for _ in range(50)), headers=PNG)
        assert endless.status_code == 413
        huge = client.post("/v1/locate", content=b"", headers={**PNG, "content-length": "99999999999"})
        assert huge.status_code == 413
        form = client.post("/v1/locate", files=[("photo", ("a.png", bytes(150_000), "image/png"))])
        assert form.status_code == 413
        many = client.post("/v1/locate", files=[("photo", ("a.png", photo(1), "image/png"))] * 3)
        assert many.status_code == 400
        assert client.post("/v1/locate", content=photo(1), headers=PNG).status_code == 200


def test_what_is_no_photo(client):
    assert client.post("/v1/locate", json={"photo": 1}).status_code == 415
    assert client.post("/v1/locate", content=b"", headers=PNG).status_code == 400
    assert client.post("/v1/locate", data={"photo": "text"}, files={"x": ("", b"")}).status_code in (400, 422)
    broken = client.post("/v1/locate", content=b"not a photo", headers=PNG)
    assert broken.json() == {
        "error": {"code": "unreadable", "message": "cannot decode the image (not an image)"}
    }
    bad = client.post("/v1/locate", content=b"xx", headers={"content-type": "multipart/form-data"})
    assert bad.status_code == 400


def bomb(width, height):
    """A PNG of some kilobytes that unpacks to width x height pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + bytes(3 * width)) * height, 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_bomb_is_refused_by_its_header(client):
    told = client.post("/v1/locate", content=bomb(9000, 6000), headers=PNG)
    assert told.status_code == 422
    assert told.json()["error"]["message"] == (
        "9000 x 6000 pixels are too many, at most 50 megapixels and 30,000 pixels a side"
    )


def test_who_finds_no_room_is_told_when_to_come_back(serving, photo):
    with serving(maps=("map",), waiting=2, images=2) as client:
        locating = client.app.state.service.locating
        locating.inside = 2
        told = client.post("/v1/locate", content=photo(1), headers=PNG)
        assert (told.status_code, told.json()["error"]["code"]) == (429, "busy")
        assert int(told.headers["retry-after"]) >= 1
        locating.inside = 0
        locating.inside = 1
        several = client.post("/v1/locate", files=[("photo", ("a.png", photo(1), "image/png"))] * 2)
        assert several.status_code == 429
        locating.inside = 0
        assert locating.inside == 0
        assert client.post("/v1/locate", content=photo(1), headers=PNG).status_code == 200


def test_what_takes_too_long_is_given_up(serving, photo, monkeypatch):
    from samespot.maps.map import Map

    slow, whole = threading.Event(), Map.locate
    monkeypatch.setattr(Map, "locate", lambda *given, **more: slow.wait(2) or whole(*given, **more))
    with serving(maps=("map",), seconds=0.5) as client:
        told = client.post("/v1/locate", content=photo(1), headers=PNG)
        slow.set()
        assert (told.status_code, told.json()["error"]["code"]) == (503, "too_slow")
        assert client.app.state.service.locating.inside == 0


# ---- browsers ----


def test_headers_keep_browsers_safe(client):
    for address in ("/", "/v1/map", "/nothing", "/v1/places/99999"):
        headers = client.get(address).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


def test_other_sites_may_ask_only_where_that_was_said(serving, client):
    origin = {"origin": "https://example.org"}
    assert "access-control-allow-origin" not in client.get("/v1/map", headers=origin).headers
    with serving(maps=("map",), allow_origin=("https://example.org",)) as open_to_one:
        told = open_to_one.get("/v1/map", headers=origin).headers
        assert told["access-control-allow-origin"] == "https://example.org"
        other = open_to_one.get("/v1/map", headers={"origin": "https://evil.org"}).headers
        assert "access-control-allow-origin" not in other


def test_a_name_that_is_not_ours_is_not_answered(client):
    told = client.get("/v1/map", headers={"host": "evil.example:8000"})
    assert (told.status_code, told.json()["error"]["code"]) == (400, "bad_host")
    assert client.get("/v1/map", headers={"host": "127.0.0.1:8000"}).status_code == 200


def test_a_request_has_an_id_and_a_line_without_secrets(client, photo, caplog, street):
    with_gps = io.BytesIO()
    exif = Image.Exif()
    exif[0x8825] = {1: "N", 2: (12.0, 34.0, 56.0), 3: "E", 4: (65.0, 43.0, 21.0)}
    Image.open(io.BytesIO(photo(3))).convert("RGB").save(with_gps, "JPEG", exif=exif)
    logger = logging.getLogger("samespot.service")
    logger.propagate = True
    with caplog.at_level(logging.INFO, "samespot.service"):
        given = {"content-type": "image/jpeg", "x-request-id": "abc-1", "authorization": f"Bearer {KEY}"}
        told = client.post("/v1/locate", content=with_gps.getvalue(), headers=given)
        assert told.headers["x-request-id"] == "abc-1"
        odd = client.get("/v1/map", headers={"x-request-id": "no spaces\there"})
        assert len(odd.headers["x-request-id"]) == 32
    lines = [json.dumps(getattr(one, "facts", {})) + one.getMessage() for one in caplog.records]
    assert any('"abc-1"' in line and '"status": 200' in line for line in lines)
    for secret in ("12.58", "65.72", KEY, "48.0", str(street)):
        assert not any(secret in line for line in lines)


def test_our_own_mistakes_say_nothing_of_us(serving, photo, monkeypatch):
    from samespot.maps.map import Map

    def fail(*given, **more):
        raise ZeroDivisionError("at /secret/path")

    with serving(maps=("map",)) as client:
        monkeypatch.setattr(Map, "locate", fail)
        told = client.post("/v1/locate", content=photo(1), headers=PNG)
    assert told.status_code == 500
    assert "secret" not in told.text
    assert "Zero" not in told.text
    assert len(told.headers["x-request-id"]) == 32
    assert told.headers["x-content-type-options"] == "nosniff"


def test_what_is_wrong_with_a_map_is_told_without_where_it_is(serving, photo, monkeypatch, street):
    from samespot.maps.map import Map

    def fail(*given, **more):
        raise InputError(f"{street}: is gone")

    with serving(maps=("map",)) as client:
        monkeypatch.setattr(Map, "locate", fail)
        told = client.post("/v1/locate", content=photo(1), headers=PNG)
    assert (told.status_code, told.json()["error"]["code"]) == (503, "map_trouble")
    assert str(street) not in told.text


def test_nobody_takes_all_the_room(serving, photo):
    with serving(maps=("map",), waiting=8, images=2) as client:
        locating = client.app.state.service.locating
        locating._by_asker["address testclient"] = 4
        assert client.post("/v1/locate", content=photo(1), headers=PNG).status_code == 429
        del locating._by_asker["address testclient"]
        assert client.post("/v1/locate", content=photo(1), headers=PNG).status_code == 200
        assert not locating._by_asker


def test_nothing_is_parsed_for_who_has_no_key(serving, tmp_path):
    (tmp_path / "keys").write_text(f"{KEY}\n")
    with serving(maps=("map",), keys=tmp_path / "keys", megabytes=0.1) as client:
        endless = (b'{"a":[' + b"0," * 30_000 for _ in range(20))
        assert client.post("/geopose", content=endless).status_code == 401
        large = (b'{"a":[' + b"0," * 30_000 for _ in range(40))
        assert client.post("/geopose", content=large, headers=bearer(KEY)).status_code == 413


# ---- the parts ----


def png(width, height):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)).save(
        out, "PNG"
    )
    return out.getvalue()


def test_the_decoder_outlives_what_kills_its_processes():
    from samespot.service import decoding

    async def run():
        decoder = Decoder(1, 1_000_000, seconds=5.0)
        try:
            task = decoder._pool.schedule(os._exit, (9,))
            with pytest.raises(decoding.ProcessExpired):
                await asyncio.wrap_future(task)
            hungry = decoder._pool.schedule(bytearray, (2 << 30,))
            with pytest.raises(MemoryError):
                await asyncio.wrap_future(hungry)
            assert (await decoder(png(40, 30), "a", (6, 8))).pixels.shape == (3, 6, 8)
            number = await decoder._done(os.getpid)
            os.kill(number, signal.SIGKILL)  # with nothing to do
            await asyncio.sleep(1.0)
            return await decoder(png(4000, 200), "a", (6, 8))
        finally:
            decoder.close()

    assert asyncio.run(run()).looked_at.shape == (3, 32, 640)  # a large photo stays in its process


class Fake:
    """A map whose vectors are the sizes of its batches."""

    def __init__(self):
        self.batches = []

    def vectors(self, images):
        self.batches.append(len(images))
        if images[0] is None:
            raise InputError("no image")
        return np.full((len(images), 1), len(images))


def batched(most, wait, images):
    async def run():
        map, told = Fake(), []
        batcher = Batcher(most, wait, lambda: len(images), told.append)
        try:
            return (
                map,
                told,
                await asyncio.gather(*(batcher(map, one) for one in images), return_exceptions=True),
            )
        finally:
            await batcher.close()

    return asyncio.run(run())


def test_photos_that_wait_together_go_together():
    map, told, vectors = batched(4, 0.05, ["x"] * 10)
    assert map.batches == told == [4, 4, 2]
    assert [int(one[0]) for one in vectors] == [4] * 8 + [2] * 2


def test_what_fails_in_a_batch_fails_for_those_in_it():
    map, _, vectors = batched(2, 0.0, [None, "x", "x"])
    assert [isinstance(one, InputError) for one in vectors] == [True, True, False]
    assert map.batches == [2, 1]
