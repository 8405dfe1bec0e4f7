"""The distribution of samples, as a generative model or a bootstrap gives them."""

import math

import torch
from torch import Tensor

from calibrant.distributions.base import AbstractDistribution, joint_shape
from calibrant.protocols import PitValues
from calibrant.validation import (
    ArrayLike,
    InputError,
    UnsupportedError,
    as_target,
    pit_from_cdf,
)

#: Samples up to which an integral over values meets each of them.
_FEW = 512


def to_rows(value: Tensor, batch_shape: torch.Size) -> Tensor:
    """Bring ``(k, *batch_shape)`` to ``(*batch_shape, k)``, any axes in front as k."""
    shape = joint_shape(value.shape, batch_shape)
    asked = math.prod(shape[: len(shape) - len(batch_shape)])
    rows = value.expand(shape).reshape(asked, *batch_shape)
    return rows.movedim(0, -1).contiguous()


def from_rows(answer: Tensor, like: Tensor, batch_shape: torch.Size) -> Tensor:
    """Undo :func:`to_rows` for the answers to ``like``."""
    shape = joint_shape(like.shape, batch_shape)
    return answer.movedim(-1, 0).reshape(shape)


def ask_rows(table: Tensor, index: Tensor) -> Tensor:
    """Pick entries of ``(*batch, m)``, or of one ``(m,)`` for all rows, by index."""
    return table[index] if table.ndim == 1 else table.gather(-1, index)


def count_rows(table: Tensor, asked: Tensor, *, right: bool) -> Tensor:
    """Number of a row's entries below each value, or at most it (``right``)."""
    dtype = torch.promote_types(asked.dtype, table.dtype)
    rows = table.detach().to(dtype).contiguous()
    return torch.searchsorted(rows, asked.detach().to(dtype), right=right)


class Empirical(AbstractDistribution):
    r"""Distribution that puts equal weight on each of ``m`` samples per row.

    .. math:: F(y) = \frac{1}{m} \#\{j : x_j \le y\}

    The cdf is a step function: its PIT values take the ``m + 1`` values
    0, 1/m, ..., 1, and their gradient is zero. ``quantile``, ``mean``, ``variance`` and
    ``crps`` carry gradients to the samples. There is no density.

    Parameters
    ----------
    samples
        :math:`x_j`, shape ``(m, *batch_shape)``: the samples are the FIRST axis. They
        are sorted once, here.

    References
    ----------
    Gneiting and Raftery (2007), *Strictly Proper Scoring Rules, Prediction, and
    Estimation*, for the energy form of the crps.

    Examples
    --------
    >>> predictive = Empirical([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])
    >>> predictive.cdf([2.5, 40.0]).tolist()
    [0.5, 1.0]
    >>> predictive.quantile(0.5).tolist()
    [2.0, 20.0]
    """

    _parameters = ("_sorted",)

    def __init__(self, samples: ArrayLike) -> None:
        draws = as_target(samples, name="samples")
        if draws.ndim == 0 or len(draws) == 0:
            raise InputError(
                "samples must have shape (m, *batch) with m >= 1, "
                f"got {tuple(draws.shape)}."
            )
        # A sort of a strided view is slower than the copy.
        self._sorted = draws.movedim(0, -1).contiguous().sort(dim=-1).values

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of distributions."""
        return self._sorted.shape[:-1]

    @property
    def samples(self) -> Tensor:
        """Samples in ascending order, shape ``(m, *batch_shape)``."""
        return self._sorted.movedim(-1, 0)

    def _moments(self) -> tuple[Tensor, Tensor]:
        return self._sorted.mean(-1), self._sorted.var(-1, correction=0)

    def __getitem__(self, rows: slice | Tensor) -> "Empirical":
        """Select rows of the first batch axis."""
        return Empirical(self._sorted[rows].movedim(-1, 0))

    def _pit(self, value: Tensor) -> PitValues:
        return pit_from_cdf(self._share(value, right=True))

    def _pit_before(self, value: Tensor) -> PitValues:
        return pit_from_cdf(self._share(value, right=False))

    def _share(self, value: Tensor, *, right: bool) -> Tensor:
        asked = to_rows(value, self.batch_shape)
        count = count_rows(self._sorted, asked, right=right).to(self.dtype)
        return from_rows(count / self._sorted.shape[-1], value, self.batch_shape)

    def _kinks(self) -> Tensor:
        return self.samples[:: -(-len(self.samples) // _FEW)]

    def _log_prob(self, value: Tensor) -> Tensor:
        raise UnsupportedError(
            "log_prob needs a density, and samples have none. Score the samples with "
            "crps, or put a normal distribution around each: GaussianMixture "
            f"(asked of {tuple(value.shape)} values)."
        )

    def _quantile(self, level: Tensor) -> Tensor:
        # The steps are computed as cdf computes them, so that one inverts the other.
        m = self._sorted.shape[-1]
        steps = torch.arange(1, m + 1, dtype=level.dtype, device=level.device) / m
        index = torch.searchsorted(steps, to_rows(level.detach(), self.batch_shape))
        found = ask_rows(self._sorted, index.clamp_max(m - 1))
        return from_rows(found, level, self.batch_shape)

    def _crps(self, value: Tensor) -> Tensor:
        """Energy form E|X - y| - E|X - X'| / 2, with pairs of a sample and itself."""
        m = self._sorted.shape[-1]
        # Sums of centered samples lose fewer digits.
        center = self._sorted.detach().mean(-1, keepdim=True)
        ordered = self._sorted - center
        asked = to_rows(value, self.batch_shape)
        count = count_rows(self._sorted, asked, right=True)
        sums = torch.nn.functional.pad(ordered.cumsum(-1), (1, 0))
        below = ask_rows(sums, count)
        distance = (2 * count - m) * (asked - center) + sums[..., -1:] - 2 * below
        rank = torch.arange(1, m + 1, dtype=self.dtype, device=ordered.device)
        spread = ((2 * rank - m - 1) * ordered).sum(-1, keepdim=True) / m**2
        return from_rows(distance / m - spread, value, self.batch_shape)
