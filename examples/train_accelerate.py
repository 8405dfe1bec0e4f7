"""Quantile regularization in a loop of Accelerate (``pip install accelerate``).

Run it with ``accelerate launch``: the regularizer sees the PIT values of all processes.
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from calibrant import GaussianHead, QuantileRegularizer, SmoothRecalibrator, evaluate


def main() -> None:
    """Train on 1,000 rows, recalibrate with 1,000 others, measure on 500 unseen."""
    torch.manual_seed(2)
    x = torch.rand(2500, 8)
    y = (3 * x[:, 0]).sin() + x[:, 1] * torch.randn(2500).abs()  # skewed noise
    rows = DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=250, shuffle=True)
    network = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    head, regularizer = GaussianHead(), QuantileRegularizer()
    accelerator = Accelerator()
    network, optimizer, rows = accelerator.prepare(network, optimizer, rows)
    for _ in range(150):
        for features, target in rows:
            predicted = head(network(features))
            loss = regularizer(predicted, target) - predicted.log_prob(target).mean()
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
    trained = accelerator.unwrap_model(network).cpu()
    held_out, unseen = head(trained(x[1000:2000])), head(trained(x[2000:]))
    recalibrator = SmoothRecalibrator().fit(held_out, y[1000:2000])
    card = evaluate(recalibrator.transform(unseen), y[2000:])
    accelerator.print(card.verdict())


if __name__ == "__main__":
    main()
