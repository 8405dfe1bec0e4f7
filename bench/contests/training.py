"""Training and prediction of stacks, against ordinary networks one after the other."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bench import plain
from bench.contest import Contest, Goal, at_least, share_at_most
from calibrant.learners.mlp import DeepEnsemble, MCDropout
from calibrant.training import Recipe, TrainingData
from calibrant.training.loop import Trainer

__all__ = ["CONTESTS", "peak_product", "stack_epoch"]

STEPS = 4
DROPOUT = 0.25
PASSES = 10
# Rows and columns of the product that the machine's peak is taken from.
_PEAK = 2048


def stack_epoch(
    *,
    members: int,
    dropout: float = 0.0,
    strength: float = 0.0,
    adversarial: bool = False,
) -> Callable[[], object]:
    """Return one epoch of this library's training loop."""
    x, y = plain.rows(plain.BATCH * STEPS)
    hidden = (plain.UNITS, plain.UNITS)
    network: nn.Module
    if dropout:
        network = MCDropout(x.shape[1], members=members, hidden=hidden, dropout=dropout)
    else:
        network = DeepEnsemble(x.shape[1], members=members, hidden=hidden)
    data = TrainingData(
        x=x, y=y.expand(members, -1), rows=[torch.arange(len(x))] * members
    )
    recipe = Recipe(
        epochs=10**9,
        batch_size=plain.BATCH,
        learning_rate=1e-3,
        strength=strength,
        adversarial=plain.REACH if adversarial else 0.0,
    )
    trainer = Trainer(network, data, recipe, torch.Generator().manual_seed(0))
    return lambda: trainer.epoch(1)


def _ordinary_epoch(
    *,
    members: int,
    dropout: float = 0.0,
    strength: float = 0.0,
    adversarial: bool = False,
    fused: bool = False,
) -> Callable[[], object]:
    torch.manual_seed(0)
    x, y = plain.rows(plain.BATCH * STEPS)
    networks = [
        plain.Member(
            x,
            y,
            dropout=dropout,
            strength=strength,
            adversarial=adversarial,
            fused=fused,
        )
        for _ in range(members)
    ]

    def work() -> None:
        for each in networks:
            each.epoch()

    return work


def _ensemble(*, fused: bool) -> Contest:
    kind = " with fused Adam" if fused else ""
    return Contest(
        work="ensemble training, 5 members + adversarial + QR",
        against="the same, one member after another, plain PyTorch" + kind,
        goal=at_least(None if fused else 2),
        ours=stack_epoch(members=5, strength=plain.STRENGTH, adversarial=True),
        other=_ordinary_epoch(
            members=5, strength=plain.STRENGTH, adversarial=True, fused=fused
        ),
    )


def _dropout(*, fused: bool) -> Contest:
    kind = " with fused Adam" if fused else ""
    return Contest(
        work="MC dropout training, 25 replicas",
        against="nn.Dropout, one after another, plain PyTorch" + kind,
        goal=at_least(None if fused else 2.5),
        ours=stack_epoch(members=25, dropout=DROPOUT),
        other=_ordinary_epoch(members=25, dropout=DROPOUT, fused=fused),
    )


def _stack_share() -> Contest:
    return Contest(
        work="training step of a stack of 25, no dropout, with our regularizer",
        against="the same step without it",
        goal=share_at_most(),
        ours=stack_epoch(members=25, strength=plain.STRENGTH),
        other=stack_epoch(members=25),
        threads=(torch.get_num_threads(),),
        rounds=(20, 400),
    )


def peak_product() -> tuple[Callable[[], object], float]:
    """A large matrix product, and its number of floating-point operations."""
    left, right = torch.randn(2, _PEAK, _PEAK)
    result = torch.empty_like(left)
    return lambda: torch.matmul(left, right, out=result), 2.0 * _PEAK**3


def _operations(members: int) -> float:
    """Floating-point operations of an epoch: matrix products only."""
    layers = plain.FEATURES * plain.UNITS, plain.UNITS**2, plain.UNITS * 2
    # Forward, and backward by the weights; backward by the inputs but for the first.
    products = 3 * sum(layers) - layers[0]
    return 2.0 * members * plain.BATCH * STEPS * products


def _of_peak() -> Contest:
    product, operations = peak_product()
    return Contest(
        work="stacked training step, 25 networks, no dropout: its matrix products",
        against="this machine's matrix-product peak",
        goal=Goal(0.45, "share"),
        ours=stack_epoch(members=25),
        other=product,
        scale=_operations(25) / operations,
        threads=(torch.get_num_threads(),),
        note="operations of the products alone, over the whole time of the step",
    )


def _prediction(n: int) -> Contest:
    torch.manual_seed(0)
    x, y = plain.rows(n)
    member = plain.Member(x, y, dropout=DROPOUT)
    network = MCDropout(x.shape[1], dropout=DROPOUT, passes=PASSES)

    def passes() -> Tensor:
        with torch.no_grad():
            distributions = [member.predictive(x) for _ in range(PASSES)]
            means, spreads = (
                torch.stack([getattr(predictive, name) for predictive in distributions])
                for name in ("loc", "scale")
            )
            return plain.predictive(means, spreads).scale

    def ours() -> Tensor:
        with torch.no_grad():
            return network.predictive(x).stddev

    return Contest(
        work=f"MC-dropout prediction, T = {PASSES}, {n:,} rows",
        against="a loop of forward passes, plain PyTorch",
        goal=at_least(2),
        ours=ours,
        other=passes,
    )


CONTESTS: dict[str, Callable[[], Contest]] = {
    "ensemble": lambda: _ensemble(fused=False),
    "ensemble, fused Adam": lambda: _ensemble(fused=True),
    "MC dropout": lambda: _dropout(fused=False),
    "MC dropout, fused Adam": lambda: _dropout(fused=True),
    "share in a stack": _stack_share,
    "of peak": _of_peak,
    "prediction 1000": lambda: _prediction(1_000),
    "prediction 10000": lambda: _prediction(10_000),
}
