"""What :func:`calibrant.data.load` returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.data.info import DataSetInfo

__all__ = ["DataSet", "described"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSet:
    """Features and target in the original row order, with what is known of them.

    Attributes
    ----------
    name
        The name it was loaded by; for a CSV the path, as it was given.
    title
        For headings.
    x
        Features, shape ``(n, d)``, float64.
    y
        Target, shape ``(n,)``, float64.
    features, target
        Names of the columns.
    description
        What the rows are, and what to know before using them.
    license, citation, source
        Terms of use, whom to credit, and where it comes from.

    Examples
    --------
    >>> from calibrant.data import load
    >>> boats = load("yacht")
    >>> boats.x.shape, boats.y.shape, boats.target
    ((308, 6), (308,), 'residuary_resistance')
    """

    name: str
    title: str
    x: FloatArray = field(repr=False)
    y: FloatArray = field(repr=False)
    features: tuple[str, ...]
    target: str
    description: str = field(repr=False)
    license: str
    citation: str = field(repr=False)
    source: str

    def __len__(self) -> int:
        return len(self.y)


def described(
    info: DataSetInfo, x: FloatArray, y: FloatArray, features: tuple[str, ...]
) -> DataSet:
    """Join the arrays of a named set to what the registry knows of it."""
    known: dict[str, Any] = {
        name: getattr(info, name)
        for name in ("title", "target", "description", "license", "citation", "source")
    }
    return DataSet(name=info.name, x=x, y=y, features=features, **known)
