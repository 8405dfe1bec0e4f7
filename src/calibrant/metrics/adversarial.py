"""Calibration of the worst group: an average can hide a group that it fails."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._checks import ArrayLike, InputError
from calibrant.contracts import PitValues
from calibrant.metrics._levels import (
    Kind,
    Levels,
    count_at_most,
    fold,
    pit_rows,
    promised_levels,
)

__all__ = [
    "AdversarialCalibration",
    "adversarial_group_calibration",
    "worst_group_calibration_error",
]


_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))


class AdversarialCalibration(NamedTuple):
    """Calibration error of the worst random group, for each group size.

    All three have shape ``(k,)``: the fraction of all rows in a group, the mean over
    trials of the worst error, and the standard error of that mean.
    """

    fraction: Tensor
    error: Tensor
    standard_error: Tensor


def adversarial_group_calibration(
    pit: ArrayLike | PitValues,
    *,
    fractions: ArrayLike = _TENTHS,
    levels: Levels = 100,
    kind: Kind = "quantile",
    groups: int = 10,
    trials: int = 10,
    generator: torch.Generator | None = None,
) -> AdversarialCalibration:
    r"""Mean absolute calibration error of the worst of some random groups.

    In each trial, ``groups`` random groups are drawn without replacement and the
    largest error counts. Small groups show larger errors even of a perfectly calibrated
    model, since they are small: compare models at one group size and one n.

    The error of a group depends only on how many of its PIT values fall between
    neighboring levels. These counts follow a multivariate hypergeometric law, which is
    drawn from directly: the cost does not grow with the groups' size.

    Parameters
    ----------
    pit
        PIT values of held-out targets, shape ``(n,)``, in [0, 1].
    fractions
        Share of all rows in a group, shape ``(k,)``. A group has at least 2 rows.
    levels, kind
        As in :func:`~calibrant.metrics.miscalibration.mean_absolute_calibration_error`;
        the options named there give uncertainty-toolbox's error.
    groups
        Groups per trial.
    trials
        At least 2.
    generator
        Source of randomness; by default a fixed seed, so that results repeat.

    Returns
    -------
    AdversarialCalibration
        Fractions, mean worst errors and their standard errors.

    References
    ----------
    Zhao, Ma and Ermon (2020), *Individual Calibration with Randomized Forecasting*,
    arXiv:2006.10288.

    Examples
    --------
    >>> result = adversarial_group_calibration([0.2, 0.4, 0.6, 0.8], fractions=[0.5, 1])
    >>> bool(result.error[0] > result.error[1])  # the second: all rows
    True
    """
    values = fold(pit_rows(pit), kind)
    if groups < 1 or trials < 2:
        raise InputError(
            "groups must be at least 1 and trials at least 2, got "
            f"groups={groups} and trials={trials}."
        )
    shares = _fractions(fractions)
    promised = promised_levels(levels).sort().values
    # Rows up to the first level, between levels, and above the last one.
    up_to = count_at_most(values, promised).numpy()
    cells = np.diff(up_to, prepend=0, append=len(values))
    sizes = [min(max(round(len(values) * s), 2), len(values)) for s in shares.tolist()]

    rng = _numpy_generator(generator)
    drawn = np.stack(
        [rng.multivariate_hypergeometric(cells, m, trials * groups) for m in sizes]
    )
    observed = drawn.cumsum(-1)[..., :-1] / np.array(sizes)[:, None, None]
    errors = torch.from_numpy(np.abs(observed - promised.numpy()).mean(-1))
    worst = errors.reshape(-1, trials, groups).amax(-1)
    return AdversarialCalibration(shares, worst.mean(-1), worst.std(-1) / trials**0.5)


def worst_group_calibration_error(
    pit: ArrayLike | PitValues,
    *,
    fraction: float = 0.1,
    generator: torch.Generator | None = None,
) -> float:
    """Mean absolute calibration error of the worst of ten random groups.

    :func:`adversarial_group_calibration` at one group size: a tenth of the rows.

    Examples
    --------
    >>> worst_group_calibration_error([0.0, 0.0], fraction=1.0) == 0.495
    True
    """
    result = adversarial_group_calibration(
        pit, fractions=[fraction], generator=generator
    )
    return float(result.error)


def _fractions(fractions: ArrayLike) -> Tensor:
    shares = torch.as_tensor(np.asarray(fractions), dtype=torch.float64)
    if shares.ndim != 1 or not bool(((shares > 0) & (shares <= 1)).all()):
        raise InputError(
            "fractions must have shape (k,) and lie above 0 and at most at 1, got "
            f"{shares.tolist()}. Write 0.1 for groups of a tenth of the rows."
        )
    return shares


def _numpy_generator(generator: torch.Generator | None) -> np.random.Generator:
    """Return a numpy generator (torch has no hypergeometric law) seeded by torch's."""
    source = torch.Generator().manual_seed(0) if generator is None else generator
    seed: npt.NDArray[np.int64] = torch.randint(2**62, (), generator=source).numpy()
    return np.random.default_rng(int(seed))
