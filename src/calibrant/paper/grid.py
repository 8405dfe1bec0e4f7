"""One table object, and its texts: Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

# What LaTeX would take for a command, and letters that its fonts lack.
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "λ": r"$\lambda$",
    "Σ": r"$\Sigma$",
    "∞": r"$\infty$",
    "∫": r"$\int$",
    "²": r"$^2$",
    "·": r"$\cdot$",
}


@dataclass(frozen=True)
class Column:
    """A column: heading, the heading that it shares, whether it is of numbers."""

    title: str
    group: str = ""
    numeric: bool = False


def columns(*heads: str) -> tuple[Column, ...]:
    """Make columns from ``"group: title"`` or ``"title"``, after ``#`` if numeric.

    Examples
    --------
    >>> columns("set", "#ours: error")[1]
    Column(title='error', group='ours', numeric=True)
    """
    found = []
    for head in heads:
        group, _, title = head.removeprefix("#").rpartition(": ")
        found.append(Column(title, group, numeric=head.startswith("#")))
    return tuple(found)


@dataclass(frozen=True)
class Entry:
    """One place of a table: text, exact number, details for a tooltip, bold or not."""

    text: str
    value: float | None = None
    detail: str = ""
    emphasis: bool = False


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table with its title, caption and notes.

    Examples
    --------
    >>> grid = Grid(
    ...     name="one",
    ...     title="One",
    ...     caption="A number.",
    ...     columns=(Column("set"), Column("error", "ours", numeric=True)),
    ...     rows=((Entry("yacht"), Entry("5.4", 5.4, emphasis=True)),),
    ... )
    >>> print(to_markdown(grid))
    ### One
    <BLANKLINE>
    A number.
    <BLANKLINE>
    | set | ours: error |
    |:--|--:|
    | yacht | **5.4** |
    <BLANKLINE>
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()


def to_markdown(grid: Grid) -> str:
    """Write a table as Markdown, title, caption and notes included."""
    heads = [
        f"{column.group}: {column.title}" if column.group else column.title
        for column in grid.columns
    ]
    marks = ["--:" if column.numeric else ":--" for column in grid.columns]
    lines = [f"### {grid.title}", "", grid.caption, ""]
    lines += [_row([_cell(head) for head in heads]), f"|{'|'.join(marks)}|"]
    lines += [_row([_bold(entry) for entry in row]) for row in grid.rows]
    lines += [text for note in grid.notes for text in ("", note)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ").replace("*", r"\*")


def _bold(entry: Entry) -> str:
    text = _cell(entry.text)
    return f"**{text}**" if entry.emphasis and text else text


def to_latex(grid: Grid) -> str:
    """Write a table as LaTeX; it needs the packages booktabs and graphicx."""
    kinds = "".join("r" if column.numeric else "l" for column in grid.columns)
    lines = [
        "% \\usepackage{booktabs,graphicx}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_tex(grid.title)}. {_tex(grid.caption)}}}",
        f"\\label{{tab:{grid.name}}}",
        "\\resizebox{\\textwidth}{!}{%",
        f"\\begin{{tabular}}{{{kinds}}}",
        "\\toprule",
        *_groups(grid.columns),
        _tex_row([_tex(column.title) for column in grid.columns]),
        "\\midrule",
        *(_tex_row([_tex_entry(entry) for entry in row]) for row in grid.rows),
        "\\bottomrule",
        "\\end{tabular}}",
        *(f"\\par\\smallskip\\footnotesize {_tex(note)}" for note in grid.notes),
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _groups(columns: Sequence[Column]) -> list[str]:
    """The heading above the heading, with a rule below each group."""
    if not any(column.group for column in columns):
        return []
    cells, rules, start = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        if group:
            cells.append(f"\\multicolumn{{{width}}}{{c}}{{{_tex(group)}}}")
            rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
        else:
            cells += [""] * width
        start += width
    return [_tex_row(cells), "".join(rules)]


def _tex_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _tex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _tex_entry(entry: Entry) -> str:
    text = _tex(entry.text)
    # A bracket first in a row would be read as an option of the line break before it.
    text = f"{{}}{text}" if text.startswith("[") else text
    return f"\\textbf{{{text}}}" if entry.emphasis and text else text


def to_csv(grid: Grid) -> str:
    """Write a table for machines: one line for each entry, with its raw value."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = ("row", "label", "group", "column", "text", "value", "detail", "emphasis")
    writer.writerow(names)
    for index, row in enumerate(grid.rows):
        for column, entry in zip(grid.columns, row, strict=True):
            place = (index, row[0].text, column.group, column.title)
            value = "" if entry.value is None else repr(float(entry.value))
            bold = int(entry.emphasis)
            writer.writerow((*place, entry.text, value, entry.detail, bold))
    return file.getvalue()
