"""What distributions, sorters, regularizers, recalibrators offer, without a parent."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

__all__ = [
    "Distribution",
    "HasCdf",
    "Head",
    "Network",
    "PitValues",
    "Recalibrator",
    "Regularizer",
    "Sorter",
    "TargetTransform",
    "UnitMap",
]


class PitValues(NamedTuple):
    """PIT values ``F(y)`` with both tails at full precision.

    In float32 a PIT value cannot come closer to 1 than 6e-8, while the survival value
    ``1 - F(y)`` goes down to 1e-45. Everything that looks at the tails therefore
    carries both, and their logarithms. All four have shape ``(..., n)``; gradients
    flow through ``cdf`` and ``survival``.
    """

    cdf: Tensor
    survival: Tensor
    log_cdf: Tensor
    log_survival: Tensor

    @property
    def key(self) -> Tensor:
        """Detached values in the order of the PIT values, resolved in both tails.

        It is the logarithm of the smaller tail, negative in the lower half and
        positive in the upper one: a sort by it is right where float32 PIT values tie.
        """
        lower = self.cdf.detach() < self.survival.detach()
        return torch.where(lower, self.log_cdf.detach(), -self.log_survival.detach())

    def mirrored(self) -> "PitValues":
        """PIT values of the mirrored problem, ``1 - F(y)``."""
        return PitValues(self.survival, self.cdf, self.log_survival, self.log_cdf)

    def map(self, function: Callable[[Tensor], Tensor]) -> "PitValues":
        """Apply one change of shape to all four tensors."""
        return PitValues(*(function(values) for values in self))

    def where(self, condition: Tensor, other: "PitValues") -> "PitValues":
        """Keep these values where the condition holds, take the others elsewhere."""
        pairs = zip(self, other, strict=True)
        return PitValues(*(torch.where(condition, own, new) for own, new in pairs))


@runtime_checkable
class HasCdf(Protocol):
    """The least that a predictive distribution must offer: its cdf."""

    def cdf(self, value: Tensor, /) -> Tensor:
        """Probability of a target at most ``value``."""


class Distribution(Protocol):
    """A distribution for each row, of shape ``batch_shape``.

    ``value`` and ``level`` are scalars or tensors of which one shape is the end of the
    other: ``(n,)`` fits a batch of ``(n,)`` or ``(members, n)``, ``(k, n)`` asks ``k``
    values of each row, and ``(n, 1)`` is refused.
    """

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each row, shape ``batch_shape``."""

    def cdf(self, value: Tensor, /) -> Tensor:
        """Probability of a target at most ``value``."""

    def survival(self, value: Tensor, /) -> Tensor:
        """Probability of a target above ``value``, precise in the upper tail."""

    def pit(self, value: Tensor, /) -> PitValues:
        """Both tails of ``value`` and their logarithms."""

    def log_prob(self, value: Tensor, /) -> Tensor:
        """Logarithm of the density at ``value``."""

    def quantile(self, level: Tensor | float, /) -> Tensor:
        """Smallest value whose cdf reaches ``level``."""

    def interval(self, coverage: float, /) -> tuple[Tensor, Tensor]:
        """Central interval that covers the target with probability ``coverage``."""

    def sample(
        self,
        sample_shape: tuple[int, ...] = (),
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw targets, shape ``sample_shape + batch_shape``."""

    def crps(self, value: Tensor, /) -> Tensor:
        """Continuous ranked probability score of ``value``; smaller is better."""


class Sorter(Protocol):
    """Ascending sort of the last axis that carries gradients."""

    def __call__(self, values: Tensor, /) -> Tensor:
        """Sort ``(..., n)`` into ``(..., n)``."""


class Regularizer(Protocol):
    """Distance of a batch of PIT values from the uniform distribution.

    One that needs order statistics also takes ``sort=``, a ``Sorter``.
    """

    def __call__(self, pit: Tensor | PitValues, /) -> Tensor:
        """Reduce PIT values ``(..., n)`` to ``(...)``."""


class UnitMap(Protocol):
    """An increasing map of [0, 1] onto itself: what recalibrates PIT values.

    It is the distribution function of the PIT values, so it has a density. It takes
    and gives both tails, so that the recalibrated distribution is precise in both.
    Values of any shape; memory stays proportional to their number.
    """

    @property
    def knots(self) -> Tensor:
        """Levels from 0 to 1, ascending, between which the density is smooth."""

    def forward(self, pit: PitValues, /) -> PitValues:
        """Map PIT values of the given distribution to recalibrated ones."""

    def inverse(self, levels: PitValues, /) -> PitValues:
        """Smallest PIT values that are mapped to these at least."""

    def log_density(self, pit: PitValues, /) -> Tensor:
        """Logarithm of the map's derivative at PIT values."""


class Recalibrator(Protocol):
    """Learns on held-out rows how to correct a distribution, and corrects others.

    A prediction is anything that ``as_distribution`` takes.
    """

    def fit(self, distribution: Any, y: Any, /) -> Self:  # noqa: ANN401
        """Learn from predictions for held-out rows and their targets ``(n,)``."""

    def transform(self, distribution: Any, /) -> Any:  # noqa: ANN401
        """Correct predictions for other rows: what has ``interval(coverage)``."""

    def to_json(self) -> str:
        """Everything that was learned, as text."""


class Head(Protocol):
    """Turns a network's outputs into a distribution."""

    #: Numbers that it needs for each row.
    size: int

    def __call__(self, raw: Tensor, /) -> Any:  # noqa: ANN401  (a distribution)
        """Turn ``(..., size)`` into distributions of batch shape ``(...)``."""


class Network(Protocol):
    """Independent members side by side, each of which predicts a distribution.

    Any ``nn.Module`` that turns features ``(n, d)`` into a distribution of batch shape
    ``(n,)`` can be trained as well; this is what lets many of them share a pass.
    """

    #: Number of networks, and of passes that each makes in prediction.
    members: int
    passes: int
    head: Head

    def __call__(
        self, x: Tensor, /, *, generator: torch.Generator | None = None
    ) -> Any:  # noqa: ANN401  (a distribution)
        """Distribution of each member for training, batch shape ``(members, n)``."""

    def predictive(self, x: Tensor, /) -> Any:  # noqa: ANN401  (a distribution)
        """Distribution of the whole for rows ``(n, d)``, batch shape ``(n,)``."""


class TargetTransform(Protocol):
    """An increasing, differentiable map g of targets onto the whole real line.

    A distribution on the line, seen through the inverse of g, is then one of targets
    without any mass left over. All functions work on float64 tensors of any shape, and
    inside the support none of them gives NaN.
    """

    @property
    def support(self) -> tuple[float, float]:
        """Open interval of the targets that have an image; its ends may be infinite."""

    def fit(self, y: Any, /) -> Self:  # noqa: ANN401
        """Learn the parameters of g, if it has any, from targets ``(n,)``."""

    def forward(self, y: Tensor, /) -> Tensor:
        """Map targets of the support: z = g(y)."""

    def inverse(self, z: Tensor, /) -> Tensor:
        """Map back: the target y with g(y) = z; the ends of the support at +-inf."""

    def log_derivative(self, y: Tensor, /) -> Tensor:
        """Logarithm of the derivative of g at targets of the support."""

    def to_json(self) -> str:
        """Everything that was learned, as text."""
