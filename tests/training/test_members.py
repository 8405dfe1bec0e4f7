"""Members of a stack learn as if they were alone."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant import Gaussian, MCDropout, TrainingData
from calibrant.distributions.base import AbstractDistribution
from small_training import ensemble, fit, problem, seeded, weights_of

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clipped": {"gradient_clip": 0.1},
    "adversarial": {"adversarial": 0.05},
    "regularized": {"strength": 5.0},
    "conditional": {"strength": 5.0, "conditional": ("spread", "mean")},
    "stopped": {"patience": 2},
    "decayed": {"weight_decay": 0.1, "optimizer": "adamw", "schedule": "cosine"},
}


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_what_others_see_changes_nothing_bit_for_bit(
    variant: str, dropout: float
) -> None:
    held_out = [torch.arange(50, 64)] * 3
    rows = [torch.arange(50), torch.arange(50), torch.arange(50)]
    mine = problem(3, rows=rows, held_out=held_out)
    # Another member has other targets, and other and fewer rows.
    y = mine.y.clone()
    y[1] = 2 * torch.randn(64)
    fewer = [rows[0], torch.arange(20, 51), rows[2]]
    other = TrainingData(x=mine.x, y=y, rows=fewer, held_out=held_out)
    weights = []
    for data in (mine, other):
        network = (
            MCDropout(
                3,
                members=3,
                hidden=(8, 8),
                dropout=dropout,
                generator=seeded(5),
            )
            if dropout
            else ensemble(3)
        )
        # Early stopping ends when nobody improves: let all take the same epochs.
        options = {**VARIANTS[variant], "epochs": 4}
        fit(network, data, **options)
        weights.append(weights_of(network))
    for first, second in zip(*weights, strict=True):
        assert torch.equal(first[0], second[0])
        assert torch.equal(first[2], second[2])
        assert not torch.equal(first[1], second[1])


class Alone(nn.Module):
    """One member of a stack as an ordinary module that predicts (n,)."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor) -> AbstractDistribution:
        predictive = self.stack(x)
        return Gaussian(predictive.mean[0], predictive.stddev[0])


def copied(network: nn.Module, member: int) -> nn.Module:
    alone = ensemble(1)
    with torch.no_grad():
        for one, all_of_them in zip(
            alone.parameters(), network.parameters(), strict=True
        ):
            one.copy_(all_of_them[member : member + 1])
    return alone


@pytest.mark.parametrize(
    "variant", ["plain", "clipped", "adversarial", "regularized", "conditional"]
)
def test_a_stack_equals_separate_runs(variant: str) -> None:
    """With strengths of their own, in full batches, whose order is only rounding."""
    strengths = (0.0, 3.0, 20.0)
    options = {"batch_size": 64, "epochs": 10, **VARIANTS[variant]}
    together = ensemble(3)
    alone = [copied(together, i) for i in range(3)]
    each = [copied(together, i) for i in range(3)]
    data = problem(3)
    fit(together, data, **{**options, "strength": strengths})
    one = problem(1)
    for i in range(3):
        own = {**options, "strength": strengths[i]}
        fit(alone[i], one, **own)
        fit(Alone(each[i]), one, **own)
        for stacked, single, plain in zip(
            together.parameters(),
            alone[i].parameters(),
            each[i].parameters(),
            strict=True,
        ):
            torch.testing.assert_close(stacked[i], single[0], atol=1e-6, rtol=0)
            torch.testing.assert_close(plain, single, atol=1e-6, rtol=0)


def test_every_row_of_a_member_is_seen_and_none_of_others() -> None:
    rows = [torch.arange(3), torch.arange(3, 10), torch.tensor([1, 8])]
    data = TrainingData(x=torch.zeros(10, 1), y=torch.zeros(3, 10), rows=rows)
    generator = torch.Generator().manual_seed(0)
    seen = torch.stack([data.order(generator) for _ in range(50)])
    assert seen.shape == (50, 3, 7)
    for epoch in seen:
        for order, own in zip(epoch, rows, strict=True):
            assert order.unique().tolist() == own.sort().values.tolist()
    assert len({tuple(order.tolist()) for order in seen[:, 1]}) > 40
    # Members with the same rows have different orders.
    twins = TrainingData(x=data.x, y=data.y, rows=[torch.arange(10)] * 3)
    first, second, _ = twins.order(generator)
    assert not torch.equal(first, second)
