"""What every page is made of: templates, style, scripts and plotly, in one file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.errors import InputError
from calibrant.files import replace_file

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "TEMPLATES",
    "environment",
    "json_text",
    "plotly_script",
    "read_parts",
    "write_text",
]

TEMPLATES = Path(__file__).parent / "templates"
_MISSING = (
    "the report needs {0}, which is not installed. "
    'Install what it draws with: pip install "calibrant[report]".'
)


def environment(*folders: Path) -> "Environment":
    """Return what fills templates of these folders: it escapes every text."""
    try:
        import jinja2
    except ImportError as error:
        raise InputError(_MISSING.format("jinja2")) from error
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )


def read_parts(folder: Path, names: Sequence[str]) -> str:
    """Join style sheets or scripts, each of which starts on a line of its own."""
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def plotly_script() -> str:
    """Return the script of the installed plotly, which draws the charts."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise InputError(_MISSING.format("plotly")) from error
    # The only way to end a script element from within; absent from known versions.
    return str(get_plotlyjs()).replace("</script", "<\\/script")


def json_text(data: Mapping[str, object]) -> str:
    r"""Write JSON that can stand in a script element, whatever its strings hold.

    Examples
    --------
    >>> json_text({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # An element ends at "</script" and a comment starts at "<!--", also in a string.
    return text.replace("<", "\\u003c")


def write_text(path: Path, text: str) -> Path:
    """Write a page as UTF-8, in one step: a full disk leaves the one that was there."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}. A file that was there is as "
            "it was."
        ) from error
    return path
