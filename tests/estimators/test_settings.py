"""Parameters that cannot work are refused before anything is trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import CalibratedRegressor, Censored, InputError, load
from calibrant.estimators._design import Design, design_for
from calibrant.recalibration import RECALIBRATORS

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, (60, 2))
Y = X[:, 0] + 0.3 * RANDOM.standard_normal(60)
CHEAP: dict[str, Any] = {
    "epochs": 2,
    "members": 1,
    "folds": 2,
    "hidden": (4,),
    "random_state": 0,
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"network": torch.nn.Linear(2, 2)}, "makes a new module, got a module"),
        ({"loss": "squared_error"}, "does not look at the spread"),
        ({"strength_rule": "rmse"}, 'strength_rule must be one of "crps", "nll"'),
        ({"recalibrator": "emprical"}, "Did you mean 'empirical'"),
        ({"recalibrator": "conformal_interval"}, "gives intervals"),
    ],
)
def test_they_do_not_cost_a_training(
    changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("training began")

    monkeypatch.setattr("calibrant.estimators._fitting.train", refuse)
    with pytest.raises(InputError, match=words):
        CalibratedRegressor(**(CHEAP | changes)).fit(X, Y)


def test_a_recalibrator_may_be_a_class() -> None:
    by_name = CalibratedRegressor(**CHEAP, recalibrator="empirical").fit(X, Y)
    by_class = CalibratedRegressor(
        **CHEAP, recalibrator=RECALIBRATORS["empirical"]
    ).fit(X, Y)
    expected = by_name.predict_quantiles(X)
    np.testing.assert_array_equal(by_class.predict_quantiles(X), expected)


def test_none_stands_for_a_bound_that_is_not_there(tmp_path: Path) -> None:
    target = np.exp(Y)
    model = CalibratedRegressor(**CHEAP, bounds=(0.0, None)).fit(X, target)
    assert model.predict_quantiles(X, [1e-6]).min() >= 0
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


def test_targets_on_a_bound_get_mass_there() -> None:
    target = np.maximum(Y, 0.0)
    model = CalibratedRegressor(**CHEAP, bounds=(0.0, None)).fit(X, target)
    law = model.predict_distribution(X)
    assert isinstance(law, Censored)
    assert law.cdf(np.zeros(60)).min() > 0
    assert np.isfinite(-law.log_prob(target).numpy()).all()
    covered = model.predict_interval(X, 0.9)
    zero = target == 0
    assert (covered[zero, 0] == 0).mean() > 0.5


def test_a_fold_with_most_of_the_rows_is_warned_of() -> None:
    groups = np.r_[np.zeros(45), 1 + np.arange(15)]
    with pytest.warns(UserWarning, match="one fold holds 75%"):
        CalibratedRegressor(**(CHEAP | {"folds": 3})).fit(X, Y, groups=groups)


def test_text_is_no_time() -> None:
    with pytest.raises(InputError, match="to_datetime"):
        CalibratedRegressor(**CHEAP).fit(X, Y, time=[f"{i}/1/2020" for i in range(60)])


def test_what_was_fitted_is_saved_not_what_was_set_later(tmp_path: Path) -> None:
    model = CalibratedRegressor(**CHEAP).fit(X, Y)
    expected = model.predict_interval(X)
    model.set_params(hidden=(9,), law="moment_matched", bounds=(-0.1, 0.1))
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_interval(X), expected)
    assert again.hidden == (4,)


def test_a_seed_means_the_same_under_any_default_float_type() -> None:
    expected = CalibratedRegressor(**CHEAP).fit(X, Y).predict_interval(X)
    torch.set_default_dtype(torch.float32)
    found = CalibratedRegressor(**CHEAP).fit(X, Y).predict_interval(X)
    np.testing.assert_array_equal(found, expected)


def test_rows_of_the_map_have_no_say_in_the_strength(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    designs: list[Design] = []

    def kept(*given: Any, **options: Any) -> Design:
        designs.append(design_for(*given, **options))
        return designs[-1]

    monkeypatch.setattr("calibrant.estimators._procedure.design_for", kept)
    settings = CHEAP | {"strength": "auto", "strength_grid": (0.0, 5.0)}
    model = CalibratedRegressor(**settings, recalibrate_on="held_out").fit(X, Y)
    target = Y.copy()
    target[designs[0].calibration] += 3.0
    other = CalibratedRegressor(**settings, recalibrate_on="held_out").fit(X, target)
    np.testing.assert_array_equal(
        other.strength_path_.calibration_error, model.strength_path_.calibration_error
    )


@pytest.mark.parametrize(("most", "expected"), [(60, "out_of_fold"), (59, "held_out")])
def test_automatic_rows_of_the_map(
    most: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.estimators._settings._MOST_FOLDED", most)
    found = CalibratedRegressor(**CHEAP).fit(X, Y)
    named = CalibratedRegressor(**CHEAP, recalibrate_on=expected).fit(X, Y)
    np.testing.assert_array_equal(found.predict_interval(X), named.predict_interval(X))
    assert len(found.model_.members) == (2 if expected == "out_of_fold" else 1)
    assert found.recalibrate_on == "auto"


@pytest.mark.parametrize(
    ("strategy", "fewest", "expected"),
    [
        ("out_of_fold", 61, "beta"),
        ("out_of_fold", 60, "smooth"),
        ("held_out", 13, "beta"),  # a fifth of 60 rows
        ("held_out", 12, "smooth"),
    ],
)
def test_the_automatic_recalibrator(
    strategy: str, fewest: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.estimators._settings._FEWEST_SMOOTH", fewest)
    model = CalibratedRegressor(**CHEAP, recalibrate_on=strategy).fit(X, Y)
    assert type(model.model_.recalibrator) is RECALIBRATORS[expected]
    # New rows for the map: as many choose as well.
    again = model.refresh(X[:20], Y[:20])
    few = "beta" if fewest > 20 else "smooth"
    assert type(again.model_.recalibrator) is RECALIBRATORS[few]
    assert again.recalibrator == "auto"


def test_many_levels_are_those_asked_one_by_one() -> None:
    law = CalibratedRegressor(**CHEAP).fit(X, Y).predict_distribution(X[:7])
    levels = np.linspace(0.01, 0.99, 33)
    each = np.stack([law.quantile(level).numpy() for level in levels], axis=-1)
    np.testing.assert_allclose(law.quantiles(levels).numpy(), each, rtol=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden": (8.0,)}, "hidden must be a list of whole numbers"),
        ({"callbacks": print}, "callbacks must be a list of functions"),
        pytest.param(
            {"device": "cuda"},
            "needs CUDA",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="has CUDA"),
        ),
    ],
)
def test_wrong_types_are_one_clear_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        CalibratedRegressor(**(CHEAP | changes)).fit(X, Y)


def test_wrong_questions_are_one_clear_line() -> None:
    model = CalibratedRegressor(**CHEAP).fit(X, Y)
    with pytest.raises(InputError, match="coverage must be one number"):
        model.predict_interval(X, [0.5, 0.9])  # type: ignore[arg-type]
    for size in (0, -1, (3, 2)):
        with pytest.raises(InputError, match="size must be a whole number"):
            model.sample(X, size)  # type: ignore[arg-type]


def test_a_caller_without_gradients_can_fit() -> None:
    expected = CalibratedRegressor(**CHEAP).fit(X, Y).predict_interval(X)
    with torch.no_grad():
        found = CalibratedRegressor(**CHEAP).fit(X, Y).predict_interval(X)
    np.testing.assert_array_equal(found, expected)


def test_laws_without_a_mean_are_chosen_by_their_likelihood() -> None:
    settings = CHEAP | {"strength": "auto", "strength_grid": (1.0,)}
    heavy = settings | {"head": "student_t", "target_transform": "log"}
    x, y = X[:16], np.exp(Y[:16])
    with pytest.raises(InputError, match='for them use "nll"'):
        CalibratedRegressor(**heavy).fit(x, y)
    model = CalibratedRegressor(**heavy, strength_rule="nll").fit(x, y)
    assert model.strength_ == 1.0
    assert np.isnan(model.strength_path_.crps).all()


class _Net(torch.nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(features, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, raw = self.layer(x).unbind(-1)
        return mean, torch.nn.functional.softplus(raw) + 1e-3


def test_one_interrupt_is_enough_for_all_modules() -> None:
    seen: list[int] = []

    def stop(state: Any) -> None:
        seen.append(state.epoch)
        if len(seen) == 2:
            raise KeyboardInterrupt

    settings = CHEAP | {"epochs": 20, "members": 2, "patience": None}
    model = CalibratedRegressor(**settings, network=_Net, callbacks=[stop])
    with (
        pytest.warns(UserWarning, match="interrupted after 2 of 20"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X, Y)
    assert seen == [1, 2, 1, 1, 1]
    assert np.isfinite(model.predict_interval(X)).all()


def test_dropout_is_judged_with_its_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.training.loop import Trainer

    modes: list[bool] = []
    known = Trainer._score_and_pit

    def watched(self: Any, *given: Any) -> Any:
        modes.append(self.network.training)
        return known(self, *given)

    monkeypatch.setattr(Trainer, "_score_and_pit", watched)
    settings = CHEAP | {"recalibrate_on": "held_out"}
    CalibratedRegressor(**settings, network="mc_dropout").fit(X, Y)
    assert modes == [True, True]
    modes.clear()
    CalibratedRegressor(**settings).fit(X, Y)
    assert modes == [False, False]
