"""Around every request: its id, its time, what is logged and counted of it, and the headers that keep browsers safe."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from samespot.service.errors import RefusedError
from samespot.service.telling import Numbers

log = logging.getLogger("samespot.service")
GIVEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
facts: ContextVar[dict[str, Any]] = ContextVar("facts")  # of the request that is answered


OUR_MISTAKE = RefusedError(
    500, "our_mistake", "Something went wrong here; the log knows it by the X-Request-ID."
)


class Guard:
    """ASGI middleware."""

    def __init__(
        self, app: Any, numbers: Numbers, most_body: int, hosts: Sequence[str], cors: bool = False
    ) -> None:
        self.app, self._numbers, self._most, self._hosts = app, numbers, most_body, set(hosts)
        self._headers = {
            k: v for k, v in HEADERS.items() if not (cors and k == "Cross-Origin-Resource-Policy")
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        given = headers.get("x-request-id", "")
        number = given if GIVEN.fullmatch(given) else uuid.uuid4().hex
        token = facts.set({"request": number, "method": scope["method"]})
        begun, status, got, begun_to_tell = time.perf_counter(), 500, 0, False

        async def counted() -> Any:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._most:
                raise _TooMuchError
            return message

        async def told(message: Any) -> None:
            nonlocal status, begun_to_tell
            if message["type"] == "http.response.start":
                status, begun_to_tell = message["status"], True
                there = {name.lower() for name, _ in message["headers"]}
                more = {"X-Request-ID": number, **self._headers}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in more.items() if k.lower().encode() not in there),
                ]
            await send(message)

        try:
            wrong = self._wrong(headers)
            if wrong is not None:
                await _refuse(wrong, told)
            else:
                try:
                    await self.app(scope, counted, told)
                except _TooMuchError:
                    await _refuse(_too_much(self._most), told)
                except Exception:
                    log.exception("our mistake", extra={"facts": facts.get()})
                    if not begun_to_tell:
                        await _refuse(OUR_MISTAKE, told)
        finally:
            took = time.perf_counter() - begun
            route = getattr(scope.get("route"), "path", "other")
            self._numbers.requests.labels(route, status).inc()
            self._numbers.seconds.labels(route).observe(took)
            known = facts.get()
            facts.reset(token)
            level = logging.WARNING if status >= 500 else logging.INFO
            if route not in ("/healthz", "/readyz", "/metrics") or status >= 400:
                told_facts = {
                    **known,
                    "route": route,
                    "status": status,
                    "ms": round(1000 * took),
                    "bytes": got,
                }
                log.log(level, "request", extra={"facts": told_facts})

    def _wrong(self, headers: dict[str, str]) -> RefusedError | None:
        host = re.sub(r":\d+$", "", headers.get("host", "")).lower()
        if (
            self._hosts and host not in self._hosts
        ):  # a page elsewhere that calls this machine by a name of its own
            return RefusedError(
                400, "bad_host", "This service does not answer to that host name; see --allow-host."
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            return _too_much(self._most)
        return None


class _TooMuchError(Exception):
    """A request whose body does not end where it should."""


def _too_much(most: int) -> RefusedError:
    return RefusedError(413, "too_large", f"The request is too large; send at most {most / 1e6:g} MB.")


async def _refuse(refused: RefusedError, send: Any) -> None:
    body = json.dumps(refused.body()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
