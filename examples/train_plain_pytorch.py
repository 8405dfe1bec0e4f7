"""Quantile regularization in a plain PyTorch loop: one more term of the loss."""

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant import QuantileRegularizer, evaluate
from calibrant.recalibration import SmoothRecalibrator


def normal(raw: Tensor) -> Normal:
    """Turn the network's numbers ``(n, 2)`` into distributions ``(n,)``."""
    mean, spread = raw.unbind(-1)
    return Normal(mean, 0.01 + nn.functional.softplus(spread))


def main() -> None:
    """Train on 1,000 rows, recalibrate with 1,000 others, measure on 500 unseen."""
    for strength in (0.0, 20.0):
        torch.manual_seed(2)
        x = torch.rand(2500, 8)
        y = (3 * x[:, 0]).sin() + x[:, 1] * torch.randn(2500).abs()  # skewed noise
        network = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 2))
        regularizer = QuantileRegularizer(strength=strength)
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for rows in [torch.randperm(1000)[:250] for _ in range(600)]:
            predicted = normal(network(x[rows]))
            loss = -predicted.log_prob(y[rows]).mean() + regularizer(predicted, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        held_out, unseen = normal(network(x[1000:2000])), normal(network(x[2000:]))
        covered = evaluate(unseen, y[2000:])["coverage_90"]
        print(f"strength {strength}: 90 % intervals cover {covered:.1%} of unseen rows")
        recalibrator = SmoothRecalibrator().fit(held_out, y[1000:2000])
        print(evaluate(recalibrator.transform(unseen), y[2000:]).verdict())


if __name__ == "__main__":
    main()
