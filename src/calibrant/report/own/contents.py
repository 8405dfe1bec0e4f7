"""What the report on own data is made of: numbers and texts, no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError
from calibrant.metrics.scorecard import Scorecard
from calibrant.tables.columns import ColumnLine

__all__ = ["ColumnLine", "Kind", "OwnReport", "Predictions"]

Kind = Literal["fit", "evaluate", "recalibrate", "compare"]
Numbers = npt.NDArray[np.floating] | npt.NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What was predicted for each row, and what came; arrays of shape ``(n,)``.

    Parameters
    ----------
    row
        Number of the row in the file; 1 is the first one under the header.
    y
        Target.
    center
        Predicted median.
    low_50, high_50
        Ends of the central 50 % interval; they may be infinite.
    low_90, high_90
        Ends of the central 90 % interval.

    Examples
    --------
    >>> one = np.array([1.0])
    >>> len(Predictions(row=one, y=one, center=one, low_50=one, high_50=one,
    ...                 low_90=one, high_90=one))
    1
    """

    row: Numbers
    y: Numbers
    center: Numbers
    low_50: Numbers
    high_50: Numbers
    low_90: Numbers
    high_90: Numbers

    def __post_init__(self) -> None:
        shapes = {
            each.name: np.shape(getattr(self, each.name)) for each in fields(self)
        }
        if len(set(shapes.values())) > 1 or len(shapes["y"]) != 1:
            listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise InputError(
                f"predictions must be arrays of one shape (n,), got {listed}."
            )

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnReport:
    """All that the page shows.

    Parameters
    ----------
    kind
        The command that made it.
    source
        Name of the file whose rows were measured.
    target
        Name of the target's column.
    card
        The measures of these rows.
    predictions
        The same rows one by one.
    unseen
        One sentence on why these rows are new to the model.
    settings
        What reproduces the numbers, by name: the command, the seed, versions. A text
        of several lines can be unfolded; the one named "command" can be copied.
    before
        The same rows before they were recalibrated.
    columns
        What was done with each column.
    notes
        What was unusual.
    training
        Curves of the training by name, one number for each epoch.
    """

    kind: Kind
    source: str
    target: str
    card: Scorecard
    predictions: Predictions
    unseen: str
    settings: Mapping[str, str]
    before: Scorecard | None = None
    columns: tuple[ColumnLine, ...] = ()
    notes: tuple[str, ...] = ()
    training: Mapping[str, Sequence[float]] | None = field(default=None)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(
                f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}."
            )
        if len(self.predictions) != self.card.n:
            raise InputError(
                f"predictions must have one row for each of the {self.card.n:,} rows "
                f"of the card, got {len(self.predictions):,}."
            )
