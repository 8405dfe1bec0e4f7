"""The exponent of a cost."""

from collections.abc import Sequence

import numpy as np

__all__ = ["exponent"]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log time against log size over the larger half of the sizes.

    Small sizes cost their calls, not their rows.
    """
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])
