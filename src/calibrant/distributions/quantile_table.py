"""A law from a table of quantiles, as quantile regression predicts them."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_levels, as_target
from calibrant.contracts import PitValues
from calibrant.distributions._pieces import Pieces, mean_square
from calibrant.distributions._rows import ask_rows, from_rows, to_rows
from calibrant.distributions._tails import pit_from_log_cdf
from calibrant.distributions.base import AbstractDistribution

__all__ = ["QuantileTable"]


class QuantileTable(AbstractDistribution):
    r"""Law whose quantiles at ``k`` levels are given, for each row.

    Between the levels the quantile function is linear, so the density is constant.
    Beyond the outer levels the tails are exponential and continue the density of the
    segment next to them: with :math:`d` that density,

    .. math:: F(y) = p_1 e^{(y - v_1)\, d / p_1} \quad (y < v_1)

    and likewise above :math:`v_k`. Equal neighbors are an atom: the cdf jumps there
    (it is continuous from the right), and ``log_prob`` is ``inf`` at the atom. A tail
    next to an outer atom has no width; its weight belongs to the atom.

    Parameters
    ----------
    levels
        :math:`p_1 < \dots < p_k`, strictly inside (0, 1), shape ``(k,)``, ``k >= 2``.
    values
        :math:`v_1 \le \dots \le v_k`, shape ``(*batch_shape, k)``.

    References
    ----------
    Chernozhukov, Fernandez-Val and Galichon (2010), *Quantile and Probability Curves
    Without Crossing*, for what to do when predicted quantiles cross.

    Examples
    --------
    >>> law = QuantileTable([0.1, 0.5, 0.9], [[-1.0, 0.0, 1.0], [0.0, 1.0, 4.0]])
    >>> law.cdf([0.0, 1.0]).tolist()
    [0.5, 0.5]
    >>> [round(bound, 3) for bound in law.interval(0.4)[1].tolist()]
    [0.5, 2.5]
    """

    _parameters = ("_values",)

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        self._values = as_target(values, name="values")
        self._levels = as_levels(levels, like=self._values, name="levels").to(
            self._values
        )
        _check_table(self._levels, self._values)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._values.shape[:-1]

    @property
    def levels(self) -> Tensor:
        """Levels of the table, shape ``(k,)``."""
        return self._levels

    @property
    def values(self) -> Tensor:
        """Quantiles at the levels, shape ``(*batch_shape, k)``."""
        return self._values

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        pieces, v = self._pieces, self._values
        middle = (pieces.weights * (v[..., :-1] + v[..., 1:])).sum(-1) / 2
        outer_left = pieces.levels[0] * (pieces.first - pieces.left)
        outer_right = pieces.above[-1] * (pieces.last + pieces.right)
        return middle + (outer_left + outer_right).squeeze(-1)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        v = self._values - self.mean.unsqueeze(-1)
        pieces = Pieces(self._levels, v)
        middle = pieces.weights * mean_square(v[..., :-1], v[..., 1:])
        # The second moment of an exponential tail of scale b from v on.
        left = (pieces.first - pieces.left).square() + pieces.left.square()
        right = (pieces.last + pieces.right).square() + pieces.right.square()
        outer = pieces.levels[0] * left + pieces.above[-1] * right
        return middle.sum(-1) + outer.squeeze(-1)

    def __getitem__(self, rows: slice | Tensor) -> "QuantileTable":
        """Select rows of the first batch axis."""
        return QuantileTable(self._levels, self._values[rows])

    @property
    def _pieces(self) -> Pieces:
        return Pieces(self._levels, self._values)

    def _pit(self, value: Tensor) -> PitValues:
        pieces = self._pieces
        asked = to_rows(value, self.batch_shape)
        place = pieces.place(asked)
        lower, upper = pieces.log_decays(asked)
        left = pit_from_log_cdf(pieces.levels[0].log() + lower)
        right = pit_from_log_cdf(pieces.above[-1].log() + upper).mirrored()
        middle = PitValues(
            place.cdf, place.survival, place.cdf.log(), place.survival.log()
        )
        outside = asked < pieces.first, asked >= pieces.last
        answers = (
            torch.where(outside[0], low, torch.where(outside[1], high, mid))
            for low, high, mid in zip(left, right, middle, strict=True)
        )
        return PitValues(*(from_rows(a, value, self.batch_shape) for a in answers))

    def _pit_before(self, value: Tensor) -> PitValues | None:
        if not bool((self._values.diff(dim=-1) == 0).any()):
            return None
        return self._mirrored._pit(-value).mirrored()

    @property
    def _mirrored(self) -> "QuantileTable":
        return QuantileTable(1 - self._levels.flip(0), -self._values.flip(-1))

    def _cdf(self, value: Tensor) -> Tensor:
        return self._pit(value).cdf

    def _survival(self, value: Tensor) -> Tensor:
        return self._pit(value).survival

    def _log_prob(self, value: Tensor) -> Tensor:
        pieces = self._pieces
        asked = to_rows(value, self.batch_shape)
        gaps = torch.where(pieces.gaps > 0, pieces.gaps, 1.0)
        log_densities = pieces.weights.log() - gaps.log()
        lower, upper = pieces.log_decays(asked)
        density = ask_rows(log_densities, pieces.place(asked).segment) + lower + upper
        equal = pieces.count(asked, right=True) - pieces.count(asked, right=False)
        answer = torch.where(equal > 1, torch.inf, density)
        return from_rows(answer, value, self.batch_shape)

    def _quantile(self, level: Tensor) -> Tensor:
        pieces, p = self._pieces, self._levels
        asked = to_rows(level.to(p.dtype), self.batch_shape)
        index = torch.searchsorted(p, asked.detach(), right=True) - 1
        index = index.clamp(0, len(p) - 2)
        share = (asked.clamp(p[0], p[-1]) - p[index]) / pieces.weights[index]
        middle = ask_rows(self._values, index) + share * ask_rows(pieces.gaps, index)
        # xlogy, because a tail without width stays at its atom even at level 0.
        q = pieces.above[-1]
        low = torch.where(asked < p[0], asked / p[0], 1.0)
        high = torch.where(asked > p[-1], (1 - asked) / q, 1.0)
        lower = torch.xlogy(pieces.left, low)
        upper = torch.xlogy(pieces.right, high)
        return from_rows(middle + lower - upper, level, self.batch_shape)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return -self._mirrored._quantile(survival)

    def _crps(self, value: Tensor) -> Tensor:
        """Integrate F^2 below the value and (1 - F)^2 above it, piece by piece."""
        pieces = self._pieces
        asked = to_rows(value, self.batch_shape)
        index, inside, cdf, survival = pieces.place(asked)
        areas_below, areas_above = pieces.areas()
        start, end = ask_rows(self._values, index), ask_rows(self._values, index + 1)
        p, q = pieces.levels[index], pieces.above[index + 1]
        below = ask_rows(areas_below, index) + (inside - start) * mean_square(p, cdf)
        above = ask_rows(areas_above, index + 1)
        above = above + (end - inside) * mean_square(survival, q)
        lower, upper = pieces.log_decays(asked)
        beyond = (
            (asked - inside).abs()
            + 2 * pieces.left * pieces.levels[0] * torch.expm1(lower)
            + 2 * pieces.right * pieces.above[-1] * torch.expm1(upper)
        )
        return from_rows(below + above + beyond, value, self.batch_shape)


def _check_table(levels: Tensor, values: Tensor) -> None:
    """Refuse levels that are not a grid and quantiles that cross."""
    if levels.ndim != 1 or len(levels) < 2:
        raise InputError(
            f"levels must have shape (k,) with k >= 2, got {tuple(levels.shape)}."
        )
    if not (levels[0] > 0 and levels[-1] < 1 and (levels.diff() > 0).all()):
        raise InputError(
            "levels must increase strictly inside (0, 1), got "
            f"{[round(level, 6) for level in levels.tolist()]}. Sort them, drop "
            "duplicates, and leave 0 and 1 out: the tails are added here."
        )
    if values.ndim == 0 or values.shape[-1] != len(levels):
        raise InputError(
            f"values must have shape (*batch, {len(levels)}), one for each level on "
            f"the last axis, got {tuple(values.shape)}."
        )
    crossed = (values.diff(dim=-1) < 0).any(-1)
    if crossed.any():
        row = tuple(int(index) for index in crossed.nonzero()[0])
        place = "".join(f"[{index}]" for index in row)
        raise InputError(
            f"values must not decrease along the last axis: {int(crossed.sum())} of "
            f"{crossed.numel()} rows cross, the first is values{place}. Sort them with "
            "values.sort(-1).values, the rearrangement of Chernozhukov et al. (2010)."
        )
