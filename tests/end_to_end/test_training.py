"""Training with the regularizer calibrates held-out predictions; without, it does not.

The problem is misspecified: a network that predicts Gaussians meets few rows of skewed,
heteroscedastic noise, and over-fits.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant import (
    ConditionalRegularizer,
    QuantileRegularizer,
    calibration_error,
    expected_calibration_error,
)

SEEDS = range(6)
ROWS, HELD_OUT = 500, 4000


def make_data(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.rand(n, 4, generator=generator) * 2 - 1
    noise = torch.empty(n).exponential_(generator=generator) - 1
    return x, torch.sin(3 * x[:, 0]) + x[:, 1] + (0.2 + 0.4 * x[:, 2].abs()) * noise


def train(regularizer: nn.Module | None, seed: int) -> tuple[float, float]:
    """Held-out calibration error and NLL after training with the regularizer."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = make_data(ROWS, generator)
    network = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(300):
        rows = torch.randperm(ROWS, generator=generator)[:128]
        law = predict(network, x[rows])
        loss = -law.log_prob(y[rows]).mean()
        if regularizer is not None:
            loss = loss + regularizer(law, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x_test, y_test = make_data(HELD_OUT, torch.Generator().manual_seed(1000 + seed))
    with torch.no_grad():
        law = predict(network, x_test)
        nll = -law.log_prob(y_test).mean()
        return calibration_error(law.cdf(y_test)), float(nll)


def predict(network: nn.Module, x: Tensor) -> Normal:
    mean, raw = network(x).unbind(-1)
    return Normal(mean, 0.05 + nn.functional.softplus(raw))


@pytest.fixture(scope="module")
def base() -> list[float]:
    torch.set_default_dtype(torch.float64)
    return [train(None, seed)[0] for seed in SEEDS]


@pytest.mark.slow
@pytest.mark.parametrize(
    "regularizer",
    [
        QuantileRegularizer(),
        QuantileRegularizer("cramer_von_mises"),
        ConditionalRegularizer(groups=2),
    ],
    ids=["quantile", "cramer_von_mises", "conditional"],
)
def test_regularized_training_lowers_the_held_out_error(
    base: list[float], regularizer: nn.Module
) -> None:
    regularized = [train(regularizer, seed)[0] for seed in SEEDS]
    floor = expected_calibration_error(HELD_OUT)
    assert min(base) > 3 * floor  # there is something to mend
    better = [r < b for r, b in zip(regularized, base, strict=True)]
    assert sum(better) >= 5
    assert sum(regularized) < 0.6 * sum(base)
