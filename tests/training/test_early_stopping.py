"""Early stopping, interruption, callbacks, history."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant.metrics import calibration_error
from calibrant.scores import nll
from calibrant.training import EpochState, InterruptedWarning
from calibrant.training.loop import _calibration_error, _padded
from small_training import ensemble, fit, problem, weights_of


def split(members: int, **options: Any) -> Any:
    return problem(
        members,
        rows=[torch.arange(48)] * members,
        held_out=[torch.arange(48, 64)] * members,
        **options,
    )


def test_each_member_gets_its_own_best_weights_back() -> None:
    """The first member's held-out targets are its own, the second's are opposite."""
    data = split(2)
    y = data.y.clone()
    y[1, 48:] *= -1  # the better it learns, the worse it scores
    network, seen = ensemble(2), []
    history = fit(
        network,
        split(2, y=y),
        epochs=30,
        patience=30,
        callbacks=[lambda state: seen.append(weights_of(state.network)) and None],
    )
    first, second = history.best_epoch
    assert second < first
    for now, one, other in zip(
        network.parameters(), seen[first - 1], seen[second - 1], strict=True
    ):
        assert torch.equal(now[0], one[0])
        assert torch.equal(now[1], other[1])
    predictive = network(data.x[48:])
    best = nll(predictive, y[:, 48:]).mean(1)
    for weights in seen:
        with torch.no_grad():
            for now, then in zip(network.parameters(), weights, strict=True):
                now.copy_(then)
        assert (nll(network(data.x[48:]), y[:, 48:]).mean(1) >= best - 1e-12).all()
    assert not network.training


def test_held_out_numbers_are_those_of_the_metrics() -> None:
    network = ensemble(2)
    held_out = [torch.arange(40, 64), torch.arange(50, 60)]
    data = problem(2, rows=[torch.arange(40)] * 2, held_out=held_out)
    history = fit(network, data, epochs=1)
    predictive = network(data.x)
    scores = nll(predictive, data.y)
    means = [scores[i, own].mean() for i, own in enumerate(held_out)]
    assert history.held_out_score[0] == pytest.approx(sum(means).item() / 2)  # type: ignore[union-attr]
    pit = predictive.cdf(data.y)
    errors = [calibration_error(pit[i, own]) for i, own in enumerate(held_out)]
    assert history.held_out_calibration_error[0] == pytest.approx(sum(errors) / 2)


class Normalized(nn.Module):
    """A module with running statistics, which belong to its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.layers(x).unbind(-1)
        return mean, raw.exp()


def test_running_statistics_come_back_with_the_weights() -> None:
    data = split(1)
    y = data.y.clone()
    y[:, 48:] *= -1
    network, seen = Normalized(), []

    def note(state: EpochState) -> None:
        seen.append({k: v.clone() for k, v in state.network.state_dict().items()})

    history = fit(network, split(1, y=y), epochs=40, patience=5, callbacks=[note])
    best = history.best_epoch[0]
    assert best < len(seen)
    for name, values in network.state_dict().items():
        assert torch.equal(values, seen[best - 1][name]), name


@pytest.mark.parametrize("patience", [None, 10])
def test_ctrl_c_keeps_the_best_model(patience: int | None) -> None:
    network, seen = ensemble(2), []

    def interrupt(state: EpochState) -> None:
        seen.append((state.held_out_score, weights_of(state.network)))
        if state.epoch == 6:
            raise KeyboardInterrupt

    with pytest.warns(
        InterruptedWarning, match=r"interrupted after 6 of 50 epochs; the model keeps"
    ) as caught:
        history = fit(
            network,
            split(2),
            epochs=50,
            patience=patience,
            callbacks=[interrupt],
        )
    assert history.interrupted
    assert len(history.loss) == 6
    assert not network.training
    assert caught[0].filename.endswith("small_training.py")  # where train was called
    for member, epoch in enumerate(history.best_epoch):
        assert patience is not None or epoch == 6
        for now, then in zip(network.parameters(), seen[epoch - 1][1], strict=True):
            assert torch.equal(now[member], then[member])


def test_callbacks_see_every_epoch_and_may_stop() -> None:
    seen: list[EpochState] = []
    history = fit(
        ensemble(1),
        split(1),
        callbacks=[
            lambda state: seen.append(state) or state.epoch == 3,
            lambda _: False,
        ],
        epochs=10,
        strength=1.0,
    )
    assert [state.epoch for state in seen] == [1, 2, 3]
    assert history.loss == [state.loss for state in seen]
    assert history.regularizer == [state.regularizer for state in seen]
    assert history.held_out_score == [state.held_out_score for state in seen]
    assert seen[0].epochs == 10
    assert min(history.regularizer) > 0
    assert "network" not in repr(seen[0])
    assert not history.interrupted


def test_a_judge_keeps_one_epoch_for_all_members() -> None:
    scores, seen = iter([3.0, 1.0, 2.0, 0.5, 0.7, 0.6, 0.1]), []
    network = ensemble(2)
    history = fit(
        network,
        problem(2),
        epochs=7,
        patience=2,
        judge=lambda judged: next(scores) if not judged.training else 9.0,
        callbacks=[lambda state: seen.append(weights_of(state.network)) and None],
    )
    # Two epochs without improvement end it; the best one so far was the fourth.
    assert history.held_out_score == [3.0, 1.0, 2.0, 0.5, 0.7, 0.6]
    assert history.best_epoch == [4, 4]
    for now, best in zip(network.parameters(), seen[3], strict=True):
        assert torch.equal(now, best)


def test_calibration_error_of_ragged_members() -> None:
    pit = torch.rand(3, 40)
    pit[0, :3] = torch.tensor([0.0, 1.0, 0.05])
    rows, real = _padded([torch.arange(40), torch.arange(7), torch.arange(23)])
    error = _calibration_error(pit.gather(1, rows), real)
    alone = [calibration_error(pit[i, :n]) for i, n in enumerate((40, 7, 23))]
    assert error == pytest.approx(sum(alone) / 3)
    # NaN lies below no level: all 20 gaps are whole.
    lost = _calibration_error(torch.full((1, 5), torch.nan), real[:1, :5])
    assert lost == pytest.approx(sum((j / 20) ** 2 for j in range(1, 21)))
