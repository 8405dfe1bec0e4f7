"""Quantile regularization in a loop of Accelerate (``pip install accelerate``).

Run it with ``accelerate launch examples/train_accelerate.py``, or with ``python``. In
several processes the regularizer sees the PIT values of all of them.
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from calibrant import GaussianHead, QuantileRegularizer, evaluate


def main() -> None:
    """Train without and with the regularizer; measure on 2,000 other rows."""
    for strength in (0.0, 20.0):
        torch.manual_seed(0)
        x = torch.rand(2500, 8)
        y = (6 * x[:, 0]).sin() + x[:, 1] * torch.randn(2500).abs()  # skewed noise
        rows = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=250, shuffle=True)
        network = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 2))
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        regularizer = QuantileRegularizer(strength=strength)
        accelerator = Accelerator()
        network, optimizer, rows = accelerator.prepare(network, optimizer, rows)
        for _ in range(300):
            for features, target in rows:
                law = GaussianHead()(network(features))
                loss = -law.log_prob(target).mean() + regularizer(law, target)
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
        law = GaussianHead()(accelerator.unwrap_model(network).cpu()(x[500:]))
        accelerator.print(f"strength {strength}: {evaluate(law, y[500:]).verdict()}")


if __name__ == "__main__":
    main()
