"""What a training sees: rows, and who learns from which."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._checks import InputError

__all__ = ["TrainingData"]


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Rows of a training, and for each member the rows that it learns from.

    Attributes
    ----------
    x
        Features, shape ``(n, d)``, of order 1.
    y
        Targets as each member sees them, shape ``(members, n)``, of order 1.
    rows
        For each member the numbers of the rows that it learns from. Members with fewer
        rows than the others see some of theirs twice in an epoch, so that all take the
        same steps.
    held_out
        For each member the numbers of the rows that early stopping looks at, or None.
    weights
        Weights of the rows in the score, shape ``(n,)``, or None. Only their ratios
        matter: each member's are brought to mean 1 over the rows that it learns from.

    Examples
    --------
    >>> x, y = torch.zeros(6, 3), torch.zeros(2, 6)
    >>> rows = [torch.arange(4), torch.arange(3, 6)]
    >>> data = TrainingData(x=x, y=y, rows=rows)
    >>> data.order(torch.Generator()).shape
    torch.Size([2, 4])
    """

    x: Tensor
    y: Tensor
    rows: Sequence[Tensor]
    held_out: Sequence[Tensor] | None = None
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        members, n = len(self.rows), len(self.x)
        if self.x.ndim != 2 or self.y.shape != (members, n) or members == 0:
            raise InputError(
                "x must have shape (n, d) and y (members, n) with one member for each "
                f"entry of rows, got x {tuple(self.x.shape)}, y {tuple(self.y.shape)} "
                f"and {members} entries."
            )
        _check_rows(self.rows, members, n, name="rows")
        if self.held_out is not None:
            _check_rows(self.held_out, members, n, name="held_out")
        if self.weights is not None:
            self._check_weights(self.weights)

    def _check_weights(self, weights: Tensor) -> None:
        if weights.shape != (len(self.x),):
            raise InputError(
                f"weights must have shape ({len(self.x)},), one for each row of x, "
                f"got {tuple(weights.shape)}."
            )
        if not (torch.isfinite(weights) & (weights >= 0)).all():
            raise InputError("weights must be finite and at least 0.")
        if not all(weights[each].sum() > 0 for each in self.rows):
            raise InputError(
                "weights must be above 0 for at least one row of each member: one has "
                "nothing to learn from."
            )

    def to(self, device: torch.device) -> "TrainingData":
        """Move everything to a device."""
        held_out, weights = self.held_out, self.weights
        return TrainingData(
            x=self.x.to(device),
            y=self.y.to(device),
            rows=[each.to(device) for each in self.rows],
            held_out=held_out and [each.to(device) for each in held_out],
            weights=None if weights is None else weights.to(device),
        )

    def order(self, generator: torch.Generator) -> Tensor:
        """Draw each member's order of one epoch, shape ``(members, longest)``.

        Each member draws from a source of its own, so that its order does not depend
        on how many rows the others have.
        """
        longest = max(len(each) for each in self.rows)
        seeds = torch.randint(2**62, (len(self.rows),), generator=generator).tolist()
        orders = []
        for each, seed in zip(self.rows, seeds, strict=True):
            own = torch.Generator().manual_seed(seed)
            drawn = [
                each[torch.randperm(len(each), generator=own).to(each.device)]
                for _ in range(-(-longest // len(each)))
            ]
            orders.append(torch.cat(drawn)[:longest])
        return torch.stack(orders)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Features ``(members, b, d)`` and targets ``(members, b)`` of rows of each.

        Parameters
        ----------
        rows
            Numbers of each member's rows, shape ``(members, b)``.
        """
        # An index of two axes takes several times as long as one of one axis.
        x = self.x.index_select(0, rows.reshape(-1))
        x = x.view(*rows.shape, self.x.shape[1])
        return x, self.y.gather(1, rows)

    def ranges(self) -> Tensor:
        """Range of each input over each member's rows, shape ``(members, 1, d)``."""
        spans = [self.x[each].amax(0) - self.x[each].amin(0) for each in self.rows]
        return torch.stack(spans).unsqueeze(1)

    def member_weights(self) -> Tensor | None:
        """Weights of mean 1 over each member's rows, shape ``(members, n)``."""
        weights = self.weights
        if weights is None:
            return None
        return torch.stack([weights / weights[each].mean() for each in self.rows])


def _check_rows(rows: Sequence[Tensor], members: int, n: int, *, name: str) -> None:
    if len(rows) != members or min(len(each) for each in rows) < 1:
        raise InputError(
            f"{name} must hold at least one row for each of the {members} members, got "
            f"{[len(each) for each in rows]} rows."
        )
    for each in rows:
        if each.dtype != torch.long or each.min() < 0 or each.max() >= n:
            raise InputError(
                f"{name} must hold numbers of rows, int64 from 0 to {n - 1}, got "
                f"{each.dtype} from {each.min().item()} to {each.max().item()}."
            )
