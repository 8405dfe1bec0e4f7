"""Recalibrate a probabilistic regressor of skpro (pip install skpro).

Run it with ``python examples/recalibrate_skpro.py``.
"""

import sys

import numpy as np

from calibrant import calibration_error
from calibrant.recalibration.empirical import EmpiricalRecalibrator

try:
    import pandas as pd
    from skpro.regression.residual import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        ResidualDouble,
    )
except ImportError:
    sys.exit("This example needs skpro: pip install skpro")
from sklearn.linear_model import LinearRegression

rng = np.random.default_rng(0)
x = pd.DataFrame(rng.uniform(-2, 2, size=(1500, 2)), columns=["a", "b"])
y = x["a"] + 0.5 * rng.standard_t(3, size=1500)

model = ResidualDouble(LinearRegression()).fit(x[:500], y[:500].to_frame("y"))


def mean_and_stddev(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Take the two columns that every skpro law has."""
    law = model.predict_proba(rows)
    return law.mean().to_numpy().ravel(), law.var().to_numpy().ravel() ** 0.5


held_out, new = mean_and_stddev(x[500:1000]), mean_and_stddev(x[1000:])
recalibrator = EmpiricalRecalibrator().fit(held_out, y[500:1000].to_numpy())
law = recalibrator.transform(new)

actual = y[1000:].to_numpy()
print(f"calibration error {calibration_error(law.base.cdf(actual)):.4f}", end=" -> ")
print(f"{calibration_error(law.cdf(actual)):.4f}")
