"""The 200 numbers of the paper's Tables 1 to 4, and ours beside them."""

import csv
import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from calibrant.paper.ledger import NO_REGULARIZER, Arm
from calibrant.paper.results import (
    PAPER_REGULARIZER,
    PAPER_STRENGTH,
    TEXT_EPOCHS,
    Number,
    Results,
)

MC_DROPOUT, ENSEMBLE = "mc_dropout", "deep_ensemble"
ISOTONIC = "isotonic"
ERROR = "calibration_error"
UNEXPLAINED = "unexplained"


class Model(NamedTuple):
    """A network trained for some epochs."""

    network: str
    epochs: int = TEXT_EPOCHS

    def arm(
        self,
        data: str,
        training: str = "base",
        recalibration: str = "none",
        *,
        shuffled: bool = False,
    ) -> Arm:
        """Return the arm of this model on a set, as in the paper or on shuffled folds.

        The training is base or qr.
        """
        fixed = data == "year_msd" and not shuffled
        return Arm(
            data=data,
            split="fixed" if fixed else "shuffled" if shuffled else "unshuffled",
            folds=1 if fixed else 5,
            network=self.network,
            regularizer=PAPER_REGULARIZER if training == "qr" else NO_REGULARIZER,
            strength=PAPER_STRENGTH if training == "qr" else 0.0,
            epochs=self.epochs,
            recalibration=recalibration,
        )


# What the paper's claims are judged on; the last only if it was run.
_MODELS = (Model(MC_DROPOUT), Model(ENSEMBLE), Model(ENSEMBLE, 64))


def paper_models(arms: Iterable[Arm]) -> tuple[Model, ...]:
    """List the models whose claims are judged: other epochs only if they were run."""
    ran = {(arm.network, arm.epochs) for arm in arms if arm.split != "shuffled"}
    return tuple(m for m in _MODELS if m.epochs == TEXT_EPOCHS or m in ran)


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


@cache
def paper_texts() -> dict[str, Any]:
    """Read ``paper.toml``: claims, errata, and likely causes of differences."""
    source = resources.files("calibrant.paper").joinpath("paper.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))


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
    kinds = {"table": int, "mean": float, "std": float}
    return tuple(
        PublishedNumber(**row | {name: kind(row[name]) for name, kind in kinds.items()})
        for row in rows
    )


#: The paper's data sets, in the order of its tables.
PAPER_DATA = tuple(dict.fromkeys(number.data for number in published()))


@cache
def _distinct() -> dict[tuple[str, ...], PublishedNumber]:
    found: dict[tuple[str, ...], PublishedNumber] = {}
    for n in published():
        key = (n.data, n.network, n.training, n.recalibration, n.metric)
        found.setdefault(key, n)
    return found


def lookup(
    data: str, network: str, training: str, recalibration: str, metric: str
) -> PublishedNumber | None:
    """Find a number; None if the paper does not print it.

    Examples
    --------
    >>> lookup("yacht", "mc_dropout", "qr", "none", "rmse").mean
    5.5
    """
    return _distinct().get((data, network, training, recalibration, metric))


@cache
def starred(network: str) -> tuple[str, ...]:
    """Sets that Tables 3 and 4 star: isotonic recalibration raises the base's error.

    Examples
    --------
    >>> starred("mc_dropout")
    ('airfoil', 'boston', 'fish', 'red_wine', 'white_wine')
    """
    errors = {
        (n.data, n.recalibration): n.mean
        for n in published()
        if (n.network, n.training, n.metric) == (network, "base", ERROR)
    }
    return tuple(d for d in PAPER_DATA if errors[d, ISOTONIC] > errors[d, "none"])


@dataclass(frozen=True)
class SideBySide:
    """A published number, and ours with the epochs and repeats of its run."""

    paper: PublishedNumber
    ours: Number
    epochs: int = TEXT_EPOCHS
    repeats: int = 1

    @property
    def difference(self) -> float:
        """Ours minus the paper's."""
        return self.ours.mean - self.paper.mean

    @property
    def tolerance(self) -> float:
        r"""How far our number may be from the paper's to agree with it.

        RMSE: 5 %, or 0.01 where that is more (small numbers are printed with two
        digits). NLL: 0.1. Calibration error: twice :math:`\sqrt{s_1^2 + s_2^2}`, the
        deviations over repeats, and the rounding; with one repeat our deviation is
        taken to be the paper's.
        """
        if self.paper.metric == "rmse":
            return max(0.05 * abs(self.paper.mean), 0.01)
        if self.paper.metric == "nll":
            return 0.1
        own = self.ours.std if self.repeats > 1 else self.paper.std
        return 2 * math.hypot(own or 0.0, self.paper.std) + 0.005

    @property
    def agrees(self) -> bool:
        """Whether the two are within the tolerance."""
        return abs(self.difference) <= self.tolerance

    @property
    def cause(self) -> str:
        """Likely cause of a disagreement, the first in ``paper.toml`` that fits."""
        if self.agrees:
            return ""
        seen = vars(self.paper) | {"epochs": self.epochs}
        exact = ("network", "training", "recalibration", "metric", "epochs")
        for cause in paper_texts()["causes"]:
            if (
                all(cause.get(name, seen[name]) == seen[name] for name in exact)
                and self.paper.data in cause["data"]
                and cause.get("sign", self.difference) * self.difference > 0
                and abs(self.difference) <= cause.get("at_most", math.inf)
            ):
                return str(cause["text"])
        return UNEXPLAINED


def side_by_side(results: Results, model: Model) -> tuple[SideBySide, ...]:
    """Put each distinct number of the paper for a network beside ours, where run."""
    found = []
    for number in _distinct().values():
        arm = model.arm(number.data, number.training, number.recalibration)
        known = results.get(arm)
        if number.network == model.network and known is not None and known.repeats:
            ours = known.number(number.metric)
            repeats = len(known.repeats)
            found.append(SideBySide(number, ours, model.epochs, repeats))
    return tuple(found)


def agreement(pairs: Sequence[SideBySide]) -> dict[str, list[str]]:
    """Sets that were run, and those on which RMSE and NLL agree: base, QR, or both."""
    found: dict[tuple[str, str], list[bool]] = {}
    for pair in pairs:
        if pair.paper.metric in ("rmse", "nll"):
            key = (pair.paper.data, pair.paper.training)
            found.setdefault(key, []).append(pair.agrees)
    sets = [data for data in PAPER_DATA if any(data == name for name, _ in found)]
    agreeing = {
        training: [d for d in sets if all(found.get((d, training), [False]))]
        for training in ("base", "qr")
    }
    both = [data for data in agreeing["base"] if data in agreeing["qr"]]
    return {"run": sets, **agreeing, "both": both}
