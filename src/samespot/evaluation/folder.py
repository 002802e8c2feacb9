"""What an evaluation leaves in its folder: the result, the matches it rests on, and what public benchmarks take.

evaluation.json       the result (`evaluation.results`)
matches.safetensors   the lists of every descriptor (`evaluation.matches`)
descriptors/          of each table, with the table itself
calibration/          distance -> overlap, of each descriptor, where there were training places
whitening-*           as `--whiten-with` takes it
predictions-*, poses-*   for the servers of MSLS and of visuallocalization.net
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from samespot.evaluation.cases import Case
from samespot.evaluation.matches import NAME as MATCHES
from samespot.evaluation.matches import save_matches
from samespot.evaluation.poses import pose_estimates, server_names
from samespot.evaluation.results import NAME, Evaluation
from samespot.evaluation.submission import filled, stacked, write_poses, write_predictions
from samespot.retrieval.search import Found

if TYPE_CHECKING:
    from samespot.evaluation.run import Evaluated


def write_evaluation(done: Evaluated, out: Path) -> tuple[Evaluation, list[Path]]:
    """Everything but the figures, into the folder `out`: the evaluation as it was saved, and the files."""
    out.mkdir(parents=True, exist_ok=True)
    digest = save_matches(out, done.matches())
    cases = [{**case, "descriptors": _relative(case["descriptors"], out)} for case in done.evaluation.cases]
    evaluation = replace(done.evaluation, matches=digest, cases=cases)
    files = [evaluation.save(out / NAME), out / MATCHES]
    files += [
        whitening.save(out / f"whitening-{file_word(whitening.fitted_on)}.safetensors")
        for whitening in done.whitenings
    ]
    if done.calibrations:
        (out / "calibration").mkdir(exist_ok=True)
        for name, isotonic in done.calibrations.items():
            isotonic.save(out / "calibration" / f"{file_word(name)}.json")
        files.append(out / "calibration")
    for name, found in done.found.items():
        files += _submission(evaluation.protocol, done.cases, name, found, out)
    return evaluation, files


def file_word(words: str) -> str:
    """As a part of a file name."""
    return "-".join(words.replace("/", " ").split())


def _relative(folders: dict[str, str] | None, out: Path) -> dict[str, str] | None:
    """So that the folder can be moved."""
    return None if folders is None else {side: os.path.relpath(path, out) for side, path in folders.items()}


def _submission(
    protocol: Any, cases: Sequence[Case], descriptor: str, found: Sequence[Found], out: Path
) -> list[Path]:
    """The prediction file of MSLS, or a pose file."""
    if protocol["name"].startswith("msls"):
        k = min(max(protocol["ks"]), *(case.place_count for case in cases))
        rows = [filled(one.rows[:, :k]) for one in found]
        path = out / f"predictions-{file_word(descriptor)}.csv"
        return [write_predictions(path, *stacked(cases, rows))]
    if protocol["truth"] == "pose":
        names, centres, turns = [], [], []
        for case, one in zip(cases, found, strict=True):
            centre, turn = pose_estimates(case, one.rows[:, 0])
            names += server_names(case)
            centres.append(centre)
            turns.append(turn)
        path = out / f"poses-{file_word(descriptor)}.txt"
        write_poses(path, names, np.concatenate(centres), np.concatenate(turns))
        return [path]
    return []
