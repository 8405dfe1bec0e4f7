"""Monte Carlo dropout: units are left out in prediction as well."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from calibrant._checks import InputError
from calibrant.contracts import Head
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import pool
from calibrant.learners._thinning import keep_masks
from calibrant.learners.heads import GaussianHead
from calibrant.learners.mlp import MLPStack, PiecewiseLinear

__all__ = ["MCDropout"]


class MCDropout(nn.Module):
    r"""Heteroscedastic Monte Carlo dropout: the mixture of T passes.

    .. math::
        \mu = \frac1T \sum_t \mu_t, \qquad
        \sigma^2 = \frac1T \sum_t \sigma_t^2 + \frac1T \sum_t (\mu_t - \mu)^2 .

    In training each row has masks of its own. In prediction the masks of each pass are
    drawn once and kept with the network, the same for all rows, so that a prediction
    depends on the row alone.

    Parameters
    ----------
    features
        Number of inputs.
    members
        Number of independent networks, each with its own passes.
    hidden
        Units of each hidden layer, dropout after each.
    head
        What turns outputs into a law.
    encoding
        What the first layer sees beside the features, see ``MLPStack``.
    dropout
        Share of units that is left out, rounded to a multiple of 1/256.
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
        super().__init__()
        if passes < 1 or not hidden:
            raise InputError(
                "mc_dropout needs at least one pass and one hidden layer, got "
                f"passes={passes} and hidden={tuple(hidden)}."
            )
        self.head: Head = GaussianHead() if head is None else head
        self.stack = MLPStack(
            features,
            self.head.size,
            members=members,
            hidden=hidden,
            encoding=encoding,
            dropout=dropout,
            generator=generator,
        )
        self.members, self.passes = members, passes
        for layer, units in enumerate(hidden):
            shape = (members, passes, units)
            masks = keep_masks(shape, self.stack.threshold, generator)
            self.register_buffer(f"masks_{layer}", masks)

    def forward(
        self, x: Tensor, *, generator: torch.Generator | None = None
    ) -> AbstractDistribution:
        """Law of one pass of each member, batch shape ``(members, n)``, for training.

        ``x`` is ``(n, features)``, or ``(members, n, features)`` with each one's own.
        """
        law: AbstractDistribution = self.head(self.stack(x, generator=generator))
        return law

    def deterministic(self) -> MLPStack:
        """Return the thinned networks whose laws are mixed in prediction."""
        layers = range(len(self.stack.weights) - 1)
        return self.stack.thinned([self.get_buffer(f"masks_{i}") for i in layers])

    def predictive(self, x: Tensor) -> AbstractDistribution:
        """Mixture of all passes' laws for rows ``(n, features)``."""
        return pool(self.head(self.deterministic()(x)))
