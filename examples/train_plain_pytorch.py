"""Quantile regularization in a plain PyTorch loop: one more term of the loss."""

import torch
from torch import Tensor, nn

from calibrant import QuantileRegularizer, evaluate


class Network(nn.Module):
    """A normal law for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, x: Tensor) -> torch.distributions.Normal:
        """Turn features ``(n, 8)`` into laws ``(n,)``."""
        mean, raw = self.layers(x).unbind(-1)
        return torch.distributions.Normal(mean, 0.01 + nn.functional.softplus(raw))


def main() -> None:
    """Train without and with the regularizer; measure on 2,000 other rows."""
    for strength in (0.0, 20.0):
        torch.manual_seed(0)
        x = torch.rand(2500, 8)
        y = (6 * x[:, 0]).sin() + x[:, 1] * torch.randn(2500).abs()  # skewed noise
        network, regularizer = Network(), QuantileRegularizer(strength=strength)
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for rows in [torch.randperm(500)[:250] for _ in range(600)]:
            law = network(x[rows])
            loss = -law.log_prob(y[rows]).mean() + regularizer(law, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"strength {strength}: {evaluate(network(x[500:]), y[500:]).verdict()}")


if __name__ == "__main__":
    main()
