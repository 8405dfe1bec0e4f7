"""Early stopping: each member's best weights so far."""

from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant.metrics.calibration import expected_calibration_error

__all__ = [
    "EarlyStopping",
    "held_out_calibration_error",
    "held_out_calibration_floor",
    "padded",
]

_LEVELS = 20


class EarlyStopping:
    """Keeps the weights of each member's best epoch, by its held-out score.

    Parameters
    ----------
    tensors
        What is trained, each with the members on its first axis; for a plain module
        all that it holds, since running statistics belong to the weights.
    members
        Number of members.
    stacked
        Whether the tensors have an axis of members.
    patience
        Epochs without improvement after which a member is done.

    Examples
    --------
    >>> weights = torch.tensor([[1.0], [1.0]])
    >>> stopping = EarlyStopping([weights], members=2, stacked=True, patience=1)
    >>> stopping.look(torch.tensor([0.5, 0.5]), 1)
    >>> _ = weights.fill_(2.0)
    >>> stopping.look(torch.tensor([0.4, 0.6]), 2)  # only the first is better
    >>> stopping.restore(), weights.tolist()
    ([2, 1], [[2.0], [1.0]])
    """

    def __init__(
        self, tensors: Sequence[Tensor], *, members: int, stacked: bool, patience: int
    ) -> None:
        self._tensors, self._stacked, self._patience = tensors, stacked, patience
        self._score = torch.full((members,), torch.inf)
        self._epoch = torch.zeros(members, dtype=torch.long)
        self._kept: list[Tensor] | None = None

    def look(self, scores: Tensor, epoch: int) -> None:
        """Keep the weights of members whose score ``(members,)`` is their best yet."""
        scores = scores.cpu()
        # A member that ran out of patience is done, however long others train on: what
        # it becomes must not depend on their rows.
        done = epoch - 1 - self._epoch >= self._patience
        better = (scores < self._score) & ~done
        self._score = torch.where(better, scores, self._score)
        self._epoch[better] = epoch
        if self._kept is None:
            self._kept = [each.detach().clone() for each in self._tensors]
        elif better.any():
            for kept, now in zip(self._kept, self._tensors, strict=True):
                if self._stacked:
                    kept[better] = now.detach()[better]
                else:
                    kept.copy_(now.detach())

    def exhausted(self, epoch: int) -> bool:
        """Tell whether all members are done."""
        return bool((epoch - self._epoch >= self._patience).all())

    def restore(self) -> list[int]:
        """Give the best weights back, and say from which epochs they are."""
        if self._kept is not None:
            with torch.no_grad():
                for now, kept in zip(self._tensors, self._kept, strict=True):
                    now.copy_(kept)
        return [int(each) for each in self._epoch]


def padded(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Stack ragged rows, and tell the real entries; both ``(members, longest)``.

    Examples
    --------
    >>> numbers, real = padded([torch.tensor([3, 4, 5]), torch.tensor([7])])
    >>> numbers.tolist(), real[1].tolist()
    ([[3, 4, 5], [7, 7, 7]], [True, False, False])
    """
    longest = max(len(each) for each in rows)
    repeated = [each.repeat(-(-longest // len(each)))[:longest] for each in rows]
    place = torch.arange(longest, device=rows[0].device)
    real = [place < len(each) for each in rows]
    return torch.stack(repeated), torch.stack(real)


def held_out_calibration_error(pit: Tensor, real: Tensor) -> float:
    r"""Mean over members of the squared gaps :math:`\sum_j (\hat F(j/20) - j/20)^2`.

    Parameters
    ----------
    pit, real
        PIT values, and which of them count; shape ``(members, n)``.

    Examples
    --------
    >>> pit = torch.arange(1.0, 21) / 20
    >>> held_out_calibration_error(pit[None], torch.ones(1, 20, dtype=torch.bool))
    0.0
    """
    promised = torch.arange(1, _LEVELS + 1, device=pit.device).double() / _LEVELS
    # NaN falls behind the last level.
    place = torch.bucketize(pit, promised.to(pit.dtype))
    count = torch.zeros(len(pit), _LEVELS + 1, device=pit.device, dtype=torch.float64)
    count.scatter_add_(1, place, real.double())
    observed = count.cumsum(1)[:, :-1] / real.sum(1, keepdim=True)
    return float((observed - promised).square().sum(1).mean())


def held_out_calibration_floor(rows: Sequence[Tensor]) -> float:
    """Expectation of :func:`held_out_calibration_error` if all members are perfect.

    Parameters
    ----------
    rows
        For each member the rows that it is judged by.

    Examples
    --------
    >>> held_out_calibration_floor([torch.arange(95)])
    0.035
    """
    floors = [expected_calibration_error(len(each), levels=_LEVELS) for each in rows]
    return sum(floors) / len(floors)
