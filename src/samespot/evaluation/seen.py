"""Was the model trained on the photos that it is measured on? Then its numbers say little about other photos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.files import read_json
from samespot.model.naming import model_folder
from samespot.model.network import PlaceNet
from samespot.places.marks import photos_in_common
from samespot.places.table import Places


def learned_photos(model: Any, net: PlaceNet) -> dict[str, Any]:
    """What is known of the photos that a network was trained on, for `seen_notes`: the model folder says it under
    `training`, or of an older one the run around it; nothing of a network that was not trained here."""
    told = net.facts.get("photos")
    if isinstance(told, dict):
        return told
    folder = None if isinstance(model, PlaceNet) else model_folder(str(getattr(model, "run", model)))
    if folder is None or not net.facts:
        return {}
    return {"digests": _digests(folder.parent / "config.json")}


def _digests(config: Path) -> list[str]:
    """Of the tables that a run learned from; none where there is no run."""
    try:
        sets = read_json(config, "").get("sets", [])
        return [str(digest) for one in sets for digest in one["digests"]]
    except (InputError, TypeError, KeyError):
        return []


def seen_notes(cases: Sequence[Case], learned: Mapping[str, Any]) -> list[str]:
    """A line for each case whose photos the model has learned from."""
    notes = []
    for case in cases:
        sides = {"queries": case.queries, "map images": case.places}
        told = [_share(table, learned, what) for what, table in sides.items()]
        if any(told):
            notes.append(
                f"the model was trained on photos of {case.name}: {' and '.join(filter(None, told))}; expect worse"
                " on photos that it has not seen"
            )
    return notes


def _share(table: Places, learned: Mapping[str, Any], what: str) -> str:
    count, exact = photos_in_common(table, learned)
    if not count:
        return ""
    number = "all" if count == len(table) else f"{'' if exact else 'about '}{count:,} of"
    return f"{number} {len(table):,} {what}"
