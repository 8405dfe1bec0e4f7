"""How a network is trained: one frozen record of every choice."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.protocols import Regularizer, Sorter
from calibrant.registry import Table
from calibrant.scores import Score
from calibrant.validation import InputError, check_positive

#: Share of the training that is done, in [0, 1], to a factor of the learning rate.
Schedule = Callable[[float], float]

#: What a training can group rows by; it passes no features to a regularizer.
_KEYS = ("spread", "mean")


def constant(share: float) -> float:  # noqa: ARG001  (a schedule takes it)
    """Keep the learning rate as it is."""
    return 1.0


def cosine(share: float) -> float:
    r"""Lower the learning rate to 0 along half a cosine, :math:`(1 + \cos \pi s) / 2`.

    Examples
    --------
    >>> cosine(0.0), cosine(1.0)
    (1.0, 0.0)
    """
    return (1 + math.cos(math.pi * share)) / 2


def warm_cosine(share: float) -> float:
    """Raise the learning rate over the first twentieth, then as ``cosine``."""
    return min(1.0, 20 * share + 0.05) * cosine(share)


SCHEDULES: Table[Schedule] = Table(
    "schedule",
    {name: f"{__name__}:{name}" for name in ("constant", "cosine", "warm_cosine")},
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    r"""Every choice of a training.

    .. math:: \mathcal{L} = \frac1n \sum_i w_i \, s(F_i, y_i) + \lambda R(F_i(y_i)) .

    Attributes
    ----------
    score
        :math:`s`: a name from ``SCORES``, ``"beta_nll"`` (Seitzer et al. 2022), or a
        function of distribution and targets.
    regularizer
        :math:`R`: a name from ``REGULARIZERS``, or a function of PIT values.
    strength
        :math:`\lambda`, or one for each member. With ``adversarial`` above 0 it
        weighs half as much against the score. Below 0 miscalibration is left to a
        map, see ``pit_entropy``.
    sort
        A name from ``SORTERS``, or a function; for regularizers that sort.
    conditional
        Apply the regularizer within groups by ``"spread"`` or ``"mean"`` instead of
        over the whole batch, see ``ConditionalRegularizer``.
    regularize_whole
        Where the regularizer has rows of its own (``TrainingData.regularized``), let
        it move the whole distribution. By default the location is detached, and its
        gradient goes to the spread alone.
    adversarial
        Train half on rows that were moved by this share of each input's range, in the
        direction that raises the score most (FGSM); the paper's is 0.01. The loss is
        then :math:`\frac12 (s + \lambda R) + \frac12 s'`, with :math:`s'` of the moved
        rows.
    epochs, batch_size
        Passes over the rows, and rows of each step. A short last batch is kept.
    optimizer
        ``"adam"`` or ``"adamw"``.
    learning_rate, weight_decay
        Of the optimizer.
    schedule
        A name from ``SCHEDULES``, or a function of the share that is done.
    gradient_clip
        Largest norm of a member's gradient, or None.
    patience
        A member is done when its held-out score has not improved for this many epochs,
        and gets its best weights back. None for no early stopping.

    Notes
    -----
    Sample weights weight the score. The regularizer counts each row once.

    Examples
    --------
    >>> recipe = Recipe(strength=20.0, epochs=50, schedule="cosine")
    >>> recipe.batch_size, recipe.strength
    (512, 20.0)
    """

    score: str | Score = "nll"
    regularizer: str | Regularizer = "cumulative_kl"
    strength: float | Sequence[float] = 0.0
    sort: str | Sorter | None = None
    conditional: Sequence[str] = ()
    regularize_whole: bool = False
    adversarial: float = 0.0
    epochs: int = 100
    batch_size: int = 512
    optimizer: str = "adam"
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    schedule: str | Schedule = "constant"
    gradient_clip: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        counts: dict[str, Any] = {"epochs": self.epochs, "batch_size": self.batch_size}
        if self.patience is not None:
            counts["patience"] = self.patience
        for name, value in counts.items():
            if not (isinstance(value, int | np.integer) and value >= 1):
                raise InputError(f"{name} must be a whole number >= 1, got {value!r}.")
        check_positive(self.learning_rate, name="learning_rate")
        if self.gradient_clip is not None:
            check_positive(self.gradient_clip, name="gradient_clip")
        for name in ("weight_decay", "adversarial"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(
                    f"{name} must be finite and at least 0, got {getattr(self, name)}."
                )
        strengths = np.asarray(self.strength, dtype=float)
        if strengths.ndim > 1 or not np.isfinite(strengths).all():
            raise InputError(
                "strength must be finite, one number or one for each member, got "
                f"{self.strength}."
            )
        if self.optimizer not in ("adam", "adamw"):
            raise InputError(
                f'optimizer must be "adam" or "adamw", got {self.optimizer!r}.'
            )
        if isinstance(self.conditional, str) or set(self.conditional) - set(_KEYS):
            raise InputError(
                f"conditional must be a list of keys out of {', '.join(_KEYS)}, got "
                f"{self.conditional!r}."
            )
