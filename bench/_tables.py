"""Splits, measures and a ledger of finished cells."""

import json
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from calibrant import calibration_error, detect_grid, noise_floor
from calibrant._checks import UnsupportedError
from calibrant.distributions.base import AbstractDistribution
from calibrant.metrics.pit import recorded_pit

__all__ = ["Ledger", "measures", "split"]

Array = npt.NDArray[np.float64]


def split(n: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut ``n`` rows into 90 % to learn from and 10 % to test, at random."""
    order = np.random.default_rng(1000 + seed).permutation(n)
    return order[n // 10 :], order[: n // 10]


def measures(law: AbstractDistribution, y: Array, *, all_y: Array) -> dict[str, float]:
    """NLL, CRPS, RMSE, calibration error in the paper's units, and its floor.

    PIT values are randomized where the whole target is rounded or capped.
    """
    target = torch.from_numpy(y)
    generator = torch.Generator().manual_seed(0)
    pit = recorded_pit(law, target, detect_grid(all_y), generator=generator)
    try:
        nll = float(-law.log_prob(target).mean())
    except UnsupportedError:  # samples have no density
        nll = float("nan")
    return {
        "nll": nll,
        "crps": float(law.crps(target).mean()),
        "rmse": float((law.mean - target).square().mean().sqrt()),
        "calibration_error": 100 * calibration_error(pit),
        "plain_calibration_error": 100 * calibration_error(law.cdf(target)),
        "floor": 100 * noise_floor(n=len(y)).expectation,
        "coverage_90": float(((pit > 0.05) & (pit <= 0.95)).double().mean()),
    }


class Ledger:
    """Finished cells, one JSON line each; a killed run goes on where it stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[dict[str, object]] = []
        if path.exists():
            self.rows = [json.loads(line) for line in path.read_text().splitlines()]

    def has(self, **key: object) -> bool:
        """Tell whether a cell with these values is there."""
        return any(
            all(row.get(name) == value for name, value in key.items())
            for row in self.rows
        )

    def add(self, **row: object) -> None:
        """Append a finished cell."""
        row["time"] = round(time.time())
        self.rows.append(row)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
