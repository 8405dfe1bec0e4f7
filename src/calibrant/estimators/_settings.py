"""What an estimator's parameters say, checked before anything is trained."""

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from calibrant._checks import InputError, check_between, find_part
from calibrant.estimators._design import DESIGNS
from calibrant.estimators._fitting import fresh_recalibrator
from calibrant.estimators._members import Architecture
from calibrant.learners import HEADS, NETWORKS
from calibrant.training import Recipe
from calibrant.training._team import local_device
from calibrant.transforms import TRANSFORMS

if TYPE_CHECKING:
    from calibrant.estimators.regressor import CalibratedRegressor

__all__ = [
    "architecture_of",
    "check_settings",
    "paper_settings",
    "recalibrator_of",
    "recipe_of",
    "strategy_of",
    "strengths_of",
    "training_device",
    "training_options",
]

_LAWS = ("pooled", "mixture", "moment_matched")
_RULES = ("crps", "nll")
# Up to so many rows each has a pool of unseen members; from so many on a map may have
# as many knots as it wants.
_MOST_FOLDED, _FEWEST_SMOOTH = 20_000, 300
# Of members and folds; a slip of the finger must not fill the memory.
_MOST = 10_000


def check_settings(model: "CalibratedRegressor") -> None:
    """Refuse parameters that no other part would look at."""
    for name, least in (("members", 1), ("folds", 2)):
        value = getattr(model, name)
        if not isinstance(value, Integral) or value < least:
            raise InputError(
                f"{name} must be a whole number >= {least}, got {value!r}."
            )
        if int(value) > _MOST:
            raise InputError(f"{name} must be at most {_MOST:,}, got {value}.")
    bins: Any = model.bins
    if not isinstance(bins, Integral) or not 0 <= int(bins) <= 1024:
        raise InputError(f"bins must be a whole number from 0 to 1024, got {bins!r}.")
    for name in ("held_out_share", "validation_share"):
        check_between(getattr(model, name), 0, 1, name=name)
    if isinstance(model.hidden, Integral | str) or not all(
        isinstance(each, Integral) for each in model.hidden
    ):
        raise InputError(
            "hidden must be a list of whole numbers, the units of each hidden layer, "
            f"got {model.hidden!r}. For one layer write (64,)."
        )
    for name, choices in (
        ("law", _LAWS),
        ("strength_rule", _RULES),
        ("recalibrate_on", ("auto", *DESIGNS)),
    ):
        if getattr(model, name) not in choices:
            names = ", ".join(f'"{choice}"' if choice else "None" for choice in choices)
            raise InputError(
                f"{name} must be one of {names}, got {getattr(model, name)!r}."
            )
    _check_parts(model)
    strengths_of(model)


def _check_parts(model: "CalibratedRegressor") -> None:
    """Refuse parts that cannot work, before they cost a training."""
    if model.loss in ("squared_error", "absolute_error"):
        raise InputError(
            f"loss={model.loss!r} does not look at the spread, which would stay "
            'untrained. Use "nll", "crps" or "beta_nll".'
        )
    if isinstance(model.network, torch.nn.Module):
        raise InputError(
            "network must be a name or a function of the number of features that "
            "makes a new module, got a module. Many are trained: write "
            "network=lambda features: YourModule(features)."
        )
    if not isinstance(model.distributed, bool | np.bool_):
        raise InputError(
            f"distributed must be True or False, got {model.distributed!r}."
        )
    if callable(model.callbacks):
        raise InputError("callbacks must be a list of functions, got a function.")
    if str(model.device).startswith("cuda") and not torch.cuda.is_available():
        raise InputError(
            f"device={model.device!r} needs CUDA, which torch does not find here. Use "
            '"auto" or "cpu".'
        )
    find_part(model.network, NETWORKS, name="network")
    if not callable(find_part(model.head, HEADS, name="head")):
        raise InputError(f"head must be a name or a head, got {model.head!r:.60}.")
    find_part(model.target_transform, TRANSFORMS, name="target_transform")
    if model.recalibrator is not None:
        fresh_recalibrator(recalibrator_of(model, 0))


def strengths_of(model: "CalibratedRegressor") -> list[float]:
    """Return the strengths to try, ascending: one, or those of ``"auto"``."""
    wished = model.strength_grid if model.strength == "auto" else [model.strength]
    grid: list[Any] = list(wished)
    if not grid or not all(isinstance(each, Real) for each in grid):
        raise InputError(
            'strength must be a number or "auto", and strength_grid a list of numbers, '
            f"got strength={model.strength!r}, strength_grid={model.strength_grid!r}."
        )
    return sorted({float(each) for each in grid})


def strategy_of(model: "CalibratedRegressor", rows: int) -> str | None:
    """Return ``recalibrate_on``; without a map, no rows are held out for one."""
    given = model.recalibrate_on
    if given == "auto":
        given = "out_of_fold" if rows <= _MOST_FOLDED else "held_out"
    needless = model.recalibrator is None and given == "held_out"
    return None if needless else given


def recalibrator_of(model: "CalibratedRegressor", rows: int) -> Any:  # noqa: ANN401
    """Return the recalibrator for so many calibration rows."""
    if isinstance(model.recalibrator, str) and model.recalibrator == "auto":
        return "beta" if rows < _FEWEST_SMOOTH else "smooth"
    return model.recalibrator


def architecture_of(model: "CalibratedRegressor") -> Architecture:
    """Return what is trained."""
    options: dict[str, Any] = {}
    if isinstance(model.network, str):
        options = {
            "hidden": tuple(model.hidden),
            "head": model.head,
            "floor": model.spread_floor,
        }
    if model.network == "mc_dropout":
        options |= {"dropout": model.dropout, "passes": model.passes}
    return Architecture(
        model.network,
        options,
        pooling=model.law,
        transform=model.target_transform,
        clip_features=bool(model.clip_features),
        bins=int(model.bins),
    )


def recipe_of(model: "CalibratedRegressor", strength: float, rows: int) -> Recipe:
    """Return how it is trained, on so many rows for each member."""
    own = ("score", "strength", "batch_size")
    names = [name for name in Recipe.names() if name not in own]
    size = model.batch_size
    return Recipe(
        score=model.loss,
        strength=strength,
        batch_size=_batch_size(rows) if size == "auto" else size,
        **{name: getattr(model, name) for name in names},
    )


def _batch_size(rows: int) -> int:
    """Return a power of 2 from 32 to 512 that makes 32 steps or more of an epoch."""
    return max(32, min(512, 1 << int(math.log2(max(1, rows / 32)))))


def training_device(model: "CalibratedRegressor") -> str:
    """Return the device, for each process of a machine its own."""
    device = str(model.device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return local_device(device) if model.distributed else device


def training_options(model: "CalibratedRegressor", strength: float) -> dict[str, Any]:
    """Return where it is trained, and who looks on."""
    return {
        "device": training_device(model),
        "distributed": model.distributed,
        "callbacks": model.callbacks,
        "progress": model.progress,
        "title": f"strength {strength:g}",
    }


def paper_settings(network: str) -> dict[str, Any]:
    """Return the parameters of the paper's protocol, all but the strength."""
    if network not in ("mc_dropout", "deep_ensemble"):
        raise InputError(
            f'the paper has "mc_dropout" and "deep_ensemble", got {network!r}.'
        )
    ensemble = network == "deep_ensemble"
    return {
        "network": network,
        "members": 5 if ensemble else 1,
        "hidden": (128, 128),
        "head": "gaussian",
        "spread_floor": 0.1,
        "dropout": 0.25,
        "passes": 10,
        "law": "moment_matched",
        "bins": 0,
        "target_transform": None,
        "clip_features": False,
        "bounds": None,
        "loss": "nll",
        "regularizer": "cumulative_kl",
        "sort": None,
        "conditional": (),
        "adversarial": 0.01 if ensemble else 0.0,
        "recalibrator": None,
        "recalibrate_on": None,
        "epochs": 100,
        "batch_size": 512,
        "optimizer": "adam",
        "learning_rate": 1e-2,
        "weight_decay": 0.0,
        "schedule": "constant",
        "gradient_clip": None,
        "patience": None,
    }
