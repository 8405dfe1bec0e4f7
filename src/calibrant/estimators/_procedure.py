"""The steps of a fit: train, choose the strength, recalibrate, look at the order."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.estimators._design import Design, design_for
from calibrant.estimators._fitting import (
    Fitted,
    Table,
    fit_map,
    fit_members,
    unseen_pool,
)
from calibrant.estimators._serial import warn_of_order
from calibrant.estimators._settings import (
    architecture_of,
    recalibrator_of,
    recipe_of,
    strategy_of,
    strengths_of,
    training_options,
)
from calibrant.estimators._sweep import Trained, sweep
from calibrant.estimators.strength import StrengthPath

if TYPE_CHECKING:
    from calibrant.estimators.regressor import CalibratedRegressor

__all__ = ["Outcome", "fit_model"]


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
    strategy = strategy_of(model, len(table.y))
    design = _design(model, table, strategy, seed)
    trained, strength, path = _choose(model, table, design, strategy, seed)
    recalibrator = fit_map(
        trained.pool, recalibrator_of(model, len(design.calibration)), seed=seed
    )
    fitted = Fitted(trained.members, recalibrator, table.last_bounds)
    if design.unseen is not None and table.blocks.time is None:
        warn_of_order(trained.pool.pit(0), table.blocks.labels, stacklevel=4)
    return Outcome(fitted, trained, strength, path)


def _choose(
    model: "CalibratedRegressor",
    table: Table,
    design: Design,
    strategy: str | None,
    seed: int,
) -> tuple[Trained, float, StrengthPath | None]:
    """Train with the given strength, or with the one that a sweep chooses."""
    strengths = strengths_of(model)

    def train(
        strength: float, table: Table = table, design: Design = design
    ) -> Trained:
        most = max(len(rows) for rows in design.rows)
        members, histories = fit_members(
            table,
            design,
            architecture_of(model),
            recipe_of(model, strength, most),
            seed=seed,
            validation_share=model.validation_share,
            options=training_options(model, strength),
        )
        return Trained(members, histories, unseen_pool(members, design, table))

    if model.strength != "auto":
        return train(strengths[0]), strengths[0], None
    if strategy == "out_of_fold":
        trained, path = sweep(strengths, train, rule=model.strength_rule)
        return trained, path.chosen, path
    # Without pools of unseen members in the design itself, folds supply them: folds of
    # the rows to learn from, since a map's rows must not have a say in the strength.
    learned = table.part(design.rows[0])
    folds = _design(model, learned, "out_of_fold", seed)
    _, path = sweep(
        strengths, lambda each: train(each, learned, folds), rule=model.strength_rule
    )
    return train(path.chosen), path.chosen, path


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
