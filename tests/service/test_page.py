"""The page in a real browser, against a service that answers what a real map once did."""

import copy
import json
import re
from email import message_from_bytes
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image, ImageDraw
from scipy.spatial.transform import Rotation

from samespot.figures.report_sections.looks import THEMES
from samespot.places.exif import exif_camera

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
        pen.rectangle(
            (left, tall * (0.2 + 0.07 * (i % 3)), left + wide / 7, tall * 0.7), fill=f"#{8 + i}{i}{6}"
        )
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
        return route.fulfill(
            status=status, json=said, headers={"Content-Type": "application/json", **headers}
        )

    def reply(self, request, url):
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        info = self.maps.get(query.get("map", "town"))
        if url.path == "/v1/maps":
            listed = [{"name": name, "photos": one["photos"]} for name, one in self.maps.items()]
            return 200, {"maps": listed}, {}
        if url.path == "/v1/map":
            return 200, info, {}
        if url.path == "/v1/cameras":
            return 200, RECORDED["cameras"], {}
        if found := re.fullmatch(r"/v1/places/(\d+)(/photo)?", url.path):
            row = int(found[1])
            if found[2]:
                return (404, {}, {}) if query["size"] == "large" and not self.large else (200, self.photo, {})
            at = {name: RECORDED["cameras"][name][row] for name in ("easting", "northing")}
            place = {
                "id": row,
                "image": f"IMG_{row:04d}.jpg",
                "position": {**at, "latitude": 35.1, "longitude": 129},
            }
            return 200, {**place, "heading": 12.5, "time": "2024-01-03T10:00:00", "condition": None}, {}
        assert url.path == "/v1/locate", url
        self.asked.append((query, request.headers, request.post_data_buffer))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, tuple) else (200, answer, {})


@pytest.fixture
def service():
    return FakeService()


@pytest.fixture
def opened(browser, service):
    """Opens the page; what it complains of fails the test, and so does a request to anywhere else."""
    contexts, trouble = [], []

    def open_at(path="", *, width=1280, height=800, expected=(), answering=service, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.route("**/*", answering)
        page = context.new_page()
        page.set_default_timeout(10_000)

        def complain(message):
            known = any(str(one) in message.text for one in expected)
            if message.type in ("error", "warning") and not known:
                trouble.append(message.text)

        page.on("console", complain)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                None if asked.url.startswith((HOME, "blob:", "data:")) else trouble.append(asked.url)
            ),
        )
        page.goto(HOME + path)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert trouble == []


def ask(page, *photos):
    page.set_input_files("#files", list(photos) or [photo()])


def text(found):
    return found.inner_text().replace("\u00a0", " ")


def headline(page):
    return text(page.locator("#answer .card h2"))


def announced(page, words):
    page.locator("#status", has_text=words).wait_for(state="attached")


# ---- answers ----


def test_a_photo_is_found_and_the_page_says_how_sure_and_where(opened, service):
    page = opened()
    page.locator("#map-facts", has_text="535 photos").wait_for()
    ask(page)
    page.wait_for_selector(".card.here")
    assert headline(page) == "Very likely here: 99 %"
    announced(page, "Very likely here: 99 %. Position 35.117501, 129.003864. 5 matches.")
    told = text(page.locator("#answer"))
    assert "35.117501, 129.003864" in told
    assert "500352.1 east, 3886073.6 north" in told
    assert "Within 25 m of this position, facing east (86°)" in told
    tiles = [text(one) for one in page.locator(".tile").all()]
    assert len(tiles) == 5
    assert "Shares about 78 % of the view" in tiles[0]
    assert "116 points agree" in tiles[0]
    assert "3 m away" in tiles[0]
    assert "Another place" in tiles[4]
    assert "Shares" not in tiles[4]  # what another place shares means nothing
    assert "3 of 5 matches are there" in page.locator("#map-words").text_content()
    query, headers, body = service.asked[0]
    assert (query["map"], query["k"], query["pairs"]) == ("town", "5", "true")
    assert headers["content-type"] == "image/png"
    sent, given = (
        np.asarray(Image.open(BytesIO(data)).convert("RGB"), dtype=int) for data in (body, picture())
    )
    assert np.abs(sent - given).max() <= 2  # a small photo loses nothing


@pytest.mark.parametrize(
    ("probability", "found", "words"),
    [
        (0.9996, True, "Very likely here: over 99 %"),
        (0.7, True, "Likely here: 70 %"),
        (0.55, True, "More likely here than not: 55 %"),
        (0.7, False, "Not sure enough to say: 70 %"),
        (0.44, False, "Probably not in this map"),
        (0.0, False, "Not in this map"),
    ],
)
def test_the_words_fit_the_probability_and_never_say_a_hundred(opened, service, probability, found, words):
    service.answers[0].update(probability=probability, found=found)
    page = opened()
    ask(page)
    page.wait_for_selector(".card h2")
    assert headline(page) == words
    assert " 100 %" not in text(page.locator("body"))


def test_not_in_this_map_is_as_clear_as_a_find(opened, service):
    service.answers = [RECORDED["lost"]]
    page = opened()
    ask(page)
    page.wait_for_selector(".card.lost")
    assert headline(page) == "Not in this map"
    announced(page, "Not in this map. The photo was not found.")
    told = text(page.locator("#answer"))
    assert "chance of 2 %" in told
    assert "Do not rely on it" in told
    assert page.locator(".where").count() == 0  # no coordinates to copy
    assert "not on the map" in page.locator("#map-words").text_content()
    assert "your photo" not in text(page.locator("#map-key"))
    assert "other places" in text(page.locator("#matches-title"))


def test_a_map_without_projection_answers_in_metres(opened, service):
    service.maps["town"]["projection"] = None
    answer = service.answers[0]
    for one in (answer, *answer["matches"]):
        one["position"].update(latitude=None, longitude=None)
    answer["heading"] = None
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    assert page.locator(".where dt").all_inner_texts() == ["Metres on the map"]
    announced(page, "500352.1 east, 3886073.6 north")
    assert "facing" not in text(page.locator("#answer"))


def test_coordinates_are_copied(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    ask(page)
    page.locator(".where button").first.click()
    page.locator(".where button", has_text="Copied").wait_for()
    # by the old way: what is not served over https may not use the new one
    page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'pasted' }))")
    page.locator("#pasted").focus()
    page.keyboard.press("Control+V")
    assert page.locator("#pasted").input_value() == "35.117501, 129.003864"


def test_several_photos_become_a_track_in_the_order_of_their_names(opened, service):
    broken = {"format": 1, "photo": "e", "found": False, "trouble": "broken"}
    service.answers = [{"format": 1, "answers": [*RECORDED["track"][:4], broken]}]
    page = opened()
    names = ["p10.jpg", "p2.jpg", "p1.jpg", "p4.jpg", "p3.jpg"]
    ask(page, *[photo(name) for name in names], photo("notes.txt", b"hello", "text/plain"))
    page.wait_for_selector(".strip")
    query, headers, body = service.asked[0]
    sent = message_from_bytes(b"Content-Type: " + headers["content-type"].encode() + b"\n\n" + body)
    assert [part.get_filename() for part in sent.get_payload()] == [f"p{i}.jpg" for i in (1, 2, 3, 4, 10)]
    assert (query["track"], query["every"]) == ("true", "10")
    assert "4 of 5 photos found" in text(page.locator("#answer"))
    assert "not photos were left out" in text(page.locator("#answer"))
    announced(page, "4 of 5 photos found")
    steps = page.locator(".step")
    assert steps.nth(0).get_attribute("aria-label") == "Photo 1, p1.jpg: Very likely here: over 99\u00a0%"
    steps.nth(4).click()
    assert headline(page) == "This photo could not be read"
    assert "photo=5" in page.url
    steps.nth(2).click()
    page.go_back()
    page.locator(".step[aria-current]", has_text="unreadable").wait_for()
    page.locator("#walk").click()
    page.wait_for_selector(".strip")
    assert "track" not in service.asked[1][0]


def test_no_more_photos_are_sent_than_the_service_takes(opened, service):
    service.maps["town"]["limits"]["images"] = 2
    service.answers = [{"format": 1, "answers": RECORDED["track"][:2]}]
    page = opened()
    ask(page, *[photo(f"{i}.jpg") for i in range(4)])
    page.wait_for_selector(".strip")
    assert "Only the first 2 of 4 photos" in text(page.locator("#answer"))


def test_the_page_and_the_real_service_understand_each_other(opened, serving, street, tmp_path):
    (tmp_path / "keys").write_text("a secret of the street\n")
    queries = [street / f"query{number:02d}.png" for number in (3, 4, 12)]
    with serving(keys=tmp_path / "keys") as client:

        def forward(route):
            url = urlsplit(route.request.url)
            told = client.request(
                route.request.method,
                f"{url.path}?{url.query}",
                headers={name: value for name, value in route.request.headers.items() if name != "host"},
                content=route.request.post_data_buffer,
            )
            route.fulfill(status=told.status_code, headers=dict(told.headers), body=told.content)

        page = opened(answering=forward, expected=[401, 404, "Opener-Policy"])
        page.fill("#key-input", "a secret of the street")
        page.keyboard.press("Enter")
        page.locator("#map-facts", has_text="photos in this map").wait_for(state="attached")
        assert page.locator("#map-select option").count() == 2
        page.set_input_files("#files", queries[0])
        page.wait_for_selector(".card.here")
        assert "Latitude, longitude" in text(page.locator("#answer"))
        page.locator(".tile").first.click()
        page.wait_for_selector("#compare[open] .lines line")
        assert page.locator("#compare-title .name").inner_text().startswith("03-")
        page.keyboard.press("Escape")
        page.locator("#compare").wait_for(state="hidden")
        page.select_option("#map-select", "flat")
        page.locator(".where dt", has_text="Metres on the map").wait_for()
        page.set_input_files("#files", queries[2])
        page.wait_for_selector(".card.lost")
        page.set_input_files("#files", queries)
        page.locator(".track-head h2", has_text="2 of 3 photos found").wait_for()


# ---- poses ----


def pose_of(heading=90.0, moved=(3.0, 0.0), **more):
    """A level camera in the frame of east, north and up, so far from the answer's position; as the service tells it."""
    at = RECORDED["found"]["position"]
    turned = Rotation.from_euler("ZX", [-heading, -90.0], degrees=True)
    told = {
        "centre": [at["easting"] + moved[0], at["northing"] + moved[1], 1.7],
        "quaternion": turned.as_quat(scalar_first=True).tolist(),
        "covariance": np.diag([0.0064, 0.0036, 0.0044, 0, 0, 0]).tolist(),
        **{"inliers": 871, "matches": 1022, "fov": 60.0, "fov_estimated": False},
        **{"probability": 0.97, "within": [0.5, 5.0]},
    }
    return {**told, **more}


@pytest.fixture
def posing(service):
    """A service whose map gives poses."""
    service.maps["town"]["poses"] = {"from": "depth", "axes": {"east": [1, 0, 0], "north": [0, 1, 0]}}
    service.answers[0].update(pose=pose_of(), no_pose=None)
    return service


def redness(page, answer, spots):
    """How red the map is at spots (east, north [m] of the answer's position)."""
    view = view_of(page)
    at = answer["position"]
    shown = np.asarray(Image.open(BytesIO(page.locator("#map").screenshot())).convert("RGB"), dtype=float)
    tall, wide, _ = shown.shape
    found = []
    for east, north in spots:
        x = wide / 2 + (at["easting"] + east - view[0]) / view[2]
        y = tall / 2 - (at["northing"] + north - view[1]) / view[2]
        red, green, blue = shown[round(y), round(x)]
        found.append(red - (green + blue) / 2)
    return found


def test_a_pose_is_told_in_words_and_drawn_where_the_camera_looks(opened, posing):
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    line = "Camera pose: 0.12 m (1 σ), 871 keypoints agree, 97 %."
    assert text(page.locator(".pose")) == line
    announced(page, "871 keypoints agree")
    assert "500355.07, 3886073.59, 1.70" in text(page.locator(".where"))
    assert "facing east (90°)" in text(page.locator("#answer"))
    assert "Your camera looks east (90°) and sees 60°." in page.locator("#map-words").text_content()
    assert "your camera and what it sees" in text(page.locator("#map-key"))
    assert posing.asked[0][0]["pose"] == "true"
    page.locator("summary").click()
    assert "right within 0.5 m and 5°" in text(page.locator("details"))
    inside, beside, behind = redness(page, posing.answers[0], [(15, 3), (10, 12), (-10, 3)])
    assert inside > 1.5 * max(beside, behind) > 0


@pytest.mark.parametrize("heading", [0.0, 225.0])
def test_the_frustum_turns_with_the_pose(opened, posing, heading):
    posing.answers[0]["pose"] = pose_of(heading, (-4.0, 4.0), fov=50.0)
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    spots = [
        (-4 + 14 * np.sin(np.radians(to)), 4 + 14 * np.cos(np.radians(to)))
        for to in (heading, heading + 90, heading + 180, heading + 270)
    ]
    ahead, *others = redness(page, posing.answers[0], spots)
    assert ahead > 1.5 * max(others)


def test_a_room_whose_poses_have_other_axes(opened, posing):
    at = RECORDED["found"]["position"]
    posing.maps["town"]["poses"]["axes"] = {"east": [1, 0, 0], "north": [0, 0, 1]}  # y down
    looking = Rotation.from_euler("Y", 90.0, degrees=True).as_quat(scalar_first=True).tolist()
    posing.answers[0]["pose"] = pose_of(quaternion=looking, centre=[at["easting"], 1.5, at["northing"]])
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    assert "facing east (90°)" in text(page.locator("#answer"))
    ahead, behind = redness(page, posing.answers[0], [(15, 2), (-10, 2)])
    assert ahead > 1.5 * behind


def test_poses_that_are_not_on_the_plane_stand_at_the_position(opened, posing):
    posing.maps["town"]["poses"]["axes"] = None
    posing.answers[0].update(pose=pose_of(centre=[0.1, 0.2, 0.3]), heading=180.0)
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    assert "facing south (180°)" in text(page.locator("#answer"))
    ahead, behind = redness(page, posing.answers[0], [(2, -15), (2, 15)])
    assert ahead > 1.5 * behind


def test_a_doubtful_pose_is_told_as_such_and_does_not_move_the_answer(opened, posing):
    posing.answers[0]["pose"] = pose_of(probability=0.04, fov_estimated=True)
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    told = text(page.locator(".pose"))
    assert told.startswith("Camera pose, not to be relied on: 0.12 m (1 σ), 871 keypoints agree, 4 %.")
    assert told.endswith("Its field of view, 60°, was estimated, too.")
    assert "facing east (86°)" in text(page.locator("#answer"))  # as without a pose
    assert "Camera centre" not in text(page.locator(".where"))
    assert "Your camera looks" not in page.locator("#map-words").text_content()


def test_that_no_photo_passes_the_filter_is_told_in_the_place_of_a_guess(opened, service):
    why = "no photo of this map, which has 40, passes the filter near 1m,2m,3"
    service.answers[0].update(found=False, probability=0.0, position=None, matches=[], no_match=why)
    page = opened()
    ask(page)
    card = page.wait_for_selector(".card.lost").inner_text()
    assert "No photo of this map, which has 40, passes the filter near 1m,2m,3." in card
    assert "guess" not in card
    assert page.locator("#matches").is_hidden()


def test_no_pose_says_why_and_a_map_without_is_not_asked(opened, posing):
    posing.answers[0].update(pose=None, no_pose="only 9 of 214 keypoints agree on a pose; 12 are needed")
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    why = "No camera pose: only 9 of 214 keypoints agree on a pose; 12 are needed."
    assert text(page.locator(".pose")) == why
    announced(page, why)
    assert "your camera" not in text(page.locator("#map-key"))
    posing.maps["town"]["poses"] = None
    posing.answers[0].update(no_pose=None)
    page.reload()
    ask(page)
    page.wait_for_selector(".card.here")
    assert page.locator(".pose").count() == 0
    assert "pose" not in posing.asked[-1][0]


def with_film(film, byte_order, size=(3000, 2000), turned=1):
    exif = Image.Exif()
    exif.endian = byte_order
    exif[0x0112] = turned
    exif.get_ifd(0x8825)[1] = "N"
    exif.get_ifd(0x8769).update({0x920A: 5.7, 0xA405: film})
    return picture(size=size, exif=exif)


@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_the_focal_length_goes_with_the_photo_that_lost_its_exif_data(opened, posing, byte_order):
    data = with_film(28, byte_order, turned=6)
    page = opened()
    ask(page, photo(data=data))
    page.wait_for_selector(".card.here")
    query, _, body = posing.asked[0]
    assert not Image.open(BytesIO(body)).getexif()
    known = exif_camera(data).scaled(1600, 1067)
    told = [float(one) for one in query["camera"].split(",")]
    assert told == pytest.approx([1067, 1600, known.fx, known.fy, known.cx, known.cy], rel=1e-3)


@pytest.mark.parametrize(
    "data",
    [
        picture(),
        picture(kind="PNG"),
        with_film(0, "<"),
        with_film(60_000, "<"),
        picture(exif=b"Exif\0\0II*\0\xff\xff\xff\x7f" + bytes(40)),  # a list beyond the end of the file
    ],
)
def test_a_file_that_tells_no_focal_length_is_asked_about_all_the_same(opened, posing, data):
    page = opened()
    ask(page, photo(data=data))
    page.wait_for_selector(".card.here")
    assert "camera" not in posing.asked[0][0]
    assert posing.asked[0][0]["pose"] == "true"


# ---- what is sent ----


def with_gps(turned=6, size=(3000, 2000)):
    exif = Image.Exif()
    exif[0x0112] = turned
    exif.get_ifd(0x8825)[1] = "N"
    return picture(size=size, exif=exif)


def test_a_large_photo_is_sent_smaller_upright_and_without_gps(opened, service):
    data = with_gps()
    assert Image.open(BytesIO(data)).getexif().get_ifd(0x8825)
    page = opened()
    ask(page, photo(data=data))
    page.wait_for_selector(".card.here")
    sent = Image.open(BytesIO(service.asked[0][2]))
    assert (sent.format, sent.size) == ("JPEG", (1067, 1600))
    assert not sent.getexif()
    assert "Sent at 1067 × 1600 pixels, without GPS data." in text(page.locator("#answer"))


def test_a_photo_that_the_browser_cannot_open_is_sent_as_it_is(opened, service):
    page = opened()
    ask(page, photo("IMG_1.HEIC", b"\0\0\0\x18ftypheic" + bytes(100), ""))
    page.wait_for_selector(".card.here")
    assert service.asked[0][1]["content-type"] == "image/heic"
    assert service.asked[0][2].startswith(b"\0\0\0\x18ftypheic")
    assert "Sent as it is" in text(page.locator("#answer"))
    service.maps["town"]["limits"]["bytes"] = 50
    page.reload()
    ask(page, photo("IMG_1.HEIC", b"\0\0\0\x18ftypheic" + bytes(100), ""))
    page.wait_for_selector(".trouble-card")
    assert headline(page) == "The photo is too large"
    assert len(service.asked) == 1


def test_a_photo_is_dropped_or_pasted(opened, service):
    page = opened()
    data = list(picture())
    handed = page.evaluate_handle(
        "data => { const box = new DataTransfer();"
        " box.items.add(new File([new Uint8Array(data)], 'dropped.jpg', { type: 'image/jpeg' })); return box; }",
        data,
    )
    page.dispatch_event("body", "dragenter", {"dataTransfer": handed})
    assert page.locator(".dropping").is_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": handed})
    page.wait_for_selector(".card.here")
    assert not page.locator(".dropping").is_visible()
    page.evaluate(
        "box => document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: box, cancelable: true }))",
        handed,
    )
    announced(page, "Very likely here")
    page.wait_for_timeout(300)
    assert len(service.asked) == 2
    ask(page, photo("a.pdf", b"%PDF", "application/pdf"))
    page.wait_for_selector(".trouble-card")
    assert headline(page) == "This is not a photo"


# ---- both photos ----


def test_a_match_opens_beside_the_photo_with_lines_and_back_closes_it(opened, service):
    service.large = False
    page = opened(expected=[404])
    ask(page)
    page.locator(".tile").nth(1).click()
    page.wait_for_selector("#compare[open] .lines line")
    assert page.locator("#compare-title").inner_text() == "Match 2 of 5 IMG_0104.jpg"
    assert page.locator(".lines line").count() == len(RECORDED["found"]["matches"][1]["pairs"])
    assert "(" in text(page.locator(".told p"))  # the interval
    row = RECORDED["found"]["matches"][1]["row"]
    assert f"place={row}" in page.url
    assert "2024-01-03 10:00:00" in text(page.locator(".told"))
    # the first line begins where the pair says
    x, y = RECORDED["found"]["matches"][1]["pairs"][0][:2]
    box = page.locator(".pair img").first.bounding_box()
    begins = page.locator(".lines circle").first.bounding_box()
    assert begins["x"] + begins["width"] / 2 == pytest.approx(box["x"] + x * box["width"], abs=2)
    assert begins["y"] + begins["height"] / 2 == pytest.approx(box["y"] + y * box["height"], abs=2)
    page.locator("#show-lines").click()
    assert page.locator(".lines line").count() == 0
    page.locator("[data-step='1']").click()
    page.locator("#compare-title", has_text="Match 3 of 5").wait_for()
    page.go_back()
    page.locator("#compare").wait_for(state="hidden")
    assert "place=" not in page.url
    page.go_forward()
    page.locator("#compare-title", has_text="Match 3 of 5").wait_for()
    page.locator("[data-close]").click()
    page.locator("#compare").wait_for(state="hidden")


def test_an_address_opens_its_place_and_view(opened):
    page = opened("?place=7&view=500100,3886100,0.2")
    page.locator("#compare-title", has_text="A photo of the map").wait_for()
    assert page.locator(".pair img").count() == 1
    page.keyboard.press("Escape")
    page.locator("#compare").wait_for(state="hidden")
    page.wait_for_timeout(500)
    assert "place=" not in page.url
    assert "view=500100.0,3886100.0,0.2" in page.url
    page.locator("[data-zoom=all]").click()
    page.wait_for_timeout(500)
    assert "view=" not in page.url


def test_another_map_is_asked_about_the_same_photo(opened, service):
    service.maps["campus"] = {**service.maps["town"], "name": "campus", "photos": 77}
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    page.select_option("#map-select", "campus")
    page.locator("#map-facts", has_text="77 photos").wait_for(state="attached")
    announced(page, "Very likely here")
    assert service.asked[-1][0]["map"] == "campus"
    assert "map=campus" in page.url
    page.go_back()
    page.locator("#map-facts", has_text="535 photos").wait_for(state="attached")
    assert page.locator("#map-select").input_value() == "town"


# ---- the map ----


def view_of(page, before=None):
    """What the address says that the map shows, as soon as it is something else than before and stays so."""
    seen = before
    for _ in range(40):
        page.wait_for_timeout(400)
        found = re.search(r"view=([\d.,]+)", page.url)
        now = [float(one) for one in found[1].split(",")] if found else None
        if now == seen != before:
            return now
        seen = now
    pytest.fail(f"the map still shows {before}")


def test_the_map_moves_by_mouse_and_opens_the_camera_that_is_clicked(opened):
    page = opened()
    ask(page)
    page.wait_for_selector(".card.here")
    first = view_of(page)
    box = page.locator("#map").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    closer = view_of(page, first)
    assert closer[2] == pytest.approx(first[2] / 1.41, rel=0.02)
    page.mouse.down()
    page.mouse.move(middle[0] + 100, middle[1] + 50, steps=4)
    page.mouse.up()
    moved = view_of(page, closer)
    assert moved[0] == pytest.approx(closer[0] - 100 * closer[2], abs=0.5)
    assert moved[1] == pytest.approx(closer[1] + 50 * closer[2], abs=0.5)
    match = RECORDED["found"]["matches"][0]
    x = middle[0] + (match["position"]["easting"] - moved[0]) / moved[2]
    y = middle[1] - (match["position"]["northing"] - moved[1]) / moved[2]
    page.mouse.click(x, y)
    page.locator("#compare-title", has_text="Match 1 of 5").wait_for()


def test_two_fingers_zoom(opened):
    page = opened(width=390, height=844, has_touch=True)
    page.wait_for_timeout(300)
    page.evaluate(
        """() => {
          const map = document.getElementById("map"), box = map.getBoundingClientRect();
          map.setPointerCapture = () => {};
          const at = (type, pointerId, x) => map.dispatchEvent(new PointerEvent(type, {
            pointerId, pointerType: "touch", clientX: box.left + x, clientY: box.top + 100,
          }));
          at("pointerdown", 1, 100); at("pointerdown", 2, 200); at("pointermove", 1, 50); at("pointermove", 2, 250);
          at("pointerup", 1, 50); at("pointerup", 2, 250);
        }"""
    )
    assert view_of(page) is not None
    assert page.locator("dialog[open]").count() == 0


def test_all_of_it_works_by_keyboard(opened):
    page = opened()
    page.on("filechooser", lambda chooser: chooser.set_files([photo()]))
    page.locator("#map-facts", has_text="535").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "choose"
    page.keyboard.press("Enter")
    page.wait_for_selector(".card.here")

    def tab_to(expression):
        for _ in range(20):
            if page.evaluate(f"document.activeElement.matches('{expression}')"):
                return
            page.keyboard.press("Tab")
        pytest.fail(f"never came to {expression}")

    tab_to(".where button")
    tab_to("summary")
    page.keyboard.press("Enter")
    assert "400 questions" in text(page.locator("details p"))
    tab_to("#map")
    assert page.locator("#map-help").evaluate("one => getComputedStyle(one).opacity") == "1"
    before = view_of(page)
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    after = view_of(page, before)
    assert after[2] < before[2]
    assert after[0] > before[0]
    page.keyboard.press("0")
    assert view_of(page, after) is None
    page.keyboard.press("Enter")
    page.wait_for_selector("#compare[open]")
    page.keyboard.press("Escape")
    page.locator("#compare").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.id") == "map"
    tab_to(".tile")
    page.keyboard.press("Enter")
    page.locator("#compare-title", has_text="Match 1 of 5").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator("#compare-title", has_text="Match 2 of 5").wait_for()
    for _ in range(12):  # focus stays in the dialog, or leaves the document for the browser
        page.keyboard.press("Tab")
        assert page.evaluate(
            "(one => one === document.body || Boolean(one.closest('#compare')))(document.activeElement)"
        )
    page.keyboard.press("Escape")
    page.locator("#compare").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.className").startswith("tile")


# ---- troubles ----


@pytest.mark.parametrize(
    ("status", "said", "title", "helps", "again"),
    [
        (413, "20 MB are the most.", "The photo is too large", "20 MB are the most.", False),
        (415, "GIF is not read.", "This kind of file cannot be read", "GIF is not read. JPEG", False),
        (422, "The file ends early.", "The photo cannot be read", "The file ends early.", False),
        (429, "Many are asking.", "The service is busy", "Many are asking.", True),
        (503, "", "The service is not ready yet", "loading its map", True),
        (500, "", "Something went wrong in the service", "", True),
    ],
)
def test_a_refusal_is_told_in_words_that_help(opened, service, status, said, title, helps, again):
    wait = {"Retry-After": "1"} if status == 429 else {}
    service.answers = [refusal(status, "code", said, **wait), RECORDED["found"]]
    page = opened(expected=[status])
    ask(page)
    page.wait_for_selector(".trouble-card[role=alert]")
    assert headline(page) == title
    assert helps in text(page.locator(".trouble-card"))
    button = page.get_by_role("button", name="Try again")
    assert button.count() == again
    if again:
        button.click()  # as soon as it may be
        page.wait_for_selector(".card.here")


def test_without_connection_the_page_says_so_and_tries_again(opened, service):
    service.offline = True
    page = opened(expected=["ERR_CONNECTION_REFUSED"])
    page.wait_for_selector(".trouble-card")
    assert headline(page) == "The service cannot be reached"
    service.offline = False
    page.get_by_role("button", name="Try again").click()
    page.locator("#map-facts", has_text="535 photos").wait_for()
    page.reload()
    service.offline = True
    page.reload()
    page.wait_for_selector(".trouble-card")
    ask(page)  # tries once more
    page.wait_for_timeout(300)
    assert headline(page) == "The service cannot be reached"
    service.offline = False
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".card.here")


def test_a_key_is_asked_for_once_kept_in_the_tab_and_sent_for_photos_too(opened, service):
    service.key = "right"
    page = opened(expected=[401])
    page.wait_for_selector("#key[open]")
    for _ in range(2):
        page.keyboard.press("Escape")
        page.wait_for_timeout(50)
        assert page.locator("#key").is_visible()  # there is nothing to see without one
    page.fill("#key-input", "wrong")
    page.keyboard.press("Enter")
    page.locator("#key-trouble", has_text="does not accept").wait_for()
    page.fill("#key-input", "right")
    page.keyboard.press("Enter")
    page.locator("#map-facts", has_text="535 photos").wait_for()
    ask(page)
    page.wait_for_selector(".tile img[src^=blob]")
    assert service.asked[0][1]["authorization"] == "Bearer right"
    assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
    page.reload()
    page.locator("#map-facts", has_text="535 photos").wait_for()
    assert not page.locator("#key").is_visible()


def test_names_are_text_and_never_a_script(opened, service):
    evil = "<img src=x onerror=alert(1)>.jpg"
    service.answers[0]["matches"][0]["image"] = evil
    page = opened()
    ask(page, photo(evil))
    page.wait_for_selector(".card.here")
    assert evil in page.locator(".tile").first.inner_text()


# ---- for everyone ----


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_nothing_is_wider_than_the_window(opened, posing, width):
    service, track = posing, {"format": 1, "answers": RECORDED["track"]}
    service.answers = [service.answers[0], RECORDED["lost"], track]
    service.maps["the east side of the campus and its gardens"] = service.maps["town"]
    page = opened(width=width, has_touch=True)
    page.locator("#map-facts", has_text="535").wait_for(state="attached")

    def fits():
        return page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    assert fits()
    ask(page)
    page.wait_for_selector(".card.here")
    assert fits()
    page.locator(".tile").first.click()
    page.wait_for_selector("#compare[open] .lines line")
    assert fits()
    assert page.evaluate("(d => d.scrollWidth <= d.clientWidth)(document.getElementById('compare'))")
    two = [one.bounding_box() for one in page.locator(".pair img").all()]
    assert (two[0]["y"] < two[1]["y"]) == (width < 640)  # one above the other on a phone
    page.keyboard.press("Escape")
    ask(page)
    page.wait_for_selector(".card.lost")
    assert fits()
    ask(page, photo("a.jpg"), photo("b.jpg"))
    page.wait_for_selector(".strip")
    assert fits()


def test_nothing_moves_for_those_who_do_not_wish_it(opened):
    page = opened(reduced_motion="reduce")
    ask(page)
    page.wait_for_selector(".card.here")
    page.wait_for_timeout(350)
    assert "view=" in page.url  # there at once
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_are_those_of_the_report(opened, scheme):
    page = opened(color_scheme=scheme)
    names = re.findall(r"--([a-z]+): #", (PAGE / "page.css").read_text())
    assert len(names) >= 24
    for name in set(names):
        told = page.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"
        )
        assert told == THEMES[scheme][name], name


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 390)]
)  # colours do not depend on widths
def test_axe_finds_nothing_to_complain_of(opened, posing, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def complaints():
        page.wait_for_timeout(200)
        told = axe.run(page, options={}).response
        assert "color-contrast" in [one["id"] for one in told["passes"]]  # it looked
        return [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in told["violations"]]

    service, track = posing, {"format": 1, "answers": RECORDED["track"]}
    service.key = "key"
    service.answers = [service.answers[0], RECORDED["lost"], refusal(503, "starting", "Starting."), track]
    page = opened(color_scheme=scheme, width=width, expected=[401, 503], reduced_motion="reduce")
    page.wait_for_selector("#key[open]")
    assert complaints() == []
    page.fill("#key-input", "key")
    page.keyboard.press("Enter")
    page.locator("#map-facts", has_text="535").wait_for()
    assert complaints() == []
    ask(page)
    page.wait_for_selector(".card.here")
    page.locator("summary").click()
    assert complaints() == []
    page.locator(".tile").first.click()
    page.wait_for_selector("#compare[open] .lines line")
    assert complaints() == []
    page.keyboard.press("Escape")
    ask(page)
    page.wait_for_selector(".card.lost")
    assert complaints() == []
    ask(page)
    page.wait_for_selector(".trouble-card")
    assert complaints() == []
    ask(page, photo("a.jpg"), photo("b.jpg"))
    page.wait_for_selector(".strip")
    assert complaints() == []
