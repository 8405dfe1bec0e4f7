"""The 200 numbers of the paper's Tables 1 to 4, and what they say when counted."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from calibrant._checks import InputError

__all__ = [
    "ENSEMBLE",
    "ISOTONIC",
    "MC_DROPOUT",
    "NO_RECALIBRATION",
    "PAPER_DATA",
    "PAPER_REPEATS",
    "Count",
    "PublishedArm",
    "PublishedNumber",
    "count",
    "lookup",
    "published",
    "starred",
]

MC_DROPOUT, ENSEMBLE = "mc_dropout", "deep_ensemble"
NO_RECALIBRATION, ISOTONIC = "none", "isotonic"
#: The paper's data sets, in the order of its tables.
PAPER_DATA = (
    "airfoil",
    "boston",
    "concrete",
    "fish",
    "kin8nm",
    "protein",
    "red_wine",
    "white_wine",
    "yacht",
    "year_msd",
)
#: Repeats behind each number; its deviation is over them.
PAPER_REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class PublishedNumber:
    """One number of the paper, with where it stands.

    Attributes
    ----------
    table
        1 to 4.
    data, network
        Names as in ``Cell``.
    training
        ``"base"`` or ``"qr"`` (quantile regularization at strength 20).
    recalibration
        ``"none"`` or ``"isotonic"``.
    metric
        ``"calibration_error"``, ``"rmse"`` or ``"nll"``.
    mean, std
        As printed, over 5 repeats.
    """

    table: int
    data: str
    network: str
    training: str
    recalibration: str
    metric: str
    mean: float
    std: float


@dataclass(frozen=True)
class PublishedArm:
    """A column of the paper's tables: network, training and recalibration."""

    network: str
    training: str = "base"
    recalibration: str = NO_RECALIBRATION


@dataclass(frozen=True)
class Count:
    """On which sets the first of two published columns is lower, equal or higher."""

    lower: tuple[str, ...]
    equal: tuple[str, ...]
    higher: tuple[str, ...]

    @property
    def total(self) -> int:
        """Number of sets."""
        return len(self.lower) + len(self.equal) + len(self.higher)


@cache
def published() -> tuple[PublishedNumber, ...]:
    """Read the paper's numbers, in the order of its tables.

    Tables 3 and 4 repeat columns of Tables 1 and 2, so 160 of the 200 are distinct.

    References
    ----------
    Utpala and Rai (2020), *Quantile Regularization*, arXiv:2002.12860.

    Examples
    --------
    >>> first = published()[0]
    >>> first.table, first.data, first.metric, first.mean, first.std
    (1, 'airfoil', 'calibration_error', 25.92, 5.4)
    """
    source = resources.files("calibrant.benchmark").joinpath("published.csv")
    with source.open(encoding="utf-8") as file:
        return tuple(
            PublishedNumber(
                table=int(row["table"]),
                data=row["data"],
                network=row["network"],
                training=row["training"],
                recalibration=row["recalibration"],
                metric=row["metric"],
                mean=float(row["mean"]),
                std=float(row["std"]),
            )
            for row in csv.DictReader(file)
        )


@cache
def _by_key() -> dict[tuple[str, PublishedArm, str], PublishedNumber]:
    found: dict[tuple[str, PublishedArm, str], PublishedNumber] = {}
    for number in published():
        arm = PublishedArm(number.network, number.training, number.recalibration)
        found.setdefault((number.data, arm, number.metric), number)
    return found


def lookup(data: str, arm: PublishedArm, metric: str) -> PublishedNumber | None:
    """Find a number; None if the paper does not print it.

    Parameters
    ----------
    data
        Name of a data set.
    arm
        Column.
    metric
        ``"calibration_error"``, ``"rmse"`` or ``"nll"``.

    Examples
    --------
    >>> number = lookup("yacht", PublishedArm("mc_dropout", "qr"), "rmse")
    >>> number.mean
    5.5
    """
    return _by_key().get((data, arm, metric))


def count(
    first: PublishedArm,
    second: PublishedArm,
    metric: str,
    *,
    data: Iterable[str] = PAPER_DATA,
    standard_errors: float = 0.0,
) -> Count:
    r"""Count the sets where one published column is below, equal to or above another.

    Parameters
    ----------
    first, second
        Columns.
    metric
        Which number.
    data
        Sets to count.
    standard_errors
        Differences up to this many standard errors,
        :math:`\sqrt{(s_1^2 + s_2^2) / 5}`, count as equal.

    Examples
    --------
    >>> qr, base = PublishedArm("mc_dropout", "qr"), PublishedArm("mc_dropout")
    >>> len(count(qr, base, "calibration_error").lower)
    10
    """
    sides: dict[int, list[str]] = {-1: [], 0: [], 1: []}
    for name in data:
        one, two = _printed(name, first, metric), _printed(name, second, metric)
        error = ((one.std**2 + two.std**2) / PAPER_REPEATS) ** 0.5
        margin = standard_errors * error
        difference = one.mean - two.mean
        sides[int(difference > margin) - int(difference < -margin)].append(name)
    return Count(tuple(sides[-1]), tuple(sides[0]), tuple(sides[1]))


def starred(network: str) -> tuple[str, ...]:
    """Sets that Tables 3 and 4 star: isotonic recalibration raises the base's error.

    Parameters
    ----------
    network
        ``"mc_dropout"`` or ``"deep_ensemble"``.

    Examples
    --------
    >>> starred("mc_dropout")
    ('airfoil', 'boston', 'fish', 'red_wine', 'white_wine')
    """
    after = PublishedArm(network, "base", ISOTONIC)
    return count(after, PublishedArm(network), "calibration_error").higher


def _printed(data: str, arm: PublishedArm, metric: str) -> PublishedNumber:
    number = lookup(data, arm, metric)
    if number is None:
        raise InputError(
            f"the paper prints no {metric} of {arm} on {data!r}. It has "
            f"calibration_error, rmse and nll, after recalibration only the first, on "
            f"{', '.join(PAPER_DATA)}."
        )
    return number
