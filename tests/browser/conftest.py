"""A browser for the pages; without one the whole group is skipped."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser_tab import Open, Tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _executable() -> str | None:
    named = os.environ.get("CALIBRANT_CHROMIUM")
    found = [named] if named else [shutil.which(name) for name in NAMES]
    return next((path for path in found if path and Path(path).exists()), None)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install playwright"
    )
    path = _executable()
    if path is None:
        pytest.skip(
            f"needs a browser: none of {', '.join(NAMES)} is on the PATH; install one "
            "or name it in CALIBRANT_CHROMIUM"
        )
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def open_file(browser: "Browser") -> Iterator[Open]:
    contexts = []

    def open_file(
        path: Path, drawn: str, *, width: int = 1280, dark: bool = False
    ) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        tab = Tab(context.new_page())
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        tab.page.goto(path.as_uri())
        tab.page.locator(drawn).first.wait_for()
        return tab

    yield open_file
    for context in contexts:
        context.close()
