"""What evaluate, recalibrate, compare, info and datasets refuse."""

from bad_input.case import Case
from bad_input.houses import forecasts, houses

__all__ = ["MEASURING"]

NORMAL = "--target y --mean mu --std sigma"


def _evaluate(
    kind: str,
    content: str,
    says: str,
    more: str = "",
    defect: str = "",
    foreign: bool = False,
) -> Case:
    return Case(
        kind=kind,
        command=f"evaluate model bad.csv {more}".strip(),
        files={"bad.csv": content},
        says=says,
        foreign=foreign,
        defect=defect,
    )


def _recalibrate(kind: str, content: str, says: str, more: str = "") -> Case:
    command = f"recalibrate model bad.csv {more}".strip()
    return Case(kind=kind, command=command, files={"bad.csv": content}, says=says)


def _compare(
    kind: str,
    more: str,
    says: str,
    changes: dict[tuple[int | None, str], str] | None = None,
    defect: str = "",
) -> Case:
    return Case(
        kind=kind,
        command=f"compare bad.csv {more}",
        files={"bad.csv": forecasts(changes)},
        says=says,
        defect=defect,
    )


_EVALUATE = (
    _evaluate(
        "rows to measure on without the target's column",
        houses(columns=["size", "rooms", "zone", "day"]),
        "price",
    ),
    _evaluate(
        "rows to measure on, none with a target",
        houses({(None, "price"): ""}),
        "120 rows",
    ),
    _evaluate("no rows to measure on", houses(rows=0), "rows"),
    _evaluate(
        "a text in the target to measure on", houses({(7, "price"): "x"}), "row 7"
    ),
    _evaluate(
        "an infinite target to measure on", houses({(7, "price"): "inf"}), "row 7"
    ),
    _evaluate("--by of a column that is not there", houses(), "'zone'", "--by zona"),
    _evaluate(
        "--tolerance below 0",
        houses(),
        "[0, 1)",
        "--require-coverage 0.9 --tolerance -1",
        foreign=True,
    ),
    _evaluate("--require-coverage in percent", houses(), "90", "--require-coverage 90"),
    _evaluate("--report that is a folder", houses(), "model", "--report model"),
    _evaluate(
        "--report that is the table itself",
        houses(),
        "bad.csv",
        "--report bad.csv",
    ),
    _evaluate(
        "--report that is a file of the model",
        houses(),
        "model.json",
        "--report model/model.json",
    ),
    Case(
        kind="a coverage that is not met",
        command="evaluate model houses.csv --report none --quiet "
        "--require-coverage 0.5 --tolerance 0",
        code=1,
        says="NOT met",
        foreign=True,
    ),
)
_RECALIBRATE = (
    _recalibrate("too few rows to recalibrate", houses(rows=5), "5"),
    _recalibrate(
        "a model without a recalibrator, and none is named",
        houses(),
        "--recalibrator beta",
    ),
    _recalibrate("no targets to recalibrate by", houses({(None, "price"): ""}), "rows"),
    _recalibrate(
        "a recalibrator that is not there", houses(), "beta", "--recalibrator bet"
    ),
    _recalibrate(
        "the model itself as --out, without --force", houses(), "--force", "--out model"
    ),
    _recalibrate("--out that is the table", houses(), "is a file", "--out bad.csv"),
)
_COMPARE = (
    _compare("neither mean nor quantiles", "--target y", "mean"),
    _compare("a mean without a deviation", "--target y --mean mu", "--std"),
    _compare("means and quantiles", f"{NORMAL} --quantile 0.05=low", "both"),
    _compare("a mean that is not there", "--target y --mean m --std sigma", "'m'"),
    _compare("a deviation below 0", NORMAL, "row 7", {(7, "sigma"): "-1"}),
    _compare("a deviation of 0", NORMAL, "row 7", {(7, "sigma"): "0"}),
    _compare("a mean that is missing", NORMAL, "row 7", {(7, "mu"): ""}),
    _compare("a mean that is infinite", NORMAL, "row 7", {(7, "mu"): "inf"}),
    _compare("a mean that is a text", NORMAL, "row 7", {(7, "mu"): "x"}),
    _compare("no row with what came true", NORMAL, "none", {(None, "y"): ""}),
    _compare("one quantile only", "--target y --quantile 0.05=low", "two or more"),
    _compare(
        "the same level twice",
        "--target y --quantile 0.05=low --quantile 0.05=high",
        "different",
    ),
    _compare("a level of 95", "--target y --quantile 5=low --quantile 95=high", "0.05"),
    _compare("a quantile without a level", "--target y --quantile low", "LEVEL=COLUMN"),
    _compare("--fix that is the input", f"{NORMAL} --fix bad.csv", "input"),
    _compare("--fix that is not written", f"{NORMAL} --fix out.doc", ".parquet"),
    _compare(
        "--report that is the predictions themselves",
        f"{NORMAL} --report bad.csv",
        "bad.csv",
    ),
    _compare(
        "a recalibrator that is not there, without --fix",
        f"{NORMAL} --recalibrator bta --report none",
        "beta",
    ),
    Case(
        kind="too few rows to --fix",
        command=f"compare bad.csv {NORMAL} --fix out.csv",
        files={"bad.csv": "".join(forecasts().splitlines(keepends=True)[:11])},
        says="25",
    ),
    Case(
        kind="quantiles that cross",
        command="compare bad.csv --target y --quantile 0.05=low --quantile 0.95=high "
        "--report none",
        code=0,
        files={"bad.csv": forecasts({(7, "low"): "9", (7, "high"): "8"})},
        says="Crossing",
    ),
)
_DATASETS = (
    Case(kind="a misspelled data set", command="datasets concrete2", says="concrete"),
    Case(kind="--new of all rows", command="datasets yacht --new 1", says="--new"),
    Case(
        kind="a data set to a folder that is not there",
        command="datasets yacht -o no/yacht.csv",
        says="folder",
    ),
    Case(
        kind="a data set as a file that is not written",
        command="datasets yacht -o yacht.json",
        says=".parquet",
    ),
)
MEASURING = (*_EVALUATE, *_RECALIBRATE, *_COMPARE, *_DATASETS)
