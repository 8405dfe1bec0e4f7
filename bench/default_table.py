"""The default against a plain ensemble, the paper's regularizer, and isotonic maps.

    python -m bench.default_table boston.csv yacht.csv --splits 20 --ledger table.jsonl

Seeded 90/10 splits; the target is the last column. Finished cells are kept in the
ledger, and the same command goes on after them. ``--only-print`` prints what is there.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from bench._tables import Array, Ledger, measures, read_csv, split
from calibrant import CalibratedRegressor

MODELS = ("default", "plain ensemble", "paper QR", "isotonic on train")


def model(name: str, seed: int) -> CalibratedRegressor:
    """Make one of the models."""
    if name == "default":
        return CalibratedRegressor(random_state=seed)
    strength = 20.0 if name == "paper QR" else 0.0
    changes = {}
    if name == "isotonic on train":
        changes = {"recalibrator": "isotonic", "recalibrate_on": "train"}
    return CalibratedRegressor.paper(
        "deep_ensemble", strength=strength, random_state=seed, **changes
    )


def run(x: Array, y: Array, name: str, seed: int) -> dict[str, float]:
    """Fit on 90 % and measure on the rest."""
    learn, test = split(len(y), seed)
    fitted = model(name, seed).fit(x[learn], y[learn])
    return measures(fitted.predict_distribution(x[test]), y[test], all_y=y)


def show(ledger: Ledger) -> None:
    """Print means ± standard deviations over the splits."""
    for data in dict.fromkeys(str(row["data"]) for row in ledger.rows):
        for name in MODELS:
            rows = [r for r in ledger.rows if r["data"] == data and r["model"] == name]
            if not rows:
                continue
            columns = {
                key: np.array([float(str(row[key])) for row in rows])
                for key in ("nll", "crps", "rmse", "calibration_error", "floor")
            }
            numbers = "  ".join(
                f"{key} {columns[key].mean():.3f} ± {columns[key].std():.3f}"
                for key in ("nll", "crps", "rmse", "calibration_error")
            )
            ratio = columns["calibration_error"].mean() / columns["floor"].mean()
            print(
                f"{data:12} {name:18} n={len(rows):2}  {numbers}  / floor {ratio:.2f}"
            )


def main() -> None:
    """Run all cells that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=Path, nargs="*")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only-print", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    ledger = Ledger(given.ledger)
    for path in [] if given.only_print else given.csv:
        x, y = read_csv(path)
        data = path.name.split(".")[0]
        for seed in range(given.splits):
            for name in given.models:
                if not ledger.has(data=data, model=name, seed=seed):
                    ledger.add(
                        data=data, model=name, seed=seed, **run(x, y, name, seed)
                    )
    show(ledger)


if __name__ == "__main__":
    main()
