"""One fit by several processes."""

from typing import TYPE_CHECKING

import torch

from calibrant.estimators._fitting import Table
from calibrant.estimators._settings import training_device
from calibrant.training.distributed import fingerprint_of, join_team, plain

if TYPE_CHECKING:
    from calibrant.estimators.regressor import CalibratedRegressor

__all__ = ["common_seed"]


def common_seed(model: "CalibratedRegressor", table: Table, seed: int) -> int:
    """Return the seed of all processes, the first one's, if several fit the model.

    Parameters
    ----------
    model
        Its parameters say whether.
    table
        The rows, which must be the same everywhere.
    seed
        This process's own.
    """
    if not model.distributed:
        return seed
    device = torch.device(training_device(model))
    team = join_team(device.type)
    own = ("callbacks", "progress", "random_state")  # the first one's count
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in own}
    blocks = table.blocks
    found = fingerprint_of(
        table.x, table.y, table.weights, blocks.labels, blocks.time, *plain(settings)
    )
    team.check_alike(found, name="rows and parameters", device=device)
    return int(team.agreed(torch.tensor(seed, device=device)))
