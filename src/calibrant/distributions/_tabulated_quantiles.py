"""Quantiles of each row between some values at which its cdf is known."""

import math

import torch
from torch import Tensor

from calibrant.contracts import PitValues
from calibrant.distributions._normal import normal_cdf, normal_score
from calibrant.distributions._panels import Panels, Rule
from calibrant.distributions._rows import from_rows, to_rows
from calibrant.distributions.base import AbstractDistribution

__all__ = ["TabulatedQuantiles"]

_SQRT_TWO_PI = math.sqrt(2 * math.pi)
#: Places of the table, out to the tails that a rule over levels asks for.
_TABLE = Rule(48, 1, places=24, follow=False, tail=1e-38)


class TabulatedQuantiles:
    r"""The quantile function of a law as cubics between values of its cdf.

    The value as a function of the normal score :math:`\Phi^{-1}(F(y))` is a straight
    line for a normal law and nearly one for most others. So few places suffice, with
    the density for the slope; the cost of a further level is that of a look into the
    table, where a search asks for three values of the cdf.

    Parameters
    ----------
    law
        With a density, of any batch shape. Nothing here carries a gradient.
    """

    def __init__(self, law: AbstractDistribution) -> None:
        self._batch_shape = law.batch_shape
        with torch.no_grad():
            places = Panels(law, _TABLE).edges()
            cdf, survival, density = law._tails(places, density=True)
            density = torch.zeros_like(cdf) if density is None else density
            score = normal_score(cdf, survival).cummax(0).values
            height = score.square().mul_(-0.5).exp_().div_(_SQRT_TWO_PI)
            # Columns are rows of the law from here on, as a look into a table wants.
            self._y, self._z, rate = (
                each.movedim(0, -1).contiguous()
                for each in (places, score, height / density)
            )
        self._fit(rate)

    def _fit(self, rate: Tensor) -> None:
        """Coefficients of the cubics, which rise wherever the secants do."""
        width, rise = self._z.diff(), self._y.diff()
        secant = rise / width.clamp_min(torch.finfo(torch.float64).tiny)
        ends = [secant[..., :1], secant, secant[..., -1:]]
        both = torch.cat(ends, -1)
        steepest = 3 * torch.minimum(both[..., :-1], both[..., 1:])
        rate = torch.minimum(rate.nan_to_num(torch.inf), steepest)
        start, end = rate[..., :-1] * width, rate[..., 1:] * width
        #: Change of the value by its share of the way: first, second, third power.
        self._cubic = start, 3 * rise - 2 * start - end, start + end - 2 * rise
        self._width = width

    def doubt(self) -> Tensor:
        """Size of the last terms of the cubics, in spreads, shape ``batch_shape``."""
        mass = normal_cdf(self._z).diff()
        quartile = torch.tensor([-0.6745, 0.6745]).to(self._z)
        ends = self._looked_up(quartile.expand(*self._batch_shape, 2))
        doubt: Tensor = (mass * self._cubic[2].abs()).sum(-1)
        return doubt / ends.diff().squeeze(-1)

    def at(self, pit: PitValues) -> Tensor:
        """Quantiles at PIT values of any shape, float64; as for ``law.quantile``."""
        score = normal_score(pit.cdf, pit.survival).clamp(-40, 40)
        found = self._looked_up(to_rows(score, self._batch_shape))
        return from_rows(found, score, self._batch_shape)

    def _looked_up(self, score: Tensor) -> Tensor:
        """Values at scores ``(*batch_shape, k)``."""
        right = torch.searchsorted(self._z, score.contiguous())
        left = (right - 1).clamp_(0, self._width.shape[-1] - 1)
        start, width = self._z.gather(-1, left), self._width.gather(-1, left)
        share = ((score - start) / width).nan_to_num_(0.0).clamp_(0, 1)
        first, second, third = (part.gather(-1, left) for part in self._cubic)
        way = third.mul_(share).add_(second).mul_(share).add_(first).mul_(share)
        return way.add_(self._y.gather(-1, left))
