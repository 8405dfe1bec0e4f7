"""Families of members, pooled and blended, and the one map that unseen rows teach.

A member is anything that says a distribution of each row: a network, boosted trees, or
a clone of any regressor.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._progress import Bar
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import pool as mixture_of
from calibrant.distributions.derived import Transformed, Truncated
from calibrant.distributions.mixture import Mixture
from calibrant.distributions.normal import (
    Gaussian,
    log_normal_cdf,
    normal_cdf,
    normal_score,
)
from calibrant.estimators.base import Table
from calibrant.estimators.folds import Design, Labels
from calibrant.learners.boosting import (
    MOST_LEAVES,
    BoostedNormal,
    Forest,
    grow,
    spread_of,
)
from calibrant.metrics.pit import TargetGrid, recorded_pit
from calibrant.protocols import PitValues, Recalibrator, TargetTransform
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.base import MapRecalibrator, pit_of_rows, widened
from calibrant.validation import InputError, find_part

__all__ = [
    "FEWEST_POOLED",
    "Blend",
    "BoostedTrees",
    "Clones",
    "Family",
    "Pool",
    "blended_normal",
    "cross_fitted",
    "fit_clones",
    "fit_map",
    "fit_recorded",
    "fit_trees",
    "fresh_recalibrator",
    "pool_members",
    "pooled_normal",
    "pooled_variance",
    "served_pit",
    "stacked_normal",
    "usual_disagreement",
    "weigh",
]

if TYPE_CHECKING:
    from calibrant.estimators.networks import Networks

Array = npt.NDArray[np.float64]
Family: TypeAlias = "Networks | BoostedTrees | Clones"

# Pools of a size that are looked at; the others say hardly more.
_MOST_POOLS = 12
# Of the disagreement in the pooled variance: its weight, the members that its prior
# counts for, and the fewest that know of it.
_DISAGREEMENT, _PRIOR, FEWEST_POOLED = 3.0, 8.0, 4
# A disagreement below this share of the members' own variance is rounding.
_LEAST_RATIO = 1e-9
# Shares of another family that are tried, by how much it must improve on those before,
# and factors of a spread beside that of its mean residual.
_SHARES, _LEAST_GAIN = (0.25, 0.5, 0.75), 0.01
_FACTORS = np.geomspace(0.5, 1.5, 17)
# Beyond this float64 has no tail probability.
_FARTHEST_SCORE = 37.0
# Trees of the mean and of the spread at most, what each counts for, and the rows that
# one leaf of a large tree stands for.
_ROUNDS, _SPREAD_ROUNDS, _LEARNING_RATE, _ROWS_OF_LEAF = 400, 120, 0.1, 200
_FEWEST_LEAVES = 31
# Numbers of rounds that are looked at, and by how much more the members that are grown
# later may have than is best for the first ones.
_CUTS, _ALLOWANCE = 16, 1.25
# Factors of the spread that are tried beside the robust one.
_TREE_FACTORS = np.array([0.8, 0.9, 1.0, 1.1])


@dataclass(frozen=True)
class Pool:
    """Out-of-fold distributions of the calibration rows, pooled from members."""

    members: Sequence[Any]  # distributions of the rows; empty without such rows
    combine: Callable[..., AbstractDistribution]  # of members and weights by family
    designs: tuple[Design, ...]  # who has seen which rows, in each family
    y: Tensor  # targets of the rows, (n,)
    grid: TargetGrid | None = None  # what they are rounded to
    shares: tuple[float, ...] = (1.0,)  # of the families

    @property
    def inverse_size(self) -> float:
        """One over the members that are served.

        A family adds its share squared times the variance between its members over
        their number to the variance of the mean.
        """
        squares = [share**2 for share in self.shares]
        parts = zip(squares, self.designs, strict=True)
        return sum(part / len(own.rows) for part, own in parts) / sum(squares)

    def distribution(
        self, chosen: tuple[int, ...] | None = None
    ) -> AbstractDistribution:
        """Distribution of each row by its unseen members, or some of them."""
        if chosen is None:
            chosen = tuple(range(self.designs[0].pool_size))
        return self.combine(self.members, [own.weights(chosen) for own in self.designs])

    def pit(self, seed: int) -> Tensor:
        """PIT values of :meth:`distribution`, randomized for rounded targets."""
        generator = torch.Generator().manual_seed(seed)
        return recorded_pit(self.distribution(), self.y, self.grid, generator=generator)

    def scores(self, chosen: tuple[int, ...], seed: int, spread: float) -> Tensor:
        """Normal scores of the PIT values of widened pools, ascending."""
        predictive = widened(self.distribution(chosen), spread)
        if self.grid is None:
            cdf, survival, *_ = pit_of_rows(predictive, self.y)
        else:
            generator = torch.Generator().manual_seed(seed)
            cdf = recorded_pit(predictive, self.y, self.grid, generator=generator)
            survival = 1 - cdf
        scores = normal_score(cdf.double(), survival.double())
        return scores.clamp(-_FARTHEST_SCORE, _FARTHEST_SCORE).sort().values


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
        other = next((own for own in predicted if not isinstance(own, Gaussian)), None)
        if other is not None:
            raise InputError(
                "learners must predict normal distributions to be blended, and "
                f"{self.name} predicts {type(other).__name__}. Use recalibrate."
            )
        moments: Any = [(own.mean.double(), own.stddev.double()) for own in predicted]
        means, spreads = map(torch.stack, zip(*moments, strict=True))
        if means.shape[1:] != (len(x),) or not bool(means.isfinite().all()):
            raise InputError(
                f"learners must predict a finite mean for each of {len(x):,} rows, and "
                f"{self.name} does not. Leave it out, or look at its predictions."
            )
        return [Gaussian(means, spreads)]


def fit_clones(regressor: Any, table: Table, design: Design) -> Clones:  # noqa: ANN401
    """Train clones of a regressor, which predict as in ``recalibrate``."""
    from calibrant.estimators.any_regressor import member_fit  # it pools, too

    fit_member = member_fit(regressor)
    members = [fit_member(table.part(rows)) for rows in design.rows]
    return Clones(type(regressor).__name__, members)


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
    corrects the size of a spread, and only its shape can be learned for too long. A
    rival is the out-of-fold distribution of the calibration rows by another family,
    which a blend with the first partition's trees must improve on.
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
            for factor in _TREE_FACTORS * max(usual, 1e-9):
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

    families: "tuple[Family, ...]"
    distribution_name: str  # what is made of the members of a family
    transform: TargetTransform | None  # of the targets
    bounds: tuple[float, float] | None  # where the distribution is cut
    shares: tuple[float, ...] = (1.0,)
    factors: tuple[float, ...] = (1.0,)  # of their spreads, to make them comparable

    @property
    def trees(self) -> BoostedTrees | None:
        """The boosted trees, if there are any."""
        found = [own for own in self.families if isinstance(own, BoostedTrees)]
        return found[0] if found else None

    @property
    def clones(self) -> list[Clones]:
        """The families that are clones of somebody's regressors."""
        return [own for own in self.families if isinstance(own, Clones)]

    @property
    def networks(self) -> "Networks | None":
        """The networks, if there are any."""
        others = (BoostedTrees, Clones)
        found = [own for own in self.families if not isinstance(own, others)]
        return found[0] if found else None

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


def usual_disagreement(members: Gaussian, unseen: Labels) -> float | None:
    r"""Geometric mean over rows of the variance between unseen members over their own.

    The mean of the logarithm of a chi-square variable is taken off, as in Smyth 2004: a
    few members show less than their geometric mean would be if there were many. None
    for fewer than four. Members have batch shape ``(members, n)``; ``unseen`` are those
    that have not seen a row, ``(pool, n)``.
    """
    if len(unseen) < FEWEST_POOLED:
        return None
    rows = np.arange(unseen.shape[1])
    between = members.mean[unseen, rows].double().var(0)
    ratio = between / members.variance[unseen, rows].double().mean(0)
    half = torch.tensor((len(unseen) - 1) / 2, dtype=torch.float64)
    # Members that agree to the last digit, as linear models may, count as little.
    few = ratio.clamp_min(_LEAST_RATIO).log().mean() - half.digamma() + half.log()
    return float(few.exp())


def pooled_normal(
    members: Gaussian, weights: Tensor | None = None, *, usual: float | None
) -> Gaussian:
    r"""Pool normal distributions over their first axis into one normal distribution.

    .. math::
        m = \frac1k \sum_i \mu_i, \qquad
        s^2 = w + 3 \, \frac{8 \rho w + (k - 1) b}{8 + k - 1}, \qquad
        w = \frac1k \sum_i \sigma_i^2, \qquad
        b = \frac1{k - 1} \sum_i (\mu_i - m)^2 .

    With the weight 1 and no prior it has the moments of the mixture. What members
    disagree about is harder than they say, so their disagreement b counts three times.
    A few members know it badly: it is moderated by the usual one, rho times w, as if 8
    more members had been asked (an empirical Bayes estimate of a variance, Smyth 2004).
    Both numbers are the best of a grid on inner splits of four tables and on simulated
    ones. Members and weights have shape ``(members, n)``; weights of a row are equal or
    0 and sum to 1. ``usual`` is rho; None for w alone.
    """
    means, variances = members.mean, members.variance
    if weights is None:
        mean, within = means.mean(0), variances.mean(0)
        between = (means - mean).square().sum(0)
        count: Tensor | float = len(means)
    else:
        mean, within = (weights * means).sum(0), (weights * variances).sum(0)
        count = 1 / weights.square().sum(0)
        between = count * (weights * (means - mean).square()).sum(0)
    return Gaussian(mean, pooled_variance(within, between, count, usual).sqrt())


def pooled_variance(
    within: Tensor, between: Tensor, count: Tensor | float, usual: float | None
) -> Tensor:
    """Variance of :func:`pooled_normal`, from the sum ``between`` of squares."""
    if usual is None:
        return within
    moderated = (_PRIOR * usual * within + between) / (_PRIOR + count - 1)
    return within + _DISAGREEMENT * moderated


def blended_normal(
    pools: Sequence[Gaussian], shares: Sequence[float], factors: Sequence[float]
) -> Gaussian:
    r"""Blend normal distributions ``(n,)`` of families into one normal distribution.

    .. math::
        m = \sum_f a_f m_f, \qquad
        s^2 = \sum_f a_f \bigl(c_f^2 s_f^2 + (m_f - m)^2\bigr) .
    """
    a, c = (torch.tensor(values)[:, None].double() for values in (shares, factors))
    means = torch.stack([pool.mean for pool in pools])
    variances = torch.stack([pool.variance for pool in pools])
    mean = (a * means).sum(0)
    variance = (a * (c.square() * variances + (means - mean).square())).sum(0)
    return Gaussian(mean, variance.sqrt())


def weigh(
    pools: Sequence[Gaussian],
    y: Tensor,
    weights: Tensor | None = None,
    *,
    least_gain: float = _LEAST_GAIN,
) -> tuple[list[float], list[float]]:
    """Choose the shares of families, and the factors of their spreads.

    By the CRPS of unseen rows ``(n,)``, after spreads were multiplied by their best
    factors, as a map will do. The best family is blended with the next best, if that
    improves on what there is by ``least_gain``, and so on. A family that is left alone
    has the share 1, and its spread stays as it is.
    """
    share = torch.ones_like(y) if weights is None else weights
    share = share / share.sum()

    def best(pool: Gaussian) -> tuple[float, float]:
        """Best score and its factor of the spread."""
        usual = float((share * (y - pool.mean).abs() / pool.stddev).sum())
        factors = (max(usual, 1e-9) * math.sqrt(math.pi / 2) * _FACTORS).tolist()
        scaled = (Gaussian(pool.mean, c * pool.stddev) for c in factors)
        scores = [float((share * normal.crps(y)).sum()) for normal in scaled]
        return min(zip(scores, factors, strict=True))

    alone = [best(pool) for pool in pools]
    factors = [factor for _, factor in alone]
    winner, *others = sorted(range(len(pools)), key=lambda place: alone[place])
    shares = [float(place == winner) for place in range(len(pools))]
    least = alone[winner][0]
    for place in others:
        tried = []
        for part in _SHARES:
            mixed = [(1 - part) * own for own in shares]
            mixed[place] = part
            tried.append((best(blended_normal(pools, mixed, factors))[0], mixed))
        score, mixed = min(tried)
        if score < (1 - least_gain) * least:
            least, shares = score, mixed
    return shares, factors if max(shares) < 1 else [1.0] * len(pools)


def stacked_normal(members: Sequence[AbstractDistribution]) -> Gaussian | None:
    """Normal distributions of members as one, ``(members, n)``; None if others are."""
    if not all(isinstance(member, Gaussian) for member in members):
        return None
    if len(members) == 1 and isinstance(members[0], Gaussian):
        return members[0] if len(members[0].batch_shape) == 2 else None
    means = torch.stack([member.mean.double() for member in members])
    return Gaussian(means, torch.stack([member.stddev.double() for member in members]))


def pool_members(
    members: Sequence[AbstractDistribution],
    weights: Array | None = None,
    *,
    distribution: str = "pooled",
    usual: float | None = None,
) -> AbstractDistribution:
    """Make one distribution ``(n,)`` of what members predict.

    ``members`` are one distribution ``(n,)`` for each, or a single one with the members
    (and their passes) on its first axis; weights have shape ``(members, n)``. ``usual``
    is the disagreement of :func:`pooled_normal`.
    """
    shares = None if weights is None else torch.from_numpy(weights)
    normal = stacked_normal(members) if distribution == "pooled" else None
    first = members[0] if normal is None else normal
    if shares is not None and len(first.batch_shape) == 2:
        passes = len(first) // len(shares)
        shares = shares.repeat_interleave(passes, 0) / passes
    if normal is not None:
        return pooled_normal(normal, shares, usual=usual)
    if len(members) > 1:
        pooled: AbstractDistribution = Mixture(members, shares)
    else:
        pooled = first if len(first.batch_shape) == 1 else mixture_of(first, shares)
    if distribution == "moment_matched":
        return Gaussian(pooled.mean, pooled.stddev)
    return pooled


def served_pit(pool: Pool, *, seed: int, spread: float = 1.0) -> PitValues:
    r"""PIT values as the pool of all members would show, had it not seen the rows.

    A row has R members that have not seen it, and M are served. With T the variance
    between members, the residual of a pool of s has a variance of :math:`e^2 + T / s`.
    So the ordered normal scores of the rows, averaged over pools of s out of R, are
    about linear in 1/s; the line through the sizes 2 to R (1 and 2 for pools of two) is
    continued to M. Pools are widened by ``spread`` first.
    """
    count = pool.designs[0].pool_size
    sizes = range(min(2, count - 1) or 1, count + 1)
    averages = []
    for size in sizes:
        if math.comb(count, size) <= _MOST_POOLS:
            pools = list(combinations(range(count), size))
        else:
            random = np.random.default_rng(0)
            pools = [
                tuple(random.permutation(count)[:size].tolist())
                for _ in range(_MOST_POOLS)
            ]
        scores = [pool.scores(chosen, seed, spread) for chosen in pools]
        averages.append(torch.stack(scores).mean(0))
    found = averages[-1]
    if len(averages) > 1:
        inverse = torch.tensor([1 / size for size in sizes], dtype=torch.float64)
        offset = inverse - inverse.mean()
        lines = torch.stack(averages)
        slope = (offset[:, None] * lines).sum(0) / offset.square().sum()
        found = lines.mean(0) + slope * (pool.inverse_size - float(inverse.mean()))
        found = found.clamp(-_FARTHEST_SCORE, _FARTHEST_SCORE).sort().values
    both = (found, -found)
    return PitValues(*map(normal_cdf, both), *map(log_normal_cdf, both))


def fit_map(
    pool: Pool,
    recalibrator: str | Recalibrator | Callable[[], Recalibrator] | None,
    *,
    seed: int,
) -> Recalibrator | None:
    """Fit the recalibrator of the pool, a map from its :func:`served_pit`."""
    if recalibrator is None or not pool.members:
        return None
    generator = torch.Generator().manual_seed(seed)
    fresh = fresh_recalibrator(recalibrator)
    fitted: Recalibrator = fit_recorded(
        fresh, pool.distribution(), pool.y, pool.grid, generator
    )
    if pool.designs[0].unseen is None or not isinstance(fitted, MapRecalibrator):
        return fitted
    pit = served_pit(pool, seed=seed, spread=fitted.spread)
    return fitted.fit_pit(pit, spread=fitted.spread)


def fit_recorded(
    recalibrator: Any,  # noqa: ANN401  (a Recalibrator)
    distribution: AbstractDistribution,
    y: Tensor,
    grid: TargetGrid | None,
    generator: torch.Generator,
) -> Any:  # noqa: ANN401
    """Fit a recalibrator on held-out rows ``(n,)``, whose targets may be rounded."""
    if grid is None or not isinstance(recalibrator, MapRecalibrator):
        return recalibrator.fit(distribution, y)
    # The map of plain PIT values would learn the steps of the rounding.
    pit = partial(recorded_pit, target=y, grid=grid, generator=generator)
    return recalibrator.fit(distribution, y, pit=pit)


def fresh_recalibrator(recalibrator: Any) -> Any:  # noqa: ANN401
    """Make an unfitted recalibrator."""
    if isinstance(recalibrator, str):
        recalibrator = find_part(recalibrator, RECALIBRATORS, name="recalibrator")
    fresh = recalibrator() if isinstance(recalibrator, type) else recalibrator
    intervals: Any = RECALIBRATORS["conformal_interval"]
    if isinstance(fresh, intervals):
        raise InputError(
            "recalibrator must give whole distributions, and conformal_interval gives "
            'intervals. Use "empirical", which has the same guarantee, or '
            "ConformalInterval on predict_distribution()."
        )
    return copy.deepcopy(fresh)


def cross_fitted(
    distributions: Sequence[AbstractDistribution], fold_of_row: npt.NDArray[np.int64]
) -> AbstractDistribution:
    """Take each row from the distributions ``(n,)`` that belong to its fold."""
    own = np.arange(len(distributions))[:, None] == fold_of_row
    return Mixture(distributions, torch.from_numpy(own.astype(np.float64)))
