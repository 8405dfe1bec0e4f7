"""Time of what a predicted distribution is asked for, in microseconds per row.

The distribution is that of a fitted ``CalibratedRegressor`` of networks: a normal one,
pooled from 25 of them (with ``--held-out`` from five), through a map. Every answer is
asked of a fresh distribution, since moments are kept, and the best time of some rounds
counts. The last column is the time of one value of the cdf, the unit of all others.

Example:
python bench/predict_distribution_speed.py --recalibrators beta smooth --rows 16384
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from calibrant import CalibratedRegressor
from calibrant.distributions.base import AbstractDistribution

LEVELS = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]
FEATURES = 8

#: What is asked of a distribution.
QUESTIONS: dict[str, Callable[[AbstractDistribution], object]] = {
    "mean": lambda predictive: predictive.mean,
    "mean, stddev": lambda predictive: (predictive.mean, predictive.stddev),
    "2 quantiles": lambda predictive: predictive.quantiles(LEVELS[1::6]),
    "5 quantiles": lambda predictive: predictive.quantiles(LEVELS[::2]),
    "9 quantiles": lambda predictive: predictive.quantiles(LEVELS),
    "crps": lambda predictive: predictive.crps(0.0),
    "cdf": lambda predictive: predictive.cdf(0.0),
}


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--recalibrators", nargs="+", default=["beta", "smooth", "none"]
    )
    parser.add_argument("--rows", nargs="+", type=int, default=[2048, 16384])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--held-out", action="store_true", help="five networks")
    return parser.parse_args()


def fitted(recalibrator: str, *, held_out: bool) -> CalibratedRegressor:
    """Fit a model for a few epochs: what it knows does not matter here."""
    random = np.random.default_rng(0)
    x = random.normal(size=(2000, FEATURES))
    y = x[:, 0] + 0.3 * x[:, 1] ** 2 * random.normal(size=2000)
    given = None if recalibrator == "none" else recalibrator
    model = CalibratedRegressor(
        learners=["network"],
        members=5,
        folds=5,
        epochs=5,
        random_state=0,
        recalibrator=given,
    )
    if held_out:
        model.set_params(recalibrate_on="held_out")
    return model.fit(x, y)


def microseconds(
    predictive: Callable[[], AbstractDistribution],
    ask: Callable[[AbstractDistribution], object],
    *,
    rows: int,
    rounds: int,
) -> float:
    """Best time per row of some rounds, each with a fresh distribution."""
    times = []
    for _ in range(rounds):
        fresh = predictive()
        start = time.perf_counter()
        ask(fresh)
        times.append(time.perf_counter() - start)
    return 1e6 * min(times) / rows


def main() -> None:
    """Measure and print a table."""
    options = parsed()
    torch.set_num_threads(options.threads)
    table = Table("recalibrator", "rows", *QUESTIONS)
    for name in options.recalibrators:
        model = fitted(name, held_out=options.held_out)
        for rows in options.rows:
            x = np.random.default_rng(1).normal(size=(rows, FEATURES))
            predictive = partial(model.predict_distribution, x)
            times = [
                microseconds(predictive, ask, rows=rows, rounds=options.rounds)
                for ask in QUESTIONS.values()
            ]
            table.add_row(name, f"{rows:,}", *(f"{each:.1f}" for each in times))
    Console().print(table)


if __name__ == "__main__":
    main()
