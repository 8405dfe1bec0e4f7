"""Functions of the standard t law: density, both tails and quantile."""

import math

import torch
from torch import Tensor

from calibrant.distributions._beta import beta_fraction
from calibrant.distributions._gamma import log_gamma_ratio
from calibrant.distributions._normal import normal_quantile
from calibrant.distributions._root import solve_increasing, with_implicit_gradient
from calibrant.distributions._rows import joint_shape
from calibrant.distributions._slopes import attach_slopes, with_slope

__all__ = ["log_student_density", "log_student_far_tail", "student_quantile"]

_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: The continued fraction takes more steps with more degrees of freedom; the expansion
#: is exact to 1e-14 from here on.
_NEARLY_NORMAL = 25.0
#: So many degrees of freedom are the normal law in every digit, and infinity is not
#: needed as a special case.
_NORMAL = 1e30
_TERMS = 9


def _limit(z: Tensor) -> float:
    """The largest ``|z|`` whose square, over the degrees of freedom, is finite.

    Beyond it the tail is a power of z in every digit.
    """
    return float(torch.finfo(z.dtype).max ** 0.45)


def _log_excess(z: Tensor) -> Tensor:
    """Log of the factor by which ``|z|`` goes beyond the limit, else 0."""
    return (z.abs() / _limit(z)).clamp_min(1.0).log()


def log_student_density(z: Tensor, df: Tensor) -> Tensor:
    """Logarithm of the density at ``z``, precise for any degrees of freedom."""
    df = df.clamp_max(_NORMAL)
    limit = _limit(z)
    decay = torch.log1p(z.clamp(-limit, limit).square() / df)
    log_peak = log_gamma_ratio(df / 2) - _LOG_SQRT_TWO_PI
    return log_peak - (df + 1) * (0.5 * decay + _log_excess(z))


def _tail_by_fraction(z: Tensor, df: Tensor) -> Tensor:
    """Log of P(T > z) for z > 0 as an incomplete beta function.

    P(T > z) = I_x(df / 2, 1 / 2) / 2 with x = df / (df + z^2).
    """
    square = z.square()
    a, b = df / 2, torch.full_like(df, 0.5)
    x, y = df / (df + square), square / (df + square)
    # The fraction converges fast on this side; the other follows by symmetry.
    swap = x > (a + 1) / (a + 2.5)
    first, second = torch.where(swap, b, a), torch.where(swap, a, b)
    fraction = beta_fraction(first, second, torch.where(swap, y, x))
    log_beta = 0.5 * math.log(math.pi) - log_gamma_ratio(a) - 0.5 * a.log()
    log_front = (
        -a * torch.log1p(square / df) + b * (square.log() - (df + square).log())
    ) - log_beta
    log_share = log_front + fraction.log() - first.log()
    log_rest = torch.log1p(-log_share.exp().clamp_max(0.95))
    return torch.where(swap, log_rest, log_share) - math.log(2)


def _expansion_coefficients(count: int) -> list[float]:
    """Coefficients of (sinh(q) / q)^(-1/2) in powers of s^4, where q = s^2 / 2."""
    base = [1 / math.factorial(2 * k + 1) / 4**k for k in range(count)]
    result = [1.0]
    for k in range(1, count):  # Miller's recurrence for a power of a series
        terms = (
            (-0.5 * i - (k - i)) * base[i] * result[k - i] for i in range(1, k + 1)
        )
        result.append(sum(terms) / k)
    return result


def _tail_by_expansion(z: Tensor, df: Tensor) -> Tensor:
    r"""Log of P(T > z) for many degrees of freedom and z^2 < df.

    With w = sqrt(n log(1 + z^2 / df)) and n = df - 1/2, the change of variables of
    Hill (1970), the tail is

    .. math::
        \int_w^\infty \varphi(v)\, h(v / \sqrt n)\, dv \Big/
        \int_{-\infty}^\infty \varphi(v)\, h(v / \sqrt n)\, dv,
        \qquad h(s) = \bigl(\sinh(s^2/2) / (s^2/2)\bigr)^{-1/2} ,

    where h is expanded in powers of s^4 and integrated by parts.
    """
    n = df - 0.5
    s = torch.log1p(z.square() / df).sqrt()
    w = n.sqrt() * s
    # Moments of the tail and of the whole law, in units of n and of the density at w.
    erfcx: Tensor = torch.special.erfcx(math.sqrt(0.5) * w)
    tail = math.sqrt(math.pi / 2) * erfcx
    whole = torch.ones_like(n)
    power = s / n.sqrt()
    tail_sum, whole_sum = tail, whole
    for k, coefficient in enumerate(_expansion_coefficients(_TERMS)[1:], start=1):
        for moment in (4 * k - 3, 4 * k - 1):
            tail = power + moment / n * tail
            whole = moment / n * whole
            power = power * s.square()
        tail_sum = tail_sum + coefficient * tail
        whole_sum = whole_sum + coefficient * whole
    return tail_sum.log() - whole_sum.log() - 0.5 * w.square() - _LOG_SQRT_TWO_PI


def _log_tail(z: Tensor, df: Tensor) -> Tensor:
    """Log of P(T > z) for z > 0."""
    df = df.clamp_max(_NORMAL)
    limit = _limit(z)
    beyond = df * _log_excess(z)
    z = z.clamp(1 / limit, limit)
    normal = (df > _NEARLY_NORMAL) & (z.square() < df)
    # Rows of the other kind get a harmless place in each formula.
    few, many = torch.where(normal, 1.0, df), torch.where(normal, df, _NORMAL)
    by_fraction = _tail_by_fraction(torch.where(normal, 1.0, z), few)
    by_expansion = _tail_by_expansion(torch.where(normal, z, 1.0), many)
    result = torch.where(normal, by_expansion, by_fraction) - beyond
    return result.clamp_min(torch.finfo(z.dtype).min)


def log_student_far_tail(z: Tensor, df: Tensor) -> Tensor:
    """Log of the probability beyond ``z``, on the side of ``z`` that is away from 0.

    It is at most log(1/2) and finite for every finite ``z``. The derivative by ``z``
    is the density over the tail; the one by ``df`` is that of the formulas themselves.
    """
    shape = joint_shape(z.shape, df.shape)
    z, df = z.expand(shape), df.expand(shape)
    learned = df.requires_grad and torch.is_grad_enabled()
    with torch.no_grad():
        far = z.abs()
        if learned:
            value, slope_df = with_slope(_log_tail, far, df)
        else:
            value, slope_df = _log_tail(far, df), torch.zeros_like(far)
        ratio = (log_student_density(z, df) - value).exp()
        slope_z = torch.where(z < 0, ratio, -ratio)
    return attach_slopes(value, (z, slope_z), (df, slope_df))


def _first_guess(tail: Tensor, df: Tensor) -> Tensor:
    """Invert the leading term of the expansion, or of the power law below df = 2."""
    n = torch.where(df > 2, df - 0.5, df).clamp_max(_NORMAL)
    return (n * torch.expm1(normal_quantile(tail).square() / n)).sqrt()


def student_quantile(level: Tensor, df: Tensor) -> Tensor:
    """Value below which the probability is ``level``; 0 and 1 give infinities.

    The root is sought in the logarithm of ``z``, where heavy tails are straight lines.
    """
    shape = joint_shape(level.shape, df.shape)
    level, df = level.expand(shape), df.expand(shape)
    tail = torch.where(level < 0.5, level, 1 - level)
    regular = torch.where((tail > 0) & (tail < 0.5), tail, 0.25)

    def gap_and_slope(log_z: Tensor) -> tuple[Tensor, Tensor]:
        z = log_z.exp()
        log_tail = log_student_far_tail(z, df)
        ratio = (log_z + log_student_density(z, df) - log_tail).exp()
        return regular.log() - log_tail, ratio

    high = torch.full_like(regular, math.log(torch.finfo(regular.dtype).max) - 1)
    start = _first_guess(regular.detach(), df.detach()).log()
    log_z = solve_increasing(gap_and_slope, -high, high, start=start)
    z = with_implicit_gradient(log_z, *gap_and_slope(log_z)).exp()
    # At the median the logarithm of z is of no use; the density is the slope there.
    median = (0.5 - tail) / log_student_density(torch.zeros_like(tail), df).exp()
    z = torch.where(tail < 0.5, torch.where(tail > 0, z, math.inf), median)
    return torch.where(level < 0.5, -z, z)
