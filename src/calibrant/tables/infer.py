"""Which kind a column is, inferred from the training rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calibrant.tables.columns import (
    PARTS,
    CategoryRule,
    Column,
    Kind,
    Part,
    TargetRule,
    ValueRule,
    in_words,
    part_values,
    row_codes,
)
from calibrant.tables.options import Roles, Style, shown, written
from calibrant.tables.parse import (
    DAY,
    FloatArray,
    Parsed,
    as_text,
    cell_text,
    family,
    number_hint,
    parse_booleans,
    parse_dates,
    parse_numbers,
    read_numbers,
)
from calibrant.text import counted, percent

#: Whole numbers from here on are not all different as floats.
EXACT = 2.0**53
#: Up to so many different texts are levels, however few rows there are.
FEW_LEVELS = 20
#: Levels with a column of their own, and if the user calls the column categorical.
LEVELS, MOST_LEVELS = 50, 200
#: Rare levels that are remembered, so that they are not called unknown.
MOST_RARE = 1_000
#: Levels whose mean target is remembered.
MOST_MEANS = 10_000
#: Characters of a level; longer texts are sentences, not names.
LONGEST_LEVEL = 200

_COUNTER = "; another whole number in every row: --drop it if it is an identifier"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A column of the training rows: a plain array of shape ``(n,)``, and its style.

    ``rows`` are their numbers in the file, None counts from 1; ``y`` are the targets,
    None if they are no numbers.
    """

    name: str
    cells: pa.Array
    style: Style
    rows: npt.NDArray[np.int64] | None = None
    y: FloatArray | None = None

    @cached_property
    def _counts(self) -> pa.Table:
        """How often each text occurs; missing ones left out."""
        found = pc.value_counts(as_text(self.cells))
        texts, counts = found.field("values"), found.field("counts")
        tokens = pa.array(self.style.tokens, texts.type)
        absent = pc.is_in(pc.utf8_lower(texts), value_set=tokens)
        keep = pc.and_not(pc.is_valid(texts), absent)
        return pa.table({"text": texts.filter(keep), "count": counts.filter(keep)})

    @property
    def different(self) -> int:
        """How many different texts there are."""
        return int(self._counts.num_rows)

    @property
    def given(self) -> int:
        """How many cells are not missing."""
        return int(pc.sum(self._counts["count"]).as_py() or 0)

    def common(self, most: int) -> dict[str, int]:
        """Return how often the most common texts occur, the first of them first."""
        keys = [("count", "descending"), ("text", "ascending")]
        places = pc.select_k_unstable(self._counts, k=most, sort_keys=keys)
        found = self._counts.take(places)
        return dict(zip(*(part.to_pylist() for part in found.columns), strict=True))

    def first_bad(self, parsed: Parsed) -> str:
        """Return the text and the row of the first bad cell."""
        place = 0 if parsed.bad is None else int(np.argmax(parsed.bad))
        row = place + 1 if self.rows is None else int(self.rows[place])
        return f"{shown(cell_text(self.cells, place))} in row {row:,}"

    def left_out(self, kind: Kind, reason: str) -> Column:
        """Return a column that is not used."""
        missing = len(self.cells) - self.given if kind != "unsupported" else 0
        done = f"left out: {reason}"
        return Column(name=self.name, kind=kind, done=done, missing=missing)


def infer_column(sample: Sample, *, target: str, roles: Roles) -> Column:
    """Find out what a column is and how it enters the matrix."""
    name = sample.name
    if name == target:
        done, style = "the target, to be predicted", sample.style
        if family(sample.cells.type) == "text":
            _, style = read_numbers(sample.cells, style)
            done += _read_as(sample, style)
        own = None if style == sample.style else style
        return Column(name=name, kind="target", done=done, style=own)
    if name == roles.time:
        done = "not a feature, as you asked"
        if name not in roles.drop:
            column = _infer(sample, replace(roles, categorical=()))
            if column.kind in ("number", "date"):
                done = f"orders the rows; {column.done.removesuffix(_COUNTER)}"
                return replace(column, kind="time", done=done)
            done = "not a feature"
        return Column(name=name, kind="time", done=f"orders the rows; {done}")
    if name in roles.drop:
        return Column(name=name, kind="dropped", done="left out, as you asked")
    if name == roles.group:
        done = "keeps rows that belong together on one side of a split; not a feature"
        return Column(name=name, kind="group", done=done)
    return _infer(sample, roles)


def _infer(sample: Sample, roles: Roles) -> Column:
    cells, style = sample.cells, sample.style
    kind = family(cells.type)
    if kind == "other":
        return sample.left_out(
            "unsupported", f"cells of type {cells.type} are not supported"
        )
    if cells.null_count == len(cells):
        return sample.left_out("empty", "all cells are missing")
    if kind == "boolean":
        return _boolean(sample, parse_booleans(cells, style, digits=False))
    if sample.name in roles.categorical:
        return _category(sample, forced=True)
    if kind == "number":
        return _number(sample)
    if kind == "date":
        return _date(sample, roles)
    return _text(sample, roles)


def _text(sample: Sample, roles: Roles) -> Column:
    cells, style = sample.cells, sample.style
    numbers, _ = read_numbers(cells, style)
    if numbers.good_count + numbers.bad_count == 0:
        return sample.left_out("empty", "all cells are missing")
    if numbers.mostly_good:
        return _number(sample)
    truths = parse_booleans(cells, style, digits=False)
    if truths.bad is None:
        return _boolean(sample, truths)
    dates = parse_dates(cells, style, day_first=roles.day_first).parsed
    if dates.mostly_good:
        return _date(sample, roles)
    different, given = sample.different, sample.given
    texts = list(sample.common(100))
    sentence = number_hint(texts, style)
    hint = f"; {sentence[0].lower()}{sentence[1:].rstrip('.')}" if sentence else ""
    if different > FEW_LEVELS:
        for noun, parsed in (("numbers", numbers), ("dates", dates)):
            if 2 * parsed.good_count >= given:
                return sample.left_out(
                    "text",
                    f"{percent(parsed.good_count / given)} {noun}, the rest text such "
                    f"as {sample.first_bad(parsed)}: clean it, or --drop it",
                )
        if 2 * different > given:
            words = 2 * sum(" " in text for text in texts) < len(texts)
            reason = f"{different:,} different texts in {given:,} rows"
            if different >= 0.9 * given and not hint and words:
                return sample.left_out(
                    "identifier", f"{reason}; looks like an identifier"
                )
            return sample.left_out("text", f"{reason}{hint}")
    return _category(sample, forced=False, hint=hint)


# Values -----------------------------------------------------------------------------


def _number(sample: Sample) -> Column:
    parsed, style = read_numbers(sample.cells, sample.style)
    values = parsed.values[~np.isnan(parsed.values)]
    exact = bool((np.abs(values) < EXACT).all())
    alike = bool(values.size) and bool((values == values[0]).all())
    different = len(np.unique(values)) if exact else sample.different
    if alike and different > 1:
        return sample.left_out(
            "identifier",
            f"{different:,} whole numbers beyond 2^53 that are alike to 16 digits; "
            "name it in --categorical if they are names",
        )
    column = _values(sample, parsed, "number", f"number{_read_as(sample, style)}")
    counts = len(values) >= 20 and bool((np.floor(values) == values).all())
    if counts and different == len(values):
        column = replace(column, done=column.done + _COUNTER)
    return replace(column, style=None if style == sample.style else style)


def _boolean(sample: Sample, parsed: Parsed) -> Column:
    return _values(sample, parsed, "boolean", "boolean")


def _date(sample: Sample, roles: Roles) -> Column:
    parsed, day_first, unclear = parse_dates(
        sample.cells, sample.style, day_first=roles.day_first
    )
    values = parsed.values[~np.isnan(parsed.values)]
    parts = date_parts(values) if values.size else ()
    said = f"date: {', '.join(dict.fromkeys(part.split(' (')[0] for part in parts))}"
    if unclear:
        order, other = ("day/month", "month") if day_first else ("month/day", "day")
        said += f"; read as {order}/year, though {other} first would fit, too"
    return _values(sample, parsed, "date", said, parts, day_first)


def _values(
    sample: Sample,
    parsed: Parsed,
    kind: Literal["number", "boolean", "date"],
    said: str,
    parts: Sequence[Part] = ("",),
    day_first: bool = False,
) -> Column:
    """Use a column of values, unless it says nothing, and say what is not there."""
    values = parsed.values[~np.isnan(parsed.values)]
    if not values.size:
        return sample.left_out("empty", "no cell has a value that can be used")
    low, high = float(values.min()), float(values.max())
    flag = values.size < len(parsed.values)
    if low == high and not flag:
        reason = f"the same value in all these rows, {in_words(kind, low)}"
        return sample.left_out("constant", reason)
    if low == high:
        said, parts = f"{kind}: only a flag for missing", ()
    fill = _median(values)
    if kind == "boolean":
        low, high, fill = 0.0, 1.0, float(2 * values.sum() > values.size)
    rule = ValueRule(
        kind=kind,
        low=low,
        high=high,
        fill=fill,
        flag=flag,
        parts=tuple(parts),
        day_first=day_first,
    )
    bad = parsed.bad_count
    missing = len(parsed.values) - values.size - bad
    gaps = [f"{missing:,} missing"] * (missing > 0)
    if bad:
        share = percent(bad / (bad + values.size))
        first = sample.first_bad(parsed)
        gaps.insert(0, f"{counted(bad, 'bad cell')} ({share}, first {first})")
    if gaps:
        said += f"; {' and '.join(gaps)} filled with {rule.filling} and flagged"
    return Column(
        name=sample.name, kind=kind, done=said, missing=missing, bad=bad, rule=rule
    )


def _read_as(sample: Sample, style: Style) -> str:
    """Say how texts with units or thousands are read, by the first of them."""
    if style == sample.style:
        return ""
    plain, dressed = (
        parse_numbers(sample.cells, way).values for way in (sample.style, style)
    )
    place = int(np.argmax(np.isnan(plain) & ~np.isnan(dressed)))
    cell = shown(cell_text(sample.cells, place))
    return f"; {cell} is read as {written(dressed[place])}"


def _median(values: FloatArray) -> float:
    """Return the median, also where a sum of two values would be infinite."""
    ordered = np.sort(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return float(low / 2 + high / 2) if low != high else float(low)


def date_parts(seconds: FloatArray) -> tuple[Part, ...]:
    """Return which features differ from row to row over the moments of training."""
    first = float(seconds.min())
    span = (float(seconds.max()) - first) / DAY
    wanted = {
        "position": True,
        "month": span > 60,
        "weekday": span > 7,
        "hour": bool((seconds % DAY > 0).any()),
    }
    return tuple(
        part
        for part in PARTS
        if wanted[part.split(" (")[0]]
        and np.ptp(part_values(part, seconds, first=first)) > 1e-9
    )


# Categories -------------------------------------------------------------------------


def _category(sample: Sample, *, forced: bool, hint: str = "") -> Column:
    """Learn the levels of a category; ``forced`` ones may have more."""
    different, rows = sample.different, len(sample.cells)
    missing = rows - sample.given
    if not different:
        return sample.left_out("empty", "all cells are missing")
    counts = sample.common(MOST_MEANS)
    if different == 1 and not missing:
        only = shown(next(iter(counts)))
        return sample.left_out("constant", f"the same value in all these rows, {only}")
    short = [text for text in counts if len(text) <= LONGEST_LEVEL]
    most = MOST_LEVELS if forced else LEVELS
    means = different > most and sample.y is not None
    least = 2 if means else max(2, math.ceil((0.0005 if forced else 0.002) * rows))
    enough = [text for text in short if counts[text] >= least]
    if not enough:
        reason = f"{different:,} different texts, none of them in {least:,} rows"
        return sample.left_out("text", f"{reason}{hint}")
    rule: TargetRule | CategoryRule
    if means and sample.y is not None:
        levels = tuple(short)
        codes = row_codes(sample.cells, levels, sample.style)
        rule = TargetRule.learn(codes, sample.y, levels)
        how, rest, gap = (
            ", by their mean target",
            "the mean of all",
            "well, and flagged",
        )
    else:
        levels = tuple(enough[:most])
        kept = set(levels)
        rule = CategoryRule(
            levels=levels,
            rare=tuple(text for text in short if text not in kept)[:MOST_RARE],
            other=len(levels) < different,
            missing=missing > 0,
        )
        each = " each" if len(rule.features("")) > 1 else ""
        how, rest, gap = f", one column{each}", "'other'", "a level of their own"
    done = f"category: {counted(len(levels), 'level')}{how}"
    if others := different - len(levels):
        done += f"; {counted(others, 'rare one')} as {rest}"
    if missing:
        done += f"; {missing:,} missing as {gap}"
    return Column(
        name=sample.name, kind="category", done=done + hint, missing=missing, rule=rule
    )
