"""`samespot demo` and `samespot town`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.options import MOST_SEED, Options, option, parse_size


@dataclass(frozen=True)
class DemoOptions(Options):
    out: Path = option(Path("demo"), "Folder for everything that the demo writes.", writes="folder")
    seed: int = option(7, "Seed of the town.", least=0, most=MOST_SEED)
    visits: int = option(4, "Visits to the town, each in different light and weather.", least=1)
    photos_per_visit: int = option(750, "Photos taken on each visit.", least=1)
    steps: int = option(120, "Training steps of 32 pairs, for either model.", least=1)


@command(app, DemoOptions)
def demo(typed: dict[str, Any]) -> Any:
    """Build a town, label it, train with binary and with graded labels, evaluate, ask a map of it, and write a report.

    An interrupted demo resumes where it left off.
    """
    from samespot.cli.demo_screen import demo_screen, stages
    from samespot.demo import run_demo

    asked = DemoOptions.of(typed)
    with stages() as (stage, progress):
        result = run_demo(
            asked.out,
            asked.seed,
            visits=asked.visits,
            photos_per_visit=asked.photos_per_visit,
            steps=asked.steps,
            progress=progress,
            stage=stage,
        )
    demo_screen(result)
    facts = {name: one.to_dict() for name, one in result.evaluations.items()}
    differences = {name: one.to_dict() for name, one in result.differences.items()}
    example = {"error": result.example.error, **result.example.answer.to_dict()}
    return {"evaluations": facts, "graded - binary": differences, "located": example}


@dataclass(frozen=True)
class TownOptions(Options):
    out: Path = option(Path("town"), "Folder for photos, depth and places.csv.", writes="folder")
    seed: int = option(7, "The same seed gives the same town.", least=0, most=MOST_SEED)
    visits: int = option(4, "Visits, each in different light, weather and season.", least=1)
    photos_per_visit: int = option(750, "Photos taken on each visit.", least=1)
    size: tuple[int, int] = option(
        "120x160", "Height and width of a photo [pixels].", parse=parse_size, metavar="HxW"
    )
    depth: bool = option(True, "Also write a depth image with each photo.")


@command(app, TownOptions)
def town(typed: dict[str, Any]) -> Any:
    """Build a procedural town: photos with noisy GPS and compass, exact poses and depth, as an ordinary places csv."""
    from samespot.figures.contact_sheet import draw_contact_sheet
    from samespot.figures.town_map import draw_town_map
    from samespot.town.build import build_town
    from samespot.town.truth import read_description

    asked = TownOptions.of(typed)
    out, named = asked.out, {**vars(asked)}
    with console.progress_bar() as progress:
        places = build_town(named.pop("out"), **named, progress=progress)
        files = [out / "places.csv", draw_town_map(out / "map.png", places, read_description(out)["plan"])]
        if asked.visits > 1:
            files.append(draw_contact_sheet(out / "visits.png", places))
    console.places_table(places)
    console.files_written(files)
    console.next_step("label", out / "places.csv", "--out", "labels")
    return console.places_facts(places)
