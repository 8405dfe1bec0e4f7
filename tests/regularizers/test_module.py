"""QuantileRegularizer: what it accepts, its memory, autocast, and bad input."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import (
    Beta,
    Independent,
    Laplace,
    Normal,
)

from calibrant import (
    Empirical,
    Gaussian,
    GaussianMixture,
    InputError,
    QuantileRegularizer,
    as_distribution,
)
from calibrant.regularizers import REGULARIZERS, cramer_von_mises, cumulative_kl
from calibrant.sorting import neural_sort


@pytest.fixture
def y(generator: torch.Generator) -> Tensor:
    return torch.randn(40, generator=generator)


@pytest.mark.parametrize(
    "make",
    [
        lambda zero, one: Normal(zero, one),
        lambda zero, one: Laplace(zero, one),
        lambda zero, one: Gaussian(zero, one),
        lambda zero, one: GaussianMixture(zero.expand(3, 40), one.expand(3, 40)),
        lambda zero, one: (zero, one),
    ],
    ids=["torch-normal", "torch-laplace", "gaussian", "mixture", "pair"],
)
def test_takes_any_distribution_with_a_cdf(
    make: Callable[[Tensor, Tensor], object], y: Tensor
) -> None:
    predictive = make(torch.zeros(40), torch.ones(40))
    value = QuantileRegularizer()(predictive, y)
    torch.testing.assert_close(
        value, 20 * cumulative_kl(as_distribution(predictive).cdf(y))
    )


def test_options_reach_the_parts(y: Tensor) -> None:
    predictive = Normal(torch.zeros(40), torch.ones(40))
    pit = predictive.cdf(y)
    for name in REGULARIZERS:
        value = QuantileRegularizer(name, strength=2.0)(predictive, y)
        torch.testing.assert_close(value, 2 * REGULARIZERS[name](pit))
    warm = partial(neural_sort, temperature=0.05)
    value = QuantileRegularizer(strength=1, sort=warm)(predictive, y)
    torch.testing.assert_close(value, cumulative_kl(pit, sort=warm))
    value = QuantileRegularizer(strength=1, sort="neural")(predictive, y)
    torch.testing.assert_close(value, cumulative_kl(pit, sort=neural_sort))
    value = QuantileRegularizer(
        partial(cumulative_kl, two_sided=True), strength=1, sort="soft"
    )(predictive, y)
    assert value > 0
    own = QuantileRegularizer(lambda each: each.cdf.mean(-1), strength=3)
    torch.testing.assert_close(own(predictive, y), 3 * pit.mean())


def test_stacks_and_several_targets(generator: torch.Generator) -> None:
    y = torch.randn(5, 40, generator=generator)
    predictive = Normal(torch.zeros(5, 40), torch.ones(5, 40))
    stacked = QuantileRegularizer()(predictive, y)
    assert stacked.shape == (5,)
    shared = QuantileRegularizer()(predictive, y[0])  # one target for all members
    torch.testing.assert_close(shared, stacked[:1].expand(5))
    rows_first = Normal(torch.zeros(40, 5), torch.ones(40, 5))
    per_target = QuantileRegularizer(dim=0)(rows_first, y.T)
    torch.testing.assert_close(per_target, stacked)
    torch.testing.assert_close(QuantileRegularizer(dim=0)(predictive.cdf(y).T), stacked)
    one = Normal(torch.zeros(1, 5), torch.ones(1, 5))  # a last batch of one row
    assert QuantileRegularizer(dim=0)(one, y.T[:1]).shape == (5,)
    single = Normal(torch.zeros(5, 1), torch.ones(5, 1))
    assert QuantileRegularizer(validate=False)(single, y[:, :1]).shape == (5,)


def test_memory_adds_earlier_batches_without_their_gradient(
    generator: torch.Generator,
) -> None:
    first, second, third = torch.rand(3, 6, generator=generator)
    regularizer = QuantileRegularizer("cramer_von_mises", strength=1, memory=9)
    regularizer(first)
    leaf = second.clone().requires_grad_()
    value = regularizer(leaf)
    value.backward()
    torch.testing.assert_close(
        value.detach(), cramer_von_mises(torch.cat([second, first]))
    )
    joined = torch.cat([second, first]).requires_grad_()
    (whole,) = torch.autograd.grad(cramer_von_mises(joined), joined)
    torch.testing.assert_close(leaf.grad, 2 * whole[:6])  # (6 + 6) / 6
    # The queue holds the nine newest: all of the second batch, three of the first.
    torch.testing.assert_close(
        regularizer(third), cramer_von_mises(torch.cat([third, second, first[:3]]))
    )


def test_a_diverged_batch_does_not_stay_in_the_memory() -> None:
    regularizer = QuantileRegularizer(memory=20, validate=False)
    regularizer(torch.rand(5))
    assert torch.isnan(regularizer(torch.tensor([0.5, torch.nan])))
    assert torch.isfinite(regularizer(torch.rand(5)))


def test_a_distribution_that_cannot_be_trained_is_refused() -> None:
    samples = torch.randn(50, 10, requires_grad=True)
    with pytest.raises(InputError, match=r"cdf has a gradient.*GaussianMixture"):
        QuantileRegularizer()(Empirical(samples), torch.randn(10))
    measured = QuantileRegularizer()(Empirical(samples.detach()), torch.randn(10))
    assert not measured.requires_grad


@pytest.mark.filterwarnings("ignore")  # the compiler warns about itself
def test_can_be_compiled() -> None:
    pit = torch.rand(44, requires_grad=True)
    compiled = torch.compile(lambda u: cumulative_kl(u), backend="aot_eager")
    value = compiled(pit)
    torch.testing.assert_close(value, cumulative_kl(pit))
    (gradient,) = torch.autograd.grad(value, pit)
    (expected,) = torch.autograd.grad(cumulative_kl(pit), pit)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_break_it(dtype: torch.dtype) -> None:
    network = nn.Linear(4, 2).float()
    x, y = torch.randn(64, 4).float(), torch.randn(64).float()
    for sort in ("hard", "neural", "soft", "network"):
        regularizer = QuantileRegularizer(sort=sort)
        with torch.autocast("cpu", dtype=dtype):
            mean, raw = network(x).unbind(-1)
            assert mean.dtype == dtype
            std = nn.functional.softplus(raw) + 0.1
            value = regularizer(Normal(mean, std), y)
        assert value.dtype == torch.float32
        exact = regularizer(Normal(mean.double(), std.double()), y.double())
        torch.testing.assert_close(value.double(), exact, atol=1e-4, rtol=1e-4)
        value.backward()
        assert network.weight.grad is not None
        assert torch.isfinite(network.weight.grad).all()


NORMAL = Normal(torch.zeros(8), torch.ones(8))


@pytest.mark.parametrize(
    ("prediction", "y", "match"),
    [
        (
            NORMAL,
            torch.zeros(8, 1),
            r"batch shape \(8,\).*got \(8, 1\).*y.squeeze\(-1\)",
        ),
        (NORMAL, torch.zeros(7), r"batch shape \(8,\).*got \(7,\)"),
        (
            Normal(torch.zeros(8, 1), torch.ones(8, 1)),
            torch.zeros(8),
            r"batch shape \(8, 1\).*got \(8,\).*squeeze\(-1\) its parameters",
        ),
        (
            Normal(torch.zeros(8, 1), torch.ones(8, 1)),
            torch.zeros(8, 1),
            r"rows on the last axis, got \(8, 1\).*squeeze\(-1\)",
        ),
        (NORMAL, torch.zeros(8, dtype=torch.long), r"y must be a float tensor.*int64"),
        (NORMAL, torch.tensor([0.0] * 7 + [float("nan")]), r"y must be finite.*y\[7\]"),
        (NORMAL, torch.tensor([0.0] * 7 + [float("inf")]), r"y\[7\] = inf"),
        (
            (torch.tensor([0.0, float("nan")]), torch.ones(2)),
            torch.zeros(2),
            r"1 of 2 PIT values are NaN.*training diverged",
        ),
        ((torch.zeros(2), torch.tensor([1.0, -1.0])), torch.zeros(2), r"above 0.*-1"),
        ((torch.zeros(2), torch.ones(3)), torch.zeros(2), r"one shape, got \(2,\) and"),
        (
            Beta(torch.ones(3), torch.ones(3)),
            torch.rand(3),
            r"cdf",
        ),
        (
            Independent(Normal(torch.zeros(4, 2), torch.ones(4, 2)), 1),
            torch.zeros(4, 2),
            r"Independent",
        ),
        (Normal(0.0, 1.0), torch.tensor(0.5), r"got a distribution and a target of"),
        (
            torch.rand(8),
            torch.zeros(8),
            r"got a Tensor and y.*distribution, y",
        ),
        (NORMAL, None, r"got a Normal without y.*distribution, y"),
        ("nonsense", torch.zeros(3), r"distribution"),
    ],
)
def test_bad_input_is_refused_with_the_rule_and_the_remedy(
    prediction: object, y: Tensor | None, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        QuantileRegularizer()(prediction, y)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"regularizer": "cumulative_lk"},
            r"no regularizer.*Did you mean 'cumulative_kl",
        ),
        ({"sort": "quick"}, r"no sorter is called 'quick'; there are hard, neural"),
        ({"strength": float("nan")}, r"strength must be finite"),
        ({"memory": -5}, r"memory must be a whole number >= 0, got -5"),
        ({"memory": 2.5}, r"memory must be a whole number"),
        ({"regularizer": cumulative_kl}, r"strength must be given.*cumulative_kl"),
        (
            {"regularizer": "kernel_calibration", "sort": "hard"},
            r"'kernel_calibration' does not sort.*Leave sort out",
        ),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        QuantileRegularizer(**options)  # type: ignore[arg-type]
