"""The default beside what people use instead, on seeded 90/10 splits.

    python -m bench.default --out results/default/cells.jsonl

All methods see the same rows. Finished cells are kept; the same command goes on after
them. ``--only-print`` prints the table of what is there. CatBoost is needed for its
cells alone: ``pip install catboost``.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from bench._tables import Array, Ledger, measures, split
from calibrant import CalibratedRegressor, Empirical
from calibrant.data import load
from calibrant.distributions.base import AbstractDistribution

#: Splits of each bundled data set; the large ones take minutes for a fit.
SPLITS = {
    **dict.fromkeys(("yacht", "boston", "concrete", "fish", "airfoil", "red_wine"), 10),
    **dict.fromkeys(("white_wine", "kin8nm", "protein"), 3),
}
Predict = Callable[[Array], AbstractDistribution]
_CALIBRATION_SHARE = 0.2


def default(x: Array, y: Array, seed: int) -> Predict:
    """``CalibratedRegressor()``."""
    return CalibratedRegressor(random_state=seed).fit(x, y).predict_distribution


def plain_ensemble(x: Array, y: Array, seed: int) -> Predict:
    """Five networks of the paper's settings, without its regularizer."""
    model = CalibratedRegressor.paper("deep_ensemble", strength=0.0, random_state=seed)
    return model.fit(x, y).predict_distribution


def catboost_conformal(x: Array, y: Array, seed: int) -> Predict:
    """CatBoost on four fifths of the rows, the residuals of the others around it."""
    from catboost import CatBoostRegressor

    order = np.random.default_rng(seed).permutation(len(y))
    held = order[: round(_CALIBRATION_SHARE * len(y))]
    learned = order[len(held) :]
    model = CatBoostRegressor(
        random_seed=seed, verbose=False, thread_count=1, allow_writing_files=False
    ).fit(x[learned], y[learned])
    residuals = np.sort(y[held] - model.predict(x[held]))

    def predict(new: Array) -> AbstractDistribution:
        return Empirical(model.predict(new) + residuals[:, None])

    return predict


METHODS: dict[str, Callable[[Array, Array, int], Predict]] = {
    "default": default,
    "plain ensemble": plain_ensemble,
    "catboost conformal": catboost_conformal,
}


def run(data: str, method: str, seed: int) -> dict[str, float]:
    """Fit on 90 % and measure on the rest."""
    table = load(data)
    learn, test = split(len(table.y), seed)
    started = time.process_time()
    predict = METHODS[method](table.x[learn], table.y[learn], seed)
    fitted = time.process_time()
    law = predict(table.x[test])
    found = measures(law, table.y[test], all_y=table.y)
    return found | {"fit_seconds": round(fitted - started, 2)}


def show(ledger: Ledger) -> None:
    """Print means over the splits."""
    header = ("data", "method", "splits", "CRPS", "NLL", "RMSE", "error / floor")
    print(" | ".join((*header, "covered by 90 %", "fit, s")))
    for data in SPLITS:
        for method in dict.fromkeys(str(row["method"]) for row in ledger.rows):
            rows = [
                row
                for row in ledger.rows
                if (row["data"], row["method"]) == (data, method)
            ]
            if not rows:
                continue

            def mean(name: str, rows: list[dict[str, object]] = rows) -> float:
                return float(np.mean([float(str(row[name])) for row in rows]))

            ratio = mean("calibration_error") / mean("floor")
            print(
                f"{data} | {method} | {len(rows)} | {mean('crps'):.4g} | "
                f"{mean('nll'):.3f} | {mean('rmse'):.4g} | {ratio:.2f} | "
                f"{100 * mean('coverage_90'):.1f} % | {mean('fit_seconds'):.1f}"
            )


def main() -> None:
    """Run all cells that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(SPLITS), choices=SPLITS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--label", help="what the method is called in the results")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--splits", type=int, help="at most so many of each data set")
    parser.add_argument("--only-print", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(given.out)
    for data in [] if given.only_print else given.data:
        for seed in range(min(SPLITS[data], given.splits or SPLITS[data])):
            for method in given.methods:
                if method.startswith("catboost") and find_spec("catboost") is None:
                    continue
                name = given.label or method
                if not ledger.has(data=data, method=name, seed=seed):
                    cell = run(data, method, seed)
                    ledger.add(data=data, method=name, seed=seed, **cell)
    show(ledger)


if __name__ == "__main__":
    main()
