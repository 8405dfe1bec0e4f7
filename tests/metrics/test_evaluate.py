"""evaluate, the scorecard and the paired comparison of two models."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from calibrant import Empirical, Gaussian, InputError, StudentT
from calibrant.metrics import METRICS
from calibrant.metrics.comparison import compare_rows
from calibrant.metrics.evaluate import evaluate
from calibrant.metrics.noise import noise_floor
from calibrant.metrics.scorecard import Scorecard


def make(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(100 + seed)
    mean, noise = torch.tensor(rng.normal(size=(2, n)))
    spread = torch.tensor(rng.uniform(0.5, 1.5, size=n))
    return mean, spread, mean + spread * noise


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
    assert len(with_floor) == 9


def test_says_in_words_whether_there_is_a_fault(
    honest: Scorecard, narrow: Scorecard
) -> None:
    assert "no fault can be seen" in honest.verdict()
    assert "90 % intervals hold" in narrow.verdict()
    assert "a real fault" in narrow.verdict()
    assert "it is worst" in narrow.verdict()
    assert narrow.worst.p_value < 0.01 < 0.05 < honest.worst.p_value
    assert narrow.distribution_calibration.p_value < 0.01


def test_prints_as_a_table(narrow: Scorecard) -> None:
    text = str(narrow)
    assert "1,000 rows" in text
    assert "perfect model" in text
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
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as capture:
        console.print(comparison)
    assert "paired bootstrap" in capture.get()


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


def test_comparison_refuses_other_rows(honest: Scorecard) -> None:
    mean, spread, y = make(50)
    with pytest.raises(InputError, match="different numbers of rows: 50, 1000"):
        honest.compare(evaluate((mean, spread), y))
