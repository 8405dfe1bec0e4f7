"""How this room raises an error: what it reads needs no torch, which errors load."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant._checks import InputError

__all__ = ["input_error"]


def input_error(text: str) -> "InputError":
    """Make an :class:`calibrant.InputError`, and import it no earlier."""
    from calibrant._checks import InputError

    return InputError(text)
