"""All that the numbers depend on, at the end of the page: protocol, options of each run, versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from samespot.evaluation.results import Evaluation
from samespot.figures.report_runs import ReportRun
from samespot.figures.report_sections.looks import evaluated, rule_of
from samespot.figures.report_sections.markup import Section, details, esc, remark, table

PACKAGES = ("samespot", "torch", "torchvision", "timm", "numpy", "scikit-learn", "faiss-cpu", "plotly")


def settings(runs: Sequence[ReportRun]) -> Section:
    parts = [_protocols(evaluated(runs))]
    parts += [_run(run) for run in runs]
    parts.append(details("Versions", _versions(runs)))
    return Section("settings", "Settings and versions", "".join(parts))


def _protocols(runs: Sequence[tuple[ReportRun, Evaluation]]) -> str:
    seen: dict[tuple[str, ...], Evaluation] = {rule_of(one): one for _, one in reversed(runs)}
    return "".join(
        details(
            f"Protocol {one.protocol['name']}",
            _json({**one.protocol, "cases": one.cases, "remarks": list(one.notes)}),
        )
        for one in seen.values()
    )


def _run(run: ReportRun) -> str:
    body = ""
    if run.options:
        rows = [[esc(name), f"<code>{esc(_short(value))}</code>"] for name, value in run.options.items()]
        body += table(["Option", "Value"], rows, words=f"Training options of {run.name}", kind="options")
    if run.config:
        rest = {name: run.config[name] for name in ("resolved", "sets") if name in run.config}
        body += f"<h4>What training settled on and learned from</h4>{_json(rest)}" if rest else ""
    if run.evaluation is not None:
        model = {name: value for name, value in run.evaluation.model.items() if name != "training"}
        body += f"<h4>Model</h4>{_json(model)}<h4>Evaluation</h4>{_json(run.evaluation.settings)}"
    return details(run.name, body) if body else ""


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value


def _json(value: Mapping[str, Any]) -> str:
    return f"<pre>{esc(json.dumps(value, indent=2, ensure_ascii=False, default=str))}</pre>"


def _versions(runs: Sequence[ReportRun]) -> str:
    """Of this page's maker, and of each training where it wrote them down."""
    rows = [["this report", f"Python {platform.python_version()}", _here()]]
    for run in runs:
        resolved = run.config.get("resolved", {})
        told = {name: resolved[name] for name in ("torch", "numpy") if name in resolved}
        if run.config.get("samespot"):
            told = {"samespot": run.config["samespot"], **told}
        if told:
            rows.append(
                [f"training of {run.name}", "", ", ".join(f"{name} {one}" for name, one in told.items())]
            )
        if run.evaluation is not None and "samespot" in run.evaluation.settings:
            rows.append([f"evaluation of {run.name}", "", f"samespot {run.evaluation.settings['samespot']}"])
    cells = [[esc(cell) for cell in row] for row in rows]
    made = remark(f"Report of {date.today().isoformat()}.")
    return table(["What", "Language", "Packages"], cells, words="Versions", kind="options") + made


def _here() -> str:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
