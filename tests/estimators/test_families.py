"""Families of members: trees that see no row of their own, shares, and what is kept."""

import builtins
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import BayesianRidge, Ridge

from calibrant import CalibratedRegressor, Gaussian, InputError, load
from calibrant.estimators import pool as families
from calibrant.estimators.folds import Blocks, Design, design_for
from calibrant.estimators.pool import Pool, fit_trees, weigh
from calibrant.training import InterruptedWarning


def table(n: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Steps, which trees learn, and a slope, which networks learn."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 3))
    y = 3 * np.sign(x[:, 0]) * np.sign(x[:, 1]) + 2 * x[:, 2]
    return x, y + 0.3 * random.standard_normal(n)


def model(**changes: Any) -> CalibratedRegressor:
    options = {"members": 2, "folds": 3, "epochs": 6, "random_state": 0}
    return CalibratedRegressor(**(options | changes))


def pools(design: Design, x: np.ndarray, trees: families.BoostedTrees) -> torch.Tensor:
    """Mean and spread of each row by its unseen members, ``(2, pool, n)``."""
    predicted, rows = trees.predict(x)[0], np.arange(len(x))
    return torch.stack(
        [predicted.mean[design.unseen, rows], predicted.stddev[design.unseen, rows]]
    )


def test_a_target_has_no_say_in_its_own_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(families, "_best", lambda *_: (4, 3))  # rounds are shared
    x, y = table()
    blocks = Blocks(np.arange(len(y)))
    design = design_for(
        "out_of_fold", blocks, members=2, folds=3, random=np.random.default_rng(0)
    )
    before = pools(design, x, fit_trees(x, y, None, design, strength=0.0, seed=1))
    other = y.copy()
    other[7] += 100
    after = pools(design, x, fit_trees(x, other, None, design, strength=0.0, seed=1))
    assert (before[..., 7] == after[..., 7]).all()
    assert not torch.equal(before, after)


@pytest.mark.parametrize(("second", "expected"), [(0.05, 1.0), (2.0, 0.0)])
def test_a_family_that_does_not_help_is_dropped(second: float, expected: float) -> None:
    noise = torch.randn(2, 500, generator=torch.Generator().manual_seed(0)).double()
    y = torch.linspace(-3, 3, 500, dtype=torch.float64)
    off = [y + 0.3 * noise[0], y + second * noise[1]]
    found = [Gaussian(mean, torch.ones_like(y)) for mean in off]
    shares, factors = weigh(found, y)
    assert shares == [1 - expected, expected]
    assert factors == [1.0, 1.0]


def test_spreads_are_made_comparable_before_they_are_blended() -> None:
    noise = torch.randn(2, 2000, generator=torch.Generator().manual_seed(0)).double()
    y = torch.linspace(-3, 3, 2000, dtype=torch.float64)
    narrow, wide = 0.1, 2.0
    found = [
        Gaussian(y + 0.5 * part, torch.full_like(y, spread))
        for part, spread in zip(noise, (narrow, wide), strict=True)
    ]
    shares, factors = weigh(found, y)
    assert shares == [0.5, 0.5]
    # Both are off by 0.5, whatever they say.
    assert factors[0] * narrow == pytest.approx(0.5, rel=0.15)
    assert factors[1] * wide == pytest.approx(0.5, rel=0.15)


def test_rows_of_weight_zero_have_no_say_in_the_shares() -> None:
    y = torch.linspace(-1, 1, 100, dtype=torch.float64)
    half = torch.arange(100) < 50
    found = [
        Gaussian(torch.where(half, y, y + 5), torch.ones_like(y)),
        Gaussian(torch.where(half, y + 5, y), torch.ones_like(y)),
    ]
    assert weigh(found, y, half.double())[0] == [1.0, 0.0]
    assert weigh(found, y, (~half).double())[0] == [0.0, 1.0]


def test_the_served_size_of_a_blend_weighs_families_by_their_shares() -> None:
    rows = np.arange(3)
    parts = (Design((rows,) * 40, rows), Design((rows,) * 20, rows))
    nothing: Any = None
    alone = Pool([], nothing, parts[:1], nothing)
    assert alone.inverse_size == 1 / 40
    both = Pool([], nothing, parts, nothing, shares=(0.5, 0.5))
    assert both.inverse_size == pytest.approx((1 / 40 + 1 / 20) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["out_of_fold", "held_out"])
def test_both_families_predict_the_same_after_load(
    tmp_path: Path, strategy: str
) -> None:
    x, y = table(300)
    fitted = model(recalibrate_on=strategy).fit(x, y)
    assert "boosted-tree models" in fitted.plan_
    again = load(fitted.save(tmp_path / "model"))
    assert (again.predict_interval(x) == fitted.predict_interval(x)).all()
    new, targets = table(200, seed=1)
    assert fitted.refresh(new, targets).predict(x).shape == (300,)


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["network", "boosting"])
def test_either_family_alone(tmp_path: Path, learner: str) -> None:
    x, y = table()
    fitted = model(learners=[learner], target_transform="yeo_johnson").fit(x, y)
    blend = fitted.model_.members
    assert (blend.trees is None) == (learner == "network")
    assert (blend.networks is None) == (learner == "boosting")
    again = load(fitted.save(tmp_path / "model"))
    assert (again.predict(x) == fitted.predict(x)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({}, 60),
        ({"recalibrate_on": None}, 160),
        ({"recalibrate_on": "train"}, 160),
        ({"head": "laplace"}, 160),
        ({"distribution": "mixture"}, 160),
    ],
)
def test_networks_go_on_alone_where_trees_cannot(
    changes: dict[str, Any], rows: int
) -> None:
    x, y = table(rows)
    fitted = model(epochs=1, **changes).fit(x, y)
    assert fitted.model_.members.trees is None
    with pytest.raises(InputError, match='Add "network"'):
        model(learners=["boosting"], **changes).fit(x, y)


@pytest.mark.slow
def test_without_lightgbm_networks_go_on_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "lightgbm":
            raise OSError("libgomp.so.1: cannot open shared object file")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.warns(UserWarning, match="left out.*libgomp"):
        fitted = model(epochs=1).fit(*table())
    assert fitted.model_.members.trees is None


@pytest.mark.slow
def test_an_interrupt_among_the_trees_keeps_the_networks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(families, "grow", interrupted)
    x, y = table()
    fitted = model(epochs=2)
    with (
        pytest.warns(InterruptedWarning, match="after the networks"),
        pytest.raises(KeyboardInterrupt),
    ):
        fitted.fit(x, y)
    assert np.isfinite(fitted.predict(x)).all()
    with pytest.raises(KeyboardInterrupt):
        model(learners=["boosting"]).fit(x, y)


@pytest.mark.slow
def test_rows_without_weight_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_ROUNDS", 10)
    x, y = table()
    weights = np.zeros(len(y))
    weights[:3] = 1
    # Not one of these may be among the held-out rows.
    fitted = model(recalibrate_on="held_out", epochs=1, learners=["boosting"])
    assert np.isfinite(fitted.fit(x, y, weights).predict_interval(x)).all()
    weights[1:] = 0
    with pytest.raises(InputError, match="nothing to learn from"):
        model(learners=["boosting"]).fit(x, y, weights)


@pytest.mark.parametrize(("error", "grown"), [(0.01, 3), (3.0, 6)])
def test_trees_that_cannot_help_are_not_grown_further(
    monkeypatch: pytest.MonkeyPatch, error: float, grown: int
) -> None:
    count, real = 0, families.grow

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return real(*given, **options)

    monkeypatch.setattr(families, "grow", counted)
    monkeypatch.setattr(families, "_ROUNDS", 30)
    x, y = table()
    random = np.random.default_rng(0)
    design = design_for(
        "out_of_fold", Blocks(np.arange(len(y))), members=2, folds=3, random=random
    )
    rival = Gaussian(y + error * random.standard_normal(len(y)), np.full(len(y), error))
    found = fit_trees(x, y, None, design, strength=0.0, seed=0, rival=rival)
    assert (found is not None) == (grown == 6)
    assert count == grown


@pytest.mark.slow
def test_a_regressor_is_blended_as_a_family(tmp_path: Path) -> None:
    x, y = table(300)
    y = 5 * x[:, 2] + 0.1 * np.random.default_rng(0).standard_normal(len(y))
    learners = ["network", "boosting", BayesianRidge()]
    fitted = clone(model(learners=learners, epochs=3)).fit(x, y)
    assert "clones of BayesianRidge" in fitted.plan_
    new, _ = table(200, seed=1)
    assert np.abs(fitted.predict(new) - 5 * new[:, 2]).mean() < 0.1
    with pytest.raises(InputError, match="BayesianRidge cannot be saved"):
        fitted.save(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("members", [1, 3])
def test_a_regressor_joins_with_held_out_rows(members: int) -> None:
    x, y = table(300)
    learners = ["network", Ridge()]
    options: dict[str, Any] = {"recalibrate_on": "held_out", "members": members}
    fitted = model(learners=learners, epochs=1, **options).fit(x, 5 * x[:, 2] + 0.1 * y)
    assert "of Ridge" in fitted.plan_


@pytest.mark.slow
def test_regressors_that_are_left_out_are_told() -> None:
    x, y = table(60)
    with pytest.warns(UserWarning, match="left out: there are fewer than 100 rows"):
        model(learners=["network", BayesianRidge()], epochs=1).fit(x, y)


class Lost(BaseEstimator):
    """A regressor that does not know."""

    def fit(self, *_: np.ndarray) -> "Lost":
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), np.nan)


@pytest.mark.slow
def test_a_regressor_that_predicts_nan_is_named() -> None:
    with pytest.raises(InputError, match=r"finite mean .* and Lost does not"):
        model(learners=["network", Lost()], epochs=1).fit(*table())


@pytest.mark.slow
def test_features_of_two_values_can_be_loaded(tmp_path: Path) -> None:
    x = (np.random.default_rng(0).random((60, 3)) > 0.5) * 1.0  # none has bins
    noise = np.random.default_rng(1).standard_normal(60)
    fitted = model(epochs=1).fit(x, x[:, 0] + 0.1 * noise)
    assert (load(fitted.save(tmp_path / "m")).predict(x) == fitted.predict(x)).all()


@pytest.mark.slow
def test_a_regressor_that_predicts_no_normal_distribution_is_refused() -> None:
    inner = model(
        learners=["network"], epochs=1, head="laplace", distribution="mixture"
    )
    with pytest.raises(InputError, match="Use recalibrate"):
        model(learners=[inner]).fit(*table())


@pytest.mark.slow
def test_trees_that_were_forged_are_refused() -> None:
    from calibrant.estimators.persistence import described, restored
    from calibrant.storage import StorageError

    fitted = model(learners=["boosting"]).fit(*table())
    arrays, state = described(fitted)
    wrong: dict[str, torch.Tensor] = {
        "trees.feature": arrays["trees.feature"] + 3,
        "trees.starts": arrays["trees.starts"].flip(0),
        "trees.value": arrays["trees.value"] * torch.nan,
        "trees.scale": -arrays["trees.scale"],
        "trees.left": arrays["trees.left"][:, 1:],
    }
    for name, values in wrong.items():
        with pytest.raises(StorageError, match="trees"):
            restored({**arrays, name: values}, state, {})
    with pytest.raises(StorageError):
        restored(arrays, {**state, "shares": [0.5, 0.5]}, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restored(arrays, state, {})
