"""What callers hand in, in the forms that they like to write."""

from collections.abc import Iterable
from numbers import Real

from calibrant._checks import InputError

__all__ = ["as_name", "as_names", "as_numbers"]


def as_name(value: object, *, what: str) -> str:
    """Return the name of a column; anything else is refused."""
    if not isinstance(value, str):
        raise InputError(
            f"{what} must be the name of a column, as text, got {value!r:.60}."
        )
    return value


def as_names(value: str | Iterable[str], *, what: str) -> tuple[str, ...]:
    """Return names of columns; one name alone is fine."""
    names = (value,) if isinstance(value, str) else tuple(value)
    return tuple(dict.fromkeys(as_name(name, what=what) for name in names))


def as_numbers(value: float | Iterable[float], *, what: str) -> tuple[float, ...]:
    """Return numbers; one alone is fine."""
    values = (value,) if isinstance(value, Real) else tuple(value)  # type: ignore[arg-type]
    for each in values:
        if not isinstance(each, Real):
            raise InputError(f"{what} must be numbers, got {each!r:.60}.")
    return tuple(float(each) for each in values)
