"""Rows in whatever form a foreign regressor takes them."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from calibrant._checks import InputError
from calibrant.estimators._folds import Blocks, Labels

__all__ = ["Rows", "as_rows", "feature_codes"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows to learn from, features as they came.

    Attributes
    ----------
    X
        Array, data frame, sparse matrix or list, ``n`` rows.
    y
        Targets, shape ``(n,)``.
    blocks
        Which rows belong together.
    fit_options
        What ``fit`` takes besides, by its name there, each of shape ``(n,)``.
    """

    X: Any
    y: Array
    blocks: Blocks
    fit_options: dict[str, Array] = field(default_factory=dict)

    def take(self, rows: Labels) -> "Rows":
        """Some of the rows."""
        time = self.blocks.time
        return Rows(
            _safe_indexing(self.X, rows),
            self.y[rows],
            Blocks(self.blocks.labels[rows], None if time is None else time[rows]),
            {name: values[rows] for name, values in self.fit_options.items()},
        )

    def split(self, share: float, seed: int) -> "tuple[Rows, Rows] | None":
        """Cut off about this share, or None if all rows belong together."""
        everything = np.arange(len(self.y))
        random = np.random.default_rng(seed)
        try:
            larger, smaller = self.blocks.split(everything, share, random)
        except InputError:
            return None
        return self.take(larger), self.take(smaller)

    @property
    def spread(self) -> float:
        """Standard deviation of the targets; 1 if they are constant."""
        return float(self.y.std()) or 1.0


def as_rows(X: Any) -> Any:  # noqa: ANN401
    """Leave lists and data frames as they are; others become arrays, sparse or not.

    All of these can be indexed by rows, and an estimator gets them as they came.
    """
    if issparse(X):
        return X.tocsr()
    if isinstance(X, list) or hasattr(X, "columns"):
        return X
    return np.asarray(X)


def feature_codes(X: Any) -> Array:  # noqa: ANN401  (whatever a regressor takes)
    """Number the values of each feature, so that equal rows have equal numbers.

    Parameters
    ----------
    X
        What :func:`as_rows` gives, with values of any type.
        Missing values are equal to each other.

    Returns
    -------
    ndarray
        Shape ``(n, d)``, or ``(n, 1)`` for sparse matrices and lists of single values.

    Examples
    --------
    >>> feature_codes([[3.0, "a"], [3.0, "b"], [3.0, "a"]]).tolist()
    [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    if issparse(X):
        return _codes(np.array(_sparse_keys(X), dtype=object))[:, None]
    if hasattr(X, "iloc"):  # pandas, where names may repeat
        columns = [np.asarray(X.iloc[:, place]) for place in range(X.shape[1])]
    elif hasattr(X, "columns"):
        columns = [np.asarray(X[name]) for name in X.columns]
    else:
        # An array of strings would be made of a list with one string in it.
        array = np.array(X, dtype=object) if isinstance(X, list) else np.asarray(X)
        columns = list(array.reshape(len(array), math.prod(array.shape[1:])).T)
    if not columns:
        raise InputError(
            f"X must have features, got 0 feature(s) (shape=({len(X)}, 0)) while a "
            "minimum of 1 is required."
        )
    return np.column_stack([_codes(column) for column in columns])


def _codes(column: npt.NDArray[Any]) -> Array:
    if column.dtype.kind not in "biufcmM":
        # Not every value can be compared or hashed; all can be written down.
        column = np.array([repr(value) for value in column])
    _, codes = np.unique(column, return_inverse=True)
    return codes.reshape(-1).astype(np.float64)


def _sparse_keys(X: Any) -> list[tuple[bytes, bytes]]:  # noqa: ANN401
    table = X.copy()
    table.sum_duplicates()
    table.eliminate_zeros()
    cuts = table.indptr[1:-1]
    parts = zip(np.split(table.indices, cuts), np.split(table.data, cuts), strict=True)
    return [(places.tobytes(), values.tobytes()) for places, values in parts]
