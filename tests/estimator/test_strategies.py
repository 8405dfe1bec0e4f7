"""Every network, head, kind of law and strategy; transforms and bounds of targets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant._checks import InputError
from calibrant.distributions.gaussian import Gaussian
from calibrant.distributions.mixture import Mixture
from calibrant.distributions.transformed import Transformed
from calibrant.estimator import CalibratedRegressor
from calibrant.estimator._settings import recipe_of
from calibrant.networks import HEADS
from calibrant.networks.heads import GaussianMixtureHead
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.empirical import EmpiricalRecalibrator
from calibrant.transforms import from_functions

Make = Callable[..., CalibratedRegressor]
Array = npt.NDArray[np.float64]
Rows = tuple[Array, Array]


class Net(nn.Module):
    """A small network whose prediction is a law of torch, or a pair."""

    def __init__(self, features: int, *, pair: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)
        )
        self.pair = pair

    def forward(self, x: Tensor) -> Normal | tuple[Tensor, Tensor]:
        mean, raw = self.layers(x).unbind(-1)
        spread = nn.functional.softplus(raw) + 1e-3
        return (mean, spread) if self.pair else Normal(mean, spread)


def torch_law(features: int) -> nn.Module:
    return Net(features, pair=False)


def pair(features: int) -> nn.Module:
    return Net(features, pair=True)


NETWORKS: dict[str, dict[str, Any]] = {
    "deep_ensemble": {"network": "deep_ensemble"},
    "mc_dropout": {"network": "mc_dropout", "passes": 2},
    "torch law": {"network": torch_law},
    "pair": {"network": pair},
}
STRATEGIES: dict[str | None, dict[str, Any]] = {
    None: {},
    "train": {},
    "held_out": {},
    "cross_fit": {},
    "out_of_bag": {"members": 6, "held_out_share": 0.5},
}


def check(model: CalibratedRegressor, x: Array, y: Array) -> None:
    """Look whether a model is a usable one."""
    law = model.predict_distribution(x)
    assert law.batch_shape == (len(x),)
    interval = model.predict_interval(x, 0.8)
    assert np.isfinite(interval).all()
    assert (interval[:, 0] < interval[:, 1]).all()
    assert law.log_prob(y).isfinite().all()
    levels = law.cdf(interval[:, 1])
    torch.testing.assert_close(levels, torch.full_like(levels, 0.9), atol=1e-3, rtol=0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_networks(network: str, strategy: str | None, cheap: Make, line: Rows) -> None:
    settings = NETWORKS[network] | STRATEGIES[strategy]
    model = cheap(epochs=1, recalibrate_on=strategy, **settings).fit(*line)
    check(model, line[0][:9], line[1][:9])
    learned = [each is not None for each in model.model_.recalibrators]
    folds = 2 if strategy == "cross_fit" else 1
    assert learned == [strategy is not None] * folds


@pytest.mark.parametrize("kind", ["mixture", "moment_matched"])
@pytest.mark.parametrize("head", HEADS)
def test_heads(head: str, kind: str, cheap: Make, line: Rows) -> None:
    model = cheap(epochs=1, head=head, law=kind, recalibrate_on=None).fit(*line)
    check(model, *line)
    law = model.predict_distribution(line[0])
    if kind == "moment_matched":
        assert isinstance(law, Gaussian)
        model.law = "mixture"
        plain = cheap(epochs=1, head=head, recalibrate_on=None).fit(*line)
        mixture = plain.predict_distribution(line[0])
        torch.testing.assert_close(law.mean, mixture.mean)
        torch.testing.assert_close(law.stddev, mixture.stddev)


@pytest.mark.parametrize("recalibrator", [*sorted(RECALIBRATORS), None])
def test_recalibrators(recalibrator: str | None, cheap: Make, line: Rows) -> None:
    model = cheap(epochs=1, recalibrator=recalibrator, recalibrate_on="held_out")
    if recalibrator == "conformal_interval":
        with pytest.raises(InputError, match=r'Use "empirical" \(the same guarantee'):
            model.fit(*line)
        return
    model.fit(*line)
    check(model, *line)
    # Without a map no row is held back for one.
    held_out = 0 if recalibrator is None else 12
    assert len(model.model_.units[0].calibration) == held_out


def test_a_recalibrator_of_ones_own_is_not_touched(cheap: Make, line: Rows) -> None:
    own = EmpiricalRecalibrator()
    model = cheap(epochs=1, recalibrator=own).fit(*line)
    maps = model.model_.recalibrators
    assert all(isinstance(each, EmpiricalRecalibrator) for each in maps)
    assert maps[0] is not maps[1]
    assert "unfitted" in repr(own)


@pytest.mark.parametrize(
    "settings",
    [
        {"head": GaussianMixtureHead(components=2)},
        {"loss": "crps"},
        {"loss": "beta_nll"},
        {"regularizer": "cramer_von_mises"},
        {"conditional": ("spread",)},
        {"optimizer": "adamw", "weight_decay": 1e-3, "schedule": "constant"},
        {"gradient_clip": None, "patience": None},
        {"adversarial": 0.01},
        {"device": "cpu"},
    ],
)
def test_other_settings(settings: dict[str, Any], cheap: Make, line: Rows) -> None:
    check(cheap(epochs=1, **settings).fit(*line), line[0][:9], line[1][:9])


def test_weights_pull_the_mean(cheap: Make) -> None:
    x = np.random.default_rng(0).standard_normal((80, 1))
    y = np.repeat([0.0, 1.0], 40) + 0.01 * x[:, 0]
    means = []
    for weights in (None, np.repeat([1e300, 0.0], 40), np.repeat([0.0, 5.0], 40)):
        model = cheap(epochs=60, patience=None, recalibrate_on=None, strength=0)
        means.append(model.fit(x, y, weights).predict(x).mean())
    assert means[1] < 0.2 < means[0] < 0.8 < means[2]


def asinh(y: Tensor) -> Tensor:
    return y.asinh()


def asinh_slope(y: Tensor) -> Tensor:
    return -torch.hypot(y, torch.ones_like(y)).log()


TRANSFORMS: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    "log": ("log", np.log),
    "box_cox": ("box_cox", lambda y: y),
    "yeo_johnson": ("yeo_johnson", lambda y: y),
    "logit": ("logit", lambda y: np.log(y / (1 - y))),
    "own": (from_functions(asinh, torch.sinh, asinh_slope), np.arcsinh),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_likelihood_is_that_of_the_target(name: str, cheap: Make) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (60, 1))
    y = 1 / (1 + np.exp(-x[:, 0] - 0.3 * random.standard_normal(60)))
    transform, image = TRANSFORMS[name]
    model = cheap(epochs=2, target_transform=transform, recalibrate_on=None).fit(x, y)
    law = model.predict_distribution(x)
    assert isinstance(law, Transformed)
    if name in ("log", "logit", "own"):
        z = image(y)
        np.testing.assert_allclose(model.model_.members.target_center, z.mean())
        # d/dy of the image, by differences.
        step = 1e-6
        slope = (image(y + step) - image(y - step)) / (2 * step)
    else:
        target = torch.from_numpy(y)
        z = law.transform.forward(target).numpy()
        step = 1e-6
        slope = (
            (
                law.transform.forward(target + step)
                - law.transform.forward(target - step)
            )
            / (2 * step)
        ).numpy()
    expected = law.base.log_prob(z) + torch.from_numpy(np.log(slope))
    torch.testing.assert_close(law.log_prob(y), expected, atol=1e-6, rtol=1e-6)
    # And it is a density: it integrates to 1.
    places = torch.linspace(1e-4, 1 - 1e-4, 4001)[:, None].expand(-1, 5)
    if name == "logit":
        total = law[:5].log_prob(places).exp().sum(0) * places.diff(dim=0)[0]
        torch.testing.assert_close(total, torch.ones(5), atol=2e-3, rtol=0)


def test_members_with_transforms_of_their_own(cheap: Make) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (60, 1))
    y = np.exp(x[:, 0] + 0.3 * random.standard_normal(60))
    model = cheap(
        epochs=1,
        target_transform="box_cox",
        recalibrate_on="out_of_bag",
        members=6,
        held_out_share=0.5,
    ).fit(x, y)
    members = model.model_.members
    law = members.law(x, range(6))
    assert isinstance(law, Mixture)
    each = torch.stack([members.law(x, [member]).cdf(y) for member in range(6)])
    torch.testing.assert_close(law.cdf(y), each.mean(0))
    # With weights of its own for each row, and a row that one does not speak for.
    weights = torch.rand(6, 60)
    weights[2, :30] = 0
    weights /= weights.sum(0)
    torch.testing.assert_close(
        members.law(x, range(6), weights).cdf(y), (weights * each).sum(0)
    )


def test_a_stack_takes_weights(cheap: Make, line: Rows) -> None:
    members = cheap(epochs=1, network="mc_dropout", passes=3).fit(*line).model_.members
    x, y = line
    each = torch.stack([members.law(x, [member]).cdf(y) for member in range(4)])
    weights = torch.rand(4, 60)
    weights /= weights.sum(0)
    torch.testing.assert_close(
        members.law(x, range(4), weights).cdf(y), (weights * each).sum(0)
    )
    torch.testing.assert_close(members.law(x, [3, 1]).cdf(y), (each[3] + each[1]) / 2)


class TestBounds:
    @pytest.fixture
    def capped(self) -> Rows:
        random = np.random.default_rng(0)
        x = random.uniform(-1, 1, (80, 1))
        return x, (x[:, 0] + 0.5 * random.standard_normal(80)).clip(0, 1)

    @pytest.mark.parametrize("strategy", [None, "cross_fit", "held_out"])
    def test_no_mass_lies_outside(
        self, strategy: str | None, cheap: Make, capped: Rows
    ) -> None:
        x, y = capped
        model = cheap(bounds=(0, 1), recalibrate_on=strategy).fit(x, y)
        law = model.predict_distribution(x)
        assert (law.cdf(-1e-9) == 0).all()
        assert (law.cdf(1.0) == 1).all()
        assert law.log_prob(y).isfinite().all()
        assert (law.log_prob(1.001) == -torch.inf).all()
        ends = model.predict_quantiles(x, [0.0, 0.001, 0.999, 1.0])
        assert ends.min() >= 0
        assert ends.max() <= 1

    def test_one_bound(self, cheap: Make, capped: Rows) -> None:
        x, y = capped
        law = cheap(bounds=(0, np.inf), epochs=1).fit(x, y).predict_distribution(x)
        assert (law.cdf(-1e-9) == 0).all()
        assert (law.cdf(1.0) < 1).all()

    @pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0,), 3, (0, np.nan)])
    def test_bounds_that_are_none(self, bounds: Any, cheap: Make, capped: Rows) -> None:
        with pytest.raises(InputError, match=r"bounds must be \(low, high\)"):
            cheap(bounds=bounds).fit(*capped)

    def test_targets_outside(self, cheap: Make, capped: Rows) -> None:
        with pytest.raises(InputError, match=r"within bounds=\(0, 0.5\).*Widen"):
            cheap(bounds=(0, 0.5)).fit(*capped)

    def test_targets_on_a_bound_of_a_transform(self, cheap: Make, capped: Rows) -> None:
        with pytest.raises(InputError, match=r"use bounds=\(low, high\)"):
            cheap(target_transform="logit").fit(*capped)


def test_rounded_targets_do_not_fool_the_map(cheap: Make) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (300, 1))
    y = (x[:, 0] + random.standard_normal(300)).round()
    settings = {"recalibrate_on": "held_out", "held_out_share": 0.5}
    model = cheap(recalibrator="empirical", epochs=20, **settings).fit(x, y)
    # Plain PIT values of five numbers would make a staircase of the map.
    levels = torch.linspace(0.05, 0.95, 50)
    steps = model.model_.recalibrators[0].apply(levels).diff()  # type: ignore[union-attr]
    assert steps.max() < 0.1
    check(model, x, y)


def test_one_module_for_two_members_is_refused(cheap: Make, line: Rows) -> None:
    only = torch_law(2)
    with pytest.raises(InputError, match="a new module at each call"):
        cheap(network=lambda _: only).fit(*line)


@pytest.mark.parametrize(
    ("rows", "expected"), [(2, 32), (1000, 32), (2048, 64), (9000, 256), (10**6, 512)]
)
def test_the_automatic_batch_size(rows: int, expected: int) -> None:
    assert recipe_of(CalibratedRegressor(batch_size="auto"), 0.0, rows).batch_size == (
        expected
    )
    assert recipe_of(CalibratedRegressor(batch_size=7), 0.0, rows).batch_size == 7
