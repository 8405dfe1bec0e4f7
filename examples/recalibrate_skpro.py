"""Recalibrate skpro's distributions, and pass them back (``pip install skpro``)."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from skpro.distributions import Empirical
from skpro.regression.residual import ResidualDouble

from calibrant import EmpiricalRecalibrator, QuantileTable, Recalibrated, evaluate

LEVELS = (np.arange(99) + 0.5) / 99


def to_skpro(predictive: Recalibrated, rows: pd.Index) -> Empirical:
    """Pass a distribution to skpro: for each row 99 values that are equally likely."""
    values = predictive.quantiles(LEVELS).T.reshape(-1, 1).numpy()
    index = pd.MultiIndex.from_product([range(99), rows])
    return Empirical(pd.DataFrame(values, index, ["y"]), index=rows, columns=["y"])


def main() -> None:
    """Fit on 500 rows, recalibrate with 1,000 others, and measure on the rest."""
    random = np.random.default_rng(0)
    x = pd.DataFrame(random.uniform(-2, 2, size=(2000, 2)), columns=["a", "b"])
    y = x["a"].to_numpy() + 0.5 * random.exponential(size=2000)
    model = ResidualDouble(LinearRegression()).fit(x[:500], pd.DataFrame(y[:500]))
    given = QuantileTable(LEVELS, model.predict_proba(x).quantile(LEVELS.tolist()))
    known, new = slice(500, 1500), slice(1500, None)
    served = EmpiricalRecalibrator().fit(given[known], y[known]).transform(given[new])
    pair = (served.base, served)
    errors = [evaluate(each, y[new])["calibration_error"] for each in pair]
    print(f"calibration error {errors[0]:.4f} -> {errors[1]:.4f}")
    low, high = to_skpro(served, x.index[new]).quantile([0.05, 0.95]).to_numpy().T
    covered = ((low <= y[new]) & (y[new] <= high)).mean()
    print("As distributions of skpro: ", end="")
    print(f"the 90 % intervals cover {covered:.1%} of {len(y[new])} unseen rows.")


if __name__ == "__main__":
    main()
