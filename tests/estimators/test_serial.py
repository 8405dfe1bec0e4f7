"""Rows whose order matters are noticed, others are left in peace."""

import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

from calibrant.estimators import CalibratedRegressor, SerialDependenceWarning
from calibrant.estimators._serial import warn_of_order

Make = Callable[..., CalibratedRegressor]
Array = npt.NDArray[np.float64]


def series(n: int = 200) -> tuple[Array, Array]:
    """Noise that remembers, beside a feature that tells nothing of it."""
    random = np.random.default_rng(0)
    noise = np.zeros(n)
    for row in range(1, n):
        noise[row] = 0.9 * noise[row - 1] + random.standard_normal()
    return random.standard_normal((n, 1)), noise


def test_a_series_without_time_is_noticed(cheap: Make) -> None:
    with pytest.warns(SerialDependenceWarning, match=r"correlation 0\.[6-9].*time="):
        cheap().fit(*series())


def test_with_time_it_is_known(cheap: Make) -> None:
    x, y = series()
    cheap().fit(x, y, time=np.arange(len(y)))


def test_shuffled_rows_are_left_in_peace(cheap: Make) -> None:
    x, y = series()
    order = np.random.default_rng(1).permutation(len(y))
    cheap().fit(x[order], y[order])


def test_rows_of_a_group_may_be_alike(cheap: Make) -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(25), 8)
    y = random.standard_normal(25)[groups] + 0.1 * random.standard_normal(200)
    x = random.standard_normal((200, 1))
    with pytest.warns(SerialDependenceWarning, match="groups="):
        cheap().fit(x, y)
    cheap().fit(x, y, groups=groups)


def test_the_warning_points_at_the_caller(cheap: Make) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cheap(epochs=1).fit(*series())
    (warning,) = [w for w in caught if w.category is SerialDependenceWarning]
    assert warning.filename == __file__


class TestWarnOfOrder:
    def test_few_rows_say_nothing(self) -> None:
        warn_of_order(torch.linspace(0, 1, 49))

    def test_constant_values_say_nothing(self) -> None:
        warn_of_order(torch.full((100,), 0.5))

    def test_a_slow_drift(self) -> None:
        with pytest.warns(
            SerialDependenceWarning, match=r"correlation 0\.9\d over 100"
        ):
            warn_of_order(torch.linspace(0, 1, 100), stacklevel=1)

    def test_neighbors_of_one_block_do_not_count(self) -> None:
        pit = torch.rand(200, generator=torch.Generator().manual_seed(0))
        twice = pit.repeat_interleave(2)
        with pytest.warns(SerialDependenceWarning):
            warn_of_order(twice)
        warn_of_order(twice, np.repeat(np.arange(200), 2))

    def test_alternating_errors_are_no_reason(self) -> None:
        warn_of_order(torch.tensor([0.1, 0.9]).repeat(100))

    def test_chance_seldom_warns(self) -> None:
        generator = torch.Generator().manual_seed(0)
        for _ in range(200):
            warn_of_order(torch.rand(500, generator=generator))
