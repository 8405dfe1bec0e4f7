"""How a model of a table was made: what its folder and its report say about it."""

import hashlib
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from calibrant._version import __version__
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.metrics.scorecard import Scorecard
from calibrant.tables import Source
from calibrant.workflows.table_model import TableModel

__all__ = [
    "UNSEEN",
    "curves",
    "how_made",
    "seen_notes",
    "summary",
]

#: Why rows are new to a model, by how they were set aside.
UNSEEN = {
    "file": "They come from a file of their own, which the model has not seen.",
    "time": "They are the latest rows, set aside before the training.",
    "time and group": "They are the latest rows, of groups that the model has not "
    "learned from, set aside before the training.",
    "group": "They are whole groups, chosen at random and set aside before the "
    "training.",
    "random": "They were chosen at random and set aside before the training.",
}
_PACKAGES = ("torch", "numpy", "scikit-learn", "lightgbm", "pyarrow")


def how_made(
    source: Source,
    regressor: CalibratedRegressor,
    *,
    rows: int,
    command: str | None,
) -> dict[str, Any]:
    """Describe the making of a model, as JSON can hold it.

    Parameters
    ----------
    source
        The table that it was trained on.
    regressor
        Fitted.
    rows
        Number of rows that it was trained on.
    command
        The command line, if there was one.
    """
    return {
        "table": source.name,
        "sha256": checksum(source),
        "rows": rows,
        "seed": _seed(regressor),
        "command": command,
        "changed": _changed(regressor),
        # None for trees alone.
        "epochs": max((len(each.loss) for each in regressor.history_), default=None),
        "plan": regressor.plan_,
        "interrupted": any(each.interrupted for each in regressor.history_),
        "versions": versions(),
    }


def _seed(regressor: CalibratedRegressor) -> int:
    seed = regressor.random_state
    return seed if isinstance(seed, int) else 0


def _changed(regressor: CalibratedRegressor) -> dict[str, str]:
    """Parameters that differ from the defaults."""
    default = CalibratedRegressor().settings()
    return {
        name: repr(value)
        for name, value in regressor.fitted_parameters_.items()
        if name != "random_state" and repr(value) != repr(default[name])
    }


def versions() -> dict[str, str]:
    """Versions that numbers may depend on."""
    found = {"calibrant": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # networks do without LightGBM
            found[name] = version(name)
    return found


def checksum(source: Source) -> str | None:
    """SHA-256 of a file; None for what is no file."""
    path = source.path
    if path is None:
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seen_notes(model: TableModel, source: Source) -> list[str]:
    """Say so if a table is the very one that the model was trained on."""
    known = model.about.get("sha256")
    if known is None or checksum(source) != known:
        return []
    return [
        f"{source.name} is the table that the model was trained on: most of its rows "
        "are not new to it, and what is measured on them flatters it."
    ]


def summary(card: Scorecard, which: str = "unseen rows") -> dict[str, Any]:
    """Return the numbers of a scorecard that a model's folder keeps."""
    names = ("coverage_50", "coverage_90", "calibration_error", "rmse", "nll", "crps")
    return {
        "rows": card.n,
        "which": which,
        "measures": {
            name: {
                part: getattr(card.measure(name), part)
                for part in ("value", "floor", "low", "high", "p_value")
            }
            for name in names
            if card[name] == card[name] and abs(card[name]) != float("inf")
        },
    }


def curves(regressor: CalibratedRegressor) -> Mapping[str, list[float]]:
    """Training curves of the model: those of its first stack, none of trees alone."""
    named: dict[str, list[float]] = {}
    for history in regressor.history_[:1]:
        named = {"loss": history.loss, "on rows held back": history.held_out_score}
    return {name: values for name, values in named.items() if values}
