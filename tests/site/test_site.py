"""The site is built without a warning, and asks the network for nothing."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
# What a browser fetches by itself, unlike a link that a reader follows.
FETCHED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "object": ("data",),
    "embed": ("src",),
}
# Relations of a <link> that a browser only notes.
NOTED = {"canonical", "next", "prev", "alternate", "author", "license", "edit"}
IN_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Fetches(HTMLParser):
    """Addresses that a page has fetched, its links, and its formulas."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.links: list[str] = []
        self.formulas = 0
        self.words: list[str] = []
        self._within: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._within.append(tag)
        self.formulas += tag == "math"
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "link" and set(str(given.get("rel", "")).split()) & NOTED:
            return
        for name in FETCHED.get(tag, ()):
            if given.get(name):
                self.addresses.append(str(given[name]))

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"code", "pre", "script", "style"} & set(self._within):
            self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    said = run.stdout + run.stderr
    assert run.returncode == 0, said
    assert "WARNING" not in said, said
    return place


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Fetches]:
    return {path: Fetches(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_page_is_there(pages: dict[Path, Fetches]) -> None:
    names = {path.name for path in pages}
    for page in (ROOT / "docs").rglob("*.md"):
        assert f"{page.stem}.html" in names
    assert "tour.html" in names


def test_nothing_is_fetched_from_elsewhere(
    site: Path, pages: dict[Path, Fetches]
) -> None:
    fetched = [each for page in pages.values() for each in page.addresses]
    for path in site.rglob("*.css"):
        for one, other in IN_STYLE.findall(path.read_text("utf-8")):
            fetched.append(one or other)
    assert fetched
    for address in fetched:
        parts = urlsplit(address)
        assert parts.scheme in ("", "data"), address
        assert not parts.netloc, address


def test_links_between_pages_lead_somewhere(pages: dict[Path, Fetches]) -> None:
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not parts.path:
                continue
            assert (path.parent / unquote(parts.path)).exists(), f"{path}: {link}"


def test_formulas_are_rendered(pages: dict[Path, Fetches]) -> None:
    by_name = {path.name: page for path, page in pages.items()}
    assert by_name["regularizers.html"].formulas > 20
    assert by_name["metrics.html"].formulas > 20
    for path, page in pages.items():
        text = " ".join(page.words)
        for raw in (":math:", ".. math::", ":func:`", ":class:`", "\\frac", "\\sum"):
            assert raw not in text, f"{path}: {raw}"
