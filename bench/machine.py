"""The machine's own limits, measured in the same run."""

import os
import platform
import shutil
import subprocess
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from bench.contest import best_seconds
from bench.contests.training import peak_product

__all__ = ["described", "limits", "revision"]

_ROUNDS = 7
_COPIED = 32_000_000
_SORTED = 1_000_000
_PACKAGES = (
    "calibrant",
    "torch",
    "numpy",
    "uncertainty-toolbox",
    "netcal",
    "scoringrules",
)


def limits() -> dict[str, float]:
    """Peak of matrix products, memory bandwidth and sort rate, torch's threads."""
    product, operations = peak_product()
    source = torch.ones(_COPIED)
    target = torch.empty_like(source)
    best = partial(best_seconds, rounds=_ROUNDS)
    values = torch.rand(_SORTED, generator=torch.Generator().manual_seed(0))
    read_and_written = 2 * source.numel() * source.element_size()
    return {
        "matrix products, float32, GFLOP/s": operations / best(product) / 1e9,
        "memory, copy, GB/s": read_and_written
        / best(lambda: target.copy_(source))
        / 1e9,
        "sort of a million float32 by torch, million/s": len(values)
        / best(lambda: values.sort())
        / 1e6,
        "sort of a million float32 by numpy, million/s": len(values)
        / best(lambda: np.sort(values.numpy()))
        / 1e6,
    }


def revision() -> str:
    """The state of the code, with ``-dirty`` where it is not committed."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def described() -> dict[str, Any]:
    """What ran where; no name of the machine."""
    return {
        "revision": revision(),
        "versions": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
    }
