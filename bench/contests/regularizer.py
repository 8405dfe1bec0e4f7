"""The regularizer: against NeuralSort, a bare sort, and the rest of a training step."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.distributions import Normal

from bench import plain
from bench.contest import Contest, at_least, at_most, share_at_most
from calibrant import QuantileRegularizer

__all__ = ["CONTESTS", "backward_of", "bare_sort", "batch_of", "relaxed"]

Loss = Callable[[Normal, Tensor], Tensor]


def batch_of(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Means and spreads ``(n,)`` with gradient, and targets ``(n,)``."""
    generator = torch.Generator().manual_seed(n)
    mean, noise = torch.randn(2, n, generator=generator)
    spread = 0.5 + torch.rand(n, generator=generator)
    y = mean + 1.5 * spread * noise  # the model is over-confident
    return mean.requires_grad_(), spread.requires_grad_(), y


def backward_of(loss: Loss, n: int) -> Callable[[], tuple[Tensor, ...]]:
    """Value and gradients of a regularizer, ``n`` rows, as something to time."""
    mean, spread, y = batch_of(n)

    def work() -> tuple[Tensor, ...]:
        value = loss(Normal(mean, spread, validate_args=False), y)
        return value, *torch.autograd.grad(value, (mean, spread))

    return work


def bare_sort(n: int) -> Callable[[], object]:
    """A sort of ``n`` values, forward and backward, and nothing else."""
    values, _, weights = batch_of(n)
    return lambda: torch.autograd.grad(values.sort().values, values, weights)


def relaxed(predictive: Normal, y: Tensor, *, published: bool = False) -> Tensor:
    """The paper's regularizer with NeuralSort."""
    sort = partial(plain.neural_sort, published=published)
    return plain.STRENGTH * plain.cumulative_kl(predictive.cdf(y), sort=sort)


def _against_neural_sort(
    n: int, goal: float | None, *, published: bool = False
) -> Contest:
    ours = backward_of(QuantileRegularizer(), n)
    other = backward_of(partial(relaxed, published=published), n)
    form = "as the paper" if published else "without its product by a matrix of ones"
    return Contest(
        work=f"regularizer, forward + backward, n = {n:,}",
        against=f"NeuralSort in torch, {form}",
        goal=at_least(goal),
        ours=ours,
        other=other,
        # A relaxed sort is not the sort: its gaps are blurred.
        difference=lambda: (ours()[0] - other()[0]).abs().item(),
        tolerance=0.01,
        rounds=(3, 400),
    )


def _against_sort() -> Contest:
    n = 1_000_000
    return Contest(
        work="regularizer, forward + backward, n = 1,000,000",
        against="a bare sort, forward + backward",
        goal=at_most(3),
        ours=backward_of(QuantileRegularizer(), n),
        other=bare_sort(n),
    )


def _step(loss: Loss | None, dropout: float) -> Callable[[], None]:
    """A step of the paper's network in a plain loop, with something added to it."""
    torch.manual_seed(0)
    x, y = plain.rows(plain.BATCH)
    member = plain.Member(x, y, dropout=dropout)

    def work() -> None:
        predictive = member.predictive(x)
        total = -predictive.log_prob(y).mean()
        if loss is not None:
            total = total + loss(predictive, y)
        member.optimizer.zero_grad()
        total.backward()
        member.optimizer.step()

    return work


def _share(name: str, loss: Loss, dropout: float, goal: float | None) -> Contest:
    kind = f"dropout {dropout:g}" if dropout else "no dropout"
    return Contest(
        work=f"training step, 2x128, batch 512, {kind}, with {name}",
        against="the same step without it, plain PyTorch",
        goal=share_at_most(goal),
        ours=_step(loss, dropout),
        other=_step(None, dropout),
        # Both are the same loop: the same threads for both.
        threads=(torch.get_num_threads(),),
        # A difference of some percent needs more rounds than a ratio.
        seconds=15.0,
        rounds=(50, 4000),
    )


CONTESTS: dict[str, Callable[[], Contest]] = {
    "512": lambda: _against_neural_sort(512, 10, published=True),
    "512 square": lambda: _against_neural_sort(512, None),
    "8192": lambda: _against_neural_sort(8192, 500),
    "1000000": _against_sort,
    "share": lambda: _share("our regularizer", QuantileRegularizer(), 0.25, 0.12),
    "share plain": lambda: _share("our regularizer", QuantileRegularizer(), 0, 0.12),
    "share NeuralSort": lambda: _share("NeuralSort", relaxed, 0.25, None),
}
