"""The page in a real browser, against a service that answers what a real map once did."""

import copy
import json
import os
import re
import shutil
from email import message_from_bytes
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image, ImageDraw

from samespot.figures.report_sections.looks import THEMES

PAGE = Path(__file__).parents[2] / "src" / "samespot" / "service" / "page"
RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HOME = "http://samespot.test/"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def picture(colour="#7a9cc0", size=(640, 480), kind="JPEG", **saved):
    """A street that is not there."""
    image = Image.new("RGB", size, colour)
    pen = ImageDraw.Draw(image)
    wide, tall = size
    pen.rectangle((0, tall * 0.7, wide, tall), fill="#6b6b6b")
    for i in range(6):
        left = wide * i / 6
        pen.rectangle((left, tall * (0.2 + 0.07 * (i % 3)), left + wide / 7, tall * 0.7), fill=f"#{8 + i}{i}{6}")
    out = BytesIO()
    image.save(out, kind, **saved)
    return out.getvalue()


def photo(name="street.jpg", data=None, kind="image/jpeg"):
    return {"name": name, "mimeType": kind, "buffer": picture() if data is None else data}


def refusal(status, code, message, **headers):
    return status, {"error": {"code": code, "message": message}}, headers


class FakeService:
    """Answers the page's requests; what it was asked is kept."""

    def __init__(self):
        self.maps = {"town": copy.deepcopy(RECORDED["info"])}
        self.answers = [copy.deepcopy(RECORDED["found"])]  # to questions, in turn; the last one stays
        self.key = None
        self.asked = []  # (query, headers, body)
        self.large = True
        self.offline = False
        self.photo = picture("#9aa87a", (192, 144))

    def __call__(self, route):
        request = route.request
        url = urlsplit(request.url)
        if url.path == "/" or url.path.startswith("/page/"):
            file = PAGE / (url.path.removeprefix("/page/") if url.path != "/" else "index.html")
            headers = {"Content-Security-Policy": POLICY, "Content-Type": KINDS[file.suffix]}
            return route.fulfill(body=file.read_bytes(), headers=headers)
        if self.offline:
            return route.abort("connectionrefused")
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            status, said, headers = refusal(401, "unauthorised", "A key is needed.")
        else:
            status, said, headers = self.reply(request, url)
        if isinstance(said, bytes):
            return route.fulfill(status=status, body=said, content_type="image/jpeg")
        return route.fulfill(status=status, json=said, headers={"Content-Type": "application/json", **headers})

    def reply(self, request, url):
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        info = self.maps.get(query.get("map", "town"))
        if url.path == "/v1/maps":
            return 200, {"maps": [{"name": name, "photos": one["photos"]} for name, one in self.maps.items()]}, {}
        if url.path == "/v1/map":
            return 200, info, {}
        if url.path == "/v1/cameras":
            return 200, RECORDED["cameras"], {}
        if found := re.fullmatch(r"/v1/places/(\d+)(/photo)?", url.path):
            row = int(found[1])
            if found[2]:
                return (404, {}, {}) if query["size"] == "large" and not self.large else (200, self.photo, {})
            at = {name: RECORDED["cameras"][name][row] for name in ("easting", "northing")}
            place = {"id": row, "image": f"IMG_{row:04d}.jpg", "position": {**at, "latitude": 35.1, "longitude": 129.0}}
            return 200, {**place, "heading": 12.5, "time": "2024-01-03T10:00:00", "condition": None}, {}
        assert url.path == "/v1/locate", url
        self.asked.append((query, request.headers, request.post_data_buffer))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, tuple) else (200, answer, {})


@pytest.fixture(scope="module")
def browser():
    chromium = (
        os.environ.get("SAMESPOT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    )
    if chromium is None:
        pytest.skip("no Chromium on this machine; install it, or name it with SAMESPOT_CHROMIUM")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def service():
    return FakeService()


@pytest.fixture
def opened(browser, service):
    """Opens the page; what it complains of fails the test, and so does a request to anywhere else."""
    contexts, trouble = [], []

    def open_at(path="", *, width=1280, height=800, expected=(), **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.route("**/*", service)
        page = context.new_page()
        page.set_default_timeout(10_000)

        def complain(message):
            refused = [f"status of {status}" for status in expected]
            if message.type in ("error", "warning") and not any(one in message.text for one in refused):
                trouble.append(message.text)

        page.on("console", complain)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith((HOME, "blob:", "data:")) else trouble.append(asked.url),
        )
        page.goto(HOME + path)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert trouble == []


def ask(page, *photos):
    page.set_input_files("#files", list(photos) or [photo()])
