"""What a client is told when it is refused: a status, a word for programs, and a sentence for people."""

from __future__ import annotations

from typing import Any

from samespot.errors import InputError


class RefusedError(Exception):
    """An answer other than the wanted one."""

    def __init__(self, status: int, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    def body(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message}}

    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        return {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}


class UnreadableError(InputError):
    """A photo that a client sent and that cannot be read: his fault, not ours."""


def too_large(most_bytes: int) -> RefusedError:
    return RefusedError(413, "too_large", f"The photo is too large; send at most {most_bytes / 1e6:g} MB.")


def busy(seconds: float) -> RefusedError:
    return RefusedError(429, "busy", "Too many photos are waiting; try again in a moment.", seconds)
