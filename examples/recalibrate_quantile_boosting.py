"""Recalibrate boosted quantiles: one scikit-learn model for each level.

Run it with ``python examples/recalibrate_quantile_boosting.py``.
"""

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

from calibrant import QuantileTable, evaluate, recalibrate

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def main() -> None:
    """Measure the quantiles on rows that are new, as they are and recalibrated."""
    random = np.random.default_rng(2)
    x = random.uniform(-1, 1, (3500, 3))
    noise = (0.2 + np.abs(x[:, 1])) * random.exponential(size=3500)
    target = np.sin(3 * x[:, 0]) + noise
    X, X_new, y, y_new = x[:3000], x[3000:], target[:3000], target[3000:]
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
