"""Families of members, and the one distribution that is made of them all."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant._checks import InputError
from calibrant._progress import Bar
from calibrant.contracts import TargetTransform
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.derived import Transformed, Truncated
from calibrant.distributions.normal import Gaussian
from calibrant.estimators.any_regressor import member_fit
from calibrant.estimators.base import Table
from calibrant.estimators.folds import Design
from calibrant.estimators.networks import Networks
from calibrant.estimators.pool import (
    Pool,
    blended_normal,
    pool_members,
    stacked_normal,
    usual_disagreement,
    weigh,
)
from calibrant.learners.boosting import (
    MOST_LEAVES,
    BoostedNormal,
    Forest,
    grow,
    spread_of,
)

__all__ = ["Blend", "BoostedTrees", "Clones", "Family", "fit_clones", "fit_trees"]

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

# Trees of the mean and of the spread at most, what each counts for, and the rows that
# one leaf of a large tree stands for.
_ROUNDS, _SPREAD_ROUNDS, _LEARNING_RATE, _ROWS_OF_LEAF = 400, 120, 0.1, 200
_FEWEST_LEAVES = 31
# Numbers of rounds that are looked at, and by how much more the members that are grown
# later may have than is best for the first ones.
_CUTS, _ALLOWANCE = 16, 1.25
# Factors of the spread that are tried beside the robust one.
_FACTORS = np.array([0.8, 0.9, 1.0, 1.1])


@dataclass(eq=False)
class BoostedTrees:
    """Members that are boosted trees."""

    forest: Forest  # trees of the mean and of the spread of the first member, and so on
    starts: Labels  # first tree of each of these, (2 * members,)
    intercept: Array  # of the logarithm of the spread, (members,)
    center: Array  # of the targets, (members,)
    scale: Array
    disagreement: float | None = None  # see ``usual_disagreement``

    @classmethod
    def of(cls, members: Sequence[BoostedNormal]) -> "BoostedTrees":
        """Join members, each with all of its trees."""
        forests = [part for member in members for part in (member.mean, member.spread)]
        sizes = [len(forest) for forest in forests]
        return cls(
            forest=Forest.joined(forests),
            starts=np.cumsum([0, *sizes[:-1]]),
            intercept=np.array([member.intercepts[-1] for member in members]),
            center=np.array([member.center for member in members]),
            scale=np.array([member.scale for member in members]),
        )

    def __len__(self) -> int:
        return len(self.center)

    def predict(self, x: Array) -> list[AbstractDistribution]:
        """Distributions of the target, one of batch shape ``(members, n)``."""
        sums = self.forest.sums(x, self.starts)
        mean = self.center + self.scale * sums[:, ::2]
        spread = self.scale * spread_of(sums[:, 1::2] + self.intercept)
        return [Gaussian(torch.from_numpy(mean.T), torch.from_numpy(spread.T))]


@dataclass(eq=False)
class Clones:
    """Members that are clones of somebody's regressor; they cannot be saved."""

    name: str
    members: Sequence[Callable[[Array], AbstractDistribution]]
    disagreement: float | None = None  # see ``usual_disagreement``

    def __len__(self) -> int:
        return len(self.members)

    def predict(self, x: Array) -> list[AbstractDistribution]:
        """Distributions of the target, one of batch shape ``(members, n)``."""
        predicted = [member(x) for member in self.members]
        normal = stacked_normal(predicted)
        if normal is None:
            raise InputError(
                f"learners must predict normal distributions to be blended, and "
                f"{self.name} predicts {type(predicted[0]).__name__}. Use recalibrate."
            )
        return [normal]


def fit_clones(regressor: Any, table: Table, design: Design) -> Clones:  # noqa: ANN401
    """Train a clone of a regressor for each member of a design.

    What it predicts beside a mean is that of ``recalibrate``: its own deviation, or the
    size of its residuals.
    """
    fit_member = member_fit(regressor)
    members = [fit_member(table.part(rows)) for rows in design.rows]
    return Clones(type(regressor).__name__, members)


Family = Networks | BoostedTrees | Clones


def fit_trees(
    x: Array,
    y: Array,
    weights: Array | None,
    design: Design,
    *,
    strength: float,
    seed: int,
    rival: Gaussian | None = None,
    progress: bool | None = False,
) -> BoostedTrees | None:
    """Grow the trees of all members of a design; None if they cannot help a rival.

    All members get the numbers of rounds, one for the mean and one for the spread, with
    the best CRPS of the pools of unseen members, whose spread is scaled first: a map
    corrects the size of a spread, and only its shape can be learned for too long.

    Parameters
    ----------
    x, y, weights
        Features ``(n, d)``, targets ``(n,)``, and weights of the rows, if any.
    design
        Who learns from which rows.
    strength
        Of the regularizer.
    seed
        Of the rows and features that each tree is shown.
    rival
        Out-of-fold distribution of the calibration rows by another family, which a
        blend with these trees must improve on: the first partition tells.
    progress
        Show a progress bar; None shows one on a terminal only.
    """
    rows = design.rows
    if weights is not None and not all(weights[own].any() for own in rows):
        raise InputError(
            "weights must be above 0 for at least one row of each member: one has "
            "nothing to learn from."
        )
    leaves = max(map(len, rows)) // _ROWS_OF_LEAF
    leaves = min(MOST_LEAVES, max(_FEWEST_LEAVES, leaves))
    calibration = design.calibration
    y_own, w_own = y[calibration], _counted(weights, calibration)
    pools = len(rows) if design.unseen is None else len(design.unseen)
    counts = _cuts(_ROUNDS)
    means = np.empty((len(counts), pools, len(y_own)))
    spreads = np.empty_like(means)
    grown: list[BoostedNormal] = []
    rounds, spread_rounds = _ROUNDS, _SPREAD_ROUNDS
    # Members of the first partition tell how many rounds the others may need.
    first = 1 if design.unseen is None else int(design.unseen[0].max()) + 1
    with Bar("trees", ("count", "left"), total=len(rows), shown=progress) as bar:
        for number, own in enumerate(rows):
            member = grow(
                x[own],
                y[own],
                None if weights is None else weights[own],
                rounds=rounds,
                spread_rounds=spread_rounds,
                leaves=leaves,
                learning_rate=_LEARNING_RATE,
                strength=strength,
                seed=(seed + number) % 2**31,
            )
            grown.append(member)
            place, new = number, np.arange(len(y_own))
            if design.unseen is not None:
                place = int(np.nonzero(design.unseen == number)[0][0])
                new = np.flatnonzero(design.unseen[place] == number)
            found = member.rounds(x[calibration[new]], counts)
            means[:, place, new], spreads[:, place, new] = found
            if number + 1 == first and first < len(rows):
                best = _best(means[:, :1], spreads[:, :1], y_own, w_own)
                own_pool = Gaussian(means[best[0], 0], spreads[best[1], 0])
                if rival is not None and not _helps(own_pool, rival, y_own, w_own):
                    return None
                most = [math.ceil(_ALLOWANCE * counts[cut]) for cut in best]
                rounds = min(rounds, max(most))
                spread_rounds = min(spread_rounds, most[1])
                kept = counts <= rounds
                counts, means, spreads = counts[kept], means[kept], spreads[kept]
            bar.show(completed=number + 1)
    mean, spread = (int(counts[cut]) for cut in _best(means, spreads, y_own, w_own))
    return BoostedTrees.of([member.first(mean, spread) for member in grown])


def _helps(trees: Gaussian, rival: Gaussian, y: Array, weights: Array | None) -> bool:
    """Whether a blend with the trees is better at all than their rival alone."""
    counted = None if weights is None else torch.from_numpy(weights)
    shares, _ = weigh([rival, trees], torch.from_numpy(y), counted, least_gain=0.0)
    return shares[1] > 0


def _counted(weights: Array | None, rows: Labels) -> Array | None:
    """Weights of some rows in a score; None, all alike, if there are none above 0."""
    found = None if weights is None else weights[rows]
    return found if found is not None and found.any() else None


def _cuts(rounds: int) -> Labels:
    """Return the numbers of rounds that are looked at, ascending."""
    return np.unique(np.geomspace(10, rounds, _CUTS).round().astype(np.int64))


def _best(
    means: Array, spreads: Array, y: Array, weights: Array | None
) -> tuple[int, int]:
    """Places of the best rounds of mean and spread, of arrays ``(cuts, pool, n)``."""
    target = torch.from_numpy(y)
    best, chosen = math.inf, (0, 0)
    spread = np.sqrt(np.square(spreads).mean(1))
    for i, mean in enumerate(means.mean(1)):
        for j in range(len(spread)):
            squares = np.square((y - mean) / spread[j])
            # Of most rows: a few wild ones must not decide how wide the others are.
            usual = np.sqrt(np.minimum(squares, np.quantile(squares, 0.98)).mean())
            for factor in _FACTORS * max(usual, 1e-9):
                normal = Gaussian(
                    torch.from_numpy(mean), torch.from_numpy(factor * spread[j])
                )
                score = np.average(normal.crps(target).numpy(), weights=weights)
                if score < best:
                    best, chosen = score, (i, j)
    return chosen


@dataclass(eq=False)
class Blend:
    """Families of members, pooled one by one and then blended.

    Pools of several families are normal, and so is what they are blended to.
    """

    families: tuple[Family, ...]
    distribution_name: str  # what is made of the members of a family
    transform: TargetTransform | None  # of the targets
    bounds: tuple[float, float] | None  # where the distribution is cut
    shares: tuple[float, ...] = (1.0,)
    factors: tuple[float, ...] = (1.0,)  # of their spreads, to make them comparable

    @property
    def networks(self) -> Networks | None:
        """The networks, if there are any."""
        found = [own for own in self.families if isinstance(own, Networks)]
        return found[0] if found else None

    @property
    def trees(self) -> BoostedTrees | None:
        """The boosted trees, if there are any."""
        found = [own for own in self.families if isinstance(own, BoostedTrees)]
        return found[0] if found else None

    @property
    def clones(self) -> list[Clones]:
        """The families that are clones of somebody's regressors."""
        return [own for own in self.families if isinstance(own, Clones)]

    def distribution(self, x: Array) -> AbstractDistribution:
        """Distribution of the target for features ``(n, d)``."""
        return self.combine(self.predict(x))

    def predict(self, x: Array) -> list[list[AbstractDistribution]]:
        """Distributions of the transformed target by each family's members."""
        return [family.predict(x) for family in self.families]

    def combine(
        self,
        predicted: Sequence[Sequence[AbstractDistribution]],
        weights: Sequence[Array | None] | None = None,
    ) -> AbstractDistribution:
        """Pool and blend what :meth:`predict` gave, and undo the transform."""
        pools = self.pools(predicted, weights)
        blended = pools[0]
        if len(pools) > 1:
            blended = blended_normal(pools, self.shares, self.factors)
        if self.transform is not None:
            blended = Transformed(blended, self.transform)
        return blended if self.bounds is None else Truncated(blended, *self.bounds)

    def pools(
        self,
        predicted: Sequence[Sequence[AbstractDistribution]],
        weights: Sequence[Array | None] | None = None,
    ) -> list[Any]:
        """Pool the members of each family, batch shape ``(n,)``."""
        own = weights or [None] * len(predicted)
        return [
            pool_members(
                members,
                shares,
                distribution=self.distribution_name,
                usual=family.disagreement,
            )
            for members, shares, family in zip(
                predicted, own, self.families, strict=True
            )
        ]

    def pool(
        self, table: Table, designs: Sequence[Design], *, targets: Array | None = None
    ) -> Pool:
        """Ask all members about the calibration rows, and weigh the families.

        A family disagrees as its unseen members do. Several families get the shares
        with the best CRPS of transformed targets ``(n,)``, and only those that help are
        kept.
        """
        rows = designs[0].calibration
        predicted = self.predict(table.x[rows]) if len(rows) else [[] for _ in designs]
        for family, members, design in zip(
            self.families, predicted, designs, strict=True
        ):
            normal = stacked_normal(members) if members else None
            if normal is None or design.unseen is None or len(normal) != len(family):
                continue
            family.disagreement = usual_disagreement(normal, design.unseen)
        kept = list(range(len(self.families)))
        if len(kept) > 1 and targets is not None:
            everyone = tuple(range(designs[0].pool_size))
            pools = self.pools(predicted, [own.weights(everyone) for own in designs])
            counted = _counted(table.weights, rows)
            shares, factors = weigh(
                pools,
                torch.from_numpy(targets[rows]),
                None if counted is None else torch.from_numpy(counted),
            )
            kept = [place for place in kept if shares[place] > 0]
            self.families = tuple(self.families[place] for place in kept)
            self.shares = tuple(shares[place] for place in kept)
            self.factors = tuple(factors[place] for place in kept)
        return Pool(
            [predicted[place] for place in kept] if len(rows) else [],
            self.combine,
            tuple(designs[place] for place in kept),
            torch.from_numpy(table.y[rows]),
            table.grid,
            self.shares,
        )
