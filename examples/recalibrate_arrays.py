"""Recalibrate plain arrays: means and standard deviations from any model.

Run it with ``python examples/recalibrate_arrays.py``.
"""

import numpy as np

from calibrant import calibration_error
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.smooth import SmoothRecalibrator

rng = np.random.default_rng(0)
mean = rng.normal(size=3000)
y = mean + rng.normal(size=3000)
stddev = np.full(3000, 0.4)  # the model claims less than half of the true spread

held_out, test = slice(0, 1000), slice(1000, None)

recalibrator = SmoothRecalibrator().fit((mean[held_out], stddev[held_out]), y[held_out])
law = recalibrator.transform((mean[test], stddev[test]))
lower, upper = law.interval(0.9)

before = calibration_error(law.base.cdf(y[test]))
after = calibration_error(law.cdf(y[test]))
covered = float(((lower.numpy() <= y[test]) & (y[test] <= upper.numpy())).mean())
print(f"calibration error {before:.4f} -> {after:.4f}")
print(f"90 % intervals hold {covered:.1%} of the targets")
print(f"mean predicted spread 0.400 -> {float(law.stddev.mean()):.3f}")
print(f"other choices: {', '.join(RECALIBRATORS)}")
