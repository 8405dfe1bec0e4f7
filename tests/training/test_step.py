"""One step is what the equations say."""

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant import Gaussian, InputError, Recipe
from calibrant.regularizers import cumulative_kl
from calibrant.scores import beta_nll, nll
from calibrant.training import SCHEDULES
from calibrant.training.loop import Trainer
from small_training import ensemble, fit, problem, seeded


def trainer_of(network: Any, data: Any, **recipe: Any) -> Any:
    recipe = {"batch_size": 64, "epochs": 10, **recipe}
    return Trainer(network, data, Recipe(**recipe), seeded())


def gradients_of_a_step(trainer: Any, rows: Tensor) -> list[Tensor]:
    found: list[Tensor] = []

    def note(*_: Any) -> None:
        found.extend(each.grad.clone() for each in trainer.parameters)

    trainer.optimizer.register_step_pre_hook(note)
    trainer.step(rows, "here")
    return found


def by_hand(network: Any, loss: Tensor) -> list[Tensor]:
    parameters = list(network.parameters())
    return list(torch.autograd.grad(loss, parameters, retain_graph=True))


def rows_of(members: int, n: int = 64) -> Tensor:
    return torch.arange(n).repeat(members, 1)


@pytest.mark.parametrize("strength", [0.0, 20.0])
def test_the_loss_is_the_mean_score_and_the_regularizer(strength: float) -> None:
    network, data = ensemble(2), problem(2)
    predictive = network(data.x)
    pit = predictive.pit(data.y)
    regularizer = cumulative_kl(pit)
    loss = nll(predictive, data.y).mean(1) + strength * regularizer
    expected = by_hand(network, loss.sum())
    trainer = trainer_of(network, data, strength=strength)
    found = gradients_of_a_step(trainer, rows_of(2))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    fresh = trainer_of(ensemble(2), data, strength=strength)
    values = fresh.step(rows_of(2), "here")
    assert values[0] == pytest.approx(loss.mean().item())
    assert values[1] == pytest.approx(regularizer.mean().item() if strength else 0)


def test_an_adversarial_step_is_that_of_two_passes_by_hand() -> None:
    network = ensemble(2)
    # Each member's reach is a share of the range over its own rows.
    rows = [torch.arange(64), torch.arange(20)]
    data = problem(2, rows=rows)
    order = torch.stack([rows[0], rows[1].repeat(4)[:64]])
    x, y = data.x[order].requires_grad_(), data.y.gather(1, order)
    predictive = network(x)
    score = nll(predictive, y).mean(1)
    (slope,) = torch.autograd.grad(score.sum(), x, retain_graph=True)
    ranges = torch.stack(
        [data.x[each].max(0).values - data.x[each].min(0).values for each in rows]
    )
    moved = (x + 0.1 * ranges[:, None] * slope.sign()).detach()
    other = nll(network(moved), y).mean(1)
    loss = 0.5 * (score + 20 * cumulative_kl(predictive.pit(y)) + other)
    expected = by_hand(network, loss.sum())
    plain = by_hand(network, (score + 20 * cumulative_kl(predictive.pit(y))).sum())
    trainer = trainer_of(network, data, adversarial=0.1, strength=20.0)
    found = gradients_of_a_step(trainer, order)
    for one, same, without in zip(found, expected, plain, strict=True):
        torch.testing.assert_close(one, same)
        assert (one - without).abs().max() > 1e-3


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_beta_nll_is_the_likelihood_with_a_factor_without_gradient(beta: float) -> None:
    mean = torch.tensor([0.0, 1.0], requires_grad=True)
    spread = torch.tensor([0.5, 3.0], requires_grad=True)
    y = torch.tensor([0.7, -2.0])
    value = beta_nll(Gaussian(mean, spread), y, beta=beta)
    density = stats.norm.logpdf(y, mean.detach(), spread.detach())
    factor = spread.detach() ** (2 * beta)
    torch.testing.assert_close(value, -torch.from_numpy(density) * factor)
    by_mean, by_spread = torch.autograd.grad(value.sum(), [mean, spread])
    z = (y - mean.detach()) / spread.detach()
    torch.testing.assert_close(by_mean, -z / spread.detach() * factor)
    torch.testing.assert_close(by_spread, (1 - z**2) / spread.detach() * factor)


def test_gradients_are_shortened_member_by_member() -> None:
    data = problem(2)
    y = data.y.clone()
    y[1] *= 1e-3
    data = problem(2, y=y)
    free = gradients_of_a_step(trainer_of(ensemble(2), data), rows_of(2))
    norms = torch.stack([each.flatten(1).square().sum(1) for each in free]).sum(0)
    norms = norms.sqrt()
    longest = norms.mean().item()  # one is longer, one is shorter
    trainer = trainer_of(ensemble(2), data, gradient_clip=longest)
    for one, other in zip(gradients_of_a_step(trainer, rows_of(2)), free, strict=True):
        factor = (longest / norms).clamp_max(1).view(-1, 1, 1)
        torch.testing.assert_close(one, other * factor)
    assert (norms > longest).sum() == 1


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_the_schedule_sets_the_learning_rate_of_each_step(name: str) -> None:
    schedule = SCHEDULES[name]
    trainer = trainer_of(
        ensemble(1),
        problem(1),
        schedule=name,
        batch_size=16,
        epochs=2,
        learning_rate=0.5,
    )
    rates: list[float] = []
    trainer.optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    for epoch in (1, 2):
        trainer.epoch(epoch)
    assert rates == [0.5 * schedule(step / 8) for step in range(8)]


def test_refuses_what_cannot_be_trained() -> None:
    with pytest.raises(InputError, match="no parameters to train"):
        fit(torch.nn.Identity(), problem(1))
    with pytest.raises(InputError, match="for 2 members and the network has 3"):
        fit(ensemble(3), problem(2))
    with pytest.raises(InputError, match="for 2 members and the network has 1"):
        fit(torch.nn.Linear(3, 2), problem(2))
    with pytest.raises(InputError, match="for each of the 2 members, got 3"):
        fit(ensemble(2), problem(2), strength=[1.0, 2.0, 3.0])
    with pytest.raises(InputError, match=r"patience=3\) looks at rows that are not"):
        fit(ensemble(2), problem(2), patience=3)
    for name in ("score", "schedule", "regularizer"):
        with pytest.raises(InputError, match=f"{name}: no {name} is called 'x'"):
            fit(ensemble(1), problem(1), **{name: "x"})
