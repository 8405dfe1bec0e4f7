"""How far a benchmark is, for people who wait."""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from calibrant._progress import Bar
from calibrant._terminal import say
from calibrant.benchmark.jobs import MEMBERS, Job, data_of

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
    # The default trains 25 smaller networks.
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
        terminal = sys.stderr.isatty()
        self._lines = bool(shown) and not terminal
        columns = ("share", "elapsed", "left")
        self._bar = Bar(
            "starting",
            columns,
            total=None,
            shown=terminal and shown is not False,
        )
        self._total = self._done = 0.0
        self._jobs = self._finished = 0

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Say what there is to do."""
        self._total, self._done = sum(map(cost, jobs)), 0.0
        self._jobs, self._finished = len(jobs), 0
        self._bar.show(total=self._total, completed=0)
        self._line(f"{len(jobs)} stacks to train")

    def finished(self, job: Job) -> None:
        """Move on by one job."""
        before = int(_LINES * self._done / self._total)
        self._done += cost(job)
        self._finished += 1
        self._bar.show(completed=self._done, description=str(job))
        if int(_LINES * self._done / self._total) > before:
            share = self._done / self._total
            self._line(f"{share:4.0%}  {self._finished} of {self._jobs}, last: {job}")

    def waiting(self, processes: Sequence[int]) -> None:
        """Say that other processes do the rest."""
        numbers = ", ".join(map(str, processes))
        self._bar.show(description=f"waiting for process {numbers}")

    def _line(self, text: str) -> None:
        if self._lines:
            say(text, err=True)
