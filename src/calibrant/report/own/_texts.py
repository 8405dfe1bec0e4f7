"""Texts and numbers as a reader sees them; texts of a stranger made harmless."""

import math
import re
import unicodedata

__all__ = [
    "amount",
    "block",
    "counted",
    "name",
    "p_text",
    "percent",
    "short",
    "span",
    "tight",
]

_MINUS = "\N{MINUS SIGN}"
_MISSING = "\N{EN DASH}"
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
#: Control characters, halves of a pair, and marks that turn the direction of reading.
_HARMFUL = {"Cc", "Cs"}
_TURNING = set(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
#: What a name may take of the page, and of a chart.
_LONGEST = 90
_LONGEST_BLOCK = 20_000


def name(text: str, *, longest: int = _LONGEST) -> str:
    r"""Return a text of one line that can stand in a page, cut in its middle if long.

    Examples
    --------
    >>> name("a\x00b\u202ec\nd"), name("abcdefgh", longest=5)
    ('a�b�c d', 'ab…gh')
    """
    return _cut(" ".join(_harmless(text).split()), longest)


def short(text: str) -> str:
    """Cut a text to what the axis of a chart has room for.

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


def amount(value: float) -> str:
    """Write a number in the units of the target, with four digits that count.

    Examples
    --------
    >>> amount(23412345.6), amount(-0.012345), amount(0.0), amount(1.5e-7)
    ('23,412,346', '−0.01235', '0', '1.50e−7')
    >>> amount(float("inf")), amount(float("nan"))
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
    digits_behind = max(0, 3 - math.floor(math.log10(size)))
    return f"{value:,.{digits_behind}f}".replace("-", _MINUS)


def percent(share: float | None) -> str:
    """Write a share in percent; a dash where there is none.

    Examples
    --------
    >>> percent(0.9123), percent(None)
    ('91.2 %', '–')
    """
    if share is None or math.isnan(share):
        return _MISSING
    return f"{100 * share:.1f} %"


def tight(text: str) -> str:
    r"""Keep numbers and the percent sign behind them on one line.

    Examples
    --------
    >>> tight("90 % or % of") == "90\N{NO-BREAK SPACE}% or % of"
    True
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


def span(low: float, high: float) -> str:
    """Write a range of shares in percent.

    Examples
    --------
    >>> span(0.871, 0.927)
    '87.1 to 92.7 %'
    """
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def counted(count: int, singular: str = "row") -> str:
    """Write a number of things.

    Examples
    --------
    >>> counted(1), counted(1200), counted(2, "column")
    ('1 row', '1,200 rows', '2 columns')
    """
    return f"{count:,} {singular}" if count == 1 else f"{count:,} {singular}s"


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


def _harmless(text: str) -> str:
    return "".join(_character(each) for each in text)


def _character(each: str) -> str:
    if each.isspace():
        return " "
    bad = each in _TURNING or unicodedata.category(each) in _HARMFUL
    return _UNKNOWN if bad else each


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    start = longest - 1 - end
    return f"{text[:start].rstrip()}{_ELLIPSIS}{text[-end:].lstrip()}"
