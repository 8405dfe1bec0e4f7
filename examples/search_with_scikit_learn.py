"""Search the settings of a calibrated model in a pipeline, by its mean CRPS."""

from typing import Any

from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from calibrant import CalibratedRegressor, evaluate


def predictive_of(pipeline: Pipeline, X: Any) -> Any:  # noqa: ANN401
    """Ask the last step of a fitted pipeline for the distribution of each row."""
    return pipeline[-1].predict_distribution(pipeline[:-1].transform(X))


def minus_crps(pipeline: Pipeline, X: Any, y: Any) -> float:  # noqa: ANN401
    """Score whole distributions, larger is better; R² looks at their means only."""
    return -float(predictive_of(pipeline, X).crps(y).mean())


def main() -> None:
    """Search, and measure the best model on rows that no part of it has seen."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)
    codes = (OneHotEncoder(drop="first"), ["sex"])
    columns = make_column_transformer(codes, remainder=StandardScaler())
    model = CalibratedRegressor(members=1, folds=3, epochs=30, random_state=0)
    grid = {"calibratedregressor__strength": [0.0, 1.0, 5.0]}
    search = GridSearchCV(make_pipeline(columns, model), grid, scoring=minus_crps, cv=2)
    best = search.fit(X, y).best_estimator_
    print(f"mean CRPS {-search.best_score_:.1f} with {search.best_params_}")
    print(evaluate(predictive_of(best, X_new), y_new).verdict())


if __name__ == "__main__":
    main()
