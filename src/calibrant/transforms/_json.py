"""Transforms as text: plain JSON with the name of the format and its version."""

import json
from collections.abc import Mapping
from typing import Any, cast

from calibrant._checks import InputError
from calibrant.contracts import TargetTransform
from calibrant.transforms import TRANSFORMS

__all__ = ["FORMAT", "VERSION", "read_json", "write_json"]

FORMAT = "calibrant transform"
VERSION = 1


def write_json(
    name: str, *, options: Mapping[str, object], state: Mapping[str, object]
) -> str:
    """Write a transform; floats keep every bit, since Python prints them so."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "options": options,
        "state": state,
    }
    return json.dumps(content, allow_nan=False)


def read_json(text: str) -> TargetTransform:
    """Read what :func:`write_json` wrote, or say what is wrong with it."""
    content = _parse(text)
    if content.get("format") != FORMAT:
        raise InputError(
            f"text must be a transform's to_json(), with format {FORMAT!r}; this is "
            f"other JSON, its format is {content.get('format')!r}."
        )
    version = content.get("version")
    if version != VERSION:
        raise InputError(
            f"the text has version {version!r} of the format, this calibrant reads "
            f"{VERSION}. Install the calibrant that wrote it, or a newer one."
        )
    name = content.get("name")
    if not isinstance(name, str) or name not in TRANSFORMS:
        raise InputError(
            f"the text holds a transform called {name!r}, there are "
            f"{', '.join(TRANSFORMS)}. Put your own into TRANSFORMS before."
        )
    part = cast("Any", TRANSFORMS[name])
    try:
        restored = part.from_state(content["options"], content["state"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the text for {name!r} is damaged: {error}. Write it again with to_json()."
        ) from error
    return cast("TargetTransform", restored)


def _parse(text: str) -> dict[str, object]:
    try:
        content = json.loads(text, parse_constant=_refuse)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"text must be what a transform's to_json() gave, complete; "
            f"it cannot be read as JSON: {error}."
        ) from error
    if not isinstance(content, dict):
        raise InputError(
            "text must be what a transform's to_json() gave, got JSON of a "
            f"{type(content).__name__}."
        )
    return content


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")
