"""A regularizer with rows of its own, in the training loop."""

import pytest
import torch

from calibrant import TrainingData
from calibrant.regularizers import cumulative_kl
from calibrant.training import Recipe
from calibrant.training.loop import Trainer
from small_training import ensemble, fit, problem, seeded, weights_of


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
