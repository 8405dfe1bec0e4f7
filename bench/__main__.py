"""Run the benchmarks: ``python -m bench``.

Each step that is finished is in ``OUT/unfinished.json`` at once, and a killed run goes
on where it stopped with the same command; ``--fresh`` begins anew. A finished run is
kept under the time it started.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.contests import (
    metrics,
    predictives,
    regularizer,
    reproduction,
    start,
    training,
)
from bench.growth import CURVES
from bench.machine import described, limits
from bench.record import Record, listing
from bench.step_profile import profiled

__all__ = ["main"]

#: All are imported before the first is run: a run has one state of the code.
SUBJECTS: dict[str, Any] = {
    "regularizer": regularizer,
    "training": training,
    "metrics": metrics,
    "laws": predictives,  # the key of recorded results
    "start": start,
    "reproduction": reproduction,
}


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


def _contests(subject: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, make in SUBJECTS[subject].CONTESTS.items():
        yield f"{subject}: {name}", partial(_measured, make)


def _measured(make: Callable[[], Any]) -> dict[str, Any]:
    return asdict(make().run())


def _growth(record: Record, console: Console) -> None:
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
    record.get("machine", "kind", described)
    for name, rate in record.get("machine", "limits", limits).items():
        console.print(f"this machine: {name} {rate:,.1f}")
    for subject in subjects:
        if subject == "growth":
            _growth(record, console)
            continue
        if subject == "training":
            for members, adversarial in ((5, True), (25, False)):
                look = partial(profiled, members, adversarial=adversarial)
                record.get("profiles", str(members), look)
        for key, measure in _contests(subject):
            console.print(f"{key} ...", style="dim")
            outcome = record.get("contests", key, measure)
            console.print(f"  {outcome['work']}: [bold]{outcome['text']}[/]")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks and write what was found."""
    options = parsed(arguments)
    console = Console()
    subjects = options.only or [*SUBJECTS, "growth"]
    if options.list:
        console.print(*SUBJECTS, "growth", sep="\n")
        return 0
    # A part of a run is only shown: the next whole run must not take it for its own.
    path = options.out / ("part.json" if options.only else "unfinished.json")
    record = Record(path, fresh=options.fresh or bool(options.only))
    try:
        run(record, subjects, console)
    except KeyboardInterrupt:
        console.print(
            f"Stopped. What is finished is in {path}; the same command goes on."
        )
        return 130
    console.print(listing(record))
    if not options.only:
        record.finish()
    console.print(f"Written: {record.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
