"""What is promised about coverage, on simulated data whose truth is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from calibrant.estimators import CalibratedRegressor

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
    # 160 PIT values tell a coverage of 0.9 up to 0.024: three times that. More above,
    # because the correction for the size of the pool is cautious.
    assert 0.83 < honest < 0.985
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
        assert 0.8 < covered(model, noise(2000, 1)) < 0.999

    def test_would_fool_folds_that_part_them(self, rows: Rows, cheap: Make) -> None:
        # Told apart by digits that change no prediction.
        x = rows[0] + 1e-9 * np.arange(160)[:, None]
        model = cheap(**MEMORIZING, recalibrator="empirical").fit(x, rows[1])
        assert covered(model, noise(2000, 1)) < 0.75


@pytest.mark.parametrize(("n", "sets"), [(60, 30), (200, 15)])
def test_coverage_over_data_sets(n: int, sets: int, cheap: Make) -> None:
    """Over data sets, the mean coverage is the one asked for."""
    settings = {
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
