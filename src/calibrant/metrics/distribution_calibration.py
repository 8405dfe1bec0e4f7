"""Calibration given what was predicted: the stronger notion of Song et al."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import Distribution, PitValues
from calibrant.metrics._counts import (
    Integers,
    check_count,
    check_draws,
    gaps_of_counts,
    level_cells,
    quantile_codes,
    renumbered,
    simulated_gaps,
    squared_sum,
)
from calibrant.metrics._rows import center_and_spread, rows
from calibrant.metrics.calibration import expected_calibration_error
from calibrant.metrics.pit import pit_values

__all__ = ["DistributionCalibration", "distribution_calibration"]

#: A group of fewer rows says nothing.
_SMALLEST_GROUP = 20


@dataclass(frozen=True)
class DistributionCalibration:
    """Mean calibration error within groups of alike predictions, beside its floor.

    Parameters
    ----------
    value
        Weighted mean over groups of the calibration error (sum over levels).
    floor
        Its expectation for a perfect model in the same groups.
    excess
        ``value - floor``: 0 on average for a perfect model, so it can be negative.
    p_value
        Share of perfect models with at least this value.
    groups
        Number of groups.
    n
        Number of rows.
    """

    value: float
    floor: float
    excess: float
    p_value: float
    groups: int
    n: int


def distribution_calibration(
    distribution: Any,  # noqa: ANN401  (see the parameters)
    y: ArrayLike,
    *,
    bins: int = 4,
    levels: int = 20,
    draws: int = 2000,
    seed: int = 0,
    pit: ArrayLike | PitValues | None = None,
) -> DistributionCalibration:
    r"""Calibration error among rows that were predicted alike.

    A model is distribution calibrated if, among all rows for which it predicts the law
    :math:`F`, the targets follow :math:`F`. Then PIT values are uniform given the
    prediction, and not only over all rows: a model that is too sure where it predicts
    a small spread and too timid where it predicts a large one can have uniform PIT
    values. Rows are cut into quantile groups of the predicted mean, and each of these
    into quantile groups of the predicted spread:

    .. math::
        \sum_g \frac{n_g}{n} \, \mathrm{cal}(\{u_i : i \in g\}) ,
        \qquad \text{floor} = G \, \frac{M^2 - 1}{6 M n} .

    The p-value is exact up to simulation, because the groups depend on the predictions
    alone; those of samples on samples and target together, none of which they prefer.

    Parameters
    ----------
    distribution
        Predicted laws of shape ``(n,)``: anything that
        :func:`~calibrant.distributions.conversion.as_distribution` takes.
    y
        Held-out targets, shape ``(n,)``; rounded or capped ones are treated as
        :func:`~calibrant.metrics.pit.pit_values` says.
    bins
        Groups of the mean, and of the spread within each: at most ``bins ** 2``
        groups, fewer where they would have less than 20 rows.
    levels
        :math:`M`.
    draws
        Simulated perfect models, at least 40.
    seed
        Of the simulation.
    pit
        PIT values of ``y``, when they have been computed already.

    Returns
    -------
    DistributionCalibration
        Value, floor and p-value.

    References
    ----------
    Song, Diethe, Kull and Flach (2019), *Distribution Calibration for Regression*,
    arXiv:1905.06023.

    Examples
    --------
    >>> import torch
    >>> noise = torch.randn(800, generator=torch.Generator().manual_seed(0))
    >>> spread = torch.linspace(0.5, 2.0, 800)
    >>> distribution_calibration((torch.zeros(800), spread), spread * noise).groups
    4
    """
    check_count(bins, name="bins")
    check_count(levels, name="levels", least=2)
    law, target = rows(distribution, y)
    cells = level_cells(pit_values(law, target) if pit is None else pit, levels)
    if len(cells) != len(target):
        raise InputError(
            f"pit must have one value for each of {len(target)} targets, got "
            f"{len(cells)}."
        )
    codes = _prediction_codes(law, target, bins)
    groups = int(codes.max()) + 1
    counts = np.bincount(codes * levels + cells, minlength=groups * levels)
    counts = counts.reshape(groups, levels)
    size = counts.sum(-1)
    weight = size / size.sum()
    value = float(squared_sum(gaps_of_counts(counts)) @ weight)
    simulated = (
        simulated_gaps(size, levels=levels, draws=check_draws(draws), seed=seed)
        @ weight
    )
    # Equal values must count although they were summed in another order.
    at_least = int((simulated >= value * (1 - 1e-9)).sum())
    floor = groups * expected_calibration_error(len(codes), levels=levels)
    p_value = (1 + at_least) / (1 + draws)
    return DistributionCalibration(
        value, floor, value - floor, p_value, groups, len(codes)
    )


def _prediction_codes(law: Distribution, target: Tensor, bins: int) -> Integers:
    """Code of each row by predicted mean and, within that, by predicted spread."""
    mean, spread = (each.cpu().numpy() for each in center_and_spread(law, target))
    groups = max(1, min(bins * bins, len(mean) // _SMALLEST_GROUP))
    # A spread that does not follow the data is the commoner fault: it gets the groups
    # that are left over when there are too few rows for all.
    spreads = min(bins, groups)
    outer = quantile_codes(mean, groups // spreads)
    codes = np.zeros_like(outer)
    for code in range(int(outer.max()) + 1):
        inner = quantile_codes(spread[outer == code], spreads)
        codes[outer == code] = code * spreads + inner
    return renumbered(codes)
