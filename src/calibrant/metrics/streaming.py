"""Metrics over batches and ranks, as torchmetrics (the extra ``metrics``).

Each keeps a few sums, no list of predictions, so that its state does not grow with the
data and ranks are merged by adding. Results equal those of the one-shot functions.
"""

import zlib
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions.base import AbstractDistribution
from calibrant.metrics.calibration import (
    Kind,
    Levels,
    Reduction,
    count_at_most,
    covered,
    fold,
    nominal_levels,
    pit_rows,
    reduce_gaps,
)
from calibrant.metrics.pit import (
    TargetGrid,
    no_nan,
    pit_values,
    recorded_pit,
    rows,
    torch_generator,
)
from calibrant.scores import Prediction
from calibrant.validation import ArrayLike, InputError, check_between

try:
    from torchmetrics import Metric
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the streaming metrics need torchmetrics, which is not installed. "
        "Run: pip install 'calibrant[metrics]'"
    ) from error

__all__ = [
    "StreamingCRPS",
    "StreamingCalibrationError",
    "StreamingCoverage",
    "StreamingNLL",
]


class _Streaming(Metric):
    """A sum over rows, of shape ``size``, and their number."""

    higher_is_better: bool | None = False
    is_differentiable = False
    full_state_update = False

    total: Tensor
    rows_seen: Tensor

    def __init__(self, *size: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        zero = torch.zeros(size, dtype=torch.float64)
        self.add_state("total", zero, dist_reduce_fx="sum")
        self.add_state("rows_seen", torch.tensor(0), dist_reduce_fx="sum")

    @torch.no_grad()
    def update(self, distribution: Prediction, y: ArrayLike) -> None:
        """Add a batch of predictions and targets of shape ``(n,)``."""
        predictive, target = rows(distribution, y)
        total = self._total(predictive, target)
        self.total += total.double().to(self.total.device)
        self.rows_seen += len(target)

    def _total(self, predictive: AbstractDistribution, target: Tensor) -> Tensor:
        """Sum over the rows of a batch, of shape ``size``."""
        raise NotImplementedError

    def compute(self) -> Tensor:
        """Return the mean over all rows so far, shape ``()``."""
        if self.rows_seen == 0:
            raise InputError("nothing to compute: call update(distribution, y) first.")
        return self.total / self.rows_seen


class StreamingCalibrationError(_Streaming):
    """Calibration error over batches, equal to ``calibration_error`` of all PIT values.

    A batch is too small to tell whether targets are rounded: without ``grid`` they are
    taken as they are, and then even a perfectly calibrated model shows an error, which
    ``METRICS["calibration_error"]`` and ``evaluate`` do not count. Samples give ranks,
    as in :func:`~calibrant.metrics.pit.pit_values`.

    Parameters
    ----------
    levels, reduction, kind
        As in :func:`~calibrant.metrics.calibration.calibration_error`.
    grid
        What rounded or capped targets stand for: ``detect_grid(y)`` of all targets.
        The randomized PIT values differ from those of one call, by noise.
    options
        torchmetrics' own, such as ``sync_on_compute``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> metric = StreamingCalibrationError(levels=2)
    >>> for y in ([-1.0, 2.0], [0.5, -0.1]):
    ...     metric.update(Gaussian([0.0, 0.0], 1.0), y)
    >>> metric.compute().item()
    0.0
    """

    levels: Tensor

    def __init__(
        self,
        *,
        levels: Levels = 20,
        reduction: Reduction = "sum",
        kind: Kind = "quantile",
        grid: TargetGrid | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        nominal = nominal_levels(levels)
        reduce_gaps(nominal, reduction)  # refuse bad options now, not after an epoch
        fold(nominal, kind)
        super().__init__(len(nominal), **options)
        self.reduction: Reduction = reduction
        self.kind: Kind = kind
        self.grid = grid
        self.levels = nominal

    def _total(self, predictive: AbstractDistribution, target: Tensor) -> Tensor:
        # The random numbers of a batch are those of no other batch or rank.
        seed = zlib.crc32(target.detach().cpu().numpy().tobytes())
        generator = torch_generator(seed, target.device)
        if self.grid is None:
            pit = recorded_pit(predictive, target, None, generator=generator)
        else:
            pit = pit_values(predictive, target, grid=self.grid, generator=generator)
        return count_at_most(fold(pit_rows(pit), self.kind), self.levels.cpu())

    def compute(self) -> Tensor:
        """Return the error of all rows so far, shape ``()``."""
        observed = super().compute()
        return reduce_gaps(self.levels.to(observed) - observed, self.reduction)


class StreamingCoverage(_Streaming):
    """Coverage over batches, equal to ``coverage`` of all rows.

    The literal share, also of rounded targets.

    Parameters
    ----------
    level
        Strictly between 0 and 1.
    options
        torchmetrics' own.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> metric = StreamingCoverage(level=0.9)
    >>> metric.update(Gaussian([0.0, 0.0], 1.0), [1.0, 2.0])
    >>> metric.compute().item()
    0.5
    """

    higher_is_better = None

    def __init__(self, *, level: float = 0.9, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self.level = check_between(level, 0, 1, name="level")

    def _total(self, predictive: AbstractDistribution, target: Tensor) -> Tensor:
        return covered(predictive, target, self.level).sum()


class StreamingCRPS(_Streaming):
    """Mean CRPS over batches, equal to that of all rows.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> metric = StreamingCRPS()
    >>> metric.update(Gaussian([0.0], [1.0]), [0.0])
    >>> round(metric.compute().item(), 4)
    0.2337
    """

    def _total(self, predictive: AbstractDistribution, target: Tensor) -> Tensor:
        return no_nan(predictive.crps(target)).double().sum()


class StreamingNLL(_Streaming):
    """Mean negative log-likelihood over batches, in the units of the target.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> metric = StreamingNLL()
    >>> metric.update(Gaussian([0.0], [1.0]), [0.0])
    >>> round(metric.compute().item(), 4)
    0.9189
    """

    def _total(self, predictive: AbstractDistribution, target: Tensor) -> Tensor:
        return -no_nan(predictive.log_prob(target)).double().sum()
