"""The fused cumulative KL of Gaussian laws against the plain form, its reference."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor, nn
from torch.distributions import Laplace, LogNormal, Normal

from calibrant import Gaussian, InputError, QuantileRegularizer, cumulative_kl
from calibrant.regularizers._fused import fused_form
from calibrant.regularizers._ranks import _packed_argsort, _placed, _ranks, ranks_of
from calibrant.sorting import hard_sort

#: Quarters tie often and are exact, the others leave the density, and then float32.
DISTANCES = [*np.arange(-5, 5.25, 0.25), -40.0, -13.0, 11.5, 12.5, 13.0, 13.5, 1e3, 1e6]
batches = arrays(
    np.float64,
    st.one_of(
        st.tuples(st.integers(1, 40)),
        st.tuples(st.integers(1, 4), st.integers(1, 20)),
        st.tuples(st.just(2), st.integers(1, 3), st.integers(1, 9)),
    ),
    elements=st.sampled_from([float(each) for each in DISTANCES]),
)
anywhere = arrays(np.float64, st.integers(1, 60), elements=st.floats(-9, 9))


def plain(
    parts: list[Tensor], *, strength: float = 20.0, two_sided: bool = False
) -> Tensor:
    mean, stddev, y = parts
    pit = Gaussian(mean, stddev).pit(y)
    return strength * cumulative_kl(pit, two_sided=two_sided)


def fused(
    parts: list[Tensor],
    *,
    strength: float = 20.0,
    two_sided: bool = False,
    validate: bool = False,
) -> Tensor:
    mean, stddev, y = parts
    regularizer = partial(cumulative_kl, two_sided=two_sided)
    module = QuantileRegularizer(regularizer, strength=strength, validate=validate)
    return module(Gaussian(mean, stddev), y)


def is_fused(value: Tensor) -> bool:
    """Tell from the graph: strength times the value is one node in the fused form."""
    assert value.grad_fn is not None
    return "GaussianCumulativeKl" in value.grad_fn.name()


def with_gradients(function: object, parts: list[Tensor]) -> list[Tensor]:
    leaves = [part.clone().requires_grad_() for part in parts]
    value = function(leaves)  # type: ignore[operator]
    weights = torch.arange(1, value.numel() + 1).to(value).view(value.shape)
    gradients = torch.autograd.grad((weights * value).sum(), leaves)
    return [value.detach(), *gradients]


def batch_at(z: np.ndarray, dtype: torch.dtype) -> list[Tensor]:
    """Means, spreads and targets at given distances, without rounding up to 1e3."""
    distance = torch.from_numpy(z).to(dtype)
    rows = torch.arange(z.size).view(z.shape)
    stddev = 2.0 ** (rows % 3 - 1).to(dtype)
    mean = (rows % 2).to(dtype) * (distance.abs() < 1e3)
    return [mean, stddev, mean + stddev * distance]


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(z=batches)
def test_is_the_plain_form_with_ties_and_extremes(
    z: np.ndarray, dtype: torch.dtype, two_sided: bool
) -> None:
    parts = batch_at(z, dtype)
    got = with_gradients(partial(fused, two_sided=two_sided), parts)
    expected = with_gradients(partial(plain, two_sided=two_sided), parts)
    eps = torch.finfo(dtype).eps
    # 1/2 is the largest term of the value, and log(n) + 1 of the gradient's bracket.
    torch.testing.assert_close(got[0], expected[0], rtol=0, atol=20 * 4 * eps)
    for each, reference in zip(got[1:], expected[1:], strict=True):
        scale = 20 * 24 * 2 / z.shape[-1] * 5
        torch.testing.assert_close(each, reference, rtol=64 * eps, atol=eps * scale)


@given(z=anywhere)
def test_is_the_plain_form_anywhere(z: np.ndarray) -> None:
    parts = batch_at(z, torch.float64)
    got, expected = with_gradients(fused, parts), with_gradients(plain, parts)
    torch.testing.assert_close(got[0], expected[0], rtol=0, atol=1e-13)
    # Closer than the logarithm of a tail can tell, the plain form sees a tie.
    apart = np.diff(np.sort(z)).min(initial=1.0) > 1e-12
    for each, reference in zip(got[1:], expected[1:], strict=True):
        if apart:
            torch.testing.assert_close(each, reference, rtol=1e-11, atol=1e-12)


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
    torch.testing.assert_close(got[0].double(), exact[0], rtol=0, atol=4e-6)


@pytest.mark.parametrize("two_sided", [False, True])
def test_first_and_second_derivatives(
    two_sided: bool, generator: torch.Generator
) -> None:
    draw = partial(torch.randn, 2, 7, generator=generator)
    parts = [draw(), draw().abs() + 0.5, draw()]
    leaves = [part.requires_grad_() for part in parts]

    def value(*inputs: Tensor) -> Tensor:
        return fused(list(inputs), two_sided=two_sided)

    assert is_fused(value(*leaves))
    assert torch.autograd.gradcheck(value, leaves)
    assert torch.autograd.gradgradcheck(value, leaves)
    only_mean = (leaves[0], *(part.detach() for part in leaves[1:]))
    assert torch.autograd.gradgradcheck(value, only_mean)


def test_gradient_at_ties_is_shared_whatever_the_order_of_rows() -> None:
    # Equal z from different rows: 3 / 3, 1 / 1 and 7 / 7.
    y, stddev = torch.tensor([[3.0, 1.0, 7.0, -2.0], [3.0, 1.0, 7.0, 1.0]]).unbind(0)
    by_y = with_gradients(fused, [torch.zeros(4), stddev, y])[3]
    by_z = by_y * stddev
    torch.testing.assert_close(by_z[:3], by_z[:1].expand(3))
    order = torch.tensor([2, 3, 0, 1])
    shuffled = with_gradients(fused, [torch.zeros(4), stddev[order], y[order]])[3]
    torch.testing.assert_close(shuffled, by_y[order], rtol=1e-14, atol=0)


def test_no_rounding_to_infinity_or_nan_in_float32() -> None:
    tiny = torch.finfo(torch.float32).tiny
    mean = torch.tensor([0.0, 0.0, 0.0, 1e38, -3e38, 0.0, 0.0], dtype=torch.float32)
    stddev = torch.tensor([1.0, tiny, tiny, 1e-3, 1.0, 1e38, 1.0], dtype=torch.float32)
    y = torch.tensor([0.5, 1.0, -1.0, -1e38, 3e38, 1.0, -20.0], dtype=torch.float32)
    got = with_gradients(partial(fused, validate=True), [mean, stddev, y])
    expected = with_gradients(plain, [mean, stddev, y])
    for each, reference in zip(got, expected, strict=True):
        assert torch.isfinite(each).all()
        torch.testing.assert_close(each, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("law_shape", "y_shape"), [((3, 9), (9,)), ((9,), (4, 9)), ((2, 3, 9), (3, 9))]
)
def test_broadcast_shapes_and_dtypes_are_reduced(
    law_shape: tuple[int, ...], y_shape: tuple[int, ...], generator: torch.Generator
) -> None:
    mean = torch.randn(law_shape, generator=generator).float()
    stddev = torch.rand(law_shape, generator=generator) + 0.5
    y = torch.randn(y_shape, generator=generator)
    for parts in ([mean.double(), stddev, y], [mean, stddev.float(), y]):
        got, expected = with_gradients(fused, parts), with_gradients(plain, parts)
        for each, reference, like in zip(got, expected, [y, *parts], strict=True):
            torch.testing.assert_close(each, reference)
            assert each.dtype == like.dtype


def test_rows_on_another_axis(generator: torch.Generator) -> None:
    draw = partial(torch.randn, 20, 3, generator=generator)
    parts = [draw(), draw().abs() + 0.5, draw()]

    def rows_first(leaves: list[Tensor]) -> Tensor:
        value = QuantileRegularizer(dim=0)(Gaussian(*leaves[:2]), leaves[2])
        assert is_fused(value)
        return value

    got = with_gradients(rows_first, parts)
    expected = with_gradients(lambda leaves: plain([each.T for each in leaves]), parts)
    for each, reference in zip(got, expected, strict=True):
        torch.testing.assert_close(each, reference)


def test_nan_stays_in_its_row_where_nothing_is_validated() -> None:
    nan = torch.nan
    mean, y = torch.tensor([[0.0, nan, 1.0, 0.0], [0.3, 0.0, 0.5, 40.0]]).unbind(0)
    got = with_gradients(fused, [mean, torch.ones(4), y])
    expected = with_gradients(plain, [mean, torch.ones(4), y])
    assert torch.isnan(got[0])
    assert torch.isfinite(got[1][[0, 2, 3]]).all()
    for each, reference in zip(got, expected, strict=True):
        torch.testing.assert_close(each, reference, equal_nan=True)
    missing = [mean.nan_to_num(0.0), torch.ones(4), torch.where(mean.isnan(), nan, y)]
    for each, reference in zip(with_gradients(fused, missing), expected, strict=True):
        torch.testing.assert_close(each, reference, equal_nan=True)


def test_a_sum_that_overflows_is_no_bad_target() -> None:
    y = torch.full((2,), 3e38, dtype=torch.float32)
    law = Gaussian(y, torch.ones(2, dtype=torch.float32))
    assert torch.isfinite(QuantileRegularizer()(law, y))


def test_which_predictions_are_fused() -> None:
    class Shifted(Normal):
        pass

    mean = torch.zeros(8, requires_grad=True)
    one, y = torch.ones(8), torch.randn(8)
    for law in (Gaussian(mean, one), Normal(mean, one), (mean, one), (mean, 1.0)):
        assert is_fused(QuantileRegularizer()(law, y))
        assert is_fused(QuantileRegularizer(sort="hard", memory=9).eval()(law, y))
        assert not is_fused(QuantileRegularizer(memory=9)(law, y))
        assert not is_fused(QuantileRegularizer(sort="soft")(law, y))
        assert not is_fused(QuantileRegularizer("cramer_von_mises")(law, y))
    for law in (Shifted(mean, one), Laplace(mean, one), LogNormal(mean, one)):
        assert not is_fused(QuantileRegularizer()(law, y.exp()))
    assert not is_fused(QuantileRegularizer()(Gaussian(mean, one).cdf(y)))


def test_which_regularizers_have_a_fused_form() -> None:
    assert fused_form(partial(cumulative_kl, sort=hard_sort)) == fused_form(
        cumulative_kl
    )
    both = fused_form(partial(cumulative_kl, two_sided=True))
    assert both is not None
    assert both.two_sided
    assert fused_form(lambda pit: cumulative_kl(pit)) is None
    assert fused_form(partial(cumulative_kl, sort=lambda values: values)) is None


@given(z=batches)
def test_ranks_on_other_devices_are_those_on_the_cpu(z: np.ndarray) -> None:
    values, table = torch.from_numpy(z), torch.arange(z.shape[-1]).double() ** 2
    here, there = ranks_of(values), _ranks(values)
    assert here[2:] == there[2:]
    assert (here.run is None) == (there.run is None)
    torch.testing.assert_close(here.entries(table), there.entries(table))
    torch.testing.assert_close(
        _placed(table, there.order), there._replace(run=None).entries(table)
    )


@pytest.mark.parametrize("shape", [(1,), (4096,), (3, 2, 700)])
def test_packed_values_are_sorted_as_plain_ones(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    values.reshape(-1)[::7] = np.round(values.reshape(-1)[::7])  # ties
    edges = [0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3e38]
    flat = values.reshape(-1)
    flat[: len(edges)] = edges[: flat.size]
    order = _packed_argsort(values)
    assert np.array_equal(np.sort(order, -1), np.argsort(order * 0, -1, kind="stable"))
    ordered = np.take_along_axis(values, order, -1)
    assert np.array_equal(ordered, np.sort(values, -1))


def test_many_rows_give_what_few_of_them_would_by_the_plain_sort() -> None:
    values = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0))
    values = values.float().mul(50).round()  # ties in every row
    packed, plain = ranks_of(values), [ranks_of(row) for row in values]
    table = torch.arange(1000.0)
    together = packed.entries(table)
    assert torch.equal(together, torch.stack([row.entries(table) for row in plain]))
    assert packed.lowest == float(values.min())
    assert packed.highest == float(values.max())


def test_is_ready_for_training_after_inference() -> None:
    parameter, y = nn.Parameter(torch.zeros(43)), torch.randn(43)
    regularizer = QuantileRegularizer()
    with torch.inference_mode():
        inferred = regularizer((parameter, torch.ones(43)), y)
    with torch.no_grad():
        measured = regularizer((parameter, torch.ones(43)), y)
    assert not measured.requires_grad
    trained = regularizer((parameter, torch.ones(43)), y)
    trained.backward()
    assert parameter.grad is not None
    assert inferred.item() == measured.item() == trained.item()


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


@pytest.mark.parametrize("regularizer", ["cumulative_kl", "cramer_von_mises"])
def test_each_member_can_have_its_own_strength(
    regularizer: str, generator: torch.Generator
) -> None:
    mean = torch.randn(3, 20, generator=generator, requires_grad=True)
    y = torch.randn(20, generator=generator)
    strengths = [0.0, 2.5, 20.0]
    module = QuantileRegularizer(regularizer, strength=torch.tensor(strengths))
    values = module(Gaussian(mean, 1.0), y)
    (gradient,) = torch.autograd.grad(values.sum(), mean)
    for member, strength in enumerate(strengths):
        row = mean[member].detach().requires_grad_()
        alone = QuantileRegularizer(regularizer, strength=strength)((row, 1.0), y)
        torch.testing.assert_close(values[member], alone)
        (expected,) = torch.autograd.grad(alone, row)
        torch.testing.assert_close(gradient[member], expected)
    assert "strength=0 to 20 for (3,) members" in repr(module)
    assert not module.state_dict()
    single = Gaussian(mean.float(), 1.0)
    assert module(single, y.float()).dtype == torch.float32


def test_a_strength_that_does_not_fit_is_refused(generator: torch.Generator) -> None:
    y = torch.randn(20, generator=generator)
    for make in (QuantileRegularizer, partial(QuantileRegularizer, "cramer_von_mises")):
        module = make(strength=torch.ones(3))
        with pytest.raises(InputError, match=r"each member.*\(3,\) and.*shape \(\)"):
            module((torch.zeros(20), 1.0), y)
        with pytest.raises(InputError, match=r"\(3,\) and a regularizer of shape \(4,"):
            module((torch.zeros(4, 20), 1.0), y)
    for bad in ([1.0, -1.0], [1.0, float("nan")], [float("inf"), 0.0]):
        with pytest.raises(InputError, match=r"at least 0 for every member: 1 of 2"):
            QuantileRegularizer(strength=torch.tensor(bad))
    with pytest.raises(InputError, match=r"strength must be a float tensor"):
        QuantileRegularizer(strength=torch.tensor([1, 2]))
    assert QuantileRegularizer(strength=torch.tensor(3.0)).strength == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_far_target_of_one_member_leaves_the_others_bit_for_bit(
    dtype: torch.dtype,
) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(3, 64, generator=generator, dtype=dtype)
    far = y.clone()
    far[0, 3] = 500.0
    gradients = []
    for target in (y, far):
        mean = torch.zeros(3, 64, dtype=dtype, requires_grad=True)
        law = Gaussian(mean, torch.ones_like(mean))
        value = QuantileRegularizer(validate=False)(law, target)
        gradients.append(torch.autograd.grad(value.sum(), mean)[0])
    assert torch.equal(gradients[0][1:], gradients[1][1:])
