"""Read a fitted regressor from its folder."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from calibrant._checks import InputError
from calibrant.estimators._settings import architecture_of
from calibrant.estimators._state import (
    numbers,
    restored_model,
    restored_parameters,
    stored_parameters,
)
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.estimators.strength import StrengthPath
from calibrant.storage import read_folder
from calibrant.training import History

__all__ = ["load", "restored"]


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
    return restored(arrays, description, parts)


def restored(
    arrays: Mapping[str, Tensor],
    description: Any,  # noqa: ANN401  (from JSON, of whatever kind)
    parts: Mapping[str, Any],
) -> CalibratedRegressor:
    """Make a fitted regressor of what ``described`` gave.

    Parameters
    ----------
    arrays, description
        Named arrays and the description, as they were stored.
    parts
        Objects that a folder cannot hold, by parameter.
    """
    try:
        return _restored(arrays, description, parts)
    except InputError:
        raise
    except (
        *(LookupError, TypeError, ValueError, AttributeError),
        *(ArithmeticError, RuntimeError),
    ) as error:
        # Its checksum is right, so somebody else than calibrant has written it.
        raise InputError(
            "the description of the model must be as calibrant wrote it, and something "
            f"in it is not: {type(error).__name__}: {error}."
        ) from error


def _restored(
    arrays: Mapping[str, Tensor], state: Mapping[str, Any], parts: Mapping[str, Any]
) -> CalibratedRegressor:
    model = CalibratedRegressor(**restored_parameters(state["parameters"], parts))
    model.n_features_in_ = state["features"]
    if state["feature_names"] is not None:
        model.feature_names_in_ = np.array(state["feature_names"], dtype=object)
    model.strength_ = state["strength"]
    if state["strength_path"] is not None:
        model.strength_path_ = StrengthPath.from_dict(numbers(state["strength_path"]))
    model.history_ = [History(**numbers(each)) for each in state["history"]]
    model.model_ = restored_model(state, arrays, architecture_of(model))
    model.fitted_parameters_ = stored_parameters(model)
    return model
