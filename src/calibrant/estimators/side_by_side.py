"""One model on many parts of a table, all trained as one stack."""

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from calibrant._checks import InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators._design import Design
from calibrant.estimators._fitting import Table, fit_members
from calibrant.estimators._folds import Blocks
from calibrant.estimators._input import check_arrays
from calibrant.estimators._members import Members
from calibrant.estimators._settings import (
    architecture_of,
    check_settings,
    recipe_of,
    strengths_of,
    training_options,
)
from calibrant.training import EpochState

if TYPE_CHECKING:
    from calibrant.estimators.regressor import CalibratedRegressor

__all__ = ["SideBySide", "fit_side_by_side"]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


class SideBySide:
    """Models with the same settings, each of which learned from rows of its own.

    Parameters
    ----------
    members
        The trained networks of all models.
    each
        Networks of each model.
    """

    def __init__(self, members: Members, each: int) -> None:
        self._members, self._each = members, each

    def law(
        self, x: Array, model: int, *, masks: torch.Generator | None = None
    ) -> AbstractDistribution:
        """Law of each row under one of the models, batch shape ``(n,)``.

        Parameters
        ----------
        x
            Features, shape ``(n, d)``.
        model
            Which model.
        masks
            Source of dropout masks of each row and pass, as those of ordinary dropout;
            None for masks that all rows share.
        """
        first = model * self._each
        return self._members.law(x, range(first, first + self._each), masks=masks)


def fit_side_by_side(
    model: "CalibratedRegressor",
    x: Array,
    y: Array,
    rows: Sequence[Rows],
    *,
    seed: int,
    epochs: Sequence[int] = (),
) -> dict[int, SideBySide]:
    """Fit a model on many sets of rows at once: the folds and repeats of a benchmark.

    Each model standardizes, learns and predicts by its own rows alone; only the matrix
    products are shared. With a constant learning rate the model of fewer epochs is that
    of more epochs, looked at earlier, so one training gives both.

    Parameters
    ----------
    model
        Settings: a network by name, a strength, no recalibration, no early stopping.
    x, y
        The whole table, features ``(n, d)`` and targets ``(n,)``, all finite.
    rows
        For each model the rows that it learns from; all of the same number, since all
        take the same steps.
    seed
        Of initial weights, batch orders and dropout masks.
    epochs
        Epochs whose models are wanted; by default the last only.

    Returns
    -------
    dict
        The models after each of these epochs. Ctrl-C gives none.

    Examples
    --------
    >>> from calibrant import CalibratedRegressor
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> model = CalibratedRegressor.paper("mc_dropout", epochs=2)
    >>> parts = [np.arange(20), np.arange(20, 40)]
    >>> fitted = fit_side_by_side(model, x, x[:, 0], parts, seed=0, epochs=(1, 2))
    >>> fitted[2].law(x[:3], 1).batch_shape
    torch.Size([3])
    """
    wanted = tuple(epochs) or (model.epochs,)
    _check(model, rows, wanted)
    x, y = check_arrays(x, y)
    found: dict[int, nn.Module] = {}

    def look(state: EpochState) -> None:
        if state.epoch in wanted[:-1]:
            found[state.epoch] = copy.deepcopy(state.network)

    wanted = tuple(sorted(wanted))
    settings = copy.copy(model).set_params(
        epochs=wanted[-1], callbacks=[look], distributed=False
    )
    strength = strengths_of(settings)[0]
    table = Table(x, y, Blocks(np.arange(len(y))))
    each = [part for part in rows for _ in range(model.members)]
    members, histories = fit_members(
        table,
        Design(tuple(each), np.empty(0, dtype=np.int64)),
        architecture_of(settings),
        recipe_of(settings, strength, len(rows[0])),
        seed=seed,
        validation_share=0.0,
        options=training_options(settings, strength),
    )
    if any(history.interrupted for history in histories):
        raise KeyboardInterrupt  # a model that is half trained is none of these
    found[wanted[-1]] = members.networks[0]
    return {
        epoch: SideBySide(members.with_networks([network]), model.members)
        for epoch, network in found.items()
    }


def _check(
    model: "CalibratedRegressor", rows: Sequence[Rows], epochs: Sequence[int]
) -> None:
    check_settings(model)
    unfit = {
        "network": not isinstance(model.network, str),
        "strength": model.strength == "auto",
        "recalibrate_on": model.recalibrate_on is not None,
        "patience": model.patience is not None,
        "schedule": len(epochs) > 1 and model.schedule != "constant",
    }
    for name, wrong in unfit.items():
        if wrong:
            raise InputError(
                "models are fitted side by side with a network by name, a number as "
                "strength, recalibrate_on=None, patience=None and, for "
                f'several epochs, schedule="constant"; got {name}='
                f"{getattr(model, name)!r}."
            )
    sizes = {len(part) for part in rows}
    if len(sizes) != 1 or min(epochs) < 1:
        raise InputError(
            "rows must hold equally many rows for each model, and epochs must be at "
            f"least 1, got {sorted(sizes)} rows and {tuple(epochs)} epochs."
        )
