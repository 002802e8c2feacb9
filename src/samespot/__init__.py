"""samespot: do two photos show the same spot, and how much of it do they share?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# name -> module; imported on first use, so that `import samespot` and `samespot --help` stay instant
_PUBLIC = {
    "Answer": "samespot.maps.answer",
    "Descriptors": "samespot.retrieval.descriptors",
    "Evaluation": "samespot.evaluation.results",
    "GeneralizedContrastiveLoss": "samespot.training.loss",
    "InputError": "samespot.errors",
    "Map": "samespot.maps.map",
    "PairLabels": "samespot.overlap.labels",
    "PlaceNet": "samespot.model.network",
    "Places": "samespot.places.table",
    "Points": "samespot.overlap.rules",
    "Sectors": "samespot.overlap.rules",
    "SoftDistance": "samespot.overlap.rules",
    "TrainingOptions": "samespot.training.options",
    "Whitening": "samespot.whitening.whitening",
    "Within": "samespot.overlap.rules",
    "build_map": "samespot.maps.build",
    "compare": "samespot.evaluation.compare",
    "describe": "samespot.retrieval.describe",
    "evaluate": "samespot.evaluation.run",
    "label_pairs": "samespot.overlap.rules",
    "label_scene": "samespot.overlap.rules",
    "label_within": "samespot.overlap.rules",
    "list_models": "samespot.model.catalogue",
    "list_protocols": "samespot.evaluation.protocols",
    "load_model": "samespot.model.loading",
    "open_map": "samespot.maps.map",
    "open_places": "samespot.places.catalogue",
    "recall_at_k": "samespot.evaluation.metrics",
    "report": "samespot.figures.report",
    "search": "samespot.retrieval.search",
    "sector_overlap": "samespot.overlap.sector",
    "split_places": "samespot.places.splitting",
    "train": "samespot.training.run",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'samespot' has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("samespot")
    except PackageNotFoundError:  # run from a bare source tree
        return "0+source"


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
