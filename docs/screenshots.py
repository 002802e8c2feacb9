"""Takes the screenshots of the report that the docs show: `python docs/screenshots.py demo/report.html`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
# file, width and height [px], dark, heading that is scrolled to
SHOTS = (
    ("report_summary.png", 1280, 900, False, "Summary"),
    ("report_desktop.png", 1280, 900, False, "Map and pairs"),
    ("report_phone.png", 390, 844, False, "Map and pairs"),
    ("report_dark.png", 1280, 900, True, "Recall"),
)


def main(report: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, height, dark, heading in SHOTS:
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
            )
            page.goto(report.absolute().as_uri())
            show(page, heading)
            page.screenshot(path=str(IMAGES / name))
            page.close()
        browser.close()


def show(page: Page, heading: str) -> None:
    page.locator("h2", has_text=heading).first.evaluate("e => e.scrollIntoView()")
    page.mouse.wheel(0, -70)  # below the bar at the top
    page.wait_for_timeout(1500)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
