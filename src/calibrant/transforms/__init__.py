"""Increasing maps of targets onto the real line, and back.

To add one: one file here, one line in ``_LINES``.
"""

import math
from typing import TYPE_CHECKING

from calibrant._table import Table

if TYPE_CHECKING:  # the names of the parts must not cost an import of torch
    from collections.abc import Callable

    from torch import Tensor

    from calibrant.contracts import TargetTransform
    from calibrant.transforms.functions import FunctionTransform

    Function = Callable[[Tensor], Tensor]

__all__ = ["TRANSFORMS", "from_functions", "from_json"]

_LINES = {
    "identity": "identity:IdentityTransform",
    "log": "log:LogTransform",
    "box_cox": "box_cox:BoxCoxTransform",
    "yeo_johnson": "yeo_johnson:YeoJohnsonTransform",
    "logit": "logit:LogitTransform",
}

TRANSFORMS: "Table[Callable[..., TargetTransform]]" = Table(
    "transform", {name: f"{__name__}.{path}" for name, path in _LINES.items()}
)


def from_json(text: str) -> "TargetTransform":
    """Read a transform that ``to_json`` has written; it maps bit by bit alike.

    Parameters
    ----------
    text
        What ``to_json()`` gave.

    Returns
    -------
    TargetTransform
        Of the class and with the options that wrote it.

    Examples
    --------
    >>> fitted = TRANSFORMS["box_cox"]().fit([1.0, 2.0, 4.0, 9.0])
    >>> from_json(fitted.to_json()).power == fitted.power
    True
    """
    from calibrant.transforms._json import read_json

    part: TargetTransform = read_json(text)
    return part


def from_functions(
    forward: "Function",
    inverse: "Function",
    log_derivative: "Function",
    *,
    support: tuple[float, float] = (-math.inf, math.inf),
) -> "FunctionTransform":
    r"""Make a transform of your own functions of float64 tensors.

    It cannot be stored: ``to_json`` raises. ``fit`` checks on the targets that the
    three belong together.

    Parameters
    ----------
    forward
        :math:`g`, increasing, from the support onto the whole real line. If it reaches
        only :math:`(a, b)`, as a root does, give ``Transformed`` a base law that is
        ``Truncated`` to :math:`[a, b]`.
    inverse
        :math:`g^{-1}`.
    log_derivative
        :math:`\log g'`.
    support
        Where :math:`g` is defined.

    Returns
    -------
    FunctionTransform
        A transform that all laws and models take.

    Examples
    --------
    >>> import torch
    >>> third = from_functions(
    ...     lambda y: y.log() / 3,
    ...     lambda z: (3 * z).exp(),
    ...     lambda y: -(3 * y).log(),
    ...     support=(0.0, float("inf")),
    ... )
    >>> third.fit([1.0, 8.0]).inverse([0.0]).tolist()
    [1.0]
    """
    from calibrant.transforms.functions import FunctionTransform

    return FunctionTransform(forward, inverse, log_derivative, support=support)
