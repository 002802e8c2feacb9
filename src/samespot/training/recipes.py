"""Settings that go together, by name: what `--recipe` starts from. Whatever else is given overrides it."""

from __future__ import annotations

from typing import Any

RECIPES: dict[str, dict[str, Any]] = {
    "paper": {},
    # large batches, hard pairs, descriptors compared as retrieval compares them; see docs/train.md
    "strong": {
        "pool": "multi",
        "loss": "graded-multi-similarity",
        "loss_dims": 256,
        "batches": "all:A",
        "batch_pairs": 128,
        "optimiser": "adamw",
        "learning_rate": 1e-4,
        "schedule": "cosine",
        "warmup_pairs": 2560,
        "augment": 1.0,
        "crop": 0.4,
        "flip": True,
        "scales": (0.8, 1.0, 1.3, 1.6),
    },
}
