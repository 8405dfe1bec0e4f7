"""Recalibrate frozen distributions of scipy.stats, and keep the result as text.

Run it with ``python examples/recalibrate_scipy.py``.
"""

import numpy as np
from scipy import stats

from calibrant import evaluate
from calibrant.metrics import calibration_error
from calibrant.recalibration import from_json
from calibrant.recalibration.maps import SmoothRecalibrator

rng = np.random.default_rng(1)
scale = rng.uniform(1, 3, size=1500)
y = rng.gamma(2.0, scale)

prediction = stats.expon(scale=2 * scale)  # the right mean, the wrong shape
known, new = slice(0, 1000), slice(1000, None)

recalibrator = SmoothRecalibrator().fit(stats.expon(scale=2 * scale[known]), y[known])
restored = from_json(recalibrator.to_json())
predictive = recalibrator.transform(stats.expon(scale=2 * scale[new]))

print(f"calibration error {calibration_error(prediction.cdf(y)):.4f}", end=" -> ")
print(f"{calibration_error(predictive.cdf(y[new])):.4f} with 1,000 held-out rows")
print(f"as text: {len(recalibrator.to_json())} characters")
again = restored.transform(stats.expon(scale=2 * scale[new]))
same = bool((again.interval(0.9)[1] == predictive.interval(0.9)[1]).all())
print(f"read back, it predicts the same: {same}")
print(evaluate(predictive, y[new]).verdict())
