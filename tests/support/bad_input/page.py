"""The table of bad input in the docs."""

from collections.abc import Mapping, Sequence

from bad_input.case import Case

__all__ = ["page", "row"]

_TITLE = """# Bad input

What the command line does with input that is not as it should be. Exit code 2 is a
mistake in the command or in a file: one line says what it is, and no file appears or
changes. Exit code 0 is input that can be used all the same, with a note where something
was assumed. The table is written by `python docs/make_bad_input.py`; a test runs every
line of it.

`houses.csv` is a sound table, `model` was trained on it, and `bad.csv` is the bad one.
"""
_HEAD = "| what is bad | command | exit code | what is printed |\n|---|---|---|---|\n"


def row(case: Case, text: str) -> str:
    """Return the line of one case, which printed this text."""
    said = "<br>".join(_code(line) for line in text.splitlines())
    shown = f"calibrant {case.command}"
    return f"| {case.kind} | {_code(shown)} | {case.code} | {said or 'nothing'} |"


def page(groups: Mapping[str, Sequence[str]]) -> str:
    """Return the whole page of lines of :func:`row`, by their headings."""
    parts = [
        f"## {heading}\n\n{_HEAD}" + "".join(f"{line}\n" for line in lines)
        for heading, lines in groups.items()
    ]
    return "\n".join((_TITLE, *parts))


def _code(text: str) -> str:
    plain = "".join(each if each.isprintable() else "?" for each in text)
    marked = plain.replace("|", "\\|")
    return f"`` {marked} ``" if "`" in marked else f"`{marked}`"
