"""The estimator: settings, predictions, seeds, the rules of scikit-learn, new rows."""

import random as python_random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from torch import Tensor, nn

from calibrant import CalibratedRegressor, InputError, load
from calibrant.distributions import Censored
from calibrant.distributions.normal import Gaussian
from calibrant.estimators.folds import Design, design_for
from calibrant.estimators.pool import cross_fitted
from calibrant.estimators.regressor import OPTIONS
from calibrant.recalibration import RECALIBRATORS
from calibrant.training import EpochState, InterruptedWarning

RANDOM = np.random.default_rng(0)

X = RANDOM.uniform(-1, 1, (60, 2))

Y = X[:, 0] + 0.3 * RANDOM.standard_normal(60)


def make(**changes: Any) -> CalibratedRegressor:
    return CalibratedRegressor().set_params(**(CHEAP | changes))


CHEAP: dict[str, Any] = {
    "learners": ("network",),
    "loss": "nll",
    "epochs": 2,
    "members": 1,
    "folds": 2,
    "hidden": (4,),
    "random_state": 0,
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"network": torch.nn.Linear(2, 2)}, "network must be a name or a function"),
        ({"loss": "squared_error"}, "loss must look at the spread"),
        ({"strength_rule": "rmse"}, 'strength_rule must be one of "crps", "nll"'),
        ({"recalibrator": "emprical"}, "Did you mean 'empirical'"),
        ({"recalibrator": "conformal_interval"}, "gives intervals"),
        ({"hidden": (8.0,)}, "hidden must be whole numbers"),
        pytest.param(
            {"device": "cuda"},
            "device must be .auto., .cpu., or",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="has CUDA"),
        ),
    ],
)
def test_they_do_not_cost_a_training(
    changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("training began")

    monkeypatch.setattr("calibrant.estimators.networks.train", refuse)
    with pytest.raises(InputError, match=words):
        make(**changes).fit(X, Y)


def test_none_stands_for_a_bound_that_is_not_there(tmp_path: Path) -> None:
    target = np.exp(Y)
    model = make(bounds=(0.0, None)).fit(X, target)
    assert model.predict_quantiles(X, [1e-6]).min() >= 0
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


def test_targets_on_a_bound_get_mass_there() -> None:
    target = np.maximum(Y, 0.0)
    model = make(bounds=(0.0, None)).fit(X, target)
    law = model.predict_distribution(X)
    assert isinstance(law, Censored)
    assert law.cdf(np.zeros(60)).min() > 0
    assert np.isfinite(-law.log_prob(target).numpy()).all()
    covered = model.predict_interval(X, 0.9)
    zero = target == 0
    assert (covered[zero, 0] == 0).mean() > 0.5


def test_what_was_fitted_is_saved_not_what_was_set_later(tmp_path: Path) -> None:
    model = make().fit(X, Y)
    expected = model.predict_interval(X)
    model.set_params(hidden=(9,), distribution="moment_matched", bounds=(-0.1, 0.1))
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_interval(X), expected)
    assert again.hidden == (4,)


def test_a_seed_means_the_same_under_any_default_float_type() -> None:
    expected = make().fit(X, Y).predict_interval(X)
    torch.set_default_dtype(torch.float32)
    found = make().fit(X, Y).predict_interval(X)
    np.testing.assert_array_equal(found, expected)


def test_rows_of_the_map_have_no_say_in_the_strength(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    designs: list[Design] = []

    def kept(*given: Any, **options: Any) -> Design:
        designs.append(design_for(*given, **options))
        return designs[-1]

    monkeypatch.setattr("calibrant.estimators.regressor.design_for", kept)
    settings = CHEAP | {"strength": "auto", "strength_grid": (0.0, 5.0)}
    model = make(**settings, recalibrate_on="held_out").fit(X, Y)
    target = Y.copy()
    target[designs[0].calibration] += 3.0
    other = make(**settings, recalibrate_on="held_out").fit(X, target)
    np.testing.assert_array_equal(
        other.strength_path_.calibration_error, model.strength_path_.calibration_error
    )


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
    monkeypatch.setattr("calibrant.estimators.regressor._FEWEST_SMOOTH", fewest)
    model = make(recalibrate_on=strategy).fit(X, Y)
    assert type(model.model_.recalibrator) is RECALIBRATORS[expected]
    # New rows for the map: as many choose as well.
    again = model.refresh(X[:20], Y[:20])
    few = "beta" if fewest > 20 else "smooth"
    assert type(again.model_.recalibrator) is RECALIBRATORS[few]
    assert again.recalibrator == "auto"


def test_wrong_questions_are_one_clear_line() -> None:
    model = make().fit(X, Y)
    with pytest.raises(InputError, match="coverage must be one number"):
        model.predict_interval(X, [0.5, 0.9])  # type: ignore[arg-type]
    for size in (0, -1, (3, 2)):
        with pytest.raises(InputError, match="size must be a whole number"):
            model.sample(X, size)  # type: ignore[arg-type]


def test_laws_without_a_mean_are_chosen_by_their_likelihood() -> None:
    settings = CHEAP | {"strength": "auto", "strength_grid": (1.0,)}
    heavy = settings | {"head": "student_t", "target_transform": "log"}
    x, y = X[:16], np.exp(Y[:16])
    with pytest.raises(InputError, match='strength_rule="nll"'):
        make(**heavy).fit(x, y)
    model = make(**heavy, strength_rule="nll").fit(x, y)
    assert model.strength_ == 1.0
    assert np.isnan(model.strength_path_.crps).all()


class Dropping(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = nn.functional.dropout(x, 0.2, training=self.training)
        mean, spread = self.layer(kept).unbind(-1)
        return mean, nn.functional.softplus(spread) + 1e-3


def test_one_interrupt_is_enough_for_all_modules() -> None:
    seen: list[int] = []

    def stop(state: Any) -> None:
        seen.append(state.epoch)
        if len(seen) == 2:
            raise KeyboardInterrupt

    settings = CHEAP | {"epochs": 20, "members": 2, "patience": None}
    model = make(**settings, network=Dropping)
    with (
        pytest.warns(UserWarning, match="interrupted after 2 of 20"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X, Y, callbacks=[stop])
    assert seen == [1, 2, 1, 1, 1]
    assert np.isfinite(model.predict_interval(X)).all()


SHARED = {
    "learners": ("network",),
    "hidden": (128, 128),
    "head": "gaussian",
    "spread_floor": 0.1,
    "distribution": "moment_matched",
    "bins": 0,
    "clip_features": False,
    "target_transform": None,
    "bounds": None,
    "loss": "nll",
    "regularizer": "cumulative_kl",
    "conditional": (),
    "optimizer": "adam",
    "learning_rate": 1e-2,
    "weight_decay": 0.0,
    "schedule": "constant",
    "gradient_clip": None,
    "batch_size": 512,
    "epochs": 100,
    "patience": None,
    "recalibrator": None,
    "recalibrate_on": None,
}


PAPER = {
    "mc_dropout": {"members": 1, "dropout": 0.25, "passes": 10, "adversarial": 0.0},
    "deep_ensemble": {"members": 5, "adversarial": 0.01},
}


@pytest.mark.parametrize("network", PAPER)
def test_the_models_of_the_paper(network: Any) -> None:
    found = CalibratedRegressor.paper(network, sort="neural").settings()
    expected = SHARED | PAPER[network] | {"strength": 20.0, "sort": "neural"}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("network", ["mc_dropout", "deep_ensemble"])
def test_its_law_is_one_normal_law(network: str) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 3)) * [1, 100, 1e-3] + [0, 5, 9]
    y = 50 + 10 * random.standard_normal(40)
    model = CalibratedRegressor.paper(network, epochs=2, random_state=0).fit(x, y)  # type: ignore[arg-type]
    law = model.predict_distribution(x)
    assert isinstance(law, Gaussian)
    members = model.model_.members.networks
    # Standardized by the mean and the deviation with n in the denominator.
    np.testing.assert_allclose(members.target_center, y.mean())
    np.testing.assert_allclose(members.target_scale, y.std(ddof=0))
    stack: Any = members.networks[0].stack
    ready = ((members.conditioned(x) - stack.center[0]) / stack.scale[0]).double()
    torch.testing.assert_close(ready.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        ready.std(0, correction=0), torch.ones(3), atol=1e-5, rtol=0
    )
    # No member's law is narrower than the floor.
    assert law.stddev.min() >= 0.1 * y.std()


Make = Callable[..., CalibratedRegressor]

Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class TestConsistency:
    def test_one_map_corrects_the_pool_of_all_members(
        self, fitted: CalibratedRegressor, line: Rows
    ) -> None:
        x, y = line
        inner = fitted.model_
        recalibrator: Any = inner.recalibrator
        plain = inner.members.networks.distribution(x, range(4))
        found = fitted.predict_distribution(x).cdf(y)
        torch.testing.assert_close(found, recalibrator.transform(plain).cdf(y))
        assert (found - plain.cdf(y)).abs().max() > 0.01

    def test_interval(self, fitted: CalibratedRegressor, line: Rows) -> None:
        x = line[0][:7]
        law = fitted.predict_distribution(x)
        interval = fitted.predict_interval(x, coverage=0.8)
        assert interval.shape == (7, 2)
        for side, level in ((0, 0.1), (1, 0.9)):
            reached = law.cdf(interval[:, side])
            np.testing.assert_allclose(reached, level, atol=1e-6)
        assert (fitted.predict_interval(x)[:, 1] > interval[:, 1]).all()

    def test_samples_follow_the_law(
        self, fitted: CalibratedRegressor, line: Rows
    ) -> None:
        x = line[0][:5]
        draws = fitted.sample(x, 4000, random_state=1)
        assert draws.shape == (5, 4000)
        pit = fitted.predict_distribution(x).cdf(torch.from_numpy(draws.T))
        # The largest gap of 4000 uniform numbers stays below this with p = 1e-6.
        ordered = np.sort(pit.numpy(), axis=0)
        gap = np.abs(ordered - (np.arange(4000)[:, None] + 0.5) / 4000).max()
        assert gap < np.sqrt(np.log(2 / 1e-6) / 2 / 4000)


# Each check that is meant to fail, and why.
WEIGHTS = (
    "weights weight the score of a stochastic training; folds, batches and "
    "standardization count rows, so that a weight of 2 is not a row twice"
)

EXPECTED = {"check_sample_weight_equivalence_on_dense_data": WEIGHTS}

METHODS = ("predict", "predict_distribution", "predict_interval", "save")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks() -> None:
    model = CalibratedRegressor(
        learners=["network"],
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


def test_options_are_settings_too() -> None:
    model = CalibratedRegressor(options={"sort": "soft"})
    assert clone(model).get_params()["options"] == {"sort": "soft"}
    model.set_params(dropout=0.3, members=2)
    assert model.options == {"sort": "soft", "dropout": 0.3}
    settings = model.settings()
    assert (settings["dropout"], settings["members"]) == (0.3, 2)
    assert settings["passes"] == OPTIONS["passes"]
    assert not set(OPTIONS) & set(model.get_params())
    assert len(model.get_params()) <= 24
    for wrong in ({"drop": 0.3}, 3):
        with pytest.raises(InputError, match="options must be a mapping of the names"):
            CalibratedRegressor(options=wrong).fit(X, Y)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_an_unfitted_model_says_so(method: str, cheap: Make, line: Rows) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(cheap(), method)(line[0])


NETWORKS: list[dict[str, Any]] = [
    {"network": "deep_ensemble"},
    {"network": "mc_dropout", "passes": 2},
    {"network": Dropping},
]


@pytest.mark.parametrize("settings", NETWORKS)
def test_seeds(settings: dict[str, Any], cheap: Make, line: Rows) -> None:
    x, y = line
    first, again, other = (
        cheap(epochs=2, **settings, random_state=seed).fit(x, y).predict_interval(x)
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


@pytest.mark.parametrize("settings", NETWORKS)
def test_the_global_state_is_untouched(
    settings: dict[str, Any], cheap: Make, line: Rows
) -> None:
    x, y = line
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index] # noqa: NPY002
    plain = python_random.getstate()
    model = cheap(epochs=2, **settings).fit(x, y)
    model.sample(x, 3, random_state=0)
    model.predict_interval(x)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # type: ignore[index] # noqa: NPY002
    assert python_random.getstate() == plain


class Interrupting:
    """Press Ctrl-C after some epochs of a training."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.calls = 0

    def __call__(self, state: EpochState) -> None:
        self.calls += 1
        if state.epoch == self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("settings", NETWORKS)
def test_ctrl_c_leaves_a_usable_model(
    settings: dict[str, Any], cheap: Make, line: Rows
) -> None:
    x, y = line
    model = cheap(epochs=50, **settings)
    with (
        pytest.warns(InterruptedWarning, match="after 2 of 50 epochs"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(x, y, callbacks=[Interrupting(2)])
    assert all(history.interrupted for history in model.history_)
    assert np.isfinite(model.predict_interval(x)).all()


def test_ctrl_c_before_an_epoch_is_finished_leaves_no_model(
    cheap: Make, line: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("calibrant.training.loop.Trainer.epoch", stop)
    model = cheap()
    with pytest.warns(InterruptedWarning), pytest.raises(KeyboardInterrupt):
        model.fit(*line)
    assert not hasattr(model, "model_")


def test_a_callback_can_end_it(cheap: Make, line: Rows) -> None:
    model = cheap(epochs=9).fit(*line, callbacks=[lambda state: state.epoch == 3])
    assert len(model.history_[0].loss) == 3
    assert not model.history_[0].interrupted


Array = npt.NDArray[np.float64]

Rows = tuple[Array, Array]


@pytest.fixture(scope="module")
def shifted() -> Rows:
    """400 rows of the same line, 12 higher and noisier than in training."""
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (400, 2))
    return x, 32 + 5 * x[:, 0] + 2 * random.standard_normal(400)


def test_new_rows_mend_the_coverage_and_the_old_model_stays(
    fitted: CalibratedRegressor, shifted: Rows
) -> None:
    x, y = shifted
    before = fitted.predict_interval(x[200:], 0.8)
    refreshed = fitted.refresh(x[:200], y[:200])
    after = refreshed.predict_interval(x[200:], 0.8)
    held = [
        float(((y[200:] >= a[:, 0]) & (y[200:] <= a[:, 1])).mean())
        for a in (before, after)
    ]
    assert held[0] < 0.5
    assert 0.72 < held[1] < 0.88  # 0.8, up to 2.8 deviations of 200 rows
    assert np.array_equal(fitted.predict_interval(x[200:], 0.8), before)
    assert refreshed.model_.members is fitted.model_.members


def test_each_row_goes_by_its_own_fold(
    fitted: CalibratedRegressor, shifted: Rows
) -> None:
    x, y = shifted
    models = [fitted.refresh(x[:100], y[:100]), fitted.refresh(x[100:], y[100:])]
    fold = np.arange(400) % 2
    law = cross_fitted([model.predict_distribution(x) for model in models], fold)
    target = torch.from_numpy(y)
    for number, model in enumerate(models):
        own = torch.from_numpy(fold == number)
        expected = model.predict_distribution(x).cdf(target)[own]
        assert torch.allclose(law.cdf(target)[own], expected, rtol=1e-12)


def test_too_few_rows_and_no_recalibrator_are_refused(
    fitted: CalibratedRegressor, cheap: Make, line: Rows, shifted: Rows
) -> None:
    x, y = shifted
    with pytest.raises(InputError, match=r"at least 20 rows .* got 19"):
        fitted.refresh(x[:19], y[:19])
    plain = cheap(recalibrator=None, epochs=1).fit(*line)
    with pytest.raises(InputError, match="made without a recalibrator"):
        plain.refresh(x, y)
    assert plain.refresh(x, y, recalibrator="beta").recalibrator == "beta"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"recalibrate_on": "auto", "recalibrator": "auto"},
            "40 networks, 4 for each row that have not seen it; map beta, from 60 rows "
            "out of fold.",
        ),
        (
            {"recalibrate_on": "held_out", "recalibrator": RECALIBRATORS["beta"]()},
            "4 networks; map your own, from 12 rows that were held out.",
        ),
        (
            {"recalibrate_on": "train", "recalibrator": "smooth", "members": 1},
            "1 network; map smooth, from 60 rows that they learned from too.",
        ),
        ({"recalibrate_on": None, "recalibrator": None}, "4 networks; no map."),
    ],
)
def test_the_plan_says_what_was_chosen(settings: dict[str, Any], words: str) -> None:
    model = CalibratedRegressor(epochs=1, hidden=(4,), random_state=0, **settings)
    assert model.fit(X, Y).plan_ == words


@pytest.mark.parametrize(
    ("rows", "expected"), [(1, 120), (50_000, 120), (160_000, 37), (10_000_000, 24)]
)
def test_epochs_by_size(rows: int, expected: int) -> None:
    assert CalibratedRegressor().recipe(0.0, rows).epochs == expected
    assert CalibratedRegressor(epochs=7).recipe(0.0, rows).epochs == 7


def test_head_and_layers_by_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("calibrant.estimators.regressor._MOST_FOLDED", 59)
    model = CalibratedRegressor(epochs=2, random_state=0).fit(X, Y)
    assert model.plan_.startswith("6 networks (head gaussian_mixture); map")
    assert model.fitted_parameters_["hidden"] == (128, 128)
    assert (model.head, model.hidden) == ("auto", "auto")
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    few = CalibratedRegressor(epochs=2, random_state=0).fit(X[:50], Y[:50])
    assert few.fitted_parameters_["head"] == "gaussian"
    assert few.fitted_parameters_["hidden"] == (64, 64)
