"""The errors that users meet; nothing heavy, so that every room can raise them."""

__all__ = ["InputError", "UnsupportedError"]


class InputError(ValueError):
    """The caller's input does not fit. The text says what to change."""


class UnsupportedError(InputError, NotImplementedError):
    """The law cannot give what was asked. The text says what can."""
