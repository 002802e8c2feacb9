"""What the service answers: the same as the library, in the words of whoever asks."""

import base64
import io
import math
import shutil

import pytest
from PIL import Image

from samespot.maps.build import update_map
from samespot.maps.map import open_map
from samespot.service.hosting import Hosted, warm
from tests.service.conftest import PNG

pytestmark = pytest.mark.usefixtures("one_thread")


def ask(client, encoded, **query):
    return client.post("/v1/locate", content=encoded, headers=PNG, params=query)


@pytest.mark.parametrize("times", [1, 7])
def test_an_answer_is_the_json_of_locate(client, photo, street, times):
    whole = Image.open(io.BytesIO(photo(3)))
    larger = io.BytesIO()
    whole.resize((whole.width * times, whole.height * times), Image.Resampling.BICUBIC).save(larger, "PNG")
    asked = larger.getvalue()
    told = ask(client, asked, k=2).json()
    ours = open_map(street / "map").locate(asked, k=2).to_dict()
    assert told["found"]
    assert told["matches"][0]["image"] == ours["matches"][0]["image"]
    assert told.keys() == ours.keys()
    assert told["matches"][0].keys() == ours["matches"][0].keys()
    assert told["probability"] == pytest.approx(ours["probability"], abs=1e-6)
    assert told["position"] == pytest.approx(ours["position"])
    assert [one["verified"] for one in told["matches"]] == [one["verified"] for one in ours["matches"]]


def test_a_place_that_is_not_in_the_map_is_not_found(client, photo):
    told = ask(client, photo(12))
    assert told.status_code == 200
    assert not told.json()["found"]


def test_several_photos_are_answered_in_their_order(client, photo):
    parts = [("photo", (f"{n}.png", photo(n), "image/png")) for n in (4, 2)]
    parts.insert(1, ("photo", ("../../etc/passwd.txt", b"not a photo", "text/plain")))
    told = client.post("/v1/locate", files=parts).json()
    assert [one["photo"] for one in told["answers"]] == ["4.png", "passwd.txt", "2.png"]
    assert [one["found"] for one in told["answers"]] == [True, False, True]
    assert told["answers"][1]["trouble"] == "passwd.txt: cannot decode the image (not an image)"


def test_photos_as_a_track(client, photo, street):
    parts = [("photo", (f"{n}.png", photo(n), "image/png")) for n in (4, 5, 6)]
    parts.append(("photo", ("broken.jpg", b"x", "image/jpeg")))
    told = client.post("/v1/locate", files=parts, params={"track": True, "every": 5}).json()["answers"]
    assert [one.get("time") for one in told] == [0.0, 5.0, 10.0, None]
    assert all(one["found"] for one in told[:3])
    assert "trouble" in told[3]
    ours = list(open_map(street / "map").track([photo(n) for n in (4, 5, 6)], every=5.0))
    assert [one["probability"] for one in told[:3]] == pytest.approx(
        [one.probability for one in ours], abs=1e-6
    )


def test_pairs_are_points_of_both_photos(client, photo):
    assert ask(client, photo(3)).json()["matches"][0]["pairs"] is None
    best = ask(client, photo(3), pairs=True).json()["matches"][0]
    assert len(best["pairs"]) == best["verified"]
    assert all(0 <= share <= 1 for pair in best["pairs"] for share in pair)
    ours, theirs = best["pairs"][0][0] * 160, best["pairs"][0][2] * 160
    assert abs(ours - theirs) == pytest.approx(
        abs(17 - 12 * int(best["image"][3])), abs=3
    )  # the views are shifted


def test_options_of_locate_count(client, photo):
    assert len(ask(client, photo(1), k=7).json()["matches"]) == 7
    plain = ask(client, photo(1), verify=False).json()
    assert plain["matches"][0]["verified"] is None
    assert not ask(client, photo(1), at_least=1.0).json()["found"]
    assert ask(client, photo(1), outside=0.9).json()["outside"] == 0.9
    both = ask(client, photo(1), at_least=0.5, precision=0.9)
    assert both.status_code == 422
    assert "precision" in both.json()["error"]["message"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"k": 0}, 422),
        ({"k": "many"}, 422),
        ({"outside": 1}, 422),
        ({"map": "moon"}, 404),
        ({"as": "xml"}, 422),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(client, photo, query, code):
    told = ask(client, photo(1), **query)
    assert told.status_code == code
    assert set(told.json()["error"]) == {"code", "message"}


def test_filters_say_which_photos_may_answer(client, photo, street):
    at = ask(client, photo(3)).json()["position"]
    near = ask(client, photo(3), near=f"{at['latitude']},{at['longitude']},10", k=50).json()
    assert {one["image"][:2] for one in near["matches"]} == {"03"}
    away = ask(client, photo(3), near="48.5,11.5,10")
    assert (away.status_code, away.json()["found"], away.json()["matches"]) == (200, False, [])
    ours = open_map(street / "map").locate(street / "query03.png", near="48.5,11.5,10")
    assert {**away.json(), "photo": ours.photo} == {**ours.to_dict(), "matches": []}
    assert ours.no_match.endswith("passes the filter near 48.5,11.5,10")
    for query in ({"near": "here"}, {"condition": "night"}, {"since": "yesterday"}):
        told = ask(client, photo(3), **query)
        assert (told.status_code, told.json()["error"]["code"]) == (422, "bad_request")
        assert str(street) not in told.text


def test_each_map_is_asked_by_its_name(client, photo):
    assert [one["name"] for one in client.get("/v1/maps").json()["maps"]] == ["map", "flat"]
    told = ask(client, photo(3), map="flat").json()
    assert told["position"]["latitude"] is None
    assert told["position"]["easting"] == pytest.approx(120, abs=5)


def test_geojson(client, photo):
    told = ask(client, photo(3), **{"as": "geojson"})
    assert told.headers["content-type"] == "application/geo+json"
    assert told.json()["features"][0]["geometry"]["coordinates"][1] == pytest.approx(48.0, abs=1e-3)


def test_geopose_looks_where_the_camera_does(client, photo):
    plain = ask(client, photo(3)).json()
    ypr = ask(client, photo(3), **{"as": "geopose-ypr"})
    assert ypr.headers["content-type"] == "application/geopose+json"
    assert ypr.json()["position"] == {
        "lat": plain["position"]["latitude"], "lon": plain["position"]["longitude"], "h": 503.0,
    }  # fmt: skip
    # the map was told headings from true north, 90 and more, and tells them from that of its grid
    north = 90 + 5 * int(plain["matches"][0]["image"][3]) + plain["heading"] - plain["matches"][0]["heading"]
    assert abs(plain["heading"] - north) > 1
    assert ypr.json()["angles"]["yaw"] == pytest.approx((90 - north) % 360, abs=0.01)
    accept = {**PNG, "accept": "application/geopose+json"}
    turned = client.post("/v1/locate", content=photo(3), headers=accept).json()["quaternion"]
    # the x axis of the camera, turned by the quaternion, in east and north
    z, w = turned["z"], turned["w"]
    ahead = (1 - 2 * z * z, 2 * w * z)
    assert math.degrees(math.atan2(*ahead)) % 360 == pytest.approx(north % 360, abs=0.01)


def test_geopose_needs_degrees_and_a_find(client, photo):
    assert ask(client, photo(3), map="flat", **{"as": "geopose-ypr"}).status_code == 409
    absent = ask(client, photo(12), **{"as": "geopose-ypr"})
    assert (absent.status_code, absent.json()["error"]["code"]) == (404, "not_found")


def test_a_geopose_of_unknown_heading_looks_as_its_match_does(client, photo):
    plain = ask(client, photo(3), verify=False, at_least=0).json()
    assert plain["heading"] is None
    told = ask(client, photo(3), verify=False, at_least=0, **{"as": "geopose-ypr"}).json()
    assert told["angles"]["yaw"] == pytest.approx(-5 * int(plain["matches"][0]["image"][3]) % 360, abs=0.01)


def gpp(encoded, **more):
    reading = {
        "timestamp": 1, "sensorId": "0", "privacy": {}, "sequenceNumber": 0, "imageFormat": "JPG", "size": [160, 120],
        "imageBytes": base64.b64encode(encoded).decode(), "params": {"model": "PINHOLE"},
    }  # fmt: skip
    sensors = [{"id": "0", "type": "camera"}]
    asked = {"id": "7", "timestamp": 12, "type": "geopose", "sensors": sensors}
    return {**asked, "sensorReadings": {"cameraReadings": [reading]}, **more}


def test_the_geopose_protocol(client, photo):
    assert client.get("/geopose").json() == {"status": "running"}
    told = client.post("/geopose", json=gpp(photo(3))).json()
    assert {"id", "timestamp", "accuracy", "type", "geopose"} <= set(told)
    assert (told["id"], told["type"]) == ("7", "geopose")
    assert set(told["accuracy"]) == {"position", "orientation"}
    assert told["geopose"] == ask(client, photo(3), **{"as": "geopose-quaternion"}).json()
    assert told["samespot"]["found"]


def test_a_device_that_knows_where_it_is_helps(client, photo):
    asked = gpp(photo(3))
    readings = asked["sensorReadings"]["geolocationReadings"] = [{"latitude": 48.0, "longitude": 11.3}]
    assert client.post("/geopose", json=asked).status_code == 200  # it does not say how accurately
    readings[0]["accuracy"] = 5.0
    assert client.post("/geopose", json=asked).status_code == 404


def test_the_geopose_protocol_says_what_is_not_there(client, photo):
    absent = client.post("/geopose", json=gpp(photo(12)))
    assert absent.status_code == 404
    assert absent.json()["error"]["code"] == "not_found"
    assert not absent.json()["samespot"]["found"]
    assert "geopose" not in absent.json()
    broken = gpp(photo(3))
    broken["sensorReadings"]["cameraReadings"][0]["imageBytes"] = "not base64!"
    assert client.post("/geopose", json=broken).status_code == 400
    assert client.post("/geopose", json={"id": "1"}).status_code == 422
    assert client.post("/geopose", content='{"id": "1", "timestamp": NaN}').status_code == 422
    assert client.post("/geopose", params={"map": "flat"}, json=gpp(photo(3))).status_code == 409


def test_the_map_and_its_photos(client, street):
    facts = client.get("/v1/map").json()
    assert facts["photos"] == 36
    assert facts["degrees"]["south"] == pytest.approx(48.0, abs=1e-3)
    assert facts["bounds"]["east"] > facts["bounds"]["west"]
    assert str(street) not in str(facts)
    cameras = client.get("/v1/cameras").json()
    assert len(cameras["easting"]) == cameras["shown"] == 36
    place = client.get("/v1/places/7").json()
    assert place["image"] == "02-1.png"
    assert place["position"]["easting"] == pytest.approx(cameras["easting"][7], abs=0.06)
    assert client.get("/v1/places/36").status_code == 404
    assert client.get("/v1/places/-1").status_code == 422
    flat = client.get("/v1/map", params={"map": "flat"}).json()
    assert flat["degrees"] is None


def test_pictures_are_jpegs_without_exif(client):
    for size, side in (("thumbnail", 160), ("large", 160)):
        told = client.get("/v1/places/7/photo", params={"size": size})
        picture = Image.open(io.BytesIO(told.content))
        assert (picture.format, max(picture.size)) == ("JPEG", side)
        assert not picture.getexif()


def test_the_large_picture_may_be_gone(street, serving):
    with serving(maps=("map",)) as client:
        name = street / "photos" / "00-0.png"
        name.rename(name.with_suffix(".away"))
        try:
            told = client.get("/v1/places/0/photo", params={"size": "large"})
        finally:
            name.with_suffix(".away").rename(name)
    assert (told.status_code, told.json()["error"]["code"]) == (404, "no_large_photo")


def test_operators_see_how_it_is(client, photo):
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready"}
    ask(client, photo(3))
    numbers = client.get("/metrics").text
    assert 'samespot_map_photos{map="map"} 36.0' in numbers
    assert 'samespot_answers_total{found="true",map="map"}' in numbers
    assert "samespot_photos_inside 0.0" in numbers
    assert 'samespot_stage_seconds_count{stage="decode"}' in numbers


def test_the_page_is_there_and_asks_nobody_else(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "http" not in page.text.replace("http://www.w3.org", "")
    assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")
    for name in ("nothing.js", "..%2fapp.py", "../app.py", "%2e%2e/app.py"):
        assert client.get(f"/page/{name}").status_code == 404


def test_a_newer_generation_takes_over(street, photo, tmp_path):
    shutil.copytree(street / "map", tmp_path / "map")
    hosted = Hosted("map", tmp_path / "map", "cpu")
    before = hosted.map
    warm(before)
    assert not hosted.refresh()
    update_map(None, tmp_path / "map", remove=("00-*",))
    assert hosted.refresh()
    assert len(hosted.map) == 33
    assert len(before) == 36
    assert before.locate(photo(0)).matches[0].image.startswith("00")  # who held the old one keeps it
    assert not hosted.map.locate(photo(0)).matches[0].image.startswith("00")
    assert hosted.map.model is before.model  # not loaded again


def test_another_map_in_its_place_takes_over_and_a_broken_one_does_not(street, tmp_path):
    shutil.copytree(street / "map", tmp_path / "map")
    hosted = Hosted("map", tmp_path / "map", "cpu")
    (tmp_path / "map" / "meta.json").write_text('{"format": 1, "generation": 1}')
    assert not hosted.refresh()
    assert len(hosted.map) == 36
    shutil.rmtree(tmp_path / "map")
    shutil.copytree(street / "flat", tmp_path / "map")  # of the same number
    assert hosted.refresh()
    assert hosted.map.generation.places.projection is None
