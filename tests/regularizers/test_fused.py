"""The closed form of Gaussian predictions against the plain form, its reference."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor, nn
from torch.distributions import Laplace, LogNormal, Normal

from calibrant import Gaussian, QuantileRegularizer
from calibrant.regularizers import cumulative_kl
from calibrant.regularizers.module import gaussian_cumulative_kl

#: Quarters tie often and are exact, the others leave the density, and then float32.
DISTANCES = [*np.arange(-5, 5.25, 0.25), -40.0, -13.0, 11.5, 12.5, 13.0, 13.5, 1e3, 1e6]
batches = arrays(
    np.float64,
    st.one_of(
        st.tuples(st.integers(1, 40)),
        st.tuples(st.integers(1, 4), st.integers(1, 20)),
        st.tuples(st.just(2), st.integers(1, 3), st.integers(1, 9)),
    ),
    elements=st.sampled_from([float(z) for z in DISTANCES]),
)


def plain(parts: list[Tensor]) -> Tensor:
    mean, stddev, y = parts
    return cumulative_kl(Gaussian(mean, stddev).pit(y))


def fused(parts: list[Tensor]) -> Tensor:
    return gaussian_cumulative_kl(*parts)


def is_fused(value: Tensor) -> bool:
    """Tell from the graph, through the factor of the strength."""
    names, node = [], value.grad_fn
    for _ in range(2):
        names.append("" if node is None else node.name())
        node = node.next_functions[0][0] if node and node.next_functions else None
    return any("GaussianCumulativeKl" in name for name in names)


def with_gradients(function: object, parts: list[Tensor]) -> list[Tensor]:
    leaves = [part.clone().requires_grad_() for part in parts]
    value = function(leaves)  # type: ignore[operator]
    weights = torch.arange(1, value.numel() + 1).to(value).view(value.shape)
    gradients = torch.autograd.grad((weights * value).sum(), leaves)
    return [value.detach(), *gradients]


def assert_same(parts: list[Tensor], **tolerance: float) -> None:
    got, expected = with_gradients(fused, parts), with_gradients(plain, parts)
    for found, reference in zip(got, expected, strict=True):
        torch.testing.assert_close(found, reference, equal_nan=True, **tolerance)


def batch_at(z: np.ndarray, dtype: torch.dtype) -> list[Tensor]:
    """Means, spreads and targets at given distances, without rounding up to 1e3."""
    distance = torch.from_numpy(z).to(dtype)
    rows = torch.arange(z.size).view(z.shape)
    stddev = 2.0 ** (rows % 3 - 1).to(dtype)
    mean = (rows % 2).to(dtype) * (distance.abs() < 1e3)
    return [mean, stddev, mean + stddev * distance]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(z=batches)
def test_is_the_plain_form_with_ties_and_extremes(
    z: np.ndarray, dtype: torch.dtype
) -> None:
    parts, eps = batch_at(z, dtype), torch.finfo(dtype).eps
    got, expected = with_gradients(fused, parts), with_gradients(plain, parts)
    # 1/2 is the largest term of the value, and log(n) + 1 of the gradient's bracket.
    torch.testing.assert_close(got[0], expected[0], rtol=0, atol=4 * eps)
    for found, reference in zip(got[1:], expected[1:], strict=True):
        scale = 24 * 2 / z.shape[-1] * 5
        torch.testing.assert_close(found, reference, rtol=64 * eps, atol=eps * scale)


@pytest.mark.parametrize("spread", [0.3, 1.0, 4.0])
def test_float32_is_as_close_to_float64_as_the_plain_form(
    spread: float, generator: torch.Generator
) -> None:
    draw = partial(torch.randn, 50, 512, generator=generator, dtype=torch.float32)
    parts = [draw(), draw().abs() + 0.1, spread * draw()]
    exact = with_gradients(plain, [part.double() for part in parts])
    got, reference = with_gradients(fused, parts), with_gradients(plain, parts)
    for truth, ours, theirs in zip(exact, got, reference, strict=True):
        error, bar = (ours - truth).square().mean(), (theirs - truth).square().mean()
        assert error < 2 * bar


def test_first_and_second_derivatives(generator: torch.Generator) -> None:
    draw = partial(torch.randn, 2, 7, generator=generator)
    parts = [draw(), draw().abs() + 0.5, draw()]
    leaves = [part.requires_grad_() for part in parts]
    assert torch.autograd.gradcheck(gaussian_cumulative_kl, leaves)
    assert torch.autograd.gradgradcheck(gaussian_cumulative_kl, leaves)
    only_mean = (leaves[0], *(part.detach() for part in leaves[1:]))
    assert torch.autograd.gradgradcheck(gaussian_cumulative_kl, only_mean)


def test_no_rounding_to_infinity_or_nan_in_float32() -> None:
    tiny = torch.finfo(torch.float32).tiny
    mean = torch.tensor([0.0, 0.0, 0.0, 1e38, -3e38, 0.0, 0.0], dtype=torch.float32)
    stddev = torch.tensor([1.0, tiny, tiny, 1e-3, 1.0, 1e38, 1.0], dtype=torch.float32)
    y = torch.tensor([0.5, 1.0, -1.0, -1e38, 3e38, 1.0, -20.0], dtype=torch.float32)
    assert_same([mean, stddev, y], rtol=1e-5, atol=1e-6)
    assert torch.isfinite(fused([mean, stddev, y]))


def test_nan_stays_in_its_row() -> None:
    mean, y = torch.tensor([[0.0, torch.nan, 1.0, 0.0], [0.3, 0.0, 0.5, 40.0]])
    assert_same([mean, torch.ones(4), y])
    value, by_mean, *_ = with_gradients(fused, [mean, torch.ones(4), y])
    assert torch.isnan(value)
    assert torch.isfinite(by_mean[[0, 2, 3]]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_digit_depends_on_how_far_another_member_is(dtype: torch.dtype) -> None:
    y = torch.randn(3, 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    far = y.clone()
    far[0, 3] = 500.0
    gradients = []
    for target in (y, far):
        mean = torch.zeros(3, 64, dtype=dtype, requires_grad=True)
        value = gaussian_cumulative_kl(mean, torch.ones_like(mean), target)
        gradients.append(torch.autograd.grad(value.sum(), mean)[0])
    assert torch.equal(gradients[0][1:], gradients[1][1:])


def test_which_predictions_are_fused() -> None:
    class Shifted(Normal):
        pass

    mean = torch.zeros(8, requires_grad=True)
    one, y = torch.ones(8), torch.randn(8)
    for prediction in (
        Gaussian(mean, one),
        Normal(mean, one),
        (mean, one),
        (mean, 1.0),
    ):
        assert is_fused(QuantileRegularizer()(prediction, y))
        assert is_fused(
            QuantileRegularizer(sort="hard", memory=9).eval()(prediction, y)
        )
        for plain_one in (
            QuantileRegularizer(memory=9),
            QuantileRegularizer(sort="soft"),
            QuantileRegularizer("cramer_von_mises"),
            QuantileRegularizer(partial(cumulative_kl, two_sided=True), strength=1),
        ):
            assert not is_fused(plain_one(prediction, y))
    for other in (Shifted(mean, one), Laplace(mean, one), LogNormal(mean, one)):
        assert not is_fused(QuantileRegularizer()(other, y.exp()))
    assert not is_fused(QuantileRegularizer()(Gaussian(mean, one).cdf(y)))


def test_is_ready_for_training_after_inference() -> None:
    parameter, y = nn.Parameter(torch.zeros(43)), torch.randn(43)
    regularizer = QuantileRegularizer()
    with torch.inference_mode():
        inferred = regularizer((parameter, torch.ones(43)), y)
    trained = regularizer((parameter, torch.ones(43)), y)
    trained.backward()
    assert parameter.grad is not None
    assert inferred.item() == trained.item()


@pytest.mark.filterwarnings("ignore")  # the compiler warns about itself
def test_a_compiler_gets_the_plain_form() -> None:
    y = torch.randn(44)

    def value(mean: Tensor) -> Tensor:
        return QuantileRegularizer(validate=False)(Gaussian(mean, torch.ones(44)), y)

    mean = torch.zeros(44, requires_grad=True)
    compiled = torch.compile(value, backend="aot_eager")(mean)
    torch.testing.assert_close(compiled, value(mean))
    (gradient,) = torch.autograd.grad(compiled, mean)
    torch.testing.assert_close(gradient, torch.autograd.grad(value(mean), mean)[0])
