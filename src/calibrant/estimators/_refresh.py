"""A fitted model's calibration, learned again from rows that are new to it."""

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant._checks import InputError
from calibrant.contracts import Recalibrator
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.mixture import Mixture
from calibrant.estimators._design import Design
from calibrant.estimators._fitting import Fitted, Table, fit_map, unseen_pool
from calibrant.estimators._folds import Blocks
from calibrant.estimators._settings import recalibrator_of
from calibrant.metrics.target_grid import detect_grid

if TYPE_CHECKING:
    from calibrant.estimators.regressor import CalibratedRegressor

__all__ = ["cross_fitted_law", "refreshed"]

Array = npt.NDArray[np.float64]
Chosen = str | Recalibrator | None

#: Fewer rows say next to nothing about the shape of a map.
_FEWEST = 20


def refreshed(
    model: "CalibratedRegressor", x: Array, y: Array, recalibrator: Chosen, seed: int
) -> "CalibratedRegressor":
    """Return a copy whose one map was learned from these rows.

    They are new to all members, so all members make one law, with one map.

    Parameters
    ----------
    model
        A fitted regressor, which stays as it is.
    x, y
        Features ``(n, d)`` and targets ``(n,)`` of rows that it was not trained on.
    recalibrator
        What to learn; None for the model's own choice.
    seed
        Of the randomized PIT values of rounded targets.
    """
    _check_rows(len(y))
    chosen = model.recalibrator if recalibrator is None else recalibrator
    if chosen is None:
        raise InputError(
            "the model was made without a recalibrator, so say which one: "
            'recalibrator="beta", for example.'
        )
    result = copy.copy(model)
    result.recalibrator = chosen
    chosen_for = recalibrator_of(result, len(y))
    result.model_ = _with_map(model.model_, x, y, chosen_for, seed)
    result.fitted_parameters_ = model.fitted_parameters_ | {"recalibrator": chosen}
    return result


def cross_fitted_law(
    models: list[Any], fold_of_row: npt.NDArray[np.int64], x: Array
) -> AbstractDistribution:
    """Law of each row by that model which was refreshed without its fold.

    Parameters
    ----------
    models
        One regressor for each fold.
    fold_of_row
        The fold of each row, shape ``(n,)``.
    x
        Features, shape ``(n, d)``.
    """
    laws = [each.model_.law(x) for each in models]
    own = np.arange(len(models))[:, None] == fold_of_row
    return Mixture(laws, torch.from_numpy(own.astype(np.float64)))


def _with_map(
    fitted: Fitted, x: Array, y: Array, recalibrator: str | Recalibrator, seed: int
) -> Fitted:
    rows = np.arange(len(y))
    table = Table(x, y, Blocks(rows), grid=detect_grid(y))
    design = Design((rows[:0],) * len(fitted.members), rows)
    pool = unseen_pool(fitted.members, design, table)
    return replace(fitted, recalibrator=fit_map(pool, recalibrator, seed=seed))


def _check_rows(count: int) -> None:
    if count < _FEWEST:
        raise InputError(
            f"at least {_FEWEST} rows are needed to refresh a calibration, got "
            f"{count}. Bring more rows with known targets; a few hundred are good."
        )
