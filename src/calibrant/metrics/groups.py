"""Calibration within groups of rows, and the worst group with an honest p-value."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from calibrant.metrics.calibration import (
    Pit,
    calibration_error,
    expected_calibration_error,
    level_cells,
    pit_rows,
)
from calibrant.metrics.floors import (
    chunks,
    coverage_range,
    gaps_of_counts,
    noise_floor,
    simulated_counts,
    squared_sum,
)
from calibrant.metrics.pit import (
    Floats,
    Integers,
    center_and_spread,
    check_count,
    check_draws,
    numpy_generator,
    pit_values,
    rows,
)
from calibrant.protocols import Distribution
from calibrant.validation import ArrayLike, InputError

__all__ = [
    "DistributionCalibration",
    "GroupCalibration",
    "WorstGroup",
    "calibration_by",
    "distribution_calibration",
    "worst_group",
]

Key = ArrayLike | npt.NDArray[np.object_]
#: A column with no more distinct values makes one group of each.
_FEW = 8
_MISSING = "missing"
#: More names than these (identifiers) make groups too small to say anything.
_MOST_NAMES = 50
_OTHER = "other"
#: Groups of alike predictions have at least so many rows.
_SMALLEST_GROUP = 20


@dataclass(frozen=True)
class GroupCalibration:
    """Calibration of the rows of one group, next to what perfect calibration shows.

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
        Its expectation under perfect calibration on as many rows.
    p_value
        Probability of at least this error, looking at this group alone.
    coverage_50, coverage_90
        Observed coverage of the central 50 % and 90 % intervals.
    range_50, range_90
        Their 95 % ranges under perfect calibration, exact binomial.
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
    """The group that stands out most among all that were tested.

    Parameters
    ----------
    key
        Name of the column that makes the group.
    group
        The group; its own ``p_value`` does not know of the others.
    p_value
        Probability that, under perfect calibration, the worst of the same groups stands
        out at least as much.
    tested
        Number of groups.
    """

    key: str
    group: GroupCalibration
    p_value: float
    tested: int


@dataclass(frozen=True)
class DistributionCalibration:
    """Mean calibration error within groups of alike predictions, next to its floor.

    Parameters
    ----------
    value
        Weighted mean over groups of the calibration error (sum over levels).
    floor
        Its expectation under perfect calibration in the same groups.
    excess
        ``value - floor``: 0 on average under perfect calibration, at times negative.
    p_value
        Probability of at least this value under perfect calibration.
    groups, n
        Number of groups and of rows.
    """

    value: float
    floor: float
    excess: float
    p_value: float
    groups: int
    n: int


def calibration_by(
    pit: Pit, key: Key, *, bins: int = 4, levels: int = 20
) -> tuple[GroupCalibration, ...]:
    """Calibration within the groups that a column makes, in the order of the column.

    A model can be calibrated over all rows and wrong in every group: overconfident for
    old houses, underconfident for new ones.

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

    Examples
    --------
    >>> pit = [0.1, 0.3, 0.5, 0.7, 0.9, 0.5, 0.5, 0.5]
    >>> for group in calibration_by(pit, 5 * ["old"] + 3 * ["new"], levels=4):
    ...     print(group.label, group.rows, round(group.calibration_error, 3))
    new 3 0.375
    old 5 0.015
    """
    values = pit_rows(pit)
    grouping = _group_rows(key, bins=bins, n=len(values))
    return tuple(
        _one_group(values, grouping, code, levels)
        for code in range(len(grouping.labels))
    )


def worst_group(
    pit: Pit,
    keys: Mapping[str, Key],
    *,
    bins: int = 4,
    levels: int = 20,
    draws: int = 1000,
    seed: int = 0,
) -> WorstGroup:
    r"""Find the worst group of all columns, with a p-value that knows of the search.

    Among many groups one looks bad by chance. The statistic is the largest ratio of
    error to floor, :math:`\max_g \mathrm{cal}_g \cdot 6 M n_g / (M^2 - 1)`; its
    distribution is simulated with uniform PIT values in the same groups, so groups that
    overlap, and columns that say the same, are accounted for exactly.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    keys
        Name to column, each as in :func:`calibration_by`.
    bins, levels
        As in :func:`calibration_by`.
    draws, seed
        Number of simulations, at least 40, and their seed.

    References
    ----------
    Westfall and Young (1993), *Resampling-Based Multiple Testing* (the single-step
    maximum).

    Examples
    --------
    >>> rows = np.arange(400)
    >>> pit = 0.618034 * rows % 1  # evenly spread, also over every second row
    >>> pit[1::2] = 0.25 + pit[1::2] / 2  # underconfident there
    >>> worst = worst_group(pit, {"parity": rows % 2, "row": rows})
    >>> worst.key, worst.group.label, worst.p_value < 0.01
    ('parity', '1', True)
    """
    values = pit_rows(pit)
    draws, levels = check_draws(draws), check_count(levels, name="levels", least=2)
    if not keys:
        raise InputError("keys must name at least one column, got none.")
    groupings = [
        _group_rows(key, bins=bins, n=len(values), name=f"keys[{name!r}]")
        for name, key in keys.items()
    ]
    starts = np.cumsum([0, *(len(grouping.labels) for grouping in groupings)])
    tested = int(starts[-1])
    codes = np.stack([grouping.codes for grouping in groupings]) + starts[:-1, None]
    observed = _ratios(_counts(codes, level_cells(values, levels), tested, levels))
    rng = numpy_generator(seed)
    simulated = _simulated_maxima(codes, tested, levels, draws, rng)
    worst = int(observed.argmax())
    column = int(np.searchsorted(starts, worst, side="right")) - 1
    group = _one_group(values, groupings[column], worst - int(starts[column]), levels)
    p_value = _p_value(simulated, float(observed[worst]))
    return WorstGroup(list(keys)[column], group, p_value, tested)


def distribution_calibration(
    distribution: Any,  # noqa: ANN401  (whatever as_distribution takes)
    y: ArrayLike,
    *,
    bins: int = 4,
    levels: int = 20,
    draws: int = 2000,
    seed: int = 0,
    pit: Pit | None = None,
) -> DistributionCalibration:
    r"""Calibration error among rows with alike predictions.

    A model is distribution calibrated if, among all rows for which it predicts
    :math:`F`, the targets follow :math:`F`. Then PIT values are uniform given the
    prediction, and not only over all rows: overconfidence at small predicted spreads
    and underconfidence at large ones can cancel. Rows are cut into quantile groups of
    the predicted mean, and each of these into quantile groups of the predicted spread:

    .. math::
        \sum_g \frac{n_g}{n} \, \mathrm{cal}(\{u_i : i \in g\}) ,
        \qquad \text{floor} = G \, \frac{M^2 - 1}{6 M n} .

    The p-value is exact up to simulation, because the groups depend on the predictions
    alone; those of samples on samples and target together.

    Parameters
    ----------
    distribution
        Predictions of shape ``(n,)``.
    y
        Held-out targets, shape ``(n,)``; rounded or capped ones are treated as
        :func:`~calibrant.metrics.pit.pit_values` says.
    bins
        Groups of the mean, and of the spread within each: at most ``bins ** 2``
        groups, fewer where they would have less than 20 rows.
    levels
        :math:`M`.
    draws, seed
        Of the simulation.
    pit
        PIT values of ``y``, when they have been computed already.

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
    predictive, target = rows(distribution, y)
    cells = level_cells(pit_values(predictive, target) if pit is None else pit, levels)
    n = len(target)
    if len(cells) != n:
        raise InputError(
            f"pit must have one value for each of {n} targets, got {len(cells)}."
        )
    codes = _prediction_codes(predictive, target, bins)
    groups = int(codes.max()) + 1
    counts = _counts(codes[None], cells, groups, levels)
    size = counts.sum(-1)

    def mean_error(counts: Integers | Floats) -> Floats:
        error: Floats = squared_sum(gaps_of_counts(counts)) @ (size / n)
        return error

    simulated = _simulated(
        mean_error, size, levels, check_draws(draws), numpy_generator(seed)
    )
    value = float(mean_error(counts))
    floor = groups * expected_calibration_error(n, levels=levels)
    p_value = _p_value(simulated, value)
    return DistributionCalibration(value, floor, value - floor, p_value, groups, n)


def _p_value(simulated: Floats, observed: float) -> float:
    # Equal values must count although they were summed in another order.
    at_least = int((simulated >= observed * (1 - 1e-9)).sum())
    return (1 + at_least) / (1 + len(simulated))


def _one_group(
    values: Tensor, grouping: "_Grouping", code: int, levels: int
) -> GroupCalibration:
    pit = values[np.flatnonzero(grouping.codes == code)]
    size = len(pit)
    error = calibration_error(pit, levels=levels)
    distance = (pit - 0.5).abs()
    return GroupCalibration(
        label=grouping.labels[code],
        low=grouping.low[code],
        high=grouping.high[code],
        rows=size,
        calibration_error=error,
        floor=expected_calibration_error(size, levels=levels),
        p_value=noise_floor(n=size, levels=levels).p_value(error),
        coverage_50=float((distance <= 0.25).double().mean()),
        range_50=coverage_range(0.5, size),
        coverage_90=float((distance <= 0.45).double().mean()),
        range_90=coverage_range(0.9, size),
        below_median=float((pit <= 0.5).double().mean()),
    )


def _counts(codes: Integers, cells: Integers, groups: int, levels: int) -> Integers:
    """Rows per group and level, ``(groups, levels)``; codes are ``(keys, n)``."""
    flat = np.bincount((codes * levels + cells).reshape(-1), minlength=groups * levels)
    return flat.reshape(groups, levels)


def _ratios(counts: Integers | Floats) -> Floats:
    """Calibration error over its floor, ``(..., groups, levels) -> (..., groups)``."""
    per_row = expected_calibration_error(1, levels=counts.shape[-1])
    ratios: Floats = squared_sum(gaps_of_counts(counts)) * counts.sum(-1) / per_row
    return ratios


def _simulated(
    statistic: Callable[[Integers | Floats], Floats],
    sizes: Integers,
    levels: int,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """A statistic of counts ``(draws, groups, levels)`` under perfect calibration."""
    return np.concatenate(
        [
            statistic(simulated_counts(rng, sizes, levels=levels, draws=some))
            for some in chunks(draws, levels * len(sizes))
        ]
    )


def _simulated_maxima(
    codes: Integers, groups: int, levels: int, draws: int, rng: np.random.Generator
) -> Floats:
    """Largest ratio over all groups for each simulated model."""
    # Rows that share all their groups are alike: their counts are multinomial.
    blocks, size = _distinct_columns(codes, groups)
    if len(size) * levels >= codes.shape[1]:
        largest = np.empty(draws)
        for draw in range(draws):
            cells = np.asarray(rng.integers(levels, size=codes.shape[1]))
            largest[draw] = _ratios(_counts(codes, cells, groups, levels)).max()
        return largest
    member = np.zeros((groups, len(size)), dtype=np.int64)
    member[blocks, np.arange(len(size))] = 1
    return _simulated(
        lambda counts: _ratios(member @ counts).max(-1), size, levels, draws, rng
    )


def _distinct_columns(codes: Integers, groups: int) -> tuple[Integers, Integers]:
    """Distinct columns of ``(keys, n)`` in lexicographic order, and their counts."""
    place = np.zeros_like(codes[0])
    for key in codes:
        # Anew after each key: products of many keys would overflow.
        place = _renumbered(place * groups + key)
    size = np.bincount(place)
    example = np.empty_like(size)
    example[place] = np.arange(len(place))
    return codes[:, example], size


def _prediction_codes(predictive: Distribution, target: Tensor, bins: int) -> Integers:
    """Code of each row by predicted mean and, within that, by predicted spread."""
    mean, spread = (
        part.cpu().numpy() for part in center_and_spread(predictive, target)
    )
    groups = max(1, min(bins * bins, len(mean) // _SMALLEST_GROUP))
    # A spread that does not follow the data is the commoner fault: it gets the groups
    # that are left over when there are too few rows for all.
    spreads = min(bins, groups)
    outer = _quantile_codes(mean, groups // spreads)
    codes = np.zeros_like(outer)
    for code in range(int(outer.max()) + 1):
        inner = _quantile_codes(spread[outer == code], spreads)
        codes[outer == code] = code * spreads + inner
    return _renumbered(codes)


def _quantile_codes(values: Floats, bins: int) -> Integers:
    """Codes 0, 1, ... of about equally many rows; equal values stay together."""
    # Ties leave some codes empty.
    return _renumbered(np.searchsorted(_quantile_edges(np.sort(values), bins), values))


def _quantile_edges(ordered: Floats, bins: int) -> Floats:
    """Largest value of each quantile group but the last, of ascending values."""
    last = np.ceil(len(ordered) * (np.arange(1, bins) / bins) - 1).astype(np.int64)
    edges: Floats = ordered[last.clip(0)]
    return edges


def _renumbered(codes: Integers) -> Integers:
    """The same groups with the codes 0, 1, ..., none of them empty."""
    filled = np.bincount(codes) > 0
    return codes if filled.all() else (np.cumsum(filled) - 1)[codes]


class _Grouping(NamedTuple):
    """Code of each row ``(n,)``, and label, low and high of each code."""

    codes: Integers
    labels: tuple[str, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


def _group_rows(key: Key, *, bins: int, n: int, name: str = "key") -> _Grouping:
    """Cut ``n`` rows into groups; see ``calibration_by`` for the rules."""
    check_count(bins, name="bins")
    column = key.detach().cpu().numpy() if isinstance(key, Tensor) else np.asarray(key)
    if column.shape != (n,):
        raise InputError(
            f"{name} must have one value for each of the {n} PIT values, shape ({n},), "
            f"got {column.shape}."
        )
    if column.dtype.kind in "biuf":
        return _group_numbers(column.astype(np.float64), bins)
    if column.dtype.kind in "SU":
        return _group_names(column.tolist())
    if column.dtype.kind != "O":
        raise InputError(
            f"{name} must contain numbers or names, got dtype {column.dtype}. Convert "
            "dates to numbers or to the names of periods."
        )
    values = [None if _is_missing(value) else value for value in column.tolist()]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, Real | np.bool_ | Decimal) for value in known):
        numbers = [math.nan if value is None else float(value) for value in values]
        return _group_numbers(np.array(numbers), bins)
    return _group_names(values)


def _is_missing(value: object) -> bool:
    """Tell None, NaN, NaT and pandas' NA from values."""
    equal: object = value == value
    # NaN is not equal to itself; of NA one cannot tell, and it refuses bool().
    return value is None or not isinstance(equal, bool | np.bool_) or not equal


def _group_names(values: Sequence[object]) -> _Grouping:
    names = [_MISSING if value is None else str(value) for value in values]
    counts = Counter(names)
    if len(counts) > _MOST_NAMES:
        # By name where equally common, so that the order of rows does not matter.
        common = sorted(counts, key=lambda name: (-counts[name], name))
        kept = set(common[: _MOST_NAMES - 1])
        names = [name if name in kept else _OTHER for name in names]
    labels, codes = np.unique(names, return_inverse=True)
    nothing = (None,) * len(labels)
    return _Grouping(codes.astype(np.int64), tuple(labels.tolist()), nothing, nothing)


def _group_numbers(column: Floats, bins: int) -> _Grouping:
    missing = np.isnan(column)
    known = column[~missing]
    ordered = np.sort(known)
    edges = _group_edges(ordered, bins)
    # One sort gives the groups' ends too: each is a run of the ordered values.
    cuts = np.searchsorted(ordered, edges, side="right")
    starts = [0, *cuts] if len(known) else []
    ends = [
        (float(ordered[start]), float(ordered[stop - 1]))
        for start, stop in zip(starts, [*cuts, len(known)], strict=False)
    ]
    all_codes = np.full(len(column), len(ends), dtype=np.int64)
    all_codes[~missing] = np.searchsorted(edges, known)
    labels = [f"{a:.6g}" if a == b else f"{a:.4g} to {b:.4g}" for a, b in ends]
    low: list[float | None] = [a for a, _ in ends]
    high: list[float | None] = [b for _, b in ends]
    if missing.any():
        low, high, labels = [*low, None], [*high, None], [*labels, _MISSING]
    return _Grouping(all_codes, tuple(labels), tuple(low), tuple(high))


def _group_edges(ordered: Floats, bins: int) -> Floats:
    """Largest value of each group but the last, ascending and distinct."""
    last = np.flatnonzero(ordered[1:] > ordered[:-1])
    edges: Floats = ordered[last]
    if len(last) < max(_FEW, bins):
        return edges
    edges = np.unique(_quantile_edges(ordered, bins))
    inner: Floats = edges[edges < ordered[-1]]
    return inner
