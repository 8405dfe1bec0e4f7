"""What a moment says: where it lies, and the month, weekday and hour."""

import numpy as np

from calibrant.tables._cells import FloatArray
from calibrant.tables._dates import DAY

__all__ = ["PARTS", "POSITION", "calendar_parts", "part_values"]

POSITION = "position"
PARTS = (
    POSITION,
    *("month (sin)", "month (cos)"),
    *("weekday (sin)", "weekday (cos)"),
    *("hour (sin)", "hour (cos)"),
)
"""Every feature that a date can give, in their order in the matrix."""

SMALL = 1e-9


def part_values(part: str, seconds: FloatArray, *, first: float) -> FloatArray:
    """Return one of the features of moments ``(n,)``, in days or in [-1, 1]."""
    if part == POSITION:
        return (seconds - first) / DAY
    name, wave = part.removesuffix(")").split(" (")
    angle = 2 * np.pi * _PHASES[name](seconds)
    return np.sin(angle) if wave == "sin" else np.cos(angle)


def calendar_parts(seconds: FloatArray) -> tuple[str, ...]:
    """Return which features differ from row to row over the moments of training."""
    first = float(seconds.min())
    span = (float(seconds.max()) - first) / DAY
    wanted = {
        POSITION: True,
        "month": span > 60,
        "weekday": span > 7,
        "hour": bool((_hour(seconds) > 0).any()),
    }
    return tuple(
        part
        for part in PARTS
        if wanted[part.split(" (")[0]]
        and np.ptp(part_values(part, seconds, first=first)) > SMALL
    )


def _month(seconds: FloatArray) -> FloatArray:
    months = np.floor(seconds).astype("datetime64[s]").astype("datetime64[M]")
    return (months.astype(np.int64) % 12) / 12


def _weekday(seconds: FloatArray) -> FloatArray:
    # 1970 began on a Thursday; a week on Monday.
    return ((np.floor(seconds / DAY) + 3) % 7) / 7


def _hour(seconds: FloatArray) -> FloatArray:
    return (seconds % DAY) / DAY


_PHASES = {"month": _month, "weekday": _weekday, "hour": _hour}
