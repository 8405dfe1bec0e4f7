"""Small problems for the training loop."""

from types import SimpleNamespace
from typing import Any

import pytest
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
    everything = {
        "x": x,
        "y": y.repeat(members, 1),
        "rows": [torch.arange(64)] * members,
    }
    return TrainingData(**{**everything, **options})


def ensemble(members: int = 1, **options: Any) -> DeepEnsemble:
    options = {"hidden": (8, 8), "generator": seeded(5), **options}
    return DeepEnsemble(3, members=members, **options)


def fit(
    network: torch.nn.Module,
    data: TrainingData,
    seed: int = 0,
    callbacks: Any = (),
    judge: Any = None,
    **recipe: Any,
) -> History:
    recipe = {"epochs": 5, "batch_size": 16, **recipe}
    return train(
        network,
        data,
        Recipe(**recipe),
        generator=seeded(seed),
        callbacks=callbacks,
        judge=judge,
    )


def state(network: torch.nn.Module) -> list[Tensor]:
    return [each.detach().clone() for each in network.parameters()]


@pytest.fixture
def tools() -> SimpleNamespace:
    """Offer the functions of this file, which tests cannot import."""
    return SimpleNamespace(
        seeded=seeded, problem=problem, ensemble=ensemble, fit=fit, state=state
    )
