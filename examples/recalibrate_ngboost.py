"""Recalibrate NGBoost (pip install ngboost).

Run it with ``python examples/recalibrate_ngboost.py``.
"""

import sys

import numpy as np

from calibrant import evaluate
from calibrant.metrics import calibration_error
from calibrant.recalibration.maps import EmpiricalRecalibrator

try:
    from ngboost import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        NGBRegressor,
    )
except ImportError:
    sys.exit("This example needs NGBoost: pip install ngboost")

rng = np.random.default_rng(1)
x = rng.uniform(-2, 2, size=(2000, 3))
y = x[:, 0] ** 2 + (0.3 + np.abs(x[:, 1])) * rng.normal(size=2000)

model = NGBRegressor(n_estimators=800, verbose=False).fit(x[:500], y[:500])

held_out, new = model.pred_dist(x[500:1500]), model.pred_dist(x[1500:])
recalibrator = EmpiricalRecalibrator().fit((held_out.loc, held_out.scale), y[500:1500])
predictive = recalibrator.transform((new.loc, new.scale))

print(
    f"calibration error {calibration_error(predictive.base.cdf(y[1500:])):.4f}",
    end=" -> ",
)
print(f"{calibration_error(predictive.cdf(y[1500:])):.4f}")
print(evaluate(predictive, y[1500:]).verdict())
