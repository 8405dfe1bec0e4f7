"""Noise floors of any metric: targets drawn from the predicted laws themselves."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calibrant._checks import InputError
from calibrant.contracts import Distribution
from calibrant.metrics._counts import check_draws, torch_generator
from calibrant.metrics._rows import law_of_rows
from calibrant.metrics.calibration import calibration_error, paper_calibration_error
from calibrant.metrics.noise import (
    NoiseFloor,
    PitMetric,
    floor_from_draws,
    metric_name,
)
from calibrant.metrics.pit import TargetGrid
from calibrant.regularizers.divergences import cramer_von_mises, cumulative_kl

__all__ = ["predictive_noise_floor"]

LawMetric = Callable[[Any, Tensor], Tensor | float]

_NAMED: dict[str, PitMetric] = {
    "calibration_error": calibration_error,
    "paper_calibration_error": paper_calibration_error,
    "cramer_von_mises": cramer_von_mises,
    "cumulative_kl": cumulative_kl,
}


def predictive_noise_floor(
    distribution: Any,  # noqa: ANN401  (see the parameters)
    metric: str | PitMetric | LawMetric = "calibration_error",
    *,
    grid: TargetGrid | None = None,
    takes: Literal["law", "pit"] = "law",
    draws: int = 500,
    seed: int = 0,
) -> NoiseFloor:
    r"""What a metric shows when the targets really come from the predicted laws.

    Targets :math:`y_i \sim F_i` are drawn, rounded and capped as ``grid`` says, and the
    metric is computed again. It serves every metric (a score, coverage, errors within
    groups), and PLAIN PIT values of a rounded target, which are not uniform even for a
    perfect model. For randomized PIT values :func:`noise_floor` says the same for less.

    Parameters
    ----------
    distribution
        Predicted laws of shape ``(n,)``: anything that
        :func:`~calibrant.distributions.conversion.as_distribution` takes.
    metric
        A function ``(distribution, y) -> number``, or of PIT values ``(n,)`` with
        ``takes="pit"``; or a name: ``"calibration_error"`` (20 levels, sum),
        ``"paper_calibration_error"``, ``"cramer_von_mises"``, ``"cumulative_kl"``.
    grid
        How targets are recorded; as exact numbers unless told.
    takes
        What a function takes: the law and targets, or plain PIT values ``F(y)``.
    draws
        Simulated sets of targets, at least 40.
    seed
        Of the simulation: the same seed gives the same numbers.

    Returns
    -------
    NoiseFloor
        Expectation, 95 % range and p-values.

    Examples
    --------
    >>> from calibrant.distributions.normal import Gaussian
    >>> law = Gaussian([5.0] * 100, 0.8)
    >>> exact = predictive_noise_floor(law, draws=100)
    >>> rounded = predictive_noise_floor(law, grid=TargetGrid(step=1), draws=100)
    >>> rounded.expectation > 5 * exact.expectation
    True
    """
    law = law_of_rows(distribution)
    name, function = _as_law_metric(metric, takes)
    values = np.empty(check_draws(draws))
    generator = torch_generator(seed, law.mean.device)
    with torch.no_grad():
        for draw in range(draws):
            y = law.sample(generator=generator)
            values[draw] = float(function(law, y if grid is None else grid.round(y)))
    return floor_from_draws(name, law.batch_shape[0], values)


def _as_law_metric(
    metric: str | PitMetric | LawMetric, takes: str
) -> tuple[str, LawMetric]:
    """Name of a metric, and the metric as a function of law and targets."""
    if takes not in ("law", "pit"):
        raise InputError(f'takes must be "law" or "pit", got {takes!r}.')
    if isinstance(metric, str):
        if metric not in _NAMED:
            raise InputError(
                f"metric must be one of {', '.join(_NAMED)} or a function, "
                f"got {metric!r}."
            )
        return metric, _of_plain_pit(_NAMED[metric])
    function: LawMetric = metric if takes == "law" else _of_plain_pit(metric)  # type: ignore[assignment]
    return metric_name(metric), function


def _of_plain_pit(metric: Callable[..., Tensor | float]) -> LawMetric:
    def of_law(law: Distribution, y: Tensor) -> Tensor | float:
        return metric(law.cdf(y))

    return of_law
