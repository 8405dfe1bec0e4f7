"""Time of a training step: a stack of networks against ordinary ones in sequence.

All contenders take turns in one process, epoch by epoch, and the best time of each
counts, so that other work on the machine disturbs all of them alike. Ours go through
the training loop of the library; the ordinary ones are plain PyTorch. The comparison
that the ratios are made of is PyTorch's Adam as it comes; its fused form stands beside.

Example: python bench/training_step.py --rounds 30 --json step.json
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import softplus

from calibrant.networks.deep_ensemble import DeepEnsemble
from calibrant.networks.mc_dropout import MCDropout
from calibrant.training import Recipe, TrainingData
from calibrant.training._trainer import Trainer

#: Trains for one epoch.
Epoch = Callable[[], object]

FEATURES = 13
FLOOR = 1e-3
STRENGTH = 20.0
DROPOUT = 0.25
LEARNING_RATE = 1e-3


class Ordinary:
    """Networks of ``nn.Linear`` layers, trained one after the other.

    Parameters
    ----------
    options
        The sizes, see :func:`parsed`.
    dropout
        Share of hidden units that ``nn.Dropout`` leaves out.
    fused
        Use PyTorch's fused Adam.
    """

    def __init__(
        self, options: argparse.Namespace, *, dropout: float = 0.0, fused: bool = False
    ) -> None:
        self.x, self.y = rows_of(options)
        self.batch = options.batch
        self.networks = [_perceptron(options, dropout) for _ in range(options.members)]
        self.optimizers = [
            torch.optim.Adam(each.parameters(), lr=LEARNING_RATE, fused=fused)
            for each in self.networks
        ]

    def __call__(self) -> None:
        """Train all networks for one epoch."""
        orders = [torch.randperm(len(self.x)) for _ in self.networks]
        for start in range(0, len(self.x), self.batch):
            for network, optimizer, order in zip(
                self.networks, self.optimizers, orders, strict=True
            ):
                rows = order[start : start + self.batch]
                mean, raw = network(self.x[rows]).unbind(-1)
                spread = FLOOR + (1 - FLOOR) * softplus(raw)
                z = (self.y[rows] - mean) / spread
                loss = (0.5 * z.square() + spread.log()).mean()
                loss = loss + 0.5 * math.log(2 * math.pi)
                optimizer.zero_grad()
                loss.backward()
                if not math.isfinite(loss.item()):
                    raise RuntimeError("the ordinary network diverged.")
                optimizer.step()


def _perceptron(options: argparse.Namespace, dropout: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    size = FEATURES
    for _ in range(2):
        layers += [nn.Linear(size, options.hidden), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
        size = options.hidden
    return nn.Sequential(*layers, nn.Linear(size, 2))


def rows_of(options: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Make features ``(n, d)`` and targets ``(n,)`` of as many rows as are needed."""
    generator = torch.Generator().manual_seed(0)
    rows = options.batch * options.steps
    x = torch.randn(rows, FEATURES, generator=generator)
    return x, x[:, 0] + torch.randn(rows, generator=generator)


def ours(
    options: argparse.Namespace,
    *,
    members: int,
    dropout: float = 0.0,
    strength: float = 0.0,
    sort: str | None = None,
) -> Epoch:
    """Return one epoch of the library's training loop as a function."""
    x, y = rows_of(options)
    generator = torch.Generator().manual_seed(0)
    hidden = (options.hidden, options.hidden)
    network: nn.Module
    if dropout:
        network = MCDropout(FEATURES, members=members, hidden=hidden, dropout=dropout)
    else:
        network = DeepEnsemble(FEATURES, members=members, hidden=hidden)
    data = TrainingData(
        x=x, y=y.expand(members, -1), rows=[torch.arange(len(x))] * members
    )
    recipe = Recipe(
        epochs=10**9,
        batch_size=options.batch,
        learning_rate=LEARNING_RATE,
        strength=strength,
        sort=sort,
    )
    trainer = Trainer(network, data, recipe, generator)
    return lambda: trainer.epoch(1)


def best_times(
    contenders: dict[str, Epoch], rounds: int, *, cpu: bool = False
) -> dict[str, float]:
    """Best time of an epoch of each in seconds, one warm-up round left out."""
    clock = time.process_time if cpu else time.perf_counter
    best = dict.fromkeys(contenders, math.inf)
    for number in range(rounds + 1):
        for name, epoch in contenders.items():
            start = clock()
            epoch()
            taken = clock() - start
            if number:
                best[name] = min(best[name], taken)
    return best


def against_ordinary(
    options: argparse.Namespace, dropout: float
) -> list[dict[str, object]]:
    """Compare the stack with ordinary networks."""
    contenders: dict[str, Epoch] = {
        "ordinary": Ordinary(options, dropout=dropout),
        "fused": Ordinary(options, dropout=dropout, fused=True),
        "stack": ours(options, members=options.members, dropout=dropout),
    }
    best = best_times(contenders, options.rounds, cpu=options.cpu)
    title = f"{options.members} networks, dropout {dropout:g}"
    step = 1000 / options.steps
    target = 2.5 if dropout else 2.0
    return [
        {
            "what": f"{title}: stack against {name} Adam",
            "other_ms": best[key] * step,
            "ours_ms": best["stack"] * step,
            "ratio": best[key] / best["stack"],
            "target": goal,
        }
        for key, name, goal in (
            ("ordinary", "ordinary networks with", f">= {target:g}"),
            ("fused", "ordinary networks with fused", ""),
        )
    ]


def added_by_regularizer(
    options: argparse.Namespace, members: int
) -> list[dict[str, object]]:
    """Measure what a regularizer adds to a step, with an exact and a relaxed sort."""
    contenders = {
        "plain": ours(options, members=members),
        "hard": ours(options, members=members, strength=STRENGTH),
        "neural": ours(options, members=members, strength=STRENGTH, sort="neural"),
    }
    # Differences of a few percent need more rounds than ratios of two, and one network
    # is quick; the relaxed sort, quadratic in the rows, is only there to compare.
    relaxed = contenders.pop("neural")
    rounds = options.rounds * (3 if members > 1 else 15)
    best = best_times(contenders, rounds, cpu=options.cpu)
    few = max(1, options.rounds // 10)
    best |= best_times({"neural": relaxed}, few, cpu=options.cpu)
    step = 1000 / options.steps
    return [
        {
            "what": f"regularizer, {name} sort, {members} network(s): share added",
            "other_ms": best["plain"] * step,
            "ours_ms": best[name] * step,
            "ratio": best[name] / best["plain"] - 1,
            "target": "<= 0.12" if name == "hard" else "",
        }
        for name in ("hard", "neural")
    ]


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default, text in (
        ("members", 25, "networks"),
        ("hidden", 128, "units of both layers"),
        ("batch", 512, "rows of a step"),
        ("steps", 4, "steps of an epoch"),
        ("rounds", 15, "epochs of each"),
        ("threads", 2, "threads of torch"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=text)
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="count processor time: for a busy machine, with --threads 1",
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print a table and write a file."""
    options = parsed(arguments)
    torch.set_num_threads(options.threads)
    results = [
        *against_ordinary(options, 0.0),
        *against_ordinary(options, DROPOUT),
        *added_by_regularizer(options, options.members),
        *added_by_regularizer(options, 1),
    ]
    listing = Table(title=f"A step of {options.batch} rows", title_justify="left")
    for column in ("what", "other, ms", "ours, ms", "ratio", "target"):
        listing.add_column(column)
    for each in results:
        numbers = [f"{each[key]:.3f}" for key in ("other_ms", "ours_ms", "ratio")]
        listing.add_row(str(each["what"]), *numbers, str(each["target"]))
    Console().print(listing)
    if options.json is not None:
        settings = {key: value for key, value in vars(options).items() if key != "json"}
        text = json.dumps({"settings": settings, "results": results}, indent=2)
        options.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
