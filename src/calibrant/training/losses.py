"""Score and regularizer of a batch, for one network or a stack of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibrant._checks import InputError, find_part
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.regularizers.conditional import ConditionalRegularizer
from calibrant.regularizers.quantile import QuantileRegularizer
from calibrant.scores import SCORES, Score
from calibrant.training._team import Team
from calibrant.training.recipe import Recipe

__all__ = ["beta_nll", "make_regularizer", "make_score", "strengths"]


def beta_nll(
    distribution: AbstractDistribution, y: Tensor, *, beta: float = 0.5
) -> Tensor:
    r"""Negative log-likelihood times the variance to the power :math:`\beta`.

    .. math:: -\sigma^{2\beta} \log p(y)

    The factor has no gradient. It gives back the weight that the likelihood takes from
    rows with a large predicted spread, and so keeps the mean from being neglected.
    Not a proper score: for training only.

    Parameters
    ----------
    distribution
        Law of each row, or anything that ``as_distribution`` takes; shape ``(..., n)``.
    y
        Targets of the same shape.
    beta
        0 is the likelihood; with 1 the mean of a Gaussian learns as under the squared
        error.

    Returns
    -------
    Tensor
        Shape ``(..., n)``.

    References
    ----------
    Seitzer, Tavakoli, Antic and Martius (2022), arXiv:2203.09168.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> law = Gaussian([0.0], [4.0])
    >>> round((beta_nll(law, torch.zeros(1)) / -law.log_prob([0.0])).item(), 6)
    4.0
    """
    law = as_distribution(distribution)
    return -law.log_prob(y) * law.variance.detach() ** beta


def make_score(recipe: Recipe) -> Score:
    """Return the score of a recipe as a function of law and targets."""
    if recipe.score == "beta_nll":
        return beta_nll  # type: ignore[return-value]
    return find_part(recipe.score, SCORES, name="score")


def make_regularizer(
    recipe: Recipe, team: Team | None = None
) -> Callable[[AbstractDistribution, Tensor], Tensor]:
    """Return the regularizer of a recipe, without its strength."""
    # Said outright: a process may train a model of its own beside the others.
    together: dict[str, Any] = {"distributed": team is not None}
    if team is not None:
        together["process_group"] = team.group
    if recipe.conditional:
        return ConditionalRegularizer(
            recipe.regularizer,
            by=tuple(recipe.conditional),
            strength=1.0,
            sort=recipe.sort,
            validate=False,
            **together,
        )
    return QuantileRegularizer(
        recipe.regularizer, strength=1.0, sort=recipe.sort, validate=False, **together
    )


def strengths(recipe: Recipe, members: int, like: Tensor) -> Tensor:
    """Return the strength of each member, shape ``(members,)``."""
    values = torch.as_tensor(recipe.strength, dtype=like.dtype, device=like.device)
    if values.ndim and len(values) != members:
        raise InputError(
            f"strength must be one number, or one for each of the {members} members, "
            f"got {len(values)}."
        )
    return values.expand(members)
