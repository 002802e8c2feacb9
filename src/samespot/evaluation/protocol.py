"""`Protocol`: all that a published number depends on besides the model. Which queries, which truth, which rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from samespot.errors import InputError
from samespot.evaluation.cases import Case

AUTHORS_KS = (1, 2, 3, 4, 5, 10, 15, 20, 25)  # of the graded-similarity paper's evaluation script
Truth = Literal["positives", "pose", "secret"]


@dataclass(frozen=True)
class Protocol:
    """How a data set is evaluated, in words for people and in `make` for the program.

    `make(root, **options)` opens the data set and gives its cases; `options` names what it accepts beyond the root
    and the default of each, e.g. {"subtask": "all"}.
    """

    name: str
    title: str
    data_set: str  # of the catalogue; "places" for a table of one's own
    queries: str  # which queries count
    positive: str  # what counts as found
    exclusions: str  # what is never retrieved
    citation: str
    make: Callable[..., list[Case]]
    ks: tuple[int, ...] = (1, 5, 10)
    truth: Truth = "positives"
    limits: tuple[tuple[float, float], ...] = ()  # of a pose: metres and degrees
    all_pairs: bool = False  # whether average precision over all pairs belongs to it
    options: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)  # in words, where the value does not say it
    notes: tuple[str, ...] = ()

    def cases(self, root: Path, **options: Any) -> list[Case]:
        """The cases of the data set at `root`; cities without queries or map are left out by `make`."""
        self.check_options(options)
        return self.make(Path(root), **{**self.options, **options})

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise for one that this protocol does not have."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise InputError(f"protocol {self.name} has no option {unknown[0]!r}; it has: {known}")

    def option_defaults(self) -> dict[str, str]:
        """Each option and, in words, its default."""
        return {name: self.defaults.get(name, str(value)) for name, value in self.options.items()}

    def to_dict(self) -> dict[str, Any]:
        """What a result file says about its protocol."""
        words = ("name", "title", "data_set", "queries", "positive", "exclusions", "citation", "truth")
        facts = {word: getattr(self, word) for word in words}
        return {
            **facts,
            "ks": list(self.ks),
            "limits": [list(limit) for limit in self.limits],
            "notes": list(self.notes),
        }
