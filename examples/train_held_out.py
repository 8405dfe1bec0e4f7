"""Quantile regularization on held-out rows: a second batch for the regularizer."""

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant import QuantileRegularizer, evaluate


def normal(raw: Tensor, *, fixed: bool = False) -> Normal:
    """Turn the network's numbers ``(n, 2)`` into distributions ``(n,)``."""
    mean, spread = raw.unbind(-1)
    spread = 0.01 + nn.functional.softplus(spread)
    return Normal(mean.detach() if fixed else mean, spread)


def main() -> None:
    """Learn from 400 rows, regularize on 100 others, measure on 1,000 unseen."""
    for strength in (0.0, 20.0):
        torch.manual_seed(0)
        x = torch.rand(1500, 8)
        y = (3 * x[:, 0]).sin() + (0.1 + 0.5 * x[:, 1]) * torch.randn(1500)
        network = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 2))
        regularizer = QuantileRegularizer(strength=strength)
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for rows in [torch.randperm(400)[:100] for _ in range(1000)]:
            loss = -normal(network(x[rows])).log_prob(y[rows]).mean()
            loss += regularizer(normal(network(x[400:500]), fixed=True), y[400:500])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        card = evaluate(normal(network(x[500:])), y[500:])
        covered = card["coverage_90"]
        print(f"strength {strength}: 90 % intervals cover {covered:.1%} of unseen rows")
        print(card.verdict())


if __name__ == "__main__":
    main()
