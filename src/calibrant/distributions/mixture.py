"""A mixture of laws of any family, each with its own recalibration if need be."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, UnsupportedError
from calibrant.contracts import PitValues
from calibrant.distributions._gradient_probe import carries_gradient
from calibrant.distributions._mixture import log_sum, weights_like
from calibrant.distributions._mixture_crps import (
    check_finite_means,
    crps_between_quantiles,
)
from calibrant.distributions._mixture_quantile import (
    Components,
    mixture_around,
    mixture_ends,
    mixture_quantile,
    with_mixture_gradient,
)
from calibrant.distributions._outline import Around, Bumps, Tails, without_copies
from calibrant.distributions._quantile_search import quantiles_by_search
from calibrant.distributions._rows import joint_shape
from calibrant.distributions._value_integrals import crps_by_values
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.empirical import Empirical

__all__ = ["Mixture"]


class Mixture(AbstractDistribution):
    r"""The law with distribution function :math:`\sum_k w_k F_k(y)`, for each row.

    The components may be of any family, and of several: normal laws, Student's t,
    laws that were recalibrated one by one. For normal components alone
    :class:`GaussianMixture` has closed forms; :func:`pool` chooses between the two.

    .. math::
        \mu = \sum_k w_k \mu_k, \qquad
        \sigma^2 = \sum_k w_k \bigl(\sigma_k^2 + (\mu_k - \mu)^2\bigr), \qquad
        \log f(y) = \log \sum_k w_k f_k(y) .

    ``mean`` and ``variance`` are as exact as the components' own, and infinite or NaN
    where that of a component with a weight above 0 is. Quantiles are roots of the cdf
    between the components' quantiles, found in float64; they carry first derivatives.
    If a component lacks something (samples have no density), so does the mixture, and
    its error says what.

    ``crps`` is an integral over values, by 8 nodes on each of up to 48 panels between
    quantiles of the components. If those have to be searched for in all of them
    (mixtures again), it is by 16 nodes on each of 5 panels, and for rough rows by 4 on
    each of 65. Measured in standard deviations, its error is below 1e-6 for two to five
    smooth components (normal, Laplace, Student's t, and these through a smooth or beta
    map), 1e-5 for 20 of very different widths, 3e-4 for components with kinks (an
    isotonic or empirical map), and 2e-3 for hundreds of samples. It needs finite means.

    Memory is proportional to the rows, whatever is asked.

    Parameters
    ----------
    laws
        The components, at least one, all of one ``batch_shape``.
    weights
        :math:`w_k \ge 0` that sum to 1 over the components, shape ``(k,)`` or
        ``(k, *batch_shape)``; all equal if left out.

    References
    ----------
    Gneiting and Ranjan (2013), *Combining Predictive Distributions*, on the linear
    pool, which is wider than its calibrated components: recalibrate after it.

    Examples
    --------
    >>> from calibrant.distributions.gaussian import Gaussian
    >>> from calibrant.distributions.laplace import Laplace
    >>> law = Mixture([Gaussian([0.0, 8.0], 1.0), Laplace([2.0, 8.0], 1.0)])
    >>> law.mean.tolist(), law.variance.tolist()
    ([1.0, 8.0], [2.5, 1.5])
    >>> [round(value, 3) for value in law.quantile(0.5).tolist()]
    [0.941, 8.0]
    """

    _parameters = ("_weights",)

    def __init__(
        self,
        laws: Sequence[AbstractDistribution],
        weights: ArrayLike | None = None,
    ) -> None:
        self._laws = _checked(laws)
        like = self._laws[0]._like
        for law in self._laws[1:]:
            like = like.to(torch.promote_types(like.dtype, law.dtype))
        room = like.new_zeros(()).expand(len(self._laws), *self.batch_shape)
        self._weights = weights_like(weights, room)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._laws[0].batch_shape

    @property
    def laws(self) -> tuple[AbstractDistribution, ...]:
        """The components."""
        return self._laws

    @property
    def weights(self) -> Tensor:
        """Weights of the components, shape ``(k, *batch_shape)``."""
        return self._weights

    @property
    def _trained(self) -> bool:
        return super()._trained or any(law._trained for law in self._laws)

    @property
    def _searched(self) -> bool:
        # Samples have steps, which only their own levels meet.
        return not any(isinstance(law, Empirical) for law in self._laws)

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return self._average(law.mean for law in self._laws)

    @property
    def variance(self) -> Tensor:
        """Mean of the variances plus variance of the means, shape ``batch_shape``."""
        means = [law.mean for law in self._laws]
        center = self._average(means)
        return self._average(
            law.variance + (mean - center).square()
            for law, mean in zip(self._laws, means, strict=True)
        )

    def __getitem__(self, rows: slice | Tensor) -> "Mixture":
        """Select rows of the first batch axis."""
        return Mixture([law[rows] for law in self._laws], self._weights[:, rows])

    def _average(self, parts: Iterable[Tensor]) -> Tensor:
        """Weighted sum of what each component says, one by one."""
        total = self._weights.new_zeros(())
        for weight, part in zip(self._weights, parts, strict=True):
            # A component without weight may have an endless moment.
            used = (weight > 0) | part.isfinite()
            total = total + weight * torch.where(used, part, 0.0)
        return total

    def _share(self, parts: Iterable[Tensor]) -> Tensor:
        """Weighted sum of probabilities; its rounding must not exceed 1."""
        return self._average(parts).clamp_max(1.0)

    def _log_average(self, logs: Iterable[Tensor]) -> Tensor:
        """Logarithm of the weighted sum of exponentials."""
        each = torch.stack(list(logs))
        extra = (1,) * (each.ndim - self._weights.ndim)
        shape = (len(each), *extra, *self.batch_shape)
        return log_sum(self._weights.reshape(shape), each)

    def _cdf(self, value: Tensor) -> Tensor:
        return self._share(law._cdf(value) for law in self._laws)

    def _survival(self, value: Tensor) -> Tensor:
        return self._share(law._survival(value) for law in self._laws)

    def _pit(self, value: Tensor) -> PitValues:
        return self._join([law._pit(value) for law in self._laws])

    def _pit_before(self, value: Tensor) -> PitValues | None:
        before = [law._pit_before(value) for law in self._laws]
        if all(part is None for part in before):
            return None
        pairs = zip(self._laws, before, strict=True)
        return self._join([law._pit(value) if b is None else b for law, b in pairs])

    def _atoms(self) -> Tensor | None:
        atoms = [law._atoms() for law in self._laws]
        known = [part.to(self.dtype) for part in atoms if part is not None]
        return torch.cat(known) if known else None

    def _join(self, each: list[PitValues]) -> PitValues:
        """PIT values of the mixture from those of its components."""
        cdf = self._share(pit.cdf for pit in each)
        survival = self._share(pit.survival for pit in each)
        lower, upper = cdf.clamp_max(0.5), survival.clamp_max(0.5)
        # Near 1 the sum of the logarithms knows less than the other tail.
        log_cdf = torch.where(
            cdf < 0.5,
            self._log_average(pit.log_cdf for pit in each),
            torch.log1p(-upper),
        )
        log_survival = torch.where(
            survival < 0.5,
            self._log_average(pit.log_survival for pit in each),
            torch.log1p(-lower),
        )
        return PitValues(cdf, survival, log_cdf, log_survival)

    def _tails(self, value: Tensor, *, density: bool = False) -> Tails:
        with torch.no_grad():
            each = [law._tails(value, density=density) for law in self._laws]
            cdf = self._average(tails.cdf for tails in each)
            survival = self._average(tails.survival for tails in each)
            heights = [t.density for t in each if t.density is not None]
            known = density and len(heights) == len(each)
            height = self._average(heights) if known else None
        return Tails(cdf.double(), survival.double(), height)

    def _around(self, pit: PitValues) -> Around:
        with torch.no_grad():
            return mixture_around(
                (law._around(pit) for law in self._laws), self._weights
            )

    def _bumps(self) -> Bumps:
        each = [law._bumps() for law in self._laws]
        return Bumps(*(torch.cat(part) for part in zip(*each, strict=True)))

    def _log_prob(self, value: Tensor) -> Tensor:
        logs = [law._log_prob(value) for law in self._laws]
        atoms = [law._at_atom(value) for law in self._laws]
        at = [
            (weight > 0) & atom
            for weight, atom in zip(self._weights, atoms, strict=True)
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

    def _log_density(self, value: Tensor) -> Tensor | None:
        """Logarithm of the density, if every component has one."""
        try:
            return self._log_prob(value)
        except UnsupportedError:
            return None

    def _quantile(self, level: Tensor) -> Tensor:
        compact = without_copies(level).double()
        below = compact < 0.5
        tail = torch.where(below, compact, 1 - compact)
        return self._at(tail, below, joint_shape(level.shape, self.batch_shape))

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        compact = without_copies(survival).double()
        below = compact > 0.5
        tail = torch.where(below, 1 - compact, compact)
        return self._at(tail, below, joint_shape(survival.shape, self.batch_shape))

    def _at(self, tail: Tensor, below: Tensor, shape: torch.Size) -> Tensor:
        """Values with the probability ``tail`` below them, or else above them."""
        regular = torch.where(tail > 0, tail, 0.5)
        with torch.no_grad():
            found = quantiles_by_search(self, regular, below, _search_logs)
        tail, below = tail.expand(shape), below.expand(shape)
        parts = self._components()
        if torch.is_grad_enabled() and (tail.requires_grad or self._learned()):
            root = with_mixture_gradient(found, regular.expand(shape), below, parts)
            atom = self._at_atom(found)  # which does not move
            found = root if atom is None else torch.where(atom, found, root)
        if (tail <= 0).any():
            found = torch.where(tail > 0, found, mixture_ends(tail, below, parts))
        return found.expand(shape).to(self.dtype)

    def _components(self) -> Components:
        return Components(self._laws, self._weights, self._pit, self._log_density)

    def _learned(self) -> bool:
        """Tell whether a component or the weights have a graph."""
        learned = self._weights.requires_grad
        return learned or any(carries_gradient(law) for law in self._laws)

    def _crps(self, value: Tensor) -> Tensor:
        check_finite_means(self._laws, self._weights)
        learned = value.requires_grad or self._learned()
        if all(law._searched for law in self._laws) and not learned:
            return crps_by_values(self, value).to(self.dtype)
        shape = joint_shape(value.shape, self.batch_shape)
        y = value.expand(shape)
        return crps_between_quantiles(self._laws, self._weights, y).to(self.dtype)

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        uniform = self._weights.new_empty(shape).uniform_(generator=generator)
        bounds = self._weights.cumsum(0)
        result = torch.zeros_like(uniform)
        front = shape[: len(shape) - len(self.batch_shape)]
        for number, law in enumerate(self._laws):
            drawn = law.sample(front, generator=generator).to(result.dtype)
            # Each overwrites those before it, so the last holds what is above.
            above = uniform >= bounds[number - 1] if number else uniform >= 0
            result = torch.where(above, drawn, result)
        return result


def _search_logs(law: Mixture, tail: Tensor, below: Tensor) -> Tensor:
    """Quantiles where plain probabilities do not settle them, by their logarithms."""
    return mixture_quantile(tail, below, law._components())


def _checked(
    laws: Sequence[AbstractDistribution] | AbstractDistribution,
) -> tuple[AbstractDistribution, ...]:
    """Refuse what is not a list of laws of one batch shape."""
    if isinstance(laws, AbstractDistribution):
        raise InputError(
            f"laws must be a list of laws, got the single law {laws!r}. The mixture "
            "over its first batch axis is pool(law)."
        )
    given = tuple(laws)
    if not given:
        raise InputError("laws must hold at least one law, got none.")
    for number, law in enumerate(given):
        if not isinstance(law, AbstractDistribution):
            raise InputError(
                "laws must be laws of calibrant.distributions, got laws"
                f"[{number}] of type {type(law).__name__}. Convert it with "
                "as_distribution."
            )
    shapes = [tuple(law.batch_shape) for law in given]
    if len(set(shapes)) > 1:
        raise InputError(
            f"laws must all have one batch shape, got {shapes}. Each component must "
            "predict the same rows."
        )
    return given
