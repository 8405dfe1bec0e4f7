"""What every regularizer in the table must do, with every sorter that it can use."""

import inspect
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from calibrant import Gaussian, InputError
from calibrant.protocols import Regularizer
from calibrant.regularizers import REGULARIZERS, STRENGTHS
from calibrant.sorting import SORTERS


def sorts(name: str) -> bool:
    return "sort" in inspect.signature(REGULARIZERS[name]).parameters


PAIRS = [
    pytest.param(
        partial(REGULARIZERS[name], sort=SORTERS[sort]) if sort else REGULARIZERS[name],
        id=f"{name}-{sort or 'unsorted'}",
    )
    for name in REGULARIZERS
    for sort in (SORTERS if sorts(name) else [None])
]
NAMES = list(REGULARIZERS)


def over_confident(n: int, factor: float, generator: torch.Generator) -> Tensor:
    predictive = Gaussian(torch.zeros(n), torch.full((n,), factor))
    return predictive.cdf(torch.randn(n, generator=generator))


@pytest.mark.parametrize("regularizer", PAIRS)
def test_gradient_matches_finite_differences(
    regularizer: Regularizer, generator: torch.Generator
) -> None:
    places = torch.randperm(10, generator=generator)
    pit = (places + 0.3 + 0.4 * torch.rand(10, generator=generator)) / 10
    assert torch.autograd.gradcheck(regularizer, [pit.requires_grad_()])


@pytest.mark.parametrize("regularizer", PAIRS)
def test_reduces_the_last_axis_row_by_row(
    regularizer: Regularizer, generator: torch.Generator
) -> None:
    pit = torch.rand(2, 3, 20, generator=generator)
    one_by_one = torch.stack([regularizer(row) for row in pit.flatten(0, 1)])
    assert one_by_one.shape == (6,)
    torch.testing.assert_close(regularizer(pit), one_by_one.unflatten(0, (2, 3)))


@pytest.mark.parametrize("regularizer", PAIRS)
def test_prefers_calibrated_values(
    regularizer: Regularizer, generator: torch.Generator
) -> None:
    perfect = regularizer(torch.rand(256, generator=generator))
    narrow = regularizer(over_confident(256, 0.5, generator))
    narrower = regularizer(over_confident(256, 0.2, generator))
    timid = regularizer(over_confident(256, 3.0, generator))
    shifted = regularizer(torch.rand(256, generator=generator) ** 3)
    assert perfect < narrow < narrower
    assert perfect < timid
    assert perfect < shifted


@pytest.mark.parametrize("regularizer", PAIRS)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_batches_ties_and_ends_are_finite(
    regularizer: Regularizer, n: int, dtype: torch.dtype
) -> None:
    for constant in (0.0, 0.5, 1.0):
        pit = torch.full((n,), constant, dtype=dtype, requires_grad=True)
        value = regularizer(pit)
        value.backward()
        assert value.dtype == dtype
        assert torch.isfinite(value)
        assert pit.grad is not None
        assert torch.isfinite(pit.grad).all()


@pytest.mark.parametrize("name", NAMES)
@given(
    values=arrays(np.float32, st.integers(1, 40), elements=st.floats(0, 1, width=32)),
    random=st.randoms(use_true_random=False),
)
def test_any_input_is_finite_and_its_order_does_not_matter(
    name: str, values: np.ndarray, random: object
) -> None:
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    pit = torch.from_numpy(values.copy()).requires_grad_()
    value = REGULARIZERS[name](pit)
    (gradient,) = torch.autograd.grad(value, pit)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()
    shuffled = REGULARIZERS[name](pit.detach()[order])
    torch.testing.assert_close(value.detach(), shuffled, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_takes_precise_tails_and_plain_values_alike(
    name: str, generator: torch.Generator
) -> None:
    y = torch.randn(50, generator=generator)
    predictive = Gaussian(torch.zeros(50), torch.ones(50))
    precise = REGULARIZERS[name](predictive.pit(y))
    torch.testing.assert_close(precise, REGULARIZERS[name](predictive.cdf(y)))


@pytest.mark.parametrize("name", NAMES)
def test_float32_of_a_gaussian_is_finite_far_out(name: str) -> None:
    far = torch.tensor([5.5, 10.0, 14.0, 1e3, 1e6], dtype=torch.float32)
    y = torch.cat([torch.linspace(-2, 2, 40).float(), far, -far]).requires_grad_()
    predictive = Gaussian(torch.zeros(50).float(), torch.ones(50).float())
    value = REGULARIZERS[name](predictive.pit(y))
    value.backward()
    assert torch.isfinite(value)
    assert y.grad is not None
    assert torch.isfinite(y.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_pulls_the_spread_as_hard_as_the_papers_regularizer(
    name: str, generator: torch.Generator
) -> None:
    # What the default strengths are made from: two thirds of the true spread, n = 512.
    y = torch.randn(20, 512, generator=generator)

    def pull(which: str) -> float:
        log_spread = torch.full((20, 512), np.log(2 / 3), requires_grad=True)
        predictive = Gaussian(torch.zeros(20, 512), log_spread.exp())
        value = STRENGTHS[which] * REGULARIZERS[which](predictive.pit(y)).sum()
        (gradient,) = torch.autograd.grad(value, log_spread)
        return float(gradient.sum())

    ratio = pull(name) / pull("cumulative_kl")
    if name == "spacing_entropy":  # its strength is the authors'
        assert 0.1 < ratio < 10
    else:
        assert 0.7 < ratio < 1.4


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("pit", "match"),
    [
        (
            torch.tensor([0.1, 1.7]),
            r"in \[0, 1\]: 1 of 2.*pit\[1\] = 1.7.*not y itself",
        ),
        (torch.tensor([[0.1, 0.2], [-0.5, 1.0]]), r"1 of 4.*pit\[1, 0\] = -0.5"),
        (torch.tensor([0.1, float("nan")]), r"pit\[1\] = nan.*diverged"),
        (torch.tensor([0, 1]), r"float tensor, got dtype torch.int64"),
        (torch.tensor(0.5), r"\(\.\.\., n\) with n >= 1, got \(\)"),
        (torch.empty(0), r"with n >= 1, got \(0,\)"),
        (torch.rand(5, 1), r"rows on the last axis, got \(5, 1\).*squeeze\(-1\)"),
        (["a", "b"], r"numeric, got an array of dtype"),
    ],
)
def test_refuses_what_is_not_a_batch_of_pit_values(
    name: str, pit: Tensor, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        REGULARIZERS[name](pit)


def test_the_table_and_the_strengths_belong_together() -> None:
    assert list(REGULARIZERS) == list(STRENGTHS)
    assert all(strength > 0 for strength in STRENGTHS.values())
    for name in REGULARIZERS:
        text = REGULARIZERS[name].__doc__ or ""
        assert f"Default strength: {STRENGTHS[name]:g}" in text
        assert "perfect calibration" in text
        assert "References" in text
