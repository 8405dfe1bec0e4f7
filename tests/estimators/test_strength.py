"""The strength of the regularizer, chosen by rule."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.normal import Gaussian
from calibrant.estimators import CalibratedRegressor, StrengthPath
from calibrant.estimators.folds import Design
from calibrant.estimators.networks import fit_networks
from calibrant.estimators.pool import Pool
from calibrant.estimators.regressor import (
    Trained,
    choose_strength,
    measures,
    sweep,
)
from calibrant.metrics.calibration import calibration_error
from calibrant.metrics.pit import TargetGrid
from calibrant.training import DivergedError, History, InterruptedWarning

Make = Callable[..., CalibratedRegressor]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


def choose(
    error: list[float],
    crps: list[float] | None = None,
    nll: list[float] | None = None,
    *,
    rule: str = "crps",
) -> StrengthPath:
    same = [1.0] * len(error)
    return choose_strength(
        np.arange(float(len(error))),
        np.array(error),
        np.array(crps or same),
        np.array(nll or same),
        noise_floor=0.01,
        rule=rule,
    )


GAP, ENDLESS = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("error", "scores", "chosen"),
    [
        # The smallest error within the budget.
        ([0.4, 0.3, 0.2, 0.1], {"crps": [1.0, 1.05, 1.0501, 2.0]}, 1.0),
        ([0.4, 0.3, 0.2, 0.1], {"nll": [-2.0, -1.96, -1.9, 0.0]}, 1.0),
        # A training that failed is not chosen.
        ([GAP, 0.2, 0.1], {"crps": [GAP, 1.0, 1.0]}, 2.0),
        # An endless likelihood forbids nothing.
        ([0.2, 0.1], {"nll": [ENDLESS, ENDLESS]}, 1.0),
        ([0.2, 0.1], {"nll": [1.0, ENDLESS]}, 0.0),
    ],
)
def test_rule(error: list[float], scores: dict[str, Any], chosen: float) -> None:
    (rule,) = scores
    assert choose(error, **scores, rule=rule).chosen == chosen


class TestPath:
    @pytest.fixture
    def path(self) -> StrengthPath:
        return choose([0.4, float("nan"), 0.1], crps=[1, float("nan"), 1.04])

    def test_as_a_table(self, path: StrengthPath) -> None:
        table = path.to_pandas()
        assert table.index.name == "strength"
        assert table.index.tolist() == [0.0, 1.0, 2.0]
        assert table["chosen"].tolist() == [False, False, True]
        assert table["allowed"].tolist() == [True, False, True]
        assert table.loc[2.0, "crps"] == 1.04


Y = torch.from_numpy(np.random.default_rng(0).standard_normal(50))


def pool_of(spread: float, y: torch.Tensor = Y, grid: TargetGrid | None = None) -> Pool:
    """Two folds, and distributions that are too narrow or too wide."""
    rows = np.arange(50)
    design = Design((rows[1::2], rows[::2]), rows, (rows % 2)[None])

    def pooled(laws: Any, weights: Any) -> AbstractDistribution:
        np.testing.assert_array_equal(weights[0], [rows % 2 == 0, rows % 2 == 1])
        law: AbstractDistribution = laws[0]
        return law

    return Pool([Gaussian(torch.zeros(50), spread)], pooled, (design,), y, grid)


def trained_with(spread: float, *, interrupted: bool = False) -> Trained:
    nothing: Any = None
    return nothing, [History(interrupted=interrupted)], pool_of(spread)


class TestSweep:
    def test_measures_by_hand(self) -> None:
        law = Gaussian(torch.zeros(50), 2.0)
        error, crps, nll = measures(pool_of(2.0))
        assert crps == pytest.approx(float(law.crps(Y).mean()))
        assert nll == pytest.approx(float(-law.log_prob(Y).mean()))
        assert error == pytest.approx(calibration_error(law.cdf(Y)))

    def test_a_strength_that_diverges_is_passed_over(self) -> None:
        def train(strength: float) -> Trained:
            if strength != 1.0:
                raise DivergedError(f"strength {strength:g} is too much")
            return trained_with(1.0)

        trained, path, interrupted = sweep([0.0, 1.0, 5.0], train, rule="crps")
        assert not interrupted
        assert path.chosen == 1.0
        assert np.isnan(path.crps).tolist() == [True, False, True]
        assert trained[2].distribution().stddev[0] == 1.0
        with pytest.raises(DivergedError, match="strength 5 is too much"):
            sweep([0.0, 5.0], train, rule="crps")

    def test_ctrl_c_ends_it(self) -> None:
        tried: list[float] = []

        def train(strength: float) -> Trained:
            tried.append(strength)
            return trained_with(1.0, interrupted=strength == 1.0)

        _, path, interrupted = sweep([0.0, 1.0, 2.0], train, rule="crps")
        assert interrupted
        assert tried == path.strengths.tolist() == [0.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["held_out", "out_of_fold"])
def test_a_sweep_that_is_ended_by_hand_is_told(
    strategy: str, cheap: Make, line: Rows
) -> None:
    epochs = 0

    def stop(_: object) -> None:
        nonlocal epochs
        epochs += 1
        if epochs == 3:  # of the second strength, two epochs each
            raise KeyboardInterrupt

    options = {"recalibrate_on": strategy, "epochs": 2, "strength": "auto"}
    model = cheap(**options, strength_grid=(0.0, 1.0, 2.0))
    with (
        pytest.warns(InterruptedWarning),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(*line, callbacks=[stop])
    assert hasattr(model, "model_") == (strategy == "out_of_fold")


@pytest.mark.parametrize(
    ("strategy", "trainings"),
    [(None, 3), ("train", 3), ("held_out", 3), ("out_of_fold", 2)],
)
def test_auto_trains_again_only_if_it_must(
    strategy: str | None,
    trainings: int,
    cheap: Make,
    line: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[float] = []

    def counted(*given: Any, **options: Any) -> Any:
        calls.append(given[3].strength)
        return fit_networks(*given, **options)

    monkeypatch.setattr("calibrant.estimators.regressor.fit_networks", counted)
    model = cheap(
        strength="auto",
        strength_grid=(2.0, 0.0),
        recalibrate_on=strategy,
        members=1,
        epochs=1,
    ).fit(*line)
    assert calls[:2] == [0.0, 2.0]
    assert len(calls) == trainings
    assert calls[2:] in ([], [model.strength_])
    path = model.strength_path_
    assert path.strengths.tolist() == [0.0, 2.0]
    assert model.strength_ == path.chosen


def test_the_chosen_model_is_that_of_its_strength(cheap: Make, line: Rows) -> None:
    chosen = cheap(strength="auto", strength_grid=(0.0, 3.0)).fit(*line)
    plain = cheap(strength=chosen.strength_).fit(*line)
    np.testing.assert_array_equal(
        chosen.predict_interval(line[0]), plain.predict_interval(line[0])
    )
