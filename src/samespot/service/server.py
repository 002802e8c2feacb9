"""`serve`: run a service until it is told to stop; what is in work is finished first."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from samespot.service.app import create_app
from samespot.service.options import ServeOptions
from samespot.service.telling import log_to_stderr


def serve(options: ServeOptions, listening: socket.socket, said: Callable[[str], None]) -> None:
    """Returns when the process was told to stop. said: given the address once the service can be asked."""
    app = create_app(options)
    log_to_stderr(options.log)
    host = f"[{options.host}]" if ":" in options.host else options.host
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anybody could write them
        date_header=False,
        timeout_graceful_shutdown=round(options.seconds) + 1,
        timeout_keep_alive=10,
        h11_max_incomplete_event_size=65536,
    )
    server = _Server(config, lambda: said(f"http://{host}:{listening.getsockname()[1]}/"))
    server.run(sockets=[listening])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._told = started

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._told()
