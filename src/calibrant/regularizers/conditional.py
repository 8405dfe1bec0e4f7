"""Calibration within groups of alike predictions, as a training loss."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._distributed import Group
from calibrant.protocols import PitValues, Regularizer, Sorter
from calibrant.regularizers.module import QuantileRegularizer
from calibrant.validation import ArrayLike, InputError, as_target

_KEYS = ("spread", "mean", "features")


class ConditionalRegularizer(QuantileRegularizer):
    r"""Regularize PIT values within groups of rows that are predicted alike.

    For each key the rows are sorted by its detached value and cut into :math:`G` groups
    of equal size,

    .. math::
        R_G(u) = \frac{1}{K} \sum_{k=1}^K \sum_{g=1}^G \frac{n_{kg}}{n}
                 R\bigl(\{u_i : i \in \text{group } g \text{ of key } k\}\bigr) .

    At perfect calibration it is the expectation of :math:`R` for :math:`n / G` rows.

    Parameters
    ----------
    regularizer, strength, sort, validate, distributed, process_group
        As for ``QuantileRegularizer``.
    by
        What makes rows alike: ``"spread"`` and ``"mean"`` of the prediction, and
        ``"features"``, each column that the call gets. A constant key counts as one
        group; rows that tie at the edge of a group stay in the batch's order.
    groups
        :math:`G \ge 1` groups for each key; fewer when a group would have less than
        ``smallest_group`` rows. 1 is the plain regularizer.
    smallest_group
        Fewest rows that make a group.

    References
    ----------
    Song, Diethe, Kull and Flach (2019), *Distribution Calibration for Regression*.

    Examples
    --------
    >>> import torch
    >>> regularizer = ConditionalRegularizer(by=["spread"], groups=2)
    >>> y = torch.randn(64, generator=torch.Generator().manual_seed(0))
    >>> spread = torch.linspace(0.2, 2.0, 64)
    >>> regularizer(torch.distributions.Normal(torch.zeros(64), spread), y).shape
    torch.Size([])
    """

    def __init__(
        self,
        regularizer: str | Regularizer = "cumulative_kl",
        *,
        by: Sequence[str] = ("spread", "mean"),
        groups: int = 4,
        smallest_group: int = 8,
        strength: float | None = None,
        sort: str | Sorter | None = None,
        validate: bool = True,
        distributed: bool | None = None,
        process_group: Group = None,
    ) -> None:
        super().__init__(
            regularizer,
            strength=strength,
            sort=sort,
            validate=validate,
            distributed=distributed,
            process_group=process_group,
        )
        if isinstance(by, str) or not by or set(by) - set(_KEYS):
            raise InputError(
                f"by must be a list of keys out of {', '.join(_KEYS)}, got {by!r}."
            )
        if groups < 1 or smallest_group < 1:
            raise InputError(
                f"groups ({groups}) and smallest_group ({smallest_group}) must be at "
                "least 1."
            )
        self.by, self.groups, self.smallest_group = tuple(by), groups, smallest_group

    def forward(
        self,
        prediction: Any,  # noqa: ANN401
        y: ArrayLike | None = None,
        features: ArrayLike | None = None,
    ) -> Tensor:
        """Return strength times the mean regularizer over groups and keys, ``(...)``.

        ``prediction`` and ``y`` are as for ``QuantileRegularizer``, but not PIT values;
        ``features`` are columns ``(n, columns)`` to group by, with ``"features"`` only.
        """
        pit, keys = self._rows(prediction, y, features)
        order = keys.argsort(dim=-1, stable=True)
        grouped = pit.map(lambda part: part.expand(order.shape).gather(-1, order))
        value = self._mean_over_groups(grouped)
        # A constant key makes no groups: its order of rows would mean nothing.
        constant = keys.amax(-1) == keys.amin(-1)
        if constant.any():
            value = torch.where(constant, self._regularizer(pit), value)
        return self.strength * value.mean(0)

    def extra_repr(self) -> str:
        """Settings, for the printed module."""
        return f"{super().extra_repr()}, by={self.by}, groups={self.groups}"

    def _own_rows(
        self,
        prediction: object,
        y: ArrayLike | None,
        features: ArrayLike | None = None,
        *,
        part: bool = False,
    ) -> tuple[PitValues, Tensor]:
        """PIT values, and what makes rows alike without its gradient."""
        pit, distribution = self._pit(prediction, y, part=part)
        if distribution is None:
            raise InputError(
                "a ConditionalRegularizer needs the distribution and y, not PIT values."
            )
        if (features is None) == ("features" in self.by):
            raise InputError(
                'features must be given exactly when by contains "features", got '
                f"by={self.by} and features="
                f"{'None' if features is None else tuple(np.shape(features))}."
            )
        names = {"spread": "stddev", "mean": "mean"}
        with torch.no_grad():
            keys = [getattr(distribution, names[k]) for k in self.by if k in names]
        if features is not None:
            table = as_target(features, name="features", like=pit.cdf)
            n = pit.cdf.shape[-1]
            if table.ndim != 2 or len(table) != n:
                raise InputError(
                    f"features must have shape (n, columns) with n = {n}, got "
                    f"{tuple(table.shape)}."
                )
            keys += table.detach().unbind(1)
        return pit, torch.stack([key.expand(pit.cdf.shape) for key in keys])

    def _mean_over_groups(self, ordered: PitValues) -> Tensor:
        """Mean over the groups of rows in order, ``(keys, ..., n) -> (keys, ...)``."""
        n = ordered.cdf.shape[-1]
        groups = max(1, min(self.groups, n // self.smallest_group))
        cut = [values.tensor_split(groups, -1) for values in ordered]
        total = torch.zeros_like(ordered.cdf[..., 0])
        for part in zip(*cut, strict=True):
            share = part[0].shape[-1] / n
            total = total + share * self._regularizer(PitValues(*part))
        return total
