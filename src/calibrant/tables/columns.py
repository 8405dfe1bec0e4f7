"""One column of a model: its kind, and how its cells enter the matrix of features."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.errors import InputError
from calibrant.tables.options import Style, moment, shortened, shown, written
from calibrant.tables.parse import (
    DAY,
    BoolArray,
    FloatArray,
    Parsed,
    as_text,
    cell_text,
    number_hint,
    parse_booleans,
    parse_dates,
    parse_numbers,
    to_numpy,
)
from calibrant.text import counted

#: Bad cells that it takes to call a whole column of a batch bad.
FEW = 5

#: The first five can be features.
Kind = Literal[
    "number",
    "boolean",
    "category",
    "date",
    "time",
    "constant",
    "empty",
    "text",
    "identifier",
    "unsupported",
    "dropped",
    "target",
    "group",
]
#: Every feature that a date can give, in their order in the matrix; a value has one
#: without a name.
Part = Literal[
    "",
    "position",
    "month (sin)",
    "month (cos)",
    "weekday (sin)",
    "weekday (cos)",
    "hour (sin)",
    "hour (cos)",
]
PARTS: tuple[Part, ...] = get_args(Part)[1:]


# What is unusual in new rows --------------------------------------------------------

_SENTENCES: Mapping[str, str] = {
    "bad": "{column} that is no {d} and was taken as missing",
    "unknown": "{column} with a value unknown from training, {d}",
    "outside": "{column} outside {d} as seen in training",
    "missing": "no {column}, which training always had, {d}",
}


@dataclass(frozen=True)
class Found:
    """One unusual thing of one column: where it was first, and how often.

    ``what`` is ``"bad"``, ``"unknown"``, ``"outside"`` or ``"missing"``, and ``detail``
    what was expected or what was done.
    """

    what: str
    column: str
    name: str
    count: int
    row: int
    cell: str
    detail: str

    def line(self) -> str:
        """Return this as a sentence."""
        have = f"{counted(self.count, 'row')} {'has' if self.count == 1 else 'have'}"
        first = f"{'' if self.count == 1 else 'the first is '}row {self.row:,}"
        if self.cell:
            cell = self.cell if self.what == "outside" else shown(self.cell)
            first = f"{first} ({cell})"
        said = _SENTENCES[self.what].format(column=shown(self.column), d=self.detail)
        return f"{self.name}: {have} {said}, {first}."


class Findings:
    """Collects what was unusual while new rows were encoded.

    One object goes through all batches of a file; see :meth:`TableEncoder.encode`.

    Examples
    --------
    >>> findings = Findings()
    >>> findings.add(Found("outside", "age", "new.csv", 2, 12, "97", "18 to 65"))
    >>> print(*findings.lines())
    new.csv: 2 rows have 'age' outside 18 to 65 as seen in training, the first is \
row 12 (97).
    """

    def __init__(self) -> None:
        self.rows = 0
        """Rows that were encoded."""
        self.rows_outside = 0
        """Rows with a value outside the range of training in any column."""
        self._found: dict[tuple[str, str], Found] = {}

    @property
    def found(self) -> tuple[Found, ...]:
        """Everything unusual, the same things together, by their first row."""
        order = list(_SENTENCES)
        return tuple(
            sorted(
                self._found.values(),
                key=lambda found: (order.index(found.what), found.row, found.column),
            )
        )

    def add(self, found: Found) -> None:
        """Add to the count; the first place stays."""
        key = (found.what, found.column)
        before = self._found.get(key)
        if before is not None:
            found = replace(before, count=before.count + found.count)
        self._found[key] = found

    def lines(self) -> list[str]:
        """Return one plain sentence for each thing and column, [] if all was usual."""
        lines = [found.line() for found in self.found]
        outside = [found for found in self.found if found.what == "outside"]
        if len(outside) > 1:
            lines.append(
                f"{outside[0].name}: {self.rows_outside:,} of "
                f"{counted(self.rows, 'row')} are outside what training saw in at "
                "least one column; trust their intervals less."
            )
        return lines


@dataclass(frozen=True)
class Reading:
    """One column of a batch on its way into the matrix.

    ``findings`` is where unusual things are written down, of the rows ``used``;
    ``outside`` marks those outside the range of training in any column.
    """

    name: str
    column: "Column"
    style: Style
    findings: Findings
    outside: BoolArray
    used: BoolArray
    first_row: int = 1
    strict: bool = False

    def note(self, what: str, mask: BoolArray, cells: pa.Array, detail: str) -> None:
        """Write down that the masked rows are unusual."""
        mask = mask & self.used
        if mask.any():
            place = int(np.argmax(mask))
            cell = "" if what == "missing" else shortened(cell_text(cells, place), 80)
            count, row = int(mask.sum()), self.first_row + place
            self.findings.add(
                Found(what, self.column.name, self.name, count, row, cell, detail)
            )

    def refuse_bad(self, parsed: Parsed, cells: pa.Array, noun: str) -> None:
        """Raise an error if a bad cell must not be, or if most of the cells are bad."""
        bad = parsed.bad_count
        given = bad + parsed.good_count
        small = self.first_row == 1 and len(cells) < FEW and bad == given
        most = (bad >= FEW and 2 * bad > given) or small
        if parsed.bad is None or not (self.strict or most):
            return
        place = int(np.argmax(parsed.bad))
        cell = cell_text(cells, place)
        share = f" ({bad:,} of {given:,} cells are no {noun}s)" if most else ""
        hint = number_hint([cell], self.style) if noun == "number" else ""
        raise InputError(
            f"{self.name}, row {self.first_row + place:,}, column "
            f"{shown(self.column.name)}: a {noun} was expected, got {shown(cell)}"
            f"{share}. "
            f"{hint or 'Correct the file, or leave the cell empty if it is unknown.'}"
        )


# How cells enter the matrix ---------------------------------------------------------


def part_values(part: str, seconds: FloatArray, *, first: float) -> FloatArray:
    """Return one of the features of moments ``(n,)``, in days or in [-1, 1]."""
    if part == "position":
        return (seconds - first) / DAY
    name, wave = part.removesuffix(")").split(" (")
    if name == "month":
        months = np.floor(seconds).astype("datetime64[s]").astype("datetime64[M]")
        phase = (months.astype(np.int64) % 12) / 12
    elif name == "weekday":  # 1970 began on a Thursday; a week on Monday
        phase = ((np.floor(seconds / DAY) + 3) % 7) / 7
    else:
        phase = (seconds % DAY) / DAY
    angle = 2 * np.pi * phase
    return np.sin(angle) if wave == "sin" else np.cos(angle)


def in_words(kind: str, value: float) -> str:
    """Return a number, truth value or moment as a reader would write it."""
    if kind == "boolean":
        return "yes" if value else "no"
    return moment(value) if kind == "date" else written(value)


@dataclass(frozen=True, kw_only=True)
class ValueRule:
    """Numbers, truth values or dates: the value, and whether it was missing.

    The range is that of training, of dates in seconds since 1970. ``flag`` asks for a
    0/1 column of missing values. ``parts`` are the features of a date; otherwise one
    empty text for the value itself, or nothing if training saw only one value.
    """

    kind: Literal["number", "boolean", "date"]
    low: float
    high: float
    fill: float
    flag: bool
    parts: tuple[Part, ...] = ("",)
    day_first: bool = False

    def __post_init__(self) -> None:
        furthest = 3e11 if self.kind == "date" else sys.float_info.max
        if (
            not -furthest <= self.low <= self.high <= furthest
            or abs(self.fill) > furthest
            or (self.kind != "date" and self.parts not in ((), ("",)))
            or (self.kind == "date" and "" in self.parts)
            or not (self.parts or self.flag)
        ):
            raise InputError("the range or the parts of a column do not fit")

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        flags = (f"{name} is missing",) if self.flag else ()
        return (*(f"{name}: {p}" if p else name for p in self.parts), *flags)

    @property
    def filling(self) -> str:
        """What a missing value becomes, in words."""
        usual = "more common" if self.kind == "boolean" else "median"
        return f"the {usual} {in_words(self.kind, self.fill)}"

    def encode(self, cells: pa.Array, reading: Reading) -> FloatArray:
        """Return the cells ``(n,)`` of a column as columns of the matrix ``(n, k)``."""
        if self.kind == "number":
            parsed = parse_numbers(cells, reading.style)
        elif self.kind == "boolean":
            parsed = parse_booleans(cells, reading.style, digits=True)
        else:
            parsed = parse_dates(cells, reading.style, order=self.day_first).parsed
        noun = "yes-or-no value" if self.kind == "boolean" else self.kind
        absent = np.isnan(parsed.values)
        reading.refuse_bad(parsed, cells, noun)
        bad = np.zeros_like(absent) if parsed.bad is None else parsed.bad
        reading.note("bad", bad, cells, noun)
        if not self.flag:
            reading.note("missing", absent & ~bad, cells, f"filled with {self.filling}")
        values = np.where(absent, self.fill, parsed.values)
        # That new rows are later than those of training is no news.
        if self.kind != "boolean" and reading.column.kind != "time" and self.parts:
            mask = (values < self.low) | (values > self.high)
            np.logical_or(reading.outside, mask, out=reading.outside)
            detail = (
                f"{in_words(self.kind, self.low)} to {in_words(self.kind, self.high)}"
            )
            reading.note("outside", mask, cells, detail)
        parts = [
            part_values(part, values, first=self.low) if part else values
            for part in self.parts
        ]
        return np.column_stack([*parts, *[absent] * self.flag]).astype(np.float64)


_UNKNOWN, _NOTHING = -2, -1


@dataclass(frozen=True, kw_only=True)
class CategoryRule:
    """One column of 0 and 1 for each level; one in all if there are two.

    ``rare`` are texts that training saw too seldom: they count as "other", as do
    unknown ones. ``other`` and ``missing`` say whether these have a column.
    """

    levels: tuple[str, ...]
    rare: tuple[str, ...]
    other: bool
    missing: bool

    def __post_init__(self) -> None:
        if not self.levels or self._slots < 2 or (self.rare and not self.other):
            raise InputError("the levels of a column do not fit")

    @property
    def _slots(self) -> int:
        return len(self.levels) + self.other + self.missing

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        names = [f"{name} = {level}" for level in self.levels]
        names += [f"{name} is other"] * self.other
        names += [f"{name} is missing"] * self.missing
        # Of two columns the first one says nothing that the second does not.
        return tuple(names[self._slots == 2 :])

    def encode(self, cells: pa.Array, reading: Reading) -> FloatArray:
        """Return the cells ``(n,)`` of a column as columns of the matrix ``(n, k)``."""
        rows = row_codes(cells, self.levels, reading.style, self.rare)
        unknown, nothing = rows == _UNKNOWN, rows == _NOTHING
        refuge = "none of the levels"
        if self.other:
            refuge = "'other'"
        elif self._slots == 2:
            refuge = shown(self.levels[0])
        reading.note("unknown", unknown, cells, f"taken as {refuge}")
        if not self.missing:
            reading.note("missing", nothing, cells, f"taken as {refuge}")
        # One more column, cut off again, for what has none.
        other = len(self.levels) if self.other else self._slots
        rows = np.where(unknown, other, rows)
        rows = np.where(nothing, self._slots - 1 if self.missing else other, rows)
        marks = np.zeros((len(rows), self._slots + 1))
        marks[np.arange(len(rows)), rows] = 1.0
        return marks[:, self._slots == 2 : -1]


@dataclass(frozen=True, kw_only=True)
class TargetRule:
    """The mean target of a level, for categories with more levels than columns.

    The mean is pulled towards that of all rows by as much as levels of that size differ
    by chance (``shares`` are what is left of it, and a second column). ``prior`` is the
    mean of all rows. Training rows must be encoded without their own targets: see
    :meth:`TableEncoder.encode_training`.
    """

    means: tuple[float, ...]
    shares: tuple[float, ...]
    levels: tuple[str, ...]
    prior: float
    flag: bool

    def __post_init__(self) -> None:
        if not 0 < len(self.levels) == len(self.means) == len(self.shares):
            raise InputError("the levels of a column do not fit")

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        flags = (f"{name} is missing",) if self.flag else ()
        return (f"{name}: mean target", f"{name}: known share", *flags)

    @classmethod
    def learn(
        cls, codes: npt.NDArray[np.int64], y: FloatArray, levels: tuple[str, ...]
    ) -> "TargetRule":
        """Learn from the :func:`row_codes` of the rows whose target is not NaN."""
        known = ~np.isnan(y)
        own = known & (codes >= 0)
        # In units of the largest, so that no square is infinite.
        scale = float(np.abs(y[known]).max(initial=0.0)) or 1.0
        prior = float((y[known] / scale).mean()) if known.any() else 0.0
        rest, codes_own = y[own] / scale - prior, codes[own]
        counts = np.bincount(codes_own, minlength=len(levels)).astype(np.float64)
        sums = np.bincount(codes_own, weights=rest, minlength=len(levels))
        means = sums / np.maximum(counts, 1)
        # Variance within and between levels, by moments (one-way random effects).
        total, seen = counts.sum(), (counts > 0).sum()
        within = ((rest - means[codes_own]) ** 2).sum() / max(total - seen, 1)
        spread = total - (counts**2).sum() / max(total, 1)
        between = (counts * means**2).sum() - (seen - 1) * within
        between = max(between / spread, 0.0) if spread > 0 else 0.0
        shares = counts * between / np.maximum(counts * between + within, 1e-300)
        return cls(
            means=tuple((scale * (prior + shares * means)).tolist()),
            shares=tuple(shares.tolist()),
            levels=levels,
            prior=scale * prior,
            flag=bool((codes == _NOTHING).any()),
        )

    def encode(self, cells: pa.Array, reading: Reading) -> FloatArray:
        """Return the cells ``(n,)`` of a column as columns of the matrix ``(n, k)``."""
        codes = row_codes(cells, self.levels, reading.style)
        refuge = "taken as the mean of all levels"
        reading.note("unknown", codes == _UNKNOWN, cells, refuge)
        if not self.flag:
            reading.note("missing", codes == _NOTHING, cells, refuge)
        return self.columns(codes)

    def columns(self, codes: npt.NDArray[np.int64]) -> FloatArray:
        """Return the columns of the matrix ``(n, k)`` for :func:`row_codes`."""
        places = np.maximum(codes, -1)
        means = np.append(self.means, self.prior)[places]
        shares = np.append(self.shares, 0.0)[places]
        return np.column_stack([means, shares, *[codes == _NOTHING] * self.flag])


def row_codes(
    cells: pa.Array, levels: tuple[str, ...], style: Style, rare: tuple[str, ...] = ()
) -> npt.NDArray[np.int64]:
    """Return the level of each row; rare ones come behind the last."""
    encoded = as_text(cells).dictionary_encode()
    keys = encoded.dictionary

    def places(texts: pa.Array, among: pa.Array) -> npt.NDArray[Any]:
        found = pc.index_in(texts, value_set=pc.cast(among, texts.type))
        return to_numpy(pc.fill_null(found, _UNKNOWN))

    names, seldom = pa.array(levels, pa.string()), pa.array(rare, pa.string())
    alike = _canonical(keys)
    codes = places(keys, names)
    codes = np.where(codes == _UNKNOWN, places(alike, _canonical(names)), codes)
    is_rare = places(alike, _canonical(seldom)) != _UNKNOWN
    codes = np.where(is_rare & (codes == _UNKNOWN), len(levels), codes)
    absent = places(pc.utf8_lower(keys), pa.array(style.tokens)) != _UNKNOWN
    codes = np.append(np.where(absent, _NOTHING, codes), _NOTHING)
    rows: npt.NDArray[np.int64]
    rows = codes[to_numpy(pc.fill_null(encoded.indices, len(codes) - 1))]
    return rows


def _canonical(texts: pa.Array) -> pa.Array:
    """Return 1.0 as 1 and True as true, as other programs write them."""
    texts = pc.replace_substring_regex(texts, r"^([+-]?\d+)\.0+$", r"\1")
    texts = pc.replace_substring_regex(texts, "^(?:TRUE|True)$", "true")
    return pc.replace_substring_regex(texts, "^(?:FALSE|False)$", "false")


# Columns ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ColumnLine:
    """What was done with one column, in plain words: ``done`` says how or why not."""

    name: str
    kind: str
    used: bool
    done: str


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the training file.

    Parameters
    ----------
    name
        From the header.
    kind
        What it holds or what it is for; the first five kinds can be features.
    done
        What was done with it, in plain words.
    missing
        Empty cells in training.
    bad
        Cells in training that did not fit the kind and count as missing.
    style
        How its numbers are written if not as in the rest of the file.
    rule
        How it enters the matrix; None if it is not used.

    Examples
    --------
    >>> Column(name="id", kind="dropped", done="left out, as you asked").used
    False
    """

    name: str
    kind: Kind
    done: str
    missing: int = 0
    bad: int = 0
    style: Style | None = None
    rule: ValueRule | CategoryRule | TargetRule | None = None

    def __post_init__(self) -> None:
        if self.used and self.kind not in get_args(Kind)[:5]:
            raise InputError(f"a column is of kind {self.kind!r}, which cannot be used")

    @property
    def used(self) -> bool:
        """Whether the model sees it."""
        return self.rule is not None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its columns of the matrix, none if it is not used."""
        name = shortened(self.name, 100)
        return () if self.rule is None else self.rule.features(name)

    def line(self) -> ColumnLine:
        """Say what was done with it."""
        done = "used as it is" if self.done == self.kind else self.done
        return ColumnLine(name=self.name, kind=self.kind, used=self.used, done=done)


# Stored models ----------------------------------------------------------------------


def restored(kind: Any, content: Any, name: str = "it") -> Any:  # noqa: ANN401
    """Build a value of a type from untrusted JSON; what does not fit raises an error.

    The type is a dataclass, a tuple of one type, an optional one, a literal, or plain.
    """
    options, origin = get_args(kind), get_origin(kind)
    if origin is UnionType:
        if content is None:
            return None
        # Of several dataclasses the one that has such fields.
        fits = (option for option in options if _field_names(option) == {*content})
        return restored(next(fits, options[0]), content, name)
    if _field_names(kind):
        types = get_type_hints(kind)
        names = (field.name for field in fields(kind))
        return kind(**{n: restored(types[n], content[n], n) for n in names})
    if origin is tuple and type(content) is list:
        return tuple(restored(options[0], entry, name) for entry in content)
    if kind is float and type(content) is int:
        content = float(content)
    good = content in options if origin is Literal else type(content) is kind
    if not good or (kind is float and not math.isfinite(content)):
        wanted = {
            Literal: f"one of {', '.join(map(str, options))}",
            tuple: "a list",
            str: "a text",
            bool: "true or false",
        }.get(origin or kind, "a finite number")
        raise InputError(f"{name!r} must be {wanted}, got {content!r:.60}")
    return content


def _field_names(kind: Any) -> set[str]:  # noqa: ANN401
    return {field.name for field in fields(kind)} if is_dataclass(kind) else set()
