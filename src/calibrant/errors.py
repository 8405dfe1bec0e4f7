"""The errors that users meet; nothing heavy, so that every room can raise them."""

__all__ = [
    "DownloadError",
    "InputError",
    "LostRankError",
    "StorageError",
    "UnsupportedError",
]


class InputError(ValueError):
    """The caller's input does not fit. The text says what to change."""


class UnsupportedError(InputError, NotImplementedError):
    """The distribution cannot give what was asked. The text says what can."""


class StorageError(InputError):
    """A folder cannot be written or read. The text says why and what to do."""


class DownloadError(OSError):
    """A download did not succeed. The text says why and what to do."""


class LostRankError(RuntimeError):
    """Another process of the training has ended, failed, or fallen behind."""
