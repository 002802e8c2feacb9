"""`samespot serve`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.errors import InputError
from samespot.service.options import ServeOptions, named_maps

NEEDS = ("fastapi", "uvicorn", "prometheus_client", "pebble", "python_multipart")


@command(app, ServeOptions)
def serve(typed: dict[str, Any]) -> Any:
    """Answer over HTTP where photos were taken, with a page to try it on."""
    options = ServeOptions.of(typed)
    absent = [name for name in NEEDS if find_spec(name) is None]
    if absent:
        raise InputError(f"a service needs {', '.join(absent)}: pip install samespot[serve]")
    from samespot.maps.folder import read_meta

    for folder in named_maps(options.maps).values():
        read_meta(folder)  # a folder without a map is told of before torch is loaded
    from samespot.service.server import serve as run

    run(options, lambda address: print(f"Open {address} in a browser. Ctrl-C stops it.", flush=True))
    return {"stopped": True}
