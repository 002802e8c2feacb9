"""The port of a service. No web framework in here: a port in use shows at once."""

from __future__ import annotations

import socket

from samespot.errors import InputError
from samespot.service.options import ServeOptions


def listen(options: ServeOptions) -> socket.socket:
    """Taken before the maps are opened. Whoever takes it closes it."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host, options.port))
    except OSError as error:
        listening.close()
        raise InputError(f"`host={options.host}`, `port={options.port}`: {error.strerror or error}") from None
    listening.set_inheritable(True)
    return listening
