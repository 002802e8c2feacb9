"""What a similarity ψ makes of a pair: positive from 0.5 on, soft negative above 0, hard negative at 0."""

from __future__ import annotations

POSITIVE = 0.5  # from here on two photos show the same place
HARD_POSITIVE = 0.75
