"""The steps of a fit: train, choose the strength, recalibrate, look at the order."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from calibrant.estimator._design import Design, design_for
from calibrant.estimator._elsewhere import Elsewhere, Untrained
from calibrant.estimator._fitting import (
    Fitted,
    Table,
    fit_members,
    fit_recalibrators,
    unseen_laws,
)
from calibrant.estimator._members import Members
from calibrant.estimator._serial import warn_of_order
from calibrant.estimator._settings import (
    architecture_of,
    recipe_of,
    strategy_of,
    strengths_of,
    training_options,
)
from calibrant.estimator._sweep import Trained, sweep, unseen_pit
from calibrant.estimator.strength import StrengthPath
from calibrant.training import History, Recipe

if TYPE_CHECKING:
    from calibrant.estimator.regressor import CalibratedRegressor

__all__ = ["Outcome", "fit_model"]

# Designs whose laws for the training rows come from members that had not seen them.
_HONEST = ("cross_fit", "out_of_bag")


@dataclass(frozen=True)
class Outcome:
    """All that a fit gives.

    Attributes
    ----------
    fitted
        The model.
    trained
        Its members with their curves.
    strength
        Of the regularizer.
    path
        The sweep, if the strength was chosen.
    """

    fitted: Fitted
    trained: Trained
    strength: float
    path: StrengthPath | None


def fit_model(model: "CalibratedRegressor", table: Table, seed: int) -> Outcome:
    """Train, choose the strength if asked to, and recalibrate.

    Parameters
    ----------
    model
        Its parameters say how.
    table
        The rows.
    seed
        Of all that is drawn.
    """
    strategy = strategy_of(model)
    design = _design(model, table, strategy, seed)
    trained, strength, path = _choose(model, table, design, seed)
    recalibrators = fit_recalibrators(
        trained.laws, table, model.recalibrator, seed=seed
    )
    fitted = Fitted(trained.members, design.units, recalibrators, table.last_bounds)
    if strategy in _HONEST and table.blocks.time is None:
        _look_at_order(trained, table)
    return Outcome(fitted, trained, strength, path)


def _choose(
    model: "CalibratedRegressor", table: Table, design: Design, seed: int
) -> tuple[Trained, float, StrengthPath | None]:
    """Train with the given strength, or with the one that a sweep chooses."""
    strengths = strengths_of(model)
    if model.strength != "auto":
        with _trainings(model, table, design, strengths, seed) as train:
            return train(strengths[0]), strengths[0], None
    if strategy_of(model) in _HONEST:
        with _trainings(model, table, design, strengths, seed) as train:
            trained, path = sweep(strengths, train, table, rule=model.strength_rule)
        return trained, path.chosen, path
    # Without laws for unseen rows in the design itself, folds supply them: folds of the
    # rows to learn from, since a map's rows must not have a say in the strength.
    learned = table.part(design.rows[0])
    folds = _design(model, learned, "cross_fit", seed)
    with _trainings(model, learned, folds, strengths, seed) as train:
        _, path = sweep(strengths, train, learned, rule=model.strength_rule)
    with _trainings(model, table, design, [path.chosen], seed) as train:
        return train(path.chosen), path.chosen, path


@contextmanager
def _trainings(
    model: "CalibratedRegressor",
    table: Table,
    design: Design,
    strengths: Sequence[float],
    seed: int,
) -> Iterator[Callable[[float], Trained]]:
    """Give what trains the members with one of these strengths, here or elsewhere."""

    def with_laws(members: Members, histories: list[History]) -> Trained:
        return Trained(members, histories, unseen_laws(members, design, table))

    if model.scheduler is None:
        yield lambda strength: with_laws(*_train(model, table, design, strength, seed))
        return
    untrained = Untrained()
    members, _ = _train(model, table, design, strengths[0], seed, by=untrained)
    recipes = {each: _recipe(model, design, each) for each in strengths}
    with closing(Elsewhere(model, members, untrained, recipes)) as elsewhere:
        yield lambda strength: with_laws(*elsewhere.train(strength))


def _train(
    model: "CalibratedRegressor",
    table: Table,
    design: Design,
    strength: float,
    seed: int,
    **options: Untrained,
) -> tuple[Members, list[History]]:
    return fit_members(
        table,
        design,
        architecture_of(model),
        _recipe(model, design, strength),
        seed=seed,
        validation_share=model.validation_share,
        options=training_options(model, strength) | options,
    )


def _recipe(model: "CalibratedRegressor", design: Design, strength: float) -> Recipe:
    return recipe_of(model, strength, max(len(rows) for rows in design.rows))


def _design(
    model: "CalibratedRegressor", table: Table, strategy: str | None, seed: int
) -> Design:
    return design_for(
        strategy,
        table.blocks,
        members=model.members,
        folds=model.folds,
        share=model.held_out_share,
        random=np.random.default_rng(seed),
    )


def _look_at_order(trained: Trained, table: Table) -> None:
    """Look at the laws of unseen rows, in the order of the rows."""
    rows, pit = unseen_pit(trained.laws, table)
    order = rows.argsort()
    labels = table.blocks.labels[rows[order]]
    warn_of_order(pit[torch.from_numpy(order)], labels, stacklevel=5)
