"""What is written down while it trains: metrics as json lines, and curves for TensorBoard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
