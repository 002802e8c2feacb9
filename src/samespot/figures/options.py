"""Options of figures. No matplotlib in here."""

from __future__ import annotations

from dataclasses import dataclass

from samespot.options import Options, option


@dataclass(frozen=True)
class EvaluationFigureOptions(Options):
    """Of the figures that `samespot evaluate` draws."""

    gallery: int = option(4, "How many hits, and how many misses, the gallery shows.", least=0)
