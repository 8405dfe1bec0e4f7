"""Where a report may be written."""

import os
from collections.abc import Sequence
from pathlib import Path

from calibrant._checks import InputError

__all__ = ["page_path"]


def page_path(
    path: str | os.PathLike[str] | None, inputs: Sequence[Path | None] = ()
) -> Path | None:
    """Check the path of a page before long work; None stays None.

    Parameters
    ----------
    path
        Must end in .html, so that no table and no part of a model is overwritten.
    inputs
        Files that it must not be.
    """
    if path is None:
        return None
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"{page}: the name of a report must end in .html. Choose another name."
        )
    if page.is_dir():
        raise InputError(f"{page}: this is a folder. Name a file that ends in .html.")
    if not page.parent.is_dir():
        raise InputError(f"{page}: there is no folder {page.parent}. Make it first.")
    for each in inputs:
        if each is not None and page.exists() and each.exists() and page.samefile(each):
            raise InputError(f"{page}: a report must not replace what it is about.")
    return page
