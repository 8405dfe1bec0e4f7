"""The rules of scikit-learn, and life inside its tools."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from calibrant.estimators import CalibratedRegressor

Make = Callable[..., CalibratedRegressor]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

# Each check that is meant to fail, and why.
WEIGHTS = (
    "weights weight the score of a stochastic training; folds, batches and "
    "standardization count rows, so that a weight of 2 is not a row twice"
)
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": WEIGHTS}
METHODS = ("predict", "predict_distribution", "predict_var", "predict_interval")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks() -> None:
    model = CalibratedRegressor(
        epochs=30,
        members=1,
        folds=2,
        hidden=(32,),
        batch_size=32,
        learning_rate=1e-2,
        random_state=0,
        patience=None,
    )
    results = check_estimator(
        model, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None
    )
    failed = {
        each["check_name"]: repr(each["exception"])
        for each in results
        if each["status"] == "failed"
    }
    assert failed == {}
    # A check that has begun to pass must leave the list.
    known = {each["check_name"] for each in results if each["status"] == "xfail"}
    assert known == set(EXPECTED)


def test_clone_and_parameters(fitted: CalibratedRegressor) -> None:
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "model_")
    assert fresh.set_params(members=7, strength="auto").members == 7
    with pytest.raises(ValueError, match="Invalid parameter 'member'"):
        fresh.set_params(member=7)


def test_repr_names_what_differs() -> None:
    text = repr(CalibratedRegressor(members=3))
    assert text.startswith("CalibratedRegressor(")
    assert "members=3" in text
    assert "hidden" not in text


def test_parameters_are_stored_as_they_came() -> None:
    grid = [1, 2]
    assert CalibratedRegressor(strength_grid=grid).strength_grid is grid


def test_pipeline(cheap: Make, line: Rows) -> None:
    x, y = line
    model = make_pipeline(StandardScaler(), cheap(members=1)).fit(x, y)
    assert model.predict(x).shape == (60,)
    assert model.score(x, y) <= 1


@pytest.mark.slow
def test_grid_search_and_cross_validation(cheap: Make, line: Rows) -> None:
    x, y = line
    model = cheap(members=1, epochs=40, recalibrator=None)
    search = GridSearchCV(model, {"learning_rate": [1e-5, 3e-2]}, cv=2).fit(x, y)
    assert search.best_params_ == {"learning_rate": 3e-2}
    scores = cross_val_score(search.best_estimator_, x, y, cv=3)
    assert scores.shape == (3,)
    assert scores.min() > 0


def test_score_is_r2_of_the_mean(fitted: CalibratedRegressor, line: Rows) -> None:
    x, y = line
    mean = fitted.predict(x)
    expected = 1 - ((y - mean) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert fitted.score(x, y) == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
def test_an_unfitted_model_says_so(method: str, cheap: Make, line: Rows) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(cheap(), method)(line[0])


def test_saving_needs_a_fit(cheap: Make) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        cheap().save("nowhere")


@pytest.fixture(scope="module")
def frame(line: Rows) -> pd.DataFrame:
    return pd.DataFrame(line[0], columns=["width", "height"])


@pytest.fixture(scope="module")
def model(cheap: Make, frame: pd.DataFrame, line: Rows) -> CalibratedRegressor:
    return cheap(members=1).fit(frame, line[1])


class TestFeatureNames:
    def test_are_kept(self, model: CalibratedRegressor) -> None:
        assert model.feature_names_in_.tolist() == ["width", "height"]
        assert model.n_features_in_ == 2

    def test_frames_predict_as_arrays(
        self, model: CalibratedRegressor, frame: pd.DataFrame, line: Rows
    ) -> None:
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            plain = model.predict(line[0])
        np.testing.assert_array_equal(model.predict(frame), plain)

    def test_another_order_is_refused(
        self, model: CalibratedRegressor, frame: pd.DataFrame
    ) -> None:
        with pytest.raises(ValueError, match="must be in the same order"):
            model.predict(frame[["height", "width"]])

    def test_other_names_are_refused(
        self, model: CalibratedRegressor, frame: pd.DataFrame
    ) -> None:
        with pytest.raises(ValueError, match="Feature names unseen at fit time"):
            model.predict(frame.rename(columns={"width": "depth"}))

    def test_another_number_is_refused(
        self, fitted: CalibratedRegressor, line: Rows
    ) -> None:
        with pytest.raises(ValueError, match="expecting 2 features"):
            fitted.predict(line[0][:, :1])


def test_targets_of_a_series_are_taken_in_its_order(cheap: Make, line: Rows) -> None:
    series = pd.Series(line[1], index=np.arange(60)[::-1])
    first = cheap(members=1).fit(*line).predict_quantiles(line[0])
    again = cheap(members=1).fit(line[0], series).predict_quantiles(line[0])
    np.testing.assert_array_equal(first, again)
