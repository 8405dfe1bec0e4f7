"""Tables and options that ``calibrant fit`` cannot learn from."""

from bad_input.case import TINY, Case, Content
from bad_input.houses import houses

__all__ = ["FITTING"]

FIT = "fit bad.csv --target price --out new"


def _refused(
    kind: str, content: str, says: str, more: str = "", defect: str = ""
) -> Case:
    return Case(
        kind=kind,
        command=f"{FIT} {more}".strip(),
        files={"bad.csv": content},
        says=says,
        defect=defect,
    )


def _option(
    kind: str,
    more: str,
    says: str,
    files: dict[str, Content] | None = None,
    foreign: bool = False,
    defect: str = "",
) -> Case:
    return Case(
        kind=kind,
        command=f"fit houses.csv --target price --out new {more}".strip(),
        files=files or {},
        says=says,
        foreign=foreign,
        defect=defect,
    )


def _handled(
    kind: str, content: str, says: str, column: str | None = None, more: str = ""
) -> Case:
    shown = "" if column is None else " --json"
    return Case(
        kind=kind,
        command=" ".join(f"{FIT} --drop id {more} {TINY}{shown}".split()),
        code=0,
        files={"bad.csv": content},
        column=column,
        makes=("new",),
        says=says,
    )


_TARGET = (
    Case(
        kind="a misspelled target",
        command="fit houses.csv --target prise --out new",
        says="'price'",
    ),
    Case(
        kind="a target in capitals",
        command="fit houses.csv --target PRICE --out new",
        says="'price'",
    ),
    Case(
        kind="a target that is like no column",
        command="fit houses.csv --target yield --out new",
        says="yield",
    ),
    Case(
        kind="a target of text",
        command="fit houses.csv --target zone --out new",
        says="row 1",
    ),
    Case(
        kind="a target of dates",
        command="fit houses.csv --target day --out new",
        says="row 1",
    ),
    _refused("one text in the target", houses({(7, "price"): "sold"}), "row 7"),
    _refused("a formula in the target", houses({(7, "price"): "=1+1"}), "row 7"),
    _refused("an infinite target", houses({(7, "price"): "inf"}), "row 7"),
    _refused(
        "a target too large for a number", houses({(7, "price"): "1e999"}), "row 7"
    ),
    _refused(
        "a target of 300 digits, kept",
        houses({(7, "price"): "9" * 300}),
        "unit",
        "--keep-outliers",
    ),
    _refused(
        "a target of 100,000 characters", houses({(7, "price"): "x" * 100_000}), "row 7"
    ),
    _refused("a constant target", houses({(None, "price"): "5"}), "nothing to predict"),
    _refused("no row with a target", houses({(None, "price"): "NA"}), "0 rows"),
    _refused("one row", houses(rows=1), "1 row "),
    _refused("too few rows", houses(rows=15), "15 rows"),
    _handled(
        "rows without a target",
        houses({(7, "price"): "", (9, "price"): "NA"}),
        "2 rows without a target",
    ),
    _handled(
        "a target beyond any reason",
        houses({(7, "price"): "-9999"}),
        "row 7, column 'price'",
    ),
)
_FEATURES = (
    _refused(
        "only texts that are all different",
        houses(columns=["id", "price"]),
        "identifier",
    ),
    _refused(
        "nothing left to use",
        houses(columns=["zone", "price"]),
        "as you asked",
        "--drop zone",
    ),
    _handled(
        "a formula in a column of numbers",
        houses({(7, "size"): '"=HYPERLINK(""http://x"")"'}),
        "=HYPERLINK",
        "size",
    ),
    _handled(
        "a text in a column of numbers", houses({(7, "size"): "big"}), "big", "size"
    ),
    _handled("an infinite number", houses({(7, "size"): "-inf"}), "-inf", "size"),
    _handled(
        "a number beyond any reason",
        houses({(7, "size"): "1e12"}),
        "row 7, column 'size'",
    ),
    _handled(
        "a date that is none", houses({(7, "day"): "2024-02-31"}), "2024-02-31", "day"
    ),
    _handled(
        "a column without any value",
        houses({(None, "size"): "NA"}),
        "all cells are missing",
        "size",
    ),
    _handled(
        "a column that is always the same",
        houses({(None, "size"): "8"}),
        "the same value",
        "size",
    ),
    _handled(
        "missing values",
        houses({(7, "size"): "", (8, "size"): "?"}),
        "2 missing",
        "size",
    ),
    _handled(
        "a header that is a formula",
        houses(names={"size": "=1+1"}),
        "used as it is",
        "=1+1",
    ),
    _handled(
        "a header with a path in it",
        houses(names={"size": "../../etc/passwd"}),
        "used as it is",
        "../../etc/passwd",
    ),
    Case(
        kind="a header with codes for the terminal",
        command=f"{FIT} --drop id {TINY}",
        code=0,
        files={"bad.csv": houses(names={"size": "\x1b[31msize"})},
        makes=("new",),
        says="",
    ),
    _handled(
        "numbers of 300 digits",
        houses({(7, "size"): "9" * 300}),
        "used as it is",
        "size",
    ),
    _handled(
        "-999 for missing, and said so",
        houses({(7, "size"): "-999"}),
        "1 missing",
        "size",
        "--missing -999",
    ),
)
_COLUMNS = (
    _option("--drop of a column that is not there", "--drop sizes", "'size'"),
    _option("--drop of the target", "--drop price", "price"),
    _option(
        "--categorical of a column that is not there", "--categorical zones", "'zone'"
    ),
    _option(
        "--time-column of a column that is not there", "--time-column date", "date"
    ),
    _option("--time-column of text", "--time-column zone", "row 1"),
    _option("--time-column that is the target", "--time-column price", "price"),
    _refused(
        "--time-column with a gap",
        houses({(7, "day"): ""}),
        "row 7",
        "--time-column day",
    ),
    _refused(
        "--time-column that is always the same",
        houses({(None, "day"): "2024-01-01"}),
        "'day'",
        "--time-column day",
    ),
    _option("--group of a column that is not there", "--group patient", "patient"),
    _refused(
        "--group with one group",
        houses({(None, "zone"): "north"}),
        "'zone'",
        "--group zone",
    ),
    _option(
        "one column dropped and used",
        "--drop zone --categorical zone",
        "either dropped or used",
    ),
    _handled(
        "days and months that cannot be told apart",
        houses(
            {(row, "day"): f"0{1 + row % 9}/0{1 + row % 7}/2025" for row in range(121)}
        ),
        "month",
        "day",
    ),
)
_TEST = (
    _option("--test of more than all rows", "--test 1.5", "1.5"),
    _option("--test below 0", "--test -0.1", "-0.1"),
    _option("--test that leaves too few rows", "--test 0.95", "rows"),
    _option("--test that is no number", "--test some", "--test", foreign=True),
    _option("--test of not a number", "--test nan", "nan"),
    _option(
        "--test-file that is not there",
        "--test-file t.csv --epochs 1 --hidden 4",
        "t.csv",
    ),
    _option(
        "--test-file without the target",
        "--test-file t.csv --epochs 1 --hidden 4",
        "price",
        {"t.csv": houses(columns=["size", "rooms", "zone", "day", "id"])},
    ),
    _option(
        "--test-file of the rows to learn from",
        "--test-file t.csv --epochs 1 --hidden 4",
        "stand in the training table, too",
        {"t.csv": houses(columns=["price", "size", "rooms", "zone", "day", "id"])},
    ),
)
_MODEL = (
    _option(
        "distributed training from the command line",
        "--set distributed=True",
        "a script of your own",
    ),
    _option("a misspelled network", "--network deep_ensembel", "deep_ensemble"),
    _option("a misspelled recalibrator", "--recalibrator bta", "beta"),
    _option("--strength that is no number", "--strength strong", "strong"),
    _option("--strength that is not a number", "--strength nan", "nan"),
    _option("--hidden that is no number", "--hidden x", "'x'"),
    _option("--hidden of 0 units", "--hidden 0", "0"),
    _option(
        "--hidden of a million million units",
        "--hidden 1000000000000",
        "weights",
    ),
    _option("--epochs 0", "--epochs 0", "--epochs"),
    _option("--members 0", "--members 0", "--members", foreign=True),
    _option("--seed below 0", "--seed -1", "--seed", foreign=True),
    _option(
        "--seed that is too large",
        "--seed 99999999999999999999",
        "--seed",
        foreign=True,
    ),
    _option("a misspelled transform", "--target-transform lgo", "log"),
    _refused(
        "log of a target below 0",
        houses({(7, "price"): "-3"}),
        "yeo_johnson",
        "--target-transform log",
    ),
    _option("--lower above --upper", "--lower 2 --upper 1", "--lower must be below"),
    _option("targets below --lower", "--lower 300", "300"),
)
_PLACE = (
    Case(
        kind="--out that is there already",
        command="fit houses.csv --target price",
        says="--force",
    ),
    Case(
        kind="--out that is a file",
        command="fit houses.csv --target price --out houses.csv",
        says="is a file",
    ),
    Case(
        kind="--out with files of somebody else, and --force",
        command="fit houses.csv --target price --out mine --force",
        files={"mine/thesis.txt": "years of work"},
        says="thesis.txt",
    ),
    Case(
        kind="--out below a file",
        command="fit houses.csv --target price --out houses.csv/new",
        says="The parent must be a folder",
        foreign=True,
    ),
)
_USAGE = (
    Case(kind="no --target", command="fit houses.csv", says="--target", foreign=True),
    Case(
        kind="a misspelled option",
        command="fit houses.csv --tagret price",
        says="--target",
        foreign=True,
    ),
    Case(
        kind="a misspelled command", command="fti houses.csv", says="fit", foreign=True
    ),
)
FITTING = (*_TARGET, *_FEATURES, *_COLUMNS, *_TEST, *_MODEL, *_PLACE, *_USAGE)
