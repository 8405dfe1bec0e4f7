"""A progress bar for people who wait for a training."""

from calibrant._progress import Bar
from calibrant.training.history import EpochState

__all__ = ["epoch_bar", "show_epoch"]


def epoch_bar(epochs: int, *, shown: bool | None, title: str) -> Bar:
    """Make a bar with epochs done and time left.

    Parameters
    ----------
    epochs
        Number of epochs.
    shown
        Show it; None shows it on a terminal only.
    title
        What is being trained.
    """
    columns = ("count", "left", "{task.fields[numbers]}")
    return Bar(title, columns, total=epochs, shown=shown, numbers="")


def show_epoch(bar: Bar, state: EpochState) -> None:
    """Move on by one epoch, with loss, regularizer and held-out error."""
    numbers = f"loss {state.loss:.3f}  regularizer {state.regularizer:.4f}"
    if state.held_out_calibration_error is not None:
        numbers += (
            f"  held out: score {state.held_out_score:.3f}, calibration error "
            f"{state.held_out_calibration_error:.4f}"
        )
    bar.show(completed=state.epoch, numbers=numbers)
