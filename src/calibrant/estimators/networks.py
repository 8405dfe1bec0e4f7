"""Networks that learn side by side, each from rows of its own."""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution, rescaled
from calibrant.distributions.normal import Gaussian
from calibrant.estimators.base import Table, usual_range
from calibrant.estimators.folds import Design, Labels
from calibrant.estimators.pool import FEWEST_POOLED, pool_members
from calibrant.learners import HEADS, NETWORKS
from calibrant.learners.mlp import MLPStack, PiecewiseLinear, StandardizedInputs
from calibrant.protocols import Head, TargetTransform
from calibrant.training import DivergedError, History, Recipe, TrainingData, train
from calibrant.transforms import TRANSFORMS
from calibrant.validation import InputError, find_part

__all__ = [
    "Architecture",
    "Networks",
    "center_and_scale",
    "feature_limits",
    "fit_networks",
    "stack_outputs",
]

# Rows of a table that are looked at at once.
_BLOCK = 65_536
# Hidden numbers that are in memory at once in prediction.
_MOST_HIDDEN = 2**22
# Rows that a member is asked about at once, between epochs.
_CHUNK = 4096
# A new row may be this many standard deviations away; more would leave float32.
FARTHEST = 1e12
# Encoded numbers of a row, and rows whose quantiles are the edges of the bins.
_MOST_ENCODED, _MOST_SORTED = 1024, 100_000
# Of all members together; 8 GB, four times that with gradients and Adam's moments.
_MOST_WEIGHTS = 2**31

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]


def center_and_scale(
    values: npt.NDArray[np.floating[Any]],
    rows: Labels | None = None,
    limits: Pair | None = None,
) -> Pair:
    """Mean and standard deviation of each column, 1 for a column that is constant.

    Of values ``(n, d)``, or some of their rows, clipped to limits; in float64 and in
    blocks, without a second copy of the table.
    """
    count = len(values) if rows is None else len(rows)

    def blocks() -> Iterator[Array]:
        for start in range(0, count, _BLOCK):
            part = slice(start, start + _BLOCK)
            chosen = values[part] if rows is None else values[rows[part]]
            block = chosen.astype(np.float64, copy=False)
            yield block if limits is None else block.clip(*limits)

    largest = np.max([np.abs(block).max(0) for block in blocks()], axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of 1e200 are not finite
    center = sum((block / unit).sum(0) for block in blocks()) / count
    # Near 0; what rounding has left of it must not count as spread.
    rest = sum((block / unit - center).sum(0) for block in blocks()) / count
    squares = (np.square(block / unit - center - rest).sum(0) for block in blocks())
    scale = np.sqrt(sum(squares) / count)
    varies = scale > 8 * np.finfo(float).eps
    return center * unit, np.where(varies, scale * unit, 1.0)


def feature_limits(values: Array) -> Pair:
    """Least and largest value of each column ``(n, d)`` that a network is shown.

    They are the usual range of the column, and as much again on both sides: a wild
    cell must not decide the scale, nor a wild new row its prediction. Without wild
    cells no row that was learned from is touched.
    """
    low, high = values.min(0), values.max(0)
    # Most columns have no tail worth sorting them for.
    sample = values[:: max(1, len(values) // 10_000)]
    most = float(np.finfo(np.float64).max)
    with np.errstate(over="ignore", invalid="ignore"):
        inner = np.quantile(sample, [0.1, 0.9], axis=0)
        for column in np.flatnonzero(high - low > 8 * (inner[1] - inner[0])):
            low[column], high[column] = usual_range(values[:, column])
        width = high - low
        return (low - width).clip(-most, most), (high + width).clip(-most, most)


def _conditioned(x: Array, inputs: Pair, limits: Pair | None) -> Tensor:
    """Bring features ``(n, d)`` to order 1, float32."""
    center, scale = inputs
    ready = np.empty(x.shape, np.float32)
    with np.errstate(over="ignore"):
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            block = x[rows] if limits is None else x[rows].clip(*limits)
            # Halves, because the difference of two numbers of 1e308 is none.
            block = (block / 2 - center / 2) / (scale / 2)
            ready[rows] = block.clip(-FARTHEST, FARTHEST)
    return torch.from_numpy(ready)


@dataclass(frozen=True)
class Architecture:
    """What is trained, by settings of ``CalibratedRegressor``.

    ``options`` are what a named network is made with: hidden, dropout, passes.
    """

    network: str | Callable[[int], nn.Module]
    options: dict[str, Any] = field(default_factory=dict)
    head: str | Head = "gaussian"
    floor: float = 1e-3
    distribution: str = "pooled"
    transform: str | TargetTransform | None = None
    clip_features: bool = True
    bins: int = 0

    @property
    def stacked(self) -> bool:
        """Whether all members are one network."""
        return isinstance(self.network, str)

    def made_head(self) -> Head:
        """Make the head of a named network."""
        if not isinstance(self.head, str):
            return self.head
        make: Any = find_part(self.head, HEADS, name="head")
        made: Head = make(floor=self.floor)
        return made

    def weights(self, inputs: int, members: int) -> int:
        """Count the weights of stacked networks, but for biases."""
        hidden = self.options.get("hidden", ())
        sizes: list[int] = [inputs, *hidden, self.made_head().size]
        return members * sum(a * b for a, b in itertools.pairwise(sizes))

    def encoding(self, x: Tensor) -> PiecewiseLinear | None:
        """Learn the encoding of features ``(n, d)``; None for none.

        The first layer sees ``bins`` numbers of each feature, fewer in wide tables.
        """
        bins = min(self.bins, _MOST_ENCODED // x.shape[1])
        if not self.stacked or bins < 2:
            return None
        return PiecewiseLinear.of_rows(x[:: -(-len(x) // _MOST_SORTED)], bins)

    def build(
        self,
        features: int,
        members: int,
        generator: torch.Generator,
        *,
        encoding: PiecewiseLinear | None = None,
    ) -> list[nn.Module]:
        """Make untrained networks, float32: one stack, or a module for each member."""
        if isinstance(self.network, str):
            inputs = features + (0 if encoding is None else encoding.size)
            count = self.weights(inputs, members)
            if count > _MOST_WEIGHTS:
                raise InputError(
                    f"members, folds and hidden must make at most {_MOST_WEIGHTS:,} "
                    f"weights, got {count:,}. Choose fewer or smaller networks."
                )
            make: Any = find_part(self.network, NETWORKS, name="network")
            stack: nn.Module = make(
                features,
                members=members,
                head=self.made_head(),
                encoding=encoding,
                generator=generator,
                **self.options,
            )
            return [stack.float()]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
            modules = [self.network(features) for _ in range(members)]
        if len({id(module) for module in modules}) < members:
            raise InputError(
                "network must make a new module at each call, got the same one twice."
            )
        return [StandardizedInputs(module, features).float() for module in modules]

    def fitted_transform(self, y: Array) -> TargetTransform | None:
        """Learn the target's transform from these targets; None for none."""
        if self.transform is None:
            return None
        made: Any = find_part(self.transform, TRANSFORMS, name="target_transform")
        made = made() if isinstance(self.transform, str) else copy.deepcopy(made)
        fitted: TargetTransform = made.fit(torch.from_numpy(y))
        return fitted


@dataclass(eq=False)
class Networks:
    """Trained members, and what makes distributions of their outputs."""

    architecture: Architecture
    networks: list[nn.Module]  # one stack, or a module for each member
    inputs: Pair  # center and scale that bring features to order 1, (d,)
    limits: Pair | None  # least and largest value of each feature, (d,)
    target_center: Tensor  # of each member's transformed targets, (members, 1)
    target_scale: Tensor
    disagreement: float | None  # see ``usual_disagreement``
    _plain: MLPStack | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self.target_center)

    def conditioned(self, x: Array) -> Tensor:
        """Bring features to order 1, float32, where the networks are."""
        device = next(self.networks[0].parameters()).device
        return _conditioned(x, self.inputs, self.limits).to(device)

    def distribution(
        self,
        x: Array,
        members: Sequence[int] | None = None,
        *,
        masks: torch.Generator | None = None,
    ) -> AbstractDistribution:
        """Pool members, all if left out, for features ``(n, d)``; float64, on the CPU.

        Dropout masks of each row and pass are drawn from ``masks``, on the network's
        device; without it, the network keeps some for all rows.
        """
        return pool_members(
            self.predict(x, members, masks=masks),
            distribution=self.architecture.distribution,
            usual=self.disagreement,
        )

    def predict(
        self,
        x: Array,
        members: Sequence[int] | None = None,
        *,
        masks: torch.Generator | None = None,
    ) -> list[AbstractDistribution]:
        """Distributions of the transformed target, before they are pooled.

        One, of batch shape ``(members * passes, n)``, or ``(n,)`` for each own module.
        """
        chosen = list(range(len(self)) if members is None else members)
        ready = self.conditioned(x)
        if self.architecture.stacked:
            return [self._of_stack(ready, chosen, masks)]
        return [self._of_module(ready, member) for member in chosen]

    def deterministic(self) -> MLPStack:
        """Return all members under the masks of all passes, made once."""
        if self._plain is None:
            network: Any = self.networks[0]
            with torch.no_grad():
                self._plain = network.deterministic()
        return self._plain.eval()

    def _of_stack(
        self, x: Tensor, members: list[int], masks: torch.Generator | None
    ) -> AbstractDistribution:
        network: Any = self.networks[0]
        passes = network.passes
        index = torch.tensor(members, device=x.device).repeat_interleave(passes)
        if masks is not None:
            raw = stack_outputs(network.stack.select(index, drops=True), x, masks)
        else:
            stack = self.deterministic()
            if members != list(range(len(self))):
                places = torch.arange(passes, device=x.device).repeat(len(members))
                stack = stack.select(index * passes + places)
            raw = stack_outputs(stack, x)
        center, scale = (
            values[members].repeat_interleave(passes, 0)
            for values in (self.target_center, self.target_scale)
        )
        return rescaled(network.head(raw.double().cpu()), center, scale)

    def _of_module(self, x: Tensor, member: int) -> AbstractDistribution:
        module = self.networks[member].eval()
        with torch.no_grad():
            predictive = as_distribution(module(x))
        return rescaled(
            predictive, self.target_center[member], self.target_scale[member]
        )


def stack_outputs(
    stack: MLPStack, x: Tensor, masks: torch.Generator | None = None
) -> Tensor:
    """Outputs of all networks, ``(networks, n, size)``, in blocks of rows."""
    widest = max(bias.shape[-1] for bias in stack.biases)
    rows = max(64, _MOST_HIDDEN // (stack.members * widest))
    with torch.no_grad():
        return torch.cat(
            [stack(part, generator=masks) for part in x.split(rows)], dim=1
        )


def fit_networks(
    table: Table,
    design: Design,
    architecture: Architecture,
    recipe: Recipe,
    *,
    seed: int,
    validation_share: float,
    device: str,
    targets: Array | None = None,
    **options: Any,  # noqa: ANN401  (of ``train``)
) -> tuple[Networks, list[History]]:
    """Train all members of a design, on transformed targets ``(n,)`` if these differ.

    With a patience, early stopping looks at ``validation_share`` of each member's rows,
    or at the out-of-fold pools of a stack.
    """
    generator = torch.Generator().manual_seed(seed)
    limits = feature_limits(table.x) if architecture.clip_features else None
    inputs = center_and_scale(table.x, limits=limits)
    x = _conditioned(table.x, inputs, limits)
    networks = architecture.build(
        table.x.shape[1], len(design.rows), generator, encoding=architecture.encoding(x)
    )
    networks = [network.to(torch.device(device)) for network in networks]
    _standardize_inputs(networks, x, design.rows)
    z = table.y if targets is None else targets
    centers, scales = _own_scales(z[:, None], design.rows)
    members = Networks(
        architecture,
        networks,
        inputs=inputs,
        limits=limits,
        target_center=torch.from_numpy(centers),
        target_scale=torch.from_numpy(scales),
        disagreement=None if len(design.rows) < FEWEST_POOLED else 0.0,
    )
    y = _standardized(z, centers, scales)
    learned: Sequence[Labels] = design.rows
    held_out: list[Labels] = []
    if design.unseen is not None and architecture.stacked:
        options["judge"] = _PooledScore(x.to(device), y, members, design, table.weights)
    elif recipe.patience is not None:
        random = np.random.default_rng(seed)
        cuts = [
            table.blocks.split(rows, validation_share, random) for rows in design.rows
        ]
        learned, held_out = [cut[0] for cut in cuts], [cut[1] for cut in cuts]
    weights = None
    if table.weights is not None:
        weights = torch.from_numpy(table.weights.astype(np.float32))

    def data(chosen: slice) -> TrainingData:
        rows = list(map(torch.from_numpy, learned[chosen]))
        other = list(map(torch.from_numpy, held_out[chosen])) or None
        apart = list(map(torch.from_numpy, (design.regularized or ())[chosen])) or None
        return TrainingData(
            x=x,
            y=y[chosen],
            rows=rows,
            held_out=other,
            regularized=apart,
            weights=weights,
        )

    if architecture.stacked:
        whole = data(slice(None))
        history = train(networks[0], whole, recipe, generator=generator, **options)
        return members, [history]
    # What one draws must not depend on how early another has stopped.
    seeds = [int(torch.randint(2**62, (), generator=generator)) for _ in networks]
    histories: list[History] = []
    for number, network in enumerate(networks):
        own = data(slice(number, number + 1))
        source = torch.Generator().manual_seed(seeds[number])
        histories.append(train(network, own, recipe, generator=source, **options))
        if any(history.interrupted for history in histories):
            # The others must predict too, but nobody waits for them: one epoch each.
            recipe = replace(recipe, epochs=1)
            histories[-1].interrupted = True
    # A distribution cannot be brought to the CPU, the module that makes it can.
    members.networks = [network.cpu() for network in networks]
    return members, histories


def _own_scales(values: npt.NDArray[Any], rows: Sequence[Labels]) -> Pair:
    """Center and scale of each member's rows, each of shape ``(members, d)``."""
    distinct = {id(part): part for part in rows}
    made = {key: center_and_scale(values, part) for key, part in distinct.items()}
    centers, scales = zip(*(made[id(part)] for part in rows), strict=True)
    return np.stack(centers), np.stack(scales)


def _standardize_inputs(
    networks: Sequence[nn.Module], x: Tensor, rows: Sequence[Labels]
) -> None:
    """Let each member standardize by the rows that it may look at."""
    centers, scales = map(torch.from_numpy, _own_scales(x.numpy(), rows))
    share = len(rows) // len(networks)
    for network, center, scale in zip(
        networks, centers.split(share), scales.split(share), strict=True
    ):
        first: Any = getattr(network, "stack", network)
        first.standardize(center, scale)


def _standardized(z: Array, centers: Array, scales: Array) -> Tensor:
    """Targets ``(n,)`` in each member's own units, float32, shape ``(members, n)``."""
    # Rows that a member does not see may lie farther from its own than float32 reaches.
    most = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        parts = [
            np.clip((z - center) / scale, -most, most).astype(np.float32)
            for center, scale in zip(centers, scales, strict=True)
        ]
    return torch.from_numpy(np.stack(parts))


class _PooledScore:
    """CRPS of each row's pool of unseen members, for the choice of the epoch.

    The pool is taken as normal, with the moments of the mixture. Unlike the likelihood,
    the CRPS lets means go on learning after spreads, which a map corrects, overfit.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        members: Networks,
        design: Design,
        weights: Array | None,
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
            predictive = network(self._x[rows.reshape(-1)].view(*rows.shape, -1))
            moments = torch.stack([predictive.mean, predictive.variance])
            parts.append(moments.double().cpu())
        mean, variance = torch.cat(parts, -1)
        mean = (mean * self._scale + self._center).flatten()[self._places]
        variance = (variance * self._scale**2).flatten()[self._places]
        center = mean.mean(0)
        spread = (variance.mean(0) + mean.var(0, correction=0)).sqrt()
        if bool(center.isnan().any() | spread.isnan().any()):
            raise DivergedError(
                "networks predict NaN after an epoch. Likely cause: the steps are too "
                "large. Lower learning_rate, or set gradient_clip."
            )
        scores = self._weights * Gaussian(center, spread).crps(self._y)
        return float(scores.sum() / self._weights.sum())
