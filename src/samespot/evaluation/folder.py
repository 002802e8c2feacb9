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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from samespot.errors import InputError
from samespot.evaluation.case_poses import CasePosed
from samespot.evaluation.cases import Case
from samespot.evaluation.matches import NAME as MATCHES
from samespot.evaluation.matches import save_matches
from samespot.evaluation.poses import pose_estimates, server_names
from samespot.evaluation.results import NAME, RULE, Evaluation, as_json
from samespot.evaluation.submission import predictions_of, write_poses, write_predictions
from samespot.retrieval.search import Found

if TYPE_CHECKING:
    from samespot.evaluation.run import Evaluated


WORDS = {
    "name": "protocol",
    "positive": "rule of what is right",
    "queries": "choice of queries",
    "exclusions": "rule of what is never retrieved",
}


def refuse_other(
    out: Path, model: Mapping[str, Any], protocol: Mapping[str, Any], cases: Sequence[Case]
) -> None:
    """Raise where the folder holds an evaluation of another model, question or table: a result is never replaced by
    one that says something else. The same once more, as with another whitening, is fine."""
    if not (out / NAME).is_file():
        return
    there, changed = Evaluation.load(out), []
    if there.model.get("digest") != model["digest"]:
        which = "digest" if there.model.get("model") == model["model"] else "model"
        changed.append(f"model ({there.model.get(which)}, now {model[which]})")
    before, now = _question(there.protocol), _question(as_json(protocol))
    changed += [
        f"{WORDS.get(word, word)} ({before.get(word) or 'none'}, now {now.get(word) or 'none'})"
        for word in {**before, **now}
        if before.get(word) != now.get(word)
    ]
    tables = {case.name: [case.queries.digest(), case.places.digest()] for case in cases}
    if not changed and {case["name"]: case["digests"] for case in there.cases} != tables:
        changed.append("table of queries or map")
    if changed:
        raise InputError(
            f"{out}: holds an evaluation of another {changed[0]}; choose another folder with `out`, or delete this one"
        )


def _question(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """What a protocol asks, each of its options by itself."""
    return {word: protocol.get(word) for word in RULE if word != "options"} | dict(
        protocol.get("options") or {}
    )


def write_evaluation(done: Evaluated, out: Path) -> tuple[Evaluation, list[Path]]:
    """Everything but the figures, into the folder `out`: the evaluation as it was saved, and the files."""
    out.mkdir(parents=True, exist_ok=True)
    digest = save_matches(out, done.matches())
    cases = [{**case, "descriptors": _relative(case["descriptors"], out)} for case in done.evaluation.cases]
    submitted, notes = _submissions(done, out)
    told = tuple(dict.fromkeys([*done.evaluation.notes, *notes]))
    evaluation = replace(done.evaluation, matches=digest, cases=cases, notes=told)
    files = [evaluation.save(out / NAME), out / MATCHES]
    files += [
        whitening.save(out / f"whitening-{file_word(f'{whitening.fitted_on} {whitening.how}')}.safetensors")
        for whitening in done.whitenings
    ]
    if done.calibrations:
        (out / "calibration").mkdir(exist_ok=True)
        for name, isotonic in done.calibrations.items():
            isotonic.save(out / "calibration" / f"{file_word(name)}.json")
        files.append(out / "calibration")
    return evaluation, [*files, *submitted]


def file_word(words: str) -> str:
    """As a part of a file name."""
    return "-".join(words.replace("/", " ").replace(",", " ").split())


def _relative(folders: dict[str, str] | None, out: Path) -> dict[str, str] | None:
    """So that the folder can be moved."""
    return None if folders is None else {side: os.path.relpath(path, out) for side, path in folders.items()}


def _submissions(done: Evaluated, out: Path) -> tuple[list[Path], list[str]]:
    """The prediction files of MSLS, or pose files, one for each descriptor; and what is to be said about them."""
    protocol = done.evaluation.protocol
    files: list[Path] = []
    notes: list[str] = []
    for descriptor, found in done.found.items():
        if protocol["name"].startswith("msls"):
            told = predictions_of(done.cases, [one.rows for one in found], max(protocol["ks"]))
            path = out / f"predictions-{file_word(descriptor)}.csv"
            files.append(write_predictions(path, told.queries, told.places, told.rows))
            notes += told.notes
        elif protocol["limits"]:
            path = out / f"poses-{file_word(descriptor)}.txt"
            files.append(_write_poses(done.cases, found, done.poses.get(descriptor), path))
    return files, notes


def _write_poses(
    cases: Sequence[Case], found: Sequence[Found], solved: Sequence[CasePosed] | None, path: Path
) -> Path:
    """Poses that were solved, or those of the best matches."""
    centres, turns = [], []
    for number, (case, one) in enumerate(zip(cases, found, strict=True)):
        centre, turn = pose_estimates(case, one.rows[:, 0])
        if solved is not None:
            centre, turn = solved[number].centres, solved[number].quaternions
        centres.append(centre)
        turns.append(turn)
    names = [name for case in cases for name in server_names(case)]
    if len(set(names)) < len(names):  # of sets without a server: rooms and visits count from 0 each
        names = [name for case in cases for name in case.query_names]
    write_poses(path, names, np.concatenate(centres), np.concatenate(turns))
    return path
