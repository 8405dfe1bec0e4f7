"""Write the tables of README and docs from ``results/``; nothing in them is typed.

    python docs/make_results.py          # write
    python docs/make_results.py --check  # fail if something is not up to date

Each folder of ``results/`` is one that ``calibrant reproduce --out`` has written; its
``results.csv`` is all that is read.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from calibrant.paper.claims import verdicts
from calibrant.paper.ledger import Record, read_csv
from calibrant.paper.results import by_arm
from calibrant.paper.tables import (
    Column,
    Entry,
    Grid,
    errata_grid,
    error_overview,
    tables,
    to_markdown,
    verdict_grid,
)

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- results: ([a-z0-9 -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def body(grid: Grid) -> str:
    """Return the table alone, without its title."""
    return to_markdown(grid).split("\n", 2)[2].strip()


def records(name: str) -> list[Record]:
    """Read the compact results of a run; empty if there are none."""
    for path in sorted((ROOT / "results" / name).glob("results.csv*")):
        return read_csv(path)
    return []


def state(name: str, found: Sequence[Record]) -> str:
    """Say what was run."""
    hours = sum(record.seconds for record in found) / 3600
    sets = len({record.cell.data for record in found})
    versions = sorted({record.versions for record in found})
    hosts = sorted({record.host for record in found})
    return (
        f"{len(found)} cells of {sets} data sets, {hours:.1f} hours of training on one "
        f"thread ({'; '.join(hosts)}; {'; '.join(versions)}); "
        f"`calibrant reproduce --profile {name} --out results/{name}`."
    )


def masks() -> Grid:
    """Compare MC dropout with each row's own masks and with masks that rows share."""
    own, shared = by_arm(records("paper")), by_arm(records("shared-masks"))
    arms = [arm for arm in shared if arm in own and arm.recalibration == "none"]
    rows = tuple(
        (
            Entry(f"{arm.data}, {'QR' if arm.strength else 'base'}"),
            *(
                Entry(f"{run[arm].number(name).mean:.2f}")
                for name in ("calibration_error", "rmse", "nll")
                for run in (own, shared)
            ),
        )
        for arm in arms
    )
    names = ("Calibration error", "RMSE", "NLL")
    columns = [Column(kind, name, True) for name in names for kind in ("own", "shared")]
    return Grid(
        name="masks",
        title="Masks",
        caption="Means over five repeats.",
        columns=(Column("MC dropout"), *columns),
        rows=rows,
    )


def default() -> dict[str, str]:
    """Compare the default with others, and with parts of it taken away."""
    sys.path.insert(0, str(ROOT))  # bench is not installed
    from bench.networks import ratios
    from bench.summary import OTHERS, PEERS, Results

    results = Results.read(ROOT / "results/default/cells.jsonl")
    networks = (ROOT / "results/default/networks.jsonl").read_text("utf-8")
    others = (*PEERS, *OTHERS)
    parts = [name for name in results.methods if name not in ("default", *others)]
    lines = [f"- {line}" for line in results.summary()]
    judged = len(results.data)  # after a line for each table
    return {
        "default": results.markdown(["default", *others]),
        "default parts": results.ratios(parts),
        "default tables": "\n".join(lines[:judged]),
        "default judged": "\n".join(lines[judged:]),
        "networks": ratios([json.loads(line) for line in networks.splitlines()]),
    }


def blocks() -> dict[str, str]:
    """Return everything that can stand between two marks."""
    paper, shuffled = records("paper"), records("shuffled")
    found = {
        "overview": body(error_overview(by_arm(paper))),
        "errata": body(errata_grid()),
        "masks": body(masks()),
    }
    found |= default()
    for name, every in (("paper", paper), ("shuffled", shuffled)):
        judged = verdicts(every)
        own = [each for each in judged if each.source == "own"]
        paper_claims = [each for each in judged if each.source == "paper"]
        found[f"{name} state"] = state(name, every)
        found[f"{name} verdicts"] = body(
            verdict_grid(paper_claims if name == "paper" else own)
        )
        found |= {f"{name} {grid.name}": body(grid) for grid in tables(by_arm(every))}
    return found


def filled(text: str, found: dict[str, str]) -> str:
    """Put the blocks between their marks."""
    return BLOCK.sub(lambda m: f"{m[1]}\n{found[m[2]]}\n\n{m[3]}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check README and docs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    found, stale = blocks(), []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        new = filled(text, found)
        if new != text and given.check:
            stale.append(path.name)
        elif new != text:
            path.write_text(new, encoding="utf-8")
    if stale:
        sys.stderr.write(
            f"{', '.join(stale)} not up to date: run docs/make_results.py\n"
        )
    return int(bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
