"""`samespot locate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import Failed, command
from samespot.errors import InputError
from samespot.maps.options import SEQUENCES, LocateOptions, TrackOptions
from samespot.options import Options, ineffective, option, split

if TYPE_CHECKING:
    from samespot.maps.answer import Answer, Trouble


@dataclass(frozen=True)
class AskOptions(Options):
    """Which map is asked, about what, and where the answers go."""

    map: Path = option(..., "Map folder, as `samespot index` writes it.", argument=True, metavar="MAP")
    photos: list[str] = option(
        ...,
        "Photos, folders of photos, tables with a column image, or a video; - is a photo from standard input.",
        argument=True,
        metavar="PHOTO...",
        many=True,
    )
    out: Path | None = option(
        None, "Write the answers to this file: .json, .geojson, .gpx, .csv or .parquet.", writes="file"
    )
    sequence: bool = option(
        False,
        "The photos are one sequence, in their order: each helps with the others. A video is one.",
        switch=True,
        panel=SEQUENCES,
    )
    device: str = option(
        "auto", "Where the network runs: cpu, cuda, or one GPU as cuda:1. auto: a GPU where there is one."
    )


@command(app, AskOptions, LocateOptions, TrackOptions)
def locate(typed: dict[str, Any]) -> Any:
    """Ask a map where photos were taken: the place, and the probability that it is right."""
    ours, of_photos, of_track = split(typed, AskOptions, LocateOptions, TrackOptions)
    asked = AskOptions.of(ours)
    LocateOptions.of(of_photos)
    TrackOptions.of(of_track)

    from samespot.maps.folder import open_generation
    from samespot.maps.questions import is_table, is_video
    from samespot.maps.results import refuse_other_suffix, refuse_without_degrees, write_answers

    sequence = asked.sequence or (len(asked.photos) == 1 and is_video(asked.photos[0]))
    if not sequence:
        ineffective(set(of_track), of_track, "without `sequence`")
    if asked.out is not None:
        refuse_other_suffix(asked.out)
    generation = open_generation(asked.map)
    if asked.out is not None:
        refuse_without_degrees(asked.out, generation.places.projection)
    console.refuse_absent_device(asked.device)
    from samespot.maps.map import Map

    there = Map(generation, asked.device)
    answers = (
        there.track(asked.photos, **of_photos, **of_track)
        if sequence
        else there.locate_many(asked.photos, **of_photos)
    )
    tally = _Tally()
    if asked.out is None:
        only = asked.photos[0]
        alone = len(asked.photos) == 1 and not (Path(only).is_dir() or is_table(only))
        kept = [one.to_dict() for one in _shown(tally.counted(answers), alone and not sequence)]
        return _concluded(tally, {**tally.counts, "answers": kept})
    write_answers(tally.counted(answers), asked.out, sequence)
    console.files_written([asked.out])
    return _concluded(tally, {**tally.counts, "file": str(asked.out)})


class _Tally:
    """How the answers turned out."""

    def __init__(self) -> None:
        self.counts = {"found": 0, "not in this map": 0, "unreadable": 0}
        self.trouble = ""

    def counted(self, answers: Iterator[Answer | Trouble]) -> Iterator[Answer | Trouble]:
        from samespot.maps.answer import Trouble

        with console.progress_bar() as progress:
            for number, one in enumerate(answers, start=1):
                if isinstance(one, Trouble):
                    self.trouble = str(one)
                    self.counts["unreadable"] += 1
                else:
                    self.counts["found" if one.found else "not in this map"] += 1
                progress("photos", number, 0)
                yield one


def _shown(answers: Iterator[Answer | Trouble], alone: bool) -> Iterator[Answer | Trouble]:
    from samespot.cli.answer_screen import answer_line, answer_page, footing
    from samespot.maps.answer import Answer

    last = None
    for one in answers:
        if not alone:
            answer_line(one)
        elif isinstance(one, Answer):  # what is wrong with the only photo is told as every mistake is
            answer_page(one)
        last = one if isinstance(one, Answer) else last
        yield one
    if last is not None:
        footing(last)


def _concluded(tally: _Tally, result: dict[str, Any]) -> dict[str, Any]:
    asked = sum(tally.counts.values())
    if asked == 1 and tally.trouble:
        raise InputError(tally.trouble)
    if asked > 1:
        console.facts_table(f"{asked:,} photos", {name: f"{n:,}" for name, n in tally.counts.items() if n})
    if tally.trouble:
        raise Failed(result)
    return result
