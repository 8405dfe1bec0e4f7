"""Calibration within groups of rows, and the worst group with an honest p-value."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import PitValues
from calibrant.metrics._counts import (
    Floats,
    Integers,
    check_count,
    check_draws,
    chunks,
    gaps_of_counts,
    level_cells,
    numpy_generator,
    renumbered,
    simulated_counts,
    squared_sum,
)
from calibrant.metrics._keys import Grouping, Key, group_rows
from calibrant.metrics._levels import pit_rows
from calibrant.metrics.bands import coverage_range
from calibrant.metrics.calibration import calibration_error, expected_calibration_error
from calibrant.metrics.noise import noise_floor

__all__ = ["GroupCalibration", "WorstGroup", "calibration_by", "worst_group"]


@dataclass(frozen=True)
class GroupCalibration:
    """Calibration of the rows of one group, beside what a perfect model shows.

    Parameters
    ----------
    label
        Name of the group.
    low, high
        Smallest and largest key in it; ``None`` for names.
    rows
        Number of rows.
    calibration_error
        As :func:`~calibrant.metrics.calibration.calibration_error` (sum).
    floor
        Its expectation for a perfect model on as many rows.
    p_value
        Share of perfect models with at least this error, looking at this group alone.
    coverage_50, coverage_90
        Observed coverage of the central 50 % and 90 % intervals.
    range_50, range_90
        What 95 % of perfect models show there, exact binomial.
    below_median
        Share of targets at most at the predicted median: above 1/2 where they lie
        lower than predicted.
    """

    label: str
    low: float | None
    high: float | None
    rows: int
    calibration_error: float
    floor: float
    p_value: float
    coverage_50: float
    range_50: tuple[float, float]
    coverage_90: float
    range_90: tuple[float, float]
    below_median: float


@dataclass(frozen=True)
class WorstGroup:
    """The group that stands out most among all that were looked at.

    Parameters
    ----------
    key
        Name of the column that makes the group.
    group
        The group; its own ``p_value`` does not know of the others.
    p_value
        Share of perfect models whose worst group, of the same groups, stands out at
        least as much.
    bonferroni
        The group's own p-value times the number of groups, at most 1 (Holm's is the
        same for the smallest): right too, but mostly larger, as groups overlap.
    tested
        Number of groups.
    """

    key: str
    group: GroupCalibration
    p_value: float
    bonferroni: float
    tested: int


def calibration_by(
    pit: ArrayLike | PitValues, key: Key, *, bins: int = 4, levels: int = 20
) -> tuple[GroupCalibration, ...]:
    """Calibration within the groups that a column makes.

    A model can be calibrated over all rows and wrong in every group: too sure for old
    houses, too timid for new ones. Each error stands beside its floor, because a group
    has fewer rows.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    key
        Shape ``(n,)``: a feature, the predicted spread, or names. Numbers with at most
        8 (or ``bins``) distinct values make one group each, others ``bins`` quantile
        groups; equal values stay together, missing ones are a group of their own. Of
        more than 50 names the 49 commonest stay, the others make the group "other".
    bins
        Number of quantile groups.
    levels
        Of the calibration error.

    Returns
    -------
    tuple[GroupCalibration, ...]
        In the order of the key.

    Examples
    --------
    >>> pit = [0.1, 0.3, 0.5, 0.7, 0.9, 0.5, 0.5, 0.5]
    >>> for group in calibration_by(pit, 5 * ["old"] + 3 * ["new"], levels=4):
    ...     print(group.label, group.rows, round(group.calibration_error, 3))
    new 3 0.375
    old 5 0.015
    """
    values = pit_rows(pit)
    grouping = group_rows(key, bins=bins, n=len(values))
    return tuple(
        _one_group(values, grouping, code, levels)
        for code in range(len(grouping.labels))
    )


def worst_group(
    pit: ArrayLike | PitValues,
    keys: Mapping[str, Key],
    *,
    bins: int = 4,
    levels: int = 20,
    draws: int = 1000,
    seed: int = 0,
) -> WorstGroup:
    r"""Find the worst group of all columns, with a p-value that knows of the search.

    Among many groups one looks bad by chance. The statistic is the largest ratio of
    error to floor, :math:`\max_g \mathrm{cal}_g \cdot 6 M n_g / (M^2 - 1)`; its law is
    simulated with uniform PIT values in the SAME groups, so groups that overlap, and
    columns that say the same, are accounted for exactly.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    keys
        Name to column, each as in :func:`calibration_by`.
    bins
        Number of quantile groups of a numeric column.
    levels
        Of the calibration error.
    draws
        Simulated perfect models, at least 40.
    seed
        Of the simulation: the same seed gives the same p-value.

    Returns
    -------
    WorstGroup
        Under perfect calibration its p-value is at most :math:`\alpha` with
        probability at most :math:`\alpha`.

    References
    ----------
    Westfall and Young (1993), *Resampling-Based Multiple Testing* (the single-step
    maximum).

    Examples
    --------
    >>> rows = np.arange(400)
    >>> pit = 0.618034 * rows % 1  # evenly spread, also over every second row
    >>> pit[1::2] = 0.25 + pit[1::2] / 2  # too timid there
    >>> worst = worst_group(pit, {"parity": rows % 2, "row": rows})
    >>> worst.key, worst.group.label, worst.p_value < 0.01
    ('parity', '1', True)
    """
    values = pit_rows(pit)
    draws, levels = check_draws(draws), check_count(levels, name="levels", least=2)
    if not keys:
        raise InputError("keys must name at least one column, got none.")
    groupings = [
        group_rows(key, bins=bins, n=len(values), name=f"keys[{name!r}]")
        for name, key in keys.items()
    ]
    starts = np.cumsum([0, *(len(each.labels) for each in groupings)])
    tested = int(starts[-1])
    codes = np.stack([each.codes for each in groupings]) + starts[:-1, None]
    observed = _ratios(_counts(codes, level_cells(values, levels), tested, levels))
    simulated = _simulated_maxima(
        codes, groups=tested, levels=levels, draws=draws, seed=seed
    )
    worst = int(observed.argmax())
    # Equal values must count although they were summed in another order.
    at_least = int((simulated >= observed[worst] * (1 - 1e-9)).sum())
    column = int(np.searchsorted(starts, worst, side="right")) - 1
    group = _one_group(values, groupings[column], worst - int(starts[column]), levels)
    return WorstGroup(
        key=list(keys)[column],
        group=group,
        p_value=(1 + at_least) / (1 + draws),
        bonferroni=min(1.0, tested * group.p_value),
        tested=tested,
    )


def _one_group(
    values: Tensor, grouping: Grouping, code: int, levels: int
) -> GroupCalibration:
    pit = values[np.flatnonzero(grouping.codes == code)]
    rows = len(pit)
    error = calibration_error(pit, levels=levels)
    distance = (pit - 0.5).abs()
    return GroupCalibration(
        label=grouping.labels[code],
        low=grouping.low[code],
        high=grouping.high[code],
        rows=rows,
        calibration_error=error,
        floor=expected_calibration_error(rows, levels=levels),
        p_value=noise_floor(n=rows, levels=levels).p_value(error),
        coverage_50=float((distance <= 0.25).double().mean()),
        range_50=coverage_range(0.5, rows),
        coverage_90=float((distance <= 0.45).double().mean()),
        range_90=coverage_range(0.9, rows),
        below_median=float((pit <= 0.5).double().mean()),
    )


def _counts(codes: Integers, cells: Integers, groups: int, levels: int) -> Integers:
    """Rows per group and level, ``(groups, levels)``; codes are ``(keys, n)``."""
    flat = np.bincount((codes * levels + cells).reshape(-1), minlength=groups * levels)
    return flat.reshape(groups, levels)


def _ratios(counts: Integers | Floats) -> Floats:
    """Calibration error over its floor, ``(..., groups, levels) -> (..., groups)``."""
    levels = counts.shape[-1]
    per_row = expected_calibration_error(1, levels=levels)
    ratios: Floats = squared_sum(gaps_of_counts(counts)) * counts.sum(-1) / per_row
    return ratios


def _simulated_maxima(
    codes: Integers, *, groups: int, levels: int, draws: int, seed: int
) -> Floats:
    """Largest ratio over all groups for each of ``draws`` perfect models."""
    rng = numpy_generator(seed)
    # Rows that share all their groups are alike: their counts are multinomial.
    blocks, rows = _distinct_columns(codes)
    if len(rows) * levels >= codes.shape[1]:
        largest = np.empty(draws)
        for draw in range(draws):
            cells = np.asarray(rng.integers(levels, size=codes.shape[1]))
            largest[draw] = _ratios(_counts(codes, cells, groups, levels)).max()
        return largest
    member = np.zeros((groups, len(rows)), dtype=np.int64)
    member[blocks, np.arange(len(rows))] = 1
    parts = [
        _ratios(member @ simulated_counts(rng, rows, levels=levels, draws=size)).max(-1)
        for size in chunks(draws, levels * (len(rows) + groups))
    ]
    return np.concatenate(parts)


def _distinct_columns(codes: Integers) -> tuple[Integers, Integers]:
    """Distinct columns of ``(keys, n)`` in lexicographic order, and their counts."""
    combined = codes[0]
    for each in codes[1:]:
        # Anew after each key: products of many keys would overflow.
        combined = combined * (int(each.max()) + 1) + each
        combined = np.unique(combined, return_inverse=True)[1].reshape(-1)
    combined = renumbered(combined)
    rows = np.bincount(combined)
    example = np.empty(len(rows), dtype=np.int64)
    example[combined] = np.arange(len(combined))
    return codes[:, example], rows
