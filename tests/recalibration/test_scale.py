"""One factor on the spread."""

import math
from typing import Literal

import pytest
import torch
from scipy import stats

from calibrant import (
    Empirical,
    Gaussian,
    GaussianMixture,
    InputError,
    Laplace,
    QuantileTable,
    StudentT,
)
from calibrant.distributions.base import AbstractDistribution
from calibrant.recalibration.base import stretched
from calibrant.recalibration.scale import ScaleRecalibrator

MEAN = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)
STEPS = torch.linspace(-2, 2, 9, dtype=torch.float64)
FAMILIES: list[AbstractDistribution] = [
    Gaussian(MEAN, 0.5),
    Laplace(MEAN, 0.5),
    StudentT(4.0, MEAN, 0.5),
    GaussianMixture(torch.stack([MEAN, MEAN + 2]), 0.5, [0.3, 0.7]),
    Empirical(MEAN + STEPS[:, None]),
    QuantileTable(STEPS.sigmoid(), MEAN[:, None] + STEPS),
]


def test_the_factor_of_a_normal_distribution_is_known(
    generator: torch.Generator,
) -> None:
    spread = 0.5 + torch.rand(100, generator=generator)
    y = 3 * spread * torch.randn(100, generator=generator)
    fitted = ScaleRecalibrator().fit((torch.zeros(100), spread), y)
    expected = (y / spread).square().mean().sqrt().item()
    assert fitted.factor == pytest.approx(expected, rel=1e-7)
    predictive = fitted.transform(([1.0], [2.0]))
    assert isinstance(predictive, Gaussian)
    torch.testing.assert_close(
        predictive.stddev, torch.tensor([2 * expected]), rtol=1e-7, atol=0
    )


@pytest.mark.parametrize("score", ["nll", "crps"])
@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_both_scores_find_the_factor(
    score: Literal["nll", "crps"], factor: float, generator: torch.Generator
) -> None:
    y = factor * torch.randn(4000, generator=generator)
    predictive = Laplace(torch.zeros(4000), 0.6)
    fitted = ScaleRecalibrator(score=score).fit(predictive, y)
    scores = [
        -stretched(predictive, fitted.factor * shift).log_prob(y).mean()
        if score == "nll"
        else stretched(predictive, fitted.factor * shift).crps(y).mean()
        for shift in (0.99, 1, 1.01)
    ]
    assert scores[1] < min(scores[0], scores[2])
    gaussian = ScaleRecalibrator(score=score).fit(Gaussian(torch.zeros(4000), 1.0), y)
    assert gaussian.factor == pytest.approx(factor, rel=0.05)


@pytest.mark.parametrize(
    "predictive", FAMILIES, ids=lambda predictive: type(predictive).__name__
)
def test_every_family_stays_and_is_stretched_around_its_center(
    predictive: AbstractDistribution,
) -> None:
    wide = stretched(predictive, 3.0)
    assert type(wide) is type(predictive)
    torch.testing.assert_close(wide.mean, predictive.mean)
    torch.testing.assert_close(wide.stddev, 3 * predictive.stddev)
    center = predictive.mean
    for level in (0.1, 0.6, 0.9):
        expected = center + 3 * (predictive.quantile(level) - center)
        torch.testing.assert_close(wide.quantile(level), expected)
    y = MEAN + 0.7
    inner = center + (y - center) / 3
    torch.testing.assert_close(wide.cdf(y), predictive.cdf(inner))
    torch.testing.assert_close(wide.crps(y), 3 * predictive.crps(inner))
    if not isinstance(predictive, Empirical):
        expected = predictive.log_prob(inner) - math.log(3)
        torch.testing.assert_close(wide.log_prob(y), expected)
        torch.testing.assert_close(
            wide.pit(y).log_survival, predictive.pit(inner).log_survival
        )


def test_foreign_distributions_are_stretched_too(generator: torch.Generator) -> None:
    shape = torch.tensor([2.0, 3.0, 4.0])
    predictive = stats.gamma(shape.numpy())
    y = torch.tensor([0.3, 6.0, 2.0])
    fitted = ScaleRecalibrator().fit(predictive, y)
    wide = fitted.transform(predictive)
    torch.testing.assert_close(wide.mean, shape)
    torch.testing.assert_close(wide.stddev, fitted.factor * shape.sqrt())
    again = stretched(wide, 2.0)
    torch.testing.assert_close(again.stddev, 2 * wide.stddev)
    torch.testing.assert_close(wide[1:].mean, shape[1:])
    draws = wide.sample((4000,), generator=generator)
    assert (draws.mean(0) - shape).abs().max() < 0.2


def test_rows_without_an_answer_are_refused() -> None:
    predictive = Gaussian([0.0, 1.0], 1.0)
    with pytest.raises(InputError, match=r"between 1/2981 and 2981.*targets are on"):
        ScaleRecalibrator().fit(predictive, [0.0, 1.0])
    with pytest.raises(InputError, match=r"targets are far off.*Check the units"):
        ScaleRecalibrator().fit(predictive, [1e6, -1e6])
    atom = QuantileTable([0.1, 0.9], [[2.0, 2.0]])
    with pytest.raises(InputError, match=r"mean nll .* must be finite, got -inf"):
        ScaleRecalibrator().fit(atom, [2.0])
    with pytest.raises(InputError, match="score must be 'nll' or 'crps', got 'rmse'"):
        ScaleRecalibrator(score="rmse")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="stretched around its center"):
        stretched(Gaussian(torch.tensor([math.nan]), torch.ones(1)), 2.0)
