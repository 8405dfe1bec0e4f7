"""What text that is almost numbers looks like, and what to do about it."""

import re
from collections.abc import Sequence

from calibrant.tables._errors import shown
from calibrant.tables.style import Style

__all__ = ["number_hint"]

_COMMA_GROUPS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_POINT_GROUPS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")
_SPACE_GROUPS = re.compile("[+-]?\\d{1,3}([ \u00a0\u202f'\u2019]\\d{3})+([.,]\\d+)?")
_COMMA = re.compile(r"[+-]?\d+,\d+")
_POINT = re.compile(r"[+-]?\d+\.\d+")
_UNIT = re.compile(
    r"[+-]?(?P<front>[$€£¥])\s?[\d.,']+"
    r"|[+-]?[\d.,']+\s?(?P<back>[%$€£¥‰]|°?[a-zA-Z]{1,4})"
)


def number_hint(texts: Sequence[str], style: Style) -> str:
    """Return a sentence if most of the texts are numbers in another style, else "".

    >>> number_hint(["1,234", "5,678,901"], Style())
    "It looks like numbers with thousands separators: --thousands ','."
    """
    decimal = style.decimal or "."
    looks = [
        (_COMMA_GROUPS, _thousands(",", decimal, other=".")),
        (_POINT_GROUPS, _thousands(".", decimal, other=",")),
        (_SPACE_GROUPS, _thousands(" ", decimal, other=decimal)),
        (_COMMA, "It looks like numbers with decimal commas: --decimal ','."),
        (_POINT, "It looks like numbers with decimal points: --decimal '.'."),
        (_UNIT, f"Numbers must stand alone: remove the unit in {_first(texts)}."),
    ]
    for form, hint in looks:
        found = [form.fullmatch(text.strip()) for text in texts]
        fits = [match for match in found if match is not None]
        # House numbers such as 12a and 12b have no unit.
        alike = form is not _UNIT or len({match.groups() for match in fits}) == 1
        if 2 * len(fits) > len(texts) and alike:
            return hint
    return ""


def _thousands(mark: str, decimal: str, *, other: str) -> str:
    more = "" if decimal == other else f" --decimal '{other}'"
    return (
        f"It looks like numbers with thousands separators: --thousands '{mark}'{more}."
    )


def _first(texts: Sequence[str]) -> str:
    unit = next((text for text in texts if _UNIT.fullmatch(text.strip())), "")
    return shown(unit.strip())
