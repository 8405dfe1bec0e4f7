"""What is promised about coverage, and that no row has a say in its own prediction."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators import CalibratedRegressor
from calibrant.estimators import pool as families
from calibrant.estimators.folds import Blocks, design_for

Make = Callable[..., CalibratedRegressor]

Array = npt.NDArray[np.float64]

Rows = tuple[Array, Array]

pytestmark = pytest.mark.slow


# A network that learns noise by heart: nothing stops it.
MEMORIZING: dict[str, Any] = {
    "members": 4,
    "hidden": (128,),
    "epochs": 250,
    "batch_size": 128,
    "learning_rate": 2e-2,
    "schedule": "constant",
    "patience": None,
    "strength": 0.0,
    "spread_floor": 1e-3,
    "gradient_clip": None,
    "folds": 4,
}


def noise(n: int, seed: int, features: int = 8) -> Rows:
    """Features that say nothing, in which every row can be told from the others."""
    random = np.random.default_rng(seed)
    return random.standard_normal((n, features)), random.standard_normal(n)


def waves(n: int, seed: int) -> Rows:
    """A wave whose noise has a skew, and grows with the second feature."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 2))
    spread = 0.3 + 0.2 * x[:, 1]
    return x, np.sin(3 * x[:, 0]) + spread * (random.exponential(1, n) - 1)


def covered(model: CalibratedRegressor, rows: Rows) -> float:
    """Share of targets inside their central intervals of 90 %, by their PIT values."""
    pit = model.predict_distribution(rows[0]).cdf(rows[1])
    return float(((pit >= 0.05) & (pit <= 0.95)).double().mean())


@pytest.mark.parametrize("recalibrator", ["empirical", "beta"])
def test_a_network_that_memorizes_is_still_calibrated(
    recalibrator: str, cheap: Make
) -> None:
    rows, fresh = noise(160, 0), noise(2000, 1)
    settings = MEMORIZING | {"recalibrator": recalibrator}
    honest = covered(cheap(**settings).fit(*rows), fresh)
    flattered = covered(cheap(**settings, recalibrate_on="train").fit(*rows), fresh)
    # 160 PIT values tell a coverage of 0.9 up to 0.024: three times that.
    assert 0.83 < honest < 0.97
    assert flattered < 0.7


class TestCopies:
    """All rows twice: the folds must keep a row and its copy together."""

    order = np.random.default_rng(3).permutation(160)

    @pytest.fixture
    def rows(self) -> Rows:
        x, y = noise(80, 2)
        return np.tile(x, (2, 1))[self.order], np.tile(y, 2)[self.order]

    def test_are_no_help(self, rows: Rows, cheap: Make) -> None:
        model = cheap(**MEMORIZING, recalibrator="empirical").fit(*rows)
        assert 0.8 < covered(model, noise(2000, 1)) < 0.98

    def test_would_fool_folds_that_part_them(self, rows: Rows, cheap: Make) -> None:
        # Told apart by digits that change no prediction.
        x = rows[0] + 1e-9 * np.arange(160)[:, None]
        model = cheap(**MEMORIZING, recalibrator="empirical").fit(x, rows[1])
        assert covered(model, noise(2000, 1)) < 0.75


@pytest.mark.parametrize(("n", "sets"), [(60, 30), (200, 15)])
def test_coverage_over_data_sets(
    n: int, sets: int, cheap: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over data sets, the mean coverage is the one asked for."""
    monkeypatch.setattr(families, "_ROUNDS", 60)  # the best is below
    settings = {
        "learners": ("network", "boosting"),  # trees from 100 rows on
        "members": 3,
        "hidden": (16,),
        "epochs": 40,
        "folds": 4,
        "batch_size": 64,
    }
    found = []
    for seed in range(sets):
        model = cheap(**settings, recalibrator="empirical", random_state=seed)
        model.fit(*waves(n, seed))
        found.append(covered(model, waves(200, 1000 + seed)))
    mean = float(np.mean(found))
    error = float(np.std(found)) / np.sqrt(sets)
    # A map of n ranks knows a level up to one of them.
    assert abs(mean - 0.9) < 2 / (n + 1) + 3 * error
    assert error < 0.012  # so that the band means something


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


class Line(nn.Module):
    """A linear mean with a spread of its own."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 2), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.layers(x).unbind(-1)
        return mean, nn.functional.softplus(spread) + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("network", ["deep_ensemble", "mc_dropout", Line])
@pytest.mark.parametrize("row", [0, 17])
def test_out_of_fold(cheap: Make, network: Any, row: int) -> None:
    x, y = positive_rows()
    settings = HARD | {"network": network, "passes": 3, "dropout": 0.2}
    first = cheap(**settings).fit(x, y)
    second = cheap(**settings).fit(x, changed(y, row))
    blind, seeing = members_that_saw(first, row)
    laws = [each.model_.members.networks.distribution for each in (first, second)]
    assert same(laws[0](x, blind), laws[1](x, blind))
    assert not same(laws[0](x, seeing), laws[1](x, seeing))


def test_held_out_rows_teach_no_member(cheap: Make) -> None:
    x, y = positive_rows()
    first = cheap(recalibrate_on="held_out", held_out_share=0.25).fit(x, y)
    second = cheap(recalibrate_on="held_out", held_out_share=0.25)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    _, held = Blocks(np.arange(N)).split(
        np.arange(N), 0.25, np.random.default_rng(seed)
    )
    second.fit(x, changed(y, int(held[3])))
    assert same(*(model.model_.members.distribution(x) for model in (first, second)))
    maps = [model.model_.recalibrator.apply([0.3]) for model in (first, second)]
    assert not torch.equal(*maps)
