"""The paper's models of many folds and repeats, trained as one stack."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_X_y
from torch import nn

from calibrant.distributions.base import AbstractDistribution
from calibrant.errors import InputError
from calibrant.estimators.base import Table, check_targets
from calibrant.estimators.folds import Blocks, Design
from calibrant.estimators.networks import Networks, fit_networks
from calibrant.estimators.regressor import CalibratedRegressor, training_device
from calibrant.training import EpochState

__all__ = ["SideBySide", "fit_side_by_side"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SideBySide:
    """Models with the same settings, each of which learned from rows of its own."""

    members: Networks
    size: int

    def distribution(
        self, x: Array, model: int, *, masks: torch.Generator | None = None
    ) -> AbstractDistribution:
        """Distribution of rows ``(n, d)`` under one of the models, by its number.

        Dropout masks of each row and pass, as those of ordinary dropout, are drawn from
        ``masks``; None for masks that all rows share.
        """
        chosen = range(model * self.size, (model + 1) * self.size)
        return self.members.distribution(x, chosen, masks=masks)


def fit_side_by_side(
    model: CalibratedRegressor,
    x: Array,
    y: Array,
    rows: Sequence[npt.NDArray[np.int64]],
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
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> model = CalibratedRegressor.paper("mc_dropout", epochs=2)
    >>> parts = [np.arange(20), np.arange(20, 40)]
    >>> fitted = fit_side_by_side(model, x, x[:, 0], parts, seed=0, epochs=(1, 2))
    >>> fitted[2].distribution(x[:3], 1).batch_shape
    torch.Size([3])
    """
    wanted = tuple(sorted(epochs)) or (model.recipe(0, 1).epochs,)
    settings = model.check_settings()
    sizes = {len(part) for part in rows}
    if (
        not isinstance(model.network, str)
        or model.strength == "auto"
        or model.recalibrate_on is not None
        or model.patience is not None
        or isinstance(model.members, str)
        or (len(wanted) > 1 and settings["schedule"] != "constant")
        or len(sizes) != 1
        or wanted[0] < 1
    ):
        raise InputError(
            "models are fitted side by side with a network by name, numbers as "
            "strength and members, recalibrate_on=None, patience=None, equally many "
            "rows for each, "
            'and for several epochs (each at least 1) schedule="constant"; got '
            f"{model}, {sorted(sizes)} rows and epochs {wanted}."
        )
    copies = int(model.members)
    x, y = check_X_y(x, y, dtype=np.float64, y_numeric=True)
    check_targets(y)
    found: dict[int, nn.Module] = {}

    def look(state: EpochState) -> None:
        if state.epoch in wanted[:-1]:
            found[state.epoch] = copy.deepcopy(state.network)

    own = tuple(part for part in rows for _ in range(copies))
    recipe = model.recipe(float(model.strength), len(rows[0]))
    members, histories = fit_networks(
        Table(x, y, Blocks(np.arange(len(y)))),
        Design(own, np.empty(0, dtype=np.int64)),
        model.architecture(),
        replace(recipe, epochs=wanted[-1]),
        seed=seed,
        validation_share=0.0,
        device=training_device(model),
        callbacks=[look],
    )
    if any(history.interrupted for history in histories):
        raise KeyboardInterrupt  # a model that is half trained is none of these
    found[wanted[-1]] = members.networks[0]
    return {
        epoch: SideBySide(replace(members, networks=[network]), copies)
        for epoch, network in found.items()
    }
