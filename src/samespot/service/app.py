"""The service as an application: its routes, its errors, its page, and what guards them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect

from samespot.errors import InputError
from samespot.service import examples
from samespot.service.api import router
from samespot.service.errors import RefusedError, UnreadableError
from samespot.service.guard import Guard
from samespot.service.options import ServeOptions
from samespot.service.state import Service
from samespot.service.telling import Numbers

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
FORM = 1 << 20  # bytes of a request besides its photos
GONE = 499  # status of a request whose client went away; nobody reads it
log = logging.getLogger("samespot.service")


def create_app(options: ServeOptions) -> FastAPI:
    """The application that `samespot serve` runs; /openapi.json tells all about it."""
    service = Service(options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="samespot",
        version="1",
        summary="Where was this photo taken?",
        description="Answers are the json of `samespot locate`; names are kept, new ones may be added.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=examples.errors(service.locked),
    )
    app.state.service = service
    app.include_router(router)
    _tell_errors(app, service.numbers)
    _serve_page(app)
    if options.allow_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.allow_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["retry-after", "x-request-id"],
        )
    restricted = options.at_home or options.allow_host
    at_home = ["localhost", "127.0.0.1", "[::1]", options.host] if restricted else []
    app.add_middleware(
        Guard,
        numbers=service.numbers,
        most_body=options.most_bytes * options.images + FORM,
        hosts=[host.lower() for host in (*at_home, *options.allow_host)],
        cors=bool(options.allow_origin),
    )
    return app


def _tell_errors(app: FastAPI, numbers: Numbers) -> None:
    def told(refused: RefusedError) -> JSONResponse:
        return JSONResponse(refused.body(), refused.status, refused.headers())

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> JSONResponse:
        return told(error)

    @app.exception_handler(UnreadableError)
    async def unreadable(request: Request, error: UnreadableError) -> JSONResponse:
        return told(RefusedError(422, "unreadable", str(error).removeprefix("photo: ")))

    @app.exception_handler(InputError)
    async def trouble(request: Request, error: InputError) -> JSONResponse:
        log.error("the map cannot be asked: %s", error)  # the client is told no paths
        return told(RefusedError(503, "map_trouble", "The map cannot be asked now; the log says why.", 10))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(TimeoutError)
    async def late(request: Request, error: TimeoutError) -> JSONResponse:
        numbers.refused.labels("late").inc()
        return told(
            RefusedError(503, "too_slow", "This took too long; try again, with fewer or smaller photos.", 1)
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return told(
            RefusedError(422, "bad_request", f"{where}: {first['msg']}" if where else str(first["msg"]))
        )

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        word = {404: "no_such_address", 405: "wrong_method"}.get(error.status_code, "bad_request")
        made = told(RefusedError(error.status_code, word, str(error.detail)))
        made.headers.update(error.headers or {})
        return made


def _serve_page(app: FastAPI) -> None:
    """The page's files, read once: no name from a request reaches the file system."""
    folder = files("samespot.service") / "page"
    kept = {one.name: one.read_bytes() for one in folder.iterdir() if one.name.partition(".")[2] in TYPES}

    def send(name: str) -> Response:
        kind = TYPES[name.rpartition(".")[2]]
        return Response(kept[name], media_type=kind, headers={"Cache-Control": "no-cache"})

    for name in kept:
        address = "/" if name == "index.html" else f"/page/{name}"
        answer: Callable[[], Response] = partial(send, name)
        app.add_api_route(address, answer, include_in_schema=False, response_model=None)
