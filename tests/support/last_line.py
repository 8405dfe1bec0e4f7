"""What the last line of an example says of its intervals on unseen rows."""

import re

from scipy.stats import binom

__all__ = ["assert_calibrated", "coverages"]


def coverages(text: str) -> list[float]:
    """Shares of rows within the 90 % intervals, in percent."""
    return [float(each) for each in re.findall(r"90 % intervals \w+ ([\d.]+) ?%", text)]


def assert_calibrated(text: str) -> None:
    """Coverage lies in the range of a perfect model on as many rows.

    That is the range which the line states, or else that of the number of its rows.
    """
    line = text.strip().splitlines()[-1]
    found = coverages(line)
    stated = re.search(r"([\d.]+) ?%? to ([\d.]+) ?%", line)
    if stated:
        low, high = map(float, stated.groups())
    else:
        rows = re.search(r"([\d,]+) unseen rows", line)
        assert rows, line
        n = int(rows[1].replace(",", ""))
        low, high = 100 * binom.ppf([0.025, 0.975], n, 0.9) / n
    assert found, line
    assert low <= found[0] <= high, line
