"""The one error of this package."""

from calibrant.errors import InputError

__all__ = ["StorageError"]


class StorageError(InputError):
    """A folder cannot be written or read. The text says why and what to do."""
