"""How a law is got from a regressor that is not ours."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from calibrant._checks import InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.estimators._foreign_rows import Rows

__all__ = ["LawModel", "choose_law", "seeded", "weight_option"]

Array = npt.NDArray[np.float64]
LawOf = Callable[[Any, Any], object]
Moments = Callable[[Any, Any], tuple[Array, Array]]

_ENSEMBLES = (RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor)
# Names of the level in quantile regressors; "alpha" may also mean other things.
_LEVEL_NAMES = ("quantile", "quantile_alpha", "alpha")
# No deviation is below this share of the targets' own: PIT values beyond 8 deviations
# could not be told apart. Few members agree by chance, so theirs are never below a
# share of the typical one in training either.
_FLOOR = 1e-3
_SHARE_OF_TYPICAL = 0.3
# Training residuals below this share of the targets' spread may be memorized ones.
_MEMORIZED = 0.25
_INNER_SHARE = 0.2
# A model's own deviations are kept unless residuals exceed them by this factor.
_TOO_NARROW = 3.0


class LawModel(Protocol):
    """A trained regressor that says a law."""

    def law(self, X: Any, /) -> AbstractDistribution:  # noqa: ANN401
        """Law of each row, batch shape ``(n,)``."""
        ...


LawFit = Callable[[Any, Rows], LawModel]


def choose_law(
    estimator: Any,  # noqa: ANN401
    *,
    levels: Sequence[float] | None,
    law: LawOf | None,
) -> LawFit:
    """Decide how laws are got, before anything is trained.

    Parameters
    ----------
    estimator
        The regressor, or a pipeline that ends in it.
    levels
        Train one clone for each of these levels.
    law
        ``(fitted_estimator, X)`` to whatever ``as_distribution`` takes.
    """
    if law is not None:
        if levels is not None or not callable(law):
            raise InputError(
                "law must be a function (fitted_estimator, X) -> prediction, without "
                f"levels, got law={law!r} and levels={levels!r}."
            )
        return partial(_fit_asked, law=law)
    if levels is not None:
        return _quantile_fit(estimator, levels)
    last = _last_step(estimator)
    if hasattr(last, "predict_distribution"):
        return partial(_fit_asked, law=_own_law)
    if "return_std" in inspect.signature(last.predict).parameters:
        return partial(_fit_gaussian, moments=_returned, keep=_TOO_NARROW, share=0.0)
    if isinstance(last, _ENSEMBLES):
        # Training residuals may be too small to believe: they only ever widen.
        return partial(
            _fit_gaussian, moments=_over_members, keep=1.0, share=_SHARE_OF_TYPICAL
        )
    return partial(_fit_gaussian, moments=_without_spread, keep=0.0, share=0.0)


def weight_option(estimator: Any) -> str:  # noqa: ANN401
    """Name under which ``fit`` takes weights of rows; refuse if it does not."""
    last = _last_step(estimator)
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            "sample_weight must be taken by the estimator's fit, and "
            f"{type(last).__name__}.fit does not. Leave sample_weight out, or choose "
            "another estimator."
        )
    return f"{_prefix(estimator)}sample_weight"


def seeded(estimator: Any, seed: int) -> Any:  # noqa: ANN401
    """Clone, with a seed for each ``random_state`` that is None."""
    fresh = clone(estimator)
    unset = {
        name: seed
        for name, value in fresh.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return fresh.set_params(**unset)


def _last_step(estimator: Any) -> Any:  # noqa: ANN401
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def _prefix(estimator: Any) -> str:  # noqa: ANN401
    """Name of the last step's parameters, seen from the outside."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return prefix


def _at_last_step(estimator: Any, X: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """The fitted last step, and what it is given for these rows."""
    while isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            if step not in (None, "passthrough"):
                X = step.transform(X)
        estimator = estimator.steps[-1][1]
    return estimator, X


def _fitted(estimator: Any, rows: Rows) -> Any:  # noqa: ANN401
    return clone(estimator).fit(rows.X, rows.y, **rows.fit_options)


def _column(values: Any) -> Array:  # noqa: ANN401
    """Predictions of one number for each row, shape ``(n,)``."""
    array = np.asarray(values, dtype=np.float64)
    if array.size != len(array):
        raise InputError(
            "the estimator must predict one number for each row, got predictions of "
            f"shape {array.shape}."
        )
    return array.reshape(-1)


@dataclass(frozen=True)
class _Asked:
    """Laws that the estimator itself gives, or a function of it."""

    estimator: Any
    law_of: LawOf

    def law(self, X: Any) -> AbstractDistribution:  # noqa: ANN401
        with torch.no_grad():
            return as_distribution(self.law_of(self.estimator, X))


def _fit_asked(estimator: Any, rows: Rows, *, law: LawOf) -> LawModel:  # noqa: ANN401
    return _Asked(_fitted(estimator, rows), law)


def _own_law(estimator: Any, X: Any) -> object:  # noqa: ANN401
    last, given = _at_last_step(estimator, X)
    law: object = last.predict_distribution(given)
    return law


@dataclass(frozen=True)
class _Quantiles:
    """One estimator for each level. Crossing quantiles are sorted, equal ones parted.

    What parts them is a normal width of a thousandth of the targets' spread: equal
    quantiles would be an atom, where the cdf jumps and no map can help.
    """

    estimators: tuple[Any, ...]
    levels: Array
    width: float

    def law(self, X: Any) -> AbstractDistribution:  # noqa: ANN401
        each = [_column(estimator.predict(X)) for estimator in self.estimators]
        values = np.sort(np.column_stack(each), axis=1)
        return QuantileTable(self.levels, values + self.width * (self.levels - 0.5))


def _quantile_fit(estimator: Any, levels: Sequence[float]) -> LawFit:  # noqa: ANN401
    asked = np.asarray(levels, dtype=np.float64)
    # The table's own check, before anything is trained.
    QuantileTable(asked, np.arange(float(asked.size)))
    last = _last_step(estimator)
    settings = last.get_params(deep=False)
    names = [name for name in _LEVEL_NAMES if name in settings]
    kinds = [str(settings[key]) for key in ("loss", "objective") if key in settings]
    # A regressor without a choice of loss is one of quantiles if it says so.
    known = any("quantile" in kind for kind in kinds) or (
        not kinds and names[:1] != ["alpha"]
    )
    if not names or not known:
        raise InputError(
            "levels need a quantile regressor, whose level is a parameter "
            f"({', '.join(_LEVEL_NAMES)}), got {last!r}. Use "
            'HistGradientBoostingRegressor(loss="quantile"), '
            'GradientBoostingRegressor(loss="quantile") or QuantileRegressor(), or '
            "leave levels out."
        )
    return partial(_fit_quantiles, levels=asked, name=f"{_prefix(estimator)}{names[0]}")


def _fit_quantiles(
    estimator: Any,  # noqa: ANN401
    rows: Rows,
    *,
    levels: Array,
    name: str,
) -> LawModel:
    trained = [
        _fitted(clone(estimator).set_params(**{name: float(level)}), rows)
        for level in levels
    ]
    return _Quantiles(tuple(trained), levels, _FLOOR * rows.spread)


@dataclass(frozen=True)
class _Gaussians:
    """Normal laws around the predictions."""

    estimator: Any
    moments: Moments
    floor: float
    factor: float = 1.0

    def mean_and_deviation(self, X: Any) -> tuple[Array, Array]:  # noqa: ANN401
        mean, deviation = self.moments(self.estimator, X)
        return mean, np.maximum(deviation, self.floor)

    def law(self, X: Any) -> AbstractDistribution:  # noqa: ANN401
        mean, deviation = self.mean_and_deviation(X)
        return Gaussian(mean, self.factor * deviation)


def _returned(estimator: Any, X: Any) -> tuple[Array, Array]:  # noqa: ANN401
    mean, deviation = estimator.predict(X, return_std=True)
    return _column(mean), _column(deviation)


def _over_members(estimator: Any, X: Any) -> tuple[Array, Array]:  # noqa: ANN401
    ensemble, given = _at_last_step(estimator, X)
    # The members were trained on plain arrays, a bagging's on some of the columns.
    given = given.tocsr() if issparse(given) else np.asarray(given)
    members = ensemble.estimators_
    columns = getattr(ensemble, "estimators_features_", [slice(None)] * len(members))
    each = np.stack(
        [
            _column(member.predict(given[:, chosen]))
            for member, chosen in zip(members, columns, strict=True)
        ]
    )
    return each.mean(0), each.std(0)


def _without_spread(estimator: Any, X: Any) -> tuple[Array, Array]:  # noqa: ANN401
    mean = _column(estimator.predict(X))
    return mean, np.zeros_like(mean)


def _fit_gaussian(
    estimator: Any,  # noqa: ANN401
    rows: Rows,
    *,
    moments: Moments,
    keep: float,
    share: float,
) -> LawModel:
    """Train, and bring the deviations to the size of the residuals.

    They stay as they are if the residuals exceed them by a factor below ``keep``. None
    is below a ``share`` of the typical one.
    """

    def plain(part: Rows) -> _Gaussians:
        trained = _fitted(estimator, part)
        typical = _size(moments(trained, part.X)[1])
        floor = max(_FLOOR * part.spread, share * typical)
        return _Gaussians(trained, moments, floor)

    model = plain(rows)
    factor = _size(_standardized_residuals(model, plain, rows))
    needed = factor > keep and math.isfinite(factor)
    return replace(model, factor=factor) if needed else model


def _standardized_residuals(
    model: _Gaussians, plain: Callable[[Rows], _Gaussians], rows: Rows
) -> Array:
    """Residuals over deviations, of the training rows unless they look memorized.

    Then a clone is trained without a fifth of them, which supply the residuals.
    """
    mean, deviation = model.mean_and_deviation(rows.X)
    residuals: Array = rows.y - mean
    if _size(residuals) < _MEMORIZED * rows.spread:
        parts = rows.split(_INNER_SHARE, seed=0)
        if parts is None:
            residuals = rows.y - rows.y.mean()
        else:
            larger, smaller = parts
            mean, deviation = plain(larger).mean_and_deviation(smaller.X)
            residuals = smaller.y - mean
    return residuals / deviation


def _size(values: Array) -> float:
    """Root mean square."""
    return float(np.sqrt(np.square(values).mean()))
