"""What rounding, saturation and second derivatives must not do in silence."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from torch import Tensor, distributions

from calibrant.distributions import (
    AbstractDistribution,
    Gaussian,
    GaussianMixture,
    Laplace,
    QuantileTable,
    StudentT,
    TorchDistribution,
)
from calibrant.validation import UnsupportedError, as_float_tensor

single = partial(torch.tensor, dtype=torch.float32)
double = partial(torch.tensor, dtype=torch.float64)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1e9 + 0.25]), torch.float64),
        ([0.5], torch.float64),
        (np.array([0.5], dtype=np.float32), torch.float32),
        (np.array([0.5], dtype=np.float16), torch.float32),
        (0.3, torch.float32),
        (np.float64(0.3), torch.float32),
        (7, torch.float32),
        (np.array([7, 8]), torch.float32),
        (np.array([True, False]), torch.float32),
        (np.array([2**24 + 1]), torch.float64),
        (2**24 + 1, torch.float64),
    ],
)
def test_no_array_is_cast_below_its_precision(values: Any, dtype: torch.dtype) -> None:
    kept = as_float_tensor(values, name="y", like=single([0.0]))
    assert kept.dtype == dtype
    assert as_float_tensor(values, name="y").dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_halved_distributions_have_a_finite_score(dtype: torch.dtype) -> None:
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=dtype, requires_grad=True)
    y = torch.tensor([0.1, 3.0, 20.0], dtype=dtype)
    predictive = TorchDistribution(distributions.HalfNormal(scale))
    score = predictive.crps(y)
    expected = [
        _score_by_scipy(stats.halfnorm(scale=row + 1), float(at))
        for row, at in enumerate(y)
    ]
    torch.testing.assert_close(score.double(), double(expected), rtol=3e-7, atol=1e-7)
    score.sum().backward()
    assert scale.grad is not None
    assert scale.grad.isfinite().all()
    last = 1 - torch.finfo(dtype).eps / 2
    assert predictive.quantile(last).isfinite().all()
    assert predictive.quantile(1.0).eq(torch.inf).all()
    with pytest.raises(UnsupportedError, match=r"finite mean.*HalfCauchy"):
        TorchDistribution(distributions.HalfCauchy(scale)).crps(y)


def _score_by_scipy(frozen: Any, y: float) -> float:
    below = integrate.quad(lambda t: frozen.cdf(t) ** 2, frozen.ppf(1e-14), y)
    above = integrate.quad(lambda t: frozen.sf(t) ** 2, y, max(y, frozen.isf(1e-14)))
    return below[0] + above[0]


Ask = Callable[[Tensor], Tensor]
ZEROS = torch.zeros(2, dtype=torch.float64)
ONCE: dict[str, Ask] = {
    "student quantile": lambda df: StudentT(df, ZEROS, 1.0).quantile(0.3),
    "mixture quantile": lambda s: GaussianMixture(
        double([[-1.0, 0.0], [1.0, 2.0]]), s.expand(2, 2)
    ).quantile(0.3),
    "gamma quantile": lambda rate: TorchDistribution(
        distributions.Gamma(double([2.0, 3.0]), rate)
    ).quantile(0.3),
}


@pytest.mark.parametrize("ask", ONCE.values(), ids=ONCE.keys())
def test_second_derivatives_are_refused_rather_than_wrong(ask: Ask) -> None:
    parameter = double([1.3, 0.8]).requires_grad_()
    assert torch.autograd.gradcheck(ask, parameter)
    with pytest.raises(RuntimeError, match="only first derivatives"):
        torch.autograd.grad(ask(parameter).sum(), parameter, create_graph=True)


@pytest.mark.parametrize("mixed", [False, True])
def test_saturated_tails_of_torch_distributions_have_no_gradient(mixed: bool) -> None:
    location, scale = single([0.0] * 4).requires_grad_(), single([[1.0, 1.0]] * 4)
    y = single([-89.0, -300.0, 0.5, 300.0]).requires_grad_()
    gumbel = distributions.Gumbel(location, scale[:, 0])
    if mixed:
        parts = distributions.Gumbel(location[:, None], scale)
        weights = distributions.Categorical(scale)
        gumbel = distributions.MixtureSameFamily(weights, parts)
    pit = TorchDistribution(gumbel).pit(y)
    sum(part.sum() for part in pit).backward()
    assert pit.cdf[[0, 1, 3]].tolist() == [0.0, 0.0, 1.0]
    for leaf in (location, y):
        assert leaf.grad is not None
        assert leaf.grad[[0, 1, 3]].tolist() == [0.0, 0.0, 0.0]
        assert leaf.grad[2].abs() > 0.1


PREDICTIVES: dict[str, Callable[[Tensor, Tensor], AbstractDistribution]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "mixture": lambda mean, scale: GaussianMixture(
        mean.expand(2, 3), scale.expand(2, 3)
    ),
}


@pytest.mark.parametrize("build", PREDICTIVES.values(), ids=PREDICTIVES.keys())
def test_a_scale_of_nearly_nothing_stays_finite(
    build: Callable[[Tensor, Tensor], AbstractDistribution],
) -> None:
    mean = single([0.0] * 3).requires_grad_()
    stddev = single([1e-30] * 3).requires_grad_()
    y = single([1.0, -1.0, 1e12]).requires_grad_()
    predictive = build(mean, stddev)
    answers = [
        *predictive.pit(y),
        predictive.survival(y),
        predictive.log_prob(y),
        predictive.crps(y),
    ]
    assert all(answer.isfinite().all() for answer in answers)
    torch.testing.assert_close(predictive.crps(y), y.abs())
    for answer in answers:
        slopes = torch.autograd.grad(answer.sum(), (mean, stddev, y), retain_graph=True)
        assert all(slope.isfinite().all() for slope in slopes)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_transformed_distributions_end_where_their_base_does(sign: float) -> None:
    normal = distributions.Normal(ZEROS, ZEROS + 1)
    transforms = [
        distributions.ExpTransform(),
        distributions.AffineTransform(1.0, 2.0 * sign),
    ]
    predictive = TorchDistribution(
        distributions.TransformedDistribution(normal, transforms)
    )
    y = 1 + sign * double([-0.5, 2.0])
    outside = 0.0 if sign > 0 else 1.0
    torch.testing.assert_close(predictive.cdf(y), double([outside, 0.5]))
    assert predictive.log_prob(y)[0] == -torch.inf
    assert predictive.log_prob(y)[1].isfinite()
    spread = 2 * np.exp(0.5) * (1 - special.erf(0.5))
    torch.testing.assert_close(predictive.crps([1.0, 1.0]), double([spread, spread]))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 2e-7), (torch.float32, 3e-6)]
)
def test_score_without_icdf_is_the_closed_form(
    dtype: torch.dtype, tolerance: float
) -> None:
    shape, rate = np.array([0.3, 0.7, 2.0, 30.0]), np.array([1.0, 1.0, 0.1, 5.0])
    frozen, heavier = (stats.gamma(a, scale=1 / rate) for a in (shape, shape + 1))
    predictive = TorchDistribution(
        distributions.Gamma(
            torch.tensor(shape, dtype=dtype), torch.tensor(rate, dtype=dtype)
        )
    )
    for y in (frozen.ppf(0.01), frozen.ppf(0.5), frozen.ppf(0.97), 20 * frozen.mean()):
        expected = (
            y * (2 * frozen.cdf(y) - 1)
            - shape / rate * (2 * heavier.cdf(y) - 1)
            - 1 / (rate * special.beta(0.5, shape))
        )
        score = predictive.crps(torch.tensor(y, dtype=dtype))
        torch.testing.assert_close(
            score.double(), torch.tensor(expected), rtol=tolerance, atol=0
        )


SYMMETRIC: dict[str, AbstractDistribution] = {
    "gaussian": Gaussian(single([0.0, 0.0]), 1.0),
    "laplace": Laplace(single([0.0, 0.0]), 1.0),
    "student": StudentT(3.0, single([0.0, 0.0]), 1.0),
    "mixture": GaussianMixture(single([[-1.0, 0.0], [1.0, 0.0]]), 1.0),
    "table": QuantileTable([0.25, 0.75], single([[-1.0, 1.0], [-2.0, 2.0]])),
}


@pytest.mark.parametrize("predictive", SYMMETRIC.values(), ids=SYMMETRIC.keys())
def test_nearly_certain_intervals_are_symmetric(
    predictive: AbstractDistribution,
) -> None:
    lower, upper = predictive.interval(1 - 1e-8)
    assert upper.isfinite().all()
    torch.testing.assert_close(upper, -lower)
    assert upper.dtype == torch.float32
