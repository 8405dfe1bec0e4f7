"""Which rows are set aside to measure a model on."""

import numpy as np
import numpy.typing as npt

from calibrant._checks import InputError
from calibrant.tables._words import amount

__all__ = ["set_aside"]

Rows = npt.NDArray[np.int64]
#: A model and its measurement need this many rows each, to be worth anything.
_FEWEST_LEARNED = 20
_FEWEST_SET_ASIDE = 5


def set_aside(
    known: Rows,
    share: float,
    *,
    seed: int,
    times: npt.NDArray[np.float64] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
    name: str = "the table",
    by: str | None = None,
) -> tuple[Rows, Rows]:
    """Cut rows into those to learn from and those to measure on, in their order.

    Parameters
    ----------
    known
        The rows to cut, by their numbers from 0, ascending.
    share
        Part to set aside, in [0, 1).
    seed
        Of the choice.
    times
        Time of each row of the table: the latest are set aside, and no moment is cut.
    groups
        Group of each row of the table: whole groups are set aside, chosen at random.
    name, by
        Of the table and of the column of times or groups, for messages.

    Examples
    --------
    >>> learned, held = set_aside(np.arange(50), 0.2, seed=0, times=-np.arange(50.0))
    >>> held
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    if not 0 <= share < 1:
        raise InputError(
            f"the share of rows to set aside must be in [0, 1), got {share:g}. Write "
            "0.2 for a fifth, and 0 for none."
        )
    count = len(known)
    chosen = np.zeros(count, dtype=bool)
    wanted = round(share * count)
    if wanted:
        if times is not None:
            chosen = _latest(times[known], wanted)
        elif groups is not None:
            chosen = _whole_groups(groups[known], wanted, seed)
        else:
            chosen[np.random.default_rng(seed).permutation(count)[:wanted]] = True
    learned, held = known[~chosen], known[chosen]
    if wanted and not len(learned):
        raise InputError(
            f"{name}, column {by!r:.60}: all rows have the same value, so none can be "
            "set aside by it. Choose another column, or set nothing aside (0)."
        )
    _check(name, count, len(learned), len(held) if share else None)
    return learned, held


def _latest(times: npt.NDArray[np.float64], wanted: int) -> npt.NDArray[np.bool_]:
    bound = np.sort(times)[-wanted]
    chosen: npt.NDArray[np.bool_] = times >= bound
    return chosen


def _whole_groups(
    groups: npt.NDArray[np.int64], wanted: int, seed: int
) -> npt.NDArray[np.bool_]:
    labels, sizes = np.unique(groups, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    taken = np.cumsum(sizes[order])
    enough = int(np.searchsorted(taken, wanted)) + 1
    # With few groups the last one may be far too many rows.
    if enough > 1 and taken[enough - 1] - wanted > wanted - taken[enough - 2]:
        enough -= 1
    return np.isin(groups, labels[order[:enough]])


def _check(name: str, count: int, learned: int, held: int | None) -> None:
    if learned < _FEWEST_LEARNED or (held is not None and held < _FEWEST_SET_ASIDE):
        aside = "" if held is None else f" and {held} set aside to measure on"
        raise InputError(
            f"{name}: at least {_FEWEST_LEARNED} rows to learn from and "
            f"{_FEWEST_SET_ASIDE} to measure on are needed; {amount(count, 'row')} "
            f"with a target give {learned}{aside}. Bring more rows, or change what is "
            "set aside (0 for nothing)."
        )
