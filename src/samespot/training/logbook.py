"""What is written down while it trains: metrics as json lines, TensorBoard curves, a progress bar on a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from samespot.files import write_whole


class Logbook:
    """`metrics.jsonl` and, where it is installed, TensorBoard's event files. One process writes."""

    def __init__(self, run: Path, after_step: int, tensorboard: bool, writes: bool) -> None:
        """Lines after `after_step` are dropped: a resumed run writes them again."""
        self.path, self.writes = run / "metrics.jsonl", writes
        self._board: Any = None
        if not writes:
            return
        kept = [line for line in _lines(self.path) if json.loads(line)["step"] <= after_step]
        write_whole(self.path, "".join(f"{line}\n" for line in kept).encode())
        if tensorboard:
            self._board = _board(run / "tensorboard", after_step)

    def write(self, record: dict[str, Any]) -> None:
        """A record has a `step`; its other numbers are plotted over it."""
        if not self.writes:
            return
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        if self._board is not None:
            for name, value in record.items():
                if name != "step" and isinstance(value, int | float):
                    self._board.add_scalar(name, value, record["step"])

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """The records of a run, in order."""
    return [json.loads(line) for line in _lines(Path(run) / "metrics.jsonl")]


def _lines(path: Path) -> list[str]:
    """Whole lines of a file; a last line that a kill cut short is left out."""
    if not path.is_file():
        return []
    lines = path.read_text().split("\n")
    whole = [line for line in lines[:-1] if line.strip()]
    while whole and not _is_record(whole[-1]):
        whole.pop()
    return whole


def _is_record(line: str) -> bool:
    try:
        return "step" in json.loads(line)
    except (ValueError, TypeError):
        return False


def _board(folder: Path, after_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=after_step + 1 if after_step else None)


class ProgressBar:
    """Pairs a second, loss, share of zero losses and time left. Silent unless standard error is a terminal."""

    def __init__(self, shown: bool) -> None:
        self._bar: Any = None
        self._task: Any = None
        if not (shown and sys.stderr.isatty()):
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """The next stretch of work; the one before it is taken off the screen."""
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=total, completed=done, facts="")

    def advance(self, by: int = 1) -> None:
        if self._bar is not None:
            self._bar.advance(self._task, by)

    def tell(self, facts: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, facts=facts)
