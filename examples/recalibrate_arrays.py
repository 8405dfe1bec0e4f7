"""Recalibrate plain arrays: means and standard deviations from any model.

Run it with ``python examples/recalibrate_arrays.py``.
"""

import numpy as np

from calibrant import evaluate
from calibrant.metrics import calibration_error
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.maps import SmoothRecalibrator

rng = np.random.default_rng(1)
mean = rng.normal(size=3000)
spread = rng.uniform(0.5, 1.5, size=3000)
y = mean + spread * rng.normal(size=3000)
stddev = 0.4 * spread  # the model claims less than half of the true spread

held_out, unseen = slice(0, 2000), slice(2000, None)

recalibrator = SmoothRecalibrator().fit((mean[held_out], stddev[held_out]), y[held_out])
predicted = recalibrator.transform((mean[unseen], stddev[unseen]))

before = calibration_error(predicted.base.cdf(y[unseen]))
after = calibration_error(predicted.cdf(y[unseen]))
print(f"calibration error {before:.4f} -> {after:.4f}")
claimed = stddev[unseen].mean()
print(f"mean predicted spread {claimed:.3f} -> {float(predicted.stddev.mean()):.3f}")
print(f"other choices: {', '.join(RECALIBRATORS)}")
print(evaluate(predicted, y[unseen]).verdict())
