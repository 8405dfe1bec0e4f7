"""Recalibrate frozen laws of scipy.stats, and keep the result as text.

Run it with ``python examples/recalibrate_scipy.py``.
"""

import numpy as np
from scipy import stats

from calibrant import calibration_error
from calibrant.recalibration import from_json
from calibrant.recalibration.beta import BetaRecalibrator

rng = np.random.default_rng(0)
scale = rng.uniform(1, 3, size=1000)
y = rng.gamma(2.0, scale)

prediction = stats.expon(scale=2 * scale)  # the right mean, the wrong shape
few, rest = slice(0, 40), slice(40, None)

recalibrator = BetaRecalibrator().fit(stats.expon(scale=2 * scale[few]), y[few])
restored = from_json(recalibrator.to_json())
law = recalibrator.transform(stats.expon(scale=2 * scale[rest]))

print(f"calibration error {calibration_error(prediction.cdf(y)):.4f}", end=" -> ")
print(f"{calibration_error(law.cdf(y[rest])):.4f} with 40 held-out rows")
print(f"as text: {len(recalibrator.to_json())} characters")
again = restored.transform(stats.expon(scale=2 * scale[rest]))
same = bool((again.interval(0.9)[1] == law.interval(0.9)[1]).all())
print(f"read back, it predicts the same: {same}")
