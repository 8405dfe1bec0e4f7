"""Predicted laws of rows with known targets, measured and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibrant.distributions.base import AbstractDistribution
from calibrant.metrics.scorecard import Scorecard, evaluate
from calibrant.metrics.verdict import coverage_sentence, verdict_words
from calibrant.report.contents import OwnReport, Predictions
from calibrant.workflows._labeled import Labeled

__all__ = [
    "Measured",
    "judgment",
    "measure",
    "own_report",
]

#: With so many columns, a search for faults in all of them takes longer than the rest.
_MOST_LOOKS = 60
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Measured:
    """How predictions did on rows with known targets.

    Attributes
    ----------
    card
        All numbers, each beside what a perfect model shows.
    predictions
        Medians and intervals of the rows.
    notes
        What was unusual about the rows.
    """

    card: Scorecard
    predictions: Predictions
    notes: tuple[str, ...]


def measure(law: AbstractDistribution, labeled: Labeled, *, seed: int = 0) -> Measured:
    """Measure predicted laws, batch shape ``(n,)``, on their rows.

    Parameters
    ----------
    law
        Predictions for the rows.
    labeled
        The rows.
    seed
        Of what is randomized in the measurement.
    """
    # What was asked for stands for itself.
    looks = {n: v for n, v in labeled.looks.items() if n not in labeled.groups}
    count = len(looks)
    looks = dict(list(looks.items())[:_MOST_LOOKS])
    notes = labeled.notes
    if len(looks) < count:
        notes += (
            f"Faults were looked for within the first {_MOST_LOOKS} of {count} "
            "columns.",
        )
    groups = labeled.groups
    card = evaluate(law, labeled.y, features=looks, groups=groups, seed=seed)
    quantiles = law.quantiles(_LEVELS).numpy()
    low_90, low_50, center, high_50, high_90 = np.moveaxis(quantiles, -1, 0)
    predictions = Predictions(
        row=labeled.rows,
        y=labeled.y,
        center=center,
        low_50=low_50,
        high_50=high_50,
        low_90=low_90,
        high_90=high_90,
    )
    if card.grid is not None:
        inside = (low_90 <= labeled.y) & (labeled.y <= high_90)
        notes += (
            f"{100 * inside.mean():.1f} % of the targets lie within their 90 % "
            "interval as it stands, ends included. Rounded or capped targets lie on "
            "its ends more often than others, so calibration counts each of them by "
            "the share of its own step that is inside.",
        )
    return Measured(card, predictions, notes)


def judgment(card: Scorecard, *, which: str = "unseen row") -> str:
    """Say in plain words whether the intervals can be trusted, as the report does.

    Examples
    --------
    >>> import torch
    >>> noise = torch.randn(400, generator=torch.Generator().manual_seed(0))
    >>> card = evaluate((torch.zeros(400), torch.ones(400)), noise)
    >>> print(judgment(card))
    Your 90 % intervals covered 92.5 % of 400 unseen rows; a perfectly calibrated \
model would cover 87.0 to 92.8 %. No sign of a fault: the intervals can be trusted as \
they are.
    """
    sentence = coverage_sentence(card, whose="Your", which=which)
    return f"{sentence} {verdict_words(card)}"


def own_report(
    kind: Literal["fit", "evaluate", "recalibrate", "compare"],
    measured: Measured,
    *,
    source: str | Path,
    target: str,
    unseen: str,
    settings: Mapping[str, str],
    **more: Any,  # noqa: ANN401  (other fields of the contents)
) -> OwnReport:
    """Gather what the page shows.

    Parameters
    ----------
    kind
        Which command it is for.
    measured
        The rows that were measured.
    source, target
        Names of their file and of the target's column.
    unseen
        Why these rows were new to the model.
    settings
        What makes it again.
    **more
        ``before``, ``columns``, ``notes``, ``training`` of :class:`OwnReport`.
    """
    return OwnReport(
        kind=kind,
        source=str(source),
        target=target,
        card=measured.card,
        predictions=measured.predictions,
        unseen=unseen,
        settings=settings,
        **more,
    )
