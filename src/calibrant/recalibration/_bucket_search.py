"""The piece of [0, 1] that holds a value, without a binary search."""

import torch
from torch import Tensor

__all__ = ["BucketSearch"]

#: Buckets for each piece, at least: then few values need more than one comparison.
_BUCKETS_EACH = 4


class BucketSearch:
    r"""Pieces between the entries of an ascending table from 0 to 1.

    A binary search waits at each of its steps for a branch that cannot be foreseen.
    Here [0, 1] is cut into :math:`2^k` equal buckets. Each knows the piece at its
    start; a comparison or two lead on from there, and what lies farther (many entries
    in one bucket) is searched for. Every answer is that of the binary search, but for
    NaN: bounds of buckets are exact in binary, so no value is put into the wrong one.

    Parameters
    ----------
    table
        Ascending from 0 to 1, shape ``(m,)``, float64.
    right
        Whether an entry belongs to the piece that it starts, or to the one before.
    whole
        Whether the value 1 belongs to the last piece in any case.
    """

    def __init__(self, table: Tensor, *, right: bool, whole: bool) -> None:
        self._table, self._right, self._whole = table, right, whole
        self._last = len(table) - 2
        self._count = 2 ** (_BUCKETS_EACH * len(table) - 1).bit_length()
        self._buckets: tuple[Tensor, Tensor] | None = None
        #: Values to be searched for before buckets pay for themselves.
        self._until = self._count

    def __call__(self, values: Tensor) -> Tensor:
        """Return the piece of each value, from 0 to m - 2, same shape."""
        values = values.detach().contiguous()
        if values.device.type != "cpu" or self._until > 0:
            self._until -= values.numel()
            return self._searched(values)
        if values.ndim == 1:
            return self._in_buckets(values)
        return self._in_buckets(values.flatten()).view(values.shape)

    def _searched(self, values: Tensor) -> Tensor:
        table = self._table.to(values.device)
        found = torch.searchsorted(table, values, right=self._right, out_int32=True)
        index = (found - 1).clamp_(0, self._last)
        if self._whole and not self._right:
            index.masked_fill_(values >= 1, self._last)
        return index

    def _in_buckets(self, values: Tensor) -> Tensor:
        first, following = self._tables()
        # NaN as a whole number is anything, so that goes to some bucket as well.
        bucket = (values * self._count).int().clamp_(0, self._count)
        index = first.index_select(0, bucket)
        index += self._reached(following, index, values).int()
        far = self._reached(following, index, values).nonzero()[:, 0]
        if len(far):
            index[far] = self._searched(values[far])
        return index

    def _reached(self, following: Tensor, index: Tensor, values: Tensor) -> Tensor:
        """Whether values lie beyond their pieces."""
        ends = following.index_select(0, index)
        return ends <= values if self._right else ends < values

    def _tables(self) -> tuple[Tensor, Tensor]:
        """Piece at the start of each bucket, and where each piece ends."""
        if self._buckets is None:
            with torch.inference_mode(False):
                steps = torch.arange(self._count + 1, dtype=torch.float64)
                following = self._table[1:].clone()
                following[-1] = torch.inf
                self._buckets = self._searched(steps / self._count), following
        return self._buckets
