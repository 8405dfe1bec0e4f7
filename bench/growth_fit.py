"""The exponent of a cost."""

from collections.abc import Sequence

import numpy as np

__all__ = ["exponent"]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
