"""The cumulative KL of Gaussian laws in one step, with its gradient in closed form."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant._checks import ArrayLike, as_float_tensor, as_target, check_shapes
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.normal import Gaussian, gradients_again
from calibrant.regularizers._ranks import ranks_of
from calibrant.regularizers._resolve import check_batch, check_finite_pit
from calibrant.regularizers.cumulative_kl import cumulative_kl, survival_factors
from calibrant.sorting.hard import hard_sort

__all__ = ["FusedCumulativeKl", "fused_form", "gaussian_of"]

#: Here z ends, as in every location-scale law; the density underflowed long before.
_FARTHEST = 1e15

#: Up to this z the survival value is a normal number, and its plain logarithm precise.
_LAST_PLAIN_LOG = {torch.float32: 12.0, torch.float64: 37.0}


@dataclass(frozen=True)
class FusedCumulativeKl:
    r"""``cumulative_kl(Gaussian(mean, stddev).pit(y))`` at a fraction of its price.

    With :math:`z = (y - \mu) / \sigma`, :math:`S = 1 - \Phi(z)` and :math:`c_k` the
    factor of the survival value at place :math:`k`,

    .. math::
        \mathrm{CKL}_n = \frac12 + \frac1n \sum_i S_i \ln S_i - \sum_i c_{k(i)} S_i,
        \qquad
        \frac{\partial\, \mathrm{CKL}_n}{\partial z_i}
            = \frac{\varphi(z_i)}{n} \bigl(n c_{k(i)} - 1 - \ln S_i\bigr) ,

    and rows with equal :math:`z` share the mean of their factors. The plain form is
    the reference: both agree to rounding, and second derivatives are taken from it.

    Parameters
    ----------
    two_sided
        Take the mean over :math:`u` and :math:`1 - u`.

    Examples
    --------
    >>> law = Gaussian([0.0, 1.0, 2.0], [1.0, 2.0, 0.5])
    >>> y = [0.3, -1.0, 2.1]
    >>> fused, plain = FusedCumulativeKl()(law, y), cumulative_kl(law.pit(y))
    >>> torch.allclose(fused, plain, rtol=1e-14)
    True
    """

    two_sided: bool = False

    def __call__(
        self,
        law: Gaussian,
        y: ArrayLike,
        *,
        strength: float = 1.0,
        dim: int = -1,
        validate: bool = True,
    ) -> Tensor:
        """Return strength times the divergence, rows on the axis ``dim``."""
        target = as_float_tensor(y, name="y")
        shape = law.batch_shape
        if target.shape != shape:
            check_shapes(target.shape, shape, name="y")
            shape = max(target.shape, shape, key=len)
        check_batch(shape, single_rows=dim != -1 or not validate)
        mean, stddev = law.mean, law.stddev
        if dim not in (-1, len(shape) - 1):
            mean, stddev, target = (
                part.expand(shape).movedim(dim, -1) for part in (mean, stddev, target)
            )
        value: Tensor = _GaussianCumulativeKl.apply(  # type: ignore[no-untyped-call]
            mean, stddev, target, strength, self.two_sided, validate
        )
        return value


def fused_form(regularizer: object) -> FusedCumulativeKl | None:
    """Return the fused form of a resolved regularizer, or None if it has none."""
    options: dict[str, Any] = {}
    if isinstance(regularizer, partial) and not regularizer.args:
        options = dict(regularizer.keywords)
        regularizer = regularizer.func
    sort = options.pop("sort", hard_sort)
    two_sided = options.pop("two_sided", False)
    if regularizer is not cumulative_kl or sort is not hard_sort or options:
        return None
    return FusedCumulativeKl(two_sided=bool(two_sided))


def gaussian_of(prediction: object) -> Gaussian | None:
    """Return the Gaussian that a prediction stands for, None if it is another law.

    None also under a compiler, which fuses by itself, and for tensors that only trace
    and have no numbers to sort.
    """
    pair = isinstance(prediction, tuple) and len(prediction) == 2
    exact = type(prediction) in (Gaussian, Normal)  # a subclass may be another law
    if torch.compiler.is_compiling() or not (pair or exact):
        return None
    law = as_distribution(prediction)
    if isinstance(law, Gaussian) and type(law.mean) in (Tensor, nn.Parameter):
        return law
    return None


class _GaussianCumulativeKl(torch.autograd.Function):
    """The divergence of rows on the last axis; the slope is found with the value.

    In a training step an operation on a small batch costs its call, not its numbers:
    constants are therefore kept in the table and in factors.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        mean: Tensor,
        stddev: Tensor,
        y: Tensor,
        strength: float,
        two_sided: bool,
        validate: bool,
    ) -> Tensor:
        value, z, slope = _value_and_slope(
            (mean, stddev, y), strength, two_sided=two_sided, validate=validate
        )
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(mean, stddev, y, z, slope)
            ctx.strength, ctx.two_sided = strength, two_sided
        return value

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        gradient: Tensor,
    ) -> tuple[Tensor | None, ...]:
        *inputs, z, slope = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # create_graph=True

            def plain(mean: Tensor, stddev: Tensor, y: Tensor) -> Tensor:
                pit = Gaussian(mean, stddev).pit(y)
                strength: float = ctx.strength
                return strength * cumulative_kl(pit, two_sided=ctx.two_sided)

            found = gradients_again(plain, inputs, wanted, gradient)
            return *found, None, None, None
        # Where shapes or dtypes were broadcast, torch reduces what is returned.
        by_mean = slope * gradient.unsqueeze(-1)
        by_stddev = by_mean * z if wanted[1] else None
        return by_mean, by_stddev, -by_mean if wanted[2] else None, None, None, None


def _value_and_slope(
    parts: tuple[Tensor, Tensor, Tensor],
    strength: float,
    *,
    two_sided: bool,
    validate: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Value ``(...)``, z ``(..., n)`` and the slope by the mean ``(..., n)``."""
    mean, stddev, y = parts
    z = (y - mean).div_(stddev)
    n, dtype, device = z.shape[-1], z.dtype, z.device
    table, ranks = _table(n, dtype, device), ranks_of(z)
    last = _LAST_PLAIN_LOG[dtype]
    near = -last <= ranks.lowest and ranks.highest <= last  # False for NaN
    if not near:
        if validate:
            _check_finite(z, y)
        z.clamp_(-_FARTHEST, _FARTHEST)
    value, bracket = _one_sided(z, ranks.entries(table), strength, near=near)
    if two_sided:
        entries = ranks.entries(table.flip(0))
        mirrored, other = _one_sided(-z, entries, strength, near=near)
        value, bracket = (value + mirrored) / 2, (bracket - other) / 2
    factor = _number(-strength / (math.sqrt(2 * math.pi) * n), dtype, device)
    zero = _number(0.0, dtype, device)
    slope = torch.addcmul(zero, z, z, value=-0.5).exp_().mul_(bracket)
    return value, z, slope.div_(stddev).mul_(factor)


def _one_sided(
    z: Tensor, entries: Tensor, strength: float, *, near: bool
) -> tuple[Tensor, Tensor]:
    """Strength times the value ``(...)``, and the bracket of the slope ``(..., n)``."""
    twice_survival = torch.erfc(z * _number(math.sqrt(0.5), z.dtype, z.device))
    logarithm = twice_survival.log()
    if not near:
        # Precise everywhere, at ten times the price. Only far values take it, so that
        # no row's last digits depend on how far another member's rows are.
        precise = torch.special.log_ndtr(-z).add_(math.log(2))
        logarithm = torch.where(z.abs() <= _LAST_PLAIN_LOG[z.dtype], logarithm, precise)
    bracket = entries.sub_(logarithm)
    total = torch.addcmul(twice_survival, twice_survival, bracket).sum(-1)
    half = _number(strength / 2, z.dtype, z.device)
    return torch.add(half, total, alpha=-strength / 2 / z.shape[-1]), bracket


def _check_finite(z: Tensor, y: Tensor) -> None:
    """Refuse targets that are not finite, and the laws of a model that diverged."""
    if not torch.isfinite(y).all():
        as_target(y)
    check_finite_pit(z)


@lru_cache(maxsize=16)
def _table(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The numbers n c_k - 1 + ln 2, rounded once."""
    # What inference mode makes could not be used in training afterwards.
    with torch.inference_mode(mode=False):
        return (n * survival_factors(n, device) + (math.log(2) - 1)).to(dtype)


@lru_cache(maxsize=64)
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A constant as a tensor: making one anew costs as much as an operation."""
    with torch.inference_mode(mode=False):
        return torch.tensor(value, dtype=dtype, device=device)
