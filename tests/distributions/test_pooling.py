"""Pooling of members and rescaling of distributions, against their definitions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant import (
    Empirical,
    Gaussian,
    GaussianMixture,
    InputError,
    Laplace,
    Mixture,
    QuantileTable,
    StudentT,
    as_distribution,
)
from calibrant.distributions import AbstractDistribution, pool, rescaled
from calibrant.recalibration import RECALIBRATORS

double = partial(torch.tensor, dtype=torch.float64)
LOCATION = double([[0.0, 1.0, -2.0], [0.5, 3.0, -2.0]])
SCALE = double([[1.0, 2.0, 0.5], [0.7, 1.0, 0.9]])
WEIGHTS = double([[0.3, 1.0, 0.5], [0.7, 0.0, 0.5]])
Y = double([0.4, 2.0, -2.5])
STEPS = double([-1.0, 0.0, 0.3, 2.0])


def learned() -> Any:
    return RECALIBRATORS["isotonic"]().fit_pit([0.05, 0.3, 0.4, 0.7, 0.97])


def normal_mixture() -> GaussianMixture:
    means = torch.stack([LOCATION, LOCATION + 1, LOCATION - 3])
    return GaussianMixture(
        means, torch.stack([SCALE, SCALE / 2, SCALE]), [0.5, 0.2, 0.3]
    )


PREDICTIVES: dict[str, Callable[[], AbstractDistribution]] = {
    "gaussian": lambda: Gaussian(LOCATION, SCALE),
    "laplace": lambda: Laplace(LOCATION, SCALE),
    "student_t": lambda: StudentT(4.0, LOCATION, SCALE),
    "gaussian_mixture": normal_mixture,
    "mixture": lambda: Mixture(
        [normal_mixture(), Laplace(LOCATION, SCALE)], [0.4, 0.6]
    ),
    "recalibrated": lambda: learned().transform(Gaussian(LOCATION, SCALE)),
    "empirical": lambda: Empirical(LOCATION + SCALE * STEPS[:, None, None]),
    "quantile_table": lambda: QuantileTable(
        [0.1, 0.4, 0.6, 0.9], LOCATION[..., None] + STEPS
    ),
    "torch": lambda: as_distribution(torch.distributions.Gumbel(LOCATION, SCALE)),
    "scipy": lambda: as_distribution(stats.logistic(LOCATION.numpy(), SCALE.numpy())),
    "affine": lambda: rescaled(
        as_distribution(torch.distributions.Gumbel(LOCATION, SCALE)), 0.3, 2.0
    ),
}


@pytest.mark.parametrize("name", PREDICTIVES)
@pytest.mark.parametrize("weights", [None, [0.25, 0.75], WEIGHTS], ids=str)
def test_pool_is_the_weighted_mean_of_the_members_cdfs(
    name: str, weights: list[float] | Tensor | None
) -> None:
    predictive = PREDICTIVES[name]()
    pooled = pool(predictive, weights)
    given = double([0.5, 0.5]) if weights is None else torch.as_tensor(weights)
    each = given if given.ndim == 2 else given[:, None].expand(2, 3)
    assert pooled.batch_shape == (3,)
    torch.testing.assert_close(pooled.cdf(Y), (each * predictive.cdf(Y)).sum(0))
    torch.testing.assert_close(pooled.mean, (each * predictive.mean).sum(0))
    second = predictive.variance + predictive.mean.square()
    expected = (each * second).sum(0) - pooled.mean.square()
    torch.testing.assert_close(pooled.variance, expected)


@pytest.mark.parametrize(
    ("predictive", "members"),
    [
        (Gaussian(LOCATION, SCALE), 2),
        (normal_mixture(), 6),
    ],
    ids=["gaussian", "gaussian_mixture"],
)
def test_normal_members_stay_normal(
    predictive: AbstractDistribution, members: int
) -> None:
    pooled = pool(predictive, WEIGHTS)
    assert type(pooled) is GaussianMixture
    assert pooled.means.shape == (members, 3)
    expected = Mixture(
        [predictive[torch.tensor(0)], predictive[torch.tensor(1)]], WEIGHTS
    )
    torch.testing.assert_close(pooled.cdf(Y), expected.cdf(Y))
    torch.testing.assert_close(pooled.crps(Y), expected.crps(Y), rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(pooled.quantile(0.2), expected.quantile(0.2))


def test_pool_says_what_it_needs() -> None:
    with pytest.raises(
        InputError, match=r"\(members, \*batch\).*Mixture\(components\)"
    ):
        pool(Gaussian(0.0, 1.0))
    with pytest.raises(InputError, match="sum to 1"):
        pool(Gaussian(LOCATION, SCALE), [0.5, 0.6])
    with pytest.raises(InputError, match=r"weights must have shape \(2,\)"):
        pool(Gaussian(LOCATION, SCALE), [0.2, 0.3, 0.5])


@pytest.mark.parametrize("name", PREDICTIVES)
@pytest.mark.parametrize(
    ("center", "scale"),
    [(3.0, 0.25), (double([[10.0], [-5.0]]), double([[2.0], [0.1]]))],
    ids=["numbers", "members"],
)
def test_rescaled_is_the_distribution_of_center_plus_scale_times(
    name: str, center: float | Tensor, scale: float | Tensor
) -> None:
    predictive = PREDICTIVES[name]()
    moved = rescaled(predictive, center, scale)
    assert moved.batch_shape == (2, 3)
    torch.testing.assert_close(moved.mean, center + scale * predictive.mean)
    torch.testing.assert_close(moved.stddev, scale * predictive.stddev)
    y = center + scale * Y.expand(2, 3)
    inside = (y - center) / scale  # the same roundings, for the steps of samples
    for mine, theirs in zip(moved.pit(y), predictive.pit(inside), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(moved.survival(y), predictive.survival(inside))
    torch.testing.assert_close(moved.cdf(y), predictive.cdf(inside))
    torch.testing.assert_close(moved.crps(y), scale * predictive.crps(inside))
    for level in (0.03, 0.77):
        expected = center + scale * predictive.quantile(level)
        torch.testing.assert_close(moved.quantile(level), expected)
    torch.testing.assert_close(
        moved._upper_quantile(double(1e-12)),
        center + scale * predictive._upper_quantile(double(1e-12)),
    )
    if name != "empirical":
        log_scale = torch.as_tensor(scale).log()
        expected = predictive.log_prob(inside) - log_scale
        torch.testing.assert_close(moved.log_prob(y), expected)


@pytest.mark.parametrize(
    "name", [name for name in PREDICTIVES if name not in ("scipy", "affine")]
)
def test_large_targets_keep_their_digits(name: str) -> None:
    narrow = {
        "gaussian": Gaussian(LOCATION.float(), SCALE.float()),
        "laplace": Laplace(LOCATION.float(), SCALE.float()),
        "student_t": StudentT(4.0, LOCATION.float(), SCALE.float()),
        "gaussian_mixture": GaussianMixture(
            LOCATION.float()[None], SCALE.float()[None]
        ),
        "mixture": Mixture([Gaussian(LOCATION.float(), SCALE.float())]),
        "recalibrated": learned().transform(Gaussian(LOCATION.float(), SCALE.float())),
        "empirical": Empirical(LOCATION.float() + STEPS.float()[:, None, None]),
        "quantile_table": QuantileTable(
            torch.tensor([0.1, 0.4, 0.6, 0.9], dtype=torch.float32),
            LOCATION.float()[..., None] + STEPS.float(),
        ),
        "torch": as_distribution(
            torch.distributions.Gumbel(LOCATION.float(), SCALE.float())
        ),
    }[name]
    center = double([[1e9], [1e9 + 1]])
    predictive = rescaled(narrow, center, double([[1.0], [1.0]]))
    assert predictive.dtype == predictive.mean.dtype == torch.float64
    torch.testing.assert_close(
        predictive.mean - center, narrow.mean.double(), rtol=0, atol=1e-5
    )
    offset = predictive.quantile(double(0.3)) - center
    torch.testing.assert_close(
        offset, narrow.quantile(double(0.3)).double(), rtol=0, atol=1e-5
    )


def test_rescaled_says_what_it_needs() -> None:
    predictive = Gaussian(LOCATION, SCALE)
    with pytest.raises(InputError, match="scale must be above 0"):
        rescaled(predictive, 0.0, 0.0)
    with pytest.raises(InputError, match=r"center must be a number.*center\[:, None\]"):
        rescaled(predictive, double([1.0, 2.0]), 1.0)
    with pytest.raises(InputError, match="scale must be a number or broadcast"):
        rescaled(predictive, 0.0, torch.ones(4, 2, 3))
