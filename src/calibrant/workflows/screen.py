"""A reproduction on one screen."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from calibrant.benchmark.records import NO_REGULARIZER
from calibrant.benchmark.summary import ArmSummary, summarize
from calibrant.benchmark.verdict import Verdict
from calibrant.workflows.reproduce import Reproduction

__all__ = ["screen"]

_NETWORKS = {"mc_dropout": "MC dropout", "deep_ensemble": "deep ensemble"}
_QR = ("cumulative_kl", 20.0)
_STYLES = {"holds": "green", "does not hold": "red", "within noise": "yellow"}
# A screen has about so many lines for the data sets.
_LINES = 12


def screen(done: Reproduction) -> RenderableType:
    """Return calibration errors and verdicts as a text for one screen."""
    arms = [
        each
        for each in summarize(done.records)
        if each.repeats and each.arm.recalibration == "none"
    ]
    parts: list[RenderableType] = [_errors(arms), _verdicts(done.verdicts)]
    cells = f"{len(done.records)} cells, {done.added} of them new."
    return Group(*parts, Text(cells))


def _errors(arms: Sequence[ArmSummary]) -> Table:
    table = Table(
        title="Calibration error, base to regularized (100 x sum of squared gaps)",
        title_justify="left",
        caption="floor: what a perfectly calibrated model shows",
        caption_justify="left",
    )
    table.add_column("data set")
    for title in _NETWORKS.values():
        table.add_column(title, justify="right")
    table.add_column("floor", justify="right")
    found = {
        (each.arm.data, each.arm.network, each.arm.regularizer, each.arm.strength): each
        for each in arms
        if each.arm.epochs == 100 or each.arm.network == "default"
    }
    names = list(dict.fromkeys(each.arm.data for each in arms))
    for name in names[:_LINES]:
        entries = [
            _change(
                found.get((name, n, NO_REGULARIZER, 0.0)), found.get((name, n, *_QR))
            )
            for n in _NETWORKS
        ]
        floors = [each for each in arms if each.arm.data == name]
        table.add_row(name, *entries, f"{floors[0].values['floor'].mean:.2f}")
    return table


def _change(base: ArmSummary | None, regularized: ArmSummary | None) -> str:
    texts = [
        "-" if each is None else f"{each.values['calibration_error'].mean:.2f}"
        for each in (base, regularized)
    ]
    return " -> ".join(texts)


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Claims of the paper", title_justify="left", box=None)
    for column in ("verdict", "claim", "model"):
        table.add_column(column, no_wrap=column != "claim")
    for each in verdicts:
        if each.source == "paper" and each.verdict != "not run":
            model = _NETWORKS.get(each.network, each.network)
            if each.epochs not in (None, 100):
                continue  # one screen: the report has them
            style = _STYLES.get(each.verdict, "")
            table.add_row(Text(each.verdict, style=style), each.claim, model)
    return table
