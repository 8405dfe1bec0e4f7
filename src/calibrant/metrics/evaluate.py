"""One call that measures everything."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import Distribution
from calibrant.metrics import METRICS, calibration, miscalibration, sharpness
from calibrant.metrics._counts import torch_generator
from calibrant.metrics._keys import Key
from calibrant.metrics._rows import rows
from calibrant.metrics.conditional import calibration_by, worst_group
from calibrant.metrics.coverage import mean_width
from calibrant.metrics.decomposition import crps_decomposition
from calibrant.metrics.distribution_calibration import distribution_calibration
from calibrant.metrics.noise import (
    NoiseFloor,
    debiased_calibration_error,
    noise_floor,
)
from calibrant.metrics.pit import material_grid, pit_values
from calibrant.metrics.scorecard import Measure, Scorecard
from calibrant.scores import SCORES

__all__ = ["evaluate"]

COVERAGES = (0.5, 0.8, 0.9, 0.95)
ROW_SCORES = ("nll", "crps", "interval_score", "squared_error", "absolute_error")
ACCURACY = ("rmse", "mae", "r2", "bias")
SCORE = ("nll", "crps", "interval_score")
SPREAD = ("ence", "uce")
OF_PIT: tuple[Callable[[Tensor], float], ...] = (
    calibration.calibration_error,
    calibration.paper_calibration_error,
    miscalibration.integrated_calibration_error,
    miscalibration.mean_absolute_calibration_error,
    miscalibration.root_mean_squared_calibration_error,
)


@torch.no_grad()
def evaluate(
    distribution: Any,  # noqa: ANN401  (see the parameters)
    y: ArrayLike,
    *,
    features: Mapping[str, Key] | ArrayLike | None = None,
    groups: Mapping[str, Key] | Key | None = None,
    seed: int = 0,
) -> Scorecard:
    """Measure accuracy, sharpness and calibration of held-out predictions.

    Every calibration number stands beside what a perfectly calibrated model shows on
    as many rows. Rounded and capped targets are found and treated with randomized PIT
    values. What a law cannot give (a density from samples) is left out with a note.

    Parameters
    ----------
    distribution
        Predicted laws of shape ``(n,)``: ours, torch's, scipy's, ``(mean, std)``.
    y
        Held-out targets, shape ``(n,)``.
    features
        Columns to look within: a mapping or data frame of names to columns, or an
        array ``(n, columns)``.
    groups
        Labels of the rows, or a mapping of names to labels.
    seed
        Of the randomized PIT values and the simulated p-values.

    Returns
    -------
    Scorecard
        Print it; or ``to_dict``, ``to_pandas``, ``to_json``, ``compare``.

    Examples
    --------
    >>> noise = torch.randn(400, generator=torch.Generator().manual_seed(0))
    >>> card = evaluate((torch.zeros(400), 0.5 * torch.ones(400)), noise)
    >>> card["coverage_90"] < 0.7  # half the spread that it should have
    True
    >>> card.measure("calibration_error").p_value < 0.001
    True
    """
    law, target = rows(distribution, y)
    grid = material_grid(law, target)
    generator = torch_generator(seed, target.device)
    pit = (
        pit_values(law, target, randomized=False)
        if grid is None
        else pit_values(law, target, grid=grid, generator=generator)
    )
    keys = _columns(features, "feature") | _columns(groups, "group")
    keys = {"predicted spread": _spread(law)} | keys
    promised, observed = calibration.calibration_curve(pit)
    return Scorecard(
        n=len(target),
        measures=tuple(_measures(law, target, pit)),
        grid=grid,
        groups={name: calibration_by(pit, key) for name, key in keys.items()},
        worst=worst_group(pit, keys, seed=seed),
        distribution_calibration=distribution_calibration(
            law, target, seed=seed, pit=pit
        ),
        curve=(tuple(promised.tolist()), tuple(observed.tolist())),
        rows=_scores_of_rows(law, target) | {"pit": pit.double().cpu().numpy()},
    )


def _measures(law: Distribution, target: Tensor, pit: Tensor) -> Iterator[Measure]:
    """All measures, in the order of the table."""
    n = len(target)
    for name in ACCURACY:
        yield _measure(name, "accuracy", partial(METRICS[name], law, target))
    for name in SCORE:
        yield _measure(name, "score", partial(METRICS[name], law, target))
    yield from _crps_parts(law, target)
    for of_pit in OF_PIT:
        floor = noise_floor(of_pit.__name__, n=n)
        yield _beside(of_pit.__name__, "calibration", of_pit(pit), floor)
    area = miscalibration.miscalibration_area(pit)
    yield Measure("miscalibration_area", "calibration", area)
    debiased = debiased_calibration_error(pit)
    yield Measure("debiased_calibration_error", "calibration", debiased)
    for name in SPREAD:
        yield _measure(name, "calibration", partial(METRICS[name], law, target))
    # From the PIT values, so that it is right for rounded and capped targets too.
    distance = (2 * pit - 1).abs()
    for level in COVERAGES:
        held = float((distance <= level).double().mean())
        floor = noise_floor("coverage", n=n, coverage=level)
        yield _beside(f"coverage_{100 * level:.0f}", "coverage", held, floor)
    for level in COVERAGES:
        width = partial(mean_width, law, level=level)
        yield _measure(f"width_{100 * level:.0f}", "sharpness", width)
    for of_law in (sharpness.sharpness, sharpness.mean_stddev, sharpness.dispersion):
        yield _measure(of_law.__name__, "sharpness", partial(of_law, law))


def _crps_parts(law: Distribution, target: Tensor) -> Iterator[Measure]:
    """Parts of the mean CRPS: REL - RES + UNC."""
    parts = crps_decomposition(law, target)._asdict()
    for name, value in parts.items():
        yield Measure(f"crps_{name}", "score", value)


def _measure(name: str, kind: str, function: Callable[[], float]) -> Measure:
    """A value, or NaN with the reason why the law cannot give it."""
    try:
        return Measure(name, kind, function())
    except InputError as error:  # no density, no mean, no variance
        return Measure(name, kind, math.nan, note=str(error))


def _beside(name: str, kind: str, value: float, floor: NoiseFloor) -> Measure:
    """A value with what a perfect model shows."""
    return Measure(
        name,
        kind,
        value,
        floor=floor.expectation,
        low=floor.low,
        high=floor.high,
        p_value=floor.p_value(value),
    )


def _scores_of_rows(
    law: Distribution, target: Tensor
) -> dict[str, npt.NDArray[np.float64]]:
    """The scores of each row that the law can give and that are finite."""
    table = {}
    for name in ROW_SCORES:
        try:
            values = SCORES[name](law, target)
        except InputError:
            continue
        if values.isfinite().all():
            table[name] = values.double().cpu().numpy()
    return table


def _spread(law: Distribution) -> npt.NDArray[np.float64]:
    """Standard deviation of each row, or the interquartile range where it is infinite.

    A heavy tail has no variance, but it has quartiles.
    """
    spread = law.stddev.double()
    if not spread.isfinite().all():
        lower, upper = law.interval(0.5)
        spread = (upper - lower).double()
    return np.asarray(spread.cpu().numpy(), dtype=np.float64)


def _columns(
    columns: Mapping[str, Key] | ArrayLike | Key | None, name: str
) -> dict[str, Key]:
    """Columns by name, from a mapping, a data frame or an array."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        return dict(columns)
    names = getattr(columns, "columns", None)
    if names is not None:  # a data frame, of whichever library
        frame: Any = columns
        return {str(each): frame[each] for each in names}
    table = columns.detach().cpu() if isinstance(columns, Tensor) else columns
    array = np.asarray(table)
    if array.ndim == 1:
        return {name: array}
    if array.ndim != 2:
        raise InputError(
            f"{name}s must be columns by name or an array (n, columns), got an array "
            f"of shape {array.shape}."
        )
    return {f"{name} {i}": column for i, column in enumerate(array.T)}
