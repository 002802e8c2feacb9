"""Made-up results whose verdicts are known by hand."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from reproduction.experiment import Answers, Cost, Result

QUERIES = 200


def _result(
    key: str,
    found: Sequence[float] | float,
    seed: int = 0,
    *,
    dims: int = 512,
    whitened: dict[str, tuple[int, float]] | None = None,
    reranked: float | None = None,
    cost: Cost | None = None,
    ece: float | None = None,
    queries: str = "the same",
    digest: str = "d",
) -> Result:
    """found: ranks of the first hit, or the share of 200 queries found at once (the others never).

    whitened: on what -> (dims, share found)
    """
    answers = {str(dims): Answers(dims, None, None, {"first_hit": _ranks(found)})}
    for on, (size, share) in (whitened or {}).items():
        answers[f"{size} whitened on {on}"] = Answers(size, on, None, {"first_hit": _ranks(share)})
    if reranked is not None:
        answers[f"{dims} re-ranked by xfeat"] = Answers(dims, None, "xfeat", {"first_hit": _ranks(reranked)})
    count = len(_ranks(found))
    return Result(
        experiment=key,
        seed=seed,
        digest=digest,
        queries=queries,
        truth={"counted": np.ones(count)},
        answers=answers,
        calibration={} if ece is None else {"calibration": {"ece": ece}},
        cost=Cost(10.0, 1000, 2000) if cost is None else cost,
        facts={"device": "a machine", "options": {"steps": 5, "learning_rate": 0.1}},
    )


def _ranks(found: Sequence[float] | float) -> np.ndarray:
    if isinstance(found, float):
        return (np.arange(QUERIES) < round(found * QUERIES)).astype(float)
    return np.array(found, dtype=float)


@pytest.fixture
def reproduction(command) -> Callable[..., tuple[int, str, str]]:
    from reproduction.cli import run

    return partial(command, run)


@pytest.fixture
def result() -> Callable[..., Result]:
    return _result


@pytest.fixture
def seeds() -> Callable[..., list[Result]]:
    """Three seeds of one experiment that answer alike."""

    def made(key: str, found: float, count: int = 3, **more: object) -> list[Result]:
        return [_result(key, found, seed, **more) for seed in range(count)]  # type: ignore[arg-type]

    return made
