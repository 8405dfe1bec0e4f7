"""A fitted regressor as a folder of named arrays and JSON, and back."""

import math
import operator
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.estimators.families import Blend, BoostedTrees
from calibrant.estimators.networks import Architecture, Networks
from calibrant.estimators.regressor import OPTIONS, CalibratedRegressor, Fitted
from calibrant.estimators.strength import StrengthPath
from calibrant.learners import HEADS
from calibrant.learners.boosting import MOST_LEAVES, Forest
from calibrant.learners.mlp import PiecewiseLinear
from calibrant.recalibration import from_json as recalibrator_from_json
from calibrant.storage import StorageError, read_folder
from calibrant.training import History
from calibrant.transforms import from_json as transform_from_json

__all__ = ["as_written", "described", "load", "named", "restored"]

# What JSON holds, of any kind if it was forged.
Json = Any

# Of other parameters that are objects nothing is needed to predict.
_NEEDED = ("network", "head")
# Stands for an object that JSON cannot hold.
_OBJECT = "object"
# Arrays of boosted trees, and their dtypes.
_OF_TREES = {
    "starts": np.int64,
    "intercept": np.float64,
    "center": np.float64,
    "scale": np.float64,
}
_OF_FOREST = {
    "feature": np.int64,
    "threshold": np.float64,
    "left": np.int64,
    "right": np.int64,
    "value": np.float64,
}
# What names of the encoding's arrays begin with.
_ENCODING = "networks.0.stack.encoding."


def load(
    folder: str | os.PathLike[str],
    **parts: Any,  # noqa: ANN401  (parameters of the estimator)
) -> CalibratedRegressor:
    """Read a regressor that ``save`` has written; it predicts bit by bit alike.

    Nothing is unpickled or executed, so an untrusted folder is safe to read. A folder
    that was cut short, edited, written by another program or by a newer version gives
    an error that says so.

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
    """Turn whatever goes wrong with a field of a folder into one error.

    Its checksum is right, so somebody else than calibrant has written it.
    """
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
    networks = blend.networks
    if blend.clones:
        raise InputError(
            f"a model with clones of {blend.clones[0].name} cannot be saved: what is "
            'inside of them could only be pickled. Use learners of "network" and '
            '"boosting", or keep the training script.'
        )
    return _arrays(networks, blend.trees), {
        "parameters": _plain(model.fitted_parameters_),
        "features": model.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "strength": model.strength_,
        "strength_path": None if path is None else _plain(vars(path)),
        "history": [_plain(vars(history)) for history in model.history_],
        "networks": 0 if networks is None else len(networks),
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
    """Return all arrays of the members by name, as they are written and read."""
    grown: dict[str, Any] = {}
    if trees is not None:
        grown = {name: getattr(trees, name) for name in _OF_TREES}
        grown |= {name: getattr(trees.forest, name) for name in _OF_FOREST}
        for name in ("left", "right"):  # bits, which safetensors may hold as they are
            grown[name] = grown[name].view(np.int64)
    arrays = {
        f"trees.{name}": torch.from_numpy(np.ascontiguousarray(values))
        for name, values in grown.items()
    }
    if members is None:
        return arrays
    arrays |= {
        "inputs.center": torch.from_numpy(members.inputs[0]),
        "inputs.scale": torch.from_numpy(members.inputs[1]),
        "targets.center": members.target_center.squeeze(1),
        "targets.scale": members.target_scale.squeeze(1),
    }
    if members.limits is not None:
        arrays["inputs.low"], arrays["inputs.high"] = map(
            torch.from_numpy, members.limits
        )
    for number, network in enumerate(members.networks):
        for name, values in network.state_dict().items():
            arrays[f"networks.{number}.{name}"] = values
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


def _is_count(value: Json, _: Json = None) -> bool:
    return type(value) is int and value >= 1


def _is_number(value: Json, most: float = sys.float_info.max) -> bool:
    return type(value) in (int, float) and 0 <= value <= most


# What plain fields must be, of their value and the whole description. What cannot even
# be asked, as the order of two bounds that are text, is refused too.
_RULES: Mapping[str, Callable[[Json, Json], bool]] = {
    "parameters": lambda value, _: isinstance(value, dict),
    "features": _is_count,
    "networks": lambda value, _: type(value) is int and value >= 0,
    "shares": lambda value, _: (
        all(_is_number(share, 1) for share in value) and abs(sum(value) - 1) < 1e-9
    ),
    "factors": lambda value, state: (
        len(value) == len(state["shares"])
        and all(_is_number(factor, 1e9) and factor > 0 for factor in value)
    ),
    "feature_names": lambda value, state: (
        value is None
        or (
            isinstance(value, list)
            and len(value) == state["features"]
            and all(isinstance(name, str) for name in value)
        )
    ),
    "strength": lambda value, _: type(value) in (int, float) and _is_number(abs(value)),
    "disagreement": lambda value, state: (
        len(value) == len(state["shares"])
        and all(part is None or _is_number(part, 1e9) for part in value)
    ),
    "bounds": lambda value, _: value is None or operator.sub(*_restored(value)) < 0,
    "values": lambda value, _: (
        value is None
        or (len(value) > 0 and bool((np.diff(np.array(value, float)) > 0).all()))
    ),
    "cut_first": lambda value, state: (
        value is False or (value is True and state["bounds"] is not None)
    ),
}
# How other fields are read.
_READ: Mapping[str, Callable[[Json], Any]] = {
    "transform": lambda text: text if text is None else transform_from_json(text),
    "recalibrator": lambda text: text if text is None else recalibrator_from_json(text),
    "strength_path": lambda path: None if path is None else _path(path),
    "history": lambda histories: [_history(_restored(values)) for values in histories],
}


def restored(
    arrays: Mapping[str, Tensor], state: Json, parts: Mapping[str, Any]
) -> CalibratedRegressor:
    """Make a fitted regressor of what :func:`described` gave.

    Parameters
    ----------
    arrays, state
        Named arrays and the description, as they were stored.
    parts
        Objects that a folder cannot hold, by parameter.
    """
    for field, fits in _RULES.items():
        with as_written(field):
            if not fits(state[field], state):
                raise InputError(f"got {state[field]!r:.60}")
    found: dict[str, Any] = {}
    for field, read in _READ.items():
        with as_written(field):
            found[field] = read(state[field])
    values = _parameters(state["parameters"], parts)
    with as_written("parameters"):
        stored = {name: value for name, value in values.items() if name not in parts}
        # It may be loaded on a machine without CUDA.
        trained = _unfitted(stored).set_params(device="cpu")
        trained.check_settings()
        trained.recipe(state["strength"], 1)
        asked = trained.recalibrator is not None and trained.recalibrate_on is not None
        if asked and found["recalibrator"] is None:
            raise InputError("they ask for a recalibrator, and 'recalibrator' is null")
    model = _unfitted(values)
    model.n_features_in_, model.strength_ = state["features"], state["strength"]
    if state["feature_names"] is not None:
        model.feature_names_in_ = np.array(state["feature_names"], dtype=object)
    if found["strength_path"] is not None:
        model.strength_path_ = found["strength_path"]
    model.history_ = found["history"]
    bounds, cut_first = _restored(state["bounds"]), state["cut_first"]
    # What does not fit to parts that were passed is not the folder's fault.
    with nullcontext() if parts else as_written("arrays", "arrays.safetensors"):
        families: list[Networks | BoostedTrees] = []
        # A row that takes no memory, however many features were forged.
        center = np.broadcast_to(0.0, (1, state["features"]))
        if state["networks"]:
            own = {n: v for n, v in arrays.items() if not n.startswith("trees.")}
            networks = _members(own, model.architecture(), state)
            families, center = [networks], networks.inputs[0][np.newaxis]
        if any(name.startswith("trees.") for name in arrays):
            families.append(_trees(arrays, state["features"]))
        if len(families) != len(state["shares"]):
            raise InputError("it must have the families that 'shares' are of")
        for family, disagreement in zip(families, state["disagreement"], strict=True):
            family.disagreement = disagreement
        blend = Blend(
            tuple(families),
            model.distribution,
            found["transform"],
            bounds if cut_first else None,
            shares=tuple(state["shares"]),
            factors=tuple(state["factors"]),
        )
        last = None if cut_first else bounds
        model.model_ = Fitted(
            blend, found["recalibrator"], last, _restored(state["values"])
        )
        # One row is tried, at the center.
        row = model.model_.distribution(center)
        low, middle, high = row.quantiles((0.05, 0.5, 0.95)).flatten()
        if not (low <= middle <= high and middle.isfinite()):
            raise InputError(
                "its arrays must give predictions, and they give no numbers"
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


def _path(stored: Json) -> StrengthPath:
    parts = _restored(stored).items()
    values: Any = {n: np.asarray(v) if isinstance(v, tuple) else v for n, v in parts}
    return StrengthPath(**values)


def _history(values: Any) -> History:  # noqa: ANN401
    curves = {name: values[name] for name in vars(History()) if name != "interrupted"}
    if any(type(x) not in (int, float) for curve in curves.values() for x in curve):
        raise InputError("it must have a curve of numbers for each of its names")
    lists: Any = {name: list(curve) for name, curve in curves.items()}
    return History(**lists, interrupted=bool(values["interrupted"]))


def _members(
    arrays: Mapping[str, Tensor],
    architecture: Architecture,
    state: Json,
) -> Networks:
    """Make room for all networks, and fill it with the arrays."""
    features, count = state["features"], state["networks"]
    # Sizes that are not those of the arrays, before memory is asked for.
    for name, length in (("inputs.center", features), ("targets.center", count)):
        if arrays.get(name, torch.empty(0)).shape != (length,):
            raise InputError(f"its array {name} must be float64 of shape ({length},)")
    encoding = _encoding(arrays, features)
    if architecture.stacked:
        inputs = features + (0 if encoding is None else encoding.size)
        own = architecture.options
        masks = count * own.get("passes", 0) * sum(own["hidden"])
        needed = architecture.weights(inputs, count) + masks
        stored = sum(values.numel() for values in arrays.values())
        if needed > stored:
            raise InputError(
                f"the model must have the weights that its sizes need, {needed:,} or "
                f"more, and {stored:,} numbers are stored: its description was changed"
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
        if kinds[0] != kinds[1]:
            raise InputError(
                f"its array {name!r:.60} must be {kinds[0]}, got {kinds[1]}. A network "
                "that you pass must be the one that the model was made with"
            )
        if arrays[name].is_floating_point() and not arrays[name].isfinite().all():
            raise InputError(f"its array {name!r:.60} must be finite, and it is not")
        wanted[name].copy_(arrays[name])
    for name in ("inputs.scale", "targets.scale", f"{_ENCODING}width"):
        if name in arrays and not bool((arrays[name] > 0).all()):
            raise InputError(f"its array {name} must be above 0, and it is not")
    if members.limits is not None and (members.limits[0] > members.limits[1]).any():
        raise InputError("its array inputs.low must not be above inputs.high")
    return members


def _trees(arrays: Mapping[str, Tensor], features: int) -> BoostedTrees:
    """Make boosted trees of their arrays, which must fit to each other."""
    found: dict[str, Any] = {}
    for name, kind in (_OF_TREES | _OF_FOREST).items():
        values = arrays[f"trees.{name}"].numpy()
        if (
            values.dtype != kind
            or not (np.isfinite(values) | (name == "threshold")).all()
        ):
            raise InputError(f"its array trees.{name} must be finite {kind.__name__}")
        found[name] = values
    trees, leaves = found["value"].shape
    count = len(found["center"])
    shapes = dict.fromkeys(_OF_FOREST, (trees, leaves - 1)) | {
        "value": (trees, leaves),
        "starts": (2 * count,),
        **dict.fromkeys(("intercept", "center", "scale"), (count,)),
    }
    if any(found[name].shape != shape for name, shape in shapes.items()) or not (
        2 <= leaves <= MOST_LEAVES
        and count > 0
        and found["starts"][0] == 0
        and (np.diff(found["starts"]) > 0).all()
        and found["starts"][-1] < trees
        and (found["scale"] > 0).all()
        and (found["feature"] >= 0).all()
        and (found["feature"] < features).all()
        and not np.isnan(found["threshold"]).any()
    ):
        raise InputError("its arrays trees.* must be those of trees")
    bits = {name: found.pop(name).view(np.uint64) for name in ("left", "right")}
    forest = Forest(**{name: (found | bits)[name] for name in _OF_FOREST})
    return BoostedTrees(forest, **{name: found[name] for name in _OF_TREES})


def _encoding(arrays: Mapping[str, Tensor], features: int) -> PiecewiseLinear | None:
    """Make room for the encoding that the arrays hold, if they hold one."""
    if not any(name.startswith(_ENCODING) for name in arrays):
        return None
    column = arrays.get(f"{_ENCODING}column", torch.empty(0))
    whole = column.ndim == 1 and column.dtype == torch.long and len(column) > 0
    if not whole or bool(((column < 0) | (column >= features)).any()):
        raise InputError(f"its bins must each name one of its {features} features")
    encoding = PiecewiseLinear([torch.empty(0)])
    for name, buffer in encoding.named_buffers():
        setattr(encoding, name, torch.empty(len(column), dtype=buffer.dtype))
    return encoding
