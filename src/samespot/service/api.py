"""What is asked at which address, and what comes back."""

from __future__ import annotations

import asyncio
import io
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from samespot.errors import InputError
from samespot.maps.answer import FORMAT, Answer, Trouble, geojson
from samespot.maps.map import Map
from samespot.maps.options import FASTEST, LONGEST, LocateOptions
from samespot.service import examples, geopose
from samespot.service.errors import RefusedError, too_large
from samespot.service.guard import facts
from samespot.service.hosting import Hosted, about, cameras, place
from samespot.service.locating import Photo
from samespot.service.options import ServeOptions
from samespot.service.state import Service
from samespot.service.telling import Numbers

IMAGES = ("image/jpeg", "image/png", "image/webp", "image/heic", "image/heif", "image/tiff", "image/gif")
UPLOAD = 15.0  # [s] that the bytes of a request may take to arrive
READING = 1 << 20  # bytes of a request of the GeoPose Protocol besides its photo
POSE_FROM = 20  # photos of the map that a pose is solved from, at most
LARGE = 1600  # longer side of a large photo of the map [pixels]
As = Literal["json", "geojson", "geopose-ypr", "geopose-quaternion"]
router = APIRouter()


# ---- who asks, and which map ----


async def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Ours = Annotated[Service, Depends(service_of)]


async def who_asks(service: Ours, request: Request) -> str:
    """The name of who asks."""
    name = f"address {request.client.host if request.client else 'unknown'}"
    if service.locked:
        word, _, key = request.headers.get("authorization", "").partition(" ")
        owner = service.keys.owner(key.strip()) if word.lower() == "bearer" else None
        if owner is None:
            service.numbers.refused.labels("key").inc()
            raise RefusedError(401, "key_needed", "Give an API key: Authorization: Bearer KEY.")
        name = owner
    wait = service.rates.wait(name)
    if wait:
        service.numbers.refused.labels("rate").inc()
        often = f"At most {service.options.rate} requests a minute; slow down."
        raise RefusedError(429, "too_often", often, wait)
    facts.get()["asker"] = name
    return name


async def named_map(
    service: Ours,
    map: Annotated[str | None, Query(description="Name of the map; the first where none is given.")] = None,
) -> Hosted:
    try:
        found = service.hosting.named(map)
    except KeyError:
        raise RefusedError(404, "no_such_map", "There is no map of that name; /v1/maps lists them.") from None
    facts.get()["map"] = found.name
    return found


Asker = Annotated[str, Depends(who_asks)]
OneMap = Annotated[Hosted, Depends(named_map)]


# ---- where was it taken? ----


@router.post(
    "/v1/locate",
    responses=examples.located(),
    openapi_extra=examples.photos_body(IMAGES),
    summary="Where was this photo taken?",
)
async def locate(
    request: Request,
    service: Ours,
    asker: Asker,
    one: OneMap,
    k: Annotated[int | None, Query(ge=1, le=100, description="Matches to show with an answer.")] = None,
    verify: Annotated[bool | None, Query(description="Compare local features.")] = None,
    pairs: Annotated[
        bool | None, Query(description="Tell which points of photo and match are the same.")
    ] = None,
    outside: Annotated[
        float | None,
        Query(gt=0, lt=1, description="Share of the photos asked about that are not in the map."),
    ] = None,
    at_least: Annotated[
        float | None, Query(ge=0, le=1, description="Probability from which on a place counts as found.")
    ] = None,
    precision: Annotated[
        float | None, Query(gt=0, lt=1, description="Instead: found is what is right this often.")
    ] = None,
    pose: Annotated[
        bool | None, Query(description="Tell the 6DOF pose of the camera, where the map gives poses.")
    ] = None,
    camera: Annotated[
        str | None,
        Query(
            max_length=200,
            description="The camera, for the pose: width,height,fx,fy,cx,cy [pixels], and k1,k2,p1,p2 where the lens"
            " distorts. Else from EXIF, or its focal length is estimated.",
        ),
    ] = None,
    pose_from: Annotated[
        int | None, Query(ge=1, le=POSE_FROM, description="Photos of the map that a pose is solved from.")
    ] = None,
    track: Annotated[bool, Query(description="Several photos are one sequence, in their order.")] = False,
    speed: Annotated[
        float | None, Query(gt=0, le=FASTEST, description="The camera is never faster [m/s].")
    ] = None,
    every: Annotated[float | None, Query(gt=0, le=LONGEST, description="Seconds between two photos.")] = None,
    near: Annotated[
        str | None,
        Query(max_length=100, description="Only photos near a position: 48.137,11.575,200 (metres)."),
    ] = None,
    area: Annotated[
        str | None, Query(max_length=100, description="Only photos in a box: 48.13,11.57,48.14,11.58.")
    ] = None,
    heading: Annotated[
        str | None,
        Query(max_length=40, description="Only photos that look this way: 90,30 (to either side)."),
    ] = None,
    since: Annotated[str | None, Query(max_length=40, description="Only photos taken then or later.")] = None,
    until: Annotated[str | None, Query(max_length=40, description="Only photos taken before.")] = None,
    condition: Annotated[
        str | None, Query(max_length=100, description="Only photos of this condition, such as night.")
    ] = None,
    form: Annotated[As | None, Query(alias="as", description="How the answer is written.")] = None,
) -> Response:
    given = {
        **{"k": k, "verify": verify, "pairs": pairs, "outside": outside, "at_least": at_least},
        **{"precision": precision, "near": near, "area": area, "heading": heading},
        **{"since": since, "until": until, "condition": condition},
        **{"pose": pose, "camera": camera, "pose_from": pose_from},
    }  # what is not given is as `LocateOptions` has it
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    of_track = {name: value for name, value in (("speed", speed), ("every", every)) if value is not None}
    locating, map = service.locating, one.map
    wanted = request.headers.get("accept", "")
    written: As = form or ("geopose-quaternion" if geopose.MEDIA in wanted else "json")
    _check_options(one, map, asked)
    if written.startswith("geopose"):
        _check_degrees(map)
    async with asyncio.timeout(service.options.seconds):
        with locating.room_for(1, asker):
            async with asyncio.timeout(UPLOAD):
                photos, several = await _photos(request, service.options)
            with locating.room_for(len(photos) - 1, asker):
                if track:
                    told = await locating.track(map, photos, {**asked, **of_track})
                elif several:
                    told = await locating.locate_all(map, photos, asked)
                else:
                    told = [await locating.locate(map, photos[0], asked)]
    _count(service.numbers, one.name, told)
    return _written(told, several or track, written, map)


# ---- the map ----


@router.get("/v1/maps", responses=examples.ok("maps"), summary="The maps of this service")
def maps(service: Ours, asker: Asker) -> Any:
    return {"maps": [{"name": one.name, "photos": len(one.map)} for one in service.hosting.maps.values()]}


@router.get("/v1/map", responses=examples.ok("map"), summary="Facts of a map")
def map_facts(service: Ours, asker: Asker, one: OneMap) -> Any:
    most = service.options
    limits = {"bytes": most.most_bytes, "images": most.images, "formats": list(IMAGES)}
    return {**about(one), "limits": limits}


@router.get("/v1/cameras", responses=examples.ok("cameras"), summary="Where the map's photos were taken")
def map_cameras(asker: Asker, one: OneMap) -> Any:
    return cameras(one)


@router.get("/v1/places/{id}", responses=examples.ok("place"), summary="A photo of the map")
def one_place(asker: Asker, one: OneMap, id: Annotated[int, Path(ge=0, lt=2**53)]) -> Any:
    map = one.map
    return place(map, _row(map, id))


@router.get(
    "/v1/places/{id}/photo",
    responses={200: {"content": {"image/jpeg": {}}, "description": "A JPEG without EXIF data."}},
    response_class=Response,
    summary="The picture of a photo of the map",
)
async def photo(
    service: Ours,
    asker: Asker,
    one: OneMap,
    id: Annotated[int, Path(ge=0, lt=2**53)],
    size: Annotated[Literal["thumbnail", "large"], Query()] = "thumbnail",
) -> Response:
    locating, map = service.locating, one.map
    row = _row(map, id)
    if size == "thumbnail":
        picture = await asyncio.to_thread(map.generation.thumbnail, row)
    else:
        with locating.room_for(1, asker):
            picture = await locating.in_pool(_large, map, row)
    return Response(picture, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=600"})


# ---- the protocol of the Open AR Cloud ----


@router.get("/geopose", responses=examples.ok("running"), summary="GeoPose Protocol: is it there?")
async def geopose_running() -> Any:
    return {"status": "running"}


@router.post(
    "/geopose",
    responses=examples.posed(),
    openapi_extra=examples.json_body(geopose.GeoPoseRequest),
    summary="GeoPose Protocol (v2): where is this camera?",
)
async def geopose_ask(request: Request, service: Ours, asker: Asker, one: OneMap) -> Response:
    locating, map, most = service.locating, one.map, service.options.most_bytes
    _check_degrees(map)
    async with asyncio.timeout(service.options.seconds):
        with locating.room_for(1, asker):
            async with asyncio.timeout(UPLOAD):
                body = await _body(request, most * 4 // 3 + READING)
            asked, encoded = await locating.in_pool(geopose.read, body)
            if len(encoded) > most:
                raise too_large(most)
            options = {**geopose.prior(asked), **geopose.wanted(map)}
            _check_options(one, map, options)
            answer = await locating.locate(map, ("photo", encoded), options)
    _count(service.numbers, one.name, [answer])
    return JSONResponse(geopose.reply(asked, answer, map), 200 if answer.found else 404)


# ---- for operators ----


@router.get("/healthz", responses=examples.ok("health"), summary="Is the process alive?")
async def healthz() -> Any:
    return {"status": "alive"}


@router.get("/readyz", responses=examples.ok("ready"), summary="Can it answer now?")
async def readyz(service: Ours) -> Any:
    if not service.ready:
        raise RefusedError(503, "starting", "The service is starting or stopping.", 1)
    return {"status": "ready"}


@router.get(
    "/metrics",
    responses={200: {"content": {"text/plain": {}}, "description": "For Prometheus."}},
    response_class=Response,
    summary="Numbers for Prometheus",
)
def metrics(service: Ours, asker: Asker) -> Response:
    numbers = service.numbers
    for one in service.hosting.maps.values():
        numbers.photos.labels(one.name).set(len(one.map))
        numbers.generation.labels(one.name).set(one.map.generation.number)
    return Response(numbers.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


# ---- reading ----


def _check_options(one: Hosted, map: Map, asked: dict[str, Any]) -> None:
    """Before a photo is read. An error calls the map by its name, not by where it is."""
    try:
        map.limits(LocateOptions.of(asked))
    except InputError as error:
        said = str(error).replace(str(one.folder), f"map {one.name}").replace("`", "")
        raise RefusedError(422, "bad_request", said) from None


def _check_degrees(map: Map) -> None:
    if map.generation.places.projection is None:
        raise RefusedError(
            409, "no_degrees", "This map has no latitude and longitude, so it gives no GeoPose."
        )


async def _photos(request: Request, options: ServeOptions) -> tuple[list[Photo], bool]:
    """The photos of a request, and whether it may hold several."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _of_form(request, options), True
    if not (kind.startswith("image/") or kind == "application/octet-stream"):
        raise RefusedError(
            415,
            "not_a_photo",
            "Send the bytes of a photo with Content-Type image/jpeg, or multipart/form-data.",
        )
    body = await _body(request, options.most_bytes)
    if not body:
        raise RefusedError(400, "bad_request", "There is no photo in the request.")
    return [("photo", body)], False


async def _body(request: Request, most: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large(most)
    return bytes(body)


async def _of_form(request: Request, options: ServeOptions) -> list[Photo]:
    try:
        form = await request.form(max_files=options.images, max_fields=10)
    except HTTPException as error:
        raise RefusedError(
            400, "bad_request", f"The form cannot be read, or has too many parts (at most {options.images})."
        ) from error
    photos = []
    try:
        for _, part in form.multi_items():
            if not isinstance(part, UploadFile):
                continue
            if (part.size or 0) > options.most_bytes:
                raise too_large(options.most_bytes)
            photos.append((_clean(part.filename), await part.read()))
    finally:
        await form.close()
    if not photos:
        raise RefusedError(400, "bad_request", "There is no photo in the form.")
    return photos


def _clean(name: str | None) -> str:
    """A client's file name, only ever to be shown."""
    plain = re.sub(r"[^\w. ()+-]", "", re.split(r"[/\\]", name or "")[-1])[:100].strip(". ")
    return plain or "photo"


def _row(map: Map, id: int) -> int:
    if id >= len(map):
        raise RefusedError(404, "no_such_place", "The map has no photo of that number.")
    return id


def _large(map: Map, row: int) -> bytes:
    """The photo itself, if it still is where it was indexed; without its EXIF data."""
    from samespot.photo_files import open_photo

    path = map.generation.places.image(row)
    try:
        picture = open_photo(path, LARGE)
    except InputError:
        raise RefusedError(404, "no_large_photo", "Only the thumbnail of this photo is here.") from None
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    return out.getvalue()


# ---- writing ----


def _count(numbers: Numbers, map: str, told: list[Answer | Trouble]) -> None:
    for one in told:
        found = isinstance(one, Answer) and one.found
        numbers.answers.labels(map, str(found).lower()).inc()
    facts.get()["found"] = f"{sum(isinstance(one, Answer) and one.found for one in told)}/{len(told)}"


def _written(told: list[Answer | Trouble], several: bool, form: As, map: Map) -> Response:
    if form == "geojson":
        answers = [one for one in told if isinstance(one, Answer)]
        return Response(geojson(answers), media_type="application/geo+json")
    if form != "json":
        return _as_geopose(told, form, map)
    if not several:
        return JSONResponse(told[0].to_dict())
    return JSONResponse({"format": FORMAT, "answers": [one.to_dict() for one in told]})


def _as_geopose(told: list[Answer | Trouble], form: As, map: Map) -> Response:
    if len(told) != 1 or not isinstance(told[0], Answer):
        raise RefusedError(400, "bad_request", "A GeoPose is of one photo; ask for json.")
    if not told[0].found:
        raise RefusedError(404, "not_found", "This photo is not in the map, as far as can be told.")
    made = geopose.geopose(told[0], map, "ypr" if form == "geopose-ypr" else "quaternion")
    return JSONResponse(made, media_type=geopose.MEDIA)
