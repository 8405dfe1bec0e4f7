"""Contents of reports on own data, from small laws whose fault is known."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from calibrant.metrics.scorecard import Scorecard, evaluate
from calibrant.report.contents import ColumnLine, OwnReport, Predictions

__all__ = [
    "HOSTILE",
    "LAWS",
    "N",
    "card_of",
    "gridded",
    "hostile",
    "of_law",
    "predictions",
    "recalibrated",
    "report",
    "with_group",
]

#: What a perfect model shows is simulated once for each number of rows.
N = 412
Floats = npt.NDArray[np.float64]
HOSTILE = "</script><b onload=x>&\"'<a href='javascript:x'>%{x}{{ x }}\u202e\x00"
#: Factor of the predicted spread, and shift of the prediction in true spreads.
LAWS = {
    "good": (1.0, 0.0),
    "narrow": (0.6, 0.0),
    "wide": (1.7, 0.0),
    "shifted": (1.0, 0.7),
}
COLUMNS = (
    ColumnLine(name="size", kind="numbers", used=True, done="scaled"),
    ColumnLine(
        name="kind",
        kind="categories",
        used=True,
        done="one feature for each of 3 names",
    ),
    ColumnLine(
        name="id", kind="numbers", used=False, done="left out: you asked for it"
    ),
    ColumnLine(name="price", kind="target", used=False, done="what is predicted"),
)
SETTINGS = {
    "command": "calibrant fit houses.csv --target price --seed 0",
    "Seed": "0",
    "Versions": "calibrant 0.1, torch 2",
    "Options": "epochs: 100\nnetwork: mlp",
}


def predictions(mean: Floats, spread: Floats, y: Floats) -> Predictions:
    ends = {
        f"{side}_{level}": mean + sign * spread * norm.ppf(0.5 + level / 200)
        for level in (50, 90)
        for side, sign in (("low", -1), ("high", 1))
    }
    return Predictions(row=np.arange(1, len(y) + 1), y=y, center=mean, **ends)


def report(card: Scorecard, rows: Predictions, **more: Any) -> OwnReport:
    parts: dict[str, Any] = {
        "kind": "fit",
        "source": "houses.csv",
        "target": "price",
        "card": card,
        "predictions": rows,
        "unseen": "A random fifth of the rows, held out before the training.",
        "columns": COLUMNS,
        "settings": SETTINGS,
    }
    return OwnReport(**(parts | more))


def _table(n: int, seed: int) -> tuple[Floats, npt.NDArray[np.str_], Floats, Floats]:
    """Size, kind, true mean and true spread of n rows."""
    draw = np.random.default_rng(seed)
    size = draw.uniform(30, 220, n)
    kind = draw.choice(["flat", "house", "villa"], n, p=[0.5, 0.4, 0.1])
    return size, kind, 40 + 2.6 * size, 8 + 0.12 * size


@cache
def of_law(law: str, n: int = N, *, seed: int = 0) -> OwnReport:
    """A Gaussian model with a known fault."""
    factor, shift = LAWS[law]
    size, kind, mean, spread = _table(n, seed)
    y = mean + spread * np.random.default_rng(seed + 100).standard_normal(n)
    center, width = mean - shift * spread, factor * spread
    card = evaluate((center, width), y, features={"size": size}, groups={"kind": kind})
    return report(card, predictions(center, width, y))


@cache
def card_of(pit: tuple[float, ...]) -> Scorecard:
    """A card with the PIT values that are asked for, and no groups."""
    n = len(pit)
    return evaluate((np.zeros(n), np.ones(n)), norm.ppf(np.array(pit)))


@cache
def with_group(n: int = N, *, seed: int = 3) -> OwnReport:
    """Right over all rows, but far too sure of one kind and too timid of the others."""
    size, kind, mean, spread = _table(n, seed)
    noise = np.random.default_rng(seed + 100).standard_normal(n)
    real = np.where(kind == "villa", 2.2, 0.87) * spread
    y = mean + real * noise
    card = evaluate((mean, spread), y, features={"size": size}, groups={"kind": kind})
    return report(card, predictions(mean, spread, y))


@cache
def gridded(n: int = N) -> OwnReport:
    """Whole grades."""
    draw = np.random.default_rng(0)
    mean = draw.uniform(4, 10, n)
    y = np.round(mean + 1.2 * draw.standard_normal(n))
    spread = np.full(n, 1.2)
    card = evaluate((mean, spread), y, features={"mean": mean})
    return report(card, predictions(mean, spread, y), target="grade")


def recalibrated(law: str = "narrow") -> OwnReport:
    """After a recalibration, beside what was before."""
    before, after = of_law(law), of_law("good")
    return replace(after, before=before.card, kind="recalibrate")


@cache
def hostile(n: int = N) -> OwnReport:
    """Names and cells that a page must not interpret, and very long ones."""
    _, __, mean, spread = _table(n, 1)
    y = mean + spread * np.random.default_rng(5).standard_normal(n)
    labels = np.array([HOSTILE, "<img src=x onerror=alert(1)>", "a" * 500])
    card = evaluate(
        (mean, spread),
        y,
        features={HOSTILE: mean, "b" * 3000: spread},
        groups={"<b>bold</b>": np.resize(labels, n)},
    )
    column = ColumnLine(name=HOSTILE, kind=HOSTILE, used=True, done=HOSTILE)
    return report(
        card,
        predictions(mean, spread, y),
        source=HOSTILE,
        target="<i>price</i> " + "c" * 300,
        unseen=HOSTILE,
        columns=(column,),
        notes=(HOSTILE, "\ud800 half a pair"),
        settings={
            "command": HOSTILE,
            HOSTILE: HOSTILE,
            "Long": f"{HOSTILE}\n{HOSTILE}",
        },
        training={HOSTILE: [3.0, 2.0, 1.5], "empty": []},
    )
