"""What the report on own data is made of: numbers and texts, no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from calibrant.metrics.scorecard import Scorecard
from calibrant.tables.columns import ColumnLine

__all__ = ["ColumnLine", "OwnReport", "Predictions"]

Numbers = npt.NDArray[np.floating] | npt.NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What was predicted for each row, and its target; arrays of shape ``(n,)``."""

    #: Number of the row in the file; 1 is the first one under the header.
    row: Numbers
    #: Target.
    y: Numbers
    #: Predicted median.
    center: Numbers
    #: Ends of the central 50 % and 90 % intervals; they may be infinite.
    low_50: Numbers
    high_50: Numbers
    low_90: Numbers
    high_90: Numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnReport:
    """All that the page shows."""

    #: The command that made it.
    kind: Literal["fit", "evaluate", "recalibrate", "compare"]
    #: Name of the file whose rows were measured.
    source: str
    #: Name of the target's column.
    target: str
    #: The measures of these rows.
    card: Scorecard
    #: The same rows one by one.
    predictions: Predictions
    #: One sentence on why these rows are new to the model.
    unseen: str
    #: What reproduces the numbers, by name: the command, the seed, versions. A text of
    #: several lines can be unfolded; the one named "command" can be copied.
    settings: Mapping[str, str]
    #: The measures of the same rows before they were recalibrated.
    before: Scorecard | None = None
    #: What was done with each column.
    columns: tuple[ColumnLine, ...] = ()
    #: What was unusual.
    notes: tuple[str, ...] = ()
    #: Curves of the training by name, one number for each epoch.
    training: Mapping[str, Sequence[float]] | None = None
