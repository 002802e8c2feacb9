"""Every option of building a map and of asking it. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass

from samespot.options import Options, option

PANEL = "How it is asked"


@dataclass(frozen=True)
class LocateOptions(Options):
    """How a map is asked where a photo was taken."""

    k: int = option(5, "Matches to show with an answer.", least=1)
    outside: float = option(
        0.5,
        "Share of the photos asked about that are not in the map; the probabilities depend on it.",
        above=0.0,
        below=1.0,
    )
    at_least: float = option(0.5, "Probability from which on a place counts as found.", least=0.0, most=1.0)
    candidates: int = option(20, "Photos of the map that are compared in detail.", least=1, panel=PANEL)
    verify: bool = option(True, "Compare local features, where the map keeps them.", panel=PANEL)
    device: str = option("auto", "cpu, cuda, cuda:1, or auto: a GPU if there is one.", panel=PANEL)


@dataclass(frozen=True)
class TrackOptions(Options):
    """What is known about the camera of a sequence."""

    speed: float = option(15.0, "Speed that the camera never exceeds [m/s].", above=0.0)
    every: float = option(1.0, "Seconds between the photos of a sequence that carry no time.", above=0.0)
    live: bool = option(False, "Answer each photo from those before it alone, as on a robot.", switch=True)
