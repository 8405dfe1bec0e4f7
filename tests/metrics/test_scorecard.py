"""evaluate, the scorecard and the paired comparison of two models."""

import json
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom
from torch import Tensor
from torch import distributions as torch_distributions

from calibrant import Empirical, Gaussian, InputError, StudentT
from calibrant.metrics import METRICS
from calibrant.metrics.comparison import compare_rows
from calibrant.metrics.floors import noise_floor
from calibrant.metrics.pit import GriddedTargetWarning
from calibrant.metrics.scorecard import Scorecard, evaluate


def make(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(100 + seed)
    mean, noise = torch.tensor(rng.normal(size=(2, n)))
    spread = torch.tensor(rng.uniform(0.5, 1.5, size=n))
    return mean, spread, mean + spread * noise


class Uniform01:
    """Nothing but a cdf, that of the unit interval."""

    def cdf(self, value: Tensor) -> Tensor:
        return value


@pytest.fixture(scope="module")
def honest() -> Scorecard:
    mean, spread, y = make(1000)
    return evaluate(Gaussian(mean, spread), y, features={"mean": mean})


@pytest.fixture(scope="module")
def narrow() -> Scorecard:
    mean, spread, y = make(1000)
    return evaluate(Gaussian(mean, 0.6 * spread), y, features={"mean": mean})


def test_holds_the_numbers_of_the_single_metrics(narrow: Scorecard) -> None:
    mean, spread, y = make(1000)
    law = Gaussian(mean, 0.6 * spread)
    assert narrow.n == 1000
    shared = [name for name in narrow if name in METRICS]
    assert len(shared) > 15
    for name in shared:
        assert narrow[name] == pytest.approx(METRICS[name](law, y), rel=1e-12)
    lower, upper = law.interval(0.8)
    inside = float(((lower <= y) & (y <= upper)).double().mean())
    assert narrow["coverage_80"] == pytest.approx(inside)
    assert narrow["width_80"] == pytest.approx(float((upper - lower).mean()))
    parts = narrow["crps_reliability"] - narrow["crps_resolution"]
    assert parts + narrow["crps_uncertainty"] == pytest.approx(narrow["crps"])


def test_every_calibration_number_stands_beside_its_floor(honest: Scorecard) -> None:
    error = honest.measure("calibration_error")
    floor = noise_floor("calibration_error", n=1000)
    assert (error.floor, error.low, error.high) == (
        floor.expectation,
        floor.low,
        floor.high,
    )
    assert error.p_value == floor.p_value(error.value)
    with_floor = [each.name for each in honest.measures if each.floor is not None]
    judged = [e.name for e in honest.measures if e.kind in ("calibration", "coverage")]
    assert with_floor == judged
    assert len(judged) == 13


def test_says_in_words_whether_there_is_a_fault(
    honest: Scorecard, narrow: Scorecard
) -> None:
    assert "No sign of a fault" in honest.verdict()
    assert "90 % intervals covered" in narrow.verdict()
    assert "50 % and 90 % intervals are too narrow" in narrow.verdict()
    assert narrow.worst is not None
    assert honest.worst is not None
    assert narrow.distribution_calibration is not None
    assert narrow.worst.p_value < 0.01 < 0.05 < honest.worst.p_value
    assert narrow.distribution_calibration.p_value < 0.01


def test_prints_as_a_table(narrow: Scorecard) -> None:
    text = str(narrow)
    assert "1,000 rows" in text
    assert "perfect calibration" in text
    assert all(name in text for name in narrow)
    assert max(map(len, text.splitlines())) <= 88


def test_converts_to_dict_json_and_pandas(narrow: Scorecard) -> None:
    plain = narrow.to_dict()
    assert plain["measures"]["crps"]["value"] == narrow["crps"]
    assert json.loads(narrow.to_json())["n"] == 1000
    table = narrow.to_pandas()
    assert table.loc["coverage_90", "value"] == narrow["coverage_90"]
    assert list(table.index) == list(narrow)
    assert len(narrow) == len(table)
    with pytest.raises(KeyError, match="no measure is called 'crpss'; there are rmse"):
        narrow["crpss"]


def test_a_law_without_density_or_variance_still_gets_a_card() -> None:
    mean, spread, y = make(60)
    samples = Gaussian(mean, spread).sample((50,))
    card = evaluate(Empirical(samples), y)
    assert math.isnan(card["nll"])
    assert "density" in card.measure("nll").note
    assert json.loads(card.to_json())["measures"]["nll"]["value"] is None
    assert "nll" in str(card)
    heavy = evaluate(StudentT(1.5, mean, spread), y)
    assert math.isnan(heavy["sharpness"])
    assert math.isfinite(heavy["crps"])
    assert "nll" not in card.rows


def test_finds_rounded_targets_and_judges_them_fairly() -> None:
    mean, spread, _ = make(3000)
    mean = 5 + mean
    y = Gaussian(mean, spread).sample(generator=torch.Generator().manual_seed(9))
    card = evaluate((mean, spread), y.round())
    assert card.grid is not None
    assert card.grid.step == 1
    assert card.measure("calibration_error").p_value > 0.01
    assert "rounded to steps of 1" in card.verdict()
    assert card.verdict().startswith("Counting each target by the share of its step,")
    with pytest.warns(GriddedTargetWarning):
        single = METRICS["calibration_error"]((mean, spread), y.round())
    assert single == card["calibration_error"]
    assert card.measure("ence").p_value is not None
    again = evaluate((mean, spread), y.round())
    assert again["calibration_error"] == card["calibration_error"]


def test_takes_features_and_groups_in_any_form() -> None:
    mean, spread, y = make(400)
    law = (mean, spread)
    side = ["left" if value < 0 else "right" for value in mean]
    frame = pd.DataFrame({"mean": mean.numpy(), "side": side})
    keys = evaluate(law, y, features=frame).groups
    assert list(keys) == ["predicted spread", "mean", "side"]
    assert [group.label for group in keys["side"]] == ["left", "right"]
    keys = evaluate(law, y, features=torch.stack([mean, spread], 1), groups=side).groups
    assert list(keys) == ["predicted spread", "feature 0", "feature 1", "group"]
    with pytest.raises(
        InputError, match=r"features must be columns by name.*\(1, 2, 3\)"
    ):
        evaluate(law, y, features=np.zeros((1, 2, 3)))
    with pytest.raises(InputError, match="400"):
        evaluate(law, y, groups=side[:-1])


def test_comparison_finds_a_real_difference_and_no_other(
    honest: Scorecard, narrow: Scorecard
) -> None:
    comparison = honest.compare(narrow, draws=400)
    for name in ("crps", "nll", "calibration_error"):
        assert comparison[name].better == "first"
        assert comparison[name].difference == pytest.approx(honest[name] - narrow[name])
    assert comparison["rmse"].better == "neither"
    assert narrow.compare(honest, draws=400)["crps"].better == "second"
    assert honest.compare(honest)["crps"].difference == 0
    assert comparison == honest.compare(narrow, draws=400)  # seeded
    with pytest.raises(KeyError, match="there are nll, crps"):
        comparison["brier"]
    text = str(comparison)
    assert "paired bootstrap" in text
    assert "calibration_error" in text
    assert max(map(len, text.splitlines())) <= 88


def test_bootstrap_intervals_hold_the_true_difference() -> None:
    # Means 0 and 0.1 of correlated rows: 95 % intervals hold -0.1 in about 95 %.
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        shared = rng.normal(size=150)
        first, second = shared + 0.2 * rng.normal(size=(2, 150))
        result = compare_rows({"crps": first}, {"crps": second + 0.1}, draws=200)
        held += result["crps"].low <= -0.1 <= result["crps"].high
    assert 178 <= held <= 200


def error_interval_excludes_zero(
    n: int, shifts: tuple[float, float], rng: np.random.Generator
) -> float:
    """Share of 200 comparisons of models with shifted laws and correlated rows."""
    excluded = 0
    for _ in range(200):
        z = rng.multivariate_normal(shifts, [[1, 0.5], [0.5, 1]], size=n)
        first, second = torch.from_numpy(z.T.copy()).mul(0.5**0.5).erf().add(1).div(2)
        result = compare_rows(
            {"pit": first.numpy()}, {"pit": second.numpy()}, draws=120
        )["calibration_error"]
        excluded += result.better != "neither"
    return excluded / 200


@pytest.mark.parametrize("shifts", [(0.0, 0.0), (0.3, 0.3), (0.3, -0.3)])
def test_equal_calibration_errors_seldom_look_different(
    shifts: tuple[float, float],
) -> None:
    share = error_interval_excludes_zero(200, shifts, np.random.default_rng(0))
    assert 0.01 < share < 0.1


def test_different_calibration_errors_are_found() -> None:
    share = error_interval_excludes_zero(400, (0.0, 0.25), np.random.default_rng(0))
    assert share > 0.6


def test_comparison_refuses_other_rows_and_targets(honest: Scorecard) -> None:
    mean, spread, y = make(1000)
    again = evaluate((mean.float(), spread.float()), y.float())
    assert abs(honest.compare(again, draws=40)["crps"].difference) < 1e-6
    with pytest.raises(InputError, match="different numbers of rows: 50, 1000"):
        honest.compare(evaluate((mean[:50], spread[:50]), y[:50]))
    turned = evaluate((mean.flip(0), spread.flip(0)), y.flip(0))
    with pytest.raises(
        InputError, match=r"different targets in 1000 of 1000.*one order"
    ):
        honest.compare(turned)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_comparison_shows_the_calibration_error_of_the_card(dtype: torch.dtype) -> None:
    # PIT values on the levels: 0.55 * 20 rounds to more than 11.
    y = torch.arange(1, 101, dtype=dtype) / 100
    y = y[torch.randperm(100)]
    card = evaluate(Uniform01(), y)
    same = card.compare(card, draws=40)["calibration_error"]
    assert same.first == pytest.approx(card["calibration_error"], abs=1e-12)
    samples = evaluate(Empirical(torch.rand(20, 100, dtype=dtype)), y)
    found = samples.compare(card, draws=40)["calibration_error"].first
    assert found == pytest.approx(samples["calibration_error"], rel=1e-12)


@pytest.mark.parametrize("m", [10, 50])
def test_a_perfect_sampler_has_no_fault(m: int) -> None:
    models = 25
    names = ("calibration_error", "coverage_90", "ence", "uce")
    p_values = []
    for seed in range(models):
        generator = torch.Generator().manual_seed(seed)
        mean, spread = torch.rand(2, 300, generator=generator) + 0.5
        y, *draws = mean + spread * torch.randn(m + 1, 300, generator=generator)
        card = evaluate(Empirical(torch.stack(draws)), y)
        assert card.worst is not None
        assert card.distribution_calibration is not None
        p_values.append(
            [
                *(card.measure(name).p_value for name in names),
                card.worst.p_value,
                card.distribution_calibration.p_value,
            ]
        )
    rejected = (np.array(p_values, dtype=float) < 0.05).sum(0)
    assert rejected.max() <= binom.ppf(0.9995, models, 0.05)


@pytest.mark.parametrize(
    "make_law",
    [
        lambda mean: StudentT(1.0, mean, 1.0),
        lambda mean: torch_distributions.Cauchy(mean, torch.ones_like(mean)),
    ],
)
def test_a_law_without_a_mean_gets_a_card(make_law: Callable[[Tensor], object]) -> None:
    mean, _, y = make(200)
    card = evaluate(make_law(mean), y)
    for name in ("crps", "crps_reliability", "crps_resolution", "ence"):
        assert math.isnan(card[name])
        assert card.measure(name).note
    assert card.distribution_calibration is not None
    assert list(card.groups) == ["predicted spread"]
    assert "crps" not in card.rows


def test_nothing_but_a_cdf_gets_a_card() -> None:
    class Logistic:
        def cdf(self, value: Tensor) -> Tensor:
            return value.sigmoid()

    _, _, y = make(100)
    card = evaluate(Logistic(), y)
    assert (card.groups, card.worst, card.distribution_calibration) == ({}, None, None)
    assert json.loads(card.to_json())["worst"] is None
    assert "90 % intervals covered" in str(card)


def test_one_row_gets_a_card_and_one_law_for_all_rows_does_not() -> None:
    card = evaluate(([0.0], [1.0]), [0.3])
    assert card.n == 1
    assert card.worst is None
    assert "so few rows cannot tell" in card.verdict()
    with pytest.raises(
        InputError, match=r"one distribution for each row.*np\.full\(n, std\)"
    ):
        evaluate((0.0, 1.0), [0.3, 0.5])


def test_a_constant_spread_is_no_group_to_look_at() -> None:
    mean, _, y = make(200)
    card = evaluate((mean, torch.ones(200)), y)
    assert len(card.groups["predicted spread"]) == 1
    assert card.worst is None
    card = evaluate((mean, torch.ones(200)), y, features={"mean": mean})
    assert card.worst is not None
    assert card.worst.key == "mean"


def test_says_what_is_wrong_in_a_group_where_the_coverage_is_not() -> None:
    rng = np.random.default_rng(4)
    side = np.arange(1000) % 2
    y = 0.87 * rng.normal(size=1000) + np.where(side == 1, 0.5, -0.5)
    card = evaluate((np.zeros(1000), np.ones(1000)), y, groups={"side": side})
    words = "but where “side” is 1, 73.4 % of the targets of 500 rows there lie above"
    assert words in card.verdict()


def test_says_that_the_shape_is_wrong_where_nothing_else_is() -> None:
    # Two peaks at the quartiles: half the targets below the median, half within 50 %.
    u = np.linspace(0, 1, 1002)[1:-1]
    inner = abs(abs(u - 0.5) - 0.25) < 0.2
    distance = 0.25 + (abs(u[inner] - 0.5) - 0.25) / 4
    u[inner] = 0.5 + distance * np.sign(u[inner] - 0.5)
    words = evaluate(Uniform01(), torch.tensor(u)).verdict()
    assert "have the wrong shape: 5.0 % of the targets lie below the predicted" in words


def test_takes_identifiers_and_missing_names() -> None:
    mean, spread, y = make(200)
    frame = pd.DataFrame(
        {
            "name": pd.array(["a", None] * 100, dtype="string"),
            "flag": pd.array([True, None] * 100, dtype="boolean"),
            "number": pd.Series([1.5, 2.5, None, 4] * 50, dtype=object),
            "id": [f"row {i % 120:03}" for i in range(200)],
            "nothing": pd.Series([None] * 200, dtype=object),
        }
    )
    groups = evaluate((mean, spread), y, features=frame).groups
    assert [each.label for each in groups["name"]] == ["a", "missing"]
    assert [each.label for each in groups["flag"]] == ["1", "missing"]
    assert [each.label for each in groups["nothing"]] == ["missing"]
    assert [each.low for each in groups["number"]] == [1.5, 2.5, 4, None]
    assert len(groups["id"]) == 50
    sizes = {each.label: each.rows for each in groups["id"]}
    assert sizes["other"] == 200 - 2 * 49
    assert sizes["row 000"] == 2
