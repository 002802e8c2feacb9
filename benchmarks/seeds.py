"""Recalls of recipes over seeds and queries, from the runs that campus.py and town_training.py write."""

from __future__ import annotations

from typing import Any

import numpy as np

from samespot.statistics.intervals import Interval, paired_bootstrap_runs, wilson


def hits(runs: list[dict[str, Any]], name: str, kind: str, k: int) -> np.ndarray:
    """(seeds, queries) whether a query was found among the first k."""
    ranks = np.array(
        [[int(rank) for rank in run["first hits"][kind].split()] for run in runs if run["recipe"] == name]
    )
    return ((ranks > 0) & (ranks <= k)).astype(float)


def mean_of(found: np.ndarray) -> Interval:
    """The mean with its interval: over queries, and over seeds where there are several."""
    if len(found) == 1:
        return wilson(int(found.sum()), found.size)
    return paired_bootstrap_runs(found, np.zeros_like(found))
