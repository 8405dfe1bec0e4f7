"""One column of a model: its kind, and how its cells enter the matrix of features."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.errors import InputError
from calibrant.tables.options import Style
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
from calibrant.tables.wording import (
    amount,
    moment,
    one_line,
    shortened,
    shown,
    written,
)

MOST_LEVELS = 200
#: Rare levels that are remembered, so that they are not called unknown.
MOST_RARE = 1_000
#: Levels whose mean target is remembered.
MOST_MEANS = 10_000
#: Bad cells that it takes to call a whole column of a batch bad.
FEW = 5
#: Entries of a list, and characters of a text, that a stored model may hold.
MOST_ENTRIES = 100_000

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


# What is unusual in new rows --------------------------------------------------------


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
        have = f"{amount(self.count, 'row')} {'has' if self.count == 1 else 'have'}"
        first = f"{'' if self.count == 1 else 'the first is '}row {self.row:,}"
        if self.cell:
            cell = self.cell if self.what == "outside" else shown(self.cell)
            first = f"{first} ({cell})"
        said = _SENTENCES[self.what].format(column=shown(self.column), d=self.detail)
        return f"{self.name}: {have} {said}, {first}."


_SENTENCES: Mapping[str, str] = {
    "bad": "{column} that is no {d} and was taken as missing",
    "unknown": "{column} with a value unknown from training, {d}",
    "outside": "{column} outside {d} as seen in training",
    "missing": "no {column}, which training always had, {d}",
}


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

    def __bool__(self) -> bool:
        return bool(self._found)

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
                f"{amount(self.rows, 'row')} are outside what training saw in at "
                "least one column; trust their intervals less."
            )
        return lines


@dataclass(frozen=True)
class Reading:
    """One batch on its way into the matrix, and where unusual things are written down.

    ``outside`` are the rows outside the range of training, marked by each column;
    ``used`` are those that count, None for all.
    """

    name: str
    first_row: int
    style: Style
    strict: bool
    findings: Findings | None
    outside: BoolArray
    used: BoolArray | None = None

    def note(
        self, what: str, column: str, mask: BoolArray, cells: pa.Array, detail: str
    ) -> None:
        """Write down that the masked rows of a column are unusual."""
        mask = mask if self.used is None else mask & self.used
        if self.findings is None or not mask.any():
            return
        place = int(np.argmax(mask))
        cell = "" if what == "missing" else shortened(cell_text(cells, place), 80)
        count, row = int(mask.sum()), self.first_row + place
        self.findings.add(Found(what, column, self.name, count, row, cell, detail))

    def refuse_bad(
        self, column: str, parsed: Parsed, cells: pa.Array, noun: str
    ) -> None:
        """Raise an error if a bad cell must not be, or if most of the cells are bad."""
        if parsed.bad is None:
            return
        bad = parsed.bad_count
        given = bad + parsed.good_count
        small = self.first_row == 1 and len(cells) < FEW and bad == given
        most = (bad >= FEW and 2 * bad > given) or small
        if not (self.strict or most):
            return
        place = int(np.argmax(parsed.bad))
        cell = cell_text(cells, place)
        share = f" ({bad:,} of {given:,} cells are no {noun}s)" if most else ""
        hint = number_hint([cell], self.style) if noun == "number" else ""
        raise InputError(
            f"{self.name}, row {self.first_row + place:,}, column {shown(column)}: a "
            f"{noun} was expected, got {shown(cell)}{share}. "
            f"{hint or 'Correct the file, or leave the cell empty if it is unknown.'}"
        )


# Dates as features ------------------------------------------------------------------

POSITION = "position"
#: Every feature that a date can give, in their order in the matrix.
PARTS = (
    POSITION,
    *("month (sin)", "month (cos)"),
    *("weekday (sin)", "weekday (cos)"),
    *("hour (sin)", "hour (cos)"),
)


def part_values(part: str, seconds: FloatArray, *, first: float) -> FloatArray:
    """Return one of the features of moments ``(n,)``, in days or in [-1, 1]."""
    if part == POSITION:
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


# How cells enter the matrix ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ValueRule:
    """Numbers, truth values or dates: the value, and whether it was missing.

    The range is that of training, of dates in seconds since 1970. ``flag`` asks for a
    0/1 column of missing values. ``parts`` are the features of a date, from
    :data:`PARTS` and in its order; otherwise one empty text for the value itself, or
    nothing if training saw only one value.
    """

    kind: Literal["number", "boolean", "date"]
    low: float
    high: float
    fill: float
    flag: bool
    parts: tuple[str, ...] = ("",)
    day_first: bool = False

    def __post_init__(self) -> None:
        known = PARTS if self.kind == "date" else ("",)
        furthest = {"number": math.inf, "boolean": 1.0, "date": 3e11}[self.kind]
        if (
            not self.low <= self.high
            or max(map(abs, (self.low, self.high, self.fill))) > furthest
            or self.parts != tuple(part for part in known if part in self.parts)
            or not (self.parts or self.flag)
        ):
            raise damaged("the range or the parts of a column do not fit")

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        flags = (f"{name} is missing",) if self.flag else ()
        return (*(f"{name}: {p}" if p else name for p in self.parts), *flags)

    def said(self, value: float) -> str:
        """Return a value in words."""
        if self.kind == "boolean":
            return "yes" if value else "no"
        return moment(value) if self.kind == "date" else written(value)

    @property
    def filling(self) -> str:
        """What a missing value becomes, in words."""
        usual = "more common" if self.kind == "boolean" else "median"
        return f"the {usual} {self.said(self.fill)}"

    def encode(
        self, column: "Column", cells: pa.Array, reading: Reading, out: FloatArray
    ) -> None:
        """Write the cells of a batch ``(n,)`` into its columns ``(n, k)``."""
        name = column.name
        if self.kind == "number":
            parsed = parse_numbers(cells, reading.style)
        elif self.kind == "boolean":
            parsed = parse_booleans(cells, reading.style, digits=True)
        else:
            parsed = parse_dates(cells, reading.style, order=self.day_first).parsed
        noun = "yes-or-no value" if self.kind == "boolean" else self.kind
        absent = np.isnan(parsed.values)
        gone = absent
        if parsed.bad is not None:
            reading.refuse_bad(name, parsed, cells, noun)
            reading.note("bad", name, parsed.bad, cells, noun)
            gone = absent & ~parsed.bad
        if not self.flag:
            reading.note("missing", name, gone, cells, f"filled with {self.filling}")
        values = np.where(absent, self.fill, parsed.values)
        mask = (values < self.low) | (values > self.high)
        # That new rows are later than those of training is no news.
        if self.kind != "boolean" and column.kind != "time" and self.parts != ():
            np.logical_or(reading.outside, mask, out=reading.outside)
            detail = f"{self.said(self.low)} to {self.said(self.high)}"
            reading.note("outside", name, mask, cells, detail)
        for place, part in enumerate(self.parts):
            out[:, place] = (
                part_values(part, values, first=self.low) if part else values
            )
        if self.flag:
            out[:, -1] = absent


_UNKNOWN, _NOTHING = -2, -1
_Codes = npt.NDArray[np.int64]


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
        texts = (*self.levels, *self.rare)
        if (
            not 0 < len(self.levels) <= MOST_LEVELS
            or len(self.rare) > MOST_RARE
            or len(set(texts)) < len(texts)
            or self._slots < 2
            or (self.rare and not self.other)
        ):
            raise damaged("the levels of a column do not fit")

    @property
    def _slots(self) -> int:
        return len(self.levels) + self.other + self.missing

    @property
    def _skipped(self) -> int:
        # Of two columns the first one says nothing that the second does not.
        return 1 if self._slots == 2 else 0

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        names = [f"{name} = {level}" for level in self.levels]
        names += [f"{name} is other"] * self.other
        names += [f"{name} is missing"] * self.missing
        return tuple(names[self._skipped :])

    def encode(
        self, column: "Column", cells: pa.Array, reading: Reading, out: FloatArray
    ) -> None:
        """Write the cells of a batch ``(n,)`` into its columns ``(n, k)``."""
        name = column.name
        rows = _row_codes(cells, self.levels, reading.style, self.rare)
        unknown, nothing = rows == _UNKNOWN, rows == _NOTHING
        refuge = "none of the levels"
        if self.other:
            refuge = "'other'"
        elif self._skipped:
            refuge = shown(self.levels[0])
        reading.note("unknown", name, unknown, cells, f"taken as {refuge}")
        if not self.missing:
            reading.note("missing", name, nothing, cells, f"taken as {refuge}")
        other = len(self.levels) if self.other else _NOTHING
        rows = np.where(unknown, other, rows)
        rows = np.where(nothing, self._slots - 1 if self.missing else other, rows)
        out[:] = 0.0
        marked = np.flatnonzero(rows >= self._skipped)
        out[marked, rows[marked] - self._skipped] = 1.0


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
        count = len(set(self.levels))
        if not 0 < count == len(self.levels) == len(self.means) == len(self.shares):
            raise damaged("the levels of a column do not fit")

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the matrix."""
        flags = (f"{name} is missing",) if self.flag else ()
        return (f"{name}: mean target", f"{name}: known share", *flags)

    @classmethod
    def learn(
        cls, cells: pa.Array, y: FloatArray, levels: tuple[str, ...], style: Style
    ) -> "TargetRule":
        """Learn the means of levels from the rows whose target is not NaN."""
        codes = _row_codes(cells, levels, style)
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

    def encode(
        self, column: "Column", cells: pa.Array, reading: Reading, out: FloatArray
    ) -> None:
        """Write the cells of a batch ``(n,)`` into its columns ``(n, k)``."""
        codes = _row_codes(cells, self.levels, reading.style)
        unknown, nothing = codes == _UNKNOWN, codes == _NOTHING
        refuge = "taken as the mean of all levels"
        reading.note("unknown", column.name, unknown, cells, refuge)
        if not self.flag:
            reading.note("missing", column.name, nothing, cells, refuge)
        places = np.maximum(codes, -1)
        out[:, 0] = np.append(self.means, self.prior)[places]
        out[:, 1] = np.append(self.shares, 0.0)[places]
        if self.flag:
            out[:, -1] = nothing


def _row_codes(
    cells: pa.Array, levels: tuple[str, ...], style: Style, rare: tuple[str, ...] = ()
) -> _Codes:
    """Return the level of each row; rare ones come behind the last."""
    encoded = as_text(cells).dictionary_encode()
    keys = encoded.dictionary

    def places(texts: pa.Array, among: tuple[str, ...]) -> npt.NDArray[Any]:
        found = pc.index_in(texts, value_set=pa.array(among, texts.type))
        return to_numpy(pc.fill_null(found, _UNKNOWN))

    alike = _canonical(keys)
    codes = places(keys, levels)
    close = places(alike, _plain_levels(levels))
    codes = np.where(codes == _UNKNOWN, close, codes)
    seldom = places(alike, _plain_levels(rare)) != _UNKNOWN
    codes = np.where(seldom & (codes == _UNKNOWN), len(levels), codes)
    absent = places(pc.utf8_lower(keys), style.tokens) != _UNKNOWN
    codes = np.append(np.where(absent, _NOTHING, codes), _NOTHING)
    rows: _Codes = codes[to_numpy(pc.fill_null(encoded.indices, len(codes) - 1))]
    return rows


def _canonical(texts: pa.Array) -> pa.Array:
    """Return 1.0 as 1 and True as true, as other programs write them."""
    texts = pc.replace_substring_regex(texts, r"^([+-]?\d+)\.0+$", r"\1")
    texts = pc.replace_substring_regex(texts, "^(?:TRUE|True)$", "true")
    return pc.replace_substring_regex(texts, "^(?:FALSE|False)$", "false")


def _plain_levels(levels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_canonical(pa.array(levels, pa.string())).to_pylist())


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
            raise damaged(f"a column is of kind {self.kind!r}, which cannot be used")

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


def damaged(what: str) -> InputError:
    """Return the error for a description that cannot be used."""
    return InputError(
        f"the description of the columns in the model is damaged: {one_line(what)}. "
        "Fit the model again, or get the folder once more."
    )


def restored(kind: Any, content: Any, where: str) -> Any:  # noqa: ANN401, C901
    """Build a value of a type from untrusted JSON, or raise the error of a damaged one.

    The type is a dataclass, a tuple of one type, an optional one, a literal, or plain.
    """
    options, origin = get_args(kind), get_origin(kind)
    if type(None) in options:
        if content is None:
            return None
        # Of several dataclasses the one that has such a field.
        first, *others = [option for option in options if option is not type(None)]
        for other in others:
            if isinstance(content, dict) and fields(other)[0].name in content:
                first = other
        return restored(first, content, where)
    if is_dataclass(kind) and isinstance(content, dict):
        types, parts = get_type_hints(kind), {}
        for field in fields(kind):
            if field.name not in content:
                raise damaged(f"{where} has no {field.name!r}")
            place = f"{field.name!r} of {where}"
            parts[field.name] = restored(types[field.name], content[field.name], place)
        try:
            return kind(**parts)  # type: ignore[operator]
        except InputError as error:
            raise error if "damaged" in str(error) else damaged(str(error)) from None
    many = f"of at most {MOST_ENTRIES:,}"
    if origin is tuple and isinstance(content, list) and len(content) <= MOST_ENTRIES:
        return tuple(
            restored(options[0], entry, f"entry {place} of {where}")
            for place, entry in enumerate(content, 1)
        )
    wanted, good = {
        tuple: (f"a list {many} entries", False),
        Literal: (f"one of {', '.join(map(str, options))}", content in options),
        bool: ("true or false", content is True or content is False),
        str: (f"a text {many} characters", type(content) is str),
        int: ("a whole number from 0 on", type(content) is int),
        float: ("a finite number", type(content) in (int, float)),
    }.get(origin or kind, (f"a mapping, got {type(content).__name__}", False))
    if good and type(content) in (int, float):
        good = (kind is float or content >= 0) and abs(content) <= sys.float_info.max
    if not good or (kind is str and len(content) > MOST_ENTRIES):
        got = shown(content) if isinstance(content, str) else f"{content!r:.60}"
        if isinstance(content, list | dict):
            got = f"a {type(content).__name__}"
        raise damaged(f"{where} must be {wanted}, got {got}")
    return content if origin is Literal else kind(content)


def plain_json(value: Any) -> Any:  # noqa: ANN401
    """Return a dataclass as what :mod:`json` would read again."""
    return json.loads(json.dumps(asdict(value), allow_nan=False))
