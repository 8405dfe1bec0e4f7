"""Why a training diverged."""

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["VAST", "diagnosis", "is_spoiled", "speaks_of_nan"]

#: Weights of networks whose inputs are of order 1 do not come near this.
VAST = 1e4


def is_spoiled(
    tensors: Sequence[Tensor], members: int, largest: float = math.inf
) -> Tensor:
    """Tell which members have NaN or too large a number in any tensor, ``(members,)``.

    Examples
    --------
    >>> is_spoiled([torch.tensor([[1.0], [torch.nan]])], 2).tolist()
    [False, True]
    """
    fine = [(each.abs() < largest).reshape(members, -1).all(1) for each in tensors]
    return ~torch.stack(fine).all(0)


def speaks_of_nan(error: Exception) -> bool:
    """Tell whether a law or a score was refused because of NaN or infinity.

    Examples
    --------
    >>> speaks_of_nan(ValueError("found invalid values: tensor([nan, 0.5])"))
    True
    """
    return re.search(r"\b(nan|inf)\b", str(error), re.IGNORECASE) is not None


def diagnosis(
    place: str, bad: Tensor, *, inputs: Tensor, weights: Tensor, learning_rate: float
) -> str:
    """Say who diverged, where, and the likely cause.

    Parameters
    ----------
    place
        Epoch and step.
    bad, inputs, weights
        Which members have a loss, features or targets that are not finite, and weights
        that are vast or not finite; each of shape ``(members,)``.
    learning_rate
        What it was trained with.
    """
    first = int(bad.int().argmax())
    known = bool(bad.any()) or len(bad) == 1
    who = f"member {first + 1} of {len(bad)}" if known else "a member"
    if inputs[first]:
        cause = "the features or targets hold NaN or infinity; look for them first"
    elif weights[first]:
        cause = (
            "earlier steps have thrown its weights out of all bounds: the learning "
            f"rate of {learning_rate:g} is too high for these data; lower it, or set "
            "gradient_clip=1.0"
        )
    else:
        cause = (
            "its predicted spread came too near to 0 for a target far away, often an "
            "outlier; raise the spread's floor, lower the learning rate, or set "
            "gradient_clip=1.0"
        )
    return f"the loss of {who} is not finite in {place}. Likely cause: {cause}."
