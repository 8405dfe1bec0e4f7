"""The callback that passes the numbers of each epoch on."""

import copy
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from calibrant import CalibratedRegressor
from calibrant.training import EpochLogger

X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + np.random.default_rng(1).normal(size=60)
CHEAP: dict[str, Any] = {
    "members": 2,
    "hidden": (4,),
    "epochs": 3,
    "recalibrator": None,
    "recalibrate_on": None,
    "random_state": 0,
}
NUMBERS = ["loss", "regularizer", "held_out_score", "held_out_calibration_error"]


class Tracker:
    """Name to steps and values."""

    def __init__(self) -> None:
        self.steps: dict[str, list[int]] = defaultdict(list)
        self.values: dict[str, list[float]] = defaultdict(list)

    def __call__(self, name: str, value: float, step: int) -> None:
        self.steps[name].append(step)
        self.values[name].append(value)

    def __deepcopy__(self, _: object) -> "Tracker":
        raise TypeError("a writer holds locks and files")


def test_all_numbers_of_a_training_are_logged() -> None:
    tracker = Tracker()
    model = CalibratedRegressor(**CHEAP, options={"validation_share": 0.2})
    (history,) = model.fit(X, Y, callbacks=[EpochLogger(tracker)]).history_
    for name in NUMBERS:
        logged = tracker.values[name.replace("held_out_", "held_out/")]
        assert logged == getattr(history, name)
    assert all(steps == [1, 2, 3] for steps in tracker.steps.values())
    # A fifth of 60 rows.
    floor = (20**2 - 1) / (6 * 20 * 12)
    assert tracker.values["held_out/calibration_floor"] == pytest.approx([floor] * 3)


def test_steps_go_on_from_training_to_training_and_from_copy_to_copy() -> None:
    tracker = Tracker()
    sweep = CHEAP | {
        "members": 1,
        "folds": 2,
        "recalibrate_on": "out_of_fold",
        "strength": "auto",
        "options": {"strength_grid": (0.0, 1.0)},
    }
    logger = EpochLogger(tracker)
    model = CalibratedRegressor(**sweep).fit(X, Y, callbacks=[logger])
    clone(model).fit(X, Y, callbacks=[copy.deepcopy(logger)])
    assert tracker.steps["loss"] == list(range(1, 13))
    assert tracker.values["training"] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
