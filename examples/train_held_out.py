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
    """Learn from 400 rows, regularize on 200 others, measure on 1,000 unseen."""
    for strength in (0.0, 20.0):
        torch.manual_seed(0)
        x = torch.rand(1600, 8)
        y = (3 * x[:, 0]).sin() + (0.1 + 0.5 * x[:, 1]) * torch.randn(1600)
        layers = [nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
        network = nn.Sequential(*layers, nn.Linear(64, 2))
        regularizer = QuantileRegularizer(strength=strength)
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for _ in range(500):
            rows, held = torch.randperm(400)[:100], 400 + torch.randperm(200)[:100]
            loss = -normal(network(x[rows])).log_prob(y[rows]).mean()
            loss += regularizer(normal(network(x[held]), fixed=True), y[held])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        card = evaluate(normal(network(x[600:])), y[600:])
        print(f"strength {strength}: NLL of unseen rows {card['nll']:.2f}")
        print(card.verdict())


if __name__ == "__main__":
    main()
