"""Recalibrate regressors of scikit-learn, whatever they say about uncertainty.

Run it with ``python examples/recalibrate_estimators.py``.
"""

from typing import Any

from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibrant import recalibrate

X, X_new, y, y_new = train_test_split(
    *load_diabetes(return_X_y=True, as_frame=True), test_size=0.4, random_state=0
)
kernel = RBF(3.0, "fixed") + WhiteKernel(0.05, "fixed")
process = GaussianProcessRegressor(kernel, normalize_y=True)
boosting = GradientBoostingRegressor(loss="quantile", n_estimators=40, random_state=0)

estimators: dict[str, tuple[Any, dict[str, Any]]] = {
    "deviations of a Gaussian process": (make_pipeline(StandardScaler(), process), {}),
    "spread of a forest's trees": (RandomForestRegressor(40, random_state=0), {}),
    "boosted quantiles": (boosting, {"levels": (0.1, 0.3, 0.5, 0.7, 0.9)}),
    "no uncertainty at all": (Ridge(0.1), {}),
}
for name, (estimator, options) in estimators.items():
    model = recalibrate(estimator, X, y, random_state=0, **options)
    card = model.evaluate(X_new, y_new)
    print(f"{name}: mean CRPS {card['crps']:.1f}. {card.verdict()}")
