"""An increasing spline from log odds to log odds, as a map of [0, 1]."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.contracts import PitValues
from calibrant.recalibration._logit import (
    from_log_odds,
    log_jacobian,
    log_odds,
    log_odds_of_tails,
    with_ends,
)
from calibrant.recalibration._segments import pick

__all__ = ["LogOddsSpline"]

_NAMES = ("places", "heights", "slopes")
# Log odds of the smallest numbers are below 750.
_MOST = 1e4


class _Piece(NamedTuple):
    """Between two knots: where it starts, its sizes and the slopes at both ends."""

    place: Tensor
    height: Tensor
    width: Tensor
    rise: Tensor
    start: Tensor
    end: Tensor

    @property
    def secant(self) -> Tensor:
        return self.rise / self.width

    @property
    def bend(self) -> Tensor:
        return self.start + self.end - 2 * self.secant


class LogOddsSpline:
    r"""The map :math:`\operatorname{logit} R(u) = T(\operatorname{logit} u)`.

    Between knots :math:`T` is the rational quadratic of Gregory and Delbourgo, which
    takes any positive slopes at the knots and has an inverse in closed form; beyond
    the outer knots it is linear. So :math:`T'` is continuous and above 0.

    Parameters
    ----------
    places, heights
        Knots and the values of :math:`T` there, strictly ascending, shape ``(m,)``,
        float64.
    slopes
        :math:`T'` at the knots, above 0, same shape.
    """

    def __init__(self, places: Tensor, heights: Tensor, slopes: Tensor) -> None:
        self._tables = places, heights, slopes
        _check_tables(self._tables)

    @property
    def knots(self) -> Tensor:
        """0, the knots as levels, and 1."""
        inner = torch.sigmoid(self._tables[0])
        ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
        knots: Tensor = torch.cat([ends, inner]).unique()
        return knots

    def state(self) -> dict[str, object]:
        """Return knots, values and slopes as lists."""
        named = zip(_NAMES, self._tables, strict=True)
        return {name: table.tolist() for name, table in named}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "LogOddsSpline":
        """Make the map from its state."""
        tables = (torch.tensor(state[name], dtype=torch.float64) for name in _NAMES)
        return cls(*tables)

    def forward(self, pit: PitValues) -> PitValues:
        """Map PIT values."""
        return from_log_odds(self._value_and_slope(log_odds(pit))[0], pit.cdf.dtype)

    def log_density(self, pit: PitValues) -> Tensor:
        """Logarithm of the derivative at PIT values; it is continuous."""
        mapped, slope = self._value_and_slope(log_odds(pit))
        return (slope.log() + log_jacobian(mapped, pit)).to(pit.cdf.dtype)

    def inverse(self, levels: PitValues) -> PitValues:
        """PIT values that are mapped to these."""
        odds = self._inverse(log_odds(levels), levels.cdf, levels.survival)
        return from_log_odds(odds, levels.cdf.dtype)

    def lower_tail(self, cdf: Tensor, survival: Tensor) -> Tensor:
        """Map float64 tails to the lower one alone, which is faster."""
        odds = log_odds_of_tails(cdf, survival)
        return torch.sigmoid(self._value_and_slope(odds)[0])

    def tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Map float64 tails without their logarithms."""
        odds = self._value_and_slope(log_odds_of_tails(cdf, survival))[0]
        return torch.sigmoid(odds), torch.sigmoid(-odds)

    def inverse_tails(self, cdf: Tensor, survival: Tensor) -> tuple[Tensor, Tensor]:
        """Tails of :meth:`inverse` without their logarithms."""
        odds = self._inverse(log_odds_of_tails(cdf, survival), cdf, survival)
        return torch.sigmoid(odds), torch.sigmoid(-odds)

    def _inverse(self, target: Tensor, cdf: Tensor, survival: Tensor) -> Tensor:
        """Log odds that are mapped to the target, infinite for levels of 0 and 1."""
        x, t, d = (table.to(target.device) for table in self._tables)
        low, high = target <= t[0], target >= t[-1]
        odds = torch.where(
            low, x[0] + (target - t[0]) / d[0], x[-1] + (target - t[-1]) / d[-1]
        )
        if len(x) > 1:
            inside = target.clamp(t[0], t[-1])
            piece = self._piece(t, inside)
            risen = inside - piece.height
            # The root of a quadratic, in the form that does not cancel.
            a = piece.rise * (piece.secant - piece.start) + risen * piece.bend
            b = piece.rise * piece.start - risen * piece.bend
            c = -piece.secant * risen
            share = -2 * c / (b + (b * b - 4 * a * c).clamp_min(0).sqrt())
            middle = piece.place + share.clamp(0, 1) * piece.width
            odds = torch.where(low | high, odds, middle)
        return with_ends(odds, cdf, survival)

    def _value_and_slope(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``T`` and its derivative at log odds."""
        x, t, d = (table.to(odds.device) for table in self._tables)
        low, high = odds < x[0], odds >= x[-1]
        value = torch.where(
            low, t[0] + d[0] * (odds - x[0]), t[-1] + d[-1] * (odds - x[-1])
        )
        slope = torch.where(low, d[0], d[-1])
        if len(x) > 1:
            inside = odds.clamp(x[0], x[-1])
            piece = self._piece(x, inside)
            share = (inside - piece.place) / piece.width
            both = share * (1 - share)
            scale = piece.secant + piece.bend * both
            climb = piece.secant * share**2 + piece.start * both
            bent = piece.end * share**2 + 2 * piece.secant * both
            bent = bent + piece.start * (1 - share) ** 2
            middle = piece.height + piece.rise * climb / scale
            value = torch.where(low | high, value, middle)
            slope = torch.where(low | high, slope, bent * (piece.secant / scale) ** 2)
        return value, slope

    def _piece(self, table: Tensor, values: Tensor) -> _Piece:
        """Find each value's piece in an ascending table: the places or the heights."""
        x, t, d = (each.to(values.device) for each in self._tables)
        found = torch.searchsorted(table, values.detach().contiguous(), right=True) - 1
        i = found.clamp(0, len(x) - 2)
        each_piece = x, t, x.diff(), t.diff(), d, d[1:].contiguous()
        return _Piece(*(pick(each, i) for each in each_piece))


def _check_tables(tables: tuple[Tensor, Tensor, Tensor]) -> None:
    """Refuse tables that are no increasing spline; they can only come from a file."""
    places, heights, slopes = tables
    fit = (
        len({tuple(table.shape) for table in tables}) == 1
        and places.ndim == 1
        and len(places) > 0
        and all(bool(table.isfinite().all()) for table in tables)
        and all(bool((table.abs() < _MOST).all()) for table in (places, heights))
    )
    if not (fit and all(bool((t.diff() > 0).all()) for t in (places, heights))):
        raise InputError(
            "places and heights must be log odds that increase, of one shape (m,), as "
            f"the slopes; got {[tuple(table.shape) for table in tables]}"
        )
    if not bool((slopes > 0).all()):
        raise InputError(f"slopes must be above 0, got {float(slopes.min())}")
