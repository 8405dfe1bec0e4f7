"""The spline of log odds."""

import pytest
import torch
from scipy.integrate import quad

from calibrant import Empirical, Gaussian, InputError
from calibrant._checks import pit_from_cdf
from calibrant.recalibration._log_odds_spline import LogOddsSpline
from calibrant.recalibration.smooth import SmoothRecalibrator


def test_the_density_is_continuous_and_integrates_to_one(
    generator: torch.Generator,
) -> None:
    fitted = SmoothRecalibrator().fit_pit(torch.rand(400, generator=generator) ** 2)
    inner = fitted.unit_map.knots[1:-1]
    density = [
        fitted.unit_map.log_density(pit_from_cdf(inner + step))
        for step in (-1e-9, 1e-9)
    ]
    torch.testing.assert_close(density[0], density[1], atol=1e-5, rtol=0)

    def of_log_odds(odds: float) -> float:
        pit = pit_from_cdf(torch.tensor(odds).sigmoid())
        slope = pit.cdf * pit.survival
        return float(fitted.unit_map.log_density(pit).exp() * slope)

    mass, _ = quad(of_log_odds, -25, 25, limit=400, points=inner.logit().tolist())
    assert mass == pytest.approx(1, abs=1e-4)


def test_isotonic_jumps_where_this_does_not(generator: torch.Generator) -> None:
    from calibrant.recalibration.isotonic import IsotonicRecalibrator

    y = torch.randn(200, generator=generator)
    law = Gaussian(torch.zeros(200), 0.5)
    places = torch.linspace(-2, 2, 4001)[:, None]

    def largest_jump(recalibrator: object) -> float:
        fitted = recalibrator.fit(law, y)  # type: ignore[attr-defined]
        density = fitted.transform(Gaussian(torch.zeros(1), 0.5)).log_prob(places)
        return float(density.diff(dim=0).abs().max())

    assert largest_jump(IsotonicRecalibrator()) > 1
    assert largest_jump(SmoothRecalibrator()) < 0.02


def test_it_learns_a_normal_law_of_another_spread(generator: torch.Generator) -> None:
    n = 20_000
    law = Gaussian(torch.zeros(n), 0.5)
    fitted = SmoothRecalibrator().fit(law, torch.randn(n, generator=generator))
    recalibrated = fitted.transform(Gaussian([0.0], 0.5))
    truth = Gaussian([0.0], 1.0)
    for level in (1e-4, 0.01, 0.3, 0.5, 0.9, 0.999):
        error = recalibrated.quantile(level) - truth.quantile(level)
        assert error.abs() < 0.15
    assert abs(float(recalibrated.stddev) - 1) < 0.03


def test_the_number_of_knots_grows_slowly(generator: torch.Generator) -> None:
    counts = [
        len(SmoothRecalibrator().fit_pit(torch.rand(n)).unit_map.knots) - 2
        for n in (1, 8, 1000, 100_000)
    ]
    assert counts == [1, 2, 12, 52]
    chosen = SmoothRecalibrator(knots=4).fit_pit(torch.rand(500, generator=generator))
    assert len(chosen.unit_map.knots) == 6


def test_ties_at_the_ends_are_spread() -> None:
    pit = torch.cat([torch.zeros(40), torch.linspace(0.1, 0.9, 20), torch.ones(40)])
    fitted = SmoothRecalibrator().fit_pit(pit)
    mapped = fitted.apply([0.1, 0.5, 0.9])
    torch.testing.assert_close(mapped, torch.tensor([0.4, 0.5, 0.6]), atol=0.1, rtol=0)
    torch.testing.assert_close(mapped, 1 - mapped.flip(0), atol=1e-6, rtol=0)


def test_options_and_tables_are_checked() -> None:
    with pytest.raises(InputError, match="knots must be at least 1, got 0"):
        SmoothRecalibrator(knots=0)
    up = torch.tensor([0.0, 1.0])
    with pytest.raises(
        InputError, match="places and heights must be log odds that increase"
    ):
        LogOddsSpline(up, up.flip(0), up + 1)
    with pytest.raises(InputError, match=r"got \[\(2,\), \(2,\), \(1,\)\]"):
        LogOddsSpline(up, up, up[:1] + 1)
    with pytest.raises(InputError, match=r"slopes must be above 0, got 0.0"):
        LogOddsSpline(up, up, up)


def test_samples_that_say_only_beyond_are_read_as_just_beyond(
    generator: torch.Generator,
) -> None:
    # 19 samples a row from half of the true spread: a third of the PIT values are
    # exactly 0 or 1.
    samples = 0.5 * torch.randn(19, 1000, generator=generator)
    y = torch.randn(1000, generator=generator)
    fitted = SmoothRecalibrator().fit(Empirical(samples), y)
    steps = torch.arange(1, 19) / 19
    observed = (Empirical(samples).cdf(y)[:, None] <= steps + 1e-9).double().mean(0)
    assert (fitted.apply(steps) - observed).abs().max() < 0.06
