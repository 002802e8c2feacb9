"""How is it going? The loss since the last log, the first step that went wrong, and the time spent on learning.

Sums stay on the device, so that nothing waits for a GPU before it must.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from samespot.devices import Processes
from samespot.images.sources import wait_for
from samespot.training.gradient import StepStats


class Meter:
    """Of this process; what it is asked for is of all of them."""

    def __init__(self, device: torch.device, processes: Processes) -> None:
        self.device, self.processes = device, processes
        self._sums, self._steps = torch.zeros(2, device=device), 0  # since the last log: loss, share of zeros
        self._failed = torch.zeros((), dtype=torch.int64, device=device)
        self._tic = time.perf_counter()
        self._seconds, self._earlier = 0.0, 0.0  # of this session, of earlier ones
        self._pairs = 0  # of this session

    def add(self, step: int, stats: StepStats, pairs: int) -> None:
        self._sums += torch.stack([stats.loss, stats.zero])
        self._steps += 1
        self._pairs += pairs
        failed = torch.full_like(self._failed, step)
        self._failed = torch.where((self._failed == 0) & ~stats.loss.isfinite(), failed, self._failed)

    def failed_step(self) -> int:
        """The first step whose loss was no finite number; 0 where there was none."""
        return int(self.processes.highest(self._failed.clone()))

    def means(self) -> tuple[float, float]:
        """Loss and share of zero losses since this was last asked."""
        loss, zero = (self.processes.summed(self._sums.clone()) / self._steps).tolist()
        self._sums.zero_()
        self._steps = 0
        return loss, zero

    # ---- time ----

    def start(self) -> None:
        self._tic = time.perf_counter()

    def stop(self) -> None:
        wait_for(self.device)
        self._seconds += time.perf_counter() - self._tic

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time in here is not training time."""
        self.stop()
        yield
        self.start()

    @property
    def running_rate(self) -> float:
        """Pairs a second of this session, while it runs."""
        return self._pairs / max(self._seconds + time.perf_counter() - self._tic, 1e-9)

    @property
    def rate(self) -> float:
        """Pairs a second of this session, once stopped."""
        return self._pairs / max(self._seconds, 1e-9)

    @property
    def seconds(self) -> float:
        """Of all sessions."""
        return self._earlier + self._seconds

    # ---- checkpoints ----

    def state(self) -> dict[str, Any]:
        """For every process the same; asked for before the one that writes goes its own way."""
        sums = self.processes.summed(self._sums.clone()) / self.processes.count
        return {"sums": [sums.tolist(), self._steps]}

    def restore(self, state: dict[str, Any]) -> None:
        sums, self._steps = state["sums"]
        self._sums = torch.tensor(sums, device=self.device)
        self._earlier = state.get("seconds", 0.0)  # an older run did not count them
