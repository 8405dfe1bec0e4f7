"""Cells that mean "missing": their spellings in a text file, and nulls for them."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables.style import MISSING, Style

__all__ = ["spellings", "tidy_text", "tidy_typed", "tokens_of"]

#: Words with more letters have too many spellings; they are looked for afterwards.
MOST_LETTERS = 6


def tokens_of(style: Style) -> tuple[str, ...]:
    """Return all texts that mean "missing", in small letters and without spaces."""
    own = (token.strip().lower() for token in style.missing)
    return tuple(dict.fromkeys((*MISSING, *own)))


def spellings(style: Style) -> list[str]:
    """Return the tokens in every case, and whole numbers with a decimal as well."""
    decimal = style.decimal or "."
    every: dict[str, None] = {}
    for token in tokens_of(style):
        if not _is_long(token):
            every.update(dict.fromkeys(_cases(token)))
        if token.lstrip("+-").isdecimal():
            every[f"{token}{decimal}0"] = None
    return list(every)


def tidy_text(cells: pa.Array, style: Style) -> pa.Array:
    """Remove spaces around the cells of a text file; what is missing then is null.

    Nearly all columns have no spaces at all, which one look at the bytes tells.
    """
    data = cells.buffers()[2]
    spaces = data is not None and _has_unusual(data)
    if not spaces and not any(map(_is_long, style.missing)):
        return cells
    trimmed = pc.utf8_trim_whitespace(cells)
    return _without_tokens(trimmed, trimmed, style)


def tidy_typed(cells: pa.Array, style: Style) -> pa.Array:
    """Set nulls where a typed column holds a token: text, categories or numbers."""
    kind = cells.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        cells = cells.cast(pa.string())
    if pa.types.is_string(cells.type):
        return _without_tokens(cells, pc.utf8_trim_whitespace(cells), style)
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        text = cells.dictionary_decode().cast(pa.string())
        return _without_tokens(cells, pc.utf8_trim_whitespace(text), style)
    if style.missing and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _without_numbers(cells, style)
    return cells


def _is_long(token: str) -> bool:
    return sum(letter.isalpha() for letter in token) > MOST_LETTERS


def _cases(token: str) -> list[str]:
    choices = ({letter, letter.upper()} for letter in token)
    return ["".join(letters) for letters in itertools.product(*map(sorted, choices))]


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _has_unusual(data: pa.Buffer) -> bool:
    """Tell whether there is a byte outside of printed ASCII, or a space."""
    values = np.frombuffer(data, dtype=np.uint8)
    return bool((values - np.uint8(33) >= 128 - 33).any())


def _without_tokens(cells: pa.Array, trimmed: pa.Array, style: Style) -> pa.Array:
    tokens = pa.array(tokens_of(style), pa.string())
    absent = pc.is_in(pc.utf8_lower(trimmed), value_set=tokens)
    if not pc.any(absent).as_py():
        return cells
    return pc.if_else(absent, pa.scalar(None, cells.type), cells)


def _without_numbers(cells: pa.Array, style: Style) -> pa.Array:
    tokens = [
        number
        for token in style.missing
        if (number := _as_number(token, style, cells.type)) is not None
    ]
    if not tokens:
        return cells
    absent = pc.is_in(cells, value_set=pa.array(tokens, cells.type))
    return pc.if_else(absent, pa.scalar(None, cells.type), cells)


def _as_number(token: str, style: Style, kind: pa.DataType) -> pa.Scalar | None:
    try:
        number = float(token.strip().replace(style.decimal or ".", "."))
        exact = pa.types.is_floating(kind) or number.is_integer()
        return pa.scalar(number).cast(kind) if exact else None
    except (ValueError, pa.ArrowException):  # a word, or too large for the type
        return None
