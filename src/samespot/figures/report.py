"""One html page about some runs: self-contained, for a browser without a network, a phone, a dark room."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from samespot.errors import InputError
from samespot.figures.report_runs import ActivationRow, ReportRun, RunDifferences, load_runs
from samespot.figures.report_sections.calibration import calibration
from samespot.figures.report_sections.explorer import explorer
from samespot.figures.report_sections.gallery import gallery
from samespot.figures.report_sections.looks import THEMES, evaluated
from samespot.figures.report_sections.markup import Section, embedded, esc, several
from samespot.figures.report_sections.network import inside_the_network
from samespot.figures.report_sections.photos import PhotoStore
from samespot.figures.report_sections.poses import poses
from samespot.figures.report_sections.recall import recall
from samespot.figures.report_sections.settings import settings
from samespot.figures.report_sections.summary import summary
from samespot.figures.report_sections.training import label_histograms, training_curves
from samespot.files import write_whole
from samespot.progress import Progress

SCRIPTS = ("plots.js", "sector_map.js", "explorer.js", "page.js")


def report(
    runs: Any,
    out: str | Path = "report.html",
    *,
    title: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """One self-contained html page about some runs, the first compared with the others.

    runs: run folders, evaluation folders or files, or what `train` and `evaluate` returned; one or a list. With t-SNE
    and activation maps if models, photos and descriptors are available.
    """
    loaded = load_runs(runs)
    from samespot.figures.report_networks import (  # torch: runs that are none are told
        activations_of,
        differences_of,
    )

    differences, activations = differences_of(loaded, progress), activations_of(loaded, progress)
    return write_report(
        loaded, Path(out), title=title, differences=differences, activations=activations, progress=progress
    )


def write_report(
    runs: Sequence[ReportRun],
    out: Path,
    *,
    title: str | None = None,
    differences: Sequence[RunDifferences] = (),
    activations: Sequence[ActivationRow] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Write all that these runs have to show into one file; a section whose data is not there is left out.

    runs: of `load_runs`; the first is compared with the others. differences, activations: of the networks themselves
    (`report_networks`). seed: of the photos that are shown.
    """
    if not runs:
        raise InputError(f"{out}: no runs to report on; name at least one")
    tell = progress or (lambda what, done, total: None)
    photos = PhotoStore(progress=progress)
    # the gallery before the map: its photos are then at hand whatever happens
    tell("report", 0, 3)
    answers = gallery(runs, photos, seed)
    pairs = explorer(runs, photos, seed)
    tell("report", 1, 3)
    sections = [
        summary(runs),
        pairs,
        label_histograms(runs),
        training_curves(runs),
        recall(runs),
        poses(runs),
        inside_the_network(runs, differences, activations, photos),
        calibration(runs),
        answers,
        settings(runs),
    ]
    tell("report", 2, 3)
    page = _page(title or _title(runs), _subtitle(runs), [one for one in sections if one is not None], photos)
    out = Path(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, page.encode("utf-8"))
    except OSError as error:
        raise InputError(
            f"{out}: cannot be written ({error.strerror or error}); choose another file"
        ) from None
    tell("report", 3, 3)
    return out


def _title(runs: Sequence[ReportRun]) -> str:
    names = [run.name for run in runs]
    if len(names) > 3:
        return f"{names[0]} and {len(names) - 1} other runs"
    return " against ".join(names) if len(names) == 2 else several(names)


def _subtitle(runs: Sequence[ReportRun]) -> str:
    titles = dict.fromkeys(
        str(one.protocol.get("title") or one.protocol["name"]) for _, one in evaluated(runs)
    )
    measured = f" on {several(list(titles))}" if titles else ""
    return f"Visual place recognition{measured}: a samespot report"


def _page(title: str, subtitle: str, sections: Sequence[Section], photos: PhotoStore) -> str:
    from plotly.offline import get_plotlyjs

    contents = "".join(f'<li><a href="#{one.anchor}">{esc(one.title)}</a></li>' for one in sections)
    body = "".join(
        f'<section id="{one.anchor}" aria-labelledby="{one.anchor}-title">'
        f'<h2 id="{one.anchor}-title">{esc(one.title)}</h2>{one.body}</section>'
        for one in sections
    )
    drawn = "plot-spec" in body
    return Template(_static("report.html")).substitute(
        title=esc(title),
        subtitle=esc(subtitle),
        style=f":root{{--photo:{photos.shape:.3f};}}\n" + _themes() + _static("report.css"),
        contents=contents,
        sections=body,
        photos=embedded(photos.pictures),
        plotly=f"<script>{get_plotlyjs()}</script>" if drawn else "",
        script="\n".join(_static(name) for name in SCRIPTS),
    )


def _themes() -> str:
    """The colours of both themes: what the system asks for, unless the reader chose."""
    light, dark = (
        "".join(f"--{key}:{colour};" for key, colour in THEMES[name].items()) for name in ("light", "dark")
    )
    return (
        f":root{{color-scheme:light;{light}}}\n:root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
    )


def _static(name: str) -> str:
    return (files("samespot.figures") / "page" / name).read_text(encoding="utf-8")
