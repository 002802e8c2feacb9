"""Every option of an evaluation, besides those of describing and re-ranking. No torch and no tables in here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from samespot.errors import InputError
from samespot.options import MOST_SEED, about, ineffective, names, option
from samespot.overlap.rules import RADIUS, THETA, Within, parse_within
from samespot.places.catalogue import protocol_names
from samespot.places.options import MapPart, ReadOptions
from samespot.whitening.recipe import Recipe, parse_recipes, recipes

WhitenOn = Literal["map", "train", "both"]
_WHITENING, _TRUST = "Whitening and calibration", "When to trust a match"
_OWN, _PROTOCOL = "Your own tables", "Options of a protocol"


@dataclass(frozen=True)
class EvaluateOptions(MapPart, ReadOptions):
    """What to measure: a named protocol, or tables of your own. In Python, a table may also be a `Places`."""

    protocol: str | None = option(
        None,
        "A protocol; `samespot protocols` lists them. Or give `map` and `queries`.",
        choices=protocol_names,
        metavar="PROTOCOL",
        argument=True,
    )
    root: Path = option(Path(), "Folder of the protocol's data set, or the folder above it.")
    out: Path | None = option(
        None, "Folder for results, matches and descriptors.", writes="folder", default="evaluation"
    )

    whiten: tuple[Recipe, ...] = option(
        (),
        "Also whiten the descriptors to these sizes, such as 32,64 (PCA), 256:damped, 256:learned, full:damped; auto"
        " (256:damped) or model (the model's own).",
        parse=parse_recipes,
        default="the model's own, if it has one",
        metavar="SIZES",
        panel=_WHITENING,
    )
    whiten_on: WhitenOn | None = option(
        None,
        "Fit the whitening on the map, on the places of `train`, or on each of them.",
        default="map, and train if given",
        panel=_WHITENING,
    )
    whiten_with: Path | None = option(
        None,
        "Also whiten with this file, as `samespot convert` and `samespot evaluate` write it.",
        panel=_WHITENING,
    )
    train: Path | None = option(
        None, "Training places; whitening and calibration are also fitted on them.", panel=_WHITENING
    )
    train_split: str | None = option(None, "Only the rows of `train` with this split.", panel=_WHITENING)

    map: Path | None = option(None, "Map images.", panel=_OWN)
    queries: Path | None = option(None, "Queries.", default="each map image, among the others", panel=_OWN)
    within: Within | None = option(
        None,
        "A match within this distance and angle is right, such as 25m or 25m,40deg.",
        parse=parse_within,
        default="25m",
        metavar="LIMITS",
        panel=_OWN,
    )
    frames: int | None = option(
        None,
        "Or: a match at most this many frames away in an aligned sequence is right.",
        least=0,
        panel=_OWN,
    )
    overlap: float | None = option(
        None,
        "Or: a match that shares at least this much of the view, up to 1, is right.",
        above=0,
        most=1,
        panel=_OWN,
    )
    theta: float = option(
        THETA, "Opening angle of the field of view [degrees].", above=0, most=360, panel=_OWN
    )
    radius: float = option(RADIUS, "How far a camera sees [metres].", above=0, panel=_OWN)
    time_gap: float | None = option(
        None,
        "Never retrieve what was taken less than this many seconds before or after the query.",
        least=0,
        most=1e10,
        panel=_OWN,
    )

    subtask: str | None = option(
        None, "MSLS: all, s2w, w2s, o2n, n2o, d2n or n2d.", default="all", panel=_PROTOCOL
    )
    task: str | None = option(
        None, "MSLS: im2im, im2seq, seq2im or seq2seq.", default="im2im", panel=_PROTOCOL
    )
    seq_length: int | None = option(
        None, "MSLS: frames in a sequence, an odd number.", default="3", panel=_PROTOCOL
    )
    cities: str | None = option(
        None, "MSLS: only these cities, such as cph,sf.", default="all of the protocol", panel=_PROTOCOL
    )
    keys: str | None = option(
        None, "msls-val-740: folder of its key lists.", default="the data set's", panel=_PROTOCOL
    )
    split: str | None = option(
        None,
        "RobotCar, extended CMU: test, or train, whose poses are public.",
        default="test",
        panel=_PROTOCOL,
    )
    scenes: str | None = option(
        None, "7Scenes: only these scenes, such as heads,stairs.", default="all", panel=_PROTOCOL
    )
    labels: str | None = option(
        None, "7Scenes: folder of labels that `samespot label` wrote.", panel=_PROTOCOL
    )
    slices: str | None = option(
        None, "CMU: only these slices, such as 2-6,18.", default="all", panel=_PROTOCOL
    )
    search: str | None = option(
        None, "CMU: search the map of the query's slice, or of all slices.", default="slice", panel=_PROTOCOL
    )
    cameras: str | None = option(
        None, "RobotCar: map images of all, left, rear or right.", default="all", panel=_PROTOCOL
    )
    map_sequences: str | None = option(None, "tb-places-w18: recordings that are the map.", panel=_PROTOCOL)
    forward: str | None = option(
        None, "TB-Places: the camera axis that looks ahead.", default="z", panel=_PROTOCOL
    )
    every: int | None = option(
        None, "7scenes-sequence: one frame in this many is a query.", default="10", panel=_PROTOCOL
    )
    gap: int | None = option(
        None, "7scenes-sequence: frames this near the query are left out.", default="100", panel=_PROTOCOL
    )

    accept_precision: float = option(
        0.95, "Report the distance up to which matches are right this often.", above=0, most=1, panel=_TRUST
    )
    acceptance: bool = option(True, "Also test each query with its place removed from the map.", panel=_TRUST)

    seed: int = option(0, "Seed of the bootstrap.", least=0, most=MOST_SEED)

    def __post_init__(self) -> None:
        """Whatever can be known to be wrong before a file is read."""
        given: Any = self.whiten
        if not isinstance(given, str):
            try:
                object.__setattr__(self, "whiten", recipes(given))
            except InputError as error:
                raise InputError(f"`whiten` {error}") from None
        super().__post_init__()
        if sum(rule is not None for rule in (self.within, self.frames, self.overlap)) > 1:
            raise InputError("give one of `within`, `frames` and `overlap`: which matches are right")

    def refuse_ineffective(self, typed: set[str]) -> None:
        if self.protocol is None and self.map is None:
            raise InputError("name a protocol (`samespot protocols` lists them), or give `map` and `queries`")
        if self.protocol is not None:
            why = f"with the protocol {self.protocol}, which has its own"
            ineffective(typed, (*_in_panel(_OWN), *names(MapPart, ReadOptions)), why)
        else:
            ineffective(typed, ("root", *_in_panel(_PROTOCOL)), "without a protocol")
            if self.queries is None:
                ineffective(typed, ("part",), "without `queries`; the map's is `map_part`")
        if not self.whiten:
            ineffective(typed, ("whiten_on",), "without `whiten`")
        if all(recipe.how in ("learned", "model") for recipe in self.whiten):
            ineffective(typed, ("whiten_on",), "on a learned whitening or the model's own")
        if self.train is None:
            ineffective(typed, ("train_split",), "without `train`")
            if self.whiten_on in ("train", "both"):
                raise InputError(f"`whiten_on={self.whiten_on}` needs `train`, the places to fit it on")
            for recipe in self.whiten:
                if recipe.how == "learned":
                    raise InputError(f"`whiten={recipe}` needs `train`, the places to learn it on")
        if not self.acceptance:
            ineffective(typed, ("accept_precision",), "with `acceptance=False`")
        if self.protocol is not None:
            from samespot.evaluation.protocols import protocol_named

            protocol_named(self.protocol).check_options(self.of_protocol)

    @property
    def of_protocol(self) -> dict[str, Any]:
        """The options of the protocol that were given."""
        given = {name: getattr(self, name) for name in _in_panel(_PROTOCOL)}
        return {name: value for name, value in given.items() if value is not None}


def _in_panel(panel: str) -> list[str]:
    return [
        one.name
        for one in fields(EvaluateOptions)
        if (known := about(one)) is not None and known.panel == panel
    ]
