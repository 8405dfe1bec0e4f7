"""The two tests behind every verdict: within one set, and over sets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from calibrant._checks import InputError

__all__ = [
    "LEVEL",
    "Direction",
    "PairedTest",
    "SetsTest",
    "corrected_t_test",
    "signed_rank_test",
]

#: Two-sided level of both tests.
LEVEL = 0.05
Direction = Literal["lower", "higher", "unclear"]


@dataclass(frozen=True)
class PairedTest:
    """Result on one set.

    Attributes
    ----------
    difference
        Mean difference.
    t, p
        Statistic and two-sided p-value.
    values
        How many values there were.
    """

    difference: float
    t: float
    p: float
    values: int

    @property
    def direction(self) -> Direction:
        """Clearly lower, clearly higher, or unclear."""
        return _direction(self.t, self.p)


@dataclass(frozen=True)
class SetsTest:
    """Result over sets: signed rank sums of both sides, and the p-value."""

    lower_ranks: float
    higher_ranks: float
    p: float
    sets: int

    @property
    def direction(self) -> Direction:
        """What the test says: lower, higher, or nothing (unclear)."""
        return _direction(self.higher_ranks - self.lower_ranks, self.p)


def _direction(sign: float, p: float) -> Direction:
    if p >= LEVEL or sign == 0:
        return "unclear"
    return "lower" if sign < 0 else "higher"


def corrected_t_test(differences: Sequence[float], *, overlap: float) -> PairedTest:
    r"""Test whether differences over folds are 0 on average.

    .. math::
        t = \frac{\bar d}{\sqrt{(1/J + o)\, s^2}}, \qquad
        s^2 = \frac{1}{J - 1} \sum_j (d_j - \bar d)^2,

    with :math:`J - 1` degrees of freedom. The training rows of folds overlap, so their
    differences are correlated; :math:`o = n_\text{test} / n_\text{train}` accounts for
    it, and with :math:`o = 0` this is the plain t-test.

    Parameters
    ----------
    differences
        One for each fold, shape ``(J,)``. One alone gives p = 1.
    overlap
        :math:`o`, at least 0.

    References
    ----------
    Nadeau and Bengio (2003), *Inference for the Generalization Error*, Machine Learning
    52, 239-281.

    Examples
    --------
    >>> test = corrected_t_test([-3.0, -4.0, -5.0, -6.0, -7.0], overlap=0.25)
    >>> round(test.t, 3), round(test.p, 4), test.direction
    (-4.714, 0.0092, 'lower')
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.size == 0 or not np.isfinite(d).all() or not overlap >= 0:
        raise InputError(
            "a paired test needs at least one difference, all finite, and an overlap "
            f"of at least 0, got {differences} and {overlap}."
        )
    mean = float(d.mean())
    if d.size == 1:
        return PairedTest(mean, 0.0, 1.0, 1)
    deviation = float(d.std(ddof=1))
    # Rounding alone must not make equal differences look spread.
    if deviation <= 1e-12 * float(np.abs(d).max()):
        sure = mean != 0.0
        t = math.copysign(math.inf, mean) if sure else 0.0
        return PairedTest(mean, t, 0.0 if sure else 1.0, d.size)
    t = mean / (deviation * math.sqrt(1 / d.size + overlap))
    p = float(2 * stats.t.sf(abs(t), d.size - 1))
    return PairedTest(mean, t, p, d.size)


def signed_rank_test(values: Sequence[float]) -> SetsTest:
    """Test whether one value for each data set is 0 in the middle.

    Wilcoxon's signed-rank test: exact (over all signs of the ranks), two-sided, zeros
    dropped, mean ranks for ties. With five values or fewer no result reaches 5 %.

    Parameters
    ----------
    values
        One for each set, shape ``(sets,)``; may be infinite.

    References
    ----------
    Demšar (2006), *Statistical Comparisons of Classifiers over Multiple Data Sets*,
    JMLR 7, 1-30.

    Examples
    --------
    >>> test = signed_rank_test([-0.3, -0.1, -0.2, -0.5, -0.4, -0.6])
    >>> test.p, test.direction
    (0.03125, 'lower')
    """
    kept = np.asarray([value for value in values if value != 0], dtype=np.float64)
    if np.isnan(kept).any():
        raise InputError(f"the test over sets needs numbers, got {values}.")
    if kept.size == 0:
        return SetsTest(0.0, 0.0, 1.0, 0)
    ranks = stats.rankdata(np.abs(kept))
    lower, higher = float(ranks[kept < 0].sum()), float(ranks[kept > 0].sum())
    # Ranks are multiples of one half, so twice a rank sum is a whole number.
    doubled = [round(2 * rank) for rank in ranks]
    chance = np.zeros(sum(doubled) + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = (chance[rank:] + chance[: chance.size - rank]) / 2
        chance[:rank] /= 2
    p = min(1.0, 2 * float(chance[: round(2 * min(lower, higher)) + 1].sum()))
    return SetsTest(lower, higher, p, kept.size)
