"""One step is what the equations say, also with weights and rows apart."""

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from calibrant import Gaussian, InputError, TrainingData
from calibrant.regularizers import cumulative_kl
from calibrant.scores import beta_nll, nll
from calibrant.training import SCHEDULES, Recipe
from calibrant.training.loop import Trainer
from small_training import ensemble, fit, problem, seeded, weights_of


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


FULL = {"batch_size": 64, "epochs": 8}


def test_weight_two_is_a_row_twice() -> None:
    weights = torch.ones(64)
    weights[:10] = 2
    weighted, repeated = ensemble(2), ensemble(2)
    fit(weighted, problem(2, weights=weights), **FULL)
    rows = torch.cat([torch.arange(64), torch.arange(10)])
    fit(repeated, problem(2, rows=[rows] * 2), **{**FULL, "batch_size": 100})
    for one, other in zip(weighted.parameters(), repeated.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


def test_only_ratios_matter_for_each_member() -> None:
    weights = torch.rand(64)
    rows = [torch.arange(64), torch.arange(30)]
    networks = [ensemble(2), ensemble(2)]
    for factor, network in zip((1.0, 7.0), networks, strict=True):
        data = problem(2, rows=rows, weights=factor * weights)
        fit(network, data, strength=10.0)
        means = data.member_weights()
        assert means is not None
        for each, own in zip(means, rows, strict=True):
            assert each[own].mean().item() == pytest.approx(1)
    for one, other in zip(*(each.parameters() for each in networks), strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=0)


def test_the_regularizer_ignores_them() -> None:
    weights = torch.rand(64)
    histories = [
        fit(
            ensemble(1),
            problem(1, weights=each),
            strength=5.0,
            batch_size=64,
            epochs=1,
        )
        for each in (None, weights)
    ]
    assert histories[0].regularizer == pytest.approx(histories[1].regularizer)
    assert histories[0].loss != pytest.approx(histories[1].loss)


def test_held_out_scores_are_weighted_too() -> None:
    held_out = [torch.arange(50, 64)]
    rows = [torch.arange(50)]
    weights = torch.ones(64)
    weights[57:] = 0
    scores = [
        fit(
            ensemble(1),
            problem(1, rows=rows, held_out=[out], weights=each),
            epochs=1,
        ).held_out_score
        for out, each in (
            (held_out[0], weights),
            (held_out[0][:7], None),
            # Rows of weight 0 alone count as equals.
            (held_out[0][7:], weights),
            (held_out[0][7:], None),
        )
    ]
    assert scores[0] == pytest.approx(scores[1])
    assert scores[2] == pytest.approx(scores[3])
    assert scores[0] != pytest.approx(scores[2])


def apart(members: int = 2) -> TrainingData:
    rows = [torch.arange(40)] * members
    others = [torch.arange(40, 64), torch.arange(44, 64)][:members]
    return problem(members, rows=rows, regularized=others)


def test_batches_have_no_row_twice_and_pass_all() -> None:
    n, few = 300, 260
    data = TrainingData(
        x=torch.zeros(n, 1),
        y=torch.zeros(2, n),
        rows=[torch.arange(n)] * 2,
        regularized=[torch.arange(n), torch.arange(few)],
    )
    batches = data.regularized_batches(seeded())
    drawn = [next(batches) for _ in range(4)]
    assert all(rows.shape == (2, 128) for rows in drawn)
    for first, second in ((0, 1), (2, 3)):
        together = torch.cat([drawn[first], drawn[second]], dim=1)
        assert all(len(own.unique()) == 256 for own in together)
        assert together[1].max() < few
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("whole", [False, True])
def test_the_loss_is_the_score_plus_the_regularizer_of_other_rows(whole: bool) -> None:
    data, network = apart(), ensemble(2)
    recipe = Recipe(strength=3.0, regularize_whole=whole, batch_size=16)
    trainer = Trainer(network, data, recipe, seeded())
    rows = torch.arange(16).repeat(2, 1)
    drawn = torch.stack([torch.arange(40, 60), torch.arange(44, 64)])
    trainer.apart = iter([drawn])
    x, y = data.batch(rows)
    loss, value = trainer._loss(x, y, rows)
    # By hand, and through the graph.
    hidden_x, hidden_y = data.batch(drawn)
    predicted = network(hidden_x)
    mean = predicted.mean if whole else predicted.mean.detach()
    normal = torch.distributions.Normal(mean, predicted.stddev)
    by_hand = cumulative_kl(normal.cdf(hidden_y))
    score = -network(x).log_prob(y).mean(1)
    assert value is not None
    torch.testing.assert_close(value, by_hand)
    torch.testing.assert_close(loss, score + 3 * by_hand)
    weights = list(network.parameters())
    found = torch.autograd.grad(value.sum(), weights)
    expected = torch.autograd.grad(by_hand.sum(), weights)
    torch.testing.assert_close(found, expected)
    # Of the last layer's two outputs, the mean's weights are not pulled.
    pulled = found[-1].reshape(2, -1).abs().amin(0) > 0
    assert pulled.tolist() == [whole, True]


def test_nothing_else_is_drawn_without_such_rows() -> None:
    data = apart()
    plain = problem(2, rows=data.rows)
    states = []
    for given in (plain, data):  # strength 0: the rows are not asked for
        network = ensemble(2)
        fit(network, given, strength=0.0)
        states.append(weights_of(network))
    for before, after in zip(*states, strict=True):
        assert torch.equal(before, after)
