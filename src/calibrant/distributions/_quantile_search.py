"""Quantiles of many rows at once: roots of the cdf on the scale of normal scores."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calibrant.distributions._normal import normal_quantile
from calibrant.distributions._outline import pit_of_tail
from calibrant.distributions.base import AbstractDistribution

__all__ = ["quantiles_by_search"]

#: Values that are held at once: enough for all threads, few enough for the cache.
_ENTRIES = 2**16
#: Rounds after which a row is left to the slow search; 3 or 4 are usual.
_STEPS = 30
#: Relative gap of a tail from which one Newton step leaves rounding only.
_NEAR = 1e-7
#: Relative gap on a plateau of the cdf that counts as none.
_SETTLED = 1e-11
_SQRT_TWO_PI = math.sqrt(2 * math.pi)

#: A search that leaves nothing open: law, tail and below to quantiles.
SlowSearch = Callable[[Any, Tensor, Tensor], Tensor]


def quantiles_by_search(
    law: AbstractDistribution, tail: Tensor, below: Tensor, slow: SlowSearch
) -> Tensor:
    r"""Values with the given probability below them, or else above them.

    The root of :math:`\Phi^{-1}(F(y)) - \Phi^{-1}(p)` by Newton's steps inside a
    bracket. For a normal law that is a straight line, for most others nearly one, in
    the tails too; so few steps are needed. They use plain probabilities, which float64
    resolves down to 1e-308. Rows that are not settled by then (smaller tails, jumps
    and plateaus of the cdf, laws without a density) are left to ``slow``.

    Parameters
    ----------
    law
        Of any batch shape.
    tail
        Probabilities inside (0, 1/2], float64, that broadcast against ``batch_shape``.
    below
        Whether each lies below the value that is sought, same shape.
    slow
        The search for what is left.

    Returns
    -------
    Tensor
        Without gradient, of the joint shape of ``tail`` and the batch.
    """
    batch = law.batch_shape
    shape = torch.broadcast_shapes(tail.shape, batch)
    if not batch or not shape.numel():
        return _block(law, tail, below, slow).expand(shape)
    axis, length = len(shape) - len(batch), batch[0]
    at_once = max(1, _ENTRIES * length // shape.numel())
    blocks = []
    for start in range(0, length, at_once):
        rows = slice(start, start + at_once)
        levels, sides = (_rows_of(each, rows, len(batch)) for each in (tail, below))
        part = law if at_once >= length else law[rows]
        blocks.append(_block(part, levels, sides, slow))
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, axis)


def _rows_of(values: Tensor, rows: slice, axes: int) -> Tensor:
    """Rows of what has a value for each; ``axes`` is the number of batch axes."""
    if values.ndim < axes or values.shape[-axes] == 1:
        return values
    return values.movedim(-axes, 0)[rows].movedim(0, -axes)


def _block(
    law: AbstractDistribution, tail: Tensor, below: Tensor, slow: SlowSearch
) -> Tensor:
    pairs = _Pairs.of(law, tail, below)
    _solve(pairs, _STEPS)
    settled = pairs.settled
    if settled.all():
        return pairs.x
    tail, below = tail.expand(settled.shape), below.expand(settled.shape)
    if len(law.batch_shape) != 1:
        return torch.where(settled, pairs.x, slow(law, tail, below))
    rows = (~settled).reshape(-1, len(law)).any(0).nonzero()[:, 0]
    again = slow(law[rows], tail[..., rows], below[..., rows])
    pairs.x[..., rows] = torch.where(settled[..., rows], pairs.x[..., rows], again)
    return pairs.x


def _solve(pairs: "_Pairs", steps: int) -> None:
    """Step until all pairs are settled, or ``steps`` are done."""
    for done in range(1, steps + 1):
        pairs.step()
        left = pairs.left()
        count = int(left.sum())
        if not count:
            return
        if 2 * count <= left.numel() and len(pairs.law.batch_shape) == 1:
            few = pairs.only(left)
            _solve(few, steps - done)
            pairs.x[left], pairs.settled[left] = few.x, few.settled
            return


class _Place(NamedTuple):
    """A value, its distance from the goal, and how the value changes with that."""

    x: Tensor
    gap: Tensor
    rate: Tensor


def _through(first: _Place, second: _Place) -> Tensor:
    """Value without a gap on the cubic through two places with their rates."""
    span = second.gap - first.gap
    share = second.gap / span  # from the second place back to the goal
    rise = (second.x - first.x) / span
    bend = second.rate - rise
    twist = first.rate + second.rate - 2 * rise
    step = second.rate - share * (bend + (1 - share) * twist)
    return second.x - second.gap * step


class _Pairs:
    """Pairs of a row and a level, and what is known of the quantile of each.

    All tensors have one shape, ``(..., *batch_shape)`` of the law.
    """

    def __init__(
        self, law: AbstractDistribution, goal: Tensor, ends: list[Tensor], x: Tensor
    ) -> None:
        self.law, self.goal, self.x = law, goal, x
        self.low, self.high = ends
        self.last_step = self.high - self.low
        self.possible = self.last_step.isfinite()
        self.settled = torch.zeros_like(self.possible)
        self.before: _Place | None = None

    @classmethod
    def of(cls, law: AbstractDistribution, tail: Tensor, below: Tensor) -> "_Pairs":
        """Start between the values that the law knows to be around its quantiles."""
        low, start, high = law._around(pit_of_tail(tail, below))
        goal = normal_quantile(tail)
        goal = torch.where(below, goal, -goal).expand(low.shape)
        start = torch.where(start.isfinite(), start, low / 2 + high / 2)
        return cls(law, goal, [low, high], start.clamp(low, high))

    def left(self) -> Tensor:
        """Tell which pairs a further step may settle."""
        return self.possible & ~self.settled

    def only(self, which: Tensor) -> "_Pairs":
        """Keep some pairs, as rows of their own."""
        rows = which.reshape(-1, which.shape[-1]).nonzero()[:, 1]
        ends = [self.low[which], self.high[which]]
        few = _Pairs(self.law[rows], self.goal[which], ends, self.x[which])
        few.last_step = self.last_step[which]
        few.before = self.before and _Place(*(part[which] for part in self.before))
        return few

    def step(self) -> None:
        """Step towards the root inside the bracket, at least half as far as before."""
        x = self.x
        known = self._gap_and_slope()
        if known is None:
            self.possible.zero_()
            return
        gap, slope, near = known
        beyond = gap < 0
        self.low = torch.where(beyond, x, self.low)
        self.high = torch.where(beyond, self.high, x)
        here = _Place(x, gap, 1 / slope)
        aim = x - gap * here.rate  # NaN on a plateau, which fails all comparisons
        if self.before is not None:
            bent = _through(self.before, here)
            aim = torch.where(bent.isfinite() & ~near, bent, aim)
        self.before = here
        inside = (aim >= self.low) & (aim <= self.high)
        shrinks = 2 * (aim - x).abs() <= self.last_step
        halved = torch.where(near, x, self.low + (self.high - self.low) / 2)
        following = torch.where(inside & (shrinks | near), aim, halved)
        self.last_step = (following - x).abs()
        # A settled pair must stand still: rounding would send it off again.
        self.x = torch.where(self.settled, x, following)
        self.settled |= near

    def _gap_and_slope(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Distance of the normal score from the goal, its slope, and what is near."""
        cdf, survival, density = self.law._tails(self.x, density=True)
        if density is None:
            return None
        z = normal_quantile(torch.minimum(cdf, survival))
        slope = density / (z.square().mul_(-0.5).exp_().div_(_SQRT_TWO_PI))
        z = torch.where(cdf < survival, z, -z)
        gap = z - self.goal
        # A tail changes by at most this, relative to itself, for a unit of the score.
        relative = gap.abs() * z.abs().clamp_min_(1)
        rises = density > 0
        # On a plateau at the level the smallest value is sought: go left.
        gap = torch.where(~rises & (gap > -_SETTLED), 1.0, gap)
        return gap, slope, (relative <= _NEAR) & rises
