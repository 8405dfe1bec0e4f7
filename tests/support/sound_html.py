"""Reads a page, and checks that each element is closed where it should be."""

from html.parser import HTMLParser
from typing import Any

__all__ = ["SoundPage"]

_VOID = {"meta", "link", "input", "br", "img", "circle", "path"}


class SoundPage(HTMLParser):
    """Elements with their attributes, and the texts within each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    def values(self, name: str) -> list[str]:
        return [a[name] or "" for _, a in self.elements if name in a]

    def text(self, tag: str) -> str:
        """All text directly within elements of one kind."""
        return " ".join(self.texts.get(tag, []))
