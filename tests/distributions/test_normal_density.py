"""The fused normal log density is its plain form: values, gradients, transforms."""

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from calibrant import Gaussian, InputError, QuantileRegularizer
from calibrant.distributions import normal
from calibrant.distributions.normal import _log_scaled_density, log_scaled_density

# torch's own transforms use what torch itself calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def spreads(dtype: torch.dtype, *, decades: float = 12) -> tuple[Tensor, Tensor]:
    distance = torch.randn(7, 100, dtype=dtype)
    exponents = torch.empty(7, 100, dtype=dtype).uniform_(-decades, 3)
    return distance, (torch.rand(7, 100, dtype=dtype) + 1e-3) * 10**exponents


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e10, 1e20, 1e30])
def test_values_and_gradients_are_bit_for_bit_the_plain_ones(
    dtype: torch.dtype, scale: float
) -> None:
    distance, stddev = spreads(dtype)
    gradient = torch.randn(7, 100, dtype=dtype)
    found = []
    for density in (log_scaled_density, _log_scaled_density):
        inputs = [(distance * scale).requires_grad_(), stddev.clone().requires_grad_()]
        value = density(*inputs)
        found.append((value, *torch.autograd.grad(value, inputs, gradient)))
    for fused, plain in zip(*found, strict=True):
        assert torch.equal(fused, plain)


@pytest.mark.parametrize("adversarial", [False, True])
def test_a_training_step_with_the_regularizer_is_the_same_bit_for_bit(
    adversarial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = torch.randn(2, 512, dtype=torch.float32)
    y = torch.randn(512, dtype=torch.float32)
    found = []
    for density in (log_scaled_density, _log_scaled_density):
        monkeypatch.setattr(normal, "log_scaled_density", density)
        learned = raw.clone().requires_grad_()
        mean, spread = learned.unbind(0)
        law = Gaussian(mean, 0.1 + 0.9 * torch.nn.functional.softplus(spread))
        score = -law.log_prob(y).mean()
        loss = score + 20 * QuantileRegularizer(strength=1.0)(law, y)
        slopes = []
        if adversarial:
            slopes += torch.autograd.grad(score, learned, retain_graph=True)
        found.append([*slopes, *torch.autograd.grad(loss, learned)])
    for fused, plain in zip(*found, strict=True):
        assert torch.equal(fused, plain)


def test_inputs_that_depend_on_each_other_are_followed_once() -> None:
    raw = torch.tensor([0.3, -0.2, 1.0], requires_grad=True)

    def loss(raw: Tensor) -> Tensor:
        stddev = torch.nn.functional.softplus(raw) + 0.1
        law = Gaussian(2 * stddev, stddev)
        regularizer = QuantileRegularizer()(law, torch.tensor([1.0, 2.0, -0.5]))
        return regularizer - law.log_prob(torch.tensor([1.0, 2.0, 4.0])).sum()

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


def test_transforms_of_functions_work() -> None:
    y = torch.tensor([0.5, -1.0])

    def total(mean: Tensor, stddev: Tensor) -> Tensor:
        return Gaussian(mean, stddev).log_prob(y).sum()

    mean, stddev = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])
    expected = torch.autograd.functional.jacobian(total, (mean, stddev))
    found = torch.func.grad(total, argnums=(0, 1))(mean, stddev)
    torch.testing.assert_close(found, expected)
    _, tangent = torch.func.jvp(total, (mean, stddev), (torch.ones(2), torch.ones(2)))
    assert float(tangent) == pytest.approx(float(sum(each.sum() for each in expected)))


@pytest.mark.parametrize("moved", [(1.0, 0.0), (0.0, 1.0), (1.0, -2.0)])
def test_forward_derivatives(moved: tuple[float, float]) -> None:
    distance, stddev = torch.tensor([0.5, -3.0, 1e20]), torch.tensor([1.0, 2.0, 1.0])
    expected = torch.autograd.functional.jvp(
        _log_scaled_density,
        (distance, stddev),
        tuple(torch.full((3,), each) for each in moved),
    )[1]
    with forward_ad.dual_level():
        inputs = [
            forward_ad.make_dual(each, torch.full((3,), by)) if by else each
            for each, by in zip((distance, stddev), moved, strict=True)
        ]
        tangent = forward_ad.unpack_dual(log_scaled_density(*inputs)).tangent
    torch.testing.assert_close(tangent, expected)


def test_many_gradients_at_once() -> None:
    inputs = [torch.tensor([0.5, -3.0], requires_grad=True), torch.ones(2)]
    value = log_scaled_density(*inputs)
    (rows,) = torch.autograd.grad(
        value, inputs[:1], torch.eye(2), is_grads_batched=True
    )
    torch.testing.assert_close(rows, torch.diag(torch.tensor([-0.5, 3.0])))


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
