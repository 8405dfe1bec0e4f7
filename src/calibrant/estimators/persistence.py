"""A fitted regressor as a folder of named arrays and JSON, and back."""

import math
import operator
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant.estimators.networks import Architecture, Networks
from calibrant.estimators.pool import Blend, BoostedTrees
from calibrant.estimators.regressor import (
    OPTIONS,
    CalibratedRegressor,
    Fitted,
    StrengthPath,
)
from calibrant.learners import HEADS
from calibrant.learners.boosting import MOST_LEAVES, Forest
from calibrant.learners.mlp import PiecewiseLinear
from calibrant.recalibration import from_json as recalibrator_from_json
from calibrant.storage import StorageError, read_folder
from calibrant.training import History
from calibrant.transforms import from_json as transform_from_json
from calibrant.validation import InputError

__all__ = ["as_written", "described", "load", "named", "restored"]

# What JSON holds, of any kind if it was forged.
Json = Any

# Of other parameters that are objects nothing is needed to predict.
_NEEDED = ("network", "head")
# Stands for an object that JSON cannot hold.
_OBJECT = "object"
# Arrays of boosted trees: dtype, and shape by the m members, t trees and k decisions.
_OF_TREES: Mapping[str, tuple[type, str]] = {
    "feature": (np.int64, "t k"),
    "threshold": (np.float64, "t k"),
    "left": (np.int64, "t k"),
    "right": (np.int64, "t k"),
    "value": (np.float64, "t k+1"),
    "starts": (np.int64, "2m"),
    "intercept": (np.float64, "m"),
    "center": (np.float64, "m"),
    "scale": (np.float64, "m"),
}
# What names of the encoding's arrays begin with.
_ENCODING = "networks.0.stack.encoding."


def load(
    folder: str | os.PathLike[str],
    **parts: Any,  # noqa: ANN401  (parameters of the estimator)
) -> CalibratedRegressor:
    """Read a regressor that ``save`` has written; it predicts bit by bit alike.

    Nothing is unpickled or executed, so an untrusted folder is safe to read; one that
    is damaged or from a newer version gives an error that says so.

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
        Fitted. Settings that were objects and matter for another training alone (a
        regularizer, recalibrator or transform of your own making) have their defaults:
        pass them to train it again.

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
    arrays, description = read_folder(folder, kind=CalibratedRegressor.__name__)
    with named(folder):
        return restored(arrays, description, parts)


@contextmanager
def named(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Say in an error about a folder's content which folder it is."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{os.fspath(folder)}: {error}") from error


@contextmanager
def as_written(field: str, file: str = "model.json") -> Iterator[None]:
    """Turn whatever goes wrong with a field of a folder into one error."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        reason = f": {error}".rstrip(".") if isinstance(error, InputError) else ""
        raise StorageError(
            f"{field!r} of {file} is not as calibrant writes it{reason}. The folder is "
            "damaged or was not written by calibrant: copy it again, or save the model "
            "again."
        ) from error


def described(model: CalibratedRegressor) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a fitted regressor as named arrays and what JSON can hold."""
    fitted: Fitted = model.model_
    blend = fitted.members
    names = getattr(model, "feature_names_in_", None)
    path = getattr(model, "strength_path_", None)
    if blend.clones:
        raise InputError(
            f"a model with clones of {blend.clones[0].name} cannot be saved: what is "
            'inside of them could only be pickled. Use learners of "network" and '
            '"boosting", or keep the training script.'
        )
    return _arrays(blend.networks, blend.trees), {
        "parameters": _plain(model.fitted_parameters_),
        "features": model.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "strength": model.strength_,
        "strength_path": None if path is None else _plain(vars(path)),
        "history": [_plain(vars(history)) for history in model.history_],
        "networks": 0 if blend.networks is None else len(blend.networks),
        "disagreement": [family.disagreement for family in blend.families],
        "shares": list(blend.shares),
        "factors": list(blend.factors),
        "transform": _text(blend.transform, transform_from_json),
        "recalibrator": _text(fitted.recalibrator, recalibrator_from_json),
        "cut_first": blend.bounds is not None,
        "bounds": _plain(blend.bounds or fitted.bounds),
        "values": _plain(fitted.values),
    }


def _arrays(members: Networks | None, trees: BoostedTrees | None) -> dict[str, Tensor]:
    """All arrays of the members by name; those of networks share memory with them."""
    arrays: dict[str, Tensor] = {}
    if trees is not None:
        for name, (kind, _) in _OF_TREES.items():
            owner = trees if hasattr(trees, name) else trees.forest
            # Leaves are bits, of which safetensors knows no unsigned word.
            stored: Any = np.ascontiguousarray(getattr(owner, name)).view(kind)
            arrays[f"trees.{name}"] = torch.from_numpy(stored)
    if members is None:
        return arrays
    limits = zip(("low", "high"), members.limits or (), strict=False)
    inputs = [*zip(("center", "scale"), members.inputs, strict=True), *limits]
    arrays |= {f"inputs.{name}": torch.from_numpy(values) for name, values in inputs}
    arrays["targets.center"] = members.target_center.squeeze(1)
    arrays["targets.scale"] = members.target_scale.squeeze(1)
    for number, network in enumerate(members.networks):
        for name, value in network.state_dict().items():
            arrays[f"networks.{number}.{name}"] = value
    return arrays


def _plain(value: Any) -> Json:  # noqa: ANN401
    """Return a value as JSON can hold it."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    for name, kind in HEADS.items():
        if type(value) is kind:
            options = {key: part for key, part in vars(value).items() if key != "size"}
            return {"head": name, "options": options}
    return {_OBJECT: repr(value)}


def _restored(value: Json) -> Any:  # noqa: ANN401
    """Undo :func:`_plain`, but for objects; lists become tuples."""
    match value:
        case list():
            return tuple(_restored(part) for part in value)
        case {"number": number}:
            return float(number)
        case {"head": name, "options": options}:
            return HEADS[name](**options)
        case dict():
            return {name: _restored(part) for name, part in value.items()}
    return value


def _text(part: Any, read: Callable[[str], object]) -> str | None:  # noqa: ANN401
    """JSON of a part of the model, which must be readable again."""
    if part is None:
        return None
    try:
        text: str = part.to_json()
        read(text)
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{type(part).__name__} cannot be stored: it must have a to_json() whose "
            f"text can be read again ({error}). Write one, and put its class into the "
            "table of its kind under its name."
        ) from error
    return text


def _check(fits: object, said: str) -> None:
    if not fits:
        raise InputError(said)


def _number(value: Json, low: float = 0.0, high: float = sys.float_info.max) -> bool:
    return type(value) in (int, float) and low <= value <= high


def _path(stored: Json) -> StrengthPath:
    parts = _restored(stored).items()
    values: Any = {n: np.asarray(v) if isinstance(v, tuple) else v for n, v in parts}
    return StrengthPath(**values)


def _history(values: Any) -> History:  # noqa: ANN401
    curves = {name: values[name] for name in vars(History()) if name != "interrupted"}
    _check(
        all(type(x) in (int, float) for curve in curves.values() for x in curve),
        "it must have a curve of numbers for each of its names",
    )
    lists: Any = {name: list(curve) for name, curve in curves.items()}
    return History(**lists, interrupted=bool(values["interrupted"]))


# What fields must be, of their value v and the whole description s; a question that
# cannot even be asked is a refusal too. And how fields are read, if not as they are.
_RULES: Mapping[str, Callable[[Json, Json], object]] = {
    "parameters": lambda v, _: isinstance(v, dict),
    "features": lambda v, _: type(v) is int and v >= 1,
    "networks": lambda v, _: type(v) is int and v >= 0,
    "shares": lambda v, _: (
        all(_number(share, high=1) for share in v) and abs(sum(v) - 1) < 1e-9
    ),
    "factors": lambda v, s: (
        len(v) == len(s["shares"]) and all(_number(part, 1e-300, 1e9) for part in v)
    ),
    "disagreement": lambda v, s: (
        len(v) == len(s["shares"])
        and all(part is None or _number(part, high=1e9) for part in v)
    ),
    "feature_names": lambda v, s: (
        v is None or (type(v), len(v), {*map(type, v)}) == (list, s["features"], {str})
    ),
    "strength": lambda v, _: _number(v, -sys.float_info.max),
    "bounds": lambda v, _: v is None or operator.sub(*_restored(v)) < 0,
    "values": lambda v, _: (
        v is None or (len(v) > 0 and (np.diff(np.array(v, float)) > 0).all())
    ),
    "cut_first": lambda v, s: v is False or (v is True and s["bounds"] is not None),
}
_READ: Mapping[str, Callable[[Json], Any]] = {
    "bounds": _restored,
    "values": _restored,
    "transform": lambda text: text if text is None else transform_from_json(text),
    "recalibrator": lambda text: text if text is None else recalibrator_from_json(text),
    "strength_path": lambda path: None if path is None else _path(path),
    "history": lambda histories: [_history(_restored(values)) for values in histories],
}


def restored(
    arrays: Mapping[str, Tensor], state: Json, parts: Mapping[str, Any]
) -> CalibratedRegressor:
    """Make a fitted regressor of what :func:`described` gave, and of objects."""
    found: dict[str, Any] = {}
    for field in [*_RULES, *(_READ.keys() - _RULES.keys())]:
        with as_written(field):
            value = state[field]
            fits = field not in _RULES or _RULES[field](value, state)
            _check(fits, f"got {value!r:.60}")
            found[field] = _READ[field](value) if field in _READ else value
    values = _parameters(state["parameters"], parts)
    with as_written("parameters"):
        stored = {name: value for name, value in values.items() if name not in parts}
        # It may be loaded on a machine without CUDA.
        trained = _unfitted(stored).set_params(device="cpu")
        trained.check_settings()
        trained.recipe(state["strength"], 1)
        asked = trained.recalibrator is not None and trained.recalibrate_on is not None
        _check(
            found["recalibrator"] is not None or not asked,
            "they ask for a recalibrator, and 'recalibrator' is null",
        )
    model = _unfitted(values)
    model.n_features_in_, model.strength_ = found["features"], found["strength"]
    if found["feature_names"] is not None:
        model.feature_names_in_ = np.array(found["feature_names"], dtype=object)
    if found["strength_path"] is not None:
        model.strength_path_ = found["strength_path"]
    model.history_ = found["history"]
    # What does not fit to parts that were passed is not the folder's fault.
    with nullcontext() if parts else as_written("arrays", "arrays.safetensors"):
        families: list[Networks | BoostedTrees] = []
        # A row that takes no memory, however many features were forged.
        center = np.broadcast_to(0.0, (1, found["features"]))
        if found["networks"]:
            own = {n: v for n, v in arrays.items() if not n.startswith("trees.")}
            networks = _networks(own, model.architecture(), state)
            families, center = [networks], networks.inputs[0][np.newaxis]
        if any(name.startswith("trees.") for name in arrays):
            families.append(_trees(arrays, found["features"]))
        _check(
            len(families) == len(found["shares"]),
            "it must have the families that 'shares' are of",
        )
        for family, disagreement in zip(families, found["disagreement"], strict=True):
            family.disagreement = disagreement
        bounds, cut_first = found["bounds"], found["cut_first"]
        blend = Blend(
            tuple(families),
            model.distribution,
            found["transform"],
            bounds if cut_first else None,
            shares=tuple(found["shares"]),
            factors=tuple(found["factors"]),
        )
        last = None if cut_first else bounds
        model.model_ = Fitted(blend, found["recalibrator"], last, found["values"])
        # One row is tried, at the center.
        row = model.model_.distribution(center)
        low, middle, high = row.quantiles((0.05, 0.5, 0.95)).flatten()
        _check(
            low <= middle <= high and middle.isfinite(),
            "its arrays must give predictions, and they give no numbers",
        )
    model.fitted_parameters_ = model.settings()
    return model


def _parameters(stored: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """Make parameters of what was stored and what was passed."""
    unknown = sorted(set(parts) - set(stored))
    if unknown:
        raise InputError(
            f"the estimator has no parameters {', '.join(unknown)}. load takes objects "
            "that a folder cannot hold: network= and head=."
        )
    values = {}
    for name, value in stored.items():
        if name in parts:
            values[name] = parts[name]
        elif not (isinstance(value, dict) and _OBJECT in value):
            with as_written("parameters"):
                values[name] = _restored(value)
        elif name in _NEEDED:
            raise InputError(
                f"the model was made with {name}={value[_OBJECT]}, which a folder "
                f"cannot hold. Pass it: load(folder, {name}=...)."
            )
    return values


def _unfitted(values: Mapping[str, Any]) -> CalibratedRegressor:
    """Make a regressor with these settings, options among them."""
    own = {name: value for name, value in values.items() if name not in OPTIONS}
    options = {
        name: values[name]
        for name, default in OPTIONS.items()
        if name in values and values[name] != default
    }
    return CalibratedRegressor(**own, options=options or None)


def _networks(
    arrays: Mapping[str, Tensor], architecture: Architecture, state: Json
) -> Networks:
    """Make room for all networks, and fill it with the arrays."""
    features, count = state["features"], state["networks"]
    # Sizes that are not those of the arrays, before memory is asked for.
    for name, length in (("inputs.center", features), ("targets.center", count)):
        fits = arrays.get(name, torch.empty(0)).shape == (length,)
        _check(fits, f"its array {name} must be float64 of shape ({length},)")
    encoding = None
    if any(name.startswith(_ENCODING) for name in arrays):
        column = arrays.get(f"{_ENCODING}column", torch.empty(0))
        _check(
            column.ndim == 1
            and column.dtype == torch.long
            and ((column >= 0) & (column < features)).all(),
            f"its bins must each name one of its {features} features",
        )
        encoding = PiecewiseLinear([torch.empty(0)])
        for name, buffer in encoding.named_buffers():
            setattr(encoding, name, torch.empty(len(column), dtype=buffer.dtype))
    if architecture.stacked:
        own = architecture.options
        inputs = features + (0 if encoding is None else encoding.size)
        needed = architecture.weights(inputs, count)
        needed += count * own.get("passes", 0) * sum(own["hidden"])  # masks
        stored = sum(values.numel() for values in arrays.values())
        _check(
            needed <= stored,
            f"the model must have the weights that its sizes need, {needed:,} or more, "
            f"and {stored:,} numbers are stored: its description was changed",
        )
    scales = np.empty((4, features))
    members = Networks(
        architecture,
        architecture.build(features, count, torch.Generator(), encoding=encoding),
        inputs=(scales[0], scales[1]),
        limits=(scales[2], scales[3]) if "inputs.low" in arrays else None,
        target_center=torch.empty(count, 1, dtype=torch.float64),
        target_scale=torch.empty(count, 1, dtype=torch.float64),
        disagreement=None,
    )
    wanted = _arrays(members, None)
    for name in sorted({*arrays, *wanted}):
        kinds = [
            f"{values.dtype} {tuple(values.shape)}" if values is not None else "nothing"
            for values in (wanted.get(name), arrays.get(name))
        ]
        _check(
            kinds[0] == kinds[1],
            f"its array {name!r:.60} must be {kinds[0]}, got {kinds[1]}. A network "
            "that you pass must be the one that the model was made with",
        )
        _check(
            not arrays[name].is_floating_point() or arrays[name].isfinite().all(),
            f"its array {name!r:.60} must be finite, and it is not",
        )
        wanted[name].copy_(arrays[name])
    for name in ("inputs.scale", "targets.scale", f"{_ENCODING}width"):
        _check(
            name not in arrays or (arrays[name] > 0).all(),
            f"its array {name} must be above 0, and it is not",
        )
    low, high = members.limits or (0.0, 0.0)
    _check(np.all(low <= high), "its array inputs.low must not be above inputs.high")
    return members


def _trees(arrays: Mapping[str, Tensor], features: int) -> BoostedTrees:
    """Make boosted trees of their arrays, which must fit to each other."""
    found: dict[str, Any] = {
        name: arrays[f"trees.{name}"].numpy() for name in _OF_TREES
    }
    trees, leaves = found["value"].shape
    sizes = {"m": len(found["center"]), "2m": 2 * len(found["center"])}
    sizes |= {"t": trees, "k": leaves - 1, "k+1": leaves}
    for name, (kind, shape) in _OF_TREES.items():
        values = found[name]
        _check(
            values.dtype == kind
            and values.shape == tuple(sizes[size] for size in shape.split())
            and (np.isfinite(values) | (name == "threshold")).all(),
            f"its array trees.{name} must be finite {kind.__name__}",
        )
    starts, feature = found["starts"], found["feature"]
    _check(
        2 <= leaves <= MOST_LEAVES
        and sizes["m"] > 0
        and starts[0] == 0
        and (np.diff(starts) > 0).all()
        and starts[-1] < trees
        and (found["scale"] > 0).all()
        and ((feature >= 0) & (feature < features)).all()
        and not np.isnan(found["threshold"]).any(),
        "its arrays trees.* must be those of trees",
    )
    for name in ("left", "right"):
        found[name] = found[name].view(np.uint64)
    of_forest = {field.name: found.pop(field.name) for field in fields(Forest)}
    return BoostedTrees(Forest(**of_forest), **found)
