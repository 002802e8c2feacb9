"""One field is one option: read, checked, refused by name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from samespot import InputError
from samespot.options import Options, ineffective, option, parse_size, split
from samespot.overlap.rules import Within, parse_within


@dataclass(frozen=True)
class Camera(Options):
    photo: Path = option(..., "The photo.", argument=True)
    size: tuple[int, int] = option("480x640", "Height and width.", parse=parse_size)
    frames: int | None = option(None, "How many.", least=1)
    zoom: float = option(1.0, "How near.", above=0, most=8)
    mode: Literal["day", "night"] = option("day", "Light.")
    lens: str = option("wide", "Which lens.", choices=lambda: ("wide", "tele"))
    flash: bool = option(False, "Use the flash.")
    within: Within = option("25m", "What is near, e.g. 25m.", parse=parse_within)

    def refuse_ineffective(self, typed):
        if self.mode == "day":
            ineffective(typed, ("flash",), "with `mode=day`")


@dataclass(frozen=True)
class Film(Options):
    speed: int = option(100, "Sensitivity.", least=1)


def test_words_become_values_and_values_stay():
    typed = {"photo": "a.jpg", "size": "120x160", "frames": 3, "zoom": 2, "mode": "night", "flash": True}
    made = Camera.of(typed)
    assert made == Camera(Path("a.jpg"), (120, 160), 3, 2.0, "night", "wide", True)
    assert Camera("a.jpg", size=(7, 9)).size == (7, 9)
    assert isinstance(made.zoom, float)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"size": "big"}, "`size` 'big' is not understood: Height and width."),
        ({"frames": 0}, "`frames` 0 must be at least 1"),
        ({"within": 25.0}, "`within` 25.0 is not understood: What is near, e.g. 25m."),
        ({"frames": 2.5}, "`frames` 2.5 is not a whole number"),
        ({"frames": "many"}, "`frames` 'many' is not a whole number"),
        ({"zoom": 0}, "`zoom` 0 must be above 0"),
        ({"zoom": 9}, "`zoom` 9 must be at most 8"),
        ({"zoom": float("nan")}, "`zoom` nan is not a finite number"),
        ({"mode": "dusk"}, "`mode` 'dusk' is unknown; choose one of day, night"),
        ({"lens": "fish"}, "`lens` 'fish' is unknown; choose one of wide, tele"),
        ({"zom": 2}, "unknown option 'zom'; did you mean `zoom`?"),
        (
            {"colour": 2},
            "unknown option 'colour'; there are photo, size, frames, zoom, mode, lens, flash, within",
        ),
        ({"flash": True}, "`flash` has no effect with `mode=day`"),
    ],
)
def test_a_mistake_is_named_by_its_parameter(typed, said):
    with pytest.raises(InputError) as error:
        Camera.of({"photo": "a.jpg", **typed})
    assert str(error.value) == said


def test_what_was_given_is_sorted_by_who_knows_it():
    ours, films = split({"zoom": 2, "speed": 400}, Camera, Film)
    assert (ours, films) == ({"zoom": 2}, {"speed": 400})
    with pytest.raises(InputError, match=r"unknown option 'sped'; did you mean `speed`\?"):
        split({"sped": 1}, Camera, Film)


def test_options_are_written_as_plain_json():
    assert Camera("a.jpg").to_dict() == {
        "photo": "a.jpg", "size": [480, 640], "frames": None, "zoom": 1.0, "mode": "day", "lens": "wide",
        "flash": False, "within": Within(25.0, None),
    }  # fmt: skip


def test_sizes_are_read():
    assert (parse_size("480x640"), parse_size("224")) == ((480, 640), (224, 224))
    for wrong in ("0x4", "a", "1x2x3"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_size(wrong)
