"""Metrics over batches equal those of all rows, however the rows are split."""

import importlib
import sys

import pytest
import torch
from torch import Tensor

from calibrant import Empirical, Gaussian, InputError
from calibrant.metrics import METRICS, streaming
from calibrant.metrics.calibration import calibration_error
from calibrant.metrics.pit import GriddedTargetWarning, TargetGrid
from calibrant.metrics.streaming import (
    StreamingCalibrationError,
    StreamingCoverage,
    StreamingCRPS,
    StreamingNLL,
    _Streaming,
)

UNITS = TargetGrid(step=1)
EVERY = pytest.mark.parametrize(
    ("kind", "name"),
    [
        (StreamingCalibrationError, "calibration_error"),
        (StreamingCoverage, "coverage"),
        (StreamingCRPS, "crps"),
        (StreamingNLL, "nll"),
    ],
)


@pytest.fixture
def law(generator: torch.Generator) -> Gaussian:
    mean = torch.randn(500, generator=generator)
    return Gaussian(mean, 0.5 + torch.rand(500, generator=generator))


@pytest.fixture
def y(law: Gaussian, generator: torch.Generator) -> Tensor:
    return law.mean + 1.3 * torch.randn(500, generator=generator)


def feed(metric: _Streaming, law: Gaussian, y: Tensor, seed: int) -> None:
    """Update with random batches of the rows in random order."""
    source = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=source)
    sizes = torch.randint(1, 90, (len(y),), generator=source)
    ends = sizes.cumsum(0)
    for batch in torch.tensor_split(order, ends[ends < len(y)]):
        metric.update(law[batch], y[batch])


@EVERY
@pytest.mark.parametrize("seed", range(5))
def test_equal_to_all_rows_at_once(
    kind: type[_Streaming], name: str, seed: int, law: Gaussian, y: Tensor
) -> None:
    metric = kind()
    feed(metric, law, y, seed)
    assert metric.compute().item() == pytest.approx(METRICS[name](law, y), rel=1e-14)


@pytest.mark.parametrize("levels", [20, 7, [0.9, 0.1, 0.5]])
@pytest.mark.parametrize("reduction", ["sum", "mean", "root_mean"])
@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_calibration_error_is_exactly_that_of_all_rows(
    levels: object, reduction: str, kind: str, law: Gaussian, y: Tensor
) -> None:
    options = {"levels": levels, "reduction": reduction, "kind": kind}
    metric = StreamingCalibrationError(**options)  # type: ignore[arg-type]
    feed(metric, law, y, seed=1)
    at_once = calibration_error(law.cdf(y), **options)  # type: ignore[arg-type]
    assert metric.compute().item() == at_once


@EVERY
def test_ranks_merge_by_adding(
    kind: type[_Streaming], name: str, law: Gaussian, y: Tensor
) -> None:
    ranks = [kind() for _ in range(3)]
    for rank, rows in zip(ranks, torch.arange(500).split(200), strict=True):
        feed(rank, law[rows], y[rows], seed=0)
    # What a reduction over ranks does with states declared as sums.
    reductions = ranks[0]._reductions.values()
    assert {function.__name__ for function in reductions} == {"dim_zero_sum"}
    whole = kind()
    for state in whole._defaults:
        setattr(whole, state, sum(getattr(rank, state) for rank in ranks))
    whole._update_count = 1
    expected = METRICS[name](law, y)
    assert whole.compute().item() == pytest.approx(expected, rel=1e-14)

    first, *others = ranks
    for other in others:
        first.merge_state(other)
    assert first.compute().item() == pytest.approx(expected, rel=1e-14)


@EVERY
@pytest.mark.filterwarnings("ignore:The ``compute`` method:UserWarning")
def test_nothing_seen_is_refused(kind: type[_Streaming], name: str) -> None:
    with pytest.raises(InputError, match=r"call update\(distribution, y\) first"):
        kind().compute()
    assert name in METRICS


@EVERY
def test_batches_that_do_not_fit_are_refused(
    kind: type[_Streaming], name: str, law: Gaussian, y: Tensor
) -> None:
    metric = kind()
    with pytest.raises(InputError, match="y must have"):
        metric.update(law, y[:, None])
    with pytest.raises(InputError, match="y must be finite"):
        metric.update(law, torch.full_like(y, torch.nan))
    metric.update(law, y)
    assert metric.compute().item() == pytest.approx(METRICS[name](law, y))


def test_float32_batches_are_summed_in_float64(law: Gaussian, y: Tensor) -> None:
    metric = StreamingNLL()
    single = Gaussian(law.mean.float(), law.stddev.float())
    metric.update(single, y.float())
    assert metric.compute().dtype == torch.float64
    assert metric.compute().item() == METRICS["nll"](single, y.float())


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (StreamingCalibrationError, {"levels": 0}, "levels must be a whole number"),
        (StreamingCalibrationError, {"reduction": "max"}, "reduction must be one of"),
        (StreamingCalibrationError, {"kind": "middle"}, "kind must be"),
        (StreamingCoverage, {"level": 90}, "level must lie strictly between 0 and 1"),
    ],
)
def test_bad_options_are_refused_at_once(
    kind: type[_Streaming], options: dict[str, object], text: str
) -> None:
    with pytest.raises(InputError, match=text):
        kind(**options)


def test_rounded_targets_need_a_grid(generator: torch.Generator) -> None:
    law = Gaussian(5 + 0.1 * torch.randn(2000, generator=generator), 0.7)
    y = law.sample(generator=generator).round()
    plain, fair = StreamingCalibrationError(), StreamingCalibrationError(grid=UNITS)
    for metric in (plain, fair):
        feed(metric, law, y, seed=3)
    assert plain.compute().item() == calibration_error(law.cdf(y))
    with pytest.warns(GriddedTargetWarning):
        expected = METRICS["calibration_error"](law, y)
    assert fair.compute().item() == pytest.approx(expected, abs=0.01)
    assert plain.compute().item() > 3 * expected
    with pytest.raises(InputError, match="lie on the grid"):
        fair.update(law, y + 0.3)


def test_batches_of_samples_do_not_share_their_random_numbers() -> None:
    metric = StreamingCalibrationError(levels=2)
    for i in range(400):  # 1 row each: the same random number would give 0 or 1
        metric.update(Empirical(torch.tensor([[0.0]])), [1e-3 * i - 0.2])
    assert metric.compute().item() < 0.01


def test_missing_torchmetrics_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(ModuleNotFoundError, match=r"calibrant\[metrics\]"):
        importlib.reload(streaming)
