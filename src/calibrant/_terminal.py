"""The only way to the terminal: what others wrote is shown there and steers nothing."""

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["escaped", "printable", "say", "show"]


def printable(text: str) -> str:
    """Replace all characters but line ends that a terminal would not simply show."""
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def escaped(quoted: str, *, toml: bool = False) -> str:
    """Escape such characters in JSON or TOML, where they stand in texts alone."""
    return "".join(
        each
        if _shown(each) == each
        else f"\\U{ord(each):08x}"
        if toml
        else json.dumps(each)[1:-1]
        for each in quoted
    )


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print a text, on the error stream if asked to."""
    stream = sys.stderr if err else sys.stdout
    print(printable(text), file=stream, end=end, flush=True)


def show(what: "RenderableType") -> None:
    """Print a table of rich, with its own colors and none of its cells'."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console()
    console.print(
        Segments(
            Segment(printable(part.text), part.style, part.control)
            for part in console.render(what)
        ),
        end="",
    )
