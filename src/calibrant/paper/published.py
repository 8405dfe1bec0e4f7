"""The 200 numbers of the paper's Tables 1 to 4, and ours beside them."""

import csv
import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from calibrant.errors import InputError
from calibrant.paper.ledger import NO_REGULARIZER
from calibrant.paper.statistics import Arm, Results, Spread

__all__ = [
    "ENSEMBLE",
    "ISOTONIC",
    "MC_DROPOUT",
    "PAPER_DATA",
    "PAPER_REGULARIZER",
    "PAPER_STRENGTH",
    "TEXT_EPOCHS",
    "UNEXPLAINED",
    "Agreement",
    "Count",
    "Erratum",
    "Model",
    "PublishedArm",
    "PublishedNumber",
    "SideBySide",
    "agreement",
    "count",
    "errata",
    "likely_cause",
    "lookup",
    "paper_arm",
    "paper_models",
    "paper_says",
    "paper_texts",
    "published",
    "side_by_side",
    "starred",
    "tolerance",
]

MC_DROPOUT, ENSEMBLE = "mc_dropout", "deep_ensemble"
ISOTONIC = "isotonic"
#: The paper's quantile regularizer and its strength.
PAPER_REGULARIZER, PAPER_STRENGTH = "cumulative_kl", 20.0
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
#: Epochs that the paper's text names.
TEXT_EPOCHS = 100
#: Sets that the paper calls large.
LARGE = ("kin8nm", "protein", "year_msd")
#: A rise of the RMSE up to this share is negligible.
NEGLIGIBLE = 0.02
UNEXPLAINED = "unexplained"
# Repeats behind each number; its deviation is over them.
_REPEATS = 5
_ERROR = "calibration_error"
# Above this many standard errors two means of five repeats differ: t with 8 degrees of
# freedom at 5 %, two-sided.
_CLEAR = 2.3
# Half of the last printed digit.
_ROUNDING = 0.005


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

    @property
    def arm(self) -> "PublishedArm":
        """Column that it stands in."""
        return PublishedArm(self.network, self.training, self.recalibration)


@dataclass(frozen=True)
class PublishedArm:
    """A column of the paper's tables: network, training and recalibration."""

    network: str
    training: str = "base"
    recalibration: str = "none"


@dataclass(frozen=True)
class Model:
    """A network trained for some epochs."""

    network: str
    epochs: int = TEXT_EPOCHS

    def column(
        self, training: str = "base", recalibration: str = "none"
    ) -> PublishedArm:
        """Return the column of the paper's tables with this training."""
        return PublishedArm(self.network, training, recalibration)

    def arm(
        self, data: str, training: str = "base", recalibration: str = "none"
    ) -> Arm:
        """Return the arm of this model on a set of the paper."""
        column = self.column(training, recalibration)
        return paper_arm(data, column, epochs=self.epochs)


# What the paper's claims are judged on; the last only if it was run.
_MODELS = (Model(MC_DROPOUT), Model(ENSEMBLE), Model(ENSEMBLE, 64))


@dataclass(frozen=True)
class Count:
    """On which sets the first of two published columns is lower, equal or higher."""

    lower: tuple[str, ...]
    equal: tuple[str, ...]
    higher: tuple[str, ...]


@dataclass(frozen=True)
class Erratum:
    """One slip: its place, what is printed, and what is right."""

    place: str
    printed: str
    correct: str


@cache
def paper_texts() -> dict[str, Any]:
    """Read ``paper.toml``: claims, errata, and likely causes of differences."""
    source = resources.files("calibrant.paper").joinpath("paper.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))


def errata() -> list[Erratum]:
    """List the errata of the paper, in the order of its text."""
    return [Erratum(**text) for text in paper_texts()["errata"]]


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
    source = resources.files("calibrant.paper").joinpath("published.csv")
    with source.open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row |= {"table": int(row["table"])}
        row |= {"mean": float(row["mean"]), "std": float(row["std"])}
    return tuple(PublishedNumber(**row) for row in rows)


@cache
def _distinct() -> dict[tuple[str, PublishedArm, str], PublishedNumber]:
    found: dict[tuple[str, PublishedArm, str], PublishedNumber] = {}
    for number in published():
        found.setdefault((number.data, number.arm, number.metric), number)
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
    return _distinct().get((data, arm, metric))


def _printed(data: str, arm: PublishedArm, metric: str) -> PublishedNumber:
    number = lookup(data, arm, metric)
    if number is None:
        raise InputError(
            f"the paper prints no {metric} of {arm} on {data!r}. It has "
            f"calibration_error, rmse and nll, after recalibration only the first, on "
            f"{', '.join(PAPER_DATA)}."
        )
    return number


def count(
    first: PublishedArm,
    second: PublishedArm,
    metric: str,
    *,
    standard_errors: float = 0.0,
) -> Count:
    r"""Count the sets where one published column is below, equal to or above another.

    Parameters
    ----------
    first, second
        Columns.
    metric
        Which number.
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
    for name in PAPER_DATA:
        one, two = _printed(name, first, metric), _printed(name, second, metric)
        margin = standard_errors * ((one.std**2 + two.std**2) / _REPEATS) ** 0.5
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
    return count(after, PublishedArm(network), _ERROR).higher


def paper_arm(
    data: str,
    column: PublishedArm,
    *,
    epochs: int = TEXT_EPOCHS,
    shuffled: bool = False,
) -> Arm:
    """Return the arm behind a column of the paper's tables.

    Parameters
    ----------
    data
        Set; Year Prediction MSD has its own split.
    column
        Network, training and recalibration.
    epochs
        Of the training.
    shuffled
        Whether on shuffled folds instead of the paper's.
    """
    base = column.training == "base"
    fixed = data == "year_msd" and not shuffled
    return Arm(
        data=data,
        split="fixed" if fixed else "shuffled" if shuffled else "unshuffled",
        folds=1 if fixed else 5,
        network=column.network,
        regularizer=NO_REGULARIZER if base else PAPER_REGULARIZER,
        strength=0.0 if base else PAPER_STRENGTH,
        epochs=epochs,
        recalibration=column.recalibration,
    )


def paper_models(arms: Iterable[Arm]) -> tuple[Model, ...]:
    """List the models whose claims are judged: other epochs only if they were run."""
    ran = {(arm.network, arm.epochs) for arm in arms if arm.split != "shuffled"}
    return tuple(
        model
        for model in _MODELS
        if model.epochs == TEXT_EPOCHS or (model.network, model.epochs) in ran
    )


def paper_says(name: str, network: str) -> str:
    """Say what the paper's tables say about a claim, counted and not typed.

    Parameters
    ----------
    name
        Of the claim.
    network
        ``"mc_dropout"`` or ``"deep_ensemble"``; not used where both are compared.

    Examples
    --------
    >>> paper_says("qr-error", "deep_ensemble")
    'Lower on 9 of 10 sets, by more than 2.3 standard errors on 6.'
    """
    base, qr = PublishedArm(network), PublishedArm(network, "qr")
    isotonic = PublishedArm(network, "base", ISOTONIC)
    total = len(PAPER_DATA)
    if name == "qr-error":
        clear = len(count(qr, base, _ERROR, standard_errors=_CLEAR).lower)
        return (
            f"Lower on {len(count(qr, base, _ERROR).lower)} of {total} sets, by more "
            f"than {_CLEAR} standard errors on {clear}."
        )
    if name == "qr-nll":
        return f"{_three(count(qr, base, 'nll'))}."
    if name == "qr-rmse":
        rises = rmse_rises(network)
        largest = sorted(rises, key=lambda data: -rises[data])[:3]
        listed = ", ".join(f"{data} {rises[data]:+.0%}" for data in largest)
        return f"{_three(count(qr, base, 'rmse'))}; the largest changes: {listed}."
    if name == "isotonic-worsens":
        both = PublishedArm(network, "qr", ISOTONIC)
        return (
            f"Higher on {len(starred(network))} of {total} sets, after training with "
            f"QR on {len(count(both, qr, _ERROR).higher)}."
        )
    if name == "isotonic-qr":
        less = len(rises_less(network))
        return f"By less on {less} of the {len(starred(network))} starred sets."
    if name == "qr-isotonic":
        return f"Lower on {len(count(qr, isotonic, _ERROR).lower)} of {total} sets."
    if name == "isotonic-large":
        changes = (
            f"{data} {_printed(data, base, _ERROR).mean:g} to "
            f"{_printed(data, isotonic, _ERROR).mean:g}"
            for data in LARGE
        )
        return f"{', '.join(changes)}."
    if name in ("ensemble-error", "ensemble-isotonic"):
        after = "none" if name == "ensemble-error" else ISOTONIC
        ensemble, dropout = (
            PublishedArm(net, "base", after) for net in (ENSEMBLE, MC_DROPOUT)
        )
        higher = len(count(ensemble, dropout, _ERROR).higher)
        return f"Higher on {higher} of {total} sets."
    return "A figure without printed numbers."


def _three(counts: Count) -> str:
    return (
        f"Better on {len(counts.lower)} sets, equal on {len(counts.equal)}, worse on "
        f"{len(counts.higher)}"
    )


def rmse_rises(network: str) -> dict[str, float]:
    """Return the relative change of the printed RMSE with QR, for each set.

    Examples
    --------
    >>> round(rmse_rises("mc_dropout")["yacht"], 2)
    0.55
    """
    base, qr = PublishedArm(network), PublishedArm(network, "qr")
    return {
        data: _printed(data, qr, "rmse").mean / _printed(data, base, "rmse").mean - 1
        for data in PAPER_DATA
    }


def rises_less(network: str) -> tuple[str, ...]:
    """Return starred sets where isotonic raises the printed error by less with QR.

    Examples
    --------
    >>> len(rises_less("deep_ensemble"))
    7
    """

    def rise(data: str, training: str) -> float:
        after = _printed(data, PublishedArm(network, training, ISOTONIC), _ERROR)
        before = _printed(data, PublishedArm(network, training), _ERROR)
        return after.mean - before.mean

    names = starred(network)
    return tuple(data for data in names if rise(data, "qr") < rise(data, "base"))


@dataclass(frozen=True)
class SideBySide:
    """A published number and ours.

    Attributes
    ----------
    paper
        The paper's, with what it is.
    epochs, repeats
        Of our run.
    ours
        Mean and deviation over our repeats.
    """

    paper: PublishedNumber
    epochs: int
    repeats: int
    ours: Spread

    @property
    def agrees(self) -> bool:
        """Whether the two are within the tolerance."""
        distance = abs(self.ours.mean - self.paper.mean)
        return distance <= tolerance(self.paper, self.ours, repeats=self.repeats)

    @property
    def cause(self) -> str:
        """Likely cause of a disagreement; empty if there is none."""
        if self.agrees:
            return ""
        difference = self.ours.mean - self.paper.mean
        return likely_cause(self.paper, epochs=self.epochs, difference=difference)


def likely_cause(paper: PublishedNumber, *, epochs: int, difference: float) -> str:
    """Say why our number may differ from the paper's, or that it is not known.

    Parameters
    ----------
    paper
        The paper's number.
    epochs
        Of our run.
    difference
        Ours minus the paper's.

    Examples
    --------
    >>> number = lookup("airfoil", PublishedArm("mc_dropout"), "rmse")
    >>> likely_cause(number, epochs=100, difference=1.0)
    'unexplained'
    """
    seen = vars(paper) | {"epochs": epochs}
    exact = ("network", "training", "recalibration", "metric", "epochs")
    for cause in paper_texts()["causes"]:
        if (
            all(cause.get(name, seen[name]) == seen[name] for name in exact)
            and paper.data in cause["data"]
            and cause.get("sign", difference) * difference > 0
            and abs(difference) <= cause.get("at_most", math.inf)
        ):
            return str(cause["text"])
    return UNEXPLAINED


def tolerance(paper: PublishedNumber, ours: Spread, *, repeats: int) -> float:
    r"""How far our number may be from the paper's to agree with it.

    RMSE: 5 %, or 0.01 where that is more (small numbers are printed with two digits).
    NLL: 0.1. Calibration error: twice :math:`\sqrt{s_1^2 + s_2^2}`, the deviations over
    repeats, and the rounding; with one repeat our deviation is taken to be the paper's.

    Parameters
    ----------
    paper
        The paper's number.
    ours
        Our mean and deviation.
    repeats
        Behind our deviation.

    Examples
    --------
    >>> tolerance(published()[2], Spread(3.3, 0.05), repeats=5)
    0.163
    """
    if paper.metric == "rmse":
        return max(0.05 * abs(paper.mean), 0.01)
    if paper.metric == "nll":
        return 0.1
    own = ours.std if repeats > 1 else paper.std
    return 2 * math.hypot(own, paper.std) + _ROUNDING


def side_by_side(results: Results, model: Model) -> tuple[SideBySide, ...]:
    """Put each distinct number of the paper for a network beside ours, where run.

    Parameters
    ----------
    results
        Of our arms.
    model
        Network and epochs.
    """
    found = []
    for (data, column, metric), number in _distinct().items():
        ours = results.get(paper_arm(data, column, epochs=model.epochs))
        if column.network == model.network and ours is not None and ours.repeats:
            repeats = len(ours.repeats)
            found.append(SideBySide(number, model.epochs, repeats, ours.spread(metric)))
    return tuple(found)


@dataclass(frozen=True)
class Agreement:
    """Sets on which RMSE and NLL of a model agree with the paper's.

    Attributes
    ----------
    sets
        Sets that were run.
    base, qr, both
        Sets where RMSE and NLL of this training both agree, or of both trainings.
    """

    sets: tuple[str, ...]
    base: tuple[str, ...]
    qr: tuple[str, ...]
    both: tuple[str, ...]


def agreement(pairs: Sequence[SideBySide]) -> Agreement:
    """Count the sets on which RMSE and NLL agree with the paper's.

    Parameters
    ----------
    pairs
        From ``side_by_side``.
    """
    found: dict[tuple[str, str], list[bool]] = {}
    for pair in pairs:
        if pair.paper.metric in ("rmse", "nll"):
            key = (pair.paper.data, pair.paper.training)
            found.setdefault(key, []).append(pair.agrees)
    sets = tuple(d for d in PAPER_DATA if any(data == d for data, _ in found))
    base, qr = (
        tuple(data for data in sets if all(found.get((data, training), [False])))
        for training in ("base", "qr")
    )
    return Agreement(sets, base, qr, tuple(data for data in base if data in qr))
