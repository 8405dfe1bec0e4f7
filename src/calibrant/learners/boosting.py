"""Boosted trees that predict a normal distribution.

LightGBM grows them. They are kept as arrays and evaluated here: a saved model needs no
LightGBM, and an untrusted file never reaches its parser.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from calibrant.regularizers.module import gaussian_cumulative_kl

__all__ = ["MOST_LEAVES", "BoostedNormal", "Forest", "grow", "spread_of"]

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

# Looked at at once.
_ROWS, _TREES = 2048, 256
# Leaves of a tree are the bits of a word.
MOST_LEAVES = 64
# A residual counts for at most so many spreads; spreads lie in this range, in standard
# deviations of the target.
_FARTHEST, _LEAST_SPREAD, _LARGEST_SPREAD = 8.0, 1e-3, 20.0


@dataclass(frozen=True)
class Forest:
    """Regression trees as arrays, each with k inner nodes and k + 1 leaves or fewer.

    A row takes all decisions of a tree at once, and each rules out the leaves on its
    other side: the leaf that is left is the row's. There is nothing to follow, so whole
    arrays of rows and trees are evaluated together (as in QuickScorer, Lucchese et al.
    2015, SIGIR). Decisions that a tree does not have rule out nothing.

    A row goes to the left if ``feature`` is at most ``threshold``; ``left`` and
    ``right`` are the leaves on the two sides as bits, all of shape ``(trees, k)``.
    ``value`` of each leaf has shape ``(trees, k + 1)``.

    Examples
    --------
    >>> stump = Forest(
    ...     feature=np.array([[0]]),
    ...     threshold=np.array([[0.5]]),
    ...     left=np.array([[1]], dtype=np.uint64),
    ...     right=np.array([[2]], dtype=np.uint64),
    ...     value=np.array([[-1.0, 1.0]]),
    ... )
    >>> stump.sums(np.array([[0.5], [0.6]]), np.array([0])).tolist()
    [[-1.0], [1.0]]
    """

    feature: npt.NDArray[np.int64]
    threshold: Array
    left: npt.NDArray[np.uint64]
    right: npt.NDArray[np.uint64]
    value: Array

    def __len__(self) -> int:
        return len(self.value)

    @classmethod
    def joined(cls, parts: Sequence["Forest"]) -> Self:
        """Join forests of the same k into one, the trees of the first one first."""
        tables = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*map(np.concatenate, tables))

    @classmethod
    def constant(cls, leaves: int) -> Self:
        """Make one tree without decisions, whose value is 0."""
        shape = (1, leaves - 1)
        return cls(
            feature=np.zeros(shape, np.int64),
            threshold=np.full(shape, np.inf),
            left=np.zeros(shape, np.uint64),
            right=np.zeros(shape, np.uint64),
            value=np.zeros((1, leaves)),
        )

    def part(self, trees: slice) -> "Forest":
        """Return some of the trees."""
        return Forest(*(table[trees] for table in vars(self).values()))

    def sums(self, x: Array, starts: Labels) -> Array:
        """Add up the trees of each segment for rows ``(n, d)``: ``(n, segments)``.

        A segment goes from its entry of ``starts``, ascending from 0, to the next one.
        """
        found = np.zeros((len(x), len(starts)))
        for begin in range(0, len(self), _TREES):
            trees = self.part(slice(begin, begin + _TREES))
            inside = (starts > begin) & (starts < begin + _TREES)
            cuts = np.concatenate([[0], starts[inside] - begin])
            segment = int(np.searchsorted(starts, begin, "right")) - 1
            tables = trees._tables()
            for row in range(0, len(x), _ROWS):
                values = trees._values(x[row : row + _ROWS], tables)
                sums = np.add.reduceat(values, cuts, axis=1)
                found[row : row + _ROWS, segment : segment + len(cuts)] += sums
        return found

    def _tables(self) -> list[tuple[int, Array, Any]]:
        """For each feature that decides: thresholds, and leaves by their number below.

        Row b of the second array, ``(thresholds + 1, trees)``, are the leaves that are
        left to a row whose feature exceeds b thresholds.
        """
        tree = np.broadcast_to(np.arange(len(self))[:, None], self.feature.shape)
        tables, decides = [], self.threshold < np.inf
        for feature in np.unique(self.feature[decides]).tolist():
            own = decides & (self.feature == feature)
            thresholds, rank = np.unique(self.threshold[own], return_inverse=True)
            shape = (len(thresholds) + 1, len(self))
            exceeded, others = np.full((2, *shape), ~np.uint64(0))
            np.bitwise_and.at(exceeded, (rank + 1, tree[own]), ~self.left[own])
            np.bitwise_and.at(others, (rank, tree[own]), ~self.right[own])
            for table in (exceeded, others[::-1]):  # faster than ``accumulate``
                for before, now in itertools.pairwise(table):
                    now &= before
            tables.append((feature, thresholds, exceeded & others))
        return tables

    def _values(self, x: Array, tables: list[tuple[int, Array, Any]]) -> Array:
        """Value of each row's leaf in each tree, shape ``(n, trees)``."""
        leaves = np.bitwise_or.reduce(self.left | self.right, axis=1)
        leaves = np.maximum(leaves, np.uint64(1))  # a tree without decisions has one
        left = np.tile(leaves, (len(x), 1))
        for feature, thresholds, table in tables:
            left &= table[np.searchsorted(thresholds, x[:, feature])]
        # The number of the only bit.
        number = np.frexp(left.astype(np.float64))[1] - 1
        number += (self.value.shape[1] * np.arange(len(self))).astype(number.dtype)
        values: Array = self.value.reshape(-1).take(number, mode="clip")
        return values


def _of_text(text: str, outputs: int, leaves: int) -> list[Forest]:
    """Read LightGBM's own description of trees, apart for each of its outputs."""
    trees = text.split("\nTree=")[1:]
    shape = (len(trees), leaves - 1)
    feature, child = np.zeros(shape, np.int64), np.zeros((2, *shape), np.int64)
    threshold, value = np.full(shape, np.inf), np.zeros((len(trees), leaves))
    inner = np.zeros(shape, dtype=bool)
    for number, tree in enumerate(trees):
        lines = (line.partition("=") for line in tree.split("\n"))
        entry = {name: numbers.split() for name, _, numbers in lines}
        values = np.array(entry["leaf_value"], float)
        value[number, : len(values)] = values
        if len(values) == 1:
            continue
        own = slice(0, len(values) - 1)
        inner[number, own] = True
        feature[number, own] = np.array(entry["split_feature"], np.int64)
        threshold[number, own] = np.array(entry["threshold"], float)
        child[0, number, own] = np.array(entry["left_child"], np.int64)
        child[1, number, own] = np.array(entry["right_child"], np.int64)
    # Leaves below each side of a node. Nodes come after their parents, and ~child is
    # the number of a leaf.
    below = np.zeros((2, *shape), np.uint64)
    one, every = np.uint64(1), np.arange(len(trees))
    for node in reversed(range(leaves - 1)):
        for side in (0, 1):
            to = child[side, :, node]
            leaf = one << np.maximum(~to, 0).astype(np.uint64)
            under = np.maximum(to, 0)
            both = below[0, every, under] | below[1, every, under]
            below[side, :, node] = np.where(to < 0, leaf, both)
    below[:, ~inner] = 0
    whole = Forest(feature, threshold, below[0], below[1], value)
    return [whole.part(slice(output, None, outputs)) for output in range(outputs)]


class _Objective:
    r"""Gradients of the NLL, and of the regularizer times its strength.

    .. math::
        \ell = \tfrac12 z^2 + \ln \sigma + \lambda\, n\, \mathrm{CKL}(z) , \qquad
        z = (y - \mu) / \sigma .

    The mean's gradient is divided by its Fisher information :math:`1 / \sigma^2`: its
    trees fit residuals, as those of least squares do. A tree does not grow where
    gradients are constant, so an intercept of :math:`\ln \sigma` follows by half a
    Newton step in each round. After ``spread_rounds`` the spread stays as it is.
    """

    def __init__(
        self, weights: Array | None, strength: float, spread_rounds: int
    ) -> None:
        self.weights, self.strength = weights, strength
        self.spread_rounds = spread_rounds
        self.intercepts: list[float] = []

    def __call__(self, raw: Array, data: Any) -> tuple[Array, Array]:  # noqa: ANN401
        target = data.get_label()
        raw = raw.reshape(len(target), 2, order="F")
        residual = target - raw[:, 0]
        shift = self.intercepts[-1] if self.intercepts else 0.0
        grows = len(self.intercepts) < self.spread_rounds
        if grows:
            squares = np.square(residual / spread_of(raw[:, 1] + shift))
            mean = np.average(np.minimum(squares, 25.0), weights=self.weights)
            shift += 0.25 * math.log(max(mean, 1e-12))
        self.intercepts.append(shift)
        spread = spread_of(raw[:, 1] + shift)
        z = np.clip(residual / spread, -_FARTHEST, _FARTHEST)
        slope = z
        if self.strength:
            slope = z + self.strength * _regularizer_slope(z)
        gradient = np.stack([-slope * spread, (1 - slope * z) * grows], axis=1)
        hessian = np.broadcast_to([1.0, 2.0], gradient.shape)
        if self.weights is not None:
            gradient = gradient * self.weights[:, None]
            hessian = hessian * self.weights[:, None]
        return gradient, np.ascontiguousarray(hessian)


def spread_of(logarithm: Array) -> Array:
    """Spread, in standard deviations of the target, of its logarithm."""
    return np.exp(logarithm).clip(_LEAST_SPREAD, _LARGEST_SPREAD)


def _regularizer_slope(z: Array) -> Array:
    """Slope of n times the cumulative KL by the mean, at spread 1, shape ``(n,)``."""
    mean = torch.zeros(len(z), dtype=torch.float64, requires_grad=True)
    value = gaussian_cumulative_kl(mean, torch.ones_like(mean), torch.from_numpy(z))
    (slope,) = torch.autograd.grad(value, mean)
    return -len(z) * slope.numpy()


@dataclass(frozen=True)
class BoostedNormal:
    """Boosted mean and logarithm of the spread of one target, in its own units."""

    mean: Forest
    spread: Forest
    intercepts: Array  # of the logarithm of the spread, after each round
    center: float  # of the target
    scale: float

    def rounds(self, x: Array, counts: Labels) -> tuple[Array, Array]:
        """Means and spreads after some numbers of rounds, each ``(counts, n)``."""
        starts = np.concatenate([[0], counts[:-1]])

        def after(forest: Forest) -> Array:
            inside = starts < len(forest)
            sums = np.zeros((len(x), len(counts)))
            kept = forest.part(slice(counts[-1]))
            sums[:, inside] = kept.sums(x, starts[inside])
            return sums.cumsum(1).T

        shift = self.intercepts[np.minimum(counts, len(self.intercepts)) - 1, None]
        mean = self.center + self.scale * after(self.mean)
        return mean, self.scale * spread_of(after(self.spread) + shift)

    def first(self, mean: int, spread: int) -> "BoostedNormal":
        """Return the model of fewer rounds for the mean and for the spread."""
        return replace(
            self,
            mean=self.mean.part(slice(mean)),
            spread=self.spread.part(slice(spread)),
            intercepts=self.intercepts[[min(spread, len(self.intercepts)) - 1]],
        )


def grow(
    x: Array,
    y: Array,
    weights: Array | None = None,
    *,
    rounds: int,
    spread_rounds: int,
    leaves: int,
    learning_rate: float,
    strength: float = 0.0,
    seed: int,
) -> BoostedNormal:
    """Boost the mean and the spread of targets ``(n,)`` by features ``(n, d)``.

    ``rounds`` and ``spread_rounds``, at most as many, count the trees of each, with 64
    leaves or fewer. ``strength`` is that of the cumulative KL of all PIT values.
    ImportError or OSError: LightGBM, or the system's OpenMP library, is missing.
    """
    import lightgbm

    center, scale = float(np.average(y, weights=weights)), float(y.std()) or 1.0
    settings: dict[str, Any] = {
        "objective": "none",
        "num_class": 2,
        "learning_rate": learning_rate,
        "num_leaves": leaves,
        "min_data_in_leaf": 3,
        "lambda_l2": 1.0,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "feature_fraction": 0.8,
        "boost_from_average": False,
        "seed": seed,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbose": -1,
    }
    target = (y - center) / scale
    data = lightgbm.Dataset(x, target, params=dict(settings)).construct()
    if not any(data.feature_num_bin(feature) for feature in range(x.shape[1])):
        # No feature tells rows apart, and LightGBM would give up.
        alone = Forest.constant(leaves)
        spread = math.sqrt(np.average(np.square(target), weights=weights))
        logarithm = np.array([math.log(max(spread, _LEAST_SPREAD))])
        return BoostedNormal(alone, alone, logarithm, center, scale)
    objective = _Objective(weights, strength, spread_rounds)
    # A plain function: LightGBM copies whatever else it is given.
    settings["objective"] = lambda raw, data: objective(raw, data)
    # Otherwise LightGBM writes the model as text and reads it again.
    booster = lightgbm.train(
        settings, data, num_boost_round=rounds, keep_training_booster=True
    )
    means, spreads = _of_text(booster.model_to_string(), 2, leaves)
    return BoostedNormal(
        mean=means,
        spread=spreads.part(slice(spread_rounds)),
        intercepts=np.array(objective.intercepts[:spread_rounds]),
        center=center,
        scale=scale,
    )
