"""What is promised about coverage, on simulated data whose truth is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from calibrant.estimator import CalibratedRegressor
from calibrant.estimator._design import Design, Unit
from calibrant.estimator._fitting import (
    Fitted,
    Table,
    fit_members,
    fit_recalibrators,
    unseen_laws,
)
from calibrant.estimator._folds import Blocks
from calibrant.estimator._members import Architecture
from calibrant.training import Recipe

Make = Callable[..., CalibratedRegressor]
Array = npt.NDArray[np.float64]
Rows = tuple[Array, Array]

pytestmark = pytest.mark.slow

# A network that learns noise by heart: nothing stops it.
MEMORIZING: dict[str, Any] = {
    "members": 1,
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
    # 160 PIT values tell a coverage of 0.9 up to 0.024, three times that is allowed;
    # more above, because a mixture of calibrated folds is wider than each of them.
    assert honest > 0.82
    assert flattered < 0.6


class TestCopies:
    """All rows twice: the folds must keep a row and its copy together."""

    order = np.random.default_rng(3).permutation(160)

    @pytest.fixture
    def rows(self) -> Rows:
        x, y = noise(80, 2)
        return np.tile(x, (2, 1))[self.order], np.tile(y, 2)[self.order]

    def test_are_no_help(self, rows: Rows, cheap: Make) -> None:
        model = cheap(**MEMORIZING, recalibrator="empirical").fit(*rows)
        fresh = noise(2000, 1)
        assert covered(model, fresh) > 0.87
        # Of the 20 rows of a fold, as the map sees 40, one is left out at each end:
        # 18 / 21 = 0.86 is expected, up to three times 0.034 for four folds.
        assert 0.75 < covered_by_folds(model.model_, fresh) < 0.97
        for unit in model.model_.units:
            own = {tuple(row) for row in rows[0][unit.calibration]}
            assert len(own) == len(unit.calibration) / 2

    def test_would_fool_folds_that_part_them(self, rows: Rows) -> None:
        number, copy = self.order % 80, self.order // 80
        fitted = fitted_with(rows, (number + copy) % 4)
        assert covered_by_folds(fitted, noise(2000, 1)) < 0.7


def covered_by_folds(fitted: Fitted, rows: Rows) -> float:
    """Coverage of each fold's corrected law, before they are mixed; the mean."""
    found = []
    y = torch.from_numpy(rows[1])
    for unit, recalibrator in zip(fitted.units, fitted.recalibrators, strict=True):
        law: Any = recalibrator.transform(fitted.members.law(rows[0], unit.members))  # type: ignore[union-attr]
        low, high = law.interval(0.9)
        found.append(float(((low <= y) & (y <= high)).double().mean()))
    return float(np.mean(found))


def fitted_with(rows: Rows, folds: npt.NDArray[np.int64]) -> Fitted:
    """The same model, piece by piece, with any folds."""
    table = Table(*rows, Blocks(np.arange(len(folds))))
    design = Design(
        tuple(np.flatnonzero(folds != fold) for fold in range(4)),
        tuple(
            Unit((fold,), np.flatnonzero(folds == fold), float((folds == fold).mean()))
            for fold in range(4)
        ),
    )
    recipe = Recipe(
        **{name: MEMORIZING[name] for name in Recipe.names() if name in MEMORIZING}
    )
    members, _ = fit_members(
        table,
        design,
        Architecture("deep_ensemble", {"hidden": (128,), "floor": 1e-3}),
        recipe,
        seed=0,
        validation_share=0.1,
        options={"device": "cpu"},
    )
    laws = unseen_laws(members, design, table)
    maps = fit_recalibrators(laws, table, "empirical", seed=0)
    return Fitted(members, design.units, maps)


@pytest.mark.parametrize(("n", "sets"), [(60, 30), (200, 15)])
def test_coverage_over_data_sets(n: int, sets: int, cheap: Make) -> None:
    """Pooled over data sets, coverage is that asked for, and above the guarantee."""
    folds = 4
    settings = {
        "members": 1,
        "hidden": (16,),
        "epochs": 40,
        "folds": folds,
        "batch_size": 64,
    }
    found = []
    for seed in range(sets):
        model = cheap(**settings, recalibrator="empirical", random_state=seed)
        model.fit(*waves(n, seed))
        found.append(covered(model, waves(200, 1000 + seed)))
    mean = float(np.mean(found))
    error = float(np.std(found)) / np.sqrt(sets)
    # Both tails of the bound in the class's notes, at a = 0.05.
    a = (0.05 * (n + folds) + 1) / (n + 1)
    guaranteed = 1 - 2 * (2 * a + 2 * (1 - 1 / folds) / (n / folds + 1))
    assert mean > guaranteed
    # A map of m ranks knows a level up to one of them, and errs to the wide side: so
    # does a mixture, which is wider than its parts. The rest is the data sets' noise.
    one_rank = 1 / (n / folds + 1)
    assert -3 * error < mean - 0.9 < one_rank + 3 * error
    assert error < 0.01  # so that the band means something
