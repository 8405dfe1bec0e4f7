"""A progress bar for people who wait for a download."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["DownloadBar"]


class DownloadBar:
    """Bytes received, speed and time left.

    Parameters
    ----------
    title
        What is downloaded.
    shown
        Show it; None shows it on a terminal only.
    """

    def __init__(self, title: str, *, shown: bool | None) -> None:
        self._title = title
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._shown:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(bar_width=20),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, received: int, total: int | None) -> None:
        """Show how much is there; None if the server does not tell the whole."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=received, total=total)
