"""Write the pages of the reference, ``docs/reference``, from the package's stubs.

    python docs/make_reference.py          # write
    python docs/make_reference.py --check  # fail if a page is not up to date

A page lists the parts of a room's tables, and names each public part; what is said
about it comes from its docstring when the site is built.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import calibrant
from calibrant.registry import Table
from calibrant.regularizers import STRENGTHS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "calibrant"
FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Written by docs/make_reference.py. -->"


@dataclass(frozen=True)
class Room:
    """One page.

    Attributes
    ----------
    name
        Of the file.
    title, text
        What stands on top.
    modules
        Beginnings of the modules whose parts it shows.
    tables
        Public tables whose entries it lists.
    more
        Public parts that stand in no stub.
    first
        Parts that stand on top; errors and warnings stand at the end.
    inherited
        Whether classes show what they have from their parents.
    """

    name: str
    title: str
    text: str
    modules: tuple[str, ...]
    tables: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    inherited: bool = False

    def place(self, path: str) -> tuple[int, bool]:
        """Return what its parts are ordered by."""
        name = path.rsplit(".", 1)[1]
        place = self.first.index(name) if name in self.first else len(self.first)
        return place, name.endswith(("Error", "Warning"))


@dataclass
class Names:
    """Public names: where each is imported from, and where it is defined."""

    #: Dotted path of the definition to the shortest public import.
    public: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, package: str) -> None:
        """Note one; what the root offers counts before what a room offers."""
        name = path.rsplit(".", 1)[1]
        self.public.setdefault(path, f"{package}.{name}")


def public(module: str) -> tuple[str, ...]:
    """Return the functions and classes that a module names in ``__all__``."""
    content = vars(import_module(module))
    return tuple(
        f"{module}.{name}" for name in content["__all__"] if callable(content[name])
    )


ROOMS = (
    Room(
        "estimators",
        "Estimators",
        "Regressors for scikit-learn whose predictions are distributions, and how "
        "they are saved, read and exported. To begin with: "
        "[with scikit-learn](../quick_start_scikit_learn.md).",
        ("calibrant.estimators",),
        first=("CalibratedRegressor", "recalibrate", "RecalibratedRegressor", "load"),
        inherited=True,
    ),
    Room(
        "regularizers",
        "Regularizers",
        "Distances of PIT values from the uniform distribution, and the modules that "
        "add one to a training loss. To begin with: "
        "[with PyTorch](../quick_start_pytorch.md).",
        ("calibrant.regularizers",),
        ("calibrant.regularizers.REGULARIZERS",),
        first=("QuantileRegularizer", "ConditionalRegularizer", "cumulative_kl"),
    ),
    Room(
        "sorts",
        "Sorts",
        "Ascending sorts of the last axis that carry gradients.",
        ("calibrant.sorting",),
        ("calibrant.sorting.SORTERS",),
        public("calibrant.sorting"),
    ),
    Room(
        "distributions",
        "Distributions",
        "Distributions of many rows at once. All of them offer what "
        "[AbstractDistribution][calibrant.distributions.base.AbstractDistribution] "
        "shows: `cdf`, `quantile`, `interval`, `log_prob`, `crps`, `sample` and more. "
        "What stands in no table is imported from `calibrant.distributions`.",
        ("calibrant.distributions",),
        ("calibrant.distributions.DISTRIBUTIONS",),
        first=("AbstractDistribution", "as_distribution"),
    ),
    Room(
        "metrics",
        "Metrics and scorecard",
        "Numbers that say how far predictions can be trusted, imported from "
        "`calibrant.metrics`. `evaluate` measures all of them at once. Scores, of "
        "`calibrant.scores`, give a number for each row and carry gradients.",
        ("calibrant.metrics", "calibrant.scores"),
        ("calibrant.metrics.METRICS", "calibrant.scores.SCORES"),
        public("calibrant.scores"),
        first=("evaluate", "Scorecard", "Comparison", "pit_values"),
    ),
    Room(
        "recalibrators",
        "Recalibrators",
        "Corrections of predicted distributions, learned on held-out rows.",
        ("calibrant.recalibration",),
        ("calibrant.recalibration.RECALIBRATORS",),
        ("calibrant.recalibration.from_json",),
        inherited=True,
    ),
    Room(
        "transforms",
        "Target transforms",
        "Increasing maps of targets onto the real line, and back.",
        ("calibrant.transforms",),
        ("calibrant.transforms.TRANSFORMS",),
        public("calibrant.transforms"),
        inherited=True,
    ),
    Room(
        "networks",
        "Networks and training",
        "Networks that predict a distribution, heads that turn numbers into one, and "
        'the loop that trains them. Boosted trees are `learners=["boosting"]` of '
        "`CalibratedRegressor`; see [theory](../theory.md#pool-then-calibrate).",
        ("calibrant.learners", "calibrant.training"),
        (
            "calibrant.learners.NETWORKS",
            "calibrant.learners.HEADS",
            "calibrant.training.SCHEDULES",
        ),
        first=("DeepEnsemble", "MCDropout", "train", "Recipe", "TrainingData"),
    ),
    Room(
        "data",
        "Data sets",
        "The data sets of the paper, CSV files, and ways to split them. Everything "
        "here is imported from `calibrant.data`.",
        ("calibrant.data",),
        first=("load", "DataSet"),
    ),
    Room(
        "plots",
        "Plots",
        "Plots with their bands under perfect calibration. They need "
        "`calibrant[plots]` and are imported from `calibrant.plots`.",
        ("calibrant.plots",),
        more=tuple(path for path in public("calibrant.plots") if ".plot_" in path),
    ),
    Room(
        "tables",
        "Tables",
        "From a CSV file, a Parquet file or a data frame to a model and predictions: "
        "the [command line](../command_line.md) in Python. What is not in the index is "
        "imported from `calibrant.tables`.",
        ("calibrant.commands", "calibrant.tables"),
        first=("fit_table", "predict_table", "evaluate_table", "recalibrate_table"),
    ),
    Room(
        "paper",
        "Reproduction of the paper",
        "`calibrant reproduce` in Python: plans, the ledger of finished cells, "
        "verdicts and the report. Everything here is imported from `calibrant.paper`.",
        ("calibrant.paper",),
        first=("reproduce", "report", "Reproduction", "profile", "Plan"),
    ),
    Room(
        "contracts",
        "Contracts and errors",
        "What a part of your own must offer, see [parts of your own](../extending.md), "
        "and what is raised. Contracts are imported from `calibrant.protocols`.",
        (
            "calibrant.protocols",
            "calibrant.errors",
            "calibrant._version",
        ),
        more=(
            *public("calibrant.protocols"),
            "calibrant.errors.LostRankError",
            "calibrant.errors.StorageError",
        ),
    ),
)
_TABLES = {path.rsplit(".", 1)[1] for room in ROOMS for path in room.tables}
# Public, and not a part that a docstring describes; told of elsewhere on its page.
_PLAIN = {"STRENGTHS", "DATA_SETS", "__version__"}


def stub_names(package: str) -> Iterator[str]:
    """Yield the paths of the definitions that a package's stub offers."""
    folder = PACKAGE.joinpath(*package.split(".")[1:])
    for node in ast.parse((folder / "__init__.pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from (f"{package}.{node.module}.{alias.name}" for alias in node.names)


def all_names() -> Names:
    """Read all stubs, and what stands in none."""
    names = Names()
    for path in stub_names("calibrant"):
        names.add(path, "calibrant")
    for stub in sorted(PACKAGE.glob("*/__init__.pyi")):
        package = f"calibrant.{stub.parent.name}"
        for path in stub_names(package):
            names.add(path, package)
    for room in ROOMS:
        for path in room.more:
            names.add(path, path.rsplit(".", 1)[0])
    return names


def summary(part: object) -> str:
    """First sentence of a docstring, fit for a cell of a table."""
    text = (part.__doc__ or "").strip().split("\n\n", 1)[0]
    return " ".join(text.split()).replace("|", "\\|")


def linked(text: str, path: str | None) -> str:
    """Return a name as code, with a link to its entry if it has one."""
    return f"`{text}`" if path is None else f"[`{text}`][{path}]"


def is_part(path: str) -> bool:
    """Whether a docstring describes it."""
    name = path.rsplit(".", 1)[1]
    return name not in _PLAIN and name not in _TABLES


def listing(table: str, names: Names) -> Iterator[str]:
    """Yield the lines that list the entries of a table."""
    module, table = table.rsplit(".", 1)
    parts: Table[object] = getattr(import_module(module), table)
    strengths = STRENGTHS if table == "REGULARIZERS" else None
    paths = {path.rsplit(".", 1)[1]: path for path in names.public if is_part(path)}
    yield f"## {table}\n"
    if strengths is not None:
        yield "The default strengths stand in `STRENGTHS`.\n"
    yield "| name | what it does |" + (" strength |" if strengths else "")
    yield "|:--|:--|" + ("--:|" if strengths else "")
    for name in parts:
        part = parts[name]
        path = paths.get(str(getattr(part, "__name__", name)))
        row = f"| {linked(name, path)} | {summary(part)} |"
        yield row + (f" {strengths[name]:g} |" if strengths else "")
    yield ""


def data_sets() -> Iterator[str]:
    """Yield the lines that list the data sets."""
    from calibrant.data import DATA_SETS

    yield "## DATA_SETS\n"
    yield "| name | rows | features | what it is |"
    yield "|:--|--:|--:|:--|"
    for name, each in DATA_SETS.items():
        yield f"| `{name}` | {each.rows:,} | {each.features} | {each.title} |"
    yield ""


def room_of(path: str) -> Room:
    """Find the page on which a part stands."""
    for room in ROOMS:
        if path.startswith(tuple(f"{module}." for module in room.modules)):
            return room
    raise SystemExit(f"{path} is public and has no page: see ROOMS in {__file__}.")


def page(room: Room, names: Names) -> str:
    """Make the page of a room."""
    lines = [f"# {room.title}\n", f"{NOTE}\n", f"{room.text}\n"]
    for table in room.tables:
        lines += listing(table, names)
    if room.name == "data":
        lines += data_sets()
    parts = [path for path in names.public if is_part(path) and room_of(path) is room]
    for path in sorted(parts, key=room.place):
        lines.append(f"::: {path}")
        if room.inherited:
            lines.append("    options:\n      inherited_members: true")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def index(names: Names) -> str:
    """Make the list of all names that the package itself offers."""
    lines = [
        "# Reference\n",
        f"{NOTE}\n",
        "Each of these is imported from `calibrant` itself. Everything else comes from "
        "its package, as `from calibrant.metrics import calibration_error`; the pages "
        "list it.\n",
        "| name | page | what it is |",
        "|:--|:--|:--|",
    ]
    paths = {
        public.rsplit(".", 1)[1]: path
        for path, public in names.public.items()
        if public.count(".") == 1
    }
    for name in sorted(calibrant.__all__, key=lambda each: each.lower().strip("_")):
        path = paths[name]
        room = room_of(path)
        part = getattr(calibrant, name)
        if name in _PLAIN:
            first, text = f"`{name}`", "Version of the package."
        else:
            first, text = linked(name, path), summary(part)
        lines.append(f"| {first} | [{room.title}]({room.name}.md) | {text} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    names = all_names()
    texts = {FOLDER / f"{room.name}.md": page(room, names) for room in ROOMS}
    texts[FOLDER / "index.md"] = index(names)
    stale = [
        path.name
        for path, text in texts.items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    if given.check:
        if stale:
            listed = ", ".join(stale)
            sys.stdout.write(f"Out of date: {listed}. python docs/make_reference.py\n")
        return int(bool(stale))
    FOLDER.mkdir(exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
