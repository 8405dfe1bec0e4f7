"""The regularizer as a module: one line in any training loss."""

from typing import Any

import torch
from torch import Tensor, nn

from calibrant._checks import ArrayLike, InputError
from calibrant._distributed import Group, announced, gather_rows, gathers
from calibrant.contracts import PitValues, Regularizer, Sorter
from calibrant.regularizers._fused import fused_form, gaussian_of
from calibrant.regularizers._resolve import (
    device_of,
    full_precision,
    pit_of,
    resolve_regularizer,
)
from calibrant.regularizers._strength import (
    checked_strength,
    describe_strength,
    with_strength,
)

__all__ = ["QuantileRegularizer"]


class QuantileRegularizer(nn.Module):
    r"""Quantile regularization of any model that predicts a distribution.

    .. math:: \mathcal{L} = \mathrm{NLL} + \lambda \, R(F_1(y_1), \dots, F_n(y_n)) .

    Parameters
    ----------
    regularizer
        A name from ``REGULARIZERS`` or a function of PIT values ``(..., n) -> (...)``.
    strength
        :math:`\lambda \ge 0`; by default the one the entry is made for, 20 for
        ``"cumulative_kl"``. A tensor ``(members,)`` gives each member of a stack of
        laws ``(members, n)`` its own.
    sort
        A name from ``SORTERS`` or a function; the hard sort by default. For another
        temperature hand in ``functools.partial(neural_sort, temperature=0.01)``.
    memory
        Keep this many detached PIT values of earlier batches beside the current ones,
        so that small batches still see a whole law. Used and filled in training mode
        only. The gradient of the current rows is scaled up by (n + kept) / n, so that
        the strength keeps its meaning.
    dim
        The axis of the rows. The default fits ``(n,)`` and stacks ``(members, n)``;
        for several targets ``(n, targets)`` use 0.
    validate
        Look for NaN, values outside [0, 1] and a shape of ``(n, 1)``. On a GPU that
        waits for the device. Without it NaN in a Gaussian or its targets gives NaN.
    distributed
        Look at the rows of all processes of ``torch.distributed``: the regularizer is
        a statistic of the whole batch, and calibrated parts do not make a calibrated
        whole. None does so in training mode with gradients if a process group of two or
        more is initialized; True always, and demands one; False never. Batches may
        differ in size or be empty. All processes must call it equally often.
    process_group
        Which processes; None for all.

    Notes
    -----
    Value and gradient of the cumulative KL are finite for a Gaussian in float32 up to
    :math:`|z| = 10^6`; where the density underflows (:math:`|z| > 14`) the gradient is
    exactly 0, and the NLL still pulls. Under autocast everything is computed in
    float32. That law, the cumulative KL and the hard sort together take a closed form
    of the gradient, two to four times as fast.

    With several processes each gets the value of the whole batch, and its own rows the
    gradient of that times the number of processes: the mean over processes, which
    ``DistributedDataParallel`` takes, is the gradient of the whole batch. (If you add
    gradients up instead, divide by their number.) The mean of a loss over uneven
    batches is not that of the whole batch: weight it by ``processes * n / N`` then. A
    process that ends gives the others a ``LostRankError``, one that hangs likewise
    after the timeout of ``init_process_group``.

    References
    ----------
    Utpala and Rai (2020), *Quantile Regularization*, arXiv:2002.12860.

    Examples
    --------
    >>> import torch
    >>> regularizer = QuantileRegularizer()
    >>> mean = torch.zeros(4, requires_grad=True)
    >>> distribution = torch.distributions.Normal(mean, 1.0)
    >>> y = torch.tensor([2.0, 1.0, 3.0, 2.0])
    >>> nll = -distribution.log_prob(y).mean()
    >>> loss = nll + regularizer(distribution, y)
    >>> loss.backward()
    >>> bool((mean.grad < 0).all())  # both terms ask for a larger mean
    True
    """

    strength: float | Tensor
    _recent: Tensor | None

    def __init__(
        self,
        regularizer: str | Regularizer = "cumulative_kl",
        *,
        strength: float | Tensor | None = None,
        sort: str | Sorter | None = None,
        memory: int = 0,
        dim: int = -1,
        validate: bool = True,
        distributed: bool | None = None,
        process_group: Group = None,
    ) -> None:
        super().__init__()
        if memory < 0 or int(memory) != memory:
            raise InputError(f"memory must be a whole number >= 0, got {memory}.")
        chosen = checked_strength(regularizer, strength)
        if isinstance(chosen, Tensor):  # it moves with the module, but is not saved
            self.register_buffer("strength", chosen, persistent=False)
        else:
            self.strength = chosen
        self.memory = memory
        self.dim = dim
        self.validate = validate
        self.distributed = distributed
        self.process_group = process_group
        self._regularizer = resolve_regularizer(regularizer, sort)
        self._fused = fused_form(self._regularizer)
        self._description = f"regularizer={regularizer!r}, {describe_strength(chosen)}"
        # Not saved: a loaded model starts with an empty queue of any shape.
        self.register_buffer("_recent", None, persistent=False)

    def forward(
        self,
        prediction: Any,  # noqa: ANN401  (see the parameters)
        y: ArrayLike | None = None,
    ) -> Tensor:
        """Return strength times the regularizer.

        Parameters
        ----------
        prediction
            A torch distribution with a ``cdf``, one of ours, ``(mean, std)``, or PIT
            values (then without ``y``); batch shape ``(..., n)``.
        y
            Targets of the same shape.

        Returns
        -------
        Tensor
            Shape ``(...)``; a scalar for a batch of shape ``(n,)``.
        """
        if gathers(self.distributed, training=self.training, group=self.process_group):
            with full_precision(prediction, y):
                pit = self._pit_of_all(prediction, y)
                return with_strength(self._value(pit), self.strength)
        value = self._fused_value(prediction, y)
        if value is not None:
            return value
        with full_precision(prediction, y):
            pit, _ = pit_of(prediction, y, dim=self.dim, validate=self.validate)
            return with_strength(self._value(pit), self.strength)

    def _pit_of_all(self, prediction: object, y: ArrayLike | None) -> PitValues:
        """PIT values of all processes' rows."""
        group = self.process_group
        with announced(device_of(prediction, y), group):
            pit, _ = pit_of(
                prediction, y, dim=self.dim, validate=self.validate, part=True
            )
        fields = torch.stack(list(pit))
        single_rows = fields.ndim < 3 or self.dim != -1 or not self.validate
        return PitValues(*gather_rows(fields, group, single_rows=single_rows).unbind(0))

    def reset_memory(self) -> None:
        """Forget the PIT values of earlier batches."""
        self._recent = None

    def extra_repr(self) -> str:
        """Settings, for the printed module."""
        return f"{self._description}, memory={self.memory}"

    def _fused_value(self, prediction: object, y: ArrayLike | None) -> Tensor | None:
        """Strength times the value in one step, None where PIT values are needed."""
        if self._fused is None or y is None or (self.memory and self.training):
            return None
        law = gaussian_of(prediction)
        if law is None:
            return None
        strength, per_member = self.strength, None
        if isinstance(strength, Tensor):
            strength, per_member = 1.0, strength
        value = self._fused(
            law, y, strength=strength, dim=self.dim, validate=self.validate
        )
        return value if per_member is None else with_strength(value, per_member)

    def _value(self, pit: PitValues) -> Tensor:
        if not (self.memory and self.training):
            return self._regularizer(pit)
        recent = self._recent
        if recent is not None and recent.shape[1:-1] == pit.cdf.shape[:-1]:
            kept = PitValues(*recent.unbind(0))
            joined = PitValues(
                *(torch.cat(pair, -1) for pair in zip(pit, kept, strict=True))
            )
        else:
            joined = pit
        value = self._regularizer(joined)
        with torch.no_grad():
            newest = torch.stack(list(joined))[..., : self.memory].detach()
            # One diverged batch must not stay in the queue and spoil the next ones.
            if newest.isfinite().all():
                self._recent = newest
        # Only the n current rows carry gradient, each with weight 1 / (n + kept).
        scale = joined.cdf.shape[-1] / pit.cdf.shape[-1]
        return value.detach() + scale * (value - value.detach())
