"""What `calibrant predict` costs on millions of rows: memory, and time as a ratio.

    python bench/predict_rows.py --rows 5000000

trains a small default model on a generated table, writes a CSV (or Parquet) file of so
many rows, and runs the command on it in a process of its own. It prints the peak memory
of that process, and its throughput against the bare forward pass: the same networks on
encoded rows that are in memory already, without reading, distributions, quantiles or
writing.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.contest import best_seconds
from calibrant import TableModel, fit_table
from calibrant.commands.predict import CHUNK
from calibrant.estimators.networks import stack_outputs
from calibrant.tables import TableWriter

FEATURES = 8


def columns(rows: int, seed: int, *, target: bool) -> dict[str, np.ndarray]:
    """Generate numbers and, if asked to, a target with noise that depends on them."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, FEATURES))
    made = {f"x{i}": x[:, i].round(6) for i in range(FEATURES)}
    if target:
        noise = (0.2 + 0.2 * np.abs(x[:, 1])) * random.normal(size=rows)
        made["y"] = np.sin(x[:, 0]) + noise
    return made


def write_rows(path: Path, rows: int) -> None:
    """Write a table in parts."""
    with TableWriter(path) as file:
        for part, start in enumerate(range(0, rows, 250_000)):
            count = min(250_000, rows - start)
            made = columns(count, 1 + part, target=False)
            file.write(pa.RecordBatch.from_pydict(made))


def forward_pass(model: TableModel, rounds: int = 5) -> float:
    """Seconds for each row of the networks alone, the best of several rounds."""
    members: Any = model.regressor.model_.members.networks
    x = members.conditioned(np.random.default_rng(0).normal(size=(CHUNK, FEATURES)))
    stack = members.deterministic()
    return best_seconds(lambda: stack_outputs(stack, x), rounds=rounds) / CHUNK


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--format", choices=("csv", "csv.gz", "parquet"), default="csv")
    parser.add_argument("--coverage", default="0.9")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = columns(4000, 0, target=True)
        fitted = fit_table(
            made,
            target="y",
            out=folder / "model",
            epochs=10,
            learners=("network",),
        )
        table = folder / f"rows.{options.format}"
        write_rows(table, options.rows)
        before = forward_pass(fitted.model)
        command = [sys.executable, "-m", "calibrant", "predict"]
        command += [str(folder / "model"), str(table), "--coverage", options.coverage]
        command += ["-o", str(folder / f"out.{options.format}"), "--json"]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        # Kibibytes on Linux; the only child of this process that waits were made for.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024**2
        after = forward_pass(fitted.model)
        bare = min(before, after) * options.rows
        found = {
            "rows": json.loads(done.stdout)["rows"],
            "input_gb": table.stat().st_size / 1e9,
            "peak_gib": peak,
            "seconds": seconds,
            "forward_seconds": bare,
            "ratio": seconds / bare,
        }
    for name, value in found.items():
        print(f"{name:16s} {value:,.3f}" if name != "rows" else f"rows {value:,}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
