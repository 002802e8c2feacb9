"""`samespot places` and `samespot datasets`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command, words_of
from samespot.options import Options, option, split
from samespot.places.catalogue import DATA_SETS, data_set, find_data_sets, meta_path, open_places
from samespot.places.options import CutOptions, PlacesOptions, PoseOptions, ReadOptions, SplitOptions


@command(app, PlacesOptions, ReadOptions, PoseOptions)
def places(typed: dict[str, Any]) -> Any:
    """Read where images were taken, check it, and write it as one table."""
    ours, reading, pose = split(typed, PlacesOptions, ReadOptions, PoseOptions)
    asked = PlacesOptions.of(ours)
    table = open_places(asked.source, **ReadOptions.of(reading).to_dict(), frame=PoseOptions.of(pose).frame)
    console.notes_of(table)
    console.places_table(table)
    if asked.out is not None:
        file = table.save(asked.out)
        console.files_written([file, meta_path(file)])
        console.next_step("split", file, "--out", "split")
    elif "part" not in reading:  # a part of a data set is split already
        console.next_step("split", asked.source, *words_of({**reading, **pose}), "--out", "split")
    return console.places_facts(table)


@command(app, SplitOptions, CutOptions, ReadOptions, PoseOptions, name="split")
def split_table(typed: dict[str, Any]) -> Any:
    """Cut a table into train, map and query, so that what is measured was not learned."""
    from samespot.places.splitting import split_places

    ours, cut, reading, pose = split(typed, SplitOptions, CutOptions, ReadOptions, PoseOptions)
    asked = SplitOptions.of(ours)
    CutOptions.of(cut)  # a mistake is told before the table is read
    table = open_places(asked.source, **ReadOptions.of(reading).to_dict(), frame=PoseOptions.of(pose).frame)
    console.notes_of(table)
    done = split_places(table, **cut)
    counts = {name: len(getattr(done, name)) for name in ("train", "map", "query")}
    counts["left out"] = len(table) - sum(counts.values())
    console.facts_table(f"{len(table):,} images", {name: f"{n:,}" for name, n in counts.items()})
    for note in done.notes:
        console.say(note)
    files = done.save(asked.out)
    console.files_written([path for file in files for path in (file, meta_path(file))])
    console.next_step("label", asked.out / "train.csv", "--out", "labels")
    return {**counts, "notes": list(done.notes), "files": [str(file) for file in files]}


@dataclass(frozen=True)
class DataSetsOptions(Options):
    root: Path = option(Path(), "Folder that holds your data sets.", argument=True)
    layout: str | None = option(None, "Show the files that this data set consists of.", metavar="NAME")


@command(app, DataSetsOptions)
def datasets(typed: dict[str, Any]) -> Any:
    """List the data sets that samespot reads: which are here, what they lack, and where to ask for the others."""
    asked = DataSetsOptions.of(typed)
    if asked.layout is not None:
        known = data_set(asked.layout)
        console.out.print(known.layout.rstrip(), markup=False, highlight=False)
        return {"name": known.name, "title": known.title, "ask": known.ask, "layout": known.layout}
    found = find_data_sets(asked.root)
    console.datasets_table(DATA_SETS, found, asked.root)
    preset = next((one for one in found if one.data_set.preset), None)
    if preset is not None:
        console.next_step("label", preset.root, "--preset", preset.data_set.name, "--out", "labels")
    return console.datasets_facts(DATA_SETS, found)
