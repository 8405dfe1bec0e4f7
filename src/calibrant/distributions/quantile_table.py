"""A distribution from a table of quantiles, as quantile regression predicts them."""

import torch
from torch import Tensor

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import (
    ask_rows,
    count_rows,
    from_rows,
    to_rows,
)
from calibrant.distributions.laplace import pit_from_log_cdf
from calibrant.protocols import PitValues
from calibrant.validation import ArrayLike, InputError, as_levels, as_target


class QuantileTable(AbstractDistribution):
    r"""Distribution whose quantiles at ``k`` levels are given, for each row.

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
    >>> predictive = QuantileTable([0.1, 0.5, 0.9], [[-1.0, 0.0, 1.0], [0.0, 1.0, 4.0]])
    >>> predictive.cdf([0.0, 1.0]).tolist()
    [0.5, 0.5]
    >>> [round(bound, 3) for bound in predictive.interval(0.4)[1].tolist()]
    [0.5, 2.5]
    """

    _parameters = ("levels", "values")
    _shared = ("levels",)

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        self.values = as_target(values, name="values")
        self.levels = as_levels(levels, like=self.values, name="levels").to(self.values)
        _check_table(self.levels, self.values)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""
        return self.values.shape[:-1]

    @property
    def _like(self) -> Tensor:
        return self.values

    def _moments(self) -> tuple[Tensor, Tensor]:
        pieces, v = self._pieces, self.values
        middle = (pieces.weights * (v[..., :-1] + v[..., 1:])).sum(-1) / 2
        outer_left = pieces.levels[0] * (pieces.first - pieces.left)
        outer_right = pieces.above[-1] * (pieces.last + pieces.right)
        mean = middle + (outer_left + outer_right).squeeze(-1)
        v = v - mean.unsqueeze(-1)
        pieces = _Pieces(self.levels, v)
        within = pieces.weights * _mean_square(v[..., :-1], v[..., 1:])
        # The second moment of an exponential tail of scale b from v on.
        left = (pieces.first - pieces.left).square() + pieces.left.square()
        right = (pieces.last + pieces.right).square() + pieces.right.square()
        outer = pieces.levels[0] * left + pieces.above[-1] * right
        return mean, within.sum(-1) + outer.squeeze(-1)

    @property
    def _pieces(self) -> "_Pieces":
        return _Pieces(self.levels, self.values)

    def _pit(self, value: Tensor) -> PitValues:
        pieces = self._pieces
        asked = to_rows(value, self.batch_shape)
        _, _, cdf, survival = pieces.place(asked)
        lower, upper = pieces.log_decays(asked)
        left = pit_from_log_cdf(pieces.levels[0].log() + lower)
        right = pit_from_log_cdf(pieces.above[-1].log() + upper).mirrored()
        middle = PitValues(cdf, survival, cdf.log(), survival.log())
        inner = right.where(asked >= pieces.last, middle)
        found = left.where(asked < pieces.first, inner)
        return found.map(lambda part: from_rows(part, value, self.batch_shape))

    def _pit_before(self, value: Tensor) -> PitValues | None:
        if not bool((self.values.diff(dim=-1) == 0).any()):
            return None
        return self._mirrored._pit(-value).mirrored()

    @property
    def _mirrored(self) -> "QuantileTable":
        return QuantileTable(1 - self.levels.flip(0), -self.values.flip(-1))

    def _kinks(self) -> Tensor:
        return self.values.movedim(-1, 0)

    def _log_prob(self, value: Tensor) -> Tensor:
        pieces = self._pieces
        asked = to_rows(value, self.batch_shape)
        gaps = torch.where(pieces.gaps > 0, pieces.gaps, 1.0)
        log_densities = pieces.weights.log() - gaps.log()
        lower, upper = pieces.log_decays(asked)
        density = ask_rows(log_densities, pieces.place(asked)[0]) + lower + upper
        up_to, below = (count_rows(self.values, asked, right=r) for r in (True, False))
        answer = torch.where(up_to - below > 1, torch.inf, density)
        return from_rows(answer, value, self.batch_shape)

    def _quantile(self, level: Tensor) -> Tensor:
        pieces, p = self._pieces, self.levels
        asked = to_rows(level.to(p.dtype), self.batch_shape)
        index = torch.searchsorted(p, asked.detach(), right=True) - 1
        index = index.clamp(0, len(p) - 2)
        share = (asked.clamp(p[0], p[-1]) - p[index]) / pieces.weights[index]
        middle = ask_rows(self.values, index) + share * ask_rows(pieces.gaps, index)
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
        start, end = ask_rows(self.values, index), ask_rows(self.values, index + 1)
        p, q = pieces.levels[index], pieces.above[index + 1]
        below = ask_rows(areas_below, index) + (inside - start) * _mean_square(p, cdf)
        above = ask_rows(areas_above, index + 1)
        above = above + (end - inside) * _mean_square(survival, q)
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
        place = "".join(f"[{int(index)}]" for index in crossed.nonzero()[0])
        raise InputError(
            f"values must not decrease along the last axis: {int(crossed.sum())} of "
            f"{crossed.numel()} rows cross, the first is values{place}. Sort them: "
            "values.sort(-1).values."
        )


class _Pieces:
    """Segments and tails between the levels ``(m,)`` and values ``(*batch, m)``.

    The scales of the tails, ``left`` and ``right``, are ``(*batch, 1)``. They are 0
    where the outer segment is an atom.
    """

    def __init__(self, levels: Tensor, values: Tensor) -> None:
        self.levels, self.values = levels, values
        self.above = 1 - levels
        self.weights = levels.diff()
        self.gaps = values.diff(dim=-1)
        self.first, self.last = values[..., :1], values[..., -1:]
        self.left = levels[0] * self.gaps[..., :1] / self.weights[0]
        self.right = self.above[-1] * self.gaps[..., -1:] / self.weights[-1]

    def place(self, asked: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Segment of each value, the value moved into it, cdf and survival there."""
        count = count_rows(self.values, asked, right=True)
        index = (count - 1).clamp(0, len(self.weights) - 1)
        inside = asked.clamp(self.first, self.last)
        gap = ask_rows(self.gaps, index)
        wide = gap > 0
        share = (inside - ask_rows(self.values, index)) / torch.where(wide, gap, 1.0)
        part = torch.where(wide, share, 1.0) * self.weights[index]
        rest = torch.where(wide, 1 - share, 0.0) * self.weights[index]
        cdf = self.levels[index] + part
        return index, inside, cdf, self.above[index + 1] + rest

    def log_decays(self, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Logs of the shares of the lower and upper tail that lie beyond the values."""
        # relu and not clamp: at the ends of the table the tails have no slope yet.
        below = torch.relu(self.first - asked)
        above = torch.relu(asked - self.last)
        lower = self._decay(below, self.left, below > 0)
        return lower, self._decay(above, self.right, asked >= self.last)

    def areas(self) -> tuple[Tensor, Tensor]:
        """Integrals of F^2 below and of (1 - F)^2 above each table value."""
        below = self.gaps * _mean_square(self.levels[:-1], self.levels[1:])
        above = self.gaps * _mean_square(self.above[:-1], self.above[1:])
        outer_left = self.left * self.levels[0].square() / 2
        outer_right = self.right * self.above[-1].square() / 2
        lower = torch.cat([outer_left, below], -1).cumsum(-1)
        upper = torch.cat([above, outer_right], -1).flip(-1).cumsum(-1).flip(-1)
        return lower, upper

    @staticmethod
    def _decay(distance: Tensor, scale: Tensor, beyond: Tensor) -> Tensor:
        lowest = torch.finfo(distance.dtype).min
        wide = scale > 0
        decay = (-distance / torch.where(wide, scale, 1.0)).clamp_min(lowest)
        return torch.where(beyond & ~wide, lowest, decay)


def _mean_square(start: Tensor, end: Tensor) -> Tensor:
    """Mean of the square of a function that goes linearly from start to end."""
    return (start.square() + start * end + end.square()) / 3
