"""The quick reproduction of the paper, against the same networks one by one."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench import plain
from bench.contest import Contest, Stated, at_least
from calibrant.data import load
from calibrant.paper.jobs import MEMBERS, split_of
from calibrant.paper.ledger import Cell
from calibrant.paper.plan import profile
from calibrant.recalibration.maps import IsotonicRecalibrator

__all__ = ["CONTESTS", "plain_seconds"]

_PASSES = 10


def _ours() -> None:
    """Run the whole quick profile, as ``make reproduce`` does."""
    program = Path(sys.executable).with_name("calibrant")
    with tempfile.TemporaryDirectory() as folder:
        command = ["reproduce", "--profile", "quick", "--workers", "0", "--quiet"]
        subprocess.run([program, *command, "--out", folder], check=True)


def _arm(cell: Cell) -> tuple[str, str, float, int]:
    return cell.data, cell.network, cell.strength, cell.epochs


def plain_seconds(cells: list[Cell], *, seed: int) -> float:
    """Seconds for the cells of one training: one model, and its measures.

    Parameters
    ----------
    cells
        Cells of one fold that differ by what is done after the training.
    seed
        Of the plan, for the split.
    """
    started = time.perf_counter()
    cell = cells[0]
    data = load(cell.data)
    split = split_of(cell, len(data.y), seed)
    x = (data.x - data.x[split.train].mean(0)) / data.x[split.train].std(0)
    y = (data.y - data.y[split.train].mean()) / data.y[split.train].std()
    x, y = torch.from_numpy(x).float(), torch.from_numpy(y).float()
    dropout = cell.network == "mc_dropout"
    members = []
    for _ in range(MEMBERS[cell.network]):
        member = plain.Member(
            x[split.train],
            y[split.train],
            dropout=0.25 if dropout else 0.0,
            strength=cell.strength,
            adversarial=not dropout,
            learning_rate=1e-2,
        )
        for _ in range(cell.epochs):
            member.epoch()
        members.append(member)
    for each in cells:
        pit = _pit(members, x[split.test], y[split.test])
        if each.recalibration == "isotonic":
            seen = _pit(members, x[split.train], y[split.train])
            pit = IsotonicRecalibrator(floor=0).fit_pit(seen).apply(pit)
        levels = np.arange(1, 21) / 20
        (pit.numpy()[:, None] <= levels).mean(0)
    return time.perf_counter() - started


def _pit(members: list[plain.Member], x: Tensor, y: Tensor) -> Tensor:
    passes = _PASSES if len(members) == 1 else 1
    with torch.no_grad():
        distributions = [each.predictive(x) for each in members for _ in range(passes)]
    means, spreads = (
        torch.stack([getattr(predictive, name) for predictive in distributions])
        for name in ("loc", "scale")
    )
    pit: Tensor = plain.predictive(means, spreads).cdf(y).clamp(0, 1)
    return pit


class _OneByOne:
    """One fold of each model stands for all of its folds, which are equally large."""

    def __init__(self) -> None:
        plan = profile("quick")
        self.seed = plan.seed
        self.arms = [
            list(cells) for _, cells in groupby(sorted(plan.cells(), key=_arm), _arm)
        ]

    def __call__(self) -> Stated:
        torch.manual_seed(0)
        total = 0.0
        for cells in self.arms:
            folds = {cell.fold for cell in cells}
            first = [cell for cell in cells if cell.fold == 0]
            total += len(folds) * plain_seconds(first, seed=self.seed)
        return Stated(total)


def _reproduction() -> Contest:
    return Contest(
        work="whole `quick` reproduction, with ledger, tables, figures and page",
        against="the same cells trained one by one in plain PyTorch",
        goal=at_least(2.5),
        ours=_ours,
        other=_OneByOne(),
        rounds=(1, 1),
        threads=(1,),
        once=True,
        note="ours in one process for each core; of theirs one fold in five is run, "
        "times five, on one thread, and fewer measures are taken",
    )


CONTESTS: dict[str, Callable[[], Contest]] = {"quick": _reproduction}
