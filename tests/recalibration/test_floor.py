"""Over-confident models on fresh data, before and after, against the noise floor."""

import pytest
import torch
from torch import Tensor

from calibrant import Gaussian
from calibrant.metrics import calibration_error, floor_after_recalibration
from calibrant.recalibration import RECALIBRATORS

REPEATS = 30
N_TEST = 1000


def narrow(n: int, generator: torch.Generator) -> tuple[Gaussian, Tensor]:
    """Half of the true spread, which differs from row to row."""
    mean = torch.randn(n, generator=generator)
    spread = 0.5 + torch.rand(n, generator=generator)
    y = mean + spread * torch.randn(n, generator=generator)
    return Gaussian(mean, 0.5 * spread), y


@pytest.mark.parametrize("n_fit", [20, 100, 1000])
@pytest.mark.parametrize("name", ["isotonic", "empirical", "smooth", "beta", "scale"])
def test_a_narrow_model_comes_down_to_the_floor(
    name: str, n_fit: int, generator: torch.Generator
) -> None:
    before, after = 0.0, 0.0
    for _ in range(REPEATS):
        recalibrator = RECALIBRATORS[name]().fit(*narrow(n_fit, generator))
        predictive, y = narrow(N_TEST, generator)
        before += calibration_error(predictive.cdf(y)) / REPEATS
        after += calibration_error(recalibrator.transform(predictive).cdf(y)) / REPEATS
    floor = floor_after_recalibration(N_TEST, n_fit)
    assert before > 0.1
    # Three parameters do not make one normal distribution of another, only nearly.
    limit = 2.5 if name == "beta" and n_fit == 1000 else 1.35
    assert after < limit * floor
    if name == "empirical":  # the floor is that of this map
        assert after > 0.65 * floor


def test_steps_in_the_density_cost_likelihood_and_smooth_maps_do_not(
    generator: torch.Generator,
) -> None:
    # The gap in which a fresh PIT value falls is twice the mean gap, and the mean
    # logarithm of that is 1 - 0.5772: what "empirical" and "isotonic" promise.
    costs = dict.fromkeys(["isotonic", "empirical", "smooth", "beta", "scale"], 0.0)
    for _ in range(REPEATS):
        held_out, fresh = narrow(500, generator), narrow(N_TEST, generator)
        truth = Gaussian(fresh[0].mean, 2 * fresh[0].stddev).log_prob(fresh[1]).mean()
        for name in costs:
            predictive = RECALIBRATORS[name]().fit(*held_out).transform(fresh[0])
            costs[name] += float(truth - predictive.log_prob(fresh[1]).mean()) / REPEATS
    assert 0.38 < costs["empirical"] < 0.5
    assert 0.38 < costs["isotonic"] < 0.55
    assert costs["smooth"] < 0.03
    assert costs["beta"] < 0.04
    assert costs["scale"] < 0.01
