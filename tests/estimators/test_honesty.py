"""A row's own target has no part in the law that its PIT value comes from."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators import CalibratedRegressor
from calibrant.estimators._design import design_for
from calibrant.estimators._folds import Blocks

Make = Callable[..., CalibratedRegressor]
Array = npt.NDArray[np.float64]

N = 48
HARD: dict[str, Any] = {
    "folds": 3,
    "epochs": 12,
    "batch_size": 8,
    "learning_rate": 3e-2,
    "patience": None,
    "strength": 5.0,
    "gradient_clip": 0.5,
    "adversarial": 0.02,
    "target_transform": "log",
}


def positive_rows() -> tuple[Array, Array]:
    random = np.random.default_rng(3)
    x = random.uniform(-1, 1, (N, 2))
    return x, np.exp(x[:, 0] + 0.3 * random.standard_normal(N))


def same(first: AbstractDistribution, second: AbstractDistribution) -> bool:
    """Whether two predictions are equal bit for bit."""
    levels = torch.tensor([0.02, 0.3, 0.5, 0.9], dtype=torch.float64)
    return torch.equal(first.quantiles(levels), second.quantiles(levels))


def members_that_saw(
    model: CalibratedRegressor, row: int
) -> tuple[list[int], list[int]]:
    """Numbers of the members that did not see a row, and of those that did."""
    seed = int(np.random.RandomState(model.random_state).randint(2**31 - 1))
    # Made again; it depends on the seed alone.
    design = design_for(
        "out_of_fold",
        Blocks(np.arange(N)),
        members=model.members,
        folds=model.folds,
        share=0,
        random=np.random.default_rng(seed),
    )
    assert design.unseen is not None
    blind = design.unseen[:, row].tolist()
    return blind, [n for n in range(len(design.rows)) if n not in blind]


def changed(y: Array, row: int) -> Array:
    """The same targets, one of them moved far."""
    other = y.copy()
    other[row] *= 7.0
    return other


@pytest.mark.slow
@pytest.mark.parametrize("network", ["deep_ensemble", "mc_dropout"])
@pytest.mark.parametrize("row", [0, 17])
def test_out_of_fold(cheap: Make, network: str, row: int) -> None:
    x, y = positive_rows()
    settings = HARD | {"network": network, "passes": 3, "dropout": 0.2}
    first = cheap(**settings).fit(x, y)
    second = cheap(**settings).fit(x, changed(y, row))
    blind, seeing = members_that_saw(first, row)
    laws = [each.model_.members.law for each in (first, second)]
    assert same(laws[0](x, blind), laws[1](x, blind))
    assert not same(laws[0](x, seeing), laws[1](x, seeing))


@pytest.mark.slow
def test_out_of_fold_with_modules_of_ones_own(cheap: Make) -> None:
    x, y = positive_rows()
    settings = HARD | {"network": lambda d: Line(d), "members": 1}
    first = cheap(**settings).fit(x, y)
    second = cheap(**settings).fit(x, changed(y, 5))
    blind, seeing = members_that_saw(first, 5)
    for members, alike in ((blind, True), (seeing, False)):
        found = [
            each.model_.members.law(x, members).quantile(0.3)
            for each in (first, second)
        ]
        assert torch.equal(*found) is alike


class Line(nn.Module):
    """A linear mean with a spread of its own."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 2), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.layers(x).unbind(-1)
        return mean, nn.functional.softplus(spread) + 1e-3


def test_held_out_rows_teach_no_member(cheap: Make) -> None:
    x, y = positive_rows()
    first = cheap(recalibrate_on="held_out", held_out_share=0.25).fit(x, y)
    second = cheap(recalibrate_on="held_out", held_out_share=0.25)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    _, held = Blocks(np.arange(N)).split(
        np.arange(N), 0.25, np.random.default_rng(seed)
    )
    second.fit(x, changed(y, int(held[3])))
    assert same(*(model.model_.members.law(x) for model in (first, second)))
    maps = [model.model_.recalibrator.apply([0.3]) for model in (first, second)]
    assert not torch.equal(*maps)
