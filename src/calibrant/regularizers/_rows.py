"""The check that every expectation for ``n`` rows makes."""

from calibrant._checks import InputError

__all__ = ["check_row_count"]


def check_row_count(n: int) -> None:
    """Refuse a number of rows below 1."""
    if n < 1:
        raise InputError(f"n, the number of PIT values, must be at least 1, got {n}.")
