"""Tables of rich as plain text, for ``print``."""

from rich.console import Console, RenderableType

from calibrant._terminal import printable

__all__ = ["as_text"]


def as_text(table: RenderableType) -> str:
    """Return what rich shows on 88 columns, without colors."""
    console = Console(width=88, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return printable(capture.get()).rstrip()
