"""The four learned maps of [0, 1]: against plain forms, and on fresh data."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from calibrant import Empirical, Gaussian, InputError
from calibrant.metrics import calibration_error, floor_after_recalibration
from calibrant.protocols import PitValues
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.maps import (
    BetaMap,
    BetaRecalibrator,
    EmpiricalRecalibrator,
    IsotonicRecalibrator,
    LogOddsSpline,
    PiecewiseLinearMap,
    SmoothRecalibrator,
)
from calibrant.validation import pit_from_cdf

REPEATS = 400


def resolved_levels(pit: PitValues) -> Tensor:
    """Levels from the tail that is not rounded."""
    return torch.where(pit.cdf < 0.5, pit.cdf, 1 - pit.survival)


def followed(
    pit: PitValues, index: Tensor, x: Tensor, y: Tensor, rates: Tensor
) -> PitValues:
    """Go along the lines ``index`` from ``x`` to ``y``, as the formula says it."""
    last, rate = len(rates) - 1, rates[index]
    low, high = y[index], y[index + 1]
    rise = low + rate * (resolved_levels(pit) - x[index])
    beyond = resolved_levels(pit.mirrored())
    fall = (1 - high) + rate * (beyond - (1 - x[index + 1]))
    rise = torch.minimum(torch.maximum(rise, low), high)
    fall = torch.minimum(torch.maximum(fall, 1 - high), 1 - low)
    first, end = index == 0, (index == last) & (index > 0)
    cdf = torch.where(end, 1 - fall, rise)
    survival = torch.where(first, 1 - rise, fall)
    tiny = torch.finfo(torch.float64).tiny
    log_rate = rate.clamp_min(tiny).log()
    log_cdf = torch.where(first, log_rate + pit.log_cdf, cdf.clamp_min(tiny).log())
    log_survival = torch.where(
        index == last, log_rate + pit.log_survival, survival.clamp_min(tiny).log()
    )
    return PitValues(cdf, survival, log_cdf, log_survival)


def piecewise(kind: str, generator: torch.Generator) -> PiecewiseLinearMap:
    """Make a map through many points, of some shape."""
    if kind == "short":
        return PiecewiseLinearMap(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]))
    levels = torch.rand(300, generator=generator)
    if kind == "crowded":
        levels = torch.cat([levels**30, 1 - levels**30])
    levels = levels.sort().values
    ranks = torch.arange(1, len(levels) + 1) / (len(levels) + 1)
    if kind == "flat":
        return PiecewiseLinearMap.through(levels, (ranks * 10).ceil() / 10)
    return PiecewiseLinearMap.through(levels, 0.999 * ranks + 1e-3 * levels, floor=1e-3)


def levels_everywhere(generator: torch.Generator, knots: Tensor) -> PitValues:
    """Levels at the knots, beside them, in the middle and down both tails."""
    tail = torch.cat([torch.logspace(-300, -1, 600), torch.tensor([5e-324])])
    beside = [knots.nextafter(torch.tensor(end)) for end in (0.0, 1.0)]
    middle = torch.rand(3000, generator=generator)
    lower = pit_from_cdf(torch.cat([tail, middle, knots, *beside]))
    pairs = zip(lower, pit_from_cdf(tail).mirrored(), strict=True)
    pit = PitValues(*(torch.cat(pair) for pair in pairs))
    order = torch.randperm(len(pit.cdf), generator=generator)
    return pit.map(lambda part: part[order])


@pytest.mark.parametrize("kind", ["uniform", "crowded", "flat", "short"])
def test_lines_are_followed_as_the_formula_says(
    kind: str, generator: torch.Generator
) -> None:
    unit_map = piecewise(kind, generator)
    knots, heights = unit_map.knots, unit_map.heights
    slopes = (heights.diff() / knots.diff()).clamp_min(unit_map.floor)
    pit = levels_everywhere(generator, torch.cat([knots, heights]))
    level, last = resolved_levels(pit), len(slopes) - 1
    index = (torch.searchsorted(knots, level, right=True) - 1).clamp(0, last)
    there = followed(pit, index, knots, heights, slopes)
    index = (torch.searchsorted(heights, level) - 1).clamp(0, last)
    index = torch.where((level >= 1) & (slopes[-1] > 0), last, index)
    rates = torch.where(slopes > 0, 1 / slopes, 0.0)
    back = followed(pit, index, heights, knots, rates)
    for found, expected in (
        (unit_map.forward(pit), there),
        (unit_map.inverse(pit), back),
    ):
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-300)
    shaped = pit.map(lambda part: part[:4200].view(3, 2, 700))
    assert torch.equal(
        unit_map.forward(shaped).cdf, unit_map.forward(pit).cdf[:4200].view(3, 2, 700)
    )


def test_isotonic_is_the_regression_of_scikit_learn(generator: torch.Generator) -> None:
    pit = (torch.rand(50, generator=generator) * 20).round() / 20  # with ties
    observed = (pit[:, None] >= pit).double().mean(1)
    regression = IsotonicRegression(out_of_bounds="clip").fit(
        np.append(0.0, pit), np.append(0.0, observed)
    )
    levels = torch.linspace(pit[pit > 0].min(), 1, 300)
    expected = torch.from_numpy(regression.predict(levels.numpy()))
    torch.testing.assert_close(
        IsotonicRecalibrator(floor=0).fit_pit(pit).apply(levels), expected
    )


def test_no_target_has_a_likelihood_of_zero_unless_asked_for() -> None:
    # Next to 1 the heights round to 1, and only the floor knows the density.
    pit = torch.cat([torch.linspace(0.1, 0.8, 19), torch.tensor([1 - 1e-15])])
    distribution = Gaussian(torch.zeros(3), 1.0)
    outlier = torch.tensor([0.0, 3.0, 12.0])
    used = IsotonicRecalibrator().fit_pit(pit).transform(distribution)
    floor = distribution.log_prob(outlier) - torch.tensor(21.0).log()
    assert (used.log_prob(outlier) >= floor - 1e-9).all()
    pure = IsotonicRecalibrator(floor=0).fit_pit(pit[:-1]).transform(distribution)
    assert pure.log_prob(outlier)[1:].tolist() == [-torch.inf, -torch.inf]
    assert pure.survival(outlier)[1:].tolist() == [0, 0]
    assert torch.isfinite(pure.log_prob(outlier)[0])


def test_flat_pieces_have_the_smallest_quantile() -> None:
    fitted = IsotonicRecalibrator(floor=0).fit_pit([0.2, 0.4])
    assert fitted.invert([0.0, 0.5, 1.0]).tolist() == [0.0, 0.2, 0.4]
    recalibrated = fitted.transform(Gaussian([0.0], 1.0))
    base = recalibrated.base
    torch.testing.assert_close(recalibrated.quantile(1.0), base.quantile(0.4))
    assert recalibrated.quantile(0.0).tolist() == [-torch.inf]
    assert torch.isfinite(recalibrated.mean).all()
    assert torch.isfinite(recalibrated.crps([0.0])).all()


def test_empirical_ranks_by_hand() -> None:
    fitted = EmpiricalRecalibrator().fit_pit([0.9, 0.3, 0.1])
    expected = torch.tensor([0, 0.25, 0.375, 0.5, 0.75, 0.875, 1])
    torch.testing.assert_close(
        fitted.apply([0, 0.1, 0.2, 0.3, 0.9, 0.95, 1]), expected.double()
    )
    tied = EmpiricalRecalibrator().fit_pit([0.0, 0.0, 0.5, 0.5, 1.0])
    assert tied.unit_map.knots.tolist() == [0.0, 0.5, 1.0]
    assert tied.apply([0.5]).tolist() == [4 / 6]


def one_sided_coverage(n: int, levels: Tensor) -> Tensor:
    """Share of fresh targets below the quantiles, each with a map of its own."""
    generator = torch.Generator().manual_seed(n)
    hits = torch.zeros(len(levels))
    for _ in range(REPEATS):
        y = torch.randn(n + 200, generator=generator) + 0.3  # off, and too narrow
        fitted = EmpiricalRecalibrator().fit(Gaussian(torch.zeros(n), 0.6), y[:n])
        same = Gaussian(torch.zeros(len(levels)), 0.6)
        bounds = fitted.transform(same).quantile(levels)
        hits += (y[n:, None] <= bounds).double().mean(0)
    return hits / REPEATS


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_coverage_is_what_the_ranks_guarantee(n: int) -> None:
    ranks = torch.tensor([0.05, 0.25, 0.5, 0.8, 0.95]).mul(n + 1).round()
    exact, between = ranks / (n + 1), (ranks + 0.4) / (n + 1)
    # The rows of one repeat share a map, which is most of the noise for small n.
    noise = (exact * (1 - exact) * (1 / (n + 2) + 1 / 200) / REPEATS).sqrt()
    observed = one_sided_coverage(n, torch.cat([exact, between]))
    assert ((observed[:5] - exact).abs() < 4 * noise).all()
    observed = observed[5:]
    assert (observed > exact - 4 * noise).all()
    assert (observed < exact + 1 / (n + 1) + 4 * noise).all()


def test_smooth_has_a_continuous_density_that_integrates_to_one(
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


def test_beta_is_a_maximum(generator: torch.Generator) -> None:
    pit = pit_from_cdf(torch.rand(60, generator=generator) ** 2)

    def penalized(a: float, b: float, c: float) -> float:
        likelihood = BetaMap(a, b, c).log_density(pit).sum()
        ab = torch.tensor([a, b])
        return float(likelihood - (ab - ab.log() - 1).sum() - c**2 / 2)

    found = BetaRecalibrator().fit_pit(pit).unit_map
    a, b, c = found.lower, found.upper, found.shift  # type: ignore[attr-defined]
    best = penalized(a, b, c)
    for step in (-1e-3, 1e-3):
        assert penalized(a + step, b, c) < best
        assert penalized(a, b + step, c) < best
        assert penalized(a, b, c + step) < best


@pytest.mark.parametrize(("a", "b", "c"), [(0.01, 5.0, 3.0), (8.0, 0.1, -4.0)])
def test_the_inverse_of_crooked_maps(a: float, b: float, c: float) -> None:
    levels = pit_from_cdf(torch.tensor([1e-12, 1e-3, 0.4, 0.999]))
    crooked = BetaMap(a, b, c)
    back = crooked.forward(crooked.inverse(levels))
    torch.testing.assert_close(back.log_cdf, levels.log_cdf)
    torch.testing.assert_close(back.log_survival, levels.log_survival)


UP = torch.tensor([0.0, 1.0], dtype=torch.float64)
NAN = torch.tensor([0.0, torch.nan], dtype=torch.float64)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: BetaMap(0.0, 1.0, 0.0), "above 0, and all below 1e.15; got lower=0.0"),
        (lambda: BetaMap(1.0, torch.nan, 0.0), "upper=nan"),
        (lambda: BetaMap(1.0, 1.0, torch.inf), "shift=inf"),
        (lambda: LogOddsSpline(UP, UP.flip(0), UP + 1), "heights must increase"),
        (lambda: LogOddsSpline(UP, UP, UP), "slopes must be above 0"),
        (lambda: LogOddsSpline(UP, UP, UP[:1] + 1), r"of one shape \(m,\)"),
        (lambda: LogOddsSpline(UP, 1e300 * UP, UP + 1), "all below 1e.15"),
        (lambda: LogOddsSpline(UP, NAN, UP + 1), "heights must increase"),
        (lambda: PiecewiseLinearMap(UP, UP.flip(0)), "heights not decrease"),
        (lambda: PiecewiseLinearMap(UP, 2 * UP), "not decrease, from 0 to 1"),
        (lambda: PiecewiseLinearMap(NAN, UP), "knots must increase strictly"),
        (lambda: PiecewiseLinearMap(UP, UP, floor=torch.inf), r"\[0, 1\), got inf"),
        (lambda: PiecewiseLinearMap(UP[None], UP[None]), r"one shape \(m,\)"),
    ],
)
def test_what_is_no_increasing_map_is_refused(make: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()  # type: ignore[operator]


TRIALS = 30
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
    for _ in range(TRIALS):
        recalibrator = RECALIBRATORS[name]().fit(*narrow(n_fit, generator))
        predictive, y = narrow(N_TEST, generator)
        before += calibration_error(predictive.cdf(y)) / TRIALS
        after += calibration_error(recalibrator.transform(predictive).cdf(y)) / TRIALS
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
    for _ in range(TRIALS):
        held_out, fresh = narrow(500, generator), narrow(N_TEST, generator)
        truth = Gaussian(fresh[0].mean, 2 * fresh[0].stddev).log_prob(fresh[1]).mean()
        for name in costs:
            predictive = RECALIBRATORS[name]().fit(*held_out).transform(fresh[0])
            costs[name] += float(truth - predictive.log_prob(fresh[1]).mean()) / TRIALS
    assert 0.38 < costs["empirical"] < 0.5
    assert 0.38 < costs["isotonic"] < 0.55
    assert costs["smooth"] < 0.03
    assert costs["beta"] < 0.04
    assert costs["scale"] < 0.01
