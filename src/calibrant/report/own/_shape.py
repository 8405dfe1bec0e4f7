"""How to read the histogram that was found."""

from typing import Any

from calibrant.metrics.scorecard import Scorecard
from calibrant.metrics.verdict import diagnose

__all__ = ["shape_words"]

_SHAPES = {
    "narrow": (
        "Here the ends stand high (a U): targets fall far from the middle of the "
        "predictions too often, so the intervals are too narrow."
    ),
    "wide": (
        "Here the middle stands high (a hump): targets fall close to the predicted "
        "median too often, so the intervals are wider than they need to be."
    ),
    "misshapen": (
        "Here the bars make neither a slope nor a plain U or hump: the predicted "
        "distributions have another shape than the targets."
    ),
}


def shape_words(card: Scorecard, histogram: dict[str, Any]) -> str:
    """Say what the bars show; ``histogram`` is the chart's data."""
    found = diagnose(card)
    if found.status == "shifted":
        up = found.lean > 0
        return (
            f"Here the bars {'rise' if up else 'fall'} from left to right (a slope): "
            f"targets lie {'higher' if up else 'lower'} than predicted."
        )
    if found.status in _SHAPES:
        return _SHAPES[found.status]
    low, high = histogram["low"], histogram["high"]
    counts = histogram["counts"]
    outside = sum(not low <= count <= high for count in counts)
    if outside == 0:
        return "Here all bars lie within the band: no fault can be seen."
    return (
        f"Here {outside} of {len(counts)} bars leave the band, without a shape that "
        "would matter."
    )
