"""Held-out rows, checked: what every recalibrator learns from."""

from typing import Any

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_pit, as_target, pit_from_cdf
from calibrant.contracts import PitValues
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution

__all__ = ["held_out_pit", "held_out_rows", "pit_of_rows", "unfitted"]

#: Of random places in a jump; a seed that made the data would repeat its numbers.
_SEED = 200212860


def held_out_rows(
    distribution: Any,  # noqa: ANN401  (whatever as_distribution takes)
    y: ArrayLike,
) -> tuple[AbstractDistribution, Tensor]:
    """Return the law and one finite target for each of its rows, ``(n,)``."""
    law = as_distribution(distribution)
    target = as_target(y, like=law._like)
    if len(law.batch_shape) != 1 or target.shape != law.batch_shape:
        raise InputError(
            "a recalibrator needs one law and one target for each held-out row, both "
            f"of shape (n,); the law has batch shape {tuple(law.batch_shape)} and y "
            f"{tuple(target.shape)}. Use squeeze(-1) on (n, 1); members of an ensemble "
            "become one law with GaussianMixture."
        )
    return law, target.detach()


def pit_of_rows(law: AbstractDistribution, target: Tensor) -> PitValues:
    """PIT values ``(n,)``, at atoms a random place in the jump of the cdf."""
    pit, before = law.pit(target), law.cdf_before(target)
    jump = law.cdf(target) - before
    if not jump.any():
        return pit
    generator = torch.Generator(target.device).manual_seed(_SEED)
    share = torch.rand(
        jump.shape, generator=generator, dtype=jump.dtype, device=jump.device
    )
    drawn = pit_from_cdf((before + share * jump).clamp(0, 1))
    pairs = zip(drawn, pit, strict=True)
    return PitValues(*(torch.where(jump > 0, new, own) for new, own in pairs))


def held_out_pit(pit: ArrayLike | PitValues) -> PitValues:
    """Return PIT values ``(n,)`` in ascending order, float64, on the CPU."""
    given = as_pit(pit).map(lambda part: part.detach().cpu())
    values = PitValues(
        given.cdf.double(),
        given.survival.double(),
        _resolved_log(given.cdf, given.log_cdf),
        _resolved_log(given.survival, given.log_survival),
    )
    if values.cdf.ndim != 1:
        raise InputError(
            f"pit must have shape (n,), got {tuple(values.cdf.shape)}. Flatten it if "
            "all of its rows are equally new to the model."
        )
    as_pit(values.cdf)  # PIT values with both tails have not been checked yet
    order = values.key.argsort(stable=True)
    return values.map(lambda part: part[order])


def _resolved_log(tail: Tensor, log_tail: Tensor) -> Tensor:
    """Logarithms in float64; a plain 0 counts as half of the smallest other value.

    Such a 0 has no logarithm of its own: samples cannot say how far beyond all of them
    a target lies.
    """
    stand_in = torch.tensor(torch.finfo(tail.dtype).tiny, dtype=tail.dtype).log()
    plain = (tail <= 0) & (log_tail == stand_in)
    if not (plain.any() and (tail > 0).any()):
        return log_tail.double()
    smallest = tail[tail > 0].min().double()
    return torch.where(plain, (smallest / 2).log(), log_tail.double())


def unfitted(name: str) -> InputError:
    """Make the error for the use of a recalibrator that has learned nothing."""
    return InputError(
        f"the {name} recalibrator must be fitted first, and it is not. Call "
        "fit(distribution, y) with predictions for rows that the model was not "
        "trained on."
    )
