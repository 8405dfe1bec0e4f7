"""Derivatives of the normal log density and of the regularizer beside it."""

import pytest
import torch
from torch import Tensor

from calibrant import Gaussian, InputError, QuantileRegularizer

# torch's own transforms use what torch itself calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def test_inputs_that_depend_on_each_other_are_followed_once() -> None:
    raw = torch.tensor([0.3, -0.2, 1.0], requires_grad=True)

    def loss(raw: Tensor) -> Tensor:
        stddev = torch.nn.functional.softplus(raw) + 0.1
        predictive = Gaussian(2 * stddev, stddev)
        regularizer = QuantileRegularizer()(predictive, torch.tensor([1.0, 2.0, -0.5]))
        return regularizer - predictive.log_prob(torch.tensor([1.0, 2.0, 4.0])).sum()

    (first,) = torch.autograd.grad(loss(raw), raw)
    (again,) = torch.autograd.grad(loss(raw), raw, create_graph=True)
    torch.testing.assert_close(again, first)
    step = 1e-6
    for place in range(3):
        moved = torch.zeros(3)
        moved[place] = step
        slope = (loss(raw + moved) - loss(raw - moved)).item() / (2 * step)
        assert slope == pytest.approx(first[place].item(), rel=1e-5)
    curvature = torch.autograd.functional.hessian(loss, raw)
    torch.testing.assert_close(curvature, curvature.T)


def test_a_negative_spread_is_refused_beside_one_that_is_none() -> None:
    with pytest.raises(InputError, match="above 0"):
        Gaussian([0.0, 0.0], [float("nan"), -1.0])
    assert Gaussian([0.0], [float("nan")]).stddev.isnan().all()


def test_a_second_backward_needs_the_graph() -> None:
    mean = torch.zeros(5, requires_grad=True)
    value = QuantileRegularizer()((mean, torch.ones(5)), torch.linspace(-1, 1, 5))
    value.backward()
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
