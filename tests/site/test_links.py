"""Links and pictures of the texts lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).parents[2]
TEXTS = (
    *(
        ROOT / f"{name}.md"
        for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
)
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(\s*([^()\s]+)(?:\s+\"[^\"]*\")?\s*\)")
ELEMENT = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: *\{[^}]*\})? *#*$", re.MULTILINE)
OWN_ANCHOR = re.compile(r"\{[^}\n]*#([\w.:-]+)[^}\n]*\}|\bid=\"([^\"]+)\"")


def anchors(path: Path) -> set[str]:
    """Names of the places of a text that a link may lead to."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text("utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = slugify(words.replace("`", "").replace("*", ""), "-")
        name, count = base, 0
        while name in found:
            count += 1
            name = f"{base}_{count}"
        found.add(name)
    return found | {one or other for one, other in OWN_ANCHOR.findall(text)}


def links(path: Path) -> list[str]:
    """Targets of the links of a text within this repository."""
    text = path.read_text("utf-8")
    found = LINK.findall(CODE.sub("", text)) + ELEMENT.findall(CODE.sub("", text))
    return [each for each in found if not re.match(r"[a-z]+:", each)]


@pytest.mark.parametrize(
    "path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_its_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        name, _, anchor = unquote(link).partition("#")
        place = (path.parent / name).resolve() if name else path
        assert place.exists(), f"{link}: there is no {place}"
        assert place.is_relative_to(ROOT), link
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{link}: there is no such heading"
