"""Networks that predict a mixture: deep ensembles and Monte Carlo dropout."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from calibrant._checks import InputError
from calibrant.contracts import Head
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import pool
from calibrant.learners.mlp import GaussianHead, MLPStack, PiecewiseLinear, random_bytes


class DeepEnsemble(nn.Module):
    """Deep ensemble: its prediction is the mixture of its members' distributions.

    The members differ by their initial weights and the order of their batches. For
    adversarial training see ``Recipe.adversarial``.

    Parameters
    ----------
    features, members, hidden, dropout, encoding, generator
        As for ``MLPStack``.
    head
        What turns outputs into a distribution.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), arXiv:1612.01474.

    Examples
    --------
    >>> network = DeepEnsemble(3, members=5)
    >>> network(torch.zeros(7, 3)).batch_shape
    torch.Size([5, 7])
    >>> network.predictive(torch.zeros(7, 3)).batch_shape
    torch.Size([7])
    """

    #: Passes of each member in prediction.
    passes = 1

    def __init__(
        self,
        features: int,
        *,
        members: int = 5,
        hidden: Sequence[int] = (128, 128),
        head: Head | None = None,
        encoding: PiecewiseLinear | None = None,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.members = members
        self.head: Head = GaussianHead() if head is None else head
        self.stack = MLPStack(
            features,
            self.head.size,
            members=members,
            hidden=hidden,
            dropout=dropout,
            encoding=encoding,
            generator=generator,
        )

    def forward(
        self, x: Tensor, *, generator: torch.Generator | None = None
    ) -> AbstractDistribution:
        """Distribution of each member, batch shape ``(members, n)``, for training.

        ``x`` is ``(n, features)``, or ``(members, n, features)`` with each one's own.
        """
        members: AbstractDistribution = self.head(self.stack(x, generator=generator))
        return members

    def deterministic(self) -> MLPStack:
        """Return the networks whose distributions are mixed in prediction."""
        return self.stack

    def predictive(self, x: Tensor) -> AbstractDistribution:
        """Mixture of the members' distributions for rows ``(n, features)``."""
        return pool(self.head(self.deterministic()(x)))


class MCDropout(DeepEnsemble):
    r"""Heteroscedastic Monte Carlo dropout: the mixture of T passes.

    .. math::
        \mu = \frac1T \sum_t \mu_t, \qquad
        \sigma^2 = \frac1T \sum_t \sigma_t^2 + \frac1T \sum_t (\mu_t - \mu)^2 .

    In training each row has masks of its own. In prediction the masks of each pass are
    drawn once, the same for all rows, so that a prediction depends on the row alone.

    Parameters
    ----------
    features, members, hidden, head, encoding, dropout
        As for ``DeepEnsemble``; each member has its own passes.
    passes
        T, passes of each network in prediction.
    generator
        Source of the initial weights and of the masks of the passes.

    References
    ----------
    Gal and Ghahramani (2016), arXiv:1506.02142; Kendall and Gal (2017),
    arXiv:1703.04977, for the heteroscedastic form.

    Examples
    --------
    >>> network = MCDropout(3, passes=10)
    >>> network(torch.zeros(7, 3)).batch_shape
    torch.Size([1, 7])
    >>> network.predictive(torch.zeros(7, 3)).means.shape
    torch.Size([10, 7])
    """

    def __init__(
        self,
        features: int,
        *,
        members: int = 1,
        hidden: Sequence[int] = (128, 128),
        head: Head | None = None,
        encoding: PiecewiseLinear | None = None,
        dropout: float = 0.25,
        passes: int = 10,
        generator: torch.Generator | None = None,
    ) -> None:
        if passes < 1 or not hidden:
            raise InputError(
                "mc_dropout needs at least one pass and one hidden layer, got "
                f"passes={passes} and hidden={tuple(hidden)}."
            )
        super().__init__(
            features,
            members=members,
            hidden=hidden,
            head=head,
            encoding=encoding,
            dropout=dropout,
            generator=generator,
        )
        self.passes = passes
        for layer, units in enumerate(hidden):
            drawn = random_bytes(
                (members, passes, units), generator, torch.device("cpu")
            )
            self.register_buffer(f"masks_{layer}", drawn >= self.stack.threshold)

    def deterministic(self) -> MLPStack:
        """Return the thinned networks whose distributions are mixed in prediction."""
        layers = range(len(self.stack.weights) - 1)
        return self.stack.thinned([self.get_buffer(f"masks_{i}") for i in layers])
