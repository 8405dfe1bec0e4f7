"""Calibration within groups of alike predictions, as a training loss."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._checks import ArrayLike, InputError, as_float_tensor
from calibrant._distributed import Group, announced, gather_rows, gathers
from calibrant.contracts import PitValues, Regularizer, Sorter
from calibrant.distributions.base import AbstractDistribution
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

__all__ = ["ConditionalRegularizer"]

KEYS = ("spread", "mean", "features")


class ConditionalRegularizer(nn.Module):
    r"""Regularize PIT values within groups of rows that are predicted alike.

    A model can have uniform PIT values over all rows and still be over-confident where
    it predicts a small spread and timid where it predicts a large one. Distribution
    calibration (Song et al. 2019) asks for uniform PIT values given what was predicted.
    This wraps any regularizer :math:`R`: for each key the rows are sorted by its
    detached value and cut into :math:`G` groups of equal size,

    .. math::
        R_G(u) = \frac{1}{K} \sum_{k=1}^K \sum_{g=1}^G \frac{n_{kg}}{n}
                 R\bigl(\{u_i : i \in \text{group } g \text{ of key } k\}\bigr) ,

    in one vectorized call. At perfect calibration the value is the expectation of
    :math:`R` for :math:`n / G` rows.

    Parameters
    ----------
    regularizer
        A name from ``REGULARIZERS`` or a function of PIT values ``(..., n) -> (...)``.
    by
        What makes rows alike: ``"spread"`` and ``"mean"`` of the prediction, and
        ``"features"``, each column that the call gets. A constant key counts as one
        group; rows that tie at the edge of a group stay in the batch's order.
    groups
        :math:`G \ge 1` groups for each key; fewer when a group would have less than
        ``smallest_group`` rows. 1 is the plain regularizer.
    smallest_group
        Fewest rows that make a group.
    strength
        :math:`\lambda \ge 0`; by default the one the regularizer is made for. A tensor
        ``(members,)`` gives each member of a stack ``(members, n)`` its own.
    sort
        A name from ``SORTERS`` or a function; the hard sort by default.
    validate
        Look for NaN and values outside [0, 1].
    distributed, process_group
        Group the rows of all processes, see ``QuantileRegularizer``.

    References
    ----------
    Song, Diethe, Kull and Flach (2019), *Distribution Calibration for Regression*,
    arXiv:1905.06023. Utpala and Rai (2020), section 5, names a trainable loss for it
    as future work.

    Examples
    --------
    >>> import torch
    >>> regularizer = ConditionalRegularizer(by=["spread"], groups=2)
    >>> y = torch.randn(64, generator=torch.Generator().manual_seed(0))
    >>> spread = torch.linspace(0.2, 2.0, 64)
    >>> regularizer(torch.distributions.Normal(torch.zeros(64), spread), y).shape
    torch.Size([])
    """

    strength: float | Tensor

    def __init__(
        self,
        regularizer: str | Regularizer = "cumulative_kl",
        *,
        by: Sequence[str] = ("spread", "mean"),
        groups: int = 4,
        smallest_group: int = 8,
        strength: float | Tensor | None = None,
        sort: str | Sorter | None = None,
        validate: bool = True,
        distributed: bool | None = None,
        process_group: Group = None,
    ) -> None:
        super().__init__()
        unknown = [key for key in by if key not in KEYS]
        if isinstance(by, str) or not by or unknown:
            raise InputError(
                f"by must be a list of keys out of {', '.join(KEYS)}, got {by!r}."
            )
        if groups < 1 or smallest_group < 1:
            raise InputError(
                "groups and smallest_group must be at least 1, "
                f"got groups={groups} and smallest_group={smallest_group}."
            )
        chosen = checked_strength(regularizer, strength)
        if isinstance(chosen, Tensor):  # it moves with the module, but is not saved
            self.register_buffer("strength", chosen, persistent=False)
        else:
            self.strength = chosen
        self.by = tuple(by)
        self.groups = groups
        self.smallest_group = smallest_group
        self.validate = validate
        self.distributed = distributed
        self.process_group = process_group
        self._regularizer = resolve_regularizer(regularizer, sort)
        self._description = f"regularizer={regularizer!r}, {describe_strength(chosen)}"

    def forward(
        self,
        prediction: Any,  # noqa: ANN401  (see the parameters)
        y: ArrayLike,
        features: ArrayLike | None = None,
    ) -> Tensor:
        """Return strength times the mean regularizer over groups and keys.

        Parameters
        ----------
        prediction
            A torch distribution with a ``cdf``, one of ours, or ``(mean, std)``; batch
            shape ``(..., n)``.
        y
            Targets of the same shape.
        features
            Columns to group by, shape ``(n, columns)``; only with ``"features"``.

        Returns
        -------
        Tensor
            Shape ``(...)``; a scalar for a batch of shape ``(n,)``.
        """
        with full_precision(prediction, y):
            pit, keys = self._pit_and_keys(prediction, y, features)
            order = keys.argsort(dim=-1, stable=True)
            grouped = pit.map(lambda each: each.expand(order.shape).gather(-1, order))
            value = self._mean_over_groups(grouped)
            # A constant key (one spread for all) makes no groups: its order of rows
            # would be that of the batch, and mean nothing.
            constant = keys.amax(-1) == keys.amin(-1)
            if constant.any():
                value = torch.where(constant, self._regularizer(pit), value)
            return with_strength(value.mean(0), self.strength)

    def extra_repr(self) -> str:
        """Settings, for the printed module."""
        return f"{self._description}, by={self.by}, groups={self.groups}"

    def _pit_and_keys(
        self,
        prediction: Any,  # noqa: ANN401
        y: ArrayLike,
        features: ArrayLike | None,
    ) -> tuple[PitValues, Tensor]:
        """PIT values ``(..., n)`` and keys ``(keys, ..., n)``, of all processes."""
        group = self.process_group
        if not gathers(self.distributed, training=self.training, group=group):
            return self._own_pit_and_keys(prediction, y, features, part=False)
        with announced(device_of(prediction, y), group):
            pit, keys = self._own_pit_and_keys(prediction, y, features, part=True)
        values = torch.cat([torch.stack(list(pit)), keys])
        single_rows = values.ndim < 3 or not self.validate
        joined = gather_rows(values, group, single_rows=single_rows)
        fields = len(PitValues._fields)
        return PitValues(*joined[:fields].unbind(0)), joined[fields:].detach()

    def _own_pit_and_keys(
        self,
        prediction: Any,  # noqa: ANN401
        y: ArrayLike,
        features: ArrayLike | None,
        *,
        part: bool,
    ) -> tuple[PitValues, Tensor]:
        pit, law = pit_of(prediction, y, validate=self.validate, part=part)
        if law is None:
            raise InputError(
                "a ConditionalRegularizer groups rows by what was predicted, so it "
                "needs the distribution and y, not PIT values."
            )
        return pit, self._keys(law, features, pit.cdf)

    def _keys(
        self, law: AbstractDistribution, features: ArrayLike | None, like: Tensor
    ) -> Tensor:
        """Detached keys, shape ``(keys, ..., n)``."""
        if (features is None) == ("features" in self.by):
            raise InputError(
                'features must be given exactly when by contains "features", got '
                f"by={self.by} and features="
                f"{'None' if features is None else tuple(np.shape(features))}."
            )
        attributes = {"spread": "stddev", "mean": "mean"}
        with torch.no_grad():
            keys = [
                getattr(law, attributes[name]).expand(like.shape)
                for name in self.by
                if name != "features"
            ]
        if features is not None:
            table = as_float_tensor(features, name="features", like=like)
            if table.ndim != 2 or table.shape[0] != like.shape[-1]:
                raise InputError(
                    f"features must have shape (n, columns) with n = {like.shape[-1]}, "
                    f"got {tuple(table.shape)}."
                )
            keys += [column.detach().expand(like.shape) for column in table.T]
        joined = torch.stack(keys)
        if self.validate and bool(joined.isnan().any()):
            raise InputError(
                "the keys that make groups must be numbers, got NaN in "
                f"{int(joined.isnan().sum())} of {joined.numel()} values. Impute "
                "missing features, or group by another column."
            )
        return joined

    def _mean_over_groups(self, ordered: PitValues) -> Tensor:
        """Mean over the groups of rows in order, ``(keys, ..., n) -> (keys, ...)``."""
        n = ordered.cdf.shape[-1]
        groups = max(1, min(self.groups, n // self.smallest_group))
        size, larger = divmod(n, groups)
        # The first `larger` groups have one row more, so that no row is left out.
        cut = larger * (size + 1)
        total = torch.zeros_like(ordered.cdf[..., 0])
        for part, count, rows in (
            (slice(cut), larger, size + 1),
            (slice(cut, n), groups - larger, size),
        ):
            chosen = ordered.map(partial(_cut, part=part, shape=(count, rows)))
            total = total + self._regularizer(chosen).sum(-1) * (rows / n)
        return total


def _cut(values: Tensor, *, part: slice, shape: tuple[int, int]) -> Tensor:
    """A part of the last axis as ``(groups, rows)``."""
    return values[..., part].reshape(*values.shape[:-1], *shape)
