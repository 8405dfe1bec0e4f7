"""Descriptions as plain JSON values, refused where JSON would change them unseen."""

import math
from collections.abc import Mapping

from calibrant.storage._error import StorageError

__all__ = ["as_plain_description"]

# Deeper nesting is a description that holds itself.
_DEPTH = 64


def as_plain_description(description: Mapping[str, object]) -> dict[str, object]:
    """Return a description of plain values, each mapping in the order of its keys."""
    if not isinstance(description, Mapping):
        raise StorageError(
            f"description must be a mapping, got a {type(description).__name__}."
        )
    return _plain_mapping(description, name="description", depth=0)


def _plain(value: object, *, name: str, depth: int) -> object:
    if depth > _DEPTH:
        raise StorageError(
            f"description must not be nested deeper than {_DEPTH} levels, got "
            f"{name[:80]}... Does it hold itself?"
        )
    if isinstance(value, Mapping):
        return _plain_mapping(value, name=name, depth=depth)
    if isinstance(value, list | tuple):
        return [
            _plain(item, name=f"{name}[{number}]", depth=depth + 1)
            for number, item in enumerate(value)
        ]
    return _plain_scalar(value, name=name)


def _plain_mapping(
    values: Mapping[object, object] | Mapping[str, object], *, name: str, depth: int
) -> dict[str, object]:
    plain = {}
    for key, value in values.items():
        if not isinstance(key, str):
            raise StorageError(
                f"keys of {name} must be text, as JSON has no others, got {key!r}. "
                "Use str(key), or a list of pairs."
            )
        plain[key] = _plain(value, name=f"{name}[{key!r}]", depth=depth + 1)
    return {key: plain[key] for key in sorted(plain)}


def _plain_scalar(value: object, *, name: str) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        raise StorageError(
            f"{name} must be finite, as JSON has no {value}. Store None, or put the "
            "number into an array."
        )
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise StorageError(
        f"{name} must be None, a bool, int, float or str, or a list or mapping of "
        f"those, got a {type(value).__name__}. Convert it (numpy: item() or tolist()), "
        "or store it as an array."
    )
