"""`samespot serve`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from samespot.cli import console
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
    from samespot.service.keys import keys_for
    from samespot.service.listening import listen

    keys_for(options)
    console.refuse_absent_device(options.device)
    with listen(options) as listening:
        from samespot.service.server import serve as run  # what was wrong is told: torch may be loaded

        run(options, listening, lambda at: print(f"Open {at} in a browser. Ctrl-C stops it.", flush=True))
    return {"stopped": True}
