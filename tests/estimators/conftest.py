"""Small data and settings that train in a moment."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from calibrant.estimators import CalibratedRegressor

Array = npt.NDArray[np.float64]
Make = Callable[..., CalibratedRegressor]
Rows = tuple[Array, Array]

CHEAP: dict[str, Any] = {
    "learners": ("network",),
    "loss": "nll",
    "members": 2,
    "folds": 2,
    "hidden": (8,),
    "epochs": 4,
    "batch_size": 32,
    "learning_rate": 1e-2,
    "patience": 3,
    "strength": 1.0,
    "recalibrator": "beta",
    "recalibrate_on": "out_of_fold",
    "random_state": 0,
}


@pytest.fixture(scope="session")
def cheap() -> Make:
    """Make a regressor that trains in a moment, with some settings changed."""

    def make(**changes: Any) -> CalibratedRegressor:
        return CalibratedRegressor().set_params(**(CHEAP | changes))

    return make


@pytest.fixture(scope="session")
def line() -> Rows:
    """60 rows of a line with noise, targets around 20."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (60, 2))
    return x, 20 + 5 * x[:, 0] + 0.5 * random.standard_normal(60)


@pytest.fixture(scope="session")
def fitted(cheap: Make, line: Rows) -> CalibratedRegressor:
    """One fitted model for tests that only ask it."""
    return cheap().fit(*line)
