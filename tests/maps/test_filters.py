"""How the words of a filter are read, and what is refused."""

from datetime import date, datetime

import pytest

from samespot import InputError
from samespot.maps.filters import Area, Facing, FilterOptions, Near, Point
from samespot.maps.options import LocateOptions


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ({"near": "48.137,11.575,200"}, Near(Point(48.137, 11.575), 200.0)),
        ({"near": " -33.8, 151.2, 50m"}, Near(Point(-33.8, 151.2), 50.0)),
        ({"near": "691608m,5334760m,200"}, Near(Point(691608.0, 5334760.0, True), 200.0)),
        ({"near": "-5m,1e3m,.5"}, Near(Point(-5.0, 1000.0, True), 0.5)),
        ({"area": "48.1,11.5,48.2,11.6"}, Area(Point(48.1, 11.5), Point(48.2, 11.6))),
        ({"area": "0m,0m,10m,20m"}, Area(Point(0.0, 0.0, True), Point(10.0, 20.0, True))),
        ({"heading": "90,30"}, Facing(90.0, 30.0)),
        ({"heading": "-10deg,5deg"}, Facing(350.0, 5.0)),
        ({"since": date(2026, 5, 1)}, "2026-05-01"),
        ({"until": datetime(2026, 5, 1, 12, 30)}, "2026-05-01T12:30:00"),
        ({"since": 12.5}, "12.5"),
        ({"condition": "night"}, "night"),
    ],
)
def test_words_are_read(words, meant):
    ((name, _),) = words.items()
    assert getattr(FilterOptions(**words), name) == meant
    assert LocateOptions.of(words).filters == {name: meant}


def test_what_is_already_read_is_taken_as_it_is():
    near = Near(Point(1.0, 2.0, True), 3.0)
    assert LocateOptions.of({"near": near}).near is near
    assert LocateOptions().filters == {}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"near": "48.1,11.5"}, "write a position and a radius in metres"),
        ({"near": "48.1,11.5,0"}, "the radius 0 must be above 0"),
        ({"near": "48.1,11.5,-3"}, "must be above 0"),
        ({"near": "48.1,east,10"}, "'east' is not a number"),
        ({"near": "nan,11.5,10"}, "'nan' is not a number"),
        ({"near": "691608,5334760,200"}, "metres are written with an m"),
        ({"near": "691608m,11.5,200"}, "half in metres"),
        ({"near": (48.1, 11.5, 200)}, "give it in words"),
        ({"area": "1,2,3"}, "write two opposite corners"),
        ({"area": "1,2,3m,4m"}, "one corner is in degrees"),
        ({"heading": "90"}, "write a heading and degrees"),
        ({"heading": "90,0"}, "must be above 0"),
        ({"heading": 90}, "give it in words"),
        ({"near": ""}, "write a position"),
    ],
)
def test_one_line_for_what_is_no_filter(words, line):
    with pytest.raises(InputError, match=line) as caught:
        FilterOptions(**words)
    assert "\n" not in str(caught.value)
    assert f"`{next(iter(words))}`" in str(caught.value)
