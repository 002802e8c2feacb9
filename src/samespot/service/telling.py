"""What a service tells of itself: numbers for Prometheus, and a line for each request."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30.0)


class Numbers:
    """Counters of one service; no names of photos, no positions."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("samespot_requests", "Requests.", ["route", "status"], **kept)
        self.seconds = Histogram(
            "samespot_request_seconds", "Time of a request.", ["route"], buckets=SECONDS, **kept
        )
        self.stages = Histogram(
            "samespot_stage_seconds", "Time of a photo in each stage.", ["stage"], buckets=SECONDS, **kept
        )
        self.batches = Histogram(
            "samespot_batch_photos", "Photos that went through the network at once.",
            buckets=(1, 2, 4, 8, 16, 32, 64), **kept,
        )  # fmt: skip
        self.answers = Counter("samespot_answers", "Answers.", ["map", "found"], **kept)
        self.refused = Counter("samespot_refused", "Requests that were refused.", ["why"], **kept)
        self.inside = Gauge("samespot_photos_inside", "Photos in work and waiting.", **kept)
        self.photos = Gauge("samespot_map_photos", "Photos of a map.", ["map"], **kept)
        self.generation = Gauge("samespot_map_generation", "Generation of a map.", ["map"], **kept)

    def text(self) -> bytes:
        return bytes(generate_latest(self.registry))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{name}={_word(value)}" for name, value in getattr(record, "facts", {}).items())
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()} {facts}".rstrip()
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def _word(value: Any) -> str:
    """A value that cannot be mistaken for more of the line."""
    text = str(value)
    return json.dumps(text) if not text or any(c in text for c in ' ="') or not text.isprintable() else text


def log_to_stderr(how: str) -> None:
    """Send what the service says to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if how == "json" else _Text())
    for name in ("samespot.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name.startswith("samespot") else logging.WARNING)
