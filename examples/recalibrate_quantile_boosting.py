"""Recalibrate boosted quantiles: one scikit-learn model for each level.

Run it with ``python examples/recalibrate_quantile_boosting.py``.
"""

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

from calibrant import QuantileTable, evaluate, recalibrate
from calibrant.data import load

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def main() -> None:
    """Measure the quantiles on rows that are new, as they are and recalibrated."""
    arm = load("kin8nm")
    X, y, X_new, y_new = arm.x[:1000], arm.y[:1000], arm.x[5000:6000], arm.y[5000:6000]
    boosting = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=40)

    models = [clone(boosting).set_params(quantile=level).fit(X, y) for level in LEVELS]
    quantiles = np.column_stack([model.predict(X_new) for model in models])
    plain = evaluate(QuantileTable(LEVELS, np.sort(quantiles)), y_new)

    options = {"levels": LEVELS.tolist(), "folds": 3, "random_state": 0}
    model = recalibrate(boosting, X, y, **options)
    recalibrated = model.evaluate(X_new, y_new)

    for name, card in (("boosted", plain), ("recalibrated", recalibrated)):
        print(f"{name}: mean CRPS {card['crps']:.4f}. {card.verdict()}")


if __name__ == "__main__":
    main()
