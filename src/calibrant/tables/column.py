"""One column of the training file: its kind, and what was done with it."""

from dataclasses import dataclass
from typing import Any

from calibrant.tables._boolean_rule import BooleanRule
from calibrant.tables._category_rule import CategoryRule
from calibrant.tables._date_rule import DateRule
from calibrant.tables._description import Description, damaged
from calibrant.tables._errors import shortened
from calibrant.tables._number_rule import NumberRule

__all__ = ["KINDS", "Column", "ColumnLine", "Rule"]

Rule = NumberRule | BooleanRule | DateRule | CategoryRule

_RULES: dict[str, Any] = {
    "number": NumberRule,
    "boolean": BooleanRule,
    "category": CategoryRule,
    "date": DateRule,
    "time": NumberRule,  # or DateRule
}
KINDS = (
    *_RULES,
    *("constant", "empty", "text", "identifier", "unsupported"),
    *("dropped", "target", "group"),
)
"""Every kind of column; the first five can be used as features."""


@dataclass(frozen=True, kw_only=True)
class ColumnLine:
    """What was done with one column, in plain words.

    Parameters
    ----------
    name
        As in the header.
    kind
        What it holds: numbers, categories, dates, the target.
    used
        Whether the model looks at it.
    done
        How it was made into numbers, or why it was left out.
    """

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
        One of :data:`KINDS`.
    done
        What was done with it, in plain words.
    missing
        Empty cells in training.
    bad
        Cells in training that did not fit the kind and count as missing.
    bad_row, bad_cell
        Where the first bad cell stands and what it says.
    rule
        How it enters the matrix; None if it is not used.

    Examples
    --------
    >>> Column(name="id", kind="dropped", done="left out, as you asked").used
    False
    """

    name: str
    kind: str
    done: str
    missing: int = 0
    bad: int = 0
    bad_row: int | None = None
    bad_cell: str | None = None
    rule: Rule | None = None

    @property
    def used(self) -> bool:
        """Whether the model sees it."""
        return self.rule is not None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its columns of the matrix, none if it is not used."""
        return (
            () if self.rule is None else self.rule.features(shortened(self.name, 100))
        )

    def line(self) -> ColumnLine:
        """Say what was done with it."""
        done = "used as it is" if self.done == self.kind else self.done
        return ColumnLine(name=self.name, kind=self.kind, used=self.used, done=done)

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "used": self.used,
            "done": self.done,
            "missing": self.missing,
            "bad": self.bad,
            "bad_row": self.bad_row,
            "bad_cell": self.bad_cell,
            "rule": None if self.rule is None else self.rule.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: object, *, where: str) -> "Column":
        """Check a stranger's description and return what it says."""
        entry = Description(content, where)
        kind = entry.choice("kind", KINDS)
        used = entry.truth("used")
        if used and kind not in _RULES:
            raise damaged(f"{where} is of kind {kind!r}, which cannot be used")
        rule: Rule | None = None
        if used:
            part = entry.part("rule")
            dated = kind == "time" and part.has("parts")
            rule = DateRule.from_dict(part) if dated else _RULES[kind].from_dict(part)
        bad = entry.count("bad")
        return cls(
            name=entry.text("name"),
            kind=kind,
            done=entry.text("done"),
            missing=entry.count("missing"),
            bad=bad,
            bad_row=entry.count("bad_row") if bad else None,
            bad_cell=entry.text("bad_cell") if bad else None,
            rule=rule,
        )
