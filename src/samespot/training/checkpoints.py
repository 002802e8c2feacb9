"""What survives a kill: checkpoints that are there whole or not at all, and checked before they are trusted."""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Any

from samespot.files import write_whole
from samespot.training.stopping import stopped_by

_NAME = re.compile(r"step-(\d{9})\.pt$")


class Checkpoints:
    """The checkpoints of a run, newest last. Each is a file of tensors and plain values, and its digest."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def steps(self) -> list[int]:
        found = (_NAME.search(path.name) for path in self.folder.glob("step-*.pt"))
        return sorted(int(match[1]) for match in found if match)

    def save(self, step: int, state: dict[str, Any]) -> Path:
        """Write a checkpoint, then drop the ones that are too many."""
        import torch  # whether there are any is told without it

        path = self._path(step)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getbuffer()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # the digest first: a checkpoint without one is not trusted
            write_whole(_digest_path(path), hashlib.sha256(content).hexdigest().encode())
            write_whole(path, content)
        except OSError as error:
            raise stopped_by(error, step, path, self.steps()) from error
        for old in self.steps()[: -self.keep]:
            self._path(old).unlink(missing_ok=True)
            _digest_path(self._path(old)).unlink(missing_ok=True)
        return path

    def newest(self) -> tuple[dict[str, Any] | None, list[str]]:
        """The newest checkpoint that is whole, and a warning for each broken one that was passed over."""
        import torch

        warnings: list[str] = []
        steps = self.steps()
        for step in reversed(steps):
            path = self._path(step)
            try:
                content = path.read_bytes()
                if hashlib.sha256(content).hexdigest() != _digest_path(path).read_text().strip():
                    raise ValueError("its digest does not match")
                state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            except (
                Exception
            ) as error:  # torch.load fails in many ways; whichever it is, the one before may do
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                next_try = (
                    "going back to the one before" if step != steps[0] else "none is whole; starting again"
                )
                warnings.append(f"{path}: broken checkpoint ({reason}); {next_try}")
                continue
            return state, warnings
        return None, warnings

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.pt"


def _digest_path(path: Path) -> Path:
    return path.with_suffix(".sha256")
