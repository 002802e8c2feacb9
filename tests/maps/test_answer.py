"""Answers as people and programs read them."""

import json
import math
from xml.etree import ElementTree

from samespot.maps.answer import Answer, Match, Overlap, Position, Trouble, geojson, gpx, percent, row_of

HERE = Position(320_000.0, 3_890_000.0, 35.12, 129.08)
MATCH = Match("a.jpg", 3, HERE, 90.0, 0.61, verified=55, overlap=Overlap(0.4, 0.2, 0.6))
GPX = "{http://www.topografix.com/GPX/1/1}"


def answer(found=True, probability=0.93, position=HERE, **changes):
    told = {
        "photo": "q.jpg",
        "found": found,
        "probability": probability,
        "position": position,
        "radius": 25.0,
        "heading": 88.4,
    }
    return Answer(**{**told, "matches": (MATCH,), **changes})


def test_a_found_place_is_told_with_its_probability_and_radius():
    line = str(answer())
    assert "35.120000, 129.080000" in line
    assert "93 %" in line
    assert "within 25 m" in line
    assert "a.jpg" in line
    assert "facing 88°" in line


def test_a_place_that_is_not_found_is_not_told_as_one():
    line = str(answer(found=False, probability=0.2))
    assert line.startswith("q.jpg: not in this map")
    assert "20 %" in line
    assert "facing" not in line


def test_no_answer_is_certain():
    assert percent(0.999) == "over 99 %"
    assert percent(0.001) == "under 1 %"
    assert percent(0.504) == "50 %"


def test_json_tells_everything_in_plain_words():
    told = json.loads(json.dumps(answer().to_dict()))
    assert told["format"] == 1
    assert told["position"]["latitude"] == 35.12
    assert told["matches"][0] == {
        "image": "a.jpg",
        "row": 3,
        "position": told["position"],
        "heading": 90.0,
        "distance": 0.61,
        "verified": 55,
        "overlap": {"share": 0.4, "low": 0.2, "high": 0.6},
        "pairs": None,
    }


def test_geojson_puts_longitude_first_and_has_no_point_for_what_was_not_found():
    found, lost = json.loads(geojson([answer(), answer(found=False)]))["features"]
    assert found["geometry"] == {"type": "Point", "coordinates": [129.08, 35.12]}
    assert lost["geometry"] is None
    assert lost["properties"]["probability"] == 0.93


def test_metres_without_a_projection_are_no_point_on_the_globe():
    local = Position(12.0, -3.0)
    assert answer(position=local).feature()["geometry"] is None
    assert "12.0 m east, -3.0 m north" in str(answer(position=local))
    assert ElementTree.fromstring(gpx([answer(position=local)])).findall(f"{GPX}wpt") == []


def test_gpx_has_waypoints_or_a_track_of_what_was_found():
    both = [answer(), answer(found=False), answer(photo="<&.jpg")]
    points = ElementTree.fromstring(gpx(both)).findall(f"{GPX}wpt")
    assert [point.findtext(f"{GPX}name") for point in points] == ["q.jpg", "<&.jpg"]
    assert (points[0].get("lat"), points[0].get("lon")) == ("35.12000000", "129.08000000")
    track = ElementTree.fromstring(gpx(both, track=True))
    assert len(track.findall(f"{GPX}trk/{GPX}trkseg/{GPX}trkpt")) == 2


def test_a_line_of_a_table_is_of_the_same_columns_for_answers_and_for_trouble():
    line, trouble = row_of(answer()), row_of(Trouble("x.jpg", "cannot be read"))
    assert list(line) == list(trouble)
    assert {name: type(value) for name, value in line.items()} == {n: type(v) for n, v in trouble.items()}
    assert (line["match"], line["verified"], line["trouble"]) == ("a.jpg", 55, "")
    assert trouble["trouble"] == "cannot be read"
    assert not trouble["found"]
    assert math.isnan(trouble["easting"])
