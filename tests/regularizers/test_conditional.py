"""ConditionalRegularizer: groups, keys, and what the marginal form cannot see."""

import pytest
import torch
from torch import Tensor

from calibrant import ConditionalRegularizer, Gaussian, InputError, QuantileRegularizer
from calibrant.regularizers import cumulative_kl


def by_hand(pit: Tensor, key: Tensor, groups: int) -> float:
    """Loop over groups of rows sorted by the key, weighted by their size."""
    rows = torch.tensor_split(pit[key.argsort(stable=True)], groups)
    return sum(len(part) / len(pit) * float(cumulative_kl(part)) for part in rows)


@pytest.mark.parametrize("n", [64, 66, 67])
def test_is_the_mean_over_groups_and_keys(n: int, generator: torch.Generator) -> None:
    mean, std = torch.randn(n, generator=generator), torch.rand(n) + 0.5
    y = torch.randn(n, generator=generator)
    pit = Gaussian(mean, std).cdf(y)
    expected = (by_hand(pit, std, 4) + by_hand(pit, mean, 4)) / 2
    value = ConditionalRegularizer(strength=1)(Gaussian(mean, std), y)
    assert abs(float(value) - expected) < 1e-12
    columns = torch.randn(n, 2, generator=generator)
    value = ConditionalRegularizer(by=["features"], groups=3, strength=1)(
        (mean, std), y, columns
    )
    expected = sum(by_hand(pit, column, 3) for column in columns.T) / 2
    assert abs(float(value) - expected) < 1e-12


def test_gradient_reaches_the_parameters_but_not_the_keys(
    generator: torch.Generator,
) -> None:
    mean = torch.randn(16, generator=generator, requires_grad=True)
    std = (torch.rand(16, generator=generator) + 0.5).requires_grad_()
    y = torch.randn(16, generator=generator)
    assert torch.autograd.gradcheck(
        lambda m, s: ConditionalRegularizer(groups=2)(Gaussian(m, s), y), [mean, std]
    )


def test_short_batches_make_fewer_groups(generator: torch.Generator) -> None:
    for n in (1, 2, 7, 8, 15, 16, 31):
        predictive = Gaussian(torch.zeros(n), torch.rand(n, generator=generator) + 0.5)
        y = torch.randn(n, generator=generator)
        value = ConditionalRegularizer(by=["spread"], strength=1)(predictive, y)
        groups = max(1, min(4, n // 8))
        expected = by_hand(predictive.cdf(y), predictive.stddev, groups)
        assert abs(float(value) - expected) < 1e-12


def test_a_constant_key_is_one_group_whatever_the_order_of_rows(
    generator: torch.Generator,
) -> None:
    predictive = Gaussian(torch.zeros(64), torch.ones(64))
    y = torch.randn(64, generator=generator)
    value = ConditionalRegularizer()(predictive, y)
    torch.testing.assert_close(value, QuantileRegularizer()(predictive, y))
    shuffled = y[torch.randperm(64, generator=generator)]
    torch.testing.assert_close(ConditionalRegularizer()(predictive, shuffled), value)


PREDICTIVE = Gaussian(
    torch.zeros(8, dtype=torch.float64), torch.ones(8, dtype=torch.float64)
)


@pytest.mark.parametrize(
    ("options", "arguments", "match"),
    [
        ({"by": ["width"]}, None, r"by must be a list of keys out of spread, mean"),
        ({"by": "spread"}, None, r"by must be a list"),
        ({"by": []}, None, r"by must be a list"),
        ({"groups": 0}, None, r"groups \(0\)"),
        (
            {"by": ["features"]},
            (PREDICTIVE, torch.zeros(8)),
            r"exactly when.*features=None",
        ),
        (
            {},
            (PREDICTIVE, torch.zeros(8), torch.zeros(8, 1)),
            r"exactly when.*features=\(8, 1\)",
        ),
        (
            {"by": ["features"]},
            (PREDICTIVE, torch.zeros(8), torch.zeros(7, 1)),
            r"\(n, columns\) with n = 8, got \(7, 1\)",
        ),
        ({}, (torch.rand(8), None), r"needs the distribution and y"),
        (
            {"by": ["features"]},
            (PREDICTIVE, torch.zeros(8), torch.full((8, 1), torch.nan)),
            r"features must be finite: 8 of 8",
        ),
        ({}, (Gaussian([], []), []), r"shape \(0,\)"),
    ],
)
def test_bad_input_is_refused(
    options: dict[str, object], arguments: tuple[object, ...] | None, match: str
) -> None:
    def call() -> Tensor:
        regularizer = ConditionalRegularizer(**options)  # type: ignore[arg-type]
        return regularizer(*(arguments or (PREDICTIVE, torch.zeros(8))))

    with pytest.raises(InputError, match=match):
        call()
