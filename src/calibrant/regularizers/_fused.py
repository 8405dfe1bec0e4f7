"""The cumulative KL of Gaussian distributions with its gradient in closed form."""

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions.normal import Gaussian
from calibrant.regularizers.divergences import cumulative_kl, survival_factors

__all__ = ["gaussian_cumulative_kl"]

#: Here z ends, as in every location-scale family; the density underflowed long before.
_FARTHEST = 1e15
#: Up to this z the survival value is a normal number, and its plain logarithm precise.
_LAST_PLAIN_LOG = {torch.float32: 12.0, torch.float64: 37.0}


def gaussian_cumulative_kl(mean: Tensor, stddev: Tensor, y: Tensor) -> Tensor:
    r"""Cumulative KL of Gaussian PIT values, rows on the last axis.

    With :math:`z = (y - \mu) / \sigma`, :math:`S = 1 - \Phi(z)` and :math:`c_k` the
    factor of the survival value at place :math:`k`,

    .. math::
        \mathrm{CKL}_n = \frac12 + \frac1n \sum_i S_i \ln S_i - \sum_i c_{k(i)} S_i,
        \qquad
        \frac{\partial\, \mathrm{CKL}_n}{\partial z_i}
            = \frac{\varphi(z_i)}{n} \bigl(n c_{k(i)} - 1 - \ln S_i\bigr) ,

    and rows with equal :math:`z` share the mean of their factors. The plain form is
    the reference in the tests: both agree to rounding.

    Examples
    --------
    >>> mean, stddev, y = torch.zeros(3), torch.ones(3), torch.tensor([0.3, -1.0, 2.0])
    >>> plain = cumulative_kl(Gaussian(mean, stddev).pit(y))
    >>> torch.allclose(gaussian_cumulative_kl(mean, stddev, y), plain)
    True
    """
    value: Tensor = _GaussianCumulativeKl.apply(mean, stddev, y)  # type: ignore[no-untyped-call]
    return value


def _plain(mean: Tensor, stddev: Tensor, y: Tensor) -> Tensor:
    return cumulative_kl(Gaussian(mean, stddev).pit(y))


class _GaussianCumulativeKl(torch.autograd.Function):
    """The value ``(...)``; the slope ``(..., n)`` is found along with it."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, stddev: Tensor, y: Tensor) -> Tensor:  # noqa: ANN401
        z = (y - mean).div_(stddev)
        n, last = z.shape[-1], _LAST_PLAIN_LOG[z.dtype]
        entries = _by_rank(_table(n, z.dtype, z.device), z)
        near = bool((z.abs() <= last).all())  # False for NaN
        if not near:
            z.clamp_(-_FARTHEST, _FARTHEST)
        twice_survival = torch.erfc(z * math.sqrt(0.5))
        logarithm = twice_survival.log()
        if not near:
            # Ten times the price. Only far values take it: no row's last digits
            # depend on how far another member's rows are.
            precise = torch.special.log_ndtr(-z).add_(math.log(2))
            logarithm = torch.where(z.abs() <= last, logarithm, precise)
        bracket = entries.sub_(logarithm)
        total = torch.addcmul(twice_survival, twice_survival, bracket).sum(-1)
        slope = z.square().mul_(-0.5).exp_().mul_(bracket).div_(stddev)
        slope.mul_(-1 / (math.sqrt(2 * math.pi) * n))
        ctx.save_for_backward(mean, stddev, y, z, slope)
        return torch.add(total.new_full((), 0.5), total, alpha=-0.5 / n)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        *inputs, z, slope = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph=True: that of the plain form
            with torch.enable_grad():
                # Aliases: a path from one input to another is not ours to follow.
                aliases = [part.view_as(part) for part in inputs]
                value = _plain(*aliases)
            learned = [part for part, want in zip(aliases, wanted, strict=True) if want]
            found = iter(
                torch.autograd.grad(value, learned, gradient, create_graph=True)
            )
            return tuple(next(found) if want else None for want in wanted)
        # Where shapes or dtypes were broadcast, torch reduces what is returned.
        by_mean = slope * gradient.unsqueeze(-1)
        by_stddev = by_mean * z if wanted[1] else None
        return by_mean, by_stddev, -by_mean if wanted[2] else None


@lru_cache(maxsize=16)
def _table(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The numbers n c_k - 1 + ln 2, rounded once."""
    # What inference mode makes could not be used in training afterwards.
    with torch.inference_mode(mode=False):
        return (n * survival_factors(n) + (math.log(2) - 1)).to(device, dtype)


def _by_rank(table: Tensor, values: Tensor) -> Tensor:
    """Give each value ``(..., n)`` the entry of its rank, equal values their mean."""
    # numpy sorts a stack in half of torch's time.
    on_cpu = values.device.type == "cpu"
    order = torch.from_numpy(values.numpy().argsort(-1)) if on_cpu else values.argsort()
    ordered, entries = values.gather(-1, order), table.expand_as(values)
    starts_anew = ordered[..., 1:] != ordered[..., :-1]
    if not starts_anew.all():
        run = torch.nn.functional.pad(starts_anew.cumsum(-1), (1, 0))
        zeros = torch.zeros_like(ordered)
        total = zeros.scatter_add(-1, run, entries)
        count = zeros.scatter_add(-1, run, torch.ones_like(ordered))
        entries = (total / count.clamp_min(1)).gather(-1, run)
    return torch.empty_like(ordered).scatter_(-1, order, entries)
