"""How often central intervals hold the target, and how wide they are."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_levels
from calibrant.contracts import Distribution
from calibrant.metrics._rows import law_of_rows, no_nan, rows
from calibrant.scores import Prediction

__all__ = ["coverage", "coverage_at", "covered", "mean_width", "mean_width_at"]


@torch.no_grad()
def coverage(
    distribution: Prediction,
    y: ArrayLike,
    *,
    level: float = 0.9,
) -> float:
    r"""Share of targets inside the central interval of coverage ``level`` (PICP).

    A calibrated model shows ``level``, give or take
    :math:`\sqrt{c (1 - c) / n}`. More is not better: it only means wider intervals.

    It is the literal share. For rounded or capped targets and for few samples a perfect
    model shows another share than ``level``; the coverage of ``evaluate``, from
    :func:`~calibrant.metrics.pit.pit_values`, corrects for that.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    y
        Targets, shape ``(n,)``.
    level
        :math:`c`, strictly between 0 and 1.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> coverage(Gaussian([0.0, 0.0], 1.0), [1.0, 2.0], level=0.9)
    0.5
    """
    law, target = rows(distribution, y)
    return float(covered(law, target, level).double().mean())


def covered(law: Distribution, target: Tensor, level: float) -> Tensor:
    """Tell for each row whether the central interval, ends included, holds it."""
    lower, upper = map(no_nan, law.interval(level))
    return (lower <= target) & (target <= upper)


@torch.no_grad()
def coverage_at(
    distribution: Prediction,
    y: ArrayLike,
    *,
    levels: ArrayLike,
) -> Tensor:
    """Return :func:`coverage` at each of ``levels``, shape ``(k,) -> (k,)``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> law = Gaussian([0.0, 0.0], 1.0)
    >>> coverage_at(law, [1.0, 2.0], levels=[0.5, 0.9, 0.99]).tolist()
    [0.0, 0.5, 1.0]
    """
    law, target = rows(distribution, y)
    shares = [covered(law, target, c).double().mean() for c in _each(levels)]
    return torch.stack(shares).cpu()


@torch.no_grad()
def mean_width(
    distribution: Prediction,
    *,
    level: float = 0.9,
) -> float:
    """Mean width of the central interval of coverage ``level``.

    Of two models with the same coverage, the one with less width knows more.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(n,)``.
    level
        Strictly between 0 and 1.

    Returns
    -------
    float
        In the units of the target.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> round(mean_width(Gaussian([0.0, 5.0], [1.0, 3.0]), level=0.9), 3)
    6.579
    """
    lower, upper = law_of_rows(distribution).interval(level)
    return float(no_nan(upper - lower).double().mean())


def mean_width_at(
    distribution: Prediction,
    *,
    levels: ArrayLike,
) -> Tensor:
    """Return :func:`mean_width` at each of ``levels``, shape ``(k,) -> (k,)``.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> widths = mean_width_at(Gaussian([0.0], 1.0), levels=[0.5, 0.9])
    >>> widths.round(decimals=2).tolist()
    [1.35, 3.29]
    """
    law = law_of_rows(distribution)
    widths = [mean_width(law, level=c) for c in _each(levels)]
    return torch.tensor(widths, dtype=torch.float64)


def _each(levels: ArrayLike) -> list[float]:
    like = torch.empty(0, dtype=torch.float64)
    checked = as_levels(levels, like=like, name="levels")
    if checked.ndim != 1 or checked.numel() == 0:
        raise InputError(f"levels must have shape (k,), got {tuple(checked.shape)}.")
    return [float(level) for level in checked]
