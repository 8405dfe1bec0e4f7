"""What a training sees: rows, and who learns from which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from calibrant.validation import InputError

# Rows that a regularizer with rows of its own looks at in a step.
_MOST_REGULARIZED = 128


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
        rows see some of theirs twice in an epoch: all take the same steps.
    held_out
        For each member the numbers of the rows that early stopping looks at, or None.
    regularized
        For each member the numbers of the rows that the regularizer looks at, rows
        that are not learned from; None for those of each batch.
    weights
        Weights of the rows in the score, shape ``(n,)``, or None. Only their ratios
        matter: each member's are brought to mean 1 over the rows that it learns from.

    Examples
    --------
    >>> x, y = torch.zeros(6, 3), torch.zeros(2, 6)
    >>> rows = [torch.arange(4), torch.arange(3, 6)]
    >>> TrainingData(x=x, y=y, rows=rows).order(torch.Generator()).shape
    torch.Size([2, 4])
    """

    x: Tensor
    y: Tensor
    rows: Sequence[Tensor]
    held_out: Sequence[Tensor] | None = None
    regularized: Sequence[Tensor] | None = None
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        members, n = len(self.rows), len(self.x)
        if self.x.ndim != 2 or self.y.shape != (members, n) or members == 0:
            raise InputError(
                "x must have shape (n, d) and y (members, n) with one member for each "
                f"entry of rows, got x {tuple(self.x.shape)}, y {tuple(self.y.shape)} "
                f"and {members} entries."
            )
        for name in ("rows", "held_out", "regularized"):
            if getattr(self, name) is not None:
                _check_rows(getattr(self, name), members, n, name=name)
        weights = self.weights
        if weights is None:
            return
        if weights.shape != (n,) or not (weights.isfinite() & (weights >= 0)).all():
            raise InputError(
                f"weights must have shape ({n},), one for each row of x, and be finite "
                f"and at least 0, got {weights!r}."
            )
        if not all(weights[own].sum() > 0 for own in self.rows):
            raise InputError(
                "weights must be above 0 for at least one row of each member: one has "
                "nothing to learn from."
            )

    def to(self, device: torch.device) -> "TrainingData":
        """Move everything to a device."""

        def moved(part: Any) -> Any:  # noqa: ANN401
            if part is None or isinstance(part, Tensor):
                return None if part is None else part.to(device)
            return [own.to(device) for own in part]

        return TrainingData(**{name: moved(part) for name, part in vars(self).items()})

    def order(self, generator: torch.Generator) -> Tensor:
        """Draw each member's order of one epoch, shape ``(members, longest)``.

        A member's order does not depend on how many rows the others have.
        """
        return _order(self.rows, max(map(len, self.rows)), generator)

    def regularized_batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Draw the regularizer's rows without end, each time ``(members, b)``.

        No batch has a row twice; b is 128, or the least number of a member's rows.
        """
        rows = self.regularized or self.rows
        fewest = min(map(len, rows))
        size = min(_MOST_REGULARIZED, fewest)
        while True:
            order = _order(rows, fewest - fewest % size, generator)
            yield from order.split(size, dim=1)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Features ``(members, b, d)`` and targets of rows ``(members, b)``."""
        # An index of two axes takes several times as long as one of one axis.
        x = self.x.index_select(0, rows.reshape(-1))
        return x.view(*rows.shape, self.x.shape[1]), self.y.gather(1, rows)

    def ranges(self) -> Tensor:
        """Range of each input over each member's rows, shape ``(members, 1, d)``."""
        spans = [self.x[own].amax(0) - self.x[own].amin(0) for own in self.rows]
        return torch.stack(spans).unsqueeze(1)

    def member_weights(self) -> Tensor | None:
        """Weights of mean 1 over each member's rows, shape ``(members, n)``."""
        given = self.weights
        if given is None:
            return None
        return torch.stack([given / given[own].mean() for own in self.rows])


def _order(rows: Sequence[Tensor], length: int, generator: torch.Generator) -> Tensor:
    """Draw each member's rows at random, again if too few: ``(members, length)``."""
    seeds = torch.randint(2**62, (len(rows),), generator=generator).tolist()
    orders = []
    for own, seed in zip(rows, seeds, strict=True):
        source = torch.Generator().manual_seed(seed)
        drawn = [
            own[torch.randperm(len(own), generator=source).to(own.device)]
            for _ in range(-(-length // len(own)))
        ]
        orders.append(torch.cat(drawn)[:length])
    return torch.stack(orders)


def _check_rows(rows: Sequence[Tensor], members: int, n: int, *, name: str) -> None:
    if len(rows) != members or min(len(own) for own in rows) < 1:
        raise InputError(
            f"{name} must hold at least one row for each of the {members} members, got "
            f"{[len(own) for own in rows]} rows."
        )
    for own in rows:
        if own.dtype != torch.long or own.min() < 0 or own.max() >= n:
            raise InputError(
                f"{name} must hold numbers of rows, int64 from 0 to {n - 1}, got "
                f"{own.dtype} from {own.min().item()} to {own.max().item()}."
            )
