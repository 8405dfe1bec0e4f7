"""The paper's MC dropout in plain PyTorch, without this library's networks and loops.

    python bench/plain_protocol.py concrete --repeats 10

An independent check of ``calibrant reproduce``: ordinary modules, one at a time. Prints
calibration error, RMSE and NLL of the base model, mean ± deviation over repeats.
"""

import argparse

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant.data import DataSet, Split, load, unshuffled_folds

UNITS, DROPOUT, PASSES, EPOCHS, BATCH = 128, 0.25, 10, 100, 512


def layers(features: int) -> nn.Module:
    """Make the network: two hidden layers with dropout after each."""
    return nn.Sequential(
        *(nn.Linear(features, UNITS), nn.ReLU(), nn.Dropout(DROPOUT)),
        *(nn.Linear(UNITS, UNITS), nn.ReLU(), nn.Dropout(DROPOUT)),
        nn.Linear(UNITS, 2),
    )


def moments(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of one pass, in standard deviations of the target."""
    mean, raw = network(x).unbind(-1)
    return mean, 0.1 + 0.9 * nn.functional.softplus(raw)


def fold(data: DataSet, split: Split, seed: int) -> list[float]:
    """Train on one fold and measure on its test rows."""
    torch.manual_seed(seed)
    center, scale = data.x[split.train].mean(0), data.x[split.train].std(0)
    middle, spread = data.y[split.train].mean(), data.y[split.train].std()
    x = torch.tensor((data.x - center) / scale).float()
    y = torch.tensor((data.y - middle) / spread).float()
    network = layers(x.shape[1])
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    rows = torch.tensor(split.train)
    for _ in range(EPOCHS):
        for batch in rows[torch.randperm(len(rows))].split(BATCH):
            loss = -Normal(*moments(network, x[batch])).log_prob(y[batch]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():  # dropout stays on
        passes = [moments(network, x[split.test]) for _ in range(PASSES)]
    means, spreads = (torch.stack(part) for part in zip(*passes, strict=True))
    variance = spreads.square().mean(0) + means.var(0, unbiased=False)
    predictive, target = Normal(means.mean(0), variance.sqrt()), y[split.test]
    levels = np.arange(1, 21) / 20
    observed = (predictive.cdf(target).numpy()[:, None] <= levels).mean(0)
    return [
        100 * ((observed - levels) ** 2).sum(),
        float((predictive.mean - target).square().mean().sqrt()) * spread,
        float(-predictive.log_prob(target).mean()) + np.log(spread),
    ]


def main() -> None:
    """Run all repeats and print the means over folds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="name of a data set, or a CSV")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=77)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = load(given.data)
    splits = unshuffled_folds(len(data.y), 5)
    repeats = [
        np.mean(
            [
                fold(data, split, 1000 * (given.seed + repeat) + number)
                for number, split in enumerate(splits)
            ],
            axis=0,
        )
        for repeat in range(given.repeats)
    ]
    center, spread = np.mean(repeats, axis=0), np.std(repeats, axis=0)
    names = ("calibration error", "RMSE", "NLL")
    for name, mean, deviation in zip(names, center, spread, strict=True):
        print(f"{name:18}{mean:8.3f} ± {deviation:.3f}")


if __name__ == "__main__":
    main()
