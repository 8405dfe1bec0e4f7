"""Training as a whole: it learns, it repeats, it takes any module."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant import DeepEnsemble, Gaussian, MCDropout, Recipe, train
from calibrant.learners import HEADS
from calibrant.learners.mlp import StandardizedInputs
from calibrant.training import History
from small_training import ensemble, fit, problem, seeded, weights_of


@pytest.mark.parametrize("kind", ["ensemble", "dropout", "module"])
def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_state(
    kind: str,
) -> None:
    def make() -> nn.Module:
        if kind == "module":
            return Custom(lambda mean, spread: (mean, spread), dropout=0.5)
        options = {"hidden": (8,), "generator": seeded(5)}
        if kind == "ensemble":
            return DeepEnsemble(3, members=2, **options)
        return MCDropout(3, members=2, **options)

    data = problem(1 if kind == "module" else 2)
    weights = []
    before = torch.random.get_rng_state()
    for seed, disturb in ((0, False), (0, True), (1, False)):
        torch.random.set_rng_state(before)
        network = make()
        if disturb:
            torch.rand(17)
        state = torch.random.get_rng_state()
        fit(network, data, seed=seed, strength=2.0, adversarial=0.01)
        assert torch.equal(state, torch.random.get_rng_state())
        weights.append(weights_of(network))
    for first, second, third in zip(*weights, strict=True):
        assert torch.equal(first, second)
        assert not torch.equal(first, third)


class Custom(nn.Module):
    """A network of a user, with what it returns."""

    def __init__(self, make: Any, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 2)
        )
        # An ensemble of a user's own may well be called so.
        self.members = nn.ModuleList([nn.Identity()])
        self.make = make

    def forward(self, x: Tensor) -> Any:
        mean, raw = self.layers(x).unbind(-1)
        return self.make(mean, nn.functional.softplus(raw) + 1e-3)


MAKES = {
    "ours": Gaussian,
    "torch": torch.distributions.Normal,
    "pair": lambda mean, spread: (mean, spread),
}


@pytest.mark.parametrize("make", list(MAKES))
def test_any_module_that_predicts_a_distribution_can_be_trained(make: str) -> None:
    data = problem(1, held_out=[torch.arange(10)])
    options = {"epochs": 40, "strength": 1.0, "adversarial": 0.01}
    options |= {"gradient_clip": 1.0, "patience": 40}

    def trained(make: Any) -> History:
        torch.manual_seed(0)
        return fit(StandardizedInputs(Custom(make), 3), data, **options)

    history, same = trained(MAKES[make]), trained(MAKES["pair"])
    assert history.loss[-1] < history.loss[0] - 0.2
    assert len(history.held_out_score) == 40
    assert history.loss == pytest.approx(same.loss, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("head", list(HEADS))
def test_every_score_trains_every_head(head: str) -> None:
    for score in ("nll", "crps", "pinball", "beta_nll"):
        network = ensemble(2, head=HEADS[head](floor=0.05))
        data = problem(2)
        # Full batches and few: some distributions search for their quantiles.
        before = (network(data.x).mean - data.y).square().mean()
        history = fit(network, data, epochs=10, batch_size=64, score=score)
        after = (network(data.x).mean - data.y).square().mean()
        assert after < 0.95 * before, (head, score)
        # The factor of beta_nll grows with the spread: it need not fall.
        assert score == "beta_nll" or history.loss[-1] < history.loss[0], (head, score)


def test_progress_shows_what_matters_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = problem(2, held_out=[torch.arange(10)] * 2)
    train(
        ensemble(2),
        data,
        Recipe(epochs=3, strength=1.0),
        generator=seeded(),
        progress=True,
        title="members",
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    text = " ".join(shown.err.split())
    assert "members" in text
    assert "3/3" in text
    number = r"-?\d+\.\d+"
    assert re.search(
        rf"loss {number} regularizer {number} held out: score {number}, "
        rf"calibration error {number}",
        text,
    )
