"""How this room raises an error, and how it writes a stranger's words into one."""

import difflib
from collections.abc import Sequence

from calibrant.errors import InputError

__all__ = ["close_names", "input_error", "listed", "one_line", "shortened", "shown"]


def input_error(text: str) -> InputError:
    """Make an :class:`calibrant.InputError`."""
    return InputError(text)


def shortened(text: str, most: int = 60) -> str:
    """Return ``text``, cut to ``most`` characters with three dots at the end.

    >>> shortened("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shown(name: str) -> str:
    """Return a name as it stands in a message: short, in quotes, and on one line.

    >>> shown("price")
    "'price'"
    """
    return repr(shortened(name))


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names for a message, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    text = ", ".join(shown(name) for name in names[:most])
    more = len(names) - most
    return f"{text} and {more:,} more" if more > 0 else text


def one_line(text: object, most: int = 200) -> str:
    """Return what another library said, on one short line without its full stop."""
    return shortened(" ".join(str(text).split()), most).rstrip(".")


def close_names(wanted: str, names: Sequence[str], most: int = 3) -> list[str]:
    """Return the names that ``wanted`` may be a slip of, whatever the case.

    >>> close_names("prise", ["price", "size", "rooms"])
    ['price']
    """
    by_fold: dict[str, str] = {}
    for name in names:
        by_fold.setdefault(name.strip().casefold()[:200], name)
    close = difflib.get_close_matches(
        wanted.strip().casefold()[:200], list(by_fold), n=most, cutoff=0.7
    )
    return [by_fold[fold] for fold in close]
