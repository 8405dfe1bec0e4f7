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
from calibrant.metrics._levels import pit_rows
from calibrant.metrics._rows import center_and_spread, no_nan, rows
from calibrant.metrics.conditional import calibration_by, worst_group
from calibrant.metrics.coverage import mean_width
from calibrant.metrics.decomposition import CrpsDecomposition, crps_decomposition
from calibrant.metrics.distribution_calibration import (
    DistributionCalibration,
    distribution_calibration,
)
from calibrant.metrics.noise import (
    NoiseFloor,
    debiased_calibration_error,
    noise_floor,
)
from calibrant.metrics.pit import TargetGrid, material_grid, recorded_pit
from calibrant.metrics.scorecard import Measure, Scorecard
from calibrant.metrics.spread_noise import spread_noise_floors
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
    miscalibration.miscalibration_area,
    debiased_calibration_error,
)
#: From here on fewer models are simulated for the floors of ence and uce.
_MANY_ROWS = 20_000
RowScores = dict[str, Tensor | InputError]


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
    values, and samples by ranks. What a law cannot give (a density from samples) is
    left out with a note.

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
    target = target.detach()
    grid = material_grid(law, target)
    generator = torch_generator(seed, target.device)
    pit = pit_rows(recorded_pit(law, target, grid, generator=generator))
    scores = _scores_of_rows(law, target)
    keys = _predicted_spread(law, target)
    keys |= _columns(features, "feature") | _columns(groups, "group")
    by_key = {name: calibration_by(pit, key) for name, key in keys.items()}
    # All rows in one group say nothing that the whole card does not.
    several = {name: key for name, key in keys.items() if len(by_key[name]) > 1}
    promised, observed = calibration.calibration_curve(pit)
    return Scorecard(
        n=len(target),
        measures=(
            *_accuracy_and_scores(law, target, scores),
            *_calibration(law, target, pit, grid, seed),
            *_sharpness(law),
        ),
        grid=grid,
        groups=by_key,
        worst=worst_group(pit, several, seed=seed) if several else None,
        distribution_calibration=_given_prediction(law, target, pit, seed),
        curve=(tuple(promised.tolist()), tuple(observed.tolist())),
        rows=_finite(scores)
        | {"pit": pit.cpu().numpy(), "y": target.double().cpu().numpy()},
    )


def _accuracy_and_scores(
    law: Distribution, target: Tensor, scores: RowScores
) -> Iterator[Measure]:
    for name in ACCURACY:
        yield _measure(name, "accuracy", partial(METRICS[name], law, target))
    for name in SCORE:
        yield _measure(name, "score", partial(_mean, scores[name]))
    try:
        parts = crps_decomposition(law, target, mean_crps=_mean(scores["crps"]))
    except InputError as error:
        lost = dict.fromkeys(CrpsDecomposition._fields, math.nan)
        values, note = lost, str(error)
    else:
        values, note = parts._asdict(), ""
    for name, value in values.items():
        yield Measure(f"crps_{name}", "score", value, note=note)


def _calibration(
    law: Distribution,
    target: Tensor,
    pit: Tensor,
    grid: TargetGrid | None,
    seed: int,
) -> Iterator[Measure]:
    """Each number beside its floor."""
    n = len(target)
    for of_pit in OF_PIT:
        floor = noise_floor(of_pit.__name__, n=n)
        yield _beside(of_pit.__name__, "calibration", of_pit(pit), floor)
    yield from _spread_calibration(law, target, grid, seed)
    # From the PIT values, so that it is right for rounded and capped targets too.
    distance = (2 * pit - 1).abs()
    for level in COVERAGES:
        held = float((distance <= level).double().mean())
        floor = noise_floor("coverage", n=n, coverage=level)
        yield _beside(f"coverage_{100 * level:.0f}", "coverage", held, floor)


def _spread_calibration(
    law: Distribution, target: Tensor, grid: TargetGrid | None, seed: int
) -> Iterator[Measure]:
    """Variance against squared error."""
    draws = 200 if len(target) <= _MANY_ROWS else 100
    try:
        floors = spread_noise_floors(law, target, grid=grid, draws=draws, seed=seed)
    except InputError:  # no variance, no spread, no samples
        floors = {}
    for name in SPREAD:
        plain = _measure(name, "calibration", partial(METRICS[name], law, target))
        if name in floors and not math.isnan(plain.value):
            yield _beside(name, "calibration", plain.value, floors[name])
        else:
            yield plain


def _sharpness(law: Distribution) -> Iterator[Measure]:
    for level in COVERAGES:
        width = partial(mean_width, law, level=level)
        yield _measure(f"width_{100 * level:.0f}", "sharpness", width)
    for of_law in (sharpness.sharpness, sharpness.mean_stddev, sharpness.dispersion):
        yield _measure(of_law.__name__, "sharpness", partial(of_law, law))


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


def _scores_of_rows(law: Distribution, target: Tensor) -> RowScores:
    """The scores of each row, or why the law cannot give them."""
    table: RowScores = {}
    for name in ROW_SCORES:
        try:
            table[name] = no_nan(SCORES[name](law, target)).double()
        except InputError as error:
            table[name] = error
    return table


def _mean(values: Tensor | InputError) -> float:
    if isinstance(values, InputError):
        raise values
    return float(values.mean())


def _finite(scores: RowScores) -> dict[str, npt.NDArray[np.floating]]:
    """The scores that can be compared."""
    return {
        name: values.cpu().numpy()
        for name, values in scores.items()
        if isinstance(values, Tensor) and bool(values.isfinite().all())
    }


def _predicted_spread(law: Distribution, target: Tensor) -> dict[str, Key]:
    """The column that every law makes, unless it has neither moments nor quantiles."""
    try:
        return {"predicted spread": center_and_spread(law, target)[1].cpu().numpy()}
    except InputError:
        return {}


def _given_prediction(
    law: Distribution, target: Tensor, pit: Tensor, seed: int
) -> DistributionCalibration | None:
    try:
        return distribution_calibration(law, target, seed=seed, pit=pit)
    except InputError:  # neither moments nor quantiles
        return None


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
