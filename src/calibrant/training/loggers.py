"""Callbacks that send the numbers of each epoch to TensorBoard or MLflow."""

import os
import weakref
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from calibrant._checks import InputError
from calibrant.training.history import EpochState

__all__ = ["MLflowLogger", "ScalarWriter", "TensorBoardLogger"]


class ScalarWriter(Protocol):
    """The least that a writer must offer; torch's ``SummaryWriter`` does."""

    def add_scalar(self, name: str, value: float, step: int, /) -> object:
        """Keep one number."""
        ...


class TensorBoardLogger:
    """Log each epoch of a training to TensorBoard.

    It writes ``loss``, ``regularizer``, ``held_out/score`` and, side by side,
    ``held_out/calibration_error`` and ``held_out/calibration_floor``: what members
    that are perfectly calibrated show on as many rows. The last two need rows that
    early stopping looks at; out of fold the score is the CRPS of the pools, and there
    are none. It only looks on: the trained model stays the same bit for bit.

    One ``fit`` may train several times (each strength of ``"auto"``, each network of
    your own making), a search many times more:

    - with a folder each training is a run of its own, ``training_1``, ``training_2``
      and so on, whose steps are its epochs. Numbers that are taken are never used
      again, by copies in other processes neither;
    - with a writer the steps go on from one training to the next, and ``training``
      tells which it is. Copies of the logger, as ``sklearn.base.clone`` makes them,
      share writer and steps. It stays yours to flush and to close.

    Parameters
    ----------
    target
        Folder to make runs in (needs ``calibrant[tensorboard]``), or a writer with
        ``add_scalar(name, value, step)``: the ``SummaryWriter`` of torch or another.
    prefix
        Put before each name, as in ``"price/"``.

    Examples
    --------
    >>> from torch import nn
    >>> class Printer:
    ...     def add_scalar(self, name, value, step):
    ...         print(name, value, step)
    >>> logger = TensorBoardLogger(Printer())
    >>> numbers = dict(loss=1.5, regularizer=0.25, network=nn.Identity())
    >>> none = dict(held_out_score=None, held_out_calibration_error=None)
    >>> logger(EpochState(epoch=1, epochs=9, **numbers, **none))
    loss 1.5 1
    regularizer 0.25 1
    training 1 1
    """

    def __init__(
        self, target: str | os.PathLike[str] | ScalarWriter, *, prefix: str = ""
    ) -> None:
        self.target, self.prefix = target, prefix
        self._place = _place_of(target)

    def __call__(self, state: EpochState) -> None:
        """Write the numbers of an epoch."""
        self._place.write(_numbers(state, self.prefix), state, self.prefix)

    def __deepcopy__(self, _: dict[int, Any]) -> "TensorBoardLogger":
        copy = TensorBoardLogger(self.target, prefix=self.prefix)
        if isinstance(self._place, _Ongoing):
            copy._place = self._place
        return copy

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._place, _Ongoing):
            raise InputError(
                "a logger with a writer cannot be pickled or go to another process. "
                "Give it a folder instead: TensorBoardLogger('runs')."
            )
        return {"target": self.target, "prefix": self.prefix}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.target, self.prefix = state["target"], state["prefix"]
        self._place = _place_of(self.target)

    def __repr__(self) -> str:
        return f"TensorBoardLogger({self.target!r}{_shown(prefix=self.prefix)})"


class MLflowLogger:
    """Log each epoch of a training to a run of MLflow.

    The metrics are those of :class:`TensorBoardLogger`. They go to the run that is
    active when a training begins; the logger neither starts nor ends a run, so that
    what else you log stands beside them::

        with mlflow.start_run():
            CalibratedRegressor().fit(X, y, callbacks=[MLflowLogger()])

    If one run sees several trainings (each strength of ``"auto"``, another ``fit``, a
    search), the steps go on from where the run's last training ended, and the metric
    ``training`` tells which it is. Trainings at the same time need a run each.

    Parameters
    ----------
    run_id
        Log to this run, active or not; for work in other processes, which see no
        active run.
    prefix
        Put before each name, as in ``"price/"``.

    Examples
    --------
    >>> MLflowLogger(prefix="price/")
    MLflowLogger(prefix='price/')
    """

    def __init__(self, *, run_id: str | None = None, prefix: str = "") -> None:
        self.run_id, self.prefix = run_id, prefix
        self._place: tuple[str, int, int] | None = None

    def __call__(self, state: EpochState) -> None:
        """Write the numbers of an epoch."""
        mlflow = _package("mlflow", "MLflowLogger", extra="mlflow")
        if state.epoch == 1 or self._place is None:
            self._place = self._begin(mlflow)
        run, training, before = self._place
        numbers = _numbers(state, self.prefix)
        numbers[f"{self.prefix}training"] = training
        mlflow.log_metrics(numbers, step=before + state.epoch, run_id=run)

    def _begin(self, mlflow: Any) -> tuple[str, int, int]:  # noqa: ANN401
        """Find the run, the number of this training, and the steps before it."""
        run = self.run_id
        if run is None:
            active = mlflow.active_run()
            if active is None:
                raise InputError(
                    "MLflowLogger logs to the active run, and there is none. Write "
                    "`with mlflow.start_run(): model.fit(...)`, or give run_id."
                )
            run = str(active.info.run_id)
        # The run itself knows best: other copies of this logger may have written.
        name = f"{self.prefix}training"
        known = mlflow.MlflowClient().get_metric_history(run, name)
        if not known:
            return run, 1, 0
        last = max(known, key=lambda each: each.step)
        return run, int(last.value) + 1, int(last.step)

    def __repr__(self) -> str:
        settings = _shown(run_id=self.run_id, prefix=self.prefix)
        return f"MLflowLogger({settings.removeprefix(', ')})"


class _Runs:
    """A folder with a run for each training."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._close: weakref.finalize[[], _Runs] | None = None

    def write(self, numbers: dict[str, float], state: EpochState, _: str) -> None:
        if state.epoch == 1 or self._writer is None:
            self._open()
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, state.epoch)
        self._writer.flush()  # nobody says when a training has stopped early
        if state.epoch == state.epochs:
            self._end()

    def _open(self) -> None:
        module = "torch.utils.tensorboard"
        tensorboard = _package(module, "TensorBoardLogger", extra="tensorboard")
        self._end()
        self._writer = tensorboard.SummaryWriter(str(self._claimed()))
        self._close = weakref.finalize(self, self._writer.close)

    def _end(self) -> None:
        if self._close is not None:
            self._close()  # once, however often it is called
        self._writer = None

    def _claimed(self) -> Path:
        """Make the next folder; whoever makes it first, in any process, has it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            run = self._folder / f"training_{number}"
            with suppress(FileExistsError):
                run.mkdir()
                return run
            number += 1


class _Ongoing:
    """A writer whose steps go on from training to training."""

    def __init__(self, writer: ScalarWriter) -> None:
        self._writer = writer
        self._training = self._before = self._last = 0

    def write(self, numbers: dict[str, float], state: EpochState, prefix: str) -> None:
        if state.epoch == 1 or self._training == 0:
            self._training, self._before = self._training + 1, self._last
        self._last = self._before + state.epoch
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, self._last)
        self._writer.add_scalar(f"{prefix}training", self._training, self._last)


def _place_of(
    target: str | os.PathLike[str] | ScalarWriter,
) -> _Runs | _Ongoing:
    if isinstance(target, str | os.PathLike):
        return _Runs(Path(target))
    if callable(getattr(target, "add_scalar", None)):
        return _Ongoing(target)
    raise InputError(
        "target must be a folder or a writer with add_scalar(name, value, step), got "
        f"{target!r}. Use TensorBoardLogger('runs')."
    )


def _numbers(state: EpochState, prefix: str) -> dict[str, float]:
    """Names and numbers of an epoch; of held-out rows only if there are any."""
    found = {
        "loss": state.loss,
        "regularizer": state.regularizer,
        "held_out/score": state.held_out_score,
        "held_out/calibration_error": state.held_out_calibration_error,
        "held_out/calibration_floor": state.held_out_calibration_floor,
    }
    return {
        f"{prefix}{name}": value for name, value in found.items() if value is not None
    }


def _package(module: str, user: str, *, extra: str) -> Any:  # noqa: ANN401
    try:
        return import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"{user} needs the package {extra}. Run: pip install 'calibrant[{extra}]'"
        ) from error


def _shown(**settings: str | None) -> str:
    """Settings that were given, as they were written."""
    return "".join(f", {name}={value!r}" for name, value in settings.items() if value)
