"""Columns of text: categories, identifiers, and what is too mixed to use."""

import math
from itertools import islice

import numpy as np

from calibrant.tables._category_rule import MOST_LEVELS, MOST_RARE, CategoryRule
from calibrant.tables._cells import Parsed, cell_text
from calibrant.tables._errors import shown
from calibrant.tables._hints import number_hint
from calibrant.tables._sample import Sample
from calibrant.tables._words import percent
from calibrant.tables.column import Column

__all__ = ["learn_category", "learn_text"]

FEW_LEVELS = 20
"""Up to so many different texts are levels, however few rows there are."""
LEVELS = 50
"""Levels with a column of their own, unless the user calls the column categorical."""
LONGEST_LEVEL = 200
"""Characters of a level; longer texts are sentences, not names."""


def learn_text(sample: Sample, *, numbers: Parsed, dates: Parsed) -> Column:
    """Learn from text that is neither numbers nor dates."""
    different, given = sample.different, sample.given
    hint = _hint(sample)
    if different > FEW_LEVELS:
        for noun, parsed in (("numbers", numbers), ("dates", dates)):
            if 2 * parsed.good_count >= given:
                return sample.left_out("text", _mixed(sample, noun, parsed))
        if 2 * different > given:
            alike = different >= 0.9 * given and not hint and _are_words(sample)
            kind = "identifier" if alike else "text"
            reason = f"{different:,} different texts in {given:,} rows"
            reason += "; looks like an identifier" if alike else ""
            return sample.left_out(kind, f"{reason}{hint}")
    return learn_category(sample, forced=False, hint=hint)


def learn_category(sample: Sample, *, forced: bool, hint: str = "") -> Column:
    """Learn the levels of a category; ``forced`` ones may have more."""
    different, rows = sample.different, len(sample.cells)
    missing = rows - sample.given
    if not different:
        return sample.left_out("empty", "all cells are missing")
    counts = sample.common(MOST_LEVELS + MOST_RARE)
    if different == 1 and not missing:
        only = shown(next(iter(counts)))
        return sample.left_out("constant", f"the same value in all these rows, {only}")
    least = max(2, math.ceil((0.0005 if forced else 0.002) * rows))
    enough = [
        text
        for text, count in counts.items()
        if count >= least and len(text) <= LONGEST_LEVEL
    ]
    levels = enough[: MOST_LEVELS if forced else LEVELS]
    if not levels:
        reason = f"{different:,} different texts, none of them in {least:,} rows"
        return sample.left_out("text", f"{reason}{hint}")
    kept = set(levels)
    rare = (text for text in counts if text not in kept and len(text) <= LONGEST_LEVEL)
    rule = CategoryRule(
        levels=tuple(levels),
        rare=tuple(islice(rare, MOST_RARE)),
        other=len(levels) < different,
        missing=missing > 0,
    )
    done = _done(rule, others=different - len(levels), missing=missing) + hint
    return Column(
        name=sample.name, kind="category", done=done, missing=missing, rule=rule
    )


def _done(rule: CategoryRule, *, others: int, missing: int) -> str:
    count = len(rule.levels)
    parts = [f"category: {count:,} level{'s' if count > 1 else ''}"]
    columns = len(rule.features(""))
    parts[0] += ", one column each" if columns > 1 else ", one column"
    if others:
        parts.append(f"{others:,} rare one{'s' if others > 1 else ''} as 'other'")
    if missing:
        parts.append(f"{missing:,} missing as a level of their own")
    return "; ".join(parts)


def _mixed(sample: Sample, noun: str, parsed: Parsed) -> str:
    """Say of what most cells are, and where the first one is that is not."""
    share = percent(parsed.good_count, parsed.good_count + parsed.bad_count)
    place = 0 if parsed.bad is None else int(np.argmax(parsed.bad))
    cell = shown(cell_text(sample.cells, place))
    return (
        f"{share} {noun}, the rest text such as {cell} in row {sample.row(place):,}: "
        "clean it, or --drop it"
    )


def _are_words(sample: Sample) -> bool:
    """Say whether most texts are single words, as codes are and sentences are not."""
    texts = sample.common(100)
    return 2 * sum(" " in text for text in texts) < len(texts)


def _hint(sample: Sample) -> str:
    sentence = number_hint(list(sample.common(100)), sample.style)
    return f"; {sentence[0].lower()}{sentence[1:].rstrip('.')}" if sentence else ""
