"""A progress bar for people who wait."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from calibrant.training.history import EpochState

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["ProgressBar"]


class ProgressBar:
    """Epochs done and time left, with loss, regularizer and held-out error.

    Parameters
    ----------
    epochs
        Number of epochs.
    shown
        Show it; None shows it on a terminal only.
    title
        What is being trained.
    """

    def __init__(self, epochs: int, *, shown: bool | None, title: str) -> None:
        self._epochs, self._title = epochs, title
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._shown:
            from rich import progress
            from rich.console import Console
            from rich.table import Column

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(bar_width=10),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                # On a narrow terminal they go to a second line rather than be cut.
                progress.TextColumn(
                    "{task.fields[numbers]}", table_column=Column(no_wrap=False)
                ),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._epochs, numbers="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, state: EpochState) -> None:
        """Move on by one epoch."""
        if self._bar is None or self._task is None:
            return
        numbers = f"loss {state.loss:.3f}  regularizer {state.regularizer:.4f}"
        if state.held_out_calibration_error is not None:
            numbers += (
                f"  held out: score {state.held_out_score:.3f}, calibration error "
                f"{state.held_out_calibration_error:.4f}"
            )
        self._bar.update(self._task, completed=state.epoch, numbers=numbers)
