"""What a careful user would write in plain PyTorch: ordinary modules, one at a time."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import softplus

__all__ = [
    "FEATURES",
    "Member",
    "cumulative_kl",
    "hard_sort",
    "neural_sort",
    "perceptron",
    "predictive",
    "rows",
]

#: Ascending, with gradient.
Sort = Callable[[Tensor], Tensor]

FEATURES = 13
UNITS = 128
BATCH = 512
FLOOR = 0.1
STRENGTH = 20.0
REACH = 0.01


def rows(count: int, *, features: int = FEATURES) -> tuple[Tensor, Tensor]:
    """Make features ``(n, d)`` and targets ``(n,)``."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, features, generator=generator)
    return x, x[:, 0] + torch.randn(count, generator=generator)


def perceptron(features: int = FEATURES, *, dropout: float = 0.0) -> nn.Sequential:
    """Make the paper's network: two hidden layers, dropout after each."""
    layers: list[nn.Module] = []
    for size in (features, UNITS):
        layers += [nn.Linear(size, UNITS), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(UNITS, 2))


def neural_sort(
    values: Tensor, temperature: float = 1e-3, *, published: bool = False
) -> Tensor:
    """NeuralSort in torch, ascending: all pairs in one matrix.

    The published form, that of the method's authors and of the paper, sums distances by
    a product with a square matrix of ones, in O(n³).
    """
    n = len(values)
    apart = (values.unsqueeze(0) - values.unsqueeze(1)).abs()
    if published:
        ones = torch.ones(n, 1, dtype=values.dtype)
        distances = (apart @ (ones @ ones.T))[:, 0]
    else:
        distances = apart.sum(1)
    slopes = 2 * torch.arange(1, n + 1, dtype=values.dtype) - n - 1
    scores = slopes.unsqueeze(1) * values.unsqueeze(0) - distances.unsqueeze(0)
    return (scores / temperature).softmax(-1) @ values


def hard_sort(values: Tensor) -> Tensor:
    """Sort with torch."""
    return values.sort().values


def cumulative_kl(pit: Tensor, *, sort: Sort = hard_sort) -> Tensor:
    """The paper's regularizer, term by term, of PIT values ``(n,)``."""
    n = len(pit)
    pit = pit.clamp(1e-6, 1 - 1e-6)
    ordered = sort(pit)
    left = torch.arange(n - 1, 0, -1, dtype=pit.dtype) / n
    gaps = ordered[1:] - ordered[:-1]
    entropy = ((1 - pit) * (1 - pit).log()).mean()
    return (left * left.log() * gaps).sum() + entropy + 0.5


class Member:
    """One network in training.

    Parameters
    ----------
    x, y
        Its rows, ``(n, d)`` and ``(n,)``.
    dropout
        Share of hidden units that ``nn.Dropout`` leaves out.
    strength
        Of the regularizer, by the hard sort.
    adversarial
        Train on rows moved to where the score is worse, too.
    learning_rate, fused
        Of Adam; ``fused`` is PyTorch's quicker form of it.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        *,
        dropout: float = 0.0,
        strength: float = 0.0,
        adversarial: bool = False,
        learning_rate: float = 1e-3,
        fused: bool = False,
    ) -> None:
        self.x, self.y = x, y
        self.network = perceptron(x.shape[1], dropout=dropout)
        self.strength, self.adversarial = strength, adversarial
        self.reach = REACH * (x.amax(0) - x.amin(0))
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=learning_rate, fused=fused
        )

    def predictive(self, x: Tensor) -> Normal:
        """Predict a distribution for each row."""
        mean, raw = self.network(x).unbind(-1)
        return Normal(mean, FLOOR + (1 - FLOOR) * softplus(raw))

    def epoch(self, batch: int = BATCH) -> None:
        """Train for one epoch."""
        for chosen in torch.randperm(len(self.x)).split(batch):
            self.step(self.x[chosen], self.y[chosen])

    def step(self, x: Tensor, y: Tensor) -> None:
        """Take one step."""
        x = x.detach().requires_grad_(self.adversarial)
        predictive = self.predictive(x)
        score = -predictive.log_prob(y).mean()
        loss = score
        if self.strength:
            loss = loss + self.strength * cumulative_kl(predictive.cdf(y))
        if self.adversarial:
            (slope,) = torch.autograd.grad(score, x, retain_graph=True)
            moved = (x + self.reach * slope.sign()).detach()
            loss = (loss - self.predictive(moved).log_prob(y).mean()) / 2
        self.optimizer.zero_grad()
        loss.backward()
        if not math.isfinite(loss.item()):
            raise RuntimeError("the plain network diverged.")
        self.optimizer.step()


def predictive(means: Tensor, spreads: Tensor) -> Normal:
    """Normal distribution with the moments of a mixture, members on the first axis."""
    variance = spreads.square().mean(0) + means.var(0, unbiased=False)
    return Normal(means.mean(0), variance.sqrt())
