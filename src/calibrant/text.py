"""Numbers, names and tables as a reader sees them; untrusted text made harmless."""

import math
import re
import unicodedata
from typing import TYPE_CHECKING

from calibrant._terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "block",
    "counted",
    "name",
    "number",
    "p_text",
    "percent",
    "plain_table",
    "short",
    "span",
    "tight",
]

_MINUS = "\N{MINUS SIGN}"
_MISSING = "\N{EN DASH}"
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
#: Marks that turn the direction of reading.
_TURNING = set(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_LONGEST_BLOCK = 20_000


def name(text: str, *, longest: int = 90) -> str:
    r"""Return a text on one line that can stand in a page, cut in its middle if long.

    Examples
    --------
    >>> name("a\x00b\u202ec\nd"), name("abcdefgh", longest=5)
    ('a�b�c d', 'ab…gh')
    """
    line = " ".join(_harmless(text).split())
    if len(line) <= longest:
        return line
    end = (longest - 1) // 2
    start = longest - 1 - end
    return f"{line[:start].rstrip()}{_ELLIPSIS}{line[-end:].lstrip()}"


def short(text: str) -> str:
    """Cut a name to what the axis of a chart has room for.

    Examples
    --------
    >>> short("the average number of bedrooms")
    'the averag…f bedrooms'
    """
    return name(text, longest=21)


def block(text: str) -> str:
    """Return a text of several lines that can stand in a page."""
    lines = text.strip("\n").splitlines()
    whole = "\n".join(_harmless(line.replace("\t", "    ")) for line in lines)
    return whole if len(whole) <= _LONGEST_BLOCK else whole[:_LONGEST_BLOCK] + _ELLIPSIS


def number(value: float) -> str:
    """Write a number with four significant digits.

    Examples
    --------
    >>> number(23412345.6), number(-0.012345), number(0.0), number(1.5e-7)
    ('23,412,346', '−0.01235', '0', '1.50e−7')
    >>> number(float("inf")), number(float("nan"))
    ('∞', '–')
    """
    if math.isnan(value):
        return _MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-4 <= size < 1e15:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits}e{int(power)}".replace("-", _MINUS)
    decimals = max(0, 3 - math.floor(math.log10(size)))
    return f"{value:,.{decimals}f}".replace("-", _MINUS)


def percent(share: float) -> str:
    """Write a share in percent; a dash for NaN.

    Examples
    --------
    >>> percent(0.9123), percent(float("nan"))
    ('91.2 %', '–')
    """
    return _MISSING if math.isnan(share) else f"{100 * share:.1f} %"


def span(low: float, high: float) -> str:
    """Write a range of shares in percent.

    Examples
    --------
    >>> span(0.871, 0.927)
    '87.1 to 92.7 %'
    """
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def tight(text: str) -> str:
    r"""Keep numbers and the percent sign after them on one line.

    Examples
    --------
    >>> tight("90 % or % of") == "90\N{NO-BREAK SPACE}% or % of"
    True
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


def counted(count: int, noun: str = "row") -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> counted(1), counted(1200), counted(2, "column")
    ('1 row', '1,200 rows', '2 columns')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def p_text(value: float | None) -> str:
    """Write a p-value.

    Examples
    --------
    >>> p_text(0.0009), p_text(0.0312), p_text(None)
    ('< 0.001', '0.031', '')
    """
    if value is None or math.isnan(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def plain_table(table: "RenderableType") -> str:
    """Return what rich shows on 88 columns, without colors."""
    from rich.console import Console

    console = Console(width=88, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return printable(capture.get()).rstrip()


def _harmless(text: str) -> str:
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isspace():
        return " "
    control = unicodedata.category(character) in ("Cc", "Cs")
    return (
        "\N{REPLACEMENT CHARACTER}" if control or character in _TURNING else character
    )
