"""Where data that is not bundled is kept."""

import os
import sys
from pathlib import Path

__all__ = ["VARIABLE", "data_folder"]

VARIABLE = "CALIBRANT_DATA"


def data_folder() -> Path:
    """Return the folder for downloaded data; it need not exist yet.

    The environment variable ``CALIBRANT_DATA`` moves it. Otherwise it is ``calibrant``
    in the user's folder for caches: ``$XDG_CACHE_HOME`` or ``~/.cache``,
    ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return _caches(sys.platform) / "calibrant"


def _caches(platform: str) -> Path:
    if platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # The standard says to ignore a relative path.
    return Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"
