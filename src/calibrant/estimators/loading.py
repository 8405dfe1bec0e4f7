"""Read a fitted regressor from its folder."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor

from calibrant._checks import InputError
from calibrant.estimators._settings import (
    architecture_of,
    check_settings,
    recipe_of,
)
from calibrant.estimators._state import (
    as_written,
    check_fields,
    numbers,
    restored_history,
    restored_model,
    restored_parameters,
    stored_parameters,
)
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.estimators.strength import StrengthPath
from calibrant.storage import StorageError, read_folder

__all__ = ["load", "named", "restored"]

# What every description has.
_FIELDS = (
    *("parameters", "features", "feature_names", "strength", "strength_path"),
    *("history", "members", "disagreement", "transform", "recalibrator"),
    *("cut_first", "bounds"),
)


def load(
    folder: str | os.PathLike[str],
    **parts: Any,  # noqa: ANN401  (parameters of the estimator)
) -> CalibratedRegressor:
    """Read a regressor that ``save`` has written; it predicts bit by bit alike.

    Nothing is unpickled or executed, so a folder from a stranger is safe to read. A
    folder that was cut short, edited, written by another program or by a newer version
    gives an error that says so.

    Parameters
    ----------
    folder
        What ``save`` wrote.
    **parts
        Objects that a folder cannot hold: ``network=`` (the function that makes your
        modules) or ``head=``, if the model was made with its own. It says which.

    Returns
    -------
    CalibratedRegressor
        Fitted. Parameters that were objects and matter for another training alone
        (callbacks, a regularizer, recalibrator or transform of your own making) have
        their defaults: hand them in to train it again.

    Examples
    --------
    >>> import tempfile
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> model = CalibratedRegressor(epochs=2, random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(model.save(place + "/model"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    arrays, description = read_folder(folder, kind="CalibratedRegressor")
    with named(folder):
        return restored(arrays, description, parts)


@contextmanager
def named(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Say in an error about a folder's content which folder it is."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{os.fspath(folder)}: {error}") from error


def restored(
    arrays: Mapping[str, Tensor],
    state: Any,  # noqa: ANN401  (from JSON, of whatever kind)
    parts: Mapping[str, Any],
) -> CalibratedRegressor:
    """Make a fitted regressor of what ``described`` gave.

    Parameters
    ----------
    arrays, state
        Named arrays and the description, as they were stored.
    parts
        Objects that a folder cannot hold, by parameter.
    """
    with as_written("description"):
        missing = sorted(set(_FIELDS) - state.keys())
        if missing:
            raise InputError(f"it lacks {', '.join(map(repr, missing))}")
        check_fields(state)
    values = restored_parameters(state["parameters"], parts)
    with as_written("parameters"):
        stored = {name: value for name, value in values.items() if name not in parts}
        _check_stored(CalibratedRegressor(**stored), state)
    model = CalibratedRegressor(**values)
    model.n_features_in_, model.strength_ = state["features"], state["strength"]
    if state["feature_names"] is not None:
        model.feature_names_in_ = np.array(state["feature_names"], dtype=object)
    if state["strength_path"] is not None:
        with as_written("strength_path"):
            path = StrengthPath.from_dict(numbers(state["strength_path"]))
        model.strength_path_ = path
    with as_written("history"):
        model.history_ = [restored_history(entry) for entry in state["history"]]
    model.model_ = restored_model(state, arrays, architecture_of(model), parts)
    model.fitted_parameters_ = stored_parameters(model)
    return model


def _check_stored(model: CalibratedRegressor, state: Mapping[str, Any]) -> None:
    """Check parameters as ``fit`` does; it may be loaded on a machine without CUDA."""
    check_settings(model.set_params(device="cpu"))
    recipe_of(model, state["strength"], 1)
    asked = model.recalibrator is not None and model.recalibrate_on is not None
    if asked and state["recalibrator"] is None:
        raise InputError("they ask for a recalibrator, and 'recalibrator' is null")
