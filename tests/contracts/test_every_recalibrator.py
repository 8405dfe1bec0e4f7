"""What every recalibrator in the table must do."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor
from torch.distributions import LogNormal

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
from calibrant.distributions import Censored, Transformed, Truncated
from calibrant.distributions.base import AbstractDistribution
from calibrant.recalibration import RECALIBRATORS, from_json
from calibrant.transforms import TRANSFORMS
from calibrant.validation import pit_from_cdf

NAMES = list(RECALIBRATORS)
MAPS = [name for name in NAMES if hasattr(RECALIBRATORS[name], "fit_pit")]
GRID = torch.linspace(0, 1, 2001, dtype=torch.float64)


def make(name: str) -> Any:
    return RECALIBRATORS[name]()


def over_confident(
    n: int, generator: torch.Generator, dtype: torch.dtype = torch.float64
) -> tuple[Gaussian, Tensor]:
    mean = torch.randn(n, generator=generator, dtype=dtype)
    noise = torch.randn(n, generator=generator, dtype=dtype)
    return Gaussian(mean, torch.full_like(mean, 0.5)), mean + noise


def predictives(dtype: torch.dtype) -> dict[str, AbstractDistribution]:
    mean = torch.tensor([0.0, 1.0, -3.0], dtype=dtype)
    steps = torch.linspace(-2, 2, 9, dtype=dtype)
    levels = torch.linspace(0.1, 0.9, 9, dtype=dtype)
    return {
        "gaussian": Gaussian(mean, 0.7),
        "mixture": GaussianMixture(torch.stack([mean, mean + 1, mean - 0.5]), 0.7),
        "laplace": Laplace(mean, 0.7),
        "student_t": StudentT(4.0, mean, 0.7),
        "quantile_table": QuantileTable(levels, mean[:, None] + steps),
        "empirical": Empirical(mean + steps[:, None]),
    }


@pytest.mark.parametrize("bounds", [(-0.5, np.inf), (-np.inf, 0.5), (-0.5, 0.5)])
@pytest.mark.parametrize("name", MAPS)
def test_a_true_model_with_atoms_needs_no_map(
    name: str, bounds: tuple[float, float], generator: torch.Generator
) -> None:
    predictive = Censored(
        Gaussian(torch.randn(2000, generator=generator), 1.0), *bounds
    )
    fitted = make(name).fit(predictive, predictive.sample(generator=generator))
    assert (fitted.apply(GRID) - GRID).abs().max() < 0.05


def test_a_stretched_distribution_keeps_its_bounds(generator: torch.Generator) -> None:
    mean = torch.randn(2000, generator=generator)
    y = Censored(Gaussian(mean, 1.0), high=0.5).sample(generator=generator)
    narrow = Censored(Gaussian(mean, 0.5), high=0.5)
    wide = RECALIBRATORS["scale"]().fit(narrow, y).transform(narrow)
    assert wide.cdf(torch.full_like(y, 0.5)).eq(1).all()
    torch.testing.assert_close(
        wide.cdf_before(y), Gaussian(mean, 1.0).cdf(y), atol=0.02, rtol=0
    )


@pytest.mark.parametrize("name", NAMES)
def test_narrow_distributions_become_wider(
    name: str, generator: torch.Generator
) -> None:
    predictive, y = over_confident(200, generator)
    lower, upper = make(name).fit(predictive, y).transform(predictive).interval(0.9)
    covered = ((lower <= y) & (y <= upper)).double().mean()
    assert 0.85 < covered < 0.96


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("factor", [1 / 6, 6, 10, 30])
def test_intervals_miss_equally_often_below_and_above_a_wrong_spread(
    name: str, factor: float, generator: torch.Generator
) -> None:
    repeats, n = 40, 299
    truth, model = Gaussian([0.0], 1.0), Gaussian([0.0], 1 / factor)
    misses = torch.zeros(2)
    for _ in range(repeats):
        y = torch.randn(n, generator=generator)
        fitted = make(name).fit(Gaussian(torch.zeros(n), 1 / factor), y)
        lower, upper = fitted.transform(model).interval(0.9)
        misses += torch.cat([truth.cdf(lower), truth.survival(upper)]) / repeats
    # An order statistic of n uniform values, averaged; the other maps smooth it.
    noise = (0.05 * 0.95 / (n + 2) / repeats) ** 0.5
    allowed = 4 * noise if name == "empirical" else 0.012
    assert (misses - 0.05).abs().max() < allowed


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(
    "base", ["plain", "bounded", "transformed", "mixture", "of torch"]
)
def test_what_is_widened_first_keeps_its_support_and_is_stored(
    name: str, base: str, generator: torch.Generator
) -> None:
    y = (0.3 * torch.randn(400, generator=generator)).exp()

    def predicted(n: int) -> AbstractDistribution:
        narrow = Gaussian(torch.zeros(n), 0.01)
        moved = Gaussian(torch.ones(n), 0.01)
        through = Transformed(narrow, TRANSFORMS["log"]())
        return {
            "plain": moved,
            "bounded": Truncated(moved, 0.0),
            "transformed": through,
            "mixture": Mixture([through, Truncated(moved, 0.0)]),
            "of torch": as_distribution(LogNormal(torch.zeros(n), 0.01)),
        }[base]

    fitted = make(name).fit(predicted(200), y[:200])
    assert fitted.spread > 4
    predictive = fitted.transform(predicted(200))
    lower, upper = predictive.interval(0.9)
    assert 0.82 < ((lower <= y[200:]) & (y[200:] <= upper)).double().mean() < 0.97
    assert base == "plain" or float(predictive.quantile(1e-12).min()) >= 0
    levels = torch.linspace(0.01, 0.99, 9)[:, None].expand(9, 200)
    torch.testing.assert_close(
        predictive.cdf(predictive.quantile(levels)), levels, atol=1e-8, rtol=0
    )
    assert predictive.log_prob(y[200:]).isfinite().all()
    restored = from_json(fitted.to_json())
    assert restored.spread == fitted.spread
    assert torch.equal(
        restored.transform(predicted(200)).cdf(y[200:]), predictive.cdf(y[200:])
    )


def test_outliers_widen_nothing(generator: torch.Generator) -> None:
    y = torch.randn(200, generator=generator)
    y[:4] = 1e12
    fitted = make("smooth").fit(Gaussian(torch.zeros(200), 1.0), y)
    assert fitted.spread == 1
    rounded = make("smooth").fit(
        Gaussian(torch.zeros(196), 0.1),
        y[4:],
        pit=lambda predictive: predictive.cdf(y[4:].round()),
    )
    assert rounded.spread > 1


@pytest.mark.parametrize("name", NAMES)
def test_the_default_float_type_changes_nothing(
    name: str, generator: torch.Generator
) -> None:
    predictive, y = over_confident(37, generator)
    learned = make(name).fit(predictive, y).to_json()
    torch.set_default_dtype(torch.float32)  # the fixture of each test sets it back
    assert make(name).fit(predictive, y).to_json() == learned


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("base", list(predictives(torch.float64)))
def test_takes_every_distribution_of_either_precision(
    name: str, base: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    recalibrator = make(name).fit(*over_confident(60, generator, dtype))
    predictive = predictives(dtype)[base]
    lower, upper = recalibrator.transform(predictive).interval(0.8)
    assert lower.shape == upper.shape == (3,)
    assert lower.dtype == dtype
    assert torch.isfinite(lower).all()
    assert (lower < upper).all()


@pytest.mark.parametrize("name", NAMES)
def test_takes_whatever_is_a_prediction(name: str, generator: torch.Generator) -> None:
    predictive, y = over_confident(40, generator)
    mean, std = predictive.mean, predictive.stddev
    ours = make(name).fit(predictive, y)
    arrays_ = make(name).fit((mean.numpy(), std.numpy()), y.numpy())
    theirs = make(name).fit(torch.distributions.Normal(mean, std), y)
    assert ours.to_json() == arrays_.to_json() == theirs.to_json()
    expected = ours.transform(predictive).interval(0.9)
    torch.testing.assert_close(ours.transform((mean, std)).interval(0.9), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("members", [1, 5])
def test_ensembles_are_one_distribution_per_row(
    name: str, members: int, generator: torch.Generator
) -> None:
    predictive, y = over_confident(80, generator)
    means = predictive.mean + 0.1 * torch.randn(members, 80, generator=generator)
    ensemble = GaussianMixture(means, 0.5)
    lower, upper = make(name).fit(ensemble, y).transform(ensemble).interval(0.9)
    assert lower.shape == (80,)
    assert 0.8 < ((lower <= y) & (y <= upper)).double().mean() < 0.98


@pytest.mark.parametrize("name", NAMES)
def test_predictions_may_have_more_axes(name: str, generator: torch.Generator) -> None:
    fitted = make(name).fit(*over_confident(40, generator))
    mean = torch.randn(2, 3, generator=generator)
    lower, _ = fitted.transform((mean, torch.ones(2, 3))).interval(0.5)
    row, _ = fitted.transform((mean[1], torch.ones(3))).interval(0.5)
    torch.testing.assert_close(lower[1], row)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows_give_finite_maps_or_say_so(name: str, n: int) -> None:
    predictive = Gaussian(torch.zeros(n), 1.0)
    fitted = make(name).fit(predictive, torch.full((n,), 0.7))
    lower, upper = fitted.transform(predictive).interval(0.4)
    assert torch.isfinite(lower).all()
    assert torch.isfinite(upper).all()
    assert (lower <= upper).all()


@pytest.mark.parametrize("name", NAMES)
def test_json_gives_the_same_predictions_bit_by_bit(
    name: str, generator: torch.Generator
) -> None:
    predictive, y = over_confident(120, generator)
    fitted = make(name).fit(predictive[:10], y[:10])
    assert fitted.fit(predictive, y) is fitted  # and has forgotten the first
    assert fitted.to_json() == make(name).fit(predictive, y).to_json()
    restored = from_json(fitted.to_json())
    assert type(restored) is type(fitted)
    assert restored.to_json() == fitted.to_json()
    for coverage in (0.1, 0.5, 0.9, 0.99, 0.999):
        there, here = (
            each.transform(predictive).interval(coverage) for each in (restored, fitted)
        )
        assert torch.equal(there[0], here[0])
        assert torch.equal(there[1], here[1])
    if name in MAPS:
        assert torch.equal(restored.apply(GRID), fitted.apply(GRID))
        before, after = fitted.transform(predictive), restored.transform(predictive)
        assert torch.equal(before.log_prob(y), after.log_prob(y))
        assert torch.equal(before.variance, after.variance)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_json_is_refused(name: str, generator: torch.Generator) -> None:
    text = make(name).fit(*over_confident(20, generator)).to_json()
    content = json.loads(text)
    for key in content["state"]:
        less = content | {"state": dict(content["state"])}
        del less["state"][key]
        with pytest.raises(InputError, match=rf"text for '{name}' is damaged: '{key}'"):
            from_json(json.dumps(less))
        wrong = content | {"state": content["state"] | {key: "x"}}
        with pytest.raises(InputError, match=r"is damaged: "):
            from_json(json.dumps(wrong))
    with pytest.raises(InputError, match=r"is damaged: .*(surprise|no arguments)"):
        from_json(json.dumps(content | {"options": {"surprise": 1}}))


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_parts_say_what_to_do(name: str) -> None:
    predictive = Gaussian([0.0], 1.0)
    with pytest.raises(
        InputError, match=rf"{name} recalibrator must be fitted first.*Call\s+fit\("
    ):
        make(name).transform(predictive)
    with pytest.raises(InputError, match=r"fitted first"):
        make(name).to_json()


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_do_not_fit_are_refused(name: str) -> None:
    predictive = Gaussian([0.0, 1.0], 1.0)
    with pytest.raises(InputError, match=r"y must be finite.*y\[1\] = nan"):
        make(name).fit(predictive, [0.0, float("nan")])
    for y in ([0.0], [[0.0], [1.0]], 0.5):
        with pytest.raises(
            InputError, match=r"one distribution and one target.*squeeze\(-1\)"
        ):
            make(name).fit(predictive, y)
    with pytest.raises(InputError, match=r"shapes are \(2, 2\).*GaussianMixture"):
        make(name).fit(Gaussian(torch.zeros(2, 2), 1.0), torch.zeros(2, 2))
    diverged = Gaussian(torch.tensor([0.0, float("nan")]), torch.ones(2))
    with pytest.raises(InputError, match=r"finite|\[0, 1\].*diverged"):
        make(name).fit(diverged, [0.0, 1.0])


@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=40)
@given(values=arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1)))
@example(values=np.zeros(50))
@example(values=np.ones(2))
@example(values=np.full(50, 0.3))
def test_any_pit_values_give_an_increasing_map_onto_the_unit_interval(
    name: str, values: np.ndarray[Any, Any]
) -> None:
    fitted = make(name).fit_pit(values)
    mapped = fitted.apply(GRID)
    assert mapped[0] == 0
    assert mapped[-1] == 1
    assert (mapped.diff() >= 0).all()
    inner = fitted.invert(GRID)
    assert inner[0] == 0
    assert inner[-1] == 1
    assert (inner.diff() >= 0).all()
    predictive = fitted.transform(Gaussian(torch.zeros(9), 1.0))
    assert torch.isfinite(predictive.log_prob(torch.linspace(-8, 8, 9))).all()
    assert torch.isfinite(predictive.mean).all()


@pytest.mark.parametrize("name", MAPS)
def test_the_inverse_undoes_the_map(name: str, generator: torch.Generator) -> None:
    fitted = make(name).fit(*over_confident(100, generator))
    levels = torch.linspace(0.001, 0.999, 500)
    there = fitted.invert(levels)
    torch.testing.assert_close(fitted.apply(there), levels, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", MAPS)
def test_the_density_is_the_derivative_of_the_map(
    name: str, generator: torch.Generator
) -> None:
    fitted = make(name).fit(*over_confident(100, generator))
    # Between the knots; at them the piecewise linear maps have none.
    knots = fitted.unit_map.knots
    middle = ((knots[1:] + knots[:-1]) / 2)[knots.diff() > 1e-5]
    step = 1e-7
    ends = fitted.apply(middle + step) - fitted.apply(middle - step)
    density = fitted.unit_map.log_density(pit_from_cdf(middle)).exp()
    torch.testing.assert_close(density, ends / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", MAPS)
def test_both_tails_stay_precise_in_float32(
    name: str, generator: torch.Generator
) -> None:
    fitted = make(name).fit(*over_confident(100, generator))
    y = torch.tensor([-30.0, -12.0, -6.0, 6.0, 12.0, 30.0])
    narrow = fitted.transform(Gaussian(torch.zeros(6).float(), 1.0)).pit(y.float())
    wide = fitted.transform(Gaussian(torch.zeros(6), 1.0)).pit(y)
    torch.testing.assert_close(
        narrow.log_cdf.double(), wide.log_cdf, rtol=2e-5, atol=1e-6
    )
    torch.testing.assert_close(
        narrow.log_survival.double(), wide.log_survival, rtol=2e-5, atol=1e-6
    )
    assert (wide.log_cdf[:3] < -4).all()
    assert (wide.log_survival[3:] < -4).all()


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(
    ("pit", "match"),
    [
        ([0.1, 1.7], r"in \[0, 1\].*pit\[1\] = 1.7.*not y itself"),
        ([0.1, float("nan")], r"pit\[1\] = nan.*diverged"),
        ([], r"n >= 1, got \(0,\)"),
        ([[0.1, 0.2], [0.3, 0.4]], r"shape \(n,\), got \(2, 2\)"),
    ],
)
def test_what_is_no_pit_value_is_refused(
    name: str, pit: list[float], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        make(name).fit_pit(pit)
