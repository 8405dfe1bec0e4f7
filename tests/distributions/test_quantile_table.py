"""The table of quantiles against its own definition, atoms and tails included."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
from scipy import integrate
from torch import Tensor

from calibrant.distributions import QuantileTable
from calibrant.validation import InputError

double = partial(torch.tensor, dtype=torch.float64)
LEVELS = double([0.1, 0.3, 0.8, 0.95])
VALUES = double([[-1.0, 0.0, 0.5, 3.0], [10.0, 11.0, 12.0, 12.5]])
ATOM = double([[0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 1.0]])


def predictive() -> QuantileTable:
    return QuantileTable(LEVELS, VALUES)


def test_tails_continue_the_density_and_hold_their_mass() -> None:
    ends = torch.stack([VALUES[:, 0], VALUES[:, -1]])
    outside = torch.tensor([[-1e-9], [1e-9]])
    torch.testing.assert_close(
        predictive().log_prob(ends + outside),
        predictive().log_prob(ends - outside),
        rtol=1e-6,
        atol=0,
    )
    density = [0.2 / 1.0, 0.15 / 2.5]
    tail = predictive()[:1].pit(torch.tensor([[-3.0], [5.0]]))
    expected = math.log(0.1) - 2.0 * density[0] / 0.1
    torch.testing.assert_close(tail.log_cdf[0, 0].item(), expected)
    expected = math.log(0.05) - 2.0 * density[1] / 0.05
    torch.testing.assert_close(tail.log_survival[1, 0].item(), expected)


def test_density_integrates_to_one_and_moments_to_theirs() -> None:
    single = predictive()[torch.tensor(0)]
    knots = [-30.0, *VALUES[0].tolist(), 60.0]

    def moment(power: int) -> float:
        def integrand(x: float) -> float:
            return x**power * single.log_prob(x).exp().item()

        pieces = pairwise(knots)
        return sum(integrate.quad(integrand, *piece)[0] for piece in pieces)

    mean = single.mean.item()
    assert moment(0) == pytest.approx(1, abs=1e-8)
    assert moment(1) == pytest.approx(mean, abs=1e-7)
    assert moment(2) - moment(1) ** 2 == pytest.approx(single.variance.item(), abs=1e-5)


@pytest.mark.parametrize("values", [VALUES, ATOM], ids=["smooth", "atoms"])
@pytest.mark.parametrize("shift", [-8.0, -0.3, 0.2, 1.0, 9.0])
def test_crps_is_its_definition(
    crps_by_definition: Callable[..., Tensor], values: Tensor, shift: float
) -> None:
    table = QuantileTable(LEVELS, values)
    y = values[:, 1] + shift
    expected = crps_by_definition(table, y, LEVELS.tolist())
    torch.testing.assert_close(table.crps(y), expected, rtol=1e-9, atol=1e-9)


def test_atoms_jump_from_the_right_and_have_infinite_density() -> None:
    table = QuantileTable(LEVELS, ATOM)
    just_below, at = torch.tensor([1 - 1e-12, -1e-12]), torch.tensor([1.0, 0.0])
    torch.testing.assert_close(table.cdf(just_below), torch.tensor([0.3, 0.0]))
    torch.testing.assert_close(table.cdf(at), torch.tensor([0.8, 0.3]))
    torch.testing.assert_close(table.survival(at), torch.tensor([0.2, 0.7]))
    assert table.log_prob(at).eq(torch.inf).all()
    assert (table.log_prob(just_below) < -1e300).tolist() == [False, True]
    torch.testing.assert_close(table.quantile(0.5), torch.tensor([1.0, 0.4]))


def test_tails_next_to_outer_atoms_have_no_width() -> None:
    table = QuantileTable(LEVELS, ATOM)[1:]
    assert table.quantile(0.0).item() == 0.0
    assert table.quantile(1.0).item() == 1.0
    assert table.cdf(torch.tensor([[-0.1], [1.0], [1.1]])).flatten().tolist() == [
        0,
        1,
        1,
    ]
    assert table.pit(torch.tensor([1.5])).log_survival.isfinite().all()
    assert table.log_prob(torch.tensor([1.5])).item() < -1e300
    assert table.mean.item() == pytest.approx(0.5 * 0.5 + 0.2 * 1.0)


@pytest.mark.parametrize(
    ("levels", "values", "message"),
    [
        ([0.5], [[1.0]], "k >= 2"),
        ([0.0, 0.5], [[1.0, 2.0]], r"strictly inside \(0, 1\).*tails are added"),
        ([0.5, 0.1], [[1.0, 2.0]], "increase strictly"),
        ([0.1, 90.0], [[1.0, 2.0]], r"levels must lie in \[0, 1\].*0\.9 for 90"),
        ([0.1, 0.9], [[1.0, 2.0, 3.0]], r"shape \(\*batch, 2\).*\(1, 3\)"),
        ([0.1, 0.9], [[1.0, 2.0], [2.0, 1.0]], r"1 of 2 rows cross.*values\[1\].*sort"),
        ([0.1, 0.9], [2.0, 1.0], r"the first is values\. Sort"),
        ([0.1, 0.9], [1.0, math.nan], "values must be finite"),
    ],
)
def test_refuses_bad_tables(
    levels: list[float], values: list[object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        QuantileTable(levels, values)
