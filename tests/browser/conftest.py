"""A browser for the page; without one the whole group is skipped."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
