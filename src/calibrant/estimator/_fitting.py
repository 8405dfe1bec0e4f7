"""From rows to trained members and their recalibrators."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calibrant._checks import InputError, find_part
from calibrant.contracts import Recalibrator
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.censored import Censored
from calibrant.distributions.mixture import Mixture
from calibrant.estimator._design import Design, Unit
from calibrant.estimator._folds import Blocks, Labels
from calibrant.estimator._members import Architecture, Members
from calibrant.estimator._standardize import center_and_scale, feature_limits
from calibrant.metrics.pit import recorded_pit
from calibrant.metrics.target_grid import TargetGrid
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration._base import MapRecalibrator
from calibrant.training import History, Recipe, TrainingData, train

__all__ = [
    "Fitted",
    "Table",
    "fit_members",
    "fit_recalibrators",
    "fit_recorded",
    "fresh_recalibrator",
    "unseen_laws",
]

Array = npt.NDArray[np.float64]


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
    """A model: units of members, each with its recalibrator.

    Attributes
    ----------
    members
        The trained networks.
    units, recalibrators
        What the predicted law is a mixture of, and the correction of each.
    bounds
        Where the recalibrated law has mass of its own, or None.
    """

    members: Members
    units: tuple[Unit, ...]
    recalibrators: tuple[Recalibrator | None, ...]
    bounds: tuple[float, float] | None = None

    def law(self, x: Array) -> AbstractDistribution:
        """Law of each row ``(n, d)``, batch shape ``(n,)``."""
        laws = []
        for unit, recalibrator in zip(self.units, self.recalibrators, strict=True):
            law = self.members.law(x, unit.members)
            if recalibrator is not None:
                corrected: Any = recalibrator.transform(law)
                law = corrected
            laws.append(law)
        weights = [unit.weight for unit in self.units]
        law = laws[0] if len(laws) == 1 else Mixture(laws, weights)
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
    networks = architecture.build(table.x.shape[1], count, generator)
    networks = [network.to(device) for network in networks]
    transforms, targets, standardized = _targets(table, design, architecture)
    members = Members(
        architecture,
        networks,
        inputs=inputs,
        limits=limits,
        targets=targets,
        transforms=transforms,
        bounds=table.first_bounds,
    )
    x = members.conditioned(table.x).cpu()
    _standardize_inputs(networks, x, design.rows)
    learned, held_out = list(design.rows), None
    if recipe.patience is not None:
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
) -> tuple[list[Any], tuple[Array, Array], Tensor]:
    """Transform and standardize the targets as each member's own rows say."""
    made: dict[int, tuple[Any, Array, float, float]] = {}
    shared: dict[Any, Any] = {}
    for rows in design.rows:
        if id(rows) in made:
            continue
        transform = architecture.fitted_transform(table.y[rows])
        # Members with equal transforms share one, and so make one mixture before it.
        transform = shared.setdefault(_text(transform), transform)
        z = table.y
        if transform is not None:
            z = transform.forward(torch.from_numpy(table.y)).numpy()
        center, scale = center_and_scale(z[:, None], rows)
        made[id(rows)] = (transform, z, float(center[0]), float(scale[0]))
    each = [made[id(rows)] for rows in design.rows]
    centers = np.array([part[2] for part in each])
    scales = np.array([part[3] for part in each])
    # Rows that a member does not see may lie farther from its own than float32 reaches.
    most = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        standardized = [
            np.clip((z - center) / scale, -most, most).astype(np.float32)
            for _, z, center, scale in each
        ]
    ready = torch.from_numpy(np.stack(standardized))
    return [part[0] for part in each], (centers, scales), ready


def _text(transform: Any) -> object:  # noqa: ANN401
    """What tells transforms apart: all that they learned, or else who they are."""
    try:
        return transform.to_json()
    except (AttributeError, InputError):
        return id(transform)


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


def unseen_laws(
    members: Members, design: Design, table: Table
) -> list[tuple[Unit, AbstractDistribution]]:
    """Law of each unit for its own calibration rows.

    Out of bag, the law of a row is the mixture of those members that did not see it.
    """
    laws = []
    for unit in design.units:
        weights = None
        if design.unseen is not None:
            unseen = torch.from_numpy(design.unseen[:, unit.calibration]).double()
            weights = unseen / unseen.sum(0)
        x = table.x[unit.calibration]
        laws.append((unit, members.law(x, unit.members, weights)))
    return laws


def fit_recalibrators(
    laws: list[tuple[Unit, AbstractDistribution]],
    table: Table,
    recalibrator: str | Recalibrator | Callable[[], Recalibrator] | None,
    *,
    seed: int,
) -> tuple[Recalibrator | None, ...]:
    """Fit each unit's recalibrator on the laws of its calibration rows."""
    generator = torch.Generator().manual_seed(seed)
    fitted: list[Recalibrator | None] = []
    for unit, law in laws:
        if recalibrator is None or len(unit.calibration) == 0:
            fitted.append(None)
            continue
        fresh = fresh_recalibrator(recalibrator)
        y = torch.from_numpy(table.y[unit.calibration])
        fitted.append(fit_recorded(fresh, law, y, table.grid, generator))
    return tuple(fitted)


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
