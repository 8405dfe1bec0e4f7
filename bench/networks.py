"""The default's networks beside two that are said to be stronger, on inner splits.

    python -m bench.networks --out results/default/networks.jsonl

All learn the CRPS side by side with the same batches, encoding and schedule, 8 members,
without folds and maps. ``robust`` scales features by their quartiles and clips them
smoothly, as RealMLP does (Holzmueller et al. 2024); ``tabm`` shares the weights of its
members but for factors of each (Gorishniy et al. 2024), with AdamW as there. Scores are
the CRPS of the pooled normal on rows that nothing was chosen with, after the spread was
brought to its best size. Finished cells are kept.
"""

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench._tables import Array, Ledger, Rows, fair_split, load_table
from calibrant.distributions import Gaussian
from calibrant.learners.mlp import PiecewiseLinear

__all__ = ["ARMS", "main", "ratios"]

TABLES = ("concrete", "airfoil", "boston", "fish", "kin8nm", "red_wine")
#: Kind of network, epochs, and the epochs of the default's that take as long.
ARMS = (("robust", 40, 40), ("robust", 80, 80), ("tabm", 80, 80), ("tabm", 160, 80))
_MEMBERS, _UNITS, _SPLITS, _MOST_ROWS = 8, 64, 2, 3000
_DISAGREEMENT = 3.0  # its weight in the spread of the pool, as in the default


class Stack(nn.Module):
    """Members side by side, with weights of their own or shared ones."""

    def __init__(
        self, inputs: int, *, shared: bool, generator: torch.Generator
    ) -> None:
        super().__init__()

        def uniform(*shape: int, fan: int) -> nn.Parameter:
            values = torch.rand(*shape, generator=generator)
            return nn.Parameter((2 * values - 1) / math.sqrt(fan))

        self.layers = nn.ModuleList()
        for fan, units in ((inputs, _UNITS), (_UNITS, _UNITS)):
            layer = nn.Module()
            layer.weight = uniform(1 if shared else _MEMBERS, fan, units, fan=fan)
            layer.bias = uniform(_MEMBERS, 1, units, fan=fan)
            before = torch.ones(_MEMBERS, 1, fan)
            if fan == inputs:  # members differ by the signs of what they see
                before = (
                    2.0 * torch.randint(0, 2, before.shape, generator=generator) - 1
                )
            layer.register_parameter("before", nn.Parameter(before) if shared else None)
            layer.after = nn.Parameter(torch.ones(_MEMBERS, 1, units))
            layer.after.requires_grad_(shared)
            self.layers.append(layer)
        self.weight = uniform(_MEMBERS, _UNITS, 2, fan=_UNITS)
        self.bias = uniform(_MEMBERS, 1, 2, fan=_UNITS)

    def forward(self, x: Tensor) -> Gaussian:
        """Distributions ``(members, n)`` of features ``(members, n, d)``."""
        layer: Any
        for layer in self.layers:
            if layer.before is None:
                x = x @ layer.weight
            else:
                x = (x * layer.before).flatten(0, 1) @ layer.weight[0]
                x = x.view(_MEMBERS, -1, _UNITS) * layer.after
            x = torch.relu(x + layer.bias)
        mean, spread = (x @ self.weight + self.bias).unbind(-1)
        return Gaussian(mean, nn.functional.softplus(spread) + 1e-3)


def _scaled(x: Array, learn: Rows, *, robust: bool) -> Array:
    """Bring features to order 1, by the rows that are learned from."""
    own = x[learn]
    if not robust:
        spread = own.std(0)
        plain: Array = (x - own.mean(0)) / np.where(spread > 0, spread, 1)
        return plain
    low, middle, high = np.quantile(own, [0.25, 0.5, 0.75], axis=0)
    whole = np.maximum(np.ptp(own, axis=0) / 2, 1e-12)
    z = (x - middle) / np.where(high > low, high - low, whole)
    clipped: Array = z / np.sqrt(1 + np.square(z / 3))
    return clipped


def _run(data: str, kind: str, epochs: int, seed: int) -> dict[str, float]:
    """Train on an inner split of a table; CRPS, and seconds of one thread."""
    table = load_table(data)
    outer, _ = fair_split(table.x, 0)
    x, y = table.x[outer], table.y[outer]
    learn, test = fair_split(x, 100 + seed)
    learn = learn[:_MOST_ROWS]
    generator = torch.Generator().manual_seed(seed)
    ready = torch.from_numpy(_scaled(x, learn, robust=kind == "robust")).float()
    ready = torch.cat(
        [
            ready,
            PiecewiseLinear.of_rows(ready[learn], min(16, 1024 // x.shape[1]))(ready),
        ],
        dim=-1,
    )
    center, scale = y[learn].mean(), y[learn].std()
    target = torch.from_numpy((y - center) / scale).float()
    shared = kind == "tabm"
    network = Stack(ready.shape[1], shared=shared, generator=generator)
    rate, decay = (2e-3, 3e-4) if shared else (5e-3, 0.0)
    parts = [part for part in network.parameters() if part.requires_grad]
    optimizer = torch.optim.AdamW(parts, lr=rate, weight_decay=decay, fused=True)
    size = max(32, min(512, 1 << int(math.log2(len(learn) / 32))))
    steps = epochs * (len(learn) // size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    started, rows = time.process_time(), torch.from_numpy(learn)
    for _ in range(epochs):
        order = torch.stack(
            [torch.randperm(len(rows), generator=generator) for _ in range(_MEMBERS)]
        )
        for batch in order[:, : len(rows) // size * size].split(size, dim=1):
            own = rows[batch]
            loss = network(ready[own]).crps(target[own]).mean(-1).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    seconds = time.process_time() - started
    with torch.no_grad():
        found = network(ready[test].expand(_MEMBERS, -1, -1))
        mean, variance = found.mean.double(), found.variance.double().mean(0)
        spread = (variance + _DISAGREEMENT * mean.var(0)).sqrt()
        factors = np.geomspace(0.5, 3, 25).tolist()
        scores = [
            float(Gaussian(mean.mean(0), factor * spread).crps(target[test]).mean())
            for factor in factors
        ]
    return {"crps": float(min(scores) * scale), "seconds": round(seconds, 1)}


def ratios(rows: Sequence[dict[str, Any]]) -> str:
    """CRPS over that of the default's networks after as long a training: Markdown."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        key = row["data"], row["method"], row["epochs"]
        found.setdefault(key, []).append(row["crps"])
    titles = [f"{kind}, {epochs} epochs" for kind, epochs, _ in ARMS]
    lines = [["data", *titles], ["---"] * (1 + len(ARMS))]
    columns: list[list[float]] = [[] for _ in ARMS]
    for data in TABLES:
        for column, (kind, epochs, base) in zip(columns, ARMS, strict=True):
            own, plain = found[data, kind, epochs], found[data, "default", base]
            column.append(fmean(own) / fmean(plain))
        line = [f"{column[-1]:.3f}" for column in columns]
        lines.append([data.replace("_", " "), *line])
    means = [f"{geometric_mean(column):.3f}" for column in columns]
    lines.append(["geometric mean", *means])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cells that are missing, then print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="file of cells")
    ledger = Ledger(parser.parse_args(arguments).out)
    torch.set_num_threads(1)
    plain = dict.fromkeys(("default", base) for *_, base in ARMS)
    for kind, epochs in [*plain, *((kind, epochs) for kind, epochs, _ in ARMS)]:
        for data in TABLES:
            for seed in range(_SPLITS):
                key = {"data": data, "method": kind, "epochs": epochs, "seed": seed}
                if not ledger.has(**key):
                    ledger.add(**key, **_run(data, kind, epochs, seed))
    print(ratios(ledger.rows))


if __name__ == "__main__":
    main()
