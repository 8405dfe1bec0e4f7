"""Run the benchmarks: ``python -m bench``.

Each step that is finished is in ``OUT/unfinished.json`` at once, and a killed run goes
on where it stopped with the same command; ``--fresh`` begins anew. A finished run is
kept under the time it started.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["main"]

SUBJECTS = ("regularizer", "training", "metrics", "laws", "start", "reproduction")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Time calibrant against its peers."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/bench"), help="folder of the runs"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=(*SUBJECTS, "growth"),
        help="this subject alone; may be repeated",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget what a former run has finished"
    )
    parser.add_argument("--list", action="store_true", help="show the subjects and end")
    return parser.parse_args(arguments)


class Record:
    """What a run has found so far, in a file that is written after each step.

    Parameters
    ----------
    path
        The file.
    fresh
        Forget what is in it.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        self.found: dict[str, Any] = {}
        if path.is_file() and not fresh:
            self.found = json.loads(path.read_text("utf-8"))
        self.found.setdefault("started", _now())

    def get(self, part: str, key: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return what is known under a key, or find it out and keep it."""
        known = self.found.setdefault(part, {})
        if key not in known:
            known[key] = make()
            self.write()
        return known[key]

    def finish(self) -> None:
        """Say that all is done, and keep the run under the time it started."""
        self.found["finished"] = _now()
        self.write()
        name = self.found["started"].replace(":", "")[:15] + ".json"
        self.path = self.path.replace(self.path.with_name(name))

    def write(self) -> None:
        """Replace the file by a whole new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_suffix(".part")
        half.write_text(json.dumps(self.found, indent=1) + "\n", "utf-8")
        half.replace(self.path)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _contests(subject: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    makers = importlib.import_module(f"bench.contests.{subject}").CONTESTS
    for name, make in makers.items():
        yield f"{subject}: {name}", partial(_measured, make)


def _measured(make: Callable[[], Any]) -> dict[str, Any]:
    return asdict(make().run())


def _growth(record: Record, console: Console) -> None:
    from bench.growth import CURVES

    for number, curves in enumerate(CURVES):
        console.print(f"growth {number + 1} of {len(CURVES)} ...", style="dim")

        for curve in record.get("growth", str(number + 1), partial(_points, curves)):
            console.print(
                f"  {curve['panel']}, {curve['name']}: n^{curve['exponent']:.2f}"
            )


def _points(curves: Callable[[], Any]) -> list[dict[str, Any]]:
    return [curve.to_dict() for curve in curves()]


def run(record: Record, subjects: list[str], console: Console) -> None:
    """Run what is missing, and tell each result at once."""
    from bench.machine import described, limits

    record.get("machine", "kind", described)
    for name, rate in record.get("machine", "limits", limits).items():
        console.print(f"this machine: {name} {rate:,.1f}")
    for subject in subjects:
        if subject == "growth":
            _growth(record, console)
            continue
        for key, measure in _contests(subject):
            console.print(f"{key} ...", style="dim")
            outcome = record.get("contests", key, measure)
            console.print(f"  {outcome['work']}: [bold]{outcome['text']}[/]")


def listing(record: Record) -> Table:
    """Make the table of all ratios."""
    table = Table(title="Ratios of best times in one run", title_justify="left")
    for column in ("work", "against", "target", "measured", "middle 80 %", "met"):
        table.add_column(column, justify="right" if column == "measured" else "left")
    marks = {True: "yes", False: "NO", None: ""}
    for each in record.found.get("contests", {}).values():
        spread = f"{each['low']:.3g} to {each['high']:.3g}"
        table.add_row(
            each["work"],
            each["against"],
            each["goal"],
            each["text"],
            spread,
            marks[each["met"]],
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks and write what was found."""
    options = parsed(arguments)
    console = Console()
    subjects = options.only or [*SUBJECTS, "growth"]
    if options.list:
        console.print(*SUBJECTS, "growth", sep="\n")
        return 0
    record = Record(options.out / "unfinished.json", fresh=options.fresh)
    run(record, subjects, console)
    console.print(listing(record))
    if not options.only:
        record.finish()
    console.print(f"Written: {record.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
