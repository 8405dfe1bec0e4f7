"""A row's own target has no part in the law that its PIT value comes from."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.gaussian_mixture import GaussianMixture
from calibrant.distributions.mixture import Mixture
from calibrant.distributions.transformed import Transformed
from calibrant.estimator import CalibratedRegressor
from calibrant.estimator._design import design_for
from calibrant.estimator._folds import Blocks
from calibrant.estimator._members import Members

Make = Callable[..., CalibratedRegressor]
Array = npt.NDArray[np.float64]

N = 48
HARD: dict[str, Any] = {
    "folds": 3,
    "epochs": 12,
    "batch_size": 8,
    "learning_rate": 3e-2,
    "patience": 2,
    "validation_share": 0.2,
    "strength": 5.0,
    "gradient_clip": 0.5,
    "adversarial": 0.02,
    "target_transform": "box_cox",
}


def positive_rows() -> tuple[Array, Array]:
    random = np.random.default_rng(3)
    x = random.uniform(-1, 1, (N, 2))
    return x, np.exp(x[:, 0] + 0.3 * random.standard_normal(N))


def numbers_of(law: AbstractDistribution) -> list[Tensor]:
    """All parameters of a law."""
    if isinstance(law, Transformed):
        power = torch.tensor(float(law.transform.power))  # type: ignore[attr-defined]
        return [power, *numbers_of(law.base)]
    if isinstance(law, Mixture):
        parts = [number for each in law.laws for number in numbers_of(each)]
        return [law.weights, *parts]
    assert isinstance(law, GaussianMixture)
    return [law.means, law.stddevs, law.weights]


def same(first: AbstractDistribution, second: AbstractDistribution) -> bool:
    pairs = zip(numbers_of(first), numbers_of(second), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def members_that_saw(
    model: CalibratedRegressor, row: int
) -> tuple[list[int], list[int]]:
    """Numbers of the members that did not see a row, and of those that did."""
    for unit in model.model_.units:
        if row in unit.calibration:
            return list(unit.members), [
                each
                for other in model.model_.units
                if other is not unit
                for each in other.members
            ]
    raise AssertionError("every row is in one fold")


def changed(y: Array, row: int) -> Array:
    """The same targets, one of them moved far."""
    other = y.copy()
    other[row] *= 7.0
    return other


@pytest.mark.slow
@pytest.mark.parametrize("network", ["deep_ensemble", "mc_dropout"])
@pytest.mark.parametrize("row", [0, 17])
def test_cross_fit(cheap: Make, network: str, row: int) -> None:
    x, y = positive_rows()
    settings = HARD | {"network": network, "passes": 3, "dropout": 0.2}
    first = cheap(**settings).fit(x, y)
    second = cheap(**settings).fit(x, changed(y, row))
    blind, seeing = members_that_saw(first, row)
    laws = [each.model_.members.law for each in (first, second)]
    assert same(laws[0](x, blind), laws[1](x, blind))
    assert not same(laws[0](x, seeing), laws[1](x, seeing))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 8, 11])
def test_when_others_stop_is_nothing_to_a_member(cheap: Make, seed: int) -> None:
    x, y = positive_rows()
    settings = HARD | {"epochs": 60, "adversarial": 0.0, "members": 1}
    first = cheap(**settings, random_state=seed).fit(x, y)
    second = cheap(**settings, random_state=seed).fit(x, changed(y, seed))
    blind, _ = members_that_saw(first, seed)
    assert same(*(each.model_.members.law(x, blind) for each in (first, second)))


@pytest.mark.slow
def test_cross_fit_with_modules_of_ones_own(cheap: Make) -> None:
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


@pytest.mark.slow
def test_out_of_bag(cheap: Make) -> None:
    x, y = positive_rows()
    row, share, members = 11, 0.4, 8
    settings = HARD | {
        "recalibrate_on": "out_of_bag",
        "held_out_share": share,
        "members": members,
    }
    first = cheap(**settings).fit(x, y)
    second = cheap(**settings).fit(x, changed(y, row))
    unseen = unseen_by(first, share, members)[:, row]
    assert 0 < unseen.sum() < members
    laws = [each.model_.members for each in (first, second)]
    assert same(*(own_law(each, x, np.flatnonzero(unseen)) for each in laws))
    assert not same(*(own_law(each, x, np.flatnonzero(~unseen)) for each in laws))


def unseen_by(model: CalibratedRegressor, share: float, members: int) -> Any:
    """Make the same design again; it depends on the seed alone."""
    seed = int(np.random.RandomState(model.random_state).randint(2**31 - 1))
    design = design_for(
        "out_of_bag",
        Blocks(np.arange(N)),
        members=members,
        folds=2,
        share=share,
        random=np.random.default_rng(seed),
    )
    for rows, unseen in zip(design.rows, design.unseen, strict=True):  # type: ignore[arg-type]
        assert sorted([*rows, *np.flatnonzero(unseen)]) == list(range(N))
    return design.unseen


def own_law(
    members: Members, x: Array, which: npt.NDArray[np.int64]
) -> AbstractDistribution:
    return members.law(x, which.tolist())


def test_held_out_rows_teach_no_member(cheap: Make) -> None:
    x, y = positive_rows()
    settings = {"recalibrate_on": "held_out", "held_out_share": 0.25}
    first = cheap(**settings).fit(x, y)
    row = int(first.model_.units[0].calibration[3])
    second = cheap(**settings).fit(x, changed(y, row))
    every = first.model_.units[0].members
    assert same(*(each.model_.members.law(x, every) for each in (first, second)))
    maps = [each.model_.recalibrators[0].apply([0.3]) for each in (first, second)]
    assert not torch.equal(*maps)
