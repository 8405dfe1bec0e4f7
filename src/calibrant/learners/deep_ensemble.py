"""Deep ensembles: several networks from different starts."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from calibrant.contracts import Head
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import pool
from calibrant.learners.heads import GaussianHead
from calibrant.learners.mlp import MLPStack, PiecewiseLinear

__all__ = ["DeepEnsemble"]


class DeepEnsemble(nn.Module):
    """Deep ensemble: its prediction is the mixture of its members' laws.

    The members differ by their initial weights and the order of their batches. Their
    adversarial training is a matter of the training, see ``Recipe.adversarial``.

    Parameters
    ----------
    features
        Number of inputs.
    members
        Number of networks.
    hidden
        Units of each hidden layer.
    head
        What turns outputs into a law.
    encoding
        What the first layer sees beside the features, see ``MLPStack``.
    generator
        Source of the initial weights.

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

    def __init__(
        self,
        features: int,
        *,
        members: int = 5,
        hidden: Sequence[int] = (128, 128),
        head: Head | None = None,
        encoding: PiecewiseLinear | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.head: Head = GaussianHead() if head is None else head
        self.stack = MLPStack(
            features,
            self.head.size,
            members=members,
            hidden=hidden,
            encoding=encoding,
            generator=generator,
        )
        self.members, self.passes = members, 1

    def forward(
        self, x: Tensor, *, generator: torch.Generator | None = None
    ) -> AbstractDistribution:
        """Law of each member, batch shape ``(members, n)``, for training.

        ``x`` is ``(n, features)``, or ``(members, n, features)`` with each one's own.
        """
        law: AbstractDistribution = self.head(self.stack(x, generator=generator))
        return law

    def deterministic(self) -> MLPStack:
        """Return the networks whose laws are mixed in prediction."""
        return self.stack

    def predictive(self, x: Tensor) -> AbstractDistribution:
        """Mixture of the members' laws for rows ``(n, features)``."""
        return pool(self.head(self.deterministic()(x)))
