"""Fit rows in the order of time: ``time=`` makes the folds stretches of time.

Run it with ``python examples/fit_time_ordered.py``. Random folds let members learn from
a row's neighbors, and so promise too small errors. calibrant warns of that.
"""

import warnings

import numpy as np

from calibrant import CalibratedRegressor
from calibrant.estimators import SerialDependenceWarning


def main() -> None:
    """Learn from the past, with and without its order; measure on what came later."""
    random = np.random.default_rng(3)
    day, heat = np.arange(6000), random.uniform(-1, 1, 6000)
    # Two features that drift, and a disturbance of the target that lasts for days.
    lasting = np.array([0.99, 0.99, 0.9])
    slow = random.standard_normal((6000, 3)) * np.sqrt(1 - lasting**2)
    for now in day[1:]:
        slow[now] += lasting * slow[now - 1]
    X = np.column_stack([heat, np.sin(2 * np.pi * day / 365), slow[:, :2]])
    y = 2 * heat + X[:, 1] + slow[:, 2] + 0.2 * random.standard_normal(6000)
    past, later = slice(0, 3000), slice(3000, None, 10)

    for name, time in (("random folds", None), ("folds of time", day[past])):
        model = CalibratedRegressor(members=1, folds=5, epochs=40, random_state=3)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", SerialDependenceWarning)
            model.fit(X[past], y[past], time=time)
        card = model.evaluate(X[later], y[later])
        print(f"{name}, {len(heard)} warnings: {card.verdict()}")


if __name__ == "__main__":
    main()
