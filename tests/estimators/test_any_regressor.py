"""Any regressor, recalibrated: honest, calibrated, in whatever form its rows come."""

import pickle
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
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
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

from calibrant import (
    Gaussian,
    InputError,
    QuantileTable,
    RecalibratedRegressor,
    recalibrate,
)
from calibrant.distributions import Recalibrated
from calibrant.estimators.any_regressor import (
    _as_rows,
    _feature_codes,
    member_fit,
)
from calibrant.estimators.base import Table
from calibrant.estimators.folds import Blocks, SerialDependenceWarning
from calibrant.recalibration import ConformalInterval
from last_line import assert_calibrated

EXAMPLE = Path(__file__).parents[2] / "examples" / "recalibrate_estimators.py"

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


@pytest.mark.parametrize("members", [1, 4])
def test_the_pool_of_unseen_clones_is_that_of_its_definition(members: int) -> None:
    x, y = noisy_line(53)
    model = recalibrate(BayesianRidge(), x, y, members=members, folds=4, random_state=0)
    clones = []
    for partition in model.folds_:
        for fold in range(4):
            own = partition == fold
            clones.append(BayesianRidge().fit(x[~own], y[~own]))
    predicted = np.array([clone.predict(x, return_std=True) for clone in clones])
    unseen = model.folds_ + 4 * np.arange(members)[:, None]
    means, spreads = predicted[unseen, :, np.arange(53)].transpose(2, 0, 1)
    usual = model.disagreement_
    assert (usual is None) == (members < 4)

    def pooled(means: np.ndarray, spreads: np.ndarray) -> np.ndarray:
        within, k = (spreads**2).mean(0), len(means)
        if usual is None:
            return np.sqrt(within)
        prior, found = 8 * usual * within, k * means.var(0)
        return np.sqrt(within + 3 * (prior + found) / (8 + k - 1))

    pit = stats.norm.cdf(y, means.mean(0), pooled(means, spreads))
    np.testing.assert_allclose(model.pit_, pit, rtol=1e-9)
    means, spreads = predicted.transpose(1, 0, 2)
    spread = pooled(means, spreads)
    law = model.predict_distribution(x)
    assert isinstance(law, Recalibrated)
    np.testing.assert_allclose(law.base.mean, means.mean(0), rtol=1e-9)
    np.testing.assert_allclose(law.base.stddev, spread, rtol=1e-9)
    assert sorted(np.bincount(model.folds_[0])) == [13, 13, 13, 14]


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (KNeighborsRegressor(1), {}),
        (BayesianRidge(), {}),
        (RandomForestRegressor(5, random_state=0), {}),
        (QuantileRegressor(alpha=0), {"levels": LEVELS}),
    ],
)
def test_no_row_has_a_say_in_its_own_law(estimator: Any, options: Any) -> None:
    x, y = noisy_line(40)
    before = recalibrate(estimator, x, y, random_state=3, **options)
    for row in (0, 17):
        changed = y.copy()
        changed[row] += 1e3
        after = recalibrate(estimator, x, changed, random_state=3, **options)
        assert np.array_equal(before.folds_, after.folds_)
        fold = before.folds_[0, row]
        asked = torch.linspace(-5, 5, 11)[:, None]
        first, second = (
            model.models_[fold](x[[row]]).cdf(asked) for model in (before, after)
        )
        assert torch.equal(first, second)
        other = (fold + 1) % 5
        assert not torch.equal(
            before.models_[other](x[[row]]).cdf(asked),
            after.models_[other](x[[row]]).cdf(asked),
        )


def test_rows_that_belong_together_share_a_fold() -> None:
    x, y = noisy_line(40)
    x = np.repeat(x, 2, axis=0)
    groups = np.repeat(np.arange(10), 8).astype(str)
    model = recalibrate(LinearRegression(), x, np.repeat(y, 2), random_state=0)
    assert (model.folds_[:, ::2] == model.folds_[:, 1::2]).all()
    model = recalibrate(
        LinearRegression(), x, np.repeat(y, 2), groups=groups, random_state=0
    )
    for folds in model.folds_:
        assert (pd.Series(folds).groupby(groups).nunique() == 1).all()


def test_with_time_folds_are_stretches_and_nothing_is_warned_of() -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=200).cumsum()  # a walk: neighbors have alike errors
    x = random.normal(size=(200, 1))
    when = random.permutation(200)
    model = recalibrate(LinearRegression(), x[when], y[when], time=when)
    (folds,) = model.folds_
    assert (np.diff(folds[np.argsort(when)]) >= 0).all()
    assert len(set(folds)) == 5
    with pytest.warns(SerialDependenceWarning, match="time= or groups="):
        recalibrate(LinearRegression(), x, y, random_state=0)


def simulated_coverage(
    estimator: Any, n: int, *, data: Any = noisy_line, copies: int = 1, runs: int = 100
) -> tuple[float, float]:
    """Mean coverage of 90 % intervals for fresh rows, and its standard error."""
    shares = []
    for seed in range(runs):
        x, y = data(n + 40, seed)
        x_train, y_train = (np.repeat(part[:n], copies, axis=0) for part in (x, y))
        model = recalibrate(estimator, x_train, y_train, random_state=seed)
        shares.append(covered(model, x[n:], y[n:]))
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(runs))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:neighboring rows have alike errors")
def test_copies_of_rows_do_not_fool_it(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = KNeighborsRegressor(1)
    options = {"data": pure_noise, "copies": 3, "runs": 30}
    share, error = simulated_coverage(memory, 60, **options)
    assert share > 0.9 - 4 * error
    # The test can fail: with copies in other folds the memory looks perfect.
    monkeypatch.setattr(
        "calibrant.estimators.any_regressor.linked_rows",
        lambda codes, *_, **__: np.arange(len(codes)),
    )
    assert simulated_coverage(memory, 60, **options)[0] < 0.5


#: Folds and maps count each row once, whatever its weight, so that rows left out and
#: rows of weight 0 lead to other folds.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "folds count rows",
    "check_sample_weight_equivalence_on_sparse_data": "folds count rows",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inside", [LinearRegression(), Ridge()], ids=["line", "ridge"])
def test_scikit_learns_own_checks(inside: Any) -> None:
    # Two folds, because some checks have four rows.
    model = RecalibratedRegressor(inside, folds=2, random_state=0)
    count = 0
    for found, check in estimator_checks_generator(
        model, legacy=True, expected_failed_checks=EXPECTED, mark="skip"
    ):
        try:
            check(found)
        except pytest.skip.Exception:
            continue
        except Exception as error:
            if type(error).__name__ == "SkipTest":
                continue
            raise
        count += 1
    assert count > 50


def test_it_is_cloned_searched_and_cross_validated() -> None:
    x, y = noisy_line(60)
    model = RecalibratedRegressor(Ridge(), folds=3, random_state=0)
    assert clone(model).get_params()["estimator__alpha"] == 1.0
    grid = {"estimator__alpha": [0.1, 1e4], "recalibrator": ["empirical", "beta"]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(x, y)
    assert search.best_params_["estimator__alpha"] == 0.1
    scores = cross_val_score(make_pipeline(StandardScaler(), model), x, y, cv=3)
    assert scores.mean() > 0.2
    fitted = model.fit(x, y)
    restored = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(restored.predict_var(x), fitted.predict_var(x))


def test_the_seed_reaches_what_is_inside() -> None:
    x, y = noisy_line(50)
    forest = make_pipeline(StandardScaler(), RandomForestRegressor(3))
    first, again, other = (
        recalibrate(forest, x, y, random_state=seed).predict(x) for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert forest[-1].random_state is None


def test_weights_reach_the_estimator() -> None:
    x, y = noisy_line(60)
    heavy = np.arange(60) % 3 > 0
    y[~heavy] += 100
    weights = np.where(heavy, 1.0, 0.0)
    for estimator in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        model = recalibrate(estimator, x, y, weights, random_state=0)
        law = model.models_[0](x)
        assert float(law.mean.max()) < 20
    with pytest.raises(InputError, match=r"KNeighborsRegressor\.fit does not"):
        recalibrate(KNeighborsRegressor(), x, y, weights)


def test_rounded_targets_are_randomized() -> None:
    x, y = noisy_line(400)
    model = recalibrate(LinearRegression(), x, np.round(y), random_state=0)
    # Plain PIT values of rounded targets are those of the upper edges of the steps.
    base = model.predict_distribution(x).base
    below, above = (base.cdf(np.round(y) + step) for step in (-0.5, 0.5))
    wide = (above - below).numpy()
    share = (model.pit_ - below.numpy()) / wide
    assert share.std() > 0.2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"recalibrator": "betta"}, "Did you mean 'beta'"),
        ({"recalibrator": "conformal_interval"}, "whole distributions"),
        ({"recalibrator": ConformalInterval()}, "whole distributions"),
        ({"folds": 1}, "from 2 on, got 1"),
        ({"folds": 2.5}, "from 2 on, got 2.5"),
        ({"levels": LEVELS}, "levels need a quantile regressor"),
        (
            {"estimator": GradientBoostingRegressor(), "levels": LEVELS},
            "levels need a quantile regressor",
        ),
        ({"levels": [0.9, 0.1]}, "levels must increase strictly"),
        ({"levels": LEVELS, "distribution": len}, "without levels"),
        ({"distribution": "normal"}, "distribution must be a function"),
        (
            {"distribution": lambda m, x: m.predict(x)},
            "a point prediction is no distribution",
        ),
        (
            {"distribution": lambda _, x: (x, 1.0)},
            "one distribution for each of 30 rows",
        ),
        ({"groups": np.zeros(30)}, "there are 1"),
        ({"groups": np.zeros(3)}, "groups must have one label"),
        ({"time": np.zeros(3)}, "time must have one value"),
        ({"sample_weight": np.ones(3)}, "sample_weight.shape"),
    ],
)
def test_errors_say_what_to_do(options: dict[str, Any], text: str) -> None:
    x, y = noisy_line(30)
    arguments = {"estimator": Ridge(), **options}
    with pytest.raises(ValueError, match=re.escape(text)):
        recalibrate(X=x, y=y, **arguments)


def test_errors_of_rows() -> None:
    x, y = noisy_line(30)
    with pytest.raises(ValueError, match=re.escape("0 feature(s)")):
        recalibrate(Ridge(), x[:, :0], y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        recalibrate(Ridge(), x, y[:20])
    with pytest.raises(ValueError, match="Reshape your data"):
        recalibrate(Ridge(), x, y).predict(x[0])


@pytest.mark.slow
def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert_calibrated(line)


@pytest.fixture(scope="module")
def diabetes() -> Arrays:
    x, y = load_diabetes(return_X_y=True)
    return x[:200], y[:200]


def rows(x: np.ndarray, y: np.ndarray) -> Table:
    return Table(x, y, Blocks(np.arange(len(y))))


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
    "given": (Ridge(), {"distribution": lambda m, x: (m.predict(x), 40.0)}, Gaussian),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_law_is_calibrated_on_real_data(
    kind: str, diabetes: Arrays
) -> None:
    estimator, options, law = KINDS[kind]
    x, y = diabetes
    model = recalibrate(estimator, x[:150], y[:150], random_state=0, **options)
    assert type(model.models_[0](x[:2])) is law
    # 50 rows and a map of 30: four standard errors of both.
    assert abs(covered(model, x[150:], y[150:]) - 0.9) < 0.9 * 4 * np.sqrt(0.09 / 50)
    assert model.score(x[150:], y[150:]) > -0.5
    quantiles = model.predict_quantiles(x[150:], [0.1, 0.5, 0.9])
    assert (np.diff(quantiles, axis=1) > 0).all()


def test_deviations_are_the_models_own_unless_far_too_narrow() -> None:
    x, y = noisy_line(80)
    own = BayesianRidge().fit(x, y).predict(x, return_std=True)[1]
    law = member_fit(BayesianRidge())(rows(x, y))
    np.testing.assert_allclose(law(x).stddev, own, rtol=1e-12)
    kernel = RBF(100.0, "fixed")  # without noise: claims hardly any deviation
    process = GaussianProcessRegressor(kernel, alpha=1e-3, normalize_y=True)
    claimed = process.fit(x, y).predict(x, return_std=True)[1]
    law = member_fit(process)(rows(x, y))
    residual = (y - process.predict(x)) / law(x).stddev.numpy()
    assert (law(x).stddev.numpy() > 3 * claimed).all()
    assert 0.5 < np.sqrt(np.mean(residual**2)) < 1.5


def test_memorized_residuals_are_not_believed() -> None:
    x, y = pure_noise(300)
    memory = KNeighborsRegressor(1)
    law = member_fit(memory)(rows(x, y))(x)
    # A neighbor's noise on top of one's own.
    np.testing.assert_allclose(law.stddev, np.full(300, np.sqrt(2)), rtol=0.25)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e6])
@pytest.mark.parametrize("recalibrator", ["empirical", "beta"])
def test_intervals_of_a_constant_target_cover_it(
    value: float, recalibrator: str
) -> None:
    x, _ = pure_noise(100)
    with pytest.warns(UserWarning, match="the target is constant"):
        model = recalibrate(
            LinearRegression(),
            x,
            np.full(100, value),
            recalibrator=recalibrator,
            random_state=0,
        )
    low, high = model.predict_interval(x[:5], coverage=0.5).T
    assert (low < value).all()
    assert (value < high).all()


def test_quantiles_that_cross_or_coincide_become_a_law() -> None:
    class Crossing(RegressorMixin, BaseEstimator):
        def __init__(self, quantile: float = 0.5) -> None:
            self.quantile = quantile

        def fit(self, *_: Any) -> "Crossing":
            return self

        def predict(self, X: Any) -> np.ndarray:
            return X[:, 0] * (self.quantile - 0.5)

    x = np.array([[-2.0], [0.0], [3.0]])
    fit = member_fit(Crossing(), LEVELS)
    law = fit(rows(x, np.array([0.0, 1.0, 2.0])))(x)
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
    assert np.array_equal(_feature_codes(["x", "y", "x"]), [[0], [1], [0]])
    assert _as_rows([["x"], ["y"]]) == [["x"], ["y"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "n", "data"),
    [
        (LinearRegression(), 60, noisy_line),
        (BayesianRidge(), 200, noisy_line),
        (KNeighborsRegressor(1), 100, pure_noise),
        (DecisionTreeRegressor(random_state=0), 100, pure_noise),
    ],
)
def test_intervals_cover_what_they_say(estimator: Any, n: int, data: Any) -> None:
    share, error = simulated_coverage(estimator, n, data=data, runs=60)
    # A map of n ranks knows a level up to one of them; two of such levels.
    assert abs(share - 0.9) < 0.02 + 2 / (n + 1) + 3 * error


def test_single_trees_cover_what_the_page_says() -> None:
    page = " ".join((RecalibratedRegressor.__doc__ or "").split())
    said = re.search(
        r"nominal 50 % covered (\d+) to (\d+) %, those of 90 % covered (\d+) to "
        r"(\d+) %",
        page,
    )
    assert said
    ranges = np.array([int(number) / 100 for number in said.groups()]).reshape(2, 2)
    x, y = noisy_line(3000)
    model = recalibrate(DecisionTreeRegressor(), x[:1000], y[:1000], random_state=0)
    for coverage, (low, high) in zip((0.5, 0.9), ranges, strict=True):
        bounds = model.predict_interval(x[1000:], coverage=coverage)
        share = ((bounds[:, 0] <= y[1000:]) & (y[1000:] <= bounds[:, 1])).mean()
        assert low - 0.02 < share < high + 0.02
