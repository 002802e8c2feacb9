"""`samespot index`: a map of photos on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.cluster import joined_where_asked
from samespot.files import in_bytes
from samespot.maps.options import ContentOptions, MapOptions
from samespot.options import Options, option, split
from samespot.places.catalogue import refuse_absent
from samespot.places.options import SOURCE, PoseOptions, ReadOptions

if TYPE_CHECKING:
    from samespot.maps.build import Built


@dataclass(frozen=True)
class IndexOptions(Options):
    source: Path | None = option(
        None,
        f"Photos: {SOURCE}. Left out where there is only something to add or remove, or the engine to change.",
        argument=True,
        metavar="SOURCE",
        default="none",
    )
    out: Path = option(Path("map"), "Folder of the map.", writes="folder")


@command(app, IndexOptions, ContentOptions, MapOptions, ReadOptions, PoseOptions)
def index(typed: dict[str, Any]) -> Any:
    """Make a map of photos that `samespot locate` can be asked about; or bring one up to date.

    Only photos that are new or changed are described. An interrupted run resumes where it left off.
    """
    ours, content, how, reading, pose = split(
        typed, IndexOptions, ContentOptions, MapOptions, ReadOptions, PoseOptions
    )
    asked, frame = IndexOptions.of(ours), PoseOptions.of(pose).frame
    ContentOptions.of(content)
    settings = MapOptions.of(how)
    console.refuse_absent_machine(settings.device, "auto", settings.ray)
    if asked.source is not None:
        refuse_absent(asked.source)
    from samespot.maps.order import ordered

    order = ordered(
        asked.source,
        asked.out,
        reading={**ReadOptions.of(reading).to_dict(), "frame": frame},
        **content,
        **how,
    )
    with console.progress_bar() as progress, joined_where_asked(settings.ray, progress):
        from samespot.maps.build import carry_out  # what was wrong is told: torch may be loaded

        built = carry_out(order, progress)
    for note in built.generation.places.notes:
        console.warn(note)
    for note in _unread(built):
        console.warn(note)
    _screen(built)
    console.next_step("locate", asked.out, "PHOTO")
    return built.to_dict()


def _screen(built: Built) -> None:
    """What the map holds, and what was done."""
    from samespot.maps.folder import bytes_of

    generation, meta = built.generation, built.generation.meta
    size = bytes_of(meta)
    facts = {"photos": f"{meta['photos']:,}"}
    if built.changed:
        facts["described now"] = f"{built.described:,} in {built.seconds:,.0f} s"
    if built.gone:
        facts["gone"] = f"{built.gone:,}"
    facts |= {f"left out, {why}": f"{count:,}" for why, count in meta["left_out"].items() if count}
    if meta["without_heading"]:
        facts["without heading"] = f"{meta['without_heading']:,}"
    facts["extent"] = _extent(meta["bounds"])
    facts["model"] = f"{console.plain(meta['model']['name'])}, {meta['dims']} dims"
    facts["local features"] = "none" if meta["verifier"] is None else meta["verifier"]["name"]
    if poses := _poses(meta):
        facts["poses"] = poses
    facts["engine"] = _engine(meta)
    facts["on disk"] = f"{in_bytes(size)}, {in_bytes(size / meta['photos'])} a photo"
    state = f"generation {generation.number}" if built.changed else "nothing changed"
    console.facts_table(f"{console.plain(str(generation.folder))}: {state}", facts)
    for line in _trust_lines(meta):
        console.say(line)


def _poses(meta: dict[str, Any]) -> str:
    """Where keypoints in space come from, and how good poses are; nothing of maps that are not about poses."""
    geometry, asked = meta.get("geometry") or {}, meta["calibration"]["facts"].get("poses")
    if not geometry.get("kind"):
        return ""
    by = "depth images" if geometry["kind"] == "depth" else "triangulation"
    told = f"{geometry['points']:,} keypoints in space, by {by}"
    if not asked or not asked["asked"]:
        return told
    metres, degrees = asked["within"]
    return f"{told}; {asked['right']} of {asked['asked']} of its own within {metres:g} m and {degrees:g}°"


def _engine(meta: dict[str, Any]) -> str:
    """What finds the nearest photos, and how many of them it misses."""
    from samespot.maps.engines.engine import engine_facts

    facts = engine_facts(meta)
    told = facts["name"]
    if told == "milvus":
        regions = facts.get("regions", 1)
        told += f" ({facts['index']}, {regions} region{'s' * (regions > 1)}) at {facts['uri']}"
    if "recall" in facts:
        found = facts["recall"]
        told += f", finds {found['share']:.1%} of the {found['at']} nearest that exact search finds"
    return console.plain(told)


def _unread(built: Built) -> list[str]:
    """The first photos that could not be read, and where all of them stand."""
    from samespot.places.photos import UNREADABLE
    from samespot.places.wording import first_few

    generation = built.generation
    broken = [
        f"{name}{why.removeprefix(UNREADABLE)}"
        for names in generation.left_out().values()
        for name, why in names.items()
        if why.startswith(UNREADABLE)
    ]
    if not broken:
        return []
    return [
        f"{len(broken)} photos could not be read ({first_few(broken)}); {generation.left_out_path} has all"
    ]


_WHOSE = {"model": "its model, found elsewhere", "another model": "samespot-lite, found elsewhere"}


def _trust_lines(meta: dict[str, Any]) -> list[str]:
    """What is known of how far to trust answers of this map."""
    from samespot.maps.trust import Trust

    trust = Trust.from_dict(meta["calibration"])
    if trust.source != "map":
        why, whose = trust.facts.get("why not of the map", "too few photos"), _WHOSE[trust.source]
        return [f"the map cannot calibrate itself ({why}); its probabilities are those of {whose}"]
    found = trust.reliability()
    best = found.get("verified", found.get("unverified", {}))
    return [
        f"asked about {trust.facts['photos asked']:,} of its own photos, {trust.facts['how']}, it answers"
        f" {best['coverage']:.0%} of those that it can find if {best['precision asked']:.0%} of the answers are to be"
        f" right; its probabilities are off by {best['ece']:.2f} on average"
    ]


def _extent(bounds: dict[str, list[float]]) -> str:
    sides = (bounds[name][1] - bounds[name][0] for name in ("easting", "northing"))
    return " × ".join(f"{side / 1000:,.0f} km" if side >= 10_000 else f"{side:,.0f} m" for side in sides)
