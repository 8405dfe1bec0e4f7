"""One table object as Markdown, LaTeX and CSV."""

import csv
import io
import re

import pytest

from calibrant.paper.tables import Column, Entry, Grid, to_csv, to_latex, to_markdown


@pytest.fixture
def grid() -> Grid:
    return Grid(
        name="small",
        title="A title",
        caption="50 % of A & B_c.",
        columns=(
            Column("set"),
            Column("ours", "error", numeric=True),
            Column("paper", "error", numeric=True),
            Column("note"),
        ),
        rows=(
            (
                Entry("red_wine *"),
                Entry("1.23 ± 0.10", 1.23456789012345, "p = 0.01", True),
                Entry("n/a"),
                Entry("a|b, λ <2>"),
            ),
            (Entry("[odd]"), Entry("inf", float("inf")), Entry("2", 2.0), Entry("")),
        ),
        notes=("A note.", "Another."),
    )


def test_markdown(grid: Grid) -> None:
    lines = to_markdown(grid).splitlines()
    assert lines[0] == "### A title"
    assert lines[4] == "| set | error: ours | error: paper | note |"
    assert lines[5] == "|:--|--:|--:|:--|"
    assert lines[6] == r"| red_wine \* | **1.23 ± 0.10** | n/a | a\|b, λ <2> |"
    assert lines[-1] == "Another."


def test_csv_has_raw_values_and_comes_back(grid: Grid) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(grid))))
    assert len(rows) == 8
    assert rows[1]["value"] == "1.23456789012345"
    assert (rows[1]["emphasis"], rows[1]["detail"]) == ("1", "p = 0.01")
    assert rows[2]["value"] == ""
    assert float(rows[5]["value"]) == float("inf")
    assert {row["label"] for row in rows} == {"red_wine *", "[odd]"}


def test_latex_is_escaped_balanced_and_has_equal_rows(grid: Grid) -> None:
    text = to_latex(grid)
    assert r"50 \% of A \& B\_c." in text
    assert r"\textbf{1.23 $\pm$ 0.10}" in text
    assert r"a\textbar{}b, $\lambda$ $<$2$>$" in text
    assert r" & \multicolumn{2}{c}{error} &  \\" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert "{}[odd]" in text
    assert r"\begin{tabular}{lrrl}" in text
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    for line in body.strip().splitlines():
        assert len(re.findall(r"(?<!\\)&", line)) == 3
    assert text.count(r"\begin") == text.count(r"\end")
    assert text.isascii()
