"""How laws are got from foreign regressors, and rows of any form."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    LinearRegression,
    QuantileRegressor,
    Ridge,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from calibrant import (
    Gaussian,
    QuantileTable,
    Recalibrated,
    RecalibratedRegressor,
    recalibrate,
)
from calibrant.estimators._folds import Blocks
from calibrant.estimators._foreign_rows import Rows, as_rows, feature_codes
from calibrant.estimators._laws_of import choose_law

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
Arrays = tuple[np.ndarray, np.ndarray]


def noisy_line(n: int, seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 3))
    return x, x[:, 0] + random.exponential(size=n)


def pure_noise(n: int, seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 3)), random.normal(size=n)


def covered(model: RecalibratedRegressor, x: np.ndarray, y: np.ndarray) -> float:
    """Share of targets within their 90 % intervals, by their PIT values."""
    pit = model.predict_distribution(x).cdf(y)
    return float(((pit > 0.05) & (pit < 0.95)).double().mean())


@pytest.fixture(scope="module")
def diabetes() -> Arrays:
    x, y = load_diabetes(return_X_y=True)
    return x[:200], y[:200]


def rows(x: np.ndarray, y: np.ndarray) -> Rows:
    return Rows(x, y, Blocks(np.arange(len(y))))


PROCESS = GaussianProcessRegressor(
    RBF(3.0, "fixed") + WhiteKernel(0.5, "fixed"), normalize_y=True
)
KINDS = {
    "own in a pipeline": (
        make_pipeline(StandardScaler(), RecalibratedRegressor(Ridge(), folds=2)),
        {},
        Recalibrated,
    ),
    "bayes": (BayesianRidge(), {}, Gaussian),
    "ard": (ARDRegression(), {}, Gaussian),
    "process": (make_pipeline(StandardScaler(), PROCESS), {}, Gaussian),
    "boosting": (
        GradientBoostingRegressor(loss="quantile", n_estimators=20),
        {"levels": LEVELS},
        QuantileTable,
    ),
    "histogram boosting": (
        HistGradientBoostingRegressor(loss="quantile", max_iter=10),
        {"levels": LEVELS},
        QuantileTable,
    ),
    "quantiles in a pipeline": (
        make_pipeline(StandardScaler(), QuantileRegressor(alpha=0)),
        {"levels": LEVELS},
        QuantileTable,
    ),
    "forest": (RandomForestRegressor(20), {}, Gaussian),
    "extra trees": (ExtraTreesRegressor(20), {}, Gaussian),
    "bagging of columns": (BaggingRegressor(max_features=0.5), {}, Gaussian),
    "bagging in a pipeline": (
        make_pipeline(StandardScaler(), BaggingRegressor(Ridge())),
        {},
        Gaussian,
    ),
    "plain": (Ridge(), {}, Gaussian),
    "memory": (KNeighborsRegressor(1), {}, Gaussian),
    "given": (Ridge(), {"law": lambda m, x: (m.predict(x), 40.0)}, Gaussian),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_law_is_calibrated_on_real_data(
    kind: str, diabetes: Arrays
) -> None:
    estimator, options, law = KINDS[kind]
    x, y = diabetes
    model = recalibrate(estimator, x[:150], y[:150], random_state=0, **options)
    assert type(model.models_[0].law(x[:2])) is law
    # 50 rows and a map of 30: four standard errors of both.
    assert abs(covered(model, x[150:], y[150:]) - 0.9) < 0.9 * 4 * np.sqrt(0.09 / 50)
    assert model.score(x[150:], y[150:]) > -0.5
    quantiles = model.predict_quantiles(x[150:], [0.1, 0.5, 0.9])
    assert (np.diff(quantiles, axis=1) > 0).all()


def test_deviations_are_the_models_own_unless_far_too_narrow() -> None:
    x, y = noisy_line(80)
    own = BayesianRidge().fit(x, y).predict(x, return_std=True)[1]
    law = choose_law(BayesianRidge(), levels=None, law=None)(
        BayesianRidge(), rows(x, y)
    )
    np.testing.assert_allclose(law.law(x).stddev, own, rtol=1e-12)
    kernel = RBF(100.0, "fixed")  # without noise: claims hardly any deviation
    process = GaussianProcessRegressor(kernel, alpha=1e-3, normalize_y=True)
    claimed = process.fit(x, y).predict(x, return_std=True)[1]
    law = choose_law(process, levels=None, law=None)(process, rows(x, y))
    residual = (y - process.predict(x)) / law.law(x).stddev.numpy()
    assert (law.law(x).stddev.numpy() > 3 * claimed).all()
    assert 0.5 < np.sqrt(np.mean(residual**2)) < 1.5


def test_a_plain_regressor_gets_the_size_of_its_residuals() -> None:
    x, y = noisy_line(80)
    fit = choose_law(LinearRegression(), levels=None, law=None)
    law = fit(LinearRegression(), rows(x, y)).law(x)
    residuals = y - LinearRegression().fit(x, y).predict(x)
    expected = np.sqrt(np.mean(residuals**2))
    np.testing.assert_allclose(law.stddev, np.full(80, expected), rtol=1e-9)


def test_memorized_residuals_are_not_believed() -> None:
    x, y = pure_noise(300)
    memory = KNeighborsRegressor(1)
    law = choose_law(memory, levels=None, law=None)(memory, rows(x, y)).law(x)
    # A neighbor's noise on top of one's own.
    np.testing.assert_allclose(law.stddev, np.full(300, np.sqrt(2)), rtol=0.25)


@pytest.mark.parametrize("target", [5.0, 0.0])
def test_a_constant_target_does_not_break_it(target: float) -> None:
    x, _ = pure_noise(40)
    model = recalibrate(LinearRegression(), x, np.full(40, target), random_state=0)
    np.testing.assert_allclose(model.predict(x), target, atol=0.1)


def test_quantiles_that_cross_or_coincide_become_a_law() -> None:
    class Crossing(RegressorMixin, BaseEstimator):
        def __init__(self, quantile: float = 0.5) -> None:
            self.quantile = quantile

        def fit(self, *_: Any) -> "Crossing":
            return self

        def predict(self, X: Any) -> np.ndarray:
            return X[:, 0] * (self.quantile - 0.5)

    x = np.array([[-2.0], [0.0], [3.0]])
    fit = choose_law(Crossing(), levels=LEVELS, law=None)
    law = fit(Crossing(), rows(x, np.array([0.0, 1.0, 2.0]))).law(x)
    width = 1e-3 * np.std([0, 1, 2])
    grid = np.array(LEVELS) - 0.5
    expected = (np.array([[2.0], [0.0], [3.0]]) + width) * grid
    np.testing.assert_allclose(law.values, expected, atol=1e-12)


def test_a_forest_in_a_pipeline_with_strings_and_missing_values() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": random.normal(size=120),
            "kind": pd.Categorical(random.choice(["a", "b"], 120)),
            "place": random.choice(["north", "south"], 120),
        }
    )
    y = frame["size"] + 3 * (frame["kind"] == "b") + random.normal(size=120)
    columns = make_column_transformer(
        (OneHotEncoder(), ["kind", "place"]), remainder="passthrough"
    )
    for last in (RandomForestRegressor(10), BayesianRidge(), Ridge()):
        model = recalibrate(make_pipeline(columns, last), frame, y, random_state=0)
        assert list(model.feature_names_in_) == ["size", "kind", "place"]
        assert model.predict(frame).shape == (120,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"size": "width"}))
    gaps = frame[["size"]].mask(frame["size"] > 1.7)
    model = recalibrate(HistGradientBoostingRegressor(), gaps, y, random_state=0)
    assert len(set(model.folds_[0, gaps["size"].isna()])) == 1  # equal features


def test_sparse_features_and_lists_of_texts_are_rows_too() -> None:
    x, y = noisy_line(60)
    dense = np.where(np.abs(x) > 1, x, 0.0)
    options = {"random_state": 0}
    model = recalibrate(Ridge(), scipy.sparse.coo_array(dense), y, **options)
    expected = recalibrate(Ridge(), dense, y, **options)
    assert np.array_equal(
        *(
            np.unique(model.folds_[0, (dense == 0).all(1)])
            for model in (model, expected)
        )
    )
    assert model.predict(scipy.sparse.csc_array(dense)).shape == (60,)
    assert np.array_equal(feature_codes(["x", "y", "x"]), [[0], [1], [0]])
    assert as_rows([["x"], ["y"]]) == [["x"], ["y"]]


def test_equal_rows_have_equal_codes_whatever_their_type() -> None:
    stamp = pd.Timestamp("2020-01-01")
    frame = pd.DataFrame([[1.0, "a", stamp], [np.nan, None, stamp]] * 2)
    frame.columns = ["same", "same", "time"]
    codes = feature_codes(frame)
    assert np.array_equal(codes[0], codes[2])
    assert np.array_equal(codes[1], codes[3])
    assert not np.array_equal(codes[0], codes[1])
    sparse = scipy.sparse.csr_array(np.array([[0, 1.0], [1.0, 0], [0, 1.0], [0, 2.0]]))
    assert len(set(feature_codes(sparse)[:, 0])) == 3


def test_rows_that_all_belong_together_have_the_spread_of_the_targets() -> None:
    x, y = pure_noise(100)
    one_block = Rows(x, y, Blocks(np.zeros(100, dtype=np.int64)))
    memory = KNeighborsRegressor(1)
    law = choose_law(memory, levels=None, law=None)(memory, one_block).law(x)
    np.testing.assert_allclose(law.stddev, np.full(100, y.std()), rtol=1e-9)


def test_other_frames_are_read_by_their_columns() -> None:
    class Frame:
        columns = ("a", "b")

        def __getitem__(self, name: str) -> list[object]:
            return {"a": [1.0, 2.0, 1.0], "b": ["x", "y", "x"]}[name]

    assert feature_codes(as_rows(Frame())).tolist() == [[0, 0], [1, 1], [0, 0]]
