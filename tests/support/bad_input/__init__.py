"""Kinds of bad input, each with its command: what the tests run and the docs list."""

from pathlib import Path
from typing import Any

from bad_input.case import TINY, Case, Content
from bad_input.contents import SPECIAL
from bad_input.houses import forecasts, houses
from bad_input.strangers import STRANGERS

__all__ = ["CASES", "GROUPS", "Case"]

_NEW = "--target price --out new"
#: Words in capitals, which begin a command or end it.
_WORDS = {
    "FIT": f"fit bad.csv {_NEW}",
    "HOUSES": f"fit houses.csv {_NEW}",
    "PREDICT": "predict model bad.csv -o out.csv",
    "OPTION": "predict model houses.csv",
    "STRANGER": "predict stranger one.csv -o out.csv",
    "COMPARE": "compare bad.csv --target y --mean mu --std sigma",
    "TINY": TINY,
    "DONE": f"--drop id {TINY}",
    "SEEN": f"--drop id {TINY} --json",
}


def _table(text: str, make: Any) -> str:
    """Return the sound table of ``make`` with a change, as cases.txt describes it."""
    word, _, rest = text.partition(" ")
    options: dict[str, Any] = {}
    if word == "rows":
        options["rows"] = int(rest)
    elif word == "columns":
        options["columns"] = rest.split(",")
    elif word == "name":
        old, new = rest.split("=", 1)
        options["names"] = {old: new}
    elif word != "sound":
        changes = {}
        for change in text.split("; "):
            row, cell = change.split(" ", 1)
            column, value = cell.split("=", 1)
            changes[None if row == "*" else int(row), column] = value
        options["changes"] = changes
    table: str = make(**options)
    return table


def _case(line: str) -> Case:
    kind, content, command, says = (part.strip() for part in f"{line} ".split(" | "))
    first, _, rest = command.partition(" ")
    code, command = (int(first), rest) if first.isdigit() else (2, command)
    typed = " ".join(_WORDS.get(word, word) for word in command.split(" "))
    make = forecasts if typed.startswith("compare") else houses
    name, _, change = content.rpartition(": ")
    files: dict[str, Content] = {}
    if kind in STRANGERS:
        files = {"stranger": STRANGERS[kind], "one.csv": houses(rows=1)}
    elif content == "special":
        special = SPECIAL[kind]
        files = special if isinstance(special, dict) else {"bad.csv": special}  # type: ignore[dict-item]
    elif content:
        files = {name or "bad.csv": _table(change, make)}
    column, sign, done = says.partition(": ") if "--json" in typed else ("", "", "")
    made = {"fit": "new", "predict": "out.csv"}.get(typed.split()[0])
    return Case(
        kind=kind,
        command=typed,
        says=done if sign else says.removeprefix("="),
        code=code,
        files=files,
        makes=(made,) if made and code == 0 else (),
        column=column or None,
        alike=says == "=",
    )


def _groups() -> dict[str, tuple[Case, ...]]:
    text = Path(__file__).with_name("cases.txt").read_text("utf-8")
    _, *parts = text.split("## ")
    groups = {}
    for part in parts:
        heading, *lines = part.strip().split("\n")
        groups[heading] = tuple(_case(line) for line in lines)
    return groups


#: By the headings of the docs, in their order.
GROUPS = _groups()
CASES = tuple(case for cases in GROUPS.values() for case in cases)
