"""Write a fitted regressor as an ONNX file."""

import json
import os
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant._checks import InputError, UnsupportedError
from calibrant._version import __version__
from calibrant.estimator.onnx._graph import FORMAT, OPSET, Graph, Value
from calibrant.estimator.onnx._law import law_of
from calibrant.estimator.onnx._moments import mean_and_spread
from calibrant.estimator.regressor import CalibratedRegressor

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["export_onnx"]


def export_onnx(
    model: CalibratedRegressor,
    path: str | os.PathLike[str],
    *,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
) -> Path:
    r"""Write a fitted regressor as one ONNX file: prediction then needs no torch.

    The file takes ``features`` ``(n, d)``, raw as for ``predict``, float64, any number
    of rows, and gives ``mean`` ``(n,)``, ``std`` ``(n,)`` and ``quantiles`` ``(n, k)``
    at the levels, float64. It holds the whole law

    .. math:: F(y \mid x) = \sum_k w_k \, R_k(F_k(y \mid x))

    with members, target transform, recalibrators and bounds. A row with a feature that
    is not finite gives NaN. The metadata are ``levels``, ``feature_names`` (JSON; null
    if the model was fitted without names), ``calibrant_version``.

    The networks run in float32 as in ``predict``, all else in float64, so targets like
    :math:`10^9 \pm 1` keep their digits. Quantiles are roots of F, found by halving.
    Measured in predicted standard deviations, they are within 1e-4 of
    ``predict_quantiles``, and mean and ``std`` mostly within 1e-4 of the law's own; the
    worst was 1.2e-3, for Laplace laws under a ``"smooth"`` map. A moment that is
    infinite (a Laplace law behind a logarithm) is some large number here. A law of
    which nothing lies within ``bounds`` that floats can tell is put on the nearer
    bound, with a ``std`` of 0.

    While it is predicted a row takes some 200 kB of memory: give many rows in chunks of
    some thousands.

    Parameters
    ----------
    model
        Fitted, with a named network, a head other than ``"student_t"`` (that one with
        ``law="moment_matched"`` only), and a named transform and recalibrator.
    path
        Where; folders are made, and a file that is there is replaced. It appears only
        when it is complete.
    levels
        Of the quantiles, strictly between 0 and 1, at least one.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import onnxruntime, tempfile
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> model = CalibratedRegressor(epochs=2, folds=2, random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = export_onnx(model, folder + "/model.onnx", levels=(0.1, 0.9))
    ...     session = onnxruntime.InferenceSession(path)
    >>> mean, std, quantiles = session.run(None, {"features": X})
    >>> quantiles.shape
    (40, 2)
    """
    asked = _checked_levels(levels)
    _check_model(model)
    if find_spec("onnx") is None:
        raise ModuleNotFoundError(
            "export_onnx needs the package onnx. Run: pip install 'calibrant[onnx]'"
        )
    content = _proto(model, asked).SerializeToString()
    return _write(Path(path), content)


def _checked_levels(levels: Sequence[float]) -> "np.ndarray[Any, Any]":
    asked = np.asarray(levels, dtype=np.float64)
    if asked.ndim != 1 or len(asked) == 0 or not ((asked > 0) & (asked < 1)).all():
        raise InputError(
            "levels must be at least one number strictly between 0 and 1, shape (k,), "
            f"got {levels!r}."
        )
    return asked


def _check_model(model: object) -> None:
    if not isinstance(model, CalibratedRegressor):
        raise UnsupportedError(
            "export_onnx takes a fitted CalibratedRegressor, got "
            f"{type(model).__name__}. Of a pipeline give the last step, and prepare "
            "its features before."
        )
    check_is_fitted(model, "model_")


def _proto(model: CalibratedRegressor, levels: "np.ndarray[Any, Any]") -> "ModelProto":
    from onnx import TensorProto, checker, helper

    graph = Graph()
    features = Value(graph, "features")
    # What is no number must not become one on its way through the network.
    doubt = (features * 0.0).sum(1)
    law = law_of(
        model.model_, graph.where(features * 0.0 >= 0.0, features, np.zeros(()))
    )
    mean, spread = mean_and_spread(law)
    quantiles = law.quantiles(levels) + doubt
    graph.named(mean + doubt, "mean")
    graph.named(spread + doubt, "std")
    graph.named(graph.add("Transpose", quantiles, perm=[1, 0]), "quantiles")

    def info(name: str, *shape: str | int) -> Any:  # noqa: ANN401
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, list(shape))

    written = graph.finished(
        "calibrant",
        [info("features", "rows", model.n_features_in_)],
        [
            info("mean", "rows"),
            info("std", "rows"),
            info("quantiles", "rows", len(levels)),
        ],
    )
    proto = helper.make_model(
        written,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=FORMAT,
        producer_name="calibrant",
        producer_version=__version__,
    )
    helper.set_model_props(proto, _metadata(model, levels))
    checker.check_model(proto)
    return proto


def _metadata(
    model: CalibratedRegressor, levels: "np.ndarray[Any, Any]"
) -> dict[str, str]:
    names = getattr(model, "feature_names_in_", None)
    return {
        "levels": json.dumps(levels.tolist()),
        "feature_names": json.dumps(None if names is None else [*map(str, names)]),
        "calibrant_version": __version__,
    }


def _write(path: Path, content: bytes) -> Path:
    """Write under another name beside it, and rename."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error}. Its parent must be a folder with "
            "room, in which you may write."
        ) from error
    return path
