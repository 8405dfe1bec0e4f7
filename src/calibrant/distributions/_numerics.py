r"""The root finder and the integrator behind everything without a closed form.

**Roots.** :func:`solve_increasing` inverts an increasing function for many rows,
:class:`Searched` a cdf, by the logarithm of the smaller tail.

**Integrals.** :func:`moments` and :func:`integrated_crps` integrate the cdf over
values, on panels that follow it row by row.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from calibrant.distributions.base import (
    AbstractDistribution,
    FromBothTails,
    compact,
    joint_shape,
)
from calibrant.distributions.normal import normal_score
from calibrant.validation import UnsupportedError

#: Numbers of a block of rows.
_ENTRIES = 2**18


def by_rows(
    ask: Callable[..., Tensor],
    distribution: AbstractDistribution,
    *values: Tensor,
    size: int,
) -> Tensor:
    """Ask blocks of rows, ``size`` numbers for each, so that memory stays bounded.

    ``ask`` takes a distribution and values ``(..., *batch_shape)``, and gives such.
    """
    batch = distribution.batch_shape
    at_once = max(1, _ENTRIES // max(1, batch[1:].numel() * size))
    if not batch or at_once >= batch[0]:
        return ask(distribution, *values)
    axis, parts = -len(batch), []
    for start in range(0, batch[0], at_once):
        count = min(at_once, batch[0] - start)
        some = (value.narrow(axis, start, count) for value in values)
        parts.append(ask(distribution[start : start + count], *some))
    return torch.cat(parts, axis)


def with_implicit_gradient(root: Tensor, gap: Tensor, slope: Tensor) -> Tensor:
    r"""Give a root the gradient that the implicit function theorem says it has.

    If :math:`g(x^*(\theta), \theta) = 0`, then
    :math:`dx^*/d\theta = -\partial_\theta g \,/\, \partial_x g`. ``gap`` is g at the
    root, with its graph back to the parameters, and ``slope`` its derivative.
    """

    def first_derivative_only(_: Tensor) -> None:
        if torch.is_grad_enabled():  # create_graph=True, where the slope varies
            raise UnsupportedError(
                "only first derivatives are known of quantiles that are roots of a "
                "cdf. Use create_graph=False, or a distribution as Gaussian."
            )

    steep = slope.detach().clamp_min(torch.finfo(slope.dtype).tiny)
    if gap.requires_grad:
        gap.register_hook(first_derivative_only)
    return root.detach() - (gap - gap.detach()).nan_to_num(0.0) / steep


# Roots.

GapAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]

#: Relative gaps of a tail that count as none, and that only a jump of the cdf leaves.
_SETTLED, _JUMP = 1e-11, 1e-9


def solve_increasing(
    gap_and_slope: GapAndSlope,
    low: Tensor,
    high: Tensor,
    *,
    start: Tensor | None = None,
) -> Tensor:
    """Find where an increasing function crosses 0, between ``low`` and ``high``.

    A Newton step is taken where it stays inside the bracket and at least halves the
    step before; elsewhere the bracket is halved. So flat stretches (between far apart
    components) and wrong slopes cost steps, never the root. What is near 0 is judged
    by the gap, which should be relative, as the logarithm of a probability. The result
    has no gradient; where the function has one sign, it is the nearer end.
    """
    eps = torch.finfo(low.dtype).eps
    with torch.no_grad():
        x = low + (high - low) / 2 if start is None else start.clamp(low, high)
        last_step = high - low
        width, settled = last_step, torch.zeros_like(x, dtype=torch.bool)
        for _ in range(120):  # about 6 are usual
            gap, slope = gap_and_slope(x)
            low = torch.where(gap < 0, x, low)
            high = torch.where(gap < 0, high, x)
            newton = x - gap / slope  # NaN on a plateau, which fails all comparisons
            inside = (newton >= low) & (newton <= high)
            shrinks = 2 * (newton - x).abs() <= last_step
            # This near, one more Newton step is the last: its error is a square.
            near = gap.abs() <= eps**0.75
            halved = torch.where(near, x, low + (high - low) / 2)
            following = torch.where(inside & (shrinks | near), newton, halved)
            last_step = (following - x).abs()
            # A settled row must stand still: rounding would send it off again.
            x = torch.where(settled, x, following)
            width = torch.maximum(low.abs(), high.abs())
            settled |= near | (last_step <= eps * width)
            if settled.all():
                break
        # A search ends on either side of a jump; the root is on the upper one.
        jumps = (gap_and_slope(x)[0] < -_JUMP) & (high - x <= 2 * eps * width)
    return torch.where(jumps, high, x)


Bracket = tuple[Tensor, Tensor, Tensor | None]


class Searched(FromBothTails, ABC):
    """A distribution whose quantiles are roots of its cdf, between known ends."""

    @property
    def _searched(self) -> bool:
        return True

    @property
    def _entries(self) -> int:
        """Numbers that the search for a quantile holds at once."""
        return 8

    @abstractmethod
    def _bracket(self, cdf: Tensor, survival: Tensor) -> Bracket:
        """Values around the quantiles, and where to start."""

    @abstractmethod
    def _ends(self, below: Tensor) -> Tensor:
        """Lower or upper ends of the support."""

    def _logs(self, x: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of a tail and of the density, ``-inf`` if there is none."""
        pit = self._pit(x)
        log_tail = torch.where(below, pit.log_cdf, pit.log_survival)
        try:
            return log_tail, self._log_prob(x)
        except UnsupportedError:
            return log_tail, torch.full_like(log_tail, -torch.inf)

    def _quantile_at(self, cdf: Tensor, survival: Tensor) -> Tensor:
        shape = joint_shape(cdf.shape, self.batch_shape)
        levels = (part.double().expand(shape) for part in (cdf, survival))
        size = self._entries * (shape.numel() // max(1, self.batch_shape.numel()))
        return by_rows(Searched._roots, self, *levels, size=size)

    def _roots(self, cdf: Tensor, survival: Tensor) -> Tensor:
        """Smallest values with such probabilities below and above them."""
        shape, small = cdf.shape, [compact(part) for part in (cdf, survival)]
        inside = torch.minimum(*small) > 0
        regular = [torch.where(inside, part, 0.5).expand(shape) for part in small]
        below = (small[0] < small[1]).expand(shape)
        tail = torch.where(below, regular[0], regular[1])
        log_goal = tail.log()
        with torch.no_grad():
            low, high, start = self._bracket(*regular)
            # Where the ends are one, or infinite, nothing is sought.
            open_ = low.isfinite() & (high - low).isfinite() & (low < high)
            inner = [torch.where(open_, end, 0.0) for end in (low, high)]

        def gap_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
            log_tail, log_density = self._logs(x, below)
            gap = torch.where(below, log_tail - log_goal, log_goal - log_tail)
            # On a plateau at the level the smallest value is sought: go left.
            plateau = log_density.isneginf() & (gap > -_SETTLED)
            return torch.where(plateau, 1.0, gap), (log_density - log_tail).exp()

        with torch.no_grad():
            root = solve_increasing(gap_and_slope, *inner, start=start)
            root = torch.where(open_, root, low / 2 + high / 2)
        if torch.is_grad_enabled() and (self._trained or tail.requires_grad):
            gap, slope = gap_and_slope(root)
            if (slope > 0).any():  # false for steps
                root = with_implicit_gradient(root, gap, slope)
        atom = self._at_atom(root)
        if atom is not None:  # which does not move
            root = torch.where(atom, root.detach(), root)
        if inside.all():
            return root
        return torch.where(inside, root, self._ends(below).to(root.dtype))


# Integrals over values.

_PANELS, _NODES, _KINKS, _ROUGH_KINKS = 64, 5, 512, 128
_SIZE = 2 * _PANELS * _NODES
#: Beyond these tails nothing is integrated.
_LEAST = 1e-40


def gauss(count: int, like: Tensor, extra: int = 0) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes and weights, before ``extra`` axes."""
    x, w = (torch.from_numpy(p) for p in np.polynomial.legendre.leggauss(count))
    shape = (-1, *[1] * extra)
    return x.to(like).view(shape), w.to(like).view(shape)


class _Panels:
    r"""Panels of each row in which its cdf is smooth.

    They are panels of t in :math:`y = c + s \sinh t` with the median c, which shortens
    the tails, and even in the sum of three measures: t, the cdf and its normal score.
    """

    def __init__(self, distribution: AbstractDistribution) -> None:
        room = [1] * len(distribution.batch_shape)
        ends = distribution._outline(max(_LEAST, distribution._least_tail))
        self.low, first, self._center, last, self.high = ends.clamp(-1e150, 1e150)
        scale, width = (last - first) / 1.35, self.high - self.low
        self._scale = torch.where(scale > 0, scale, 1e-9 * width).clamp_min(1e-300)
        start, end = self._place(self.low), self._place(self.high)
        share = torch.linspace(0, 1, _PANELS + 1).to(start).view(-1, *room)
        t = start + (end - start) * share
        for _ in range(3):
            cdf, survival = (
                tail.double() for tail in distribution._tails(self.value(t))
            )
            score = normal_score(cdf, survival).clamp(-13, 13)
            parts = [_progress(part) for part in (t, cdf, score)]
            measure = torch.stack(parts).mean(0)
            even = measure[:1] + (measure[-1:] - measure[:1]) * share
            t = _interpolated(even, measure, t)
        edges, kinks = [t], distribution._kinks()
        if kinks is not None:
            kinks = kinks.detach().double().clamp(self.low, self.high)
            edges.append(self._place(kinks))
        levels = distribution._level_kinks()
        if levels is not None and distribution._searched:
            # Roughly is enough for many small kinks.
            some = levels[:: -(-len(levels) // _ROUGH_KINKS)].to(t)
            cdf = distribution._tails(self.value(t))[0].double()
            edges.append(_interpolated(some.view(-1, *room), cdf.cummax(0).values, t))
        elif levels is not None:
            some = levels[:: -(-len(levels) // _KINKS)].to(t)
            level = distribution._for_each_row(some)
            y = distribution._quantile_at(level, 1 - level).double()
            edges.append(self._place(y.clamp(self.low, self.high)))
        self._edges = torch.cat(edges).sort(0).values

    def _place(self, y: Tensor) -> Tensor:
        t: Tensor = ((y - self._center) / self._scale).asinh()
        return t

    def value(self, t: Tensor) -> Tensor:
        """Values at places, both ``(..., *batch_shape)``."""
        value: Tensor = self._center + self._scale * t.sinh()
        return value

    def middle(self) -> Tensor:
        """Value of an edge, shape ``batch_shape``."""
        return self.value(self._edges[len(self._edges) // 2])

    def nodes(self, end: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Values and weights, ``(k, *batch_shape)``; a panel may end at a value."""
        edges = self._edges
        if end is not None:
            edges = torch.cat([edges, self._place(end)[None]]).sort(0).values
        x, w = gauss(_NODES, edges, edges.ndim)
        half = edges.diff(dim=0) / 2
        t = edges[:-1] + half * (1 + x)
        width = w * half * self._scale * t.cosh()
        return self.value(t).flatten(0, 1), width.flatten(0, 1)


def _progress(values: Tensor) -> Tensor:
    """Share of the way from the first to the last value of each row."""
    way = (values - values[:1]) / (values[-1:] - values[:1]).clamp_min(1e-12)
    return way.cummax(0).values


def _interpolated(wanted: Tensor, measure: Tensor, t: Tensor) -> Tensor:
    """Linear interpolation along the first axis, of an ascending measure."""
    given, values = measure.movedim(0, -1).contiguous(), t.movedim(0, -1)
    wanted = wanted.expand(-1, *measure.shape[1:]).movedim(0, -1)
    right = torch.searchsorted(given, wanted.contiguous())
    right = right.clamp(1, given.shape[-1] - 1)
    low, high = given.gather(-1, right - 1), given.gather(-1, right)
    start, end = values.gather(-1, right - 1), values.gather(-1, right)
    part = ((wanted - low) / (high - low).clamp_min(1e-300)).clamp(0, 1)
    found: Tensor = start + part * (end - start)
    return found.movedim(-1, 0)


def _moments(distribution: AbstractDistribution) -> Tensor:
    with torch.no_grad():
        panels = _Panels(distribution)
        center, (y, width) = panels.middle(), panels.nodes()
    cdf, survival = distribution._tails(y)
    outer = torch.where(y < center, -cdf.double(), survival.double()) * width
    first, second = outer.sum(0), 2 * (outer * (y - center)).sum(0)
    return torch.stack([center + first, (second - first.square()).clamp_min(0)])


def _crps(distribution: AbstractDistribution, value: Tensor) -> Tensor:
    with torch.no_grad():
        panels = _Panels(distribution)
    scores = []
    front = value.ndim - len(distribution.batch_shape)
    for y in value.flatten(0, front - 1) if front else [value]:
        inside = y.clamp(panels.low, panels.high)
        at, width = panels.nodes(inside)
        cdf, survival = distribution._tails(at)
        outer = torch.where(at < inside, cdf, survival).double()
        # Between the value and the ends of the distribution the integrand is 1.
        scores.append((outer.square() * width).sum(0) + (y - inside).abs())
    return torch.stack(scores).reshape(value.shape)


def moments(distribution: AbstractDistribution) -> tuple[Tensor, Tensor]:
    """Mean and variance of each row, float64, both of shape ``batch_shape``.

    They are infinite or NaN where the tails are too heavy.
    """
    mean, variance = by_rows(_moments, distribution, size=_SIZE)
    low, high = _tail_growth(distribution)
    mean = torch.where(high >= 1, torch.inf, torch.where(low >= 1, -torch.inf, mean))
    mean = torch.where((low >= 1) & (high >= 1), torch.nan, mean)
    wide = torch.maximum(low, high) >= 1 / 2
    variance = torch.where(wide, torch.inf, variance)
    return mean, torch.where(mean.isnan(), torch.nan, variance)


def integrated_crps(
    distribution: AbstractDistribution, value: Tensor, *, known: bool = False
) -> Tensor:
    """CRPS of values of shape ``(..., *batch_shape)`` or its end, in float64.

    A mean that runs off is refused, unless it is ``known`` to be finite.
    """
    if not known and (torch.stack(_tail_growth(distribution)) >= 1).any():
        raise UnsupportedError(
            "crps needs a distribution with a finite mean, and the mean of some rows "
            "is not. Score with log_prob."
        )
    shape = joint_shape(value.shape, distribution.batch_shape)
    y = value.double().expand(shape)
    return by_rows(_crps, distribution, y, size=_SIZE)


def _tail_growth(distribution: AbstractDistribution) -> tuple[Tensor, Tensor]:
    r"""Growth :math:`d \log|Q| / d \log(1/p)` of both tails, shape ``batch_shape``.

    The k-th moment is finite only while that is below 1/k. It is asked at two pairs of
    tail probabilities p, the second as far out as floats reach.
    """
    least = distribution._least_tail
    tail = distribution._like.new_tensor(
        [0.5, 1e-28, 1e-37, 1e10 * least, least], dtype=torch.float64
    )
    far = distribution._for_each_row(tail)
    steps = (far[1::2] / far[2::2]).log()
    found = []
    with torch.no_grad():
        for pit in ((far, 1 - far), (1 - far, far)):
            quantiles = distribution._quantile_at(*pit).double()
            logs = (quantiles[1:] - quantiles[0]).abs().log()
            pace = (logs[1::2] - logs[::2]) / steps
            pace = torch.where(logs[1::2] == math.inf, math.inf, pace)
            # A tail that falls like 1/y has a growth of 1 but for rounding.
            found.append(pace.nan_to_num(0.0, posinf=math.inf).amax(0) * (1 + 1e-9))
    return found[0], found[1]
