"""What a training reports: epoch by epoch, at its end, and when it goes wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn


class DivergedError(RuntimeError):
    """The loss is no longer a finite number. The text names the step and the cause."""


class InterruptedWarning(UserWarning):
    """Training was interrupted by hand; the best model so far was kept."""


@dataclass(frozen=True, kw_only=True)
class EpochState:
    """What a callback sees after each epoch; means over members.

    A callback that returns True ends the training there.

    Attributes
    ----------
    epoch, epochs
        Number of this epoch, from 1, and of all.
    loss, regularizer
        Mean score plus strength times regularizer over the epoch, and the regularizer
        alone, without its strength.
    held_out_score, held_out_calibration_error
        On the rows that early stopping looks at, if there are any. The error is the
        sum over 20 levels of squared gaps, as in the paper, without its factor of 100.
    held_out_calibration_floor
        What that error is on average if all members are perfectly calibrated.
    network
        The network in training.
    """

    epoch: int
    epochs: int
    loss: float
    regularizer: float
    held_out_score: float | None = None
    held_out_calibration_error: float | None = None
    held_out_calibration_floor: float | None = None
    network: nn.Module = field(repr=False)


@dataclass
class History:
    """Curves of a finished training.

    Attributes
    ----------
    loss, regularizer
        One entry for each epoch, means over members.
    held_out_score, held_out_calibration_error
        The same on held-out rows; empty without early stopping. With a ``judge`` its
        score, and no error.
    best_epoch
        For each member the epoch, from 1, whose weights it has.
    interrupted
        Whether it was ended by hand.
    """

    loss: list[float] = field(default_factory=list)
    regularizer: list[float] = field(default_factory=list)
    held_out_score: list[float] = field(default_factory=list)
    held_out_calibration_error: list[float] = field(default_factory=list)
    best_epoch: list[int] = field(default_factory=list)
    interrupted: bool = False

    def add(self, state: EpochState) -> None:
        """Append one epoch."""
        self.loss.append(state.loss)
        self.regularizer.append(state.regularizer)
        if state.held_out_score is not None:
            self.held_out_score.append(state.held_out_score)
        if state.held_out_calibration_error is not None:
            self.held_out_calibration_error.append(state.held_out_calibration_error)


class EpochLogger:
    """Callback that passes the numbers of each epoch to an experiment tracker.

    It logs ``loss``, ``regularizer``, ``held_out/score`` and, side by side,
    ``held_out/calibration_error`` and ``held_out/calibration_floor``, see
    :class:`EpochState`. If one ``fit`` trains several times, the steps go on, and
    ``training`` counts the trainings. Copies share the steps.

    Parameters
    ----------
    log
        Called as ``log(name, value, step)``: for TensorBoard
        ``SummaryWriter("runs").add_scalar``.

    Examples
    --------
    >>> logger = EpochLogger(print)
    >>> logger(EpochState(epoch=1, epochs=9, loss=1.5, regularizer=0.25, network=None))
    loss 1.5 1
    regularizer 0.25 1
    training 1 1
    """

    def __init__(self, log: Callable[[str, float, int], object]) -> None:
        self.log = log
        self._training = self._before = self._last = 0

    def __call__(self, state: EpochState) -> None:
        """Log the numbers of an epoch."""
        if state.epoch == 1:
            self._training, self._before = self._training + 1, self._last
        self._last = self._before + state.epoch
        numbers = {
            "loss": state.loss,
            "regularizer": state.regularizer,
            "held_out/score": state.held_out_score,
            "held_out/calibration_error": state.held_out_calibration_error,
            "held_out/calibration_floor": state.held_out_calibration_floor,
            "training": self._training,
        }
        for name, value in numbers.items():
            if value is not None:
                self.log(name, value, self._last)

    def __deepcopy__(self, _: dict[int, Any]) -> "EpochLogger":
        return self
