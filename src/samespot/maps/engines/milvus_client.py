"""A client of Milvus that waits where a server is away for a moment, and tells in one line what is wrong."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from samespot.errors import InputError

TOKEN = "SAMESPOT_MILVUS_TOKEN"
SECONDS = 60.0  # to wait for an answer
CONNECTING = 10.0
HELD = 3.0  # [s] to try to open a file: a process that has just ended may hold it a moment longer
SOON, LATER = 0.25, 4.0  # [s] between two tries where a server is away: at first, and at most
# What a server says that is just starting: it is not ready, a collection or a part of it is not loaded yet, a channel
# or a node is missing. Codes of Milvus, of a broken connection, and words where the code is one for many things.
_PASSING = (2, 101, 103, 201, 202, 400, 500, 501, 502, 503, 600, 601, 602, 901, 902, 903, 904)
_PASSING_GRPC = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN")
_PASSING_WORDS = ("not ready", "timeout", "node not found", "node not match", "session not found")
_URIS = "a file such as ./map.db (Milvus Lite), or a server such as http://localhost:19530"


class AwayError(InputError):
    """Milvus does not answer, and may do so later."""


class Client:
    """A `MilvusClient` by the same names; whatever it raises is an `InputError`.

    patience: [s] in which a call is tried again where the server is away or just starting.
    """

    def __init__(self, uri: str, client: Any, patience: float = 0.0) -> None:
        self.uri, self.plain, self._patience = uri, client, patience

    def waiting(self, patience: float) -> Client:
        """The same connection with more patience, or with less."""
        return Client(self.uri, self.plain, patience)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.plain, name)

        def ask(*given: Any, **named: Any) -> Any:
            named = {"timeout": SECONDS, **named}
            until, wait = time.monotonic() + self._patience, SOON
            while True:
                try:
                    return method(*given, **named)
                except Exception as error:
                    if not _of_milvus(error):
                        raise
                    if not _passes(error):
                        raise InputError(f"{self.uri}: Milvus says: {_line(error)}") from None
                    if time.monotonic() + wait > until:
                        raise AwayError(
                            f"{self.uri}: Milvus cannot be reached, or is not ready yet ({_line(error)})"
                        ) from None
                time.sleep(wait)
                wait = min(2 * wait, LATER)

        return ask


def checked_uri(uri: str | None) -> str:
    """An address of Milvus, in full; one line for what is none. A password is not for meta.json, nor for a screen."""
    if uri is None:
        raise InputError(f"`engine=milvus` needs `uri`: {_URIS}")
    parts = urlsplit(uri)
    if parts.username or parts.password:
        raise InputError(
            f"`uri` holds a name or password; give them as {TOKEN}=name:password in the environment"
        )
    if not is_server(uri) and not uri.endswith(".db"):
        raise InputError(f"`uri` {uri!r} is no address of Milvus; give {_URIS}")
    return (
        uri if is_server(uri) else os.path.abspath(uri)
    )  # where a file is does not depend on where one stands


def is_server(uri: str) -> bool:
    return urlsplit(uri).scheme in ("http", "https", "tcp", "unix")


def connected(uri: str, *, own: bool = False, patience: float = 0.0) -> Client:
    """A client; one line where there is no Milvus. own: with a connection that no other client shares. patience: [s] in
    which it is tried again, now and in each call."""
    try:
        from pymilvus import MilvusClient
    except ImportError:
        raise InputError(
            "`engine=milvus` needs the package pymilvus, which is not installed; run `pip install 'samespot[milvus]'`"
        ) from None
    for name in ("pymilvus", "milvus_lite", "grpc"):  # what goes wrong is told in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    local = not is_server(uri)
    if local and find_spec("milvus_lite") is None:
        raise InputError(
            f"{uri}: a file needs the package milvus-lite; run `pip install 'samespot[milvus]'`, or use a server"
        )
    if local and not Path(uri).parent.is_dir():
        raise InputError(f"{uri}: there is no folder {Path(uri).parent}; make it first")
    until = time.monotonic() + (HELD if local else patience)
    while True:
        try:
            client = MilvusClient(uri, token=os.environ.get(TOKEN, ""), timeout=CONNECTING, dedicated=own)
            client.list_collections(timeout=CONNECTING)
            break
        except Exception as error:
            if not (isinstance(error, OSError) or _of_milvus(error)):
                raise
            if time.monotonic() + 1.0 > until or not (local or _passes(error)):
                raise InputError(_why_not(uri, local, error)) from None
            time.sleep(1.0)
    return Client(uri, client, patience)


def _why_not(uri: str, local: bool, error: Exception) -> str:
    if local:
        return (
            f"{uri}: Milvus Lite cannot open it ({_line(error)}); one process at a time can: end the other one."
            " If there is none, it is damaged: delete it, and `samespot index --out MAP --engine milvus` loads it again"
        )
    told = _line(error)
    if "auth" in told.lower() or "token" in told.lower():
        return f"{uri}: Milvus refuses this user; set {TOKEN} in the environment"
    return f"{uri}: no Milvus answers there ({told}); check the address, and that the server runs"


def _line(error: Exception) -> str:
    told = getattr(error, "message", "") or str(error) or type(error).__name__
    token = os.environ.get(TOKEN)
    told = " ".join(re.sub(r"stack trace: |\S+\.go:\d+ \S+", "", str(told)).split())
    return (told.replace(token, "…") if token else told)[:200]


def _of_milvus(error: Exception) -> bool:
    from pymilvus.exceptions import MilvusException

    return isinstance(error, MilvusException) or type(error).__module__.partition(".")[0] == "grpc"


def _passes(error: Exception) -> bool:
    code = getattr(error, "code", None)
    code = code() if callable(code) else code
    if code in _PASSING or getattr(code, "name", "") in _PASSING_GRPC:
        return True
    return any(words in str(error).lower() for words in _PASSING_WORDS)
