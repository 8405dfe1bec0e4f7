"""The preset has the paper's settings, whatever the defaults are."""

from typing import Any

import numpy as np
import pytest
import torch

from calibrant._checks import InputError
from calibrant.distributions.normal import Gaussian
from calibrant.estimators import CalibratedRegressor

SHARED = {
    "hidden": (128, 128),
    "head": "gaussian",
    "spread_floor": 0.1,
    "law": "moment_matched",
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


def test_mc_dropout() -> None:
    parameters = CalibratedRegressor.paper("mc_dropout").get_params()
    own = {"network": "mc_dropout", "dropout": 0.25, "passes": 10, "members": 1}
    expected = SHARED | own | {"strength": 20.0, "adversarial": 0.0}
    assert {name: parameters[name] for name in expected} == expected


def test_deep_ensemble() -> None:
    parameters = CalibratedRegressor.paper("deep_ensemble", strength=0).get_params()
    own = {"network": "deep_ensemble", "members": 5, "adversarial": 0.01}
    expected = SHARED | own | {"strength": 0}
    assert {name: parameters[name] for name in expected} == expected


def test_changes_win() -> None:
    model = CalibratedRegressor.paper(
        recalibrator="isotonic", recalibrate_on="train", sort="neural", epochs=3
    )
    assert (model.recalibrator, model.recalibrate_on) == ("isotonic", "train")
    assert (model.sort, model.epochs) == ("neural", 3)


def test_another_network_is_refused() -> None:
    with pytest.raises(InputError, match=r"the paper has .* got 'swag'"):
        CalibratedRegressor.paper("swag")  # type: ignore[arg-type]


@pytest.mark.parametrize("network", ["mc_dropout", "deep_ensemble"])
def test_its_law_is_one_normal_law(network: str) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 3)) * [1, 100, 1e-3] + [0, 5, 9]
    y = 50 + 10 * random.standard_normal(40)
    model = CalibratedRegressor.paper(network, epochs=2, random_state=0).fit(x, y)  # type: ignore[arg-type]
    law = model.predict_distribution(x)
    assert isinstance(law, Gaussian)
    members = model.model_.members
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


def test_the_isotonic_comparison_learns_from_the_training_rows() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 3))
    y = random.standard_normal(40)
    model = CalibratedRegressor.paper(
        recalibrator="isotonic", recalibrate_on="train", epochs=2, random_state=0
    ).fit(x, y)
    pit = model.predict_distribution(x).cdf(y).sort().values
    # The map of a law's own training rows makes them as good as uniform.
    assert (pit - (torch.arange(40) + 0.5) / 40).abs().max() < 0.05
