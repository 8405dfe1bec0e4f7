"""How far a benchmark is, for people who wait."""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from calibrant.benchmark.jobs import MEMBERS, Job, data_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["JobProgress", "cost"]

# Without a terminal one line for each of so many parts of the work.
_LINES = 20
# Steps of an adversarial training take so many times as long as those of others.
_ADVERSARIAL = 2.5
# Starting a training and measuring its cells, in rows that are learned from.
_OVERHEAD = 5_000.0


def cost(job: Job) -> float:
    """Estimate the work of a job, in rows of a network that are learned from."""
    cell = job.arm
    rows = len(data_of(cell.data).y) * (1 - 1 / max(2, cell.folds))
    epochs = max(each.epochs for each in job.cells)
    # The default trains five folds of five smaller networks.
    networks = 12.0 if cell.network == "default" else float(MEMBERS[cell.network])
    if cell.network == "deep_ensemble":
        networks *= _ADVERSARIAL
    return rows * epochs * networks * len(job.models) + _OVERHEAD * len(job.cells)


class JobProgress:
    """A bar with the time left on a terminal, lines otherwise.

    Parameters
    ----------
    shown
        Show it; None shows it on a terminal only.
    """

    def __init__(self, *, shown: bool | None) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = self._terminal if shown is None else shown
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._total = self._done = 0.0
        self._jobs = self._finished = 0

    def __enter__(self) -> Self:
        if self._shown and self._terminal:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.BarColumn(bar_width=20),
                progress.TaskProgressColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.description}"),
                console=Console(stderr=True),
                speed_estimate_period=3600,
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, jobs: Sequence[Job]) -> None:
        """Say what there is to do."""
        self._total, self._done = sum(map(cost, jobs)), 0.0
        self._jobs, self._finished = len(jobs), 0
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("starting", total=self._total)
        self._line(f"{len(jobs)} stacks to train")

    def finished(self, job: Job) -> None:
        """Move on by one job."""
        before = int(_LINES * self._done / self._total)
        self._done += cost(job)
        self._finished += 1
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, completed=self._done, description=f"finished {job}"
            )
        if int(_LINES * self._done / self._total) > before:
            share = self._done / self._total
            self._line(f"{share:4.0%}  {self._finished} of {self._jobs}, last: {job}")

    def waiting(self, processes: Sequence[int]) -> None:
        """Say that other processes do the rest."""
        numbers = ", ".join(map(str, processes))
        text = f"waiting for process {numbers}, which does the rest"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text)

    def _line(self, text: str) -> None:
        if self._shown and not self._terminal:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
