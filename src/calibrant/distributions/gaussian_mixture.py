"""A mixture of normal laws: what an ensemble or dropout passes predict together."""

from functools import cached_property

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
    normal_score,
)
from calibrant.distributions._normal_mixture import (
    central_value,
    log_normal_tail,
    normal_around,
    normal_mixture_crps,
    normal_tail,
    normal_tails,
)
from calibrant.distributions._outline import (
    Around,
    Bumps,
    Tails,
    pit_of_tail,
    without_copies,
)
from calibrant.distributions._quantile_search import quantiles_by_search
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
    def _all(self) -> tuple[Tensor, Tensor, Tensor]:
        """Means, standard deviations and weights, each ``(members, *batch_shape)``."""
        return self._means, self._stddevs, self._weights

    @property
    def _too_wide(self) -> bool:
        """Whether four times some finite standard deviation overflows."""
        if self._stddevs.numel() == 0:
            return False
        widest = float(self._stddevs.detach().amax())
        return torch.finfo(self.dtype).max / 4 < widest < torch.inf

    @property
    def _searched(self) -> bool:
        return len(self._means) > 1

    def moment_matched(self) -> Gaussian:
        """Return the normal law with the mixture's mean and variance."""
        return Gaussian(self.mean, self.stddev)

    def __getitem__(self, rows: slice | Tensor) -> "GaussianMixture":
        """Select rows of the first batch axis."""
        part = GaussianMixture(*(parameter[:, rows] for parameter in self._all))
        if "_central" in self.__dict__:  # known already: a search asks for some rows
            part._central = self._central[rows]
        return part

    def _against(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Parameters with room for the axes of ``value`` in front of the batch."""
        extra = (1,) * (value.ndim - len(self.batch_shape))
        shape = (len(self._means), *extra, *self.batch_shape)
        means, stddevs = self._means.reshape(shape), self._stddevs.reshape(shape)
        return means, stddevs, self._weights.reshape(shape)

    def _cdf(self, value: Tensor) -> Tensor:
        if not self._wants_gradient(value):
            return normal_tail(value, self._against(value), above=False)
        means, stddevs, weights = self._against(value)
        return (weights * normal_cdf(standardized(value - means, stddevs))).sum(0)

    def _survival(self, value: Tensor) -> Tensor:
        if not self._wants_gradient(value):
            return normal_tail(value, self._against(value), above=True)
        means, stddevs, weights = self._against(value)
        return (weights * normal_cdf(standardized(means - value, stddevs))).sum(0)

    def _pit(self, value: Tensor) -> PitValues:
        if not self._wants_gradient(value):
            return self._pit_without_gradient(value)
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

    def _pit_without_gradient(self, value: Tensor) -> PitValues:
        cdf, survival = self._cdf(value), self._survival(value)
        parameters = self._against(value)
        log_cdf = log_normal_tail(value, parameters, (cdf, survival), above=False)
        log_survival = log_normal_tail(value, parameters, (survival, cdf), above=True)
        return PitValues(cdf, survival, log_cdf, log_survival)

    def _log_prob(self, value: Tensor) -> Tensor:
        means, stddevs, weights = self._against(value)
        return log_sum(weights, log_scaled_density(value - means, stddevs))

    def _tails(self, value: Tensor, *, density: bool = False) -> Tails:
        with torch.no_grad():
            return normal_tails(
                value.double(), self._all, self._central, density=density
            )

    @cached_property
    def _central(self) -> Tensor:
        with torch.no_grad():
            return central_value(*self._all)

    def _around(self, pit: PitValues) -> Around:
        with torch.no_grad():
            z = normal_score(pit.cdf, pit.survival)
            start = self.mean.double() + self.stddev.double() * z
            return normal_around(z, self._all, start)

    def _bumps(self) -> Bumps:
        with torch.no_grad():
            used = self._weights > 0
            centers = torch.where(used, self._means, self.mean).double()
            return Bumps(
                centers, torch.where(used, self._stddevs, self.stddev).double()
            )

    def _quantile(self, level: Tensor) -> Tensor:
        below = without_copies(level) < 0.5
        tail = torch.where(below, without_copies(level), 1 - without_copies(level))
        return self._at(tail, below, joint_shape(level.shape, self.batch_shape))

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        below = without_copies(survival) > 0.5
        tail = without_copies(survival)
        tail = torch.where(below, 1 - tail, tail)
        return self._at(tail, below, joint_shape(survival.shape, self.batch_shape))

    def _at(self, tail: Tensor, below: Tensor, shape: torch.Size) -> Tensor:
        """Values with the probability ``tail`` below them, or else above them."""
        dtype = torch.promote_types(tail.dtype, self.dtype)
        regular = torch.where(tail > 0, tail, 0.5).double()
        with torch.no_grad():
            root = quantiles_by_search(self, regular, below, _search_logs)
        root = root.to(dtype)
        if self._wants_gradient(regular):
            gap, slope = self._gap_and_slope(root, regular.to(dtype), below)
            root = with_implicit_gradient(root, gap, slope)
        end = torch.where(below, -torch.inf, torch.inf).to(dtype)
        return torch.where(tail > 0, root, end).expand(shape)

    def _gap_and_slope(
        self, x: Tensor, tail: Tensor, below: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Logarithm of the tail over that which is sought, increasing in ``x``."""
        means, stddevs, weights = self._against(x)
        sign = torch.where(below, 1.0, -1.0).to(x.dtype)
        z = (x - means) / stddevs
        log_tail = log_sum(weights, log_normal_cdf(sign * z))
        log_density = log_sum(weights, log_normal_density(z) - stddevs.log())
        return sign * (log_tail - tail.log()), (log_density - log_tail).exp()

    def _wants_gradient(self, asked: Tensor) -> bool:
        """Tell whether anyone may go back to the parameters or to what is asked."""
        tensors = (asked, *self._all)
        return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)

    def _crps(self, value: Tensor) -> Tensor:
        if self._too_wide:
            # Distances of two members would overflow: in a larger unit they do not.
            means, stddevs = self._means / 4, self._stddevs / 4
            return 4 * GaussianMixture(means, stddevs, self._weights)._crps(value / 4)
        if not self._wants_gradient(value):
            return normal_mixture_crps(value, self._all)
        distance = mean_distance(value, *self._against(value))
        spread = mean_pair_distance(*self._all)
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


def _search_logs(law: GaussianMixture, tail: Tensor, below: Tensor) -> Tensor:
    """Quantiles in tails that are too small for numbers, by their logarithms."""
    low, _, high = law._around(pit_of_tail(tail, below))

    def gap_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
        return law._gap_and_slope(x, tail, below)

    # Where all members agree nothing is sought, also if that is too far for a number.
    return torch.where(low == high, low, solve_increasing(gap_and_slope, low, high))
