"""Small problems for the training loop."""

from typing import Any

import torch
from torch import Tensor

from calibrant import DeepEnsemble, Recipe, TrainingData, train
from calibrant.training import History


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(members: int = 1, **options: Any) -> TrainingData:
    """Noisy rows that every member sees, unless the options say otherwise."""
    generator = seeded(11)
    x = torch.randn(64, 3, generator=generator)
    y = x[:, 0] + 0.5 * torch.randn(64, generator=generator)
    y, rows = y.repeat(members, 1), [torch.arange(64)] * members
    return TrainingData(**{"x": x, "y": y, "rows": rows, **options})


def ensemble(members: int = 1, **options: Any) -> DeepEnsemble:
    options = {"hidden": (8, 8), "generator": seeded(5), **options}
    return DeepEnsemble(3, members=members, **options)


def fit(
    network: torch.nn.Module,
    data: TrainingData,
    *,
    seed: int = 0,
    callbacks: Any = (),
    judge: Any = None,
    **options: Any,
) -> History:
    recipe = Recipe(**{"epochs": 5, "batch_size": 16, **options})
    source = seeded(seed)
    return train(
        network, data, recipe, generator=source, callbacks=callbacks, judge=judge
    )


def weights_of(network: torch.nn.Module) -> list[Tensor]:
    return [part.detach().clone() for part in network.parameters()]
