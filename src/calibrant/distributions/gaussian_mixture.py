"""A mixture of normal laws: what an ensemble or dropout passes predict together."""

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import PitValues
from calibrant.distributions._location_scale import location_and_scale, standardized
from calibrant.distributions._mixture import (
    log_sum,
    mean_distance,
    mean_pair_distance,
    weights_like,
)
from calibrant.distributions._normal import (
    log_normal_cdf,
    log_normal_density,
    log_scaled_density,
    normal_cdf,
    normal_quantile,
)
from calibrant.distributions._root import solve_increasing, with_implicit_gradient
from calibrant.distributions._rows import joint_shape
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.gaussian import Gaussian

__all__ = ["GaussianMixture"]


class GaussianMixture(AbstractDistribution):
    r"""Mixture of normal laws :math:`\sum_j w_j \mathcal{N}(\mu_j, \sigma_j^2)`.

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
    >>> law = GaussianMixture([[-2.0, 0.0], [2.0, 0.0]], 1.0)
    >>> law.mean.tolist(), law.variance.tolist()
    ([0.0, 0.0], [5.0, 1.0])
    >>> [round(value, 3) for value in law.quantile(0.975).tolist()]
    [3.645, 1.96]
    """

    _parameters = ("_means", "_stddevs", "_weights")

    def __init__(
        self,
        means: ArrayLike,
        stddevs: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        self._means, self._stddevs = location_and_scale(
            means, stddevs, "means", "stddevs"
        )
        if self._means.ndim == 0 or len(self._means) == 0:
            raise InputError(
                "means must have shape (members, *batch) with at least one member, "
                f"got {tuple(self._means.shape)}."
            )
        self._weights = weights_like(weights, self._means)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._means.shape[1:]

    @property
    def means(self) -> Tensor:
        """Means of the components, shape ``(members, *batch_shape)``."""
        return self._means

    @property
    def stddevs(self) -> Tensor:
        """Standard deviations of the components, shape of the means."""
        return self._stddevs

    @property
    def weights(self) -> Tensor:
        """Weights of the components, shape of the means."""
        return self._weights

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return (self._weights * self._means).sum(0)

    @property
    def variance(self) -> Tensor:
        """Mean of the variances plus variance of the means, shape ``batch_shape``."""
        within = self._stddevs.square()
        between = (self._means - self.mean).square()
        return (self._weights * (within + between)).sum(0)

    @property
    def _searched(self) -> bool:
        return len(self._means) > 1

    def moment_matched(self) -> Gaussian:
        """Return the normal law with the mixture's mean and variance."""
        return Gaussian(self.mean, self.stddev)

    def __getitem__(self, rows: slice | Tensor) -> "GaussianMixture":
        """Select rows of the first batch axis."""
        parameters = (self._means, self._stddevs, self._weights)
        return GaussianMixture(*(parameter[:, rows] for parameter in parameters))

    def _against(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Parameters with room for the axes of ``value`` in front of the batch."""
        extra = (1,) * (value.ndim - len(self.batch_shape))
        shape = (len(self._means), *extra, *self.batch_shape)
        means, stddevs = self._means.reshape(shape), self._stddevs.reshape(shape)
        return means, stddevs, self._weights.reshape(shape)

    def _cdf(self, value: Tensor) -> Tensor:
        means, stddevs, weights = self._against(value)
        return (weights * normal_cdf(standardized(value - means, stddevs))).sum(0)

    def _survival(self, value: Tensor) -> Tensor:
        means, stddevs, weights = self._against(value)
        return (weights * normal_cdf(standardized(means - value, stddevs))).sum(0)

    def _pit(self, value: Tensor) -> PitValues:
        means, stddevs, weights = self._against(value)
        z = standardized(value - means, stddevs)
        cdf = (weights * normal_cdf(z)).sum(0)
        survival = (weights * normal_cdf(-z)).sum(0)
        lower, upper = cdf.clamp_max(0.5), survival.clamp_max(0.5)
        # Near 1 the sum of the logarithms knows less than the other tail.
        log_cdf = torch.where(
            cdf < 0.5, log_sum(weights, log_normal_cdf(z)), torch.log1p(-upper)
        )
        log_survival = torch.where(
            survival < 0.5, log_sum(weights, log_normal_cdf(-z)), torch.log1p(-lower)
        )
        return PitValues(cdf, survival, log_cdf, log_survival)

    def _log_prob(self, value: Tensor) -> Tensor:
        means, stddevs, weights = self._against(value)
        return log_sum(weights, log_scaled_density(value - means, stddevs))

    def _quantile(self, level: Tensor) -> Tensor:
        means, stddevs, weights = self._against(level)
        shape = joint_shape(level.shape, self.batch_shape)
        tail = torch.where(level < 0.5, level, 1 - level).expand(shape)
        regular = torch.where(tail > 0, tail, 0.5)
        sign = torch.where(level < 0.5, 1.0, -1.0).to(means.dtype)

        def gap_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
            z = (x - means) / stddevs
            log_tail = log_sum(weights, log_normal_cdf(sign * z))
            log_density = log_sum(weights, log_normal_density(z) - stddevs.log())
            gap = sign * (log_tail - regular.log())
            return gap, (log_density - log_tail).exp()

        # The mixture's quantile lies between those of its components.
        with torch.no_grad():
            each = means + stddevs * sign * normal_quantile(regular)
            low, high = torch.aminmax(each, dim=0)
        root = solve_increasing(gap_and_slope, low, high)
        result = with_implicit_gradient(root, *gap_and_slope(root))
        return torch.where(tail > 0, result, -sign * torch.inf)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        mirrored = GaussianMixture(-self._means, self._stddevs, self._weights)
        return -mirrored._quantile(survival)

    def _crps(self, value: Tensor) -> Tensor:
        distance = mean_distance(value, *self._against(value))
        spread = mean_pair_distance(self._means, self._stddevs, self._weights)
        return distance - 0.5 * spread

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        like = self._means.new_empty(()).expand(shape)
        uniform = torch.empty_like(like).uniform_(generator=generator)
        noise = torch.empty_like(like).normal_(generator=generator)
        member = torch.zeros(shape, dtype=torch.long, device=self._means.device)
        for bound in self._weights.cumsum(0)[:-1]:
            member += uniform >= bound
        means, stddevs, _ = self._against(uniform)
        mean, stddev = (
            parameter.expand(-1, *shape).gather(0, member[None]).squeeze(0)
            for parameter in (means, stddevs)
        )
        return mean + stddev * noise
