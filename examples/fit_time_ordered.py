"""Fit rows in the order of time: ``time=`` makes the folds stretches of time.

Run it with ``python examples/fit_time_ordered.py``. Random folds let members learn from
a row's neighbors, and so promise too small errors. calibrant warns of that.
"""

import warnings

import numpy as np

from calibrant import CalibratedRegressor, SerialDependenceWarning


def main() -> None:
    """Learn from the past, with and without its order; measure on what came later."""
    random = np.random.default_rng(0)
    day, heat = np.arange(1500), random.uniform(-1, 1, 1500)
    level = np.zeros(1500)
    for now in day[1:]:  # a disturbance that lasts for weeks
        level[now] = 0.97 * level[now - 1] + 0.25 * random.standard_normal()
    X = np.column_stack([heat, np.sin(2 * np.pi * day / 365), day / 365])
    y = 2 * heat + X[:, 1] + level + 0.2 * random.standard_normal(1500)
    past, later = slice(0, 1200), slice(1200, None)

    for name, time in (("random folds", None), ("folds of time", day[past])):
        model = CalibratedRegressor(members=1, epochs=40, random_state=0)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", SerialDependenceWarning)
            model.fit(X[past], y[past], time=time)
        card = model.evaluate(X[later], y[later])
        print(f"{name}, {len(heard)} warnings: {card.verdict()}")


if __name__ == "__main__":
    main()
