"""Tables and options that ``calibrant predict`` cannot predict, or not all of."""

from bad_input.case import Case
from bad_input.houses import HEADER, houses

__all__ = ["PREDICTING"]

PREDICT = "predict model bad.csv -o out.csv"


def _refused(kind: str, content: str, says: str, more: str = "") -> Case:
    command = f"{PREDICT} {more}".strip()
    return Case(kind=kind, command=command, files={"bad.csv": content}, says=says)


def _option(kind: str, more: str, says: str) -> Case:
    return Case(kind=kind, command=f"predict model houses.csv {more}", says=says)


def _handled(kind: str, content: str, says: str, more: str = "") -> Case:
    return Case(
        kind=kind,
        command=f"{PREDICT} {more}".strip(),
        code=0,
        files={"bad.csv": content},
        makes=("out.csv",),
        says=says,
    )


_COLUMNS = (
    _refused(
        "a column that the model needs is missing",
        houses(columns=["size", "zone", "day"]),
        "'rooms'",
    ),
    _refused("a column that was renamed", houses(names={"rooms": "room"}), "'room'"),
    _refused("all columns are missing", "a,b\n1,2\n", "'size'"),
    _refused("rows to predict: none", ",".join(HEADER) + "\n", "no rows"),
    _refused(
        "to predict, two columns of the same name",
        houses(names={"id": "size"}),
        "'size'",
    ),
)
_CELLS = (
    _handled(
        "some texts in a column of numbers",
        houses({(7, "size"): "big", (9, "size"): "small"}),
        "row 7",
    ),
    _refused(
        "some texts in a column of numbers, with --strict",
        houses({(7, "size"): "big"}),
        "row 7",
        "--strict",
    ),
    _refused(
        "only texts in a column of numbers", houses({(None, "size"): "big"}), "'size'"
    ),
    _handled("an unknown category", houses({(7, "zone"): "mars"}), "mars"),
    _handled(
        "an unknown category, with --strict",
        houses({(7, "zone"): "mars"}),
        "mars",
        "--strict",
    ),
    _handled("infinite values to predict", houses({(7, "size"): "inf"}), "row 7"),
    _handled(
        "numbers far beyond those of the training", houses({(7, "size"): "1e9"}), "size"
    ),
    _handled("dates that are none", houses({(7, "day"): "soon"}), "row 7"),
    _handled("gaps that the training did not have", houses({(7, "size"): ""}), "size"),
    _handled("a decimal comma in one cell", houses({(7, "size"): '"80,5"'}), "row 7"),
    _handled(
        "a formula in a column of numbers to predict",
        houses({(7, "size"): "=A1"}),
        "row 7",
    ),
    _handled(
        "a formula in a column to keep",
        houses({(7, "id"): "=cmd|' /C calc'!A0"}),
        "apostrophe",
        "--keep id",
    ),
    _handled(
        "a formula in the header of a column to keep",
        houses(names={"id": "@SUM(A1)"}),
        "apostrophe",
        "--keep '@SUM(A1)'",
    ),
    _refused(
        "a row that is broken in the middle of the file",
        houses().replace("h99,", "h99,1,2,"),
        "row 100",
    ),
    Case(
        kind="the same, with an output from yesterday, which stays",
        command=PREDICT,
        files={"bad.csv": houses().replace("h99,", "h99,1,2,"), "out.csv": "mean\n1\n"},
        says="row 100",
    ),
    _handled(
        "a cell of 100,000 characters", houses({(7, "size"): "x" * 100_000}), "xxx..."
    ),
)
_OPTIONS = (
    _option("the output is the input", "-o houses.csv", "input"),
    _option("the output is in a folder that is not there", "-o no/out.csv", "folder"),
    _option("the output is a folder", "-o model", ".parquet"),
    _option("an output that is not written", "-o out.xlsx", ".parquet"),
    _option("--keep of a column that is not there", "--keep idd", "'id'"),
    _refused(
        "--keep of a column that is called as a new one",
        houses({(None, "mean"): "1"}),
        "mean",
        "--keep mean",
    ),
    _option("--coverage in percent", "--coverage 90", "0.9"),
    _option("--coverage 0", "--coverage 0", "0"),
    _option("--coverage that is no number", "--coverage most", "most"),
    _option("--coverage that is not a number", "--coverage nan", "nan"),
    _option("--quantiles that are no numbers", "--quantiles abc", "abc"),
    _option(
        "--quantiles with decimal commas and semicolons",
        "--quantiles '0,1;0,9'",
        "0,1;0,9",
    ),
    _option("--quantiles beyond 1", "--quantiles 5", "0.05"),
    Case(
        kind="an empty folder to predict",
        command="predict model parts -o out",
        files={"parts/.keep": ""},
        says="and there are none",
    ),
    Case(
        kind="a folder to predict with files of several kinds",
        command="predict model parts -o out",
        files={"parts/a.csv": houses(), "parts/b.parquet": b"PAR1"},
        says="Move the others away",
    ),
    Case(
        kind="a folder to predict with files that are no tables",
        command="predict model parts -o out",
        files={"parts/a.csv": houses(), "parts/thesis.docx": b"years of work"},
        says="thesis.docx",
    ),
    Case(
        kind="predictions of a folder that would go into the same folder",
        command="predict model parts -o parts",
        files={"parts/a.csv": houses()},
        says="not the input",
    ),
    Case(
        kind="predictions of a folder that would go to a file",
        command="predict model parts -o houses.csv",
        files={"parts/a.csv": houses()},
        says="this is a file",
    ),
    Case(
        kind="--scheduler for one file",
        command="predict model houses.csv --scheduler tcp://host:8786",
        says="Leave the scheduler out",
    ),
    Case(
        kind="no table to predict", command="predict model", says="table", foreign=True
    ),
    Case(
        kind="model and table in the wrong order",
        command="predict houses.csv model",
        says="houses.csv",
    ),
)
PREDICTING = (*_COLUMNS, *_CELLS, *_OPTIONS)
