"""From rows to trained members and their recalibrators."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calibrant._checks import InputError, find_part
from calibrant.contracts import PitValues, Recalibrator
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.derived import Censored
from calibrant.distributions.normal import (
    Gaussian,
    log_normal_cdf,
    normal_cdf,
    normal_score,
)
from calibrant.estimators._design import Design
from calibrant.estimators._folds import Blocks, Labels
from calibrant.estimators._members import (
    FEWEST_POOLED,
    Architecture,
    Members,
    conditioned,
    usual_disagreement,
)
from calibrant.estimators._standardize import center_and_scale, feature_limits
from calibrant.metrics.pit import recorded_pit
from calibrant.metrics.target_grid import TargetGrid
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration._base import MapRecalibrator
from calibrant.recalibration._held_out import pit_of_rows
from calibrant.recalibration._scaled import widened
from calibrant.training import DivergedError, History, Recipe, TrainingData, train

__all__ = [
    "Fitted",
    "Table",
    "UnseenPool",
    "fit_map",
    "fit_members",
    "fit_recorded",
    "fresh_recalibrator",
    "served_pit",
    "unseen_pool",
]

Array = npt.NDArray[np.float64]
Pooling = Callable[[list[AbstractDistribution], Array | None], AbstractDistribution]

# Rows that a member is asked about at once, between epochs.
_CHUNK = 4096
# Pools of a size that are looked at; the others say hardly more.
_MOST_POOLS = 12
# Beyond this float64 has no tail probability.
_FARTHEST_SCORE = 37.0


@dataclass(frozen=True)
class Table:
    """The rows that a model is fitted on.

    Attributes
    ----------
    x, y
        Features ``(n, d)`` and targets ``(n,)``.
    blocks
        Which rows belong together.
    weights
        Of the rows in the score, mean 1, or None.
    grid
        What the targets are rounded or capped to, or None.
    bounds
        Least and largest possible target, or None.
    """

    x: Array
    y: Array
    blocks: Blocks
    weights: Array | None = None
    grid: TargetGrid | None = None
    bounds: tuple[float, float] | None = None

    def part(self, rows: Labels) -> "Table":
        """Return some of the rows."""
        return replace(
            self,
            x=self.x[rows],
            y=self.y[rows],
            blocks=self.blocks.part(rows),
            weights=None if self.weights is None else self.weights[rows],
        )

    @property
    def first_bounds(self) -> tuple[float, float] | None:
        """Where laws are cut before their recalibration: unless targets pile up there.

        A map has no finite density at a PIT value of 0 or 1.
        """
        return None if self._piled else self.bounds

    @property
    def last_bounds(self) -> tuple[float, float] | None:
        """Bounds on which targets pile up: the recalibrated law gets mass there."""
        return self.bounds if self._piled else None

    @property
    def _piled(self) -> bool:
        return self.bounds is not None and bool(np.isin(self.y, self.bounds).any())


@dataclass(frozen=True)
class Fitted:
    """A model: members, and the correction of their pooled distribution.

    Attributes
    ----------
    members
        The trained networks.
    recalibrator
        The correction, or None.
    bounds
        Where the recalibrated law has mass of its own, or None.
    """

    members: Members
    recalibrator: Recalibrator | None
    bounds: tuple[float, float] | None = None

    def law(self, x: Array) -> AbstractDistribution:
        """Law of each row ``(n, d)``, batch shape ``(n,)``."""
        law: Any = self.members.law(x)
        if self.recalibrator is not None:
            law = self.recalibrator.transform(law)
        return law if self.bounds is None else Censored(law, *self.bounds)


def fit_members(
    table: Table,
    design: Design,
    architecture: Architecture,
    recipe: Recipe,
    *,
    seed: int,
    validation_share: float,
    options: dict[str, Any],
) -> tuple[Members, list[History]]:
    """Train all members of a design.

    Parameters
    ----------
    table, design, architecture, recipe
        Rows, who sees which, what is trained, and how.
    seed
        Of initial weights, early stopping's rows, batch orders and dropout masks.
    validation_share
        Share of each member's rows that early stopping looks at, with a patience.
    options
        Device, callbacks and progress of the training; ``by`` is called instead of
        ``train``.
    """
    generator = torch.Generator().manual_seed(seed)
    random = np.random.default_rng(seed)
    count = len(design.rows)
    device, by = torch.device(options.pop("device")), options.pop("by", train)
    limits = feature_limits(table.x) if architecture.clip_features else None
    inputs = center_and_scale(table.x, limits=limits)
    x = conditioned(table.x, inputs, limits)
    networks = architecture.build(
        table.x.shape[1], count, generator, encoding=architecture.encoding(x)
    )
    networks = [network.to(device) for network in networks]
    transform, targets, standardized = _targets(table, design, architecture)
    members = Members(
        architecture,
        networks,
        inputs=inputs,
        limits=limits,
        targets=targets,
        transform=transform,
        bounds=table.first_bounds,
        disagreement=None if count < FEWEST_POOLED else 0.0,
    )
    _standardize_inputs(networks, x, design.rows)
    learned, held_out = list(design.rows), None
    if design.unseen is not None and architecture.stacked:
        options["judge"] = _PooledScore(
            x.to(device), standardized, members, design, table.weights
        )
    elif recipe.patience is not None:
        cuts = [table.blocks.split(r, validation_share, random) for r in design.rows]
        learned, held_out = [a for a, _ in cuts], [b for _, b in cuts]
    weights = None
    if table.weights is not None:
        weights = torch.from_numpy(table.weights.astype(np.float32))

    def data(chosen: slice) -> TrainingData:
        return TrainingData(
            x=x,
            y=standardized[chosen],
            rows=[torch.from_numpy(each) for each in learned[chosen]],
            held_out=None
            if held_out is None
            else [torch.from_numpy(each) for each in held_out[chosen]],
            weights=weights,
        )

    if architecture.stacked:
        parts = [(networks[0], data(slice(None)), generator)]
    else:
        # What one draws must not depend on how early another has stopped.
        parts = [
            (each, data(slice(i, i + 1)), _own_source(generator))
            for i, each in enumerate(networks)
        ]
    histories: list[History] = []
    for network, rows, source in parts:
        interrupted = any(history.interrupted for history in histories)
        if interrupted:
            # The others must predict too, but nobody waits for them: one epoch each.
            recipe = replace(recipe, epochs=1)
        histories.append(by(network, rows, recipe, generator=source, **options))
        histories[-1].interrupted |= interrupted
    if not architecture.stacked:
        # A law cannot be brought to the CPU, the module that makes it can.
        members.networks = [network.cpu() for network in networks]
    return members, histories


def _own_source(generator: torch.Generator) -> torch.Generator:
    seed = int(torch.randint(2**62, (), generator=generator))
    return torch.Generator().manual_seed(seed)


def _targets(
    table: Table, design: Design, architecture: Architecture
) -> tuple[Any, tuple[Array, Array], Tensor]:
    """Transform the targets, and standardize them as each member's own rows say."""
    transform, z = architecture.fitted_transform(table.y), table.y
    if transform is not None:
        z = transform.forward(torch.from_numpy(table.y)).numpy()
    made: dict[int, tuple[float, float]] = {}
    for rows in design.rows:
        if id(rows) not in made:
            center, scale = center_and_scale(z[:, None], rows)
            made[id(rows)] = float(center[0]), float(scale[0])
    centers, scales = np.array([made[id(rows)] for rows in design.rows]).T
    # Rows that a member does not see may lie farther from its own than float32 reaches.
    most = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        standardized = [
            np.clip((z - center) / scale, -most, most).astype(np.float32)
            for center, scale in zip(centers, scales, strict=True)
        ]
    return transform, (centers, scales), torch.from_numpy(np.stack(standardized))


class _PooledScore:
    """CRPS of each row's pool of unseen members, for the choice of the epoch.

    The pool is taken as normal, with the moments of the mixture. Spreads overfit long
    before means do, and the map corrects spreads: the CRPS, unlike the likelihood, lets
    the means go on learning.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        members: Members,
        design: Design,
        weights: Array | None = None,
    ) -> None:
        unseen: Any = design.unseen
        pool, n = unseen.shape
        # Rows of each member, padded to the longest, and the place of each of a row's
        # members among all of these.
        own = [np.nonzero(unseen == member) for member in range(len(design.rows))]
        longest = max(len(rows) for _, rows in own)
        rows = np.zeros((len(own), longest), dtype=np.int64)
        places = np.empty((pool, n), dtype=np.int64)
        for member, (partition, row) in enumerate(own):
            rows[member, : len(row)] = row
            places[partition, row] = member * longest + np.arange(len(row))
        self._x, self._rows = x, torch.from_numpy(rows).to(x.device)
        self._places = torch.from_numpy(places)
        self._center, self._scale = members.target_center, members.target_scale
        self._y = y[0].double() * self._scale[0] + self._center[0]
        self._weights = torch.from_numpy(np.ones(n) if weights is None else weights)

    def __call__(self, network: Any) -> float:  # noqa: ANN401
        """Weighted mean over all rows."""
        parts = []
        for rows in self._rows.split(_CHUNK, dim=1):
            law = network(self._x[rows.reshape(-1)].view(*rows.shape, -1))
            parts.append(torch.stack([law.mean, law.variance]).double().cpu())
        mean, variance = torch.cat(parts, -1)
        mean, variance = mean * self._scale + self._center, variance * self._scale**2
        mean, variance = (each.flatten()[self._places] for each in (mean, variance))
        center = mean.mean(0)
        spread = (variance.mean(0) + mean.var(0, correction=0)).sqrt()
        if bool(center.isnan().any() | spread.isnan().any()):
            raise DivergedError(
                "networks predict NaN after an epoch. Likely cause: the steps are too "
                "large. Lower learning_rate, or set gradient_clip."
            )
        scores = self._weights * Gaussian(center, spread).crps(self._y)
        return float(scores.sum() / self._weights.sum())


def _standardize_inputs(
    networks: Sequence[nn.Module], x: Tensor, rows: Sequence[Labels]
) -> None:
    """Let each member standardize by the rows that it may look at."""
    made: dict[int, tuple[Array, Array]] = {}
    for each in rows:
        if id(each) not in made:
            made[id(each)] = center_and_scale(x.numpy(), each)
    centers, scales = (
        torch.from_numpy(np.stack([made[id(each)][part] for each in rows]))
        for part in (0, 1)
    )
    share = len(rows) // len(networks)
    for network, center, scale in zip(
        networks, centers.split(share), scales.split(share), strict=True
    ):
        first: Any = getattr(network, "stack", network)
        first.standardize(center, scale)


@dataclass(frozen=True)
class UnseenPool:
    """Distributions of the calibration rows, pooled from members.

    Attributes
    ----------
    pooled
        Makes one distribution of what members predict and their weights.
    design
        Who has seen which rows.
    each
        What the members predict for the rows; empty without such rows.
    y, grid
        Targets of the rows, and what they are rounded to.
    """

    pooled: Pooling
    design: Design
    each: list[AbstractDistribution]
    y: Tensor
    grid: TargetGrid | None

    @property
    def size(self) -> int:
        """Members in the pool of a row."""
        unseen = self.design.unseen
        return len(self.design.rows) if unseen is None else len(unseen)

    def law(self, chosen: tuple[int, ...] | None = None) -> AbstractDistribution:
        """Distribution of each row by its unseen members, or some of them."""
        if chosen is None:
            chosen = tuple(range(self.size))
        return self.pooled(self.each, self.design.weights(chosen))

    def pit(self, seed: int) -> Tensor:
        """PIT values of :meth:`law`, randomized for rounded targets."""
        generator = torch.Generator().manual_seed(seed)
        return recorded_pit(self.law(), self.y, self.grid, generator=generator)

    def scores(self, chosen: tuple[int, ...], seed: int, spread: float) -> Tensor:
        """Normal scores of the PIT values of widened pools, ascending."""
        law = widened(self.law(chosen), spread)
        if self.grid is None:
            cdf, survival, *_ = pit_of_rows(law, self.y)
        else:
            generator = torch.Generator().manual_seed(seed)
            cdf = recorded_pit(law, self.y, self.grid, generator=generator)
            survival = 1 - cdf
        scores = normal_score(cdf.double(), survival.double())
        return scores.clamp(-_FARTHEST_SCORE, _FARTHEST_SCORE).sort().values


def unseen_pool(members: Members, design: Design, table: Table) -> UnseenPool:
    """Ask the members about the calibration rows, and note how they disagree."""
    rows = design.calibration
    each = members.each(table.x[rows]) if len(rows) else []
    if (
        design.unseen is not None
        and isinstance(each[0], Gaussian)
        and each[0].batch_shape == (len(design.rows), len(rows))
    ):
        members.disagreement = usual_disagreement(each[0], design.unseen)
    y = torch.from_numpy(table.y[rows])
    return UnseenPool(members.pooled, design, each, y, table.grid)


def fit_map(
    pool: UnseenPool,
    recalibrator: str | Recalibrator | Callable[[], Recalibrator] | None,
    *,
    seed: int,
) -> Recalibrator | None:
    """Fit the recalibrator of the pool of all members.

    A map learns from :func:`served_pit` where rows have pools of their own.
    """
    if recalibrator is None or not pool.each:
        return None
    generator = torch.Generator().manual_seed(seed)
    fresh = fresh_recalibrator(recalibrator)
    fitted: Recalibrator = fit_recorded(fresh, pool.law(), pool.y, pool.grid, generator)
    if pool.design.unseen is None or not isinstance(fitted, MapRecalibrator):
        return fitted
    pit = served_pit(pool, seed=seed, spread=fitted.spread)
    return fitted.fit_pit(pit, spread=fitted.spread)


def served_pit(pool: UnseenPool, *, seed: int, spread: float = 1.0) -> PitValues:
    r"""PIT values as the pool of all members would show, had it not seen the rows.

    A row has R members that have not seen it, and M are served. The mean of more
    members is more accurate: with T the variance between them, the residual of a pool
    of s has a variance of :math:`e^2 + T / s`. So the ordered normal scores of the
    rows, averaged over pools of s out of R, are about linear in 1/s; the line through
    the sizes 2 to R (1 and 2 for pools of two) is continued to M.

    Parameters
    ----------
    pool
        Of the calibration rows.
    seed
        Of randomized PIT values of rounded targets.
    spread
        Factor by which pools are widened first.
    """
    count, served = pool.size, len(pool.design.rows)
    sizes = range(min(2, count - 1) or 1, count + 1)
    averages = []
    for size in sizes:
        pools = list(combinations(range(count), size))
        if len(pools) > _MOST_POOLS:
            kept = np.random.default_rng(0).permutation(len(pools))[:_MOST_POOLS]
            pools = [pools[place] for place in kept]
        each = torch.stack([pool.scores(chosen, seed, spread) for chosen in pools])
        averages.append(each.mean(0))
    found = averages[-1]
    if len(averages) > 1:
        inverse = torch.tensor([1 / size for size in sizes], dtype=torch.float64)
        offset = inverse - inverse.mean()
        scores = torch.stack(averages)
        slope = (offset[:, None] * scores).sum(0) / offset.square().sum()
        found = scores.mean(0) + slope * (1 / served - float(inverse.mean()))
        found = found.clamp(-_FARTHEST_SCORE, _FARTHEST_SCORE).sort().values
    return PitValues(
        normal_cdf(found),
        normal_cdf(-found),
        log_normal_cdf(found),
        log_normal_cdf(-found),
    )


def fit_recorded(
    recalibrator: Any,  # noqa: ANN401  (a Recalibrator)
    law: AbstractDistribution,
    y: Tensor,
    grid: TargetGrid | None,
    generator: torch.Generator,
) -> Any:  # noqa: ANN401
    """Fit a recalibrator on held-out rows ``(n,)``, whose targets may be rounded."""
    if grid is None or not isinstance(recalibrator, MapRecalibrator):
        return recalibrator.fit(law, y)
    # The map of plain PIT values would learn the steps of the rounding.
    pit = partial(recorded_pit, target=y, grid=grid, generator=generator)
    return recalibrator.fit(law, y, pit=pit)


def fresh_recalibrator(recalibrator: Any) -> Any:  # noqa: ANN401
    """Make an unfitted recalibrator from a name, a class or an object."""
    if isinstance(recalibrator, type):
        return recalibrator()
    if isinstance(recalibrator, str):
        if recalibrator == "conformal_interval":
            raise InputError(
                'recalibrator="conformal_interval" gives intervals, and this model '
                'predicts whole laws. Use "empirical" (the same guarantee), or '
                "ConformalInterval on predict_distribution()."
            )
        return find_part(recalibrator, RECALIBRATORS, name="recalibrator")()
    return copy.deepcopy(recalibrator)
