"""The 200 numbers of the paper's Tables 1 to 4, and ours beside them."""

import csv
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from calibrant.paper.ledger import NO_REGULARIZER
from calibrant.paper.statistics import Arm, Results, Spread

MC_DROPOUT, ENSEMBLE = "mc_dropout", "deep_ensemble"
ISOTONIC = "isotonic"
#: The paper's quantile regularizer and its strength.
PAPER_REGULARIZER, PAPER_STRENGTH = "cumulative_kl", 20.0
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


class Model(NamedTuple):
    """A network trained for some epochs."""

    network: str
    epochs: int = TEXT_EPOCHS

    def arm(
        self, data: str, training: str = "base", recalibration: str = "none"
    ) -> Arm:
        """Return the arm of this model on a set of the paper; training: base or qr."""
        return paper_arm(data, self, training, recalibration)


# What the paper's claims are judged on; the last only if it was run.
_MODELS = (Model(MC_DROPOUT), Model(ENSEMBLE), Model(ENSEMBLE, 64))


@dataclass(frozen=True, kw_only=True)
class PublishedNumber:
    """One number of the paper, mean and deviation over 5 repeats, and where it stands.

    The training is ``"base"`` or ``"qr"`` (quantile regularization at strength 20);
    see ``Cell`` and ``Record`` for the other names.
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
def _distinct() -> dict[tuple[Arm, str], PublishedNumber]:
    found: dict[tuple[Arm, str], PublishedNumber] = {}
    for number in published():
        arm = Model(number.network).arm(
            number.data, number.training, number.recalibration
        )
        found.setdefault((arm, number.metric), number)
    return found


#: The paper's data sets, in the order of its tables.
PAPER_DATA = tuple(dict.fromkeys(number.data for number in published()))


def paper_arm(
    data: str,
    model: Model,
    training: str = "base",
    recalibration: str = "none",
    *,
    shuffled: bool = False,
) -> Arm:
    """Return the arm behind a number of the paper, or the same on shuffled folds."""
    base = training == "base"
    fixed = data == "year_msd" and not shuffled
    return Arm(
        data=data,
        split="fixed" if fixed else "shuffled" if shuffled else "unshuffled",
        folds=1 if fixed else 5,
        network=model.network,
        regularizer=NO_REGULARIZER if base else PAPER_REGULARIZER,
        strength=0.0 if base else PAPER_STRENGTH,
        epochs=model.epochs,
        recalibration=recalibration,
    )


def paper_models(arms: Iterable[Arm]) -> tuple[Model, ...]:
    """List the models whose claims are judged: other epochs only if they were run."""
    ran = {(arm.network, arm.epochs) for arm in arms if arm.split != "shuffled"}
    return tuple(
        model for model in _MODELS if model.epochs == TEXT_EPOCHS or model in ran
    )


def lookup(
    data: str, network: str, training: str, recalibration: str, metric: str
) -> PublishedNumber | None:
    """Find a number; None if the paper does not print it.

    Examples
    --------
    >>> lookup("yacht", "mc_dropout", "qr", "none", "rmse").mean
    5.5
    """
    arm = Model(network).arm(data, training, recalibration)
    return _distinct().get((arm, metric))


def column(
    network: str,
    training: str = "base",
    recalibration: str = "none",
    metric: str = _ERROR,
) -> dict[str, PublishedNumber]:
    """Return a column of the paper's tables, by data set."""
    found = {
        data: lookup(data, network, training, recalibration, metric)
        for data in PAPER_DATA
    }
    return {data: number for data, number in found.items() if number is not None}


class Count(NamedTuple):
    """On which sets the first of two published columns is lower, equal or higher."""

    lower: list[str]
    equal: list[str]
    higher: list[str]

    def __str__(self) -> str:
        """Return the sizes in words, for numbers of which the lower is better."""
        lower, equal, higher = map(len, self)
        return f"Better on {lower} sets, equal on {equal}, worse on {higher}"


def count(
    first: Mapping[str, PublishedNumber],
    second: Mapping[str, PublishedNumber],
    *,
    standard_errors: float = 0.0,
) -> Count:
    r"""Count the sets where one published column is below, equal to or above another.

    Differences up to some standard errors, :math:`\sqrt{(s_1^2 + s_2^2) / 5}`, count as
    equal.

    Examples
    --------
    >>> len(count(column("mc_dropout", "qr"), column("mc_dropout")).lower)
    10
    """
    found = Count([], [], [])
    for name, one in first.items():
        two = second[name]
        margin = standard_errors * ((one.std**2 + two.std**2) / _REPEATS) ** 0.5
        difference = one.mean - two.mean
        found[1 + (difference > margin) - (difference < -margin)].append(name)
    return found


def starred(network: str) -> list[str]:
    """Sets that Tables 3 and 4 star: isotonic recalibration raises the base's error.

    Examples
    --------
    >>> starred("mc_dropout")
    ['airfoil', 'boston', 'fish', 'red_wine', 'white_wine']
    """
    return count(column(network, "base", ISOTONIC), column(network)).higher


def paper_says(name: str, network: str) -> str:
    """Say what the paper's tables say about a claim, counted and not typed.

    Examples
    --------
    >>> paper_says("qr-error", "deep_ensemble")
    'Lower on 9 of 10 sets, by more than 2.3 standard errors on 6.'
    """
    base, qr = column(network), column(network, "qr")
    isotonic, both = (column(network, t, ISOTONIC) for t in ("base", "qr"))
    stars, total = starred(network), len(PAPER_DATA)
    clear = len(count(qr, base, standard_errors=_CLEAR).lower)
    worse = len(count(both, qr).higher)
    less = sum(
        both[data].mean - qr[data].mean < isotonic[data].mean - base[data].mean
        for data in stars
    )
    nll, rmse = (
        count(column(network, "qr", metric=m), column(network, metric=m))
        for m in ("nll", "rmse")
    )
    rises = rmse_rises(network)
    most = sorted(rises, key=lambda data: -rises[data])[:3]
    changes = ", ".join(f"{data} {rises[data]:+.0%}" for data in most)
    large = (f"{d} {base[d].mean:g} to {isotonic[d].mean:g}" for d in LARGE)
    higher = {
        after: len(
            count(column(ENSEMBLE, "base", after), column(MC_DROPOUT, "base", after))[2]
        )
        for after in ("none", ISOTONIC)
    }
    return {
        "qr-error": f"Lower on {len(count(qr, base).lower)} of {total} sets, by more "
        f"than {_CLEAR} standard errors on {clear}.",
        "qr-nll": f"{nll}.",
        "qr-rmse": f"{rmse}; the largest changes: {changes}.",
        "isotonic-worsens": f"Higher on {len(stars)} of {total} sets, after training "
        f"with QR on {worse}.",
        "isotonic-qr": f"By less on {less} of the {len(stars)} starred sets.",
        "qr-isotonic": f"Lower on {len(count(qr, isotonic).lower)} of {total} sets.",
        "isotonic-large": f"{', '.join(large)}.",
        "ensemble-error": f"Higher on {higher['none']} of {total} sets.",
        "ensemble-isotonic": f"Higher on {higher[ISOTONIC]} of {total} sets.",
    }.get(name, "A figure without printed numbers.")


def rmse_rises(network: str) -> dict[str, float]:
    """Return the relative change of the printed RMSE with QR, for each set.

    Examples
    --------
    >>> round(rmse_rises("mc_dropout")["yacht"], 2)
    0.55
    """
    base, qr = column(network, metric="rmse"), column(network, "qr", metric="rmse")
    return {data: qr[data].mean / base[data].mean - 1 for data in base}


@dataclass(frozen=True)
class SideBySide:
    """A published number, and ours with the epochs and repeats of its run."""

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
    """Say why our number may differ (ours minus the paper's), or that it is not known.

    Examples
    --------
    >>> number = lookup("airfoil", "mc_dropout", "base", "none", "rmse")
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
    """Put each distinct number of the paper for a network beside ours, where run."""
    found = []
    for number in _distinct().values():
        known = results.get(
            model.arm(number.data, number.training, number.recalibration)
        )
        if number.network == model.network and known is not None and known.repeats:
            ours = known.spread(number.metric)
            found.append(SideBySide(number, model.epochs, len(known.repeats), ours))
    return tuple(found)


class Agreement(NamedTuple):
    """Sets that were run, and those where RMSE and NLL agree: base, QR, or both."""

    sets: tuple[str, ...]
    base: tuple[str, ...]
    qr: tuple[str, ...]
    both: tuple[str, ...]


def agreement(pairs: Sequence[SideBySide]) -> Agreement:
    """Count the sets on which RMSE and NLL agree with the paper's."""
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
