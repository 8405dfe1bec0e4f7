"""One step is what the equations say."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant import (
    SCHEDULES,
    Gaussian,
    InputError,
    MCDropout,
    Recipe,
    StudentT,
    beta_nll,
    crps,
    cumulative_kl,
    nll,
)
from calibrant.scores import mean_pinball
from calibrant.training.loop import Trainer


def trainer_of(network: Any, data: Any, tools: SimpleNamespace, **recipe: Any) -> Any:
    recipe = {"batch_size": 64, "epochs": 10, **recipe}
    return Trainer(network, data, Recipe(**recipe), tools.seeded())


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
def test_the_loss_is_the_mean_score_and_the_regularizer(
    strength: float, tools: SimpleNamespace
) -> None:
    network, data = tools.ensemble(2), tools.problem(2)
    law = network(data.x)
    pit = law.pit(data.y)
    regularizer = cumulative_kl(pit)
    loss = nll(law, data.y).mean(1) + strength * regularizer
    expected = by_hand(network, loss.sum())
    trainer = trainer_of(network, data, tools, strength=strength)
    found = gradients_of_a_step(trainer, rows_of(2))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    fresh = trainer_of(tools.ensemble(2), data, tools, strength=strength)
    values = fresh.step(rows_of(2), "here")
    assert values[0] == pytest.approx(loss.mean().item())
    assert values[1] == pytest.approx(regularizer.mean().item() if strength else 0)


def test_an_adversarial_step_is_that_of_two_passes_by_hand(
    tools: SimpleNamespace,
) -> None:
    network = tools.ensemble(2)
    # Each member's reach is a share of the range over its own rows.
    rows = [torch.arange(64), torch.arange(20)]
    data = tools.problem(2, rows=rows)
    order = torch.stack([rows[0], rows[1].repeat(4)[:64]])
    x, y = data.x[order].requires_grad_(), data.y.gather(1, order)
    law = network(x)
    score = nll(law, y).mean(1)
    (slope,) = torch.autograd.grad(score.sum(), x, retain_graph=True)
    ranges = torch.stack(
        [data.x[each].max(0).values - data.x[each].min(0).values for each in rows]
    )
    moved = (x + 0.1 * ranges[:, None] * slope.sign()).detach()
    other = nll(network(moved), y).mean(1)
    loss = 0.5 * (score + 20 * cumulative_kl(law.pit(y)) + other)
    expected = by_hand(network, loss.sum())
    plain = by_hand(network, (score + 20 * cumulative_kl(law.pit(y))).sum())
    trainer = trainer_of(network, data, tools, adversarial=0.1, strength=20.0)
    found = gradients_of_a_step(trainer, order)
    for one, same, without in zip(found, expected, plain, strict=True):
        torch.testing.assert_close(one, same)
        assert (one - without).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("name", "function"), [("crps", crps), ("pinball", mean_pinball)]
)
def test_other_scores(name: str, function: Any, tools: SimpleNamespace) -> None:
    network, data = tools.ensemble(2), tools.problem(2)
    expected = by_hand(network, function(network(data.x), data.y).mean(1).sum())
    trainer = trainer_of(network, data, tools, score=name)
    found = gradients_of_a_step(trainer, rows_of(2))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


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


def test_beta_nll_takes_any_prediction_and_trains(tools: SimpleNamespace) -> None:
    law = StudentT(5.0, torch.zeros(2), 2.0)
    y = torch.tensor([0.0, 1.0])
    torch.testing.assert_close(beta_nll(law, y, beta=0.0), nll(law, y))
    network, data = tools.ensemble(2), tools.problem(2)
    expected = by_hand(network, beta_nll(network(data.x), data.y).mean(1).sum())
    trainer = trainer_of(network, data, tools, score="beta_nll")
    found = gradients_of_a_step(trainer, rows_of(2))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_shortened_member_by_member(tools: SimpleNamespace) -> None:
    data = tools.problem(2)
    y = data.y.clone()
    y[1] *= 1e-3
    data = tools.problem(2, y=y)
    free = gradients_of_a_step(trainer_of(tools.ensemble(2), data, tools), rows_of(2))
    norms = torch.stack([each.flatten(1).square().sum(1) for each in free]).sum(0)
    norms = norms.sqrt()
    longest = norms.mean().item()  # one is longer, one is shorter
    trainer = trainer_of(tools.ensemble(2), data, tools, gradient_clip=longest)
    for one, other in zip(gradients_of_a_step(trainer, rows_of(2)), free, strict=True):
        factor = (longest / norms).clamp_max(1).view(-1, 1, 1)
        torch.testing.assert_close(one, other * factor)
    assert (norms > longest).sum() == 1


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_the_schedule_sets_the_learning_rate_of_each_step(
    name: str, tools: SimpleNamespace
) -> None:
    schedule = SCHEDULES[name]
    trainer = trainer_of(
        tools.ensemble(1),
        tools.problem(1),
        tools,
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


def test_schedules_have_their_shapes() -> None:
    assert [SCHEDULES["constant"](share) for share in (0, 0.5, 1)] == [1, 1, 1]
    cosine, warm = SCHEDULES["cosine"], SCHEDULES["warm_cosine"]
    assert cosine(0) == 1
    assert cosine(0.5) == pytest.approx(0.5)
    assert cosine(1) == 0
    assert warm(0) == 0.05
    assert warm(0.02) == pytest.approx(0.45 * cosine(0.02))
    assert warm(0.3) == cosine(0.3)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_weight_decay_is_that_of_the_optimizer(
    name: str, tools: SimpleNamespace
) -> None:
    network, data = tools.ensemble(1), tools.problem(1)
    twin = tools.ensemble(1)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    plain = kind(twin.parameters(), lr=0.01, weight_decay=0.3)
    trainer = trainer_of(
        network, data, tools, optimizer=name, weight_decay=0.3, learning_rate=0.01
    )
    for _ in range(5):
        trainer.step(rows_of(1), "here")
        plain.zero_grad()
        nll(twin(data.x), data.y).mean().backward()
        plain.step()
    for one, other in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


def test_a_short_last_batch_is_kept_and_weighted(tools: SimpleNamespace) -> None:
    network, data = tools.ensemble(1), tools.problem(1)
    trainer = trainer_of(network, data, tools, batch_size=50, learning_rate=1e-12)
    loss = trainer.epoch(1).loss
    assert loss == pytest.approx(nll(network(data.x), data.y).mean().item())


def test_dropout_is_drawn_anew_in_each_step(tools: SimpleNamespace) -> None:
    network = MCDropout(3, hidden=(64,), generator=tools.seeded())
    trainer = trainer_of(network, tools.problem(1), tools, learning_rate=1e-12)
    losses = {trainer.step(rows_of(1), "here")[0] for _ in range(5)}
    assert len(losses) == 5


def test_frozen_and_unused_parameters_are_left_alone(tools: SimpleNamespace) -> None:
    network = tools.ensemble(2)
    network.stack.weights[0].requires_grad_(False)
    network.unused = torch.nn.Parameter(torch.ones(2, 3))
    frozen = network.stack.weights[0].clone()
    tools.fit(network, tools.problem(2), gradient_clip=1.0)
    assert torch.equal(network.stack.weights[0], frozen)
    assert torch.equal(network.unused, torch.ones(2, 3))


def test_refuses_what_cannot_be_trained(tools: SimpleNamespace) -> None:
    with pytest.raises(InputError, match="no parameters to train"):
        tools.fit(torch.nn.Identity(), tools.problem(1))
    with pytest.raises(InputError, match="for 2 members and the network has 3"):
        tools.fit(tools.ensemble(3), tools.problem(2))
    with pytest.raises(InputError, match="for 2 members and the network has 1"):
        tools.fit(torch.nn.Linear(3, 2), tools.problem(2))
    with pytest.raises(InputError, match="for each of the 2 members, got 3"):
        tools.fit(tools.ensemble(2), tools.problem(2), strength=[1.0, 2.0, 3.0])
    with pytest.raises(InputError, match=r"patience=3\) looks at rows that are not"):
        tools.fit(tools.ensemble(2), tools.problem(2), patience=3)
    for name in ("score", "schedule", "regularizer"):
        with pytest.raises(InputError, match=f"{name}: no {name} is called 'x'"):
            tools.fit(tools.ensemble(1), tools.problem(1), **{name: "x"})
