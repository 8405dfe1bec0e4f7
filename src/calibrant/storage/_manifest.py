"""The text of ``model.json``: what a folder holds, and the checksums of both files."""

import hashlib
import json
from collections.abc import Mapping

from calibrant._version import __version__
from calibrant.storage._error import StorageError

__all__ = [
    "ARRAYS",
    "MANIFEST",
    "MOST_TEXT",
    "PAGE",
    "check_manifest",
    "checksum",
    "parse_manifest",
    "render_manifest",
]

ARRAYS = "arrays.safetensors"
MANIFEST = "model.json"
#: A page for people, which may stand beside the two.
PAGE = "report.html"
#: Bytes of ``model.json``, which is a few kilobytes for most models.
MOST_TEXT = 2**28
FORMAT = "calibrant"
VERSION = 1

# The file's own checksum is taken with this in its place.
_BLANK = "0" * 64

# What reads a folder of a kind.
_READERS = {
    "CalibratedRegressor": "Read it with calibrant.load(folder).",
    "TableModel": "Read it with calibrant.TableModel.load(folder).",
}


def checksum(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def render_manifest(
    *,
    kind: str,
    description: Mapping[str, object],
    listing: Mapping[str, str],
    arrays: bytes,
) -> bytes:
    """Return the bytes of ``model.json``; equal content gives equal bytes."""
    content = {
        "format": FORMAT,
        "format_version": VERSION,
        "kind": kind,
        "calibrant": __version__,
        "description": description,
        "arrays": listing,
        "checksums": {
            ARRAYS: {"bytes": len(arrays), "sha256": checksum(arrays)},
            MANIFEST: {"sha256": _BLANK},
        },
    }
    try:
        text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
        blank = f"{text}\n".encode()
    except ValueError as error:
        raise StorageError(
            f"kind, description and names of arrays must be numbers and text that "
            f"JSON can hold: {error}."
        ) from error
    if len(blank) > MOST_TEXT:
        raise StorageError(
            f"the description must take at most {MOST_TEXT} bytes as JSON, got "
            f"{len(blank)}. Take a recalibrator that is not as large as its rows, as "
            'recalibrator="beta".'
        )
    # The last one: a description may hold 64 zeros as well.
    before, _, after = blank.rpartition(_BLANK.encode())
    return before + checksum(blank).encode() + after


def parse_manifest(raw: bytes, *, where: str) -> dict[str, object]:
    """Read JSON that calls itself calibrant's; nothing else is checked."""
    try:
        content = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError, MemoryError) as error:
        raise StorageError(
            f"{where} cannot be read as JSON, it is truncated, damaged or another "
            f"file: {error}. Write the folder again."
        ) from error
    name = content.get("format") if isinstance(content, dict) else None
    if not isinstance(content, dict) or name != FORMAT:
        raise StorageError(
            f"{where} must have the format {FORMAT!r}; this is JSON of something else, "
            f"its format is {name!r}. Name a folder that calibrant wrote."
        )
    return content


def check_manifest(
    content: Mapping[str, object], raw: bytes, *, kind: str, where: str
) -> None:
    """Refuse a newer format, an edited file and another kind, in this order.

    A newer format may have another checksum, so its version is looked at first.
    """
    version = content.get("format_version")
    if type(version) is not int or version < 1:
        raise StorageError(
            f"{where} has been damaged: its format_version is {version!r}, a number "
            f"from 1 was written. Write the folder again."
        )
    if version > VERSION:
        raise StorageError(
            f"{where} was written by calibrant {content.get('calibrant')} with format "
            f"{version}; this version, {__version__}, reads up to {VERSION}: upgrade "
            "calibrant."
        )
    if not _is_untouched(content, raw):
        raise StorageError(
            f"{where} has been edited or damaged since it was written: its checksum "
            "does not match its text. Undo the change, or write the folder again."
        )
    if content.get("kind") != kind:
        raise StorageError(
            f"{where} describes a {content.get('kind')!r}, and a {kind!r} was asked "
            f"for. {_READERS.get(str(content.get('kind')), 'Name another folder.')}"
        )


def _is_untouched(content: Mapping[str, object], raw: bytes) -> bool:
    """Compare the checksum over all bytes, so that no change goes unseen."""
    try:
        recorded = content["checksums"][MANIFEST]["sha256"]  # type: ignore[index]
    except (KeyError, TypeError):
        return False
    if not isinstance(recorded, str) or not recorded.isascii() or not recorded:
        return False
    # Version control may have changed the ends of the lines.
    before, _, after = raw.replace(b"\r\n", b"\n").rpartition(recorded.encode())
    return checksum(before + _BLANK.encode() + after) == recorded


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")
