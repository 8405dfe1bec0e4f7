"""What the report on own data is made of: numbers and texts, no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from calibrant.metrics.scorecard import Scorecard
from calibrant.tables.columns import ColumnLine

__all__ = ["ColumnLine", "OwnReport", "Predictions"]

Kind = Literal["fit", "evaluate", "recalibrate", "compare"]
Numbers = npt.NDArray[np.floating] | npt.NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What was predicted for each row, and its target; arrays of shape ``(n,)``.

    Parameters
    ----------
    row
        Number of the row in the file; 1 is the first one under the header.
    y
        Target.
    center
        Predicted median.
    low_50, high_50, low_90, high_90
        Ends of the central 50 % and 90 % intervals; they may be infinite.
    """

    row: Numbers
    y: Numbers
    center: Numbers
    low_50: Numbers
    high_50: Numbers
    low_90: Numbers
    high_90: Numbers


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
        The measures of the same rows before they were recalibrated.
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
    training: Mapping[str, Sequence[float]] | None = None
