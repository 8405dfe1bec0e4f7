"""Recalibrate scikit-learn's GaussianProcessRegressor.

Run it with ``python examples/recalibrate_gaussian_process.py``.
"""

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from calibrant import evaluate
from calibrant.metrics import calibration_error
from calibrant.recalibration.maps import EmpiricalRecalibrator

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, size=(1200, 1))
y = np.sin(2 * x[:, 0]) + rng.gamma(1.0, 0.5, size=1200)  # noise with a long upper tail

# A noise level that someone has fixed too low makes the process over-confident.
kernel = RBF(0.7, "fixed") + WhiteKernel(0.05, "fixed")
process = GaussianProcessRegressor(kernel, normalize_y=True).fit(x[:200], y[:200])

held_out = process.predict(x[200:800], return_std=True)
new = process.predict(x[800:], return_std=True)
predictive = EmpiricalRecalibrator().fit(held_out, y[200:800]).transform(new)

print(
    f"calibration error {calibration_error(predictive.base.cdf(y[800:])):.4f}",
    end=" -> ",
)
print(f"{calibration_error(predictive.cdf(y[800:])):.4f}")
print(f"mean crps {float(predictive.base.crps(y[800:]).mean()):.4f}", end=" -> ")
print(f"{float(predictive.crps(y[800:]).mean()):.4f}")
print(evaluate(predictive, y[800:]).verdict())
