"""Metrics over batches and ranks, as torchmetrics (the extra ``metrics``).

Each keeps a few sums, no list of predictions, so that its state does not grow with the
data and ranks are merged by adding. Results are those of the one-shot functions.
"""

import zlib
from typing import Any

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, check_between
from calibrant.distributions.base import AbstractDistribution
from calibrant.metrics._counts import torch_generator
from calibrant.metrics._levels import (
    Kind,
    Levels,
    count_at_most,
    fold,
    pit_rows,
    promised_levels,
)
from calibrant.metrics._rows import no_nan, rows
from calibrant.metrics.calibration import Reduction, reduce_gaps
from calibrant.metrics.coverage import covered
from calibrant.metrics.pit import TargetGrid, pit_values, recorded_pit
from calibrant.scores import Prediction, crps, nll

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
    """Count rows; final classes add the sums that they need."""

    higher_is_better: bool | None = False
    is_differentiable = False
    full_state_update = False

    rows_seen: Tensor

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  (torchmetrics' own)
        super().__init__(**options)
        self.add_state("rows_seen", torch.tensor(0), dist_reduce_fx="sum")

    def _share(self, total: Tensor) -> Tensor:
        """Divide by the number of rows, in float64."""
        if self.rows_seen == 0:
            raise InputError("nothing to compute: call update(distribution, y) first.")
        return total.double() / self.rows_seen


class StreamingCalibrationError(_Streaming):
    """Calibration error over batches, equal to ``calibration_error`` of all PIT values.

    A batch is too small to tell whether targets are rounded: without ``grid`` they are
    taken as they are, and then even a perfect model shows an error, which
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

    counts: Tensor
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
        super().__init__(**options)
        promised = promised_levels(levels)
        reduce_gaps(promised, reduction)  # refuse bad options now, not after an epoch
        fold(promised, kind)
        self.reduction: Reduction = reduction
        self.kind: Kind = kind
        self.grid = grid
        self.levels = promised
        zero = torch.zeros(len(promised), dtype=torch.int64)
        self.add_state("counts", zero, dist_reduce_fx="sum")

    @torch.no_grad()
    def update(self, distribution: Prediction, y: ArrayLike) -> None:
        """Add a batch of laws and targets of shape ``(n,)``."""
        law, target = rows(distribution, y)
        pit = _batch_pit(law, target, self.grid)
        values = fold(pit_rows(pit), self.kind)
        self.counts += count_at_most(values, self.levels).to(self.counts.device)
        self.rows_seen += len(values)

    def compute(self) -> Tensor:
        """Return the error of all rows so far, shape ``()``."""
        observed = self._share(self.counts)
        return reduce_gaps(self.levels.to(observed) - observed, self.reduction)


def _batch_pit(
    law: AbstractDistribution, target: Tensor, grid: TargetGrid | None
) -> Tensor:
    """PIT values of a batch, whose random numbers no other batch or rank repeats."""
    seed = zlib.crc32(target.detach().cpu().numpy().tobytes())
    generator = torch_generator(seed, target.device)
    if grid is None:
        return recorded_pit(law, target, None, generator=generator)
    return pit_values(law, target, grid=grid, generator=generator)


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
    inside: Tensor

    def __init__(
        self,
        *,
        level: float = 0.9,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**options)
        self.level = check_between(level, 0, 1, name="level")
        self.add_state("inside", torch.tensor(0), dist_reduce_fx="sum")

    @torch.no_grad()
    def update(self, distribution: Prediction, y: ArrayLike) -> None:
        """Add a batch of laws and targets of shape ``(n,)``."""
        law, target = rows(distribution, y)
        self.inside += covered(law, target, self.level).sum().to(self.inside.device)
        self.rows_seen += len(target)

    def compute(self) -> Tensor:
        """Return the share of all rows so far that were covered, shape ``()``."""
        return self._share(self.inside)


class _StreamingMean(_Streaming):
    """Mean of a score; the sum is kept in float64."""

    total: Tensor

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        zero = torch.tensor(0.0, dtype=torch.float64)
        self.add_state("total", zero, dist_reduce_fx="sum")

    def _add(self, each: Tensor) -> None:
        self.total += no_nan(each).double().sum().to(self.total.device)
        self.rows_seen += len(each)

    def compute(self) -> Tensor:
        """Return the mean over all rows so far, shape ``()``."""
        return self._share(self.total)


class StreamingCRPS(_StreamingMean):
    """Mean CRPS over batches, equal to that of all rows.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> metric = StreamingCRPS()
    >>> metric.update(Gaussian([0.0], [1.0]), [0.0])
    >>> round(metric.compute().item(), 4)
    0.2337
    """

    @torch.no_grad()
    def update(self, distribution: Prediction, y: ArrayLike) -> None:
        """Add a batch of laws and targets of shape ``(n,)``."""
        self._add(crps(*rows(distribution, y)))


class StreamingNLL(_StreamingMean):
    """Mean negative log-likelihood over batches, in the units of the target.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> metric = StreamingNLL()
    >>> metric.update(Gaussian([0.0], [1.0]), [0.0])
    >>> round(metric.compute().item(), 4)
    0.9189
    """

    @torch.no_grad()
    def update(self, distribution: Prediction, y: ArrayLike) -> None:
        """Add a batch of laws and targets of shape ``(n,)``."""
        self._add(nll(*rows(distribution, y)))
