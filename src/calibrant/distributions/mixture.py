"""Mixtures: what an ensemble, dropout passes or the models of several folds predict."""

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from calibrant.distributions._numerics import (
    Bracket,
    Searched,
    by_rows,
    integrated_crps,
)
from calibrant.distributions.base import (
    AbstractDistribution,
    Shape,
    Source,
    joint_shape,
)
from calibrant.distributions.normal import (
    Gaussian,
    location_and_scale,
    log_normal_cdf,
    log_scaled_density,
    normal_cdf,
    normal_score,
    standardized,
)
from calibrant.protocols import PitValues
from calibrant.validation import (
    ArrayLike,
    InputError,
    UnsupportedError,
    as_float_tensor,
)

_SQRT_HALF = math.sqrt(0.5)
_SQRT_TWO_PI = math.sqrt(2 * math.pi)
#: What a sum of weights may be off, which half precision needs.
_ROUNDING = 4e-3


def weights_like(weights: ArrayLike | None, means: Tensor) -> Tensor:
    """Return checked weights in the shape of the means, members first."""
    members = len(means)
    if weights is None:
        return torch.full_like(means, 1 / members)
    given = as_float_tensor(weights, name="weights", like=means).to(means.dtype)
    if given.shape not in (means.shape[:1], means.shape):
        raise InputError(
            f"weights must have shape ({members},) or that of the means, "
            f"{tuple(means.shape)}, got {tuple(given.shape)}."
        )
    total = given.sum(0)
    off = (total - 1).abs().max() if given.numel() else given.new_zeros(())
    if (given < 0).any() or off > _ROUNDING:
        raise InputError(
            "weights must be at least 0 and sum to 1 over the first axis, the smallest "
            f"is {given.min().item():.4g} and a sum is off by {off.item():.4g}. Use "
            "softmax(raw, dim=0), or weights / weights.sum(0)."
        )
    given = given / total
    room = given.reshape(members, *[1] * (means.ndim - given.ndim), *given.shape[1:])
    return room.expand(means.shape)


def _log_sum(weights: Tensor, logs: Tensor) -> Tensor:
    """Logarithm of the weighted sum of exponentials over the first axis."""
    positive = weights > 0
    # log(0) would turn the gradient of the other weights into NaN.
    log_weights = torch.where(positive, weights, 1.0).log()
    return torch.where(positive, log_weights + logs, -torch.inf).logsumexp(0)


def _joined(
    cdf: Tensor, survival: Tensor, log_cdf: Tensor, log_survival: Tensor
) -> PitValues:
    """Both tails; near 1 the sum of the logarithms knows less than the other tail."""
    upper = torch.log1p(-survival.clamp_max(0.5))
    lower = torch.log1p(-cdf.clamp_max(0.5))
    return PitValues(
        cdf,
        survival,
        torch.where(cdf < 0.5, log_cdf, upper),
        torch.where(survival < 0.5, log_survival, lower),
    )


class GaussianMixture(Searched):
    r"""Mixture of normals :math:`\sum_j w_j \mathcal{N}(\mu_j, \sigma_j^2)`.

    The components (members of an ensemble, passes of dropout) are the FIRST axis.

    Parameters
    ----------
    means
        :math:`\mu_j`, shape ``(members, *batch_shape)``.
    stddevs
        :math:`\sigma_j > 0`, a number or of the same shape.
    weights
        :math:`w_j \ge 0` that sum to 1 over the members, shape ``(members,)`` or that
        of the means; all equal if left out.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), arXiv:1612.01474, for the mixture.
    Grimit, Gneiting, Berrocal and Johnson (2006), *The Continuous Ranked Probability
    Score for Circular Variables*, for its crps.

    Examples
    --------
    >>> predictive = GaussianMixture([[-2.0, 0.0], [2.0, 0.0]], 1.0)
    >>> predictive.mean.tolist(), predictive.variance.tolist()
    ([0.0, 0.0], [5.0, 1.0])
    >>> [round(value, 3) for value in predictive.quantile(0.975).tolist()]
    [3.645, 1.96]
    """

    _parameters = ("means", "stddevs", "weights")
    _members_first = True
    _least_tail = 1e-300

    def __init__(
        self, means: ArrayLike, stddevs: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        parts = location_and_scale(means, stddevs, "means", "stddevs")
        self.means, self.stddevs = parts
        if self.means.ndim == 0 or len(self.means) == 0:
            raise InputError(
                "means must have shape (members, *batch) with at least one member, "
                f"got {tuple(self.means.shape)}."
            )
        self.weights = weights_like(weights, self.means)

    def _moments(self) -> tuple[Tensor, Tensor]:
        mean = (self.weights * self.means).sum(0)
        within, between = self.stddevs.square(), (self.means - mean).square()
        return mean, (self.weights * (within + between)).sum(0)

    @property
    def _searched(self) -> bool:
        return len(self.means) > 1

    def moment_matched(self) -> Gaussian:
        """Return the normal distribution with the mixture's mean and variance."""
        return Gaussian(self.mean, self.stddev)

    def _against(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Parameters with room for the axes of ``value`` in front of the batch."""
        extra = (1,) * (value.ndim - len(self.batch_shape))
        shape = (len(self.means), *extra, *self.batch_shape)
        means, stddevs = self.means.reshape(shape), self.stddevs.reshape(shape)
        return means, stddevs, self.weights.reshape(shape)

    def _tails(self, value: Tensor) -> tuple[Tensor, Tensor]:
        means, stddevs, weights = self._against(value)
        z = standardized(value - means, stddevs)
        cdf, survival = (weights * normal_cdf(side) for side in (z, -z))
        # Weights sum to 1 up to rounding, and a probability is at most 1.
        return cdf.sum(0).clamp_max(1.0), survival.sum(0).clamp_max(1.0)

    def _pit(self, value: Tensor) -> PitValues:
        means, stddevs, weights = self._against(value)
        z = standardized(value - means, stddevs)
        logs = (_log_sum(weights, log_normal_cdf(side)) for side in (z, -z))
        return _joined(*self._tails(value), *logs)

    def _log_prob(self, value: Tensor) -> Tensor:
        means, stddevs, weights = self._against(value)
        return _log_sum(weights, log_scaled_density(value - means, stddevs))

    @property
    def _entries(self) -> int:
        return 4 * len(self.means)

    def _logs(self, x: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
        # Plain sums: float64 resolves every tail that can be asked for.
        means, stddevs, weights = self._against(x)
        z = (x - means) / stddevs
        sign = torch.where(below, -_SQRT_HALF, _SQRT_HALF)
        beyond = (weights * torch.erfc(sign * z)).sum(0) / 2
        density = weights / stddevs * (-0.5 * z.square()).exp()
        return beyond.log(), (density.sum(0) / _SQRT_TWO_PI).log()

    def _bracket(self, cdf: Tensor, survival: Tensor) -> Bracket:
        z = normal_score(cdf, survival)
        means, stddevs, weights = self._against(z)
        ends = torch.where(weights > 0, means + stddevs * z, torch.nan).double()
        low, high = ends.nan_to_num(torch.inf), ends.nan_to_num(-torch.inf)
        mean, variance = self._moments()  # of a normal to start from
        return low.amin(0), high.amax(0), (mean + variance.sqrt() * z).double()

    def _ends(self, below: Tensor) -> Tensor:
        return torch.where(below, -torch.inf, torch.inf)

    def _crps(self, value: Tensor) -> Tensor:
        shape = joint_shape(value.shape, self.batch_shape)
        members = len(self.means)
        size = members * max(members, shape.numel() // max(1, self.batch_shape.numel()))
        return by_rows(GaussianMixture._energy, self, value.expand(shape), size=size)

    def _energy(self, value: Tensor) -> Tensor:
        r"""Mean distance of a draw to the value, less half of that of two draws.

        .. math:: \sum_i w_i A(y - \mu_i, \sigma_i) - \frac12 \sum_{i, j} w_i w_j
            A\Bigl(\mu_i - \mu_j, \sqrt{\sigma_i^2 + \sigma_j^2}\Bigr)
        """
        means, stddevs, weights = self._against(value)
        distance = (weights * _normal_distance(value - means, stddevs)).sum(0)
        first, second = torch.triu_indices(
            len(self.means), len(self.means), device=self.means.device
        )
        pair = _normal_distance(
            self.means[first] - self.means[second],
            torch.hypot(self.stddevs[first], self.stddevs[second]),
        )
        # (i, j) stands for (j, i) too, and counts half.
        count = torch.where(first == second, 0.5, 1.0).to(pair)
        share = self.weights[first] * self.weights[second] * pair
        spread: Tensor = torch.tensordot(count, share, 1)
        return distance - spread

    def _sample(self, shape: Shape, generator: Source) -> Tensor:
        like = self.means.new_empty(()).expand(shape)
        uniform = torch.empty_like(like).uniform_(generator=generator)
        noise = torch.empty_like(like).normal_(generator=generator)
        member = torch.zeros(shape, dtype=torch.long, device=self.means.device)
        for bound in self.weights.cumsum(0)[:-1]:
            member += uniform >= bound
        means, stddevs, _ = self._against(uniform)
        mean, stddev = (
            parameter.expand(-1, *shape).gather(0, member[None]).squeeze(0)
            for parameter in (means, stddevs)
        )
        return mean + stddev * noise


def _normal_distance(mean: Tensor, stddev: Tensor) -> Tensor:
    r"""Mean absolute value of a normal variable.

    .. math:: A(\mu, \sigma) = \mu\,\mathrm{erf}\bigl(z / \sqrt2\bigr)
        + \sqrt{2 / \pi}\,\sigma e^{-z^2 / 2}, \qquad z = \mu / \sigma
    """
    z = standardized(mean, stddev)
    peak = math.sqrt(2 / math.pi) * stddev * (-0.5 * z.square()).exp()
    return mean * torch.erf(_SQRT_HALF * z) + peak


class Mixture(Searched):
    r"""The distribution with cdf :math:`\sum_k w_k F_k(y)`, for each row.

    The components may be of any family, and of several. For normal components alone
    :class:`GaussianMixture` has closed forms; :func:`pool` chooses between the two.

    .. math::
        \mu = \sum_k w_k \mu_k, \qquad
        \sigma^2 = \sum_k w_k \bigl(\sigma_k^2 + (\mu_k - \mu)^2\bigr), \qquad
        \log f(y) = \log \sum_k w_k f_k(y) .

    Quantiles are roots of the cdf, found in float64; they carry first derivatives.
    If a component lacks something, so does the mixture: with samples among them there
    is neither a density nor a gradient of quantiles and crps.

    ``crps`` is an integral and needs finite means. Its error is below 1e-6 standard
    deviations for smooth components, and 1e-4 through maps with many kinks.

    Parameters
    ----------
    components
        At least one distribution, all of one ``batch_shape``.
    weights
        :math:`w_k \ge 0` that sum to 1 over the components, shape ``(k,)`` or
        ``(k, *batch_shape)``; all equal if left out.

    References
    ----------
    Gneiting and Ranjan (2013), *Combining Predictive Distributions*, on the linear
    pool, which is wider than its calibrated components: recalibrate after it.

    Examples
    --------
    >>> from calibrant.distributions import Laplace
    >>> predictive = Mixture([Gaussian([0.0, 8.0], 1.0), Laplace([2.0, 8.0], 1.0)])
    >>> predictive.mean.tolist(), predictive.variance.tolist()
    ([1.0, 8.0], [2.5, 1.5])
    >>> [round(value, 3) for value in predictive.quantile(0.5).tolist()]
    [0.941, 8.0]
    """

    _parameters = ("weights",)

    def __init__(
        self,
        components: Sequence[AbstractDistribution],
        weights: ArrayLike | None = None,
    ) -> None:
        self.components = _checked(components)
        like = self.components[0]._like
        for part in self.components[1:]:
            like = like.to(torch.promote_types(like.dtype, part.dtype))
        room = like.new_zeros(()).expand(len(self.components), *self.batch_shape)
        self.weights = weights_like(weights, room)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""
        return self.components[0].batch_shape

    @property
    def _trained(self) -> bool:
        return super()._trained or any(part._trained for part in self.components)

    @property
    def _least_tail(self) -> float:
        return max(part._least_tail for part in self.components)

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._average(part.mean for part in self.components)

    @property
    def variance(self) -> Tensor:
        """Mean of the variances plus variance of the means, shape ``batch_shape``."""
        center = self.mean
        return self._average(
            part.variance + (part.mean - center).square() for part in self.components
        )

    def __getitem__(self, rows: slice | Tensor) -> "Mixture":
        """Select rows of the first batch axis."""
        return Mixture([part[rows] for part in self.components], self.weights[:, rows])

    def _average(self, parts: Iterable[Tensor]) -> Tensor:
        """Weighted sum of what each component says, one by one."""
        total = self.weights.new_zeros(())
        for weight, part in zip(self.weights, parts, strict=True):
            # A component without weight may have an endless moment.
            used = (weight > 0) | part.isfinite()
            total = total + weight * torch.where(used, part, 0.0)
        return total

    def _share(self, parts: Iterable[Tensor]) -> Tensor:
        """Weighted sum of probabilities; its rounding must not exceed 1."""
        return self._average(parts).clamp_max(1.0)

    def _log_average(self, logs: Iterable[Tensor]) -> Tensor:
        """Logarithm of the weighted sum of exponentials."""
        parts = torch.stack(list(logs))
        extra = (1,) * (parts.ndim - self.weights.ndim)
        shape = (len(parts), *extra, *self.batch_shape)
        return _log_sum(self.weights.reshape(shape), parts)

    def _tails(self, value: Tensor) -> tuple[Tensor, Tensor]:
        cdf, survival = zip(*(p._tails(value) for p in self.components), strict=True)
        return self._share(cdf), self._share(survival)

    def _pit(self, value: Tensor) -> PitValues:
        return self._join([part._pit(value) for part in self.components])

    def _pit_before(self, value: Tensor) -> PitValues | None:
        before = [part._pit_before(value) for part in self.components]
        if all(part is None for part in before):
            return None
        pairs = zip(self.components, before, strict=True)
        return self._join([part._pit(value) if b is None else b for part, b in pairs])

    def _join(self, pits: list[PitValues]) -> PitValues:
        """PIT values of the mixture from those of its components."""
        return _joined(
            self._share(pit.cdf for pit in pits),
            self._share(pit.survival for pit in pits),
            self._log_average(pit.log_cdf for pit in pits),
            self._log_average(pit.log_survival for pit in pits),
        )

    def _atoms(self) -> Tensor | None:
        return self._all_of([part._atoms() for part in self.components])

    def _kinks(self) -> Tensor | None:
        return self._all_of([part._kinks() for part in self.components])

    def _outline(self, tail: float) -> Tensor:
        parts = torch.stack([part._outline(tail) for part in self.components])
        used = torch.where(self.weights[:, None] > 0, parts, torch.nan)
        low, high = used[:, 0].nan_to_num(torch.inf), used[:, 4].nan_to_num(-torch.inf)
        middle = (self.weights[:, None] * parts.clamp(-1e150, 1e150)).sum(0)[1:4]
        return torch.cat([low.amin(0)[None], middle, high.amax(0)[None]])

    def _all_of(self, places: list[Tensor | None]) -> Tensor | None:
        known = [part.to(self.dtype) for part in places if part is not None]
        return torch.cat(known) if known else None

    def _log_prob(self, value: Tensor) -> Tensor:
        logs = [part._log_prob(value) for part in self.components]
        atoms = [part._at_atom(value) for part in self.components]
        at = [
            (weight > 0) & atom
            for weight, atom in zip(self.weights, atoms, strict=True)
            if atom is not None
        ]
        if at:
            # Beside a probability a density counts for nothing.
            some = torch.stack(at).any(0)
            logs = [
                torch.where(some if atom is None else some & ~atom, -torch.inf, log)
                for log, atom in zip(logs, atoms, strict=True)
            ]
        return self._log_average(logs)

    def _bracket(self, cdf: Tensor, survival: Tensor) -> Bracket:
        found = [part._quantile_at(cdf, survival) for part in self.components]
        return *self._around(found), None

    def _ends(self, below: Tensor) -> Tensor:
        level = torch.where(below, 0.0, 1.0).to(self.dtype)
        ends = self._around([part._quantile(level) for part in self.components])
        return torch.where(below, *ends)

    def _around(self, values: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Smallest and largest value of the components that have a weight."""
        pairs = list(zip(self.weights, values, strict=True))
        low = [torch.where(w > 0, v.double(), torch.inf) for w, v in pairs]
        high = [torch.where(w > 0, v.double(), -torch.inf) for w, v in pairs]
        return reduce(torch.minimum, low), reduce(torch.maximum, high)

    def _crps(self, value: Tensor) -> Tensor:
        for part, weight in zip(self.components, self.weights, strict=True):
            inner = part._behind
            try:
                missing = ~inner.mean.isfinite() & (weight > 0)
            except UnsupportedError:
                continue
            if missing.any():
                raise UnsupportedError(
                    f"crps needs a finite mean, and {int(missing.sum())} rows of a "
                    f"component {type(inner).__name__} have none. Score with log_prob."
                )
        return integrated_crps(self, value, known=True).to(self.dtype)

    def _sample(self, shape: Shape, generator: Source) -> Tensor:
        uniform = self.weights.new_empty(shape).uniform_(generator=generator)
        bounds = self.weights.cumsum(0)
        result = torch.zeros_like(uniform)
        front = shape[: len(shape) - len(self.batch_shape)]
        for number, part in enumerate(self.components):
            drawn = part.sample(front, generator=generator).to(result.dtype)
            # Each overwrites those before it, so the last keeps what is above.
            above = uniform >= bounds[number - 1] if number else uniform >= 0
            result = torch.where(above, drawn, result)
        return result


def _checked(
    components: Sequence[AbstractDistribution] | AbstractDistribution,
) -> tuple[AbstractDistribution, ...]:
    """Refuse what is not a list of distributions of one batch shape."""
    given: tuple[Any, ...] = (
        () if isinstance(components, AbstractDistribution) else tuple(components)
    )
    if not given or not all(isinstance(part, AbstractDistribution) for part in given):
        kinds = [type(part).__name__ for part in given] or repr(components)
        raise InputError(
            "components must be a list of at least one distribution of calibrant, got "
            f"{kinds}. Convert others with as_distribution; the mixture over the first "
            "axis of a single one is pool(distribution)."
        )
    shapes = [tuple(part.batch_shape) for part in given]
    if len(set(shapes)) > 1:
        raise InputError(
            f"components must all have one batch shape, the same rows, got {shapes}."
        )
    return given
