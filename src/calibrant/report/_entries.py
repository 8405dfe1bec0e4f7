"""Numbers as entries of tables."""

import math

from calibrant.benchmark.comparison import SetComparison
from calibrant.benchmark.published import PublishedNumber
from calibrant.benchmark.summary import ArmSummary, Spread
from calibrant.report.grid import Entry

__all__ = [
    "DEVIATION",
    "MISSING",
    "NOT_RUN",
    "better",
    "number",
    "ours",
    "printed",
    "short",
    "spread",
    "told",
]

MISSING = "n/a"
NOT_RUN = "not run"
#: What ± means in all tables.
DEVIATION = (
    "± is the population standard deviation (ddof 0) of the repeats' means; a number "
    "without it is of one repeat."
)


def short(value: float) -> str:
    """Write a number with two digits after the point, three if it is below 1.

    Examples
    --------
    >>> short(12.345), short(0.0678), short(float("inf"))
    ('12.35', '0.068', 'inf')
    """
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def number(value: float, detail: str = "") -> Entry:
    """Make an entry of a number."""
    return Entry(short(value), value, detail)


def spread(found: Spread, repeats: int, *, detail: str = "") -> Entry:
    """Make an entry of mean ± deviation; one repeat has no deviation."""
    text = short(found.mean)
    if repeats > 1 and math.isfinite(found.std):
        places = len(text.partition(".")[2])
        text = f"{text} ± {found.std:.{places}f}"
    return Entry(text, found.mean, detail)


def printed(found: PublishedNumber | None) -> Entry:
    """Make an entry of a number of the paper, as it is printed."""
    if found is None:
        return Entry(MISSING)
    return Entry(f"{found.mean:.2f} ± {found.std:.2f}", found.mean)


def ours(
    summary: ArmSummary | None, metric: str, comparison: SetComparison | None = None
) -> Entry:
    """Make an entry of an arm's number: bold if it is clearly lower than the other's.

    Parameters
    ----------
    summary
        Of the arm; None if it was not run.
    metric
        Which number.
    comparison
        With what it is compared, the arm itself being B.
    """
    if summary is None:
        return Entry(NOT_RUN)
    if not summary.repeats:
        return Entry(summary.state)
    detail = summary.state
    if comparison is not None:
        detail += f"; {told(comparison)}"
    entry = spread(summary.values[metric], summary.repeats, detail=detail)
    return Entry(entry.text, entry.value, entry.detail, better(comparison))


def better(comparison: SetComparison | None) -> bool:
    """Whether B is clearly lower."""
    return comparison is not None and comparison.direction == "lower"


def told(comparison: SetComparison) -> str:
    """Say what a comparison found."""
    test = comparison.test
    words = {"unclear": "no clear difference"}
    found = words.get(comparison.direction, f"clearly {comparison.direction}")
    return f"difference {test.difference:+.3g}, p = {test.p:.2g}: {found}"
