"""What each part of predicting and training costs for a row, on one core.

    python -m bench.billion_rows

times the parts of `calibrant predict` apart, and a fit of one epoch and of three, whose
difference is an epoch. ``docs/billion_rows.md`` multiplies what it prints. All of it
runs on one thread, and what counts is the time of the processor, whoever else works.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from bench.predict_rows import FEATURES, columns, write_rows
from calibrant import CalibratedRegressor, TableModel, fit_table
from calibrant.commands.predict import CHUNK
from calibrant.estimators.networks import stack_outputs
from calibrant.tables import TableWriter

_LEVELS = [0.05, 0.95]


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """Seconds of the processor in the quickest of some rounds."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def files(folder: Path, model: TableModel, rows: int) -> dict[str, float]:
    """Microseconds and bytes for a row, of reading and writing."""
    found = {}
    for kind in ("csv", "parquet"):
        path = folder / f"rows.{kind}"
        write_rows(path, rows)

        def read(path: Path = path) -> None:
            source = model.open(path)
            for _ in source.batches(model.encoder.needed, rows=CHUNK):
                pass

        found[f"read {kind}, us"] = 1e6 * best(read) / rows
        found[f"{kind} of {FEATURES} columns, bytes"] = path.stat().st_size / rows
        numbers = np.random.default_rng(0).normal(size=(4, CHUNK))
        made = dict(zip(("mean", "std", "lower_90", "upper_90"), numbers, strict=True))
        batch, out = pa.RecordBatch.from_pydict(made), folder / f"out.{kind}"

        def write(out: Path = out, batch: pa.RecordBatch = batch) -> None:
            with TableWriter(out) as writer:
                for _ in range(4):
                    writer.write(batch)

        found[f"write {kind}, us"] = 1e6 * best(write) / (4 * CHUNK)
        found[f"{kind} of 4 predictions, bytes"] = out.stat().st_size / (4 * CHUNK)
    return found


def distributions(model: TableModel) -> dict[str, float]:
    """Microseconds for a row, of what stands between reading and writing."""
    table = columns(CHUNK, 3, target=False)
    batch = next(model.open(table).batches(model.encoder.needed, rows=CHUNK)).data
    x = model.encoder.encode(batch, name="rows")
    members: Any = model.regressor.model_.members.networks
    ready = members.conditioned(x)
    works: dict[str, Callable[[], object]] = {
        "encode, us": lambda: model.encoder.encode(batch, name="rows"),
        "networks, us": lambda: stack_outputs(members.deterministic(), ready),
        "distribution with mean and std, us": lambda: _moments(model, x),
        "distribution with mean, std and 2 quantiles, us": lambda: _moments(
            model, x
        ).quantiles(_LEVELS),
    }
    return {name: 1e6 * best(work) / CHUNK for name, work in works.items()}


def _moments(model: TableModel, x: Any) -> Any:  # noqa: ANN401
    predictive = model.distribution(x)
    _ = predictive.mean, predictive.stddev
    return predictive


def training(rows: int) -> dict[str, float]:
    """Microseconds for a row of an epoch, and of all that a fit does besides."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, FEATURES))
    y = x[:, 0] + np.abs(x[:, 1]) * random.standard_normal(rows)
    models = {
        n: CalibratedRegressor(
            learners=["network"], members=5, epochs=n, random_state=0
        )
        for n in (1, 3)
    }
    models[1].fit(x[:200], y[:200])
    seconds = {n: best(lambda n=n: models[n].fit(x, y), 1) for n in models}  # type: ignore[misc]
    epoch = (seconds[3] - seconds[1]) / 2
    networks: Any = models[1].model_.members.networks
    (stack,) = networks.networks
    weights = sum(each.numel() for each in stack.parameters())
    return {
        "epoch of training, us": 1e6 * epoch / rows,
        "rest of a fit, us": 1e6 * (seconds[1] - epoch) / rows,
        "weights of all networks": weights,
    }


def memory(rows: int) -> dict[str, float]:
    """Bytes that each more row adds to the peak of a fit."""
    peaks = [
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "bench._train_rows", str(count), str(FEATURES)],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            ).stdout
        )["peak_bytes"]
        for count in (rows, 2 * rows)
    ]
    return {"peak memory of a fit, bytes": (peaks[1] - peaks[0]) / rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--learn", type=int, default=50_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as place:
        made = columns(4000, 0, target=True)
        model = fit_table(
            made,
            target="y",
            epochs=5,
            learners=("network",),
            members=5,
            # What the default does with more than 20,000 rows.
            recalibrate_on="held_out",
            recalibrator="smooth",
            progress=False,
        ).model
        found = files(Path(place), model, options.rows) | distributions(model)
    found |= training(options.learn) | memory(10 * options.learn)
    for name, value in found.items():
        print(f"{name:42s} {value:12,.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
