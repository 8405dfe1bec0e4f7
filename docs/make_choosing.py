"""Write the tables of ``choosing.md`` from ``results/``; nothing in them is typed.

    python docs/make_choosing.py          # write
    python docs/make_choosing.py --check  # fail if something is not up to date

Each folder of ``results/`` is one that ``calibrant reproduce --out`` has written.
"""

import argparse
import math
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from calibrant.metrics.floors import coverage_range, noise_floor
from calibrant.paper.ledger import NO_REGULARIZER, Arm, Record, read_csv
from calibrant.paper.plan import profile
from calibrant.paper.results import (
    FoldTable,
    Results,
    SetComparison,
    by_arm,
    compare,
    data_title,
    model_title,
)
from calibrant.paper.tables import Column, Entry, Grid, short, to_markdown

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "choosing.md"
BLOCK = re.compile(r"(<!-- choosing: ([a-z0-9 -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
ERROR = "randomized_calibration_error"
#: Test rows for which the page says what can be told.
SIZES = (31, 62, 103, 206, 309, 1000, 10_000)
QR = ("cumulative_kl", 20.0)
CLEARLY = (
    "Bold: clearly lower than base, ↑: clearly higher, by a paired test over folds and "
    "repeats at 5 %."
)


@dataclass(frozen=True)
class Choice:
    """What is done: a network, its training, and what follows."""

    title: str
    network: str
    regularizer: str = NO_REGULARIZER
    strength: float = 0.0
    recalibration: str = "none"


def _of_paper(network: str) -> tuple[Choice, ...]:
    base, qr = Choice("base", network), Choice("QR", network, *QR)
    isotonic = replace(base, title="isotonic", recalibration="isotonic")
    both = replace(qr, title="QR + isotonic", recalibration="isotonic")
    return base, qr, isotonic, both


PAPER = {name: _of_paper(name) for name in ("mc_dropout", "deep_ensemble")}
DEFAULT = Choice("pooled", "default", "none", 0.0, "out_of_fold")


@dataclass(frozen=True)
class Runs:
    """Finished cells of one folder of results, by arm."""

    arms: Results
    split: str

    @property
    def sets(self) -> list[str]:
        """Data sets, the smallest first."""
        base = PAPER["mc_dropout"][0]
        names = {arm.data for arm in self.arms}
        return sorted(names, key=lambda n: self.mean(base, n, "test_rows") or 0.0)

    def has(self, choice: Choice) -> bool:
        """Whether anything of a choice was run."""
        return any(self.mean(choice, name) is not None for name in self.sets)

    def mean(self, choice: Choice, data: str, measure: str = ERROR) -> float | None:
        """Mean over folds and repeats; None if it was not run."""
        table = self.table(choice, data, measure)
        return None if table is None else table.mean

    def compare(
        self, b: Choice, a: Choice, measure: str = ERROR
    ) -> dict[str, SetComparison]:
        """Compare B with A on every set that has both."""
        found = {
            name: compare(self.table(b, name, measure), self.table(a, name, measure))
            for name in self.sets
        }
        return {name: each for name, each in found.items() if each is not None}

    def known(self, choice: Choice, measure: str) -> list[float]:
        """Means of all sets that have it."""
        found = [self.mean(choice, name, measure) for name in self.sets]
        return [value for value in found if value is not None]

    def _arm(self, choice: Choice, data: str) -> Arm:
        return Arm(
            data=data,
            split=self.split,
            network=choice.network,
            regularizer=choice.regularizer,
            strength=choice.strength,
            recalibration=choice.recalibration,
        )

    def table(self, choice: Choice, data: str, measure: str) -> FoldTable | None:
        """Numbers of each repeat and fold; None if it was not run."""
        found = self.arms.get(self._arm(choice, data))
        return found.table(measure) if found else None


@cache
def records(name: str) -> tuple[Record, ...]:
    """Read the compact results of a run; empty if there are none."""
    for path in sorted((ROOT / "results" / name).glob("results.csv*")):
        return tuple(read_csv(path))
    return ()


def runs(name: str, split: str) -> Runs:
    """Gather a run."""
    return Runs(by_arm(records(name)), split)


def state() -> str:
    """Say how much of the plan was run, and what is missing."""
    planned, done = profile("shuffled").cells(), records("shuffled")
    missing: list[str] = []
    for part in ("network", "regularizer", "data"):
        ran = {getattr(record.cell, part) for record in done}
        names = dict.fromkeys(getattr(cell, part) for cell in planned)
        missing += [name.replace("_", " ") for name in names if name not in ran]
    return (
        f"{len(done)} of the {len(planned):,} cells of `calibrant reproduce --profile "
        f"shuffled` have been run. Not run: {', '.join(missing)}."
    )


def _percent(share: float | None, form: str = ".1f") -> str:
    return "" if share is None else f"{100 * share:{form}} %"


def _number(value: float | None, test: SetComparison | None) -> Entry:
    if value is None:
        return Entry("not run")
    direction = None if test is None else test.direction
    mark = " ↑" if direction == "higher" else ""
    return Entry(short(value) + mark, value, emphasis=direction == "lower")


def errors(run: Runs) -> Grid:
    """Calibration errors of everything that was run, set by set."""
    every = [*(c for each in PAPER.values() for c in each), DEFAULT]
    choices = [choice for choice in every if run.has(choice)]
    base = PAPER["mc_dropout"][0]
    tests = {c: run.compare(c, PAPER.get(c.network, (base,))[0]) for c in choices}
    rows = [
        (
            Entry(data_title(name)),
            Entry(f"{run.mean(base, name, 'test_rows'):.0f}"),
            _number(run.mean(base, name, "floor"), None),
            *(_number(run.mean(c, name), tests[c].get(name)) for c in choices),
        )
        for name in run.sets
    ]
    return Grid(
        name="errors",
        title="Errors",
        caption="Calibration error, 100 times the sum of squared gaps over 20 levels, "
        "of randomized PIT values; means over two repeats of five shuffled folds.",
        columns=(
            Column("Data set"),
            Column("rows of a test fold", numeric=True),
            Column("floor", numeric=True),
            *(Column(c.title, model_title(c.network), numeric=True) for c in choices),
        ),
        rows=tuple(rows),
        notes=(
            CLEARLY,
            "Floor: what a perfectly calibrated model shows on average with as many "
            "rows; after a map that four times as many rows have taught, a quarter "
            "more. Isotonic: the paper's map, fitted on the training rows themselves.",
        ),
    )


def costs(run: Runs) -> Grid:
    """What else changes: RMSE, NLL, CRPS, and coverage of the 90 % interval."""
    rows = []
    for network, choices in PAPER.items():
        tests = [
            run.compare(choices[1], choices[0], measure)
            for measure in ("rmse", "nll", "crps")
        ]
        for name in tests[0]:
            covered = [run.mean(choice, name, "coverage") for choice in choices]
            rows.append(
                (
                    Entry(data_title(name)),
                    Entry(model_title(network)),
                    *(_change(test[name]) for test in tests),
                    Entry(
                        ", ".join(f"{100 * (each or math.nan):.1f}" for each in covered)
                    ),
                )
            )
    return Grid(
        name="costs",
        title="Costs",
        caption="The same models, base to QR.",
        columns=(
            Column("Data set"),
            Column("Model"),
            *(Column(title, numeric=True) for title in ("RMSE", "NLL", "CRPS")),
            Column("90 % interval holds, in %: base, QR, isotonic, QR + isotonic"),
        ),
        rows=tuple(rows),
        notes=("↑: QR is clearly higher, by the same test; bold: clearly lower.",),
    )


def _change(test: SetComparison) -> Entry:
    mark = " ↑" if test.direction == "higher" else ""
    text = f"{short(test.a)} → {short(test.b)}{mark}"
    return Entry(text, test.b, emphasis=test.direction == "lower")


def _counted(comparisons: dict[str, SetComparison]) -> str:
    each = list(comparisons.values())
    lower = sum(c.b < c.a for c in each)
    higher = sum(c.b > c.a for c in each)
    clearly = {
        way: sum(c.direction == way for c in each) for way in ("lower", "higher")
    }
    return (
        f"lower on {lower} of {len(each)} sets (clearly on {clearly['lower']}), higher "
        f"on {higher} (clearly on {clearly['higher']})"
    )


def _rises(comparisons: dict[str, SetComparison]) -> str:
    most = sorted(comparisons.values(), key=lambda c: c.a / c.b)[:3]
    parts = (f"{data_title(c.data)} {_percent(c.b / c.a - 1, '+.0f')}" for c in most)
    return ", ".join(parts)


def findings(run: Runs) -> str:
    """Count what the tables show."""
    lines = []
    for network, (base, qr, isotonic, both) in PAPER.items():
        if not run.has(base):
            continue
        title = model_title(network)
        rmse = run.compare(qr, base, "rmse")
        nll = run.compare(qr, base, "nll")
        held = run.known(isotonic, "coverage")
        tables = (run.table(isotonic, name, "nll") for name in run.sets)
        endless = [
            statistics.fmean(map(math.isinf, table.values.values()))
            for table in tables
            if table is not None
        ]
        lines += [
            f"- {title}, **QR against base**: calibration error "
            f"{_counted(run.compare(qr, base))}; RMSE {_counted(rmse)}, most on "
            f"{_rises(rmse)}; NLL {_counted(nll)}.",
            f"- {title}, **isotonic on the training rows against base**: calibration "
            f"error {_counted(run.compare(isotonic, base))}; CRPS "
            f"{_counted(run.compare(isotonic, base, 'crps'))}. Its 90 % intervals hold "
            f"{_percent(min(held), '.0f')} to {_percent(max(held), '.0f')}, on average "
            f"over the sets {_percent(statistics.fmean(held), '.0f')}. The NLL is "
            f"infinite in {_percent(statistics.fmean(endless), '.0f')} of the test "
            "folds: a target lies where the map has no density.",
            f"- {title}, **QR and isotonic together against base**: calibration error "
            f"{_counted(run.compare(both, base))}; RMSE "
            f"{_counted(run.compare(both, base, 'rmse'))}.",
            f"- {title}, **isotonic against QR**: calibration error "
            f"{_counted(run.compare(isotonic, qr))}; RMSE "
            f"{_counted(run.compare(isotonic, qr, 'rmse'))}.",
        ]
    return "\n".join(lines)


def file_order(run: Runs) -> Grid:
    """Count the same on folds in the order of the files."""
    rows = []
    for network, (base, qr, isotonic, _) in PAPER.items():
        for title, b in (("QR", qr), ("isotonic on the training rows", isotonic)):
            error = run.compare(b, base, "calibration_error")
            ratio = statistics.median(each.b / each.a for each in error.values())
            rows.append(
                (
                    Entry(model_title(network)),
                    Entry(title),
                    Entry(short(ratio), ratio),
                    Entry(_counted(error)),
                    Entry(_counted(run.compare(b, base, "rmse"))),
                )
            )
    return Grid(
        name="file-order",
        title="File order",
        caption="Folds in the order of the files, five repeats, 100 epochs.",
        columns=(
            Column("Model"),
            Column("against base"),
            Column("median ratio", "Calibration error", numeric=True),
            Column("sets", "Calibration error"),
            Column("sets", "RMSE"),
        ),
        rows=tuple(rows),
    )


def sizes() -> Grid:
    """What perfect models show on some numbers of rows."""
    floors = {n: noise_floor("paper_calibration_error", n=n) for n in SIZES}
    rows = [
        (
            Entry(f"{n:,}", n),
            Entry(short(floor.expectation), floor.expectation),
            Entry(f"{short(floor.low)} to {short(floor.high)}"),
            Entry(" to ".join(_percent(end) for end in coverage_range(0.9, n))),
        )
        for n, floor in floors.items()
    ]
    return Grid(
        name="sizes",
        title="Sizes",
        caption="What perfectly calibrated models show on so many test rows.",
        columns=(
            Column("test rows", numeric=True),
            Column("calibration error, mean", numeric=True),
            Column("95 % of them"),
            Column("90 % interval holds, 95 % of them"),
        ),
        rows=tuple(rows),
    )


def body(grid: Grid) -> str:
    """Return the table alone, without its title."""
    return to_markdown(grid).split("\n", 2)[2].strip()


#: What can stand between two marks.
BLOCKS: dict[str, Callable[[], str]] = {
    "state": state,
    "errors": lambda: body(errors(runs("shuffled", "shuffled"))),
    "costs": lambda: body(costs(runs("shuffled", "shuffled"))),
    "findings": lambda: findings(runs("shuffled", "shuffled")),
    "file order": lambda: body(file_order(runs("paper", "unshuffled"))),
    "sizes": lambda: body(sizes()),
}


def filled(text: str, found: dict[str, str]) -> str:
    """Put the blocks between their marks."""
    return BLOCK.sub(lambda m: f"{m[1]}\n{found[m[2]]}\n\n{m[3]}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    old = PAGE.read_text(encoding="utf-8")
    new = filled(old, {name: write() for name, write in BLOCKS.items()})
    if new != old and given.check:
        sys.stderr.write(f"{PAGE.name} not up to date: run docs/make_choosing.py\n")
        return 1
    if new != old:
        PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
