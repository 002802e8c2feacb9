"""Seconds and peak memory of what is measured: shared by the benchmarks, and none itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def fastest(job: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Seconds of the quickest run, and the result of the last."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = job()
        best = min(best, time.perf_counter() - start)
    return best, result


def reset_peak(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak(device: Any) -> dict[str, float]:
    """Since `reset_peak`; nothing on the processor."""
    import torch

    if device.type != "cuda":
        return {}
    return {"peak GPU memory [GB]": torch.cuda.max_memory_allocated(device) / 1e9}
