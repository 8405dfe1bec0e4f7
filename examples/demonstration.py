"""Base against regularized training, on data that this script generates.

A network that predicts a mean and a spread meets a few hundred rows of noise that is
skewed and depends on the inputs. Trained by maximum likelihood it becomes
over-confident. The same network, data and seeds with quantile regularization differ by
one line in the loss.

    python examples/demonstration.py --out reproduction
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant import ConditionalRegularizer, QuantileRegularizer
from calibrant.metrics import calibration_error, expected_calibration_error

TRAIN_ROWS, TEST_ROWS, FEATURES = 500, 2000, 6
BATCH = 250

METHODS: dict[str, Callable[[], nn.Module | None]] = {
    "base": lambda: None,
    "regularized": QuantileRegularizer,
    "conditional": lambda: ConditionalRegularizer(groups=4),
}


@dataclass(frozen=True)
class Outcome:
    """What one trained network shows on rows that it has not seen."""

    pit: Tensor
    error: float
    coverage: float
    rmse: float
    nll: float


def make_data(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return features ``(rows, 6)`` and targets ``(rows,)`` with skewed noise."""
    x = torch.rand(rows, FEATURES, generator=generator) * 2 - 1
    signal = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3]
    noise = torch.empty(rows).exponential_(generator=generator) - 1
    return x, signal + (0.2 + 0.5 * x[:, 4].abs()) * noise


def predict(network: nn.Module, x: Tensor) -> Normal:
    """Turn the network's two outputs into a distribution for each row."""
    mean, raw = network(x).unbind(-1)
    return Normal(mean, 0.02 + nn.functional.softplus(raw))


def train(regularizer: nn.Module | None, seed: int, epochs: int) -> Outcome:
    """Train one network and measure it on unseen rows."""
    torch.manual_seed(seed)  # the network's initial weights
    generator = torch.Generator().manual_seed(seed)
    x, y = make_data(TRAIN_ROWS, generator)
    network = nn.Sequential(
        nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()
    ).append(nn.Linear(128, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(TRAIN_ROWS, generator=generator).split(BATCH):
            predictive = predict(network, x[rows])
            loss = -predictive.log_prob(y[rows]).mean()
            if regularizer is not None:
                loss = loss + regularizer(predictive, y[rows])  # the one line
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return measure(network, *make_data(TEST_ROWS, generator))


@torch.no_grad()
def measure(network: nn.Module, x: Tensor, y: Tensor) -> Outcome:
    """Compare the network's distributions with the targets."""
    predictive = predict(network, x)
    pit = predictive.cdf(y)
    return Outcome(
        pit=pit,
        error=100 * calibration_error(pit),
        coverage=float(((pit > 0.05) & (pit < 0.95)).double().mean()),
        rmse=float((predictive.mean - y).square().mean().sqrt()),
        nll=float(-predictive.log_prob(y).mean()),
    )


def spread(values: list[float], digits: int) -> str:
    """Mean and standard deviation as text."""
    return (
        f"{statistics.mean(values):.{digits}f} ± {statistics.pstdev(values):.{digits}f}"
    )


def tabulate(outcomes: dict[str, list[Outcome]]) -> list[tuple[str, ...]]:
    """One row of text for each method."""
    return [
        (
            name,
            spread([each.error for each in results], 1),
            spread([100 * each.coverage for each in results], 1) + " %",
            spread([each.rmse for each in results], 3),
            spread([each.nll for each in results], 3),
        )
        for name, results in outcomes.items()
    ]


def draw(outcomes: dict[str, list[Outcome]], path: Path) -> None:
    """Calibration curves of the first repeat as a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    from calibrant.plots import plot_calibration

    figure, axes = pyplot.subplots(figsize=(4.6, 4.4), layout="constrained")
    plot_calibration(
        {name: results[0].pit for name, results in outcomes.items()},
        title=f"Calibration on {TEST_ROWS:,} unseen rows",
        ax=axes,
    )
    figure.savefig(path, format="png", dpi=160)


def main() -> None:
    """Train, print and draw."""
    parser = argparse.ArgumentParser(description="Base against regularized training.")
    parser.add_argument("--out", type=Path, default=Path("reproduction"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=80)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # networks this small are slower with more

    console = Console()
    jobs = [(name, seed) for seed in range(options.repeats) for name in METHODS]
    outcomes: dict[str, list[Outcome]] = {name: [] for name in METHODS}
    for name, seed in track(jobs, "training", console=console):
        outcomes[name].append(train(METHODS[name](), seed, options.epochs))

    table = Table("method", "error x 100", "90 % interval covered", "RMSE", "NLL")
    for row in tabulate(outcomes):
        table.add_row(*row)
    console.print(table)
    pairs = zip(outcomes["base"], outcomes["regularized"], strict=True)
    better = sum(regularized.error < base.error for base, regularized in pairs)
    console.print(
        f"A perfectly calibrated model would show an error of "
        f"{100 * expected_calibration_error(TEST_ROWS):.2f} on {TEST_ROWS:,} rows.\n"
        f"Quantile regularization lowered the error in {better} of {options.repeats} "
        "repeats, with the same data, initial weights and batches.\n"
        f"Mean ± standard deviation over {options.repeats} repeats; {TRAIN_ROWS} rows "
        f"to train on, {options.epochs} epochs."
    )
    draw(outcomes, options.out / "calibration.png")
    console.print(f"Open {options.out / 'calibration.png'}", style="bold")


if __name__ == "__main__":
    main()
