"""A fitted regressor as named arrays and a JSON description, and back."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._checks import InputError
from calibrant.estimators._fitting import Fitted
from calibrant.estimators._members import Architecture, Members
from calibrant.learners import HEADS
from calibrant.learners.mlp import PiecewiseLinear
from calibrant.recalibration import from_json as recalibrator_from_json
from calibrant.storage import StorageError
from calibrant.training import History
from calibrant.transforms import from_json as transform_from_json

if TYPE_CHECKING:
    from calibrant.estimators.regressor import CalibratedRegressor

__all__ = [
    "as_written",
    "check_fields",
    "described",
    "numbers",
    "restored_history",
    "restored_model",
    "restored_parameters",
    "stored_parameters",
]

# Of other parameters that are objects nothing is needed to predict.
_NEEDED = ("network", "head")
# Stands for an object that JSON cannot hold.
_OBJECT = "object"
# What names of the encoding's arrays begin with.
_ENCODING = "networks.0.stack.encoding."
# Members do not disagree by more than this times what they say themselves.
_MOST_DISAGREEMENT = 1e9


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


def described(model: "CalibratedRegressor") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a fitted regressor as named arrays and what JSON can hold."""
    fitted: Fitted = model.model_
    members = fitted.members
    arrays: dict[str, Tensor] = {
        "inputs.center": torch.from_numpy(members.inputs[0]),
        "inputs.scale": torch.from_numpy(members.inputs[1]),
        "targets.center": members.target_center.squeeze(1),
        "targets.scale": members.target_scale.squeeze(1),
    }
    if members.limits is not None:
        low, high = (torch.from_numpy(each) for each in members.limits)
        arrays |= {"inputs.low": low, "inputs.high": high}
    for number, network in enumerate(members.networks):
        for name, values in network.state_dict().items():
            arrays[f"networks.{number}.{name}"] = values
    return arrays, {
        "parameters": {
            name: _plain(value, name)
            for name, value in model.fitted_parameters_.items()
        },
        "features": model.n_features_in_,
        "feature_names": _names(model),
        "strength": model.strength_,
        "strength_path": _path(model),
        "history": [_finite(vars(each)) for each in model.history_],
        "members": len(members),
        "disagreement": members.disagreement,
        "transform": _text(members.transform, transform_from_json),
        "recalibrator": _text(fitted.recalibrator, recalibrator_from_json),
        "cut_first": members.bounds is not None,
        "bounds": _plain(members.bounds or fitted.bounds, "bounds"),
    }


def restored_model(
    state: Mapping[str, Any],
    arrays: Mapping[str, Tensor],
    architecture: Architecture,
    parts: Mapping[str, Any],
) -> Fitted:
    """Make the networks again and fill them with the arrays."""
    count, features = state["members"], state["features"]
    with as_written("bounds"):
        bounds = _checked_bounds(_restored(state["bounds"]))
    with as_written("transform"):
        transform = _read(state["transform"], transform_from_json)
    with as_written("recalibrator"):
        recalibrator = _read(state["recalibrator"], recalibrator_from_json)
    # What does not fit to parts that were passed is not the folder's fault.
    with nullcontext() if parts else as_written("arrays", "arrays.safetensors"):
        members = _restored_members(arrays, architecture, features, count)
        members.transform, members.disagreement = transform, state["disagreement"]
        members.bounds = bounds if state["cut_first"] else None
        last = None if state["cut_first"] else bounds
        fitted = Fitted(members, recalibrator, last)
        _check_prediction(fitted)
    return fitted


def _restored_members(
    arrays: Mapping[str, Tensor],
    architecture: Architecture,
    features: int,
    count: int,
) -> Members:
    _check_arrays(features, count, arrays)
    encoding = _restored_encoding(arrays, features)
    encoded = 0 if encoding is None else encoding.size
    _check_size(features + encoded, count, architecture, arrays)
    networks = architecture.build(
        features, count, torch.Generator().manual_seed(0), encoding=encoding
    )
    for number, network in enumerate(networks):
        prefix = f"networks.{number}."
        own = {
            name.removeprefix(prefix): values
            for name, values in arrays.items()
            if name.startswith(prefix)
        }
        _fill(network.eval(), own)
    return Members(
        architecture,
        networks,
        inputs=(arrays["inputs.center"].numpy(), arrays["inputs.scale"].numpy()),
        targets=(arrays["targets.center"].numpy(), arrays["targets.scale"].numpy()),
        transform=None,
        limits=(arrays["inputs.low"].numpy(), arrays["inputs.high"].numpy())
        if "inputs.low" in arrays
        else None,
    )


def check_fields(state: Any) -> None:  # noqa: ANN401  (from JSON, of whatever kind)
    """Refuse a description whose plain fields are of another kind or size."""
    names, features = state["feature_names"], state["features"]
    right = {
        "parameters": isinstance(state["parameters"], dict),
        "features": _is_number(features, 1) and isinstance(features, int),
        "members": _is_number(state["members"], 1)
        and isinstance(state["members"], int),
        "feature_names": names is None
        or (
            isinstance(names, list)
            and len(names) == features
            and all(isinstance(name, str) for name in names)
        ),
        "strength": _is_number(state["strength"], 0),
        "disagreement": state["disagreement"] is None
        or (
            _is_number(state["disagreement"], 0)
            and state["disagreement"] <= _MOST_DISAGREEMENT
        ),
        "cut_first": isinstance(state["cut_first"], bool)
        and not (state["cut_first"] and state["bounds"] is None),
    }
    for field, fits in right.items():
        with as_written(field):
            if not fits:
                raise InputError(f"got {state[field]!r:.60}")


def _is_number(value: object, least: float) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and least <= value < math.inf
    )


def restored_history(content: Any) -> History:  # noqa: ANN401
    """Make a history of what JSON holds, all of it."""
    values = numbers(content)
    curves = [values[name] for name in vars(History()) if name != "interrupted"]
    if values.keys() != vars(History()).keys() or not (
        isinstance(values["interrupted"], bool)
        and all(isinstance(curve, list) for curve in curves)
        and all(isinstance(number, int | float) for curve in curves for number in curve)
    ):
        raise InputError("it must have a curve of numbers for each of its names")
    return History(**values)


def _checked_bounds(bounds: Any) -> Any:  # noqa: ANN401
    if bounds is not None:
        low, high = bounds
        if not all(type(end) in (int, float) for end in bounds) or not low < high:
            raise InputError(f"it must be two numbers, the lower first, got {bounds}")
    return bounds


def _check_prediction(fitted: Fitted) -> None:
    """Refuse a model that could not predict: one row is tried, at the center."""
    row = fitted.members.inputs[0][np.newaxis]
    low, middle, high = fitted.law(row).quantiles((0.05, 0.5, 0.95)).flatten()
    if not (low <= middle <= high and middle.isfinite()):
        raise InputError("its arrays must give predictions, and they give no numbers.")


def _read(text: Any, read: Callable[[str], Any]) -> Any:  # noqa: ANN401
    return None if text is None else read(text)


def _restored_encoding(
    arrays: Mapping[str, Tensor], features: int
) -> PiecewiseLinear | None:
    """Make room for the encoding that the arrays hold, if they hold one."""
    names = [name for name in arrays if name.startswith(_ENCODING)]
    if not names:
        return None
    encoding = PiecewiseLinear([])
    for name in names:
        own = name.removeprefix(_ENCODING)
        if own not in dict(encoding.named_buffers()):
            raise InputError(f"its array {name!r:.60} is none of an encoding.")
        setattr(encoding, own, torch.empty_like(arrays[name]))
    column = arrays.get(f"{_ENCODING}column")
    if column is None or column.numel() == 0:
        raise InputError("its encoding must name the feature of each bin.")
    if column.dtype != torch.long or column.ndim != 1:
        raise InputError("the features of its encoding must be whole numbers.")
    for own, _ in encoding.named_buffers():
        if f"{_ENCODING}{own}" not in arrays or len(getattr(encoding, own)) != len(
            column
        ):
            raise InputError(
                f"its array {_ENCODING}{own} must have {len(column)} bins."
            )
    if int(column.min()) < 0 or int(column.max()) >= features:
        raise InputError(f"its encoding must be of its {features} features.")
    return encoding


def _check_arrays(features: int, members: int, arrays: Mapping[str, Tensor]) -> None:
    """Refuse scales of another shape or of 0, and numbers that are none."""
    limits = ("inputs.low", "inputs.high")
    shapes = dict.fromkeys(("inputs.center", "inputs.scale"), (features,))
    shapes |= dict.fromkeys(("targets.center", "targets.scale"), (members,))
    if any(name in arrays for name in limits):
        shapes |= dict.fromkeys(limits, (features,))
    for name, shape in shapes.items():
        if name not in arrays:
            raise InputError(f"its array {name} is missing")
        own = arrays[name]
        if tuple(own.shape) != shape or own.dtype != torch.float64:
            raise InputError(
                f"its array {name} must be of float64 and have shape {shape}, it has "
                f"{tuple(own.shape)} of {str(own.dtype).removeprefix('torch.')}."
            )
    for name, values in arrays.items():
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise InputError(f"its array {name!r:.60} must be finite, and it is not.")
    for name in ("inputs.scale", "targets.scale", f"{_ENCODING}width"):
        if name in arrays and not bool((arrays[name] > 0).all()):
            raise InputError(f"its array {name} must be above 0, and it is not.")
    if limits[0] in arrays and not bool((arrays[limits[0]] <= arrays[limits[1]]).all()):
        raise InputError(f"its array {limits[0]} must not be above {limits[1]}.")


def _check_size(
    features: int,
    members: int,
    architecture: Architecture,
    arrays: Mapping[str, Tensor],
) -> None:
    """Refuse sizes that the stored weights cannot have, before memory is asked for."""
    if not architecture.stacked:
        return
    options = architecture.options
    sizes = [features, *options["hidden"], architecture.head().size]
    weights = members * sum(
        before * after for before, after in itertools.pairwise(sizes)
    )
    masks = members * options.get("passes", 0) * sum(options["hidden"])
    stored = sum(values.numel() for values in arrays.values())
    if weights + masks > stored:
        raise InputError(
            f"the model must have the weights that its sizes need, {weights + masks:,} "
            f"or more, and {stored:,} numbers are stored: its description was changed."
        )


def _fill(network: nn.Module, arrays: Mapping[str, Tensor]) -> None:
    for name, values in network.state_dict().items():
        if name in arrays and arrays[name].dtype != values.dtype:
            raise InputError(
                f"its array {name} must be of {values.dtype}, it is of "
                f"{arrays[name].dtype}."
            )
    try:
        network.load_state_dict(arrays)
    except RuntimeError as error:
        raise InputError(
            "network must make modules with the very weights that were stored, and it "
            f"does not: {error}. Hand in the function that the model was made with."
        ) from None


def stored_parameters(model: "CalibratedRegressor") -> dict[str, Any]:
    """Return the parameters that belong to a model."""
    return dict(model.get_params(deep=False))


def _is_object(value: object) -> bool:
    """Whether a stored parameter stands for an object that JSON cannot hold."""
    return isinstance(value, dict) and _OBJECT in value


def _plain(value: object, name: str) -> Any:  # noqa: ANN401
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        parts = [_plain(each, name) for each in value]
        return {_OBJECT: repr(value)} if any(map(_is_object, parts)) else parts
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if name == "head":
        for known, kind in HEADS.items():
            if type(value) is kind:
                return {"head": known, "options": _options(value)}
    return {_OBJECT: repr(value)}


def _options(head: object) -> dict[str, Any]:
    return {name: value for name, value in vars(head).items() if name != "size"}


def restored_parameters(
    stored: Mapping[str, Any], parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Make parameters of what was stored and what was handed in."""
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
        elif not _is_object(value):
            with as_written("parameters"):
                values[name] = _restored(value)
        elif name in _NEEDED:
            raise InputError(
                f"the model was made with {name}={value[_OBJECT]}, which a folder "
                f"cannot hold. Hand it in: load(folder, {name}=...)."
            )
    return values


def _restored(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return tuple(_restored(each) for each in value)
    if isinstance(value, dict) and "number" in value:
        return float(value["number"])
    if isinstance(value, dict) and "head" in value:
        return HEADS[value["head"]](**value["options"])
    return value


def _names(model: "CalibratedRegressor") -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(each) for each in names]


def _path(model: "CalibratedRegressor") -> Any:  # noqa: ANN401
    path = getattr(model, "strength_path_", None)
    return None if path is None else _finite(path.to_dict())


def _text(part: Any, read: Callable[[str], object]) -> str | None:  # noqa: ANN401
    """JSON of a part of the model, which must be readable again."""
    if part is None:
        return None
    if not hasattr(part, "to_json"):
        raise InputError(
            f"{type(part).__name__} cannot be stored: it has no to_json(). Write one, "
            "and put its class into the table of its kind under its name."
        )
    text: str = part.to_json()
    try:
        read(text)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{type(part).__name__} cannot be stored: what its to_json() gives cannot "
            f"be read again ({error})"
        ) from error
    return text


def _finite(value: Any) -> Any:  # noqa: ANN401
    """Write numbers that JSON lacks as text."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def numbers(value: Any) -> Any:  # noqa: ANN401
    """Undo :func:`_finite`."""
    if isinstance(value, dict):
        return {name: numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [numbers(each) for each in value]
    return float(value) if isinstance(value, str) else value
