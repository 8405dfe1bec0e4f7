"""Which kind a column is, found out from the training rows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from calibrant.tables._boolean_rule import BooleanRule
from calibrant.tables._booleans import parse_booleans
from calibrant.tables._calendar import calendar_parts
from calibrant.tables._cells import FloatArray, Parsed, family
from calibrant.tables._date_rule import DateRule
from calibrant.tables._dates import DateCells, parse_dates
from calibrant.tables._number_rule import NumberRule
from calibrant.tables._numbers import parse_numbers
from calibrant.tables._sample import Sample, median
from calibrant.tables._text_kinds import learn_category, learn_text
from calibrant.tables._words import moment, written
from calibrant.tables.column import Column

__all__ = ["learn_kind", "learn_time"]

ENOUGH = 0.9
"""The share of the cells that must fit for a column of text to be of a kind."""
EXACT = 2.0**53
"""Whole numbers from here on are not all different as floats."""

_COUNTER = "; another whole number in every row: --drop it if it is an identifier"


def learn_kind(sample: Sample, *, categorical: bool, day_first: bool | None) -> Column:
    """Find out the kind of a column and how it enters the matrix."""
    kind = family(sample.cells.type)
    if kind == "other":
        return sample.left_out(
            "unsupported", f"cells of type {sample.cells.type} are not supported"
        )
    if kind == "null" or sample.cells.null_count == len(sample.cells):
        return sample.left_out("empty", "all cells are missing")
    if categorical and kind != "boolean":
        return learn_category(sample, forced=True)
    learn: dict[str, Callable[[], Column]] = {
        "number": lambda: _number(sample, parse_numbers(sample.cells, sample.style)),
        "boolean": lambda: _boolean(sample, _booleans(sample)),
        "date": lambda: _date(sample, _dates(sample, day_first)),
        "text": lambda: _text(sample, day_first),
    }
    return learn[kind]()


def learn_time(sample: Sample, *, day_first: bool | None, feature: bool) -> Column:
    """Use the column that orders the rows: its position, and what comes again.

    Parameters
    ----------
    sample, day_first
        As for :func:`learn_kind`.
    feature
        Whether it is a feature as well.
    """
    done = "orders the rows; not a feature, as you asked"
    if feature:
        column = learn_kind(sample, categorical=False, day_first=day_first)
        if column.kind in ("number", "date"):
            done = f"orders the rows; {column.done.removesuffix(_COUNTER)}"
            return replace(column, kind="time", done=done)
        done = "orders the rows; not a feature"
    return Column(name=sample.name, kind="time", done=done)


def _text(sample: Sample, day_first: bool | None) -> Column:
    numbers = parse_numbers(sample.cells, sample.style)
    if numbers.good_count + numbers.bad_count == 0:
        return sample.left_out("empty", "all cells are missing")
    if _enough(numbers):
        return _number(sample, numbers)
    truths = _booleans(sample)
    if truths.bad is None:
        return _boolean(sample, truths)
    dates = _dates(sample, day_first)
    if _enough(dates.parsed):
        return _date(sample, dates)
    return learn_text(sample, numbers=numbers, dates=dates.parsed)


def _enough(parsed: Parsed) -> bool:
    good = parsed.good_count
    return good > 0 and good >= ENOUGH * (good + parsed.bad_count)


def _booleans(sample: Sample) -> Parsed:
    return parse_booleans(sample.cells, sample.style, digits=False)


def _dates(sample: Sample, day_first: bool | None) -> DateCells:
    return parse_dates(sample.cells, sample.style, day_first=day_first)


def _number(sample: Sample, parsed: Parsed) -> Column:
    values = parsed.values[~np.isnan(parsed.values)]
    if not values.size:
        return sample.left_out("empty", "no cell has a finite value")
    low, high, fill = float(values.min()), float(values.max()), median(values)
    flag = values.size < len(parsed.values)
    if low == high and abs(low) >= EXACT and sample.different > 1:
        return sample.left_out(
            "identifier",
            f"{sample.different:,} whole numbers beyond 2^53 that are alike to 16 "
            "digits; name it in --categorical if they are names",
        )
    if low == high and not flag:
        return sample.left_out(
            "constant", f"the same value in all these rows, {written(low)}"
        )
    rule = NumberRule(low=low, high=high, fill=fill, flag=flag, value=low < high)
    if low == high:
        done = (
            f"number: {written(low)} wherever it is given, so only a flag for missing"
        )
        return sample.column("number", parsed, done=done, rule=rule)
    done = f"number{sample.gaps(parsed, f'the median {written(fill)}')}"
    if _is_counter(values, sample):
        done += _COUNTER
    return sample.column("number", parsed, done=done, rule=rule)


def _is_counter(values: FloatArray, sample: Sample) -> bool:
    if len(values) < 20 or (np.floor(values) != values).any():
        return False
    exact = np.abs(values).max() < EXACT
    return (len(np.unique(values)) if exact else sample.different) == len(values)


def _boolean(sample: Sample, parsed: Parsed) -> Column:
    values = parsed.values[~np.isnan(parsed.values)]
    flag = values.size < len(parsed.values)
    varies = bool(values.min() < values.max())
    if not varies and not flag:
        return sample.left_out("constant", "the same value in all these rows")
    fill = float(2 * values.sum() > values.size)
    rule = BooleanRule(fill=fill, flag=flag, value=varies)
    usual = "the more common " + ("yes" if fill else "no")
    done = f"boolean{sample.gaps(parsed, usual)}"
    return sample.column("boolean", parsed, done=done, rule=rule)


def _date(sample: Sample, dates: DateCells) -> Column:
    parsed = dates.parsed
    values = parsed.values[~np.isnan(parsed.values)]
    if not values.size:
        return sample.left_out(
            "empty", "no cell has a date between the years 1 and 9999"
        )
    flag = values.size < len(parsed.values)
    parts = calendar_parts(values)
    if not parts and not flag:
        return sample.left_out("constant", "the same date in all rows")
    fill = median(values)
    rule = DateRule(
        low=float(values.min()),
        high=float(values.max()),
        fill=fill,
        flag=flag,
        parts=parts,
        day_first=dates.day_first,
    )
    names = dict.fromkeys(part.split(" (")[0] for part in parts)
    done = f"date: {', '.join(names) or 'only a flag for missing'}"
    if dates.unclear:
        order, other = (
            ("day/month", "month") if dates.day_first else ("month/day", "day")
        )
        done += f"; read as {order}/year, though {other} first would fit, too"
    done += sample.gaps(parsed, f"the median {moment(fill)}")
    return sample.column("date", parsed, done=done, rule=rule)
