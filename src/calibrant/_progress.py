"""A progress bar for people who wait."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from calibrant._terminal import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar"]

#: Columns that a bar can be made of, by name; other texts are rich's templates.
_COLUMNS = {
    "count": "MofNCompleteColumn",
    "share": "TaskProgressColumn",
    "size": "DownloadColumn",
    "speed": "TransferSpeedColumn",
    "elapsed": "TimeElapsedColumn",
    "left": "TimeRemainingColumn",
}


class Bar:
    """A bar on the terminal, or nothing at all.

    Parameters
    ----------
    title
        What is being done.
    columns
        What stands beside the bar: count, share, size, speed, elapsed, left, or texts
        with the fields that ``show`` is given, such as ``"{task.fields[loss]}"``.
    total
        When it is full; None if that is not known yet.
    shown
        Show it; None shows it on a terminal only.
    """

    def __init__(
        self,
        title: str,
        columns: tuple[str, ...],
        *,
        total: float | None,
        shown: bool | None,
        **fields: Any,  # noqa: ANN401  (what rich takes)
    ) -> None:
        self._title, self._columns, self._fields = title, columns, fields
        self._total = total
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self.shown:
            from rich import progress
            from rich.console import Console
            from rich.table import Column

            # On a narrow terminal texts go to a second line rather than be cut.
            texts = Column(no_wrap=False)
            self._bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(bar_width=10),
                *(
                    getattr(progress, _COLUMNS[each])()
                    if each in _COLUMNS
                    else progress.TextColumn(each, table_column=texts)
                    for each in self._columns
                ),
                console=Console(stderr=True),
                speed_estimate_period=3600,  # steps of very different length
            )
            self._bar.start()
            self._task = self._bar.add_task(
                printable(self._title), total=self._total, **self._fields
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, **changes: Any) -> None:  # noqa: ANN401  (what rich takes)
        """Show other values: ``completed``, ``total``, or one of the fields."""
        if self._bar is not None and self._task is not None:
            plain: dict[str, Any] = {
                name: printable(value) if isinstance(value, str) else value
                for name, value in changes.items()
            }
            self._bar.update(self._task, **plain)
