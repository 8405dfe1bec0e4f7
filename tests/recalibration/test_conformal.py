"""Intervals with a guarantee, in simulation."""

import math
from typing import Literal

import pytest
import torch
from torch import Tensor

from calibrant import Empirical, Gaussian, InputError, QuantileTable, as_distribution
from calibrant.distributions.base import AbstractDistribution
from calibrant.recalibration.conformal import ConformalInterval

Score = Literal["auto", "normalized", "absolute", "quantile"]
REPEATS = 400
STEPS = torch.tensor([-1.0, -0.3, 0.0, 0.5, 1.2], dtype=torch.float64)


def rows(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs and targets whose noise grows with the input and is skewed."""
    x = torch.rand(n, generator=generator)
    return x, x - (0.2 + x) * torch.rand(n, generator=generator).log()


def bad_model(x: Tensor, score: Score) -> AbstractDistribution:
    if score == "quantile":
        return QuantileTable([0.1, 0.3, 0.5, 0.7, 0.9], x[:, None] + 0.3 * STEPS)
    return Gaussian(x, 0.3 * (0.2 + x))


@pytest.mark.parametrize("n", [20, 100, 1000])
@pytest.mark.parametrize("score", ["normalized", "absolute", "quantile"])
def test_coverage_holds_at_every_size(score: Score, n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    coverages = [0.31, 0.5, 0.9, 0.95]
    hits = torch.zeros(len(coverages))
    repeats = REPEATS if score != "quantile" else REPEATS // 16
    for _ in range(repeats):
        fitted = ConformalInterval(score=score)
        held_out, y = rows(n, generator)
        fitted.fit(bad_model(held_out, score), y)
        x, y = rows(200, generator)
        prediction = fitted.transform(bad_model(x, score))
        for number, coverage in enumerate(coverages):
            lower, upper = prediction.interval(coverage)
            hits[number] += ((lower <= y) & (y <= upper)).double().mean()
    promised = torch.tensor(coverages)
    noise = (promised * (1 - promised) * (1 / (n + 2) + 1 / 200) / repeats).sqrt()
    observed = hits / repeats
    assert (observed > promised - 4 * noise).all()
    assert (observed < promised + 1 / (n + 1) + 0.005 + 4 * noise).all()


def test_the_bound_by_hand() -> None:
    # n = 9: k = ceil(10 c); scores 0.1, ..., 0.9 times the spread of 2.
    y = torch.arange(1, 10) * 0.2
    fitted = ConformalInterval().fit(Gaussian(torch.zeros(9), 2.0), y)
    predictive = fitted.transform(Gaussian([5.0], 1.0))
    for coverage, width in ((0.1, 0.1), (0.11, 0.2), (0.3, 0.3), (0.9, 0.9)):
        lower, upper = predictive.interval(coverage)
        assert float(lower) == pytest.approx(5 - width)
        assert float(upper) == pytest.approx(5 + width)
    assert predictive.interval(0.901)[1].tolist() == [math.inf]
    assert predictive.interval(0.901)[0].tolist() == [-math.inf]
    assert predictive.mean.tolist() == [5.0]
    assert predictive.batch_shape == (1,)
    assert repr(predictive).startswith(
        "ConformalPrediction(score='normalized', base=Gaussian"
    )


@pytest.mark.parametrize("n", [1, 2, 19])
@pytest.mark.parametrize("score", ["normalized", "absolute", "quantile"])
def test_too_few_rows_give_infinite_intervals(score: Score, n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x, y = rows(n, generator)
    fitted = ConformalInterval(score=score).fit(bad_model(x, score), y)
    prediction = fitted.transform(bad_model(x, score))
    assert torch.isfinite(prediction.interval(n / (n + 1))[1]).all()
    assert torch.isinf(prediction.interval(n / (n + 1) + 0.001)[1]).all()


def test_quantile_tables_are_conformalized() -> None:
    x = torch.zeros(9)
    table = bad_model(x, "quantile")
    y = torch.arange(1, 10) / 5
    fitted = ConformalInterval().fit(table, y)
    prediction = fitted.transform(table)
    assert prediction.score == "quantile"
    # k = 9: the largest of the distances outside the table's 0.1 and 0.9.
    lower, upper = table.interval(0.8)
    excess = torch.maximum(lower - y, y - upper).sort().values
    conformal = prediction.interval(0.8)
    torch.testing.assert_close(conformal[0], lower - excess[7])
    torch.testing.assert_close(conformal[1], upper + excess[7])
    # Between two coverages that were learned it is the larger one.
    torch.testing.assert_close(prediction.interval(0.795)[1], conformal[1])


def test_a_model_that_is_too_wide_is_narrowed_without_crossing() -> None:
    table = QuantileTable(
        [0.1, 0.5, 0.9], torch.tensor([[-9.0, 0.0, 9.0]]).expand(9, 3)
    )
    y = torch.linspace(3.0, 3.1, 9)
    prediction = ConformalInterval().fit(table, y).transform(table)
    for coverage in (0.01, 0.1, 0.5, 0.9):
        lower, upper = prediction.interval(coverage)
        assert (lower <= upper).all()


def test_scores_that_the_distribution_cannot_give_are_refused() -> None:
    predictive = as_distribution(
        torch.distributions.Cauchy(torch.zeros(3), torch.ones(3))
    )
    y = torch.tensor([1.0, 2.0, 3.0])
    for score in ("normalized", "absolute"):
        with pytest.raises(InputError, match=rf"{score} score needs.*3 of 3.*quantile"):
            ConformalInterval(score=score).fit(predictive, y)  # type: ignore[arg-type]
    assert ConformalInterval(score="quantile").fit(predictive, y)
    constant = Empirical(torch.zeros(2, 3))
    with pytest.raises(InputError, match="stddev above 0"):
        ConformalInterval().fit(constant, y)
    with pytest.raises(InputError, match=r"score must be one of auto, .*got 'cqr'"):
        ConformalInterval(score="cqr")  # type: ignore[arg-type]
