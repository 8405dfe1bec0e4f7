"""Distributions with mass on their bounds, against closed forms and samples."""

import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from calibrant import Gaussian, InputError, Mixture
from calibrant.distributions import (
    AbstractDistribution,
    Censored,
    Empirical,
    QuantileTable,
    Recalibrated,
    Transformed,
    Truncated,
)
from calibrant.distributions.conversion import rescaled
from calibrant.metrics import pit_values
from calibrant.metrics.pit import GriddedTargetWarning
from calibrant.recalibration.maps import BetaMap
from calibrant.transforms import TRANSFORMS

MEAN = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)
PREDICTIVE = Censored(Gaussian(MEAN, 1.0), -0.5, 2.0)


def test_moments_are_those_of_recorded_values() -> None:
    z = torch.distributions.Normal(0.0, 1.0)
    low, high = -0.5 - MEAN, 2.0 - MEAN
    first = (
        -0.5 * z.cdf(low)
        + 2.0 * (1 - z.cdf(high))
        + MEAN * (z.cdf(high) - z.cdf(low))
        + z.log_prob(low).exp()
        - z.log_prob(high).exp()
    )
    torch.testing.assert_close(PREDICTIVE.mean, first, atol=1e-7, rtol=0)
    draws = PREDICTIVE.sample((200_000,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(PREDICTIVE.stddev, draws.std(0), atol=5e-3, rtol=0)
    assert draws.min() == -0.5
    assert draws.max() == 2.0


def test_the_cdf_jumps_at_the_bounds() -> None:
    assert PREDICTIVE.cdf(torch.full((3,), -0.6)).tolist() == [0.0] * 3
    assert PREDICTIVE.survival(torch.full((3,), 2.0)).tolist() == [0.0] * 3
    assert PREDICTIVE.cdf(torch.full((3,), 2.0)).tolist() == [1.0] * 3
    y = torch.full((3,), 0.4)
    torch.testing.assert_close(PREDICTIVE.cdf(y), Gaussian(MEAN, 1.0).cdf(y))
    torch.testing.assert_close(
        PREDICTIVE.cdf(y) + PREDICTIVE.survival(y), torch.ones(3)
    )
    for value in (-1.0, -0.5, 0.4, 2.0, 3.0):
        y = torch.full((3,), value)
        pit = PREDICTIVE.pit(y)
        torch.testing.assert_close(pit.cdf, PREDICTIVE.cdf(y))
        torch.testing.assert_close(pit.log_survival.exp(), PREDICTIVE.survival(y))


def test_a_bound_has_a_probability_and_the_rest_a_density() -> None:
    known = stats.norm(MEAN.numpy())
    at_low = PREDICTIVE.log_prob(torch.full((3,), -0.5))
    torch.testing.assert_close(at_low, torch.from_numpy(known.logcdf(-0.5)))
    at_high = PREDICTIVE.log_prob(torch.full((3,), 2.0))
    torch.testing.assert_close(at_high, torch.from_numpy(known.logsf(2.0)))
    inside = PREDICTIVE.log_prob(torch.full((3,), 1.0))
    torch.testing.assert_close(inside, torch.from_numpy(known.logpdf(1.0)))
    assert PREDICTIVE.log_prob(torch.full((3,), 2.1)).tolist() == [-torch.inf] * 3


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, 0.0), ([0.0, 1.0], 2.0)])
def test_bounds_are_two_ordered_numbers(bounds: tuple[object, float]) -> None:
    with pytest.raises(InputError, match=r"low must be (below high|a number)"):
        Censored(Gaussian(MEAN, 1.0), *bounds)  # type: ignore[arg-type]


#: Distributions that are built on one with mass on its bounds, or on one bound.
BUILT: dict[str, Callable[[Gaussian, float, float], AbstractDistribution]] = {
    "censored": Censored,
    "recalibrated": lambda base, low, high: Recalibrated(
        Censored(base, low, high), BetaMap(0.8, 1.3, 0.2)
    ),
    "rescaled": lambda base, low, high: rescaled(Censored(base, low, high), 0.1, 0.3),
    "mixture": lambda base, low, high: Mixture(
        [Censored(base, low, high), Censored(Gaussian(base.mean + 1, 0.5), low, high)],
        [0.3, 0.7],
    ),
    "mixture with a density": lambda base, low, high: Mixture(
        [Censored(base, low, high), base], [0.3, 0.7]
    ),
    "transformed": lambda base, low, high: Transformed(
        Censored(base, low, high), TRANSFORMS["log"]()
    ),
    "truncated": lambda base, low, high: Truncated(
        Censored(base, low, high), low - 0.5, high + 0.5
    ),
}
BOUNDS = {"below": (-0.7, np.inf), "above": (-np.inf, 0.9), "both": (-0.7, 0.9)}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS.keys())
@pytest.mark.parametrize("build", BUILT.values(), ids=BUILT.keys())
def test_total_mass_of_densities_and_atoms_is_one(
    build: Callable[..., AbstractDistribution], bounds: tuple[float, float]
) -> None:
    predictive = build(Gaussian([0.2], 1.0), *bounds)
    atoms = predictive._atoms()
    assert atoms is not None
    atoms = atoms.unique()[:, None]
    mass = predictive.log_prob(atoms).exp().sum()
    torch.testing.assert_close(
        mass,
        (predictive.cdf(atoms) - predictive.cdf_before(atoms)).sum(),
        atol=1e-9,
        rtol=0,
    )
    # The rest is a density: by quadrature on panels that end at the atoms.
    tails = [predictive.quantile(1e-9)[None], predictive.quantile(1 - 1e-9)[None]]
    ends = torch.cat([atoms, *tails]).flatten().sort().values.unique()
    nodes, weights = np.polynomial.legendre.leggauss(400)
    for low, high in pairwise(ends):
        at = low + (high - low) * (torch.from_numpy(nodes) + 1) / 2
        density = predictive.log_prob(at[:, None]).exp()[:, 0]
        mass += (torch.from_numpy(weights) * density).sum() * (high - low) / 2
    assert float(mass) == pytest.approx(1.0, abs=1e-4)


TRUE = BUILT | {
    "samples": lambda base, low, high: Empirical(
        Censored(base, low, high).sample(
            (200,), generator=torch.Generator().manual_seed(1)
        )
    ),
    "quantile table": lambda base, low, high: QuantileTable(
        np.linspace(0.02, 0.98, 25),
        Censored(base, low, high).quantiles(np.linspace(0.02, 0.98, 25)),
    ),
}


@pytest.mark.parametrize(
    "bounds", [*BOUNDS.values(), (-3.5, 3.5)], ids=[*BOUNDS, "rarely"]
)
@pytest.mark.parametrize("name", TRUE)
def test_a_true_model_with_atoms_is_called_calibrated(
    name: str, bounds: tuple[float, float], generator: torch.Generator
) -> None:
    base = Gaussian(torch.randn(1000, generator=generator), 1.0)
    predictive = TRUE[name](base, *bounds)
    # Targets for samples come from what these were drawn from.
    true = Censored(base, *bounds) if name == "samples" else predictive
    y = true.sample(generator=generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GriddedTargetWarning)
        assert stats.kstest(pit_values(predictive, y), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("bound", [0.1, 0.7])  # above and below its float32
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("asked", [torch.float32, torch.float64])
def test_a_bound_is_itself_in_every_float_type(
    bound: float, dtype: torch.dtype, asked: torch.dtype
) -> None:
    base = Gaussian(torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype))
    y = torch.tensor([bound], dtype=asked)
    known = stats.norm()
    low, high = Censored(base, bound), Censored(base, high=bound)
    assert low.cdf(y).item() == pytest.approx(known.cdf(bound), rel=1e-5)
    assert low.log_prob(y).item() == pytest.approx(known.logcdf(bound), rel=1e-5)
    assert high.cdf(y).item() == 1.0
    assert high.log_prob(y).item() == pytest.approx(known.logsf(bound), rel=1e-5)
    own = low.quantile(0.1).double()
    assert low.log_prob(own).item() == pytest.approx(known.logcdf(bound), rel=1e-5)
    for inside in (Truncated(base, bound), Truncated(base, high=bound)):
        assert inside.log_prob(y).isfinite().all()


@pytest.mark.parametrize("build", [Truncated, Censored])
def test_a_diverged_model_says_nan(
    build: Callable[..., AbstractDistribution],
) -> None:
    mean = torch.tensor([torch.nan, 0.2], dtype=torch.float64)
    predictive = build(Gaussian(mean, 1.0), 0.0, 1.0)
    for value in (-0.5, 0.0, 0.5, 1.0, 1.5):
        y = torch.full((2,), value, dtype=torch.float64)
        answers = [
            *predictive.pit(y),
            predictive.cdf(y),
            predictive.survival(y),
            predictive.log_prob(y),
        ]
        assert all(answer[0].isnan() for answer in answers)
        assert not any(answer[1].isnan() for answer in answers)
    answers = [
        predictive.quantile(0.3),
        *predictive.interval(0.8),
        predictive.mean,
        predictive.variance,
    ]
    assert all(answer[0].isnan() and answer[1].isfinite() for answer in answers)
