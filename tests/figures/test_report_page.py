"""The report in a real browser: nothing goes wrong, nothing is fetched, it answers, it fits a phone and a dark room."""

import math
import re
from contextlib import contextmanager
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from samespot.figures.report import write_report
from samespot.figures.report_runs import ActivationRow, RunDifferences, load_runs


@pytest.fixture(scope="module")
def report(two_runs, tmp_path_factory):
    runs = load_runs([two_runs.folders["graded"], two_runs.folders["binary"]])
    dice = np.random.default_rng(0)
    runs[0].__dict__["measured"] = runs[0].rule  # as if depth images told what two photos share
    return write_report(
        runs,
        tmp_path_factory.mktemp("page") / "report.html",
        differences=[RunDifferences(dice.normal(size=(40, 2)), dice.random(40), run.name) for run in runs],
        activations=[ActivationRow(two_runs.case.queries.images[4], {run.name: np.eye(3) for run in runs})],
    )


@contextmanager
def opening(browser, report):
    """Opens the report; whatever it complains of or asks the network for fails the test."""
    contexts, trouble = [], []

    def open_at(width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "request",
            lambda asked: trouble.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None,
        )
        page.goto(report.as_uri())
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.fixture
def opened(browser, report):
    with opening(browser, report) as open_at:
        yield open_at


@pytest.fixture(scope="module")
def drawing(browser, report):
    """One page for all who draw a small map anew."""
    with opening(browser, report) as open_at:
        yield open_at()


def until(page, expression):
    """Waits for what the page says. Playwright's own way evaluates inside the page, which the page forbids."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never came true: {expression}")


def numbers(page):
    """What the explorer says, by name."""
    names = [re.sub(r"d [\d.]+$", "", name) for name in page.locator("#pair-readout dt").all_inner_texts()]
    values = page.locator("#pair-readout dd:not(.bar)").all_inner_texts()
    return dict(zip((name.strip() for name in names), map(float, values), strict=True))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (320, "light")])
def test_it_draws_everything_fits_and_runs_no_name_as_a_script(opened, width, scheme):
    page = opened(width, scheme)
    assert page.evaluate(
        "[...document.querySelectorAll('div.plot')].every((box) => box.querySelector('.main-svg'))"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("[...document.images].every((one) => one.complete && one.naturalWidth > 0)")
    assert page.evaluate("[...document.images].every((one) => one.alt.length > 0)")
    assert page.evaluate("window.hacked") is None
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 200) == (scheme == "dark")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_capture_of_the_whole_page_has_every_chart(opened, width):
    """They used to be drawn when they came near the screen: whoever captured the page at once got empty boxes."""
    page = opened(width)
    with Image.open(BytesIO(page.screenshot(full_page=True))) as picture:
        whole = np.asarray(picture.convert("RGB"))
    boxes = [box.bounding_box() for box in page.query_selector_all("div.plot")]
    assert len(boxes) > 8
    for box in boxes:
        x, y, wide, tall = (round(box[side]) for side in ("x", "y", "width", "height"))
        drawn = whole[y : y + tall, x : x + wide].reshape(-1, 3)
        assert drawn.shape == (wide * tall, 3)
        spread = drawn.max(axis=1).astype(int) - drawn.min(axis=1)
        coloured = int((spread > 40).sum())  # lines, bars and dots have colours, axes and words are grey
        assert coloured > 60, box


def test_a_map_without_a_width_complains_of_nothing_and_is_fitted_when_it_has_one(opened):
    """As it happens while a page is laid out; `opened` fails on any complaint."""
    page = opened()
    town = "document.querySelector('.town svg')"
    before = page.evaluate(f"{town}.getAttribute('viewBox')")
    page.evaluate(f"{town}.style.width = '0'")
    page.wait_for_timeout(200)
    assert "NaN" not in page.evaluate(f"{town}.getAttribute('viewBox')")
    page.evaluate(f"{town}.style.width = ''")
    page.wait_for_function(f"{town}.getAttribute('viewBox') === '{before}'")


def test_a_printed_page_has_every_chart_and_they_shrink_to_the_paper(opened):
    page = opened()
    page.evaluate("""() => addEventListener("beforeprint", () => {
        window.printed = [...document.querySelectorAll("div.plot")].map((box) =>
            [...box.querySelectorAll(".main-svg")].every((svg) => svg.hasAttribute("viewBox"))
            && box.querySelectorAll(".main-svg .trace path").length > 0);
    })""")
    assert page.pdf().startswith(b"%PDF")
    printed = page.evaluate("window.printed")
    assert len(printed) > 8
    assert all(printed)
    assert page.locator(".main-svg[viewBox]").count() == 0  # the screen is as before
    page.emulate_media(media="print")
    shown = page.evaluate(
        "[...document.querySelectorAll('.main-svg')].map((svg) => svg.getBoundingClientRect().right)"
    )
    assert max(shown) <= 1280


def test_on_paper_tables_are_whole_and_what_can_be_opened_is_open(opened):
    """Paper does not scroll: a table used to end at its edge, and explanations stayed closed."""
    page = opened(680)  # [px] about what is left of the width of a sheet
    page.evaluate("""() => addEventListener("beforeprint", () => {
        const all = [...document.querySelectorAll("details:not(.menu)")];
        window.open_ones = all.filter((one) => !one.querySelector("pre")).map((one) => one.open);
    })""")
    before = page.locator("details[open]").count()
    assert page.pdf().startswith(b"%PDF")
    opened_ones = page.evaluate("window.open_ones")
    assert opened_ones
    assert all(opened_ones)
    assert page.locator("details[open]").count() == before  # the screen is as before
    page.emulate_media(media="print")
    widths = page.evaluate(
        "[...document.querySelectorAll('.table-box table')]"
        ".map((one) => [one.scrollWidth, one.parentElement.clientWidth])"
    )
    assert len(widths) >= 2
    assert all(table <= room + 1 for table, room in widths), widths


@pytest.mark.parametrize("corner", [(-1, -1), (1, -1), (-1, 1), (1, 1)])
def test_the_scale_of_a_small_map_is_in_a_corner_without_a_camera(drawing, corner):
    towards = math.degrees(math.atan2(*corner))  # each looks at the other, so both stand in a corner
    cameras = [
        [0, 0, towards, 20, "", "ink"],
        [50 * corner[0], 50 * corner[1], towards + 180, 20, "a1", "right"],
    ]
    scale, dots = drawing.evaluate(
        """(cameras) => {
            const svg = document.querySelector(".sector-map");
            sectorMap.draw(svg, cameras, 30);
            const box = (one) => { const b = one.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; };
            return [box(svg.querySelector("rect")), [...svg.querySelectorAll("circle")].map(box)];
        }""",
        cameras,
    )
    assert len(dots) == 2
    for left, top, right, bottom in dots:
        assert right < scale[0] or left > scale[2] or bottom < scale[1] or top > scale[3]


CAMERAS = [
    # east, north, heading, opening, name, colour: two at one place, and far ones in one direction and in two
    [[0, 0, 0, 90, "", "ink"], [1, 1, 5, 90, "a1", "right"], [1, 1, 5, 90, "b1", "right"]],
    [[0, 0, 0, 90, "", "ink"], [-90, -170, 0, 90, "a1", "wrong"], [-90, -171, 0, 90, "b1", "wrong"]],
    [[0, 0, 180, 90, "", "ink"], [0, -170, 0, 90, "a1", "wrong"], [1, 0, 180, 90, "b1", "right"]],
    [[0, 0, 270, 90, "", "ink"], *([-3 * i, -5 * i, 250, 90, str(i), "right"] for i in (1, 2, 3, 40))],
]


@pytest.mark.parametrize("cameras", CAMERAS)
def test_labels_of_a_small_map_do_not_cover_each_other_and_are_inside(drawing, cameras):
    boxes = drawing.evaluate(
        """(cameras) => {
            const svg = document.querySelector(".sector-map");
            sectorMap.draw(svg, cameras, 30);
            const edge = svg.viewBox.baseVal;
            const all = [...svg.querySelectorAll("text")].map((one) => one.getBBox());
            return [[edge.x, edge.y, edge.width, edge.height], ...all.map((b) => [b.x, b.y, b.width, b.height])];
        }""",
        cameras,
    )
    (left, top, side, _), *words = boxes
    assert len(words) == len(cameras)  # a name each but for the query, and the scale
    for i, (x, y, wide, tall) in enumerate(words):
        assert left <= x
        assert x + wide <= left + side
        assert top <= y
        assert y + tall <= top + side
        for u, v, broad, high in words[:i]:
            across, down = min(x + wide, u + broad) - max(x, u), min(y + tall, v + high) - max(y, v)
            assert across <= 0 or down <= 0.02 * side  # boxes of letters have some air above and below


def test_the_explorer_answers_with_the_label_of_the_chosen_pair(opened, two_runs):
    page = opened()
    truth = two_runs.done["graded"].labels[0].dense()
    names = [page.locator(f"#pair-{side} option").all_inner_texts() for side in ("query", "place")]
    for query, place in ((0, 0), (5, 12), *zip(*(axis[:3] for axis in np.nonzero(truth > 0.3)), strict=True)):
        page.select_option("#pair-query", str(query))
        page.select_option("#pair-place", str(place))
        said = numbers(page)
        assert said["label ψ"] == pytest.approx(truth[query, place], abs=0.008)
        assert said["true overlap"] == pytest.approx(truth[query, place], abs=0.008)
        assert names[0][query] in page.get_attribute("#photo-query", "alt")
        assert names[1][place] in page.get_attribute("#photo-place", "alt")
        assert (
            page.locator("#pair-sectors path").count() >= 2
            or page.locator("#pair-sectors polygon").count() == 1
        )


def test_buttons_and_the_map_choose_pairs_from_the_keyboard_and_by_pointer(opened, two_runs):
    page = opened()
    page.get_by_role("button", name="Alike, but told apart").focus()
    page.keyboard.press("Enter")
    first = numbers(page)
    assert first["label ψ"] >= 0.5
    page.keyboard.press("Enter")
    assert numbers(page) != first
    page.get_by_role("button", name="Unlike, but taken for the same").click()
    assert numbers(page)["label ψ"] == 0
    page.get_by_role("button", name="the label").click()
    assert numbers(page)["label ψ"] > 0
    # on the map, the query that stands most alone
    at = [table.positions[:, :2] for table in (two_runs.case.queries, two_runs.case.places)]
    apart = np.linalg.norm(at[0][:, None] - np.concatenate(at), axis=2)
    np.fill_diagonal(apart, np.inf)
    lone = int(apart.min(axis=1).argmax())
    page.select_option("#pair-query", str((lone + 1) % len(at[0])))
    box = page.locator("#pair-map circle").nth(lone).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.input_value("#pair-query") == str(lone)


def test_the_theme_can_be_switched_and_plots_follow(opened):
    page = opened()
    page.locator("div.plot").first.scroll_into_view_if_needed()
    until(page, "document.querySelector('.plot .xtick text') !== null")
    ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    before = page.evaluate(ink)
    page.get_by_role("button", name="Switch to the dark theme").click()
    until(page, f"{ink} !== '{before}'")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Switch to the light theme").click()
    until(page, f"{ink} === '{before}'")


def test_the_gallery_can_be_narrowed_to_one_kind(opened):
    page = opened()
    buttons = page.locator(".filter button")
    every = page.locator(".answer:visible").count()
    counts = []
    for number in range(1, buttons.count()):
        buttons.nth(number).click()
        assert buttons.nth(number).get_attribute("aria-pressed") == "true"
        counts.append(page.locator(".answer:visible").count())
    assert min(counts) > 0
    assert sum(counts) == every
    buttons.nth(0).click()
    assert page.locator(".answer:visible").count() == every


def test_on_a_phone_the_contents_are_a_menu(opened):
    page = opened(390)
    assert not page.locator(".contents").is_visible()
    page.locator(".menu summary").click()
    page.locator(".menu a", has_text="Recall").click()
    until(page, "Math.abs(document.getElementById('recall').getBoundingClientRect().top) < 120")
    assert not page.locator(".menu nav").is_visible()
