"""Verdicts as tables."""

from collections.abc import Sequence

from calibrant.benchmark.verdicts import SetComparison, Verdict
from calibrant.report._entries import number
from calibrant.report._names import data_title, epochs_text, network_title
from calibrant.report.grid import Column, Entry, Grid

__all__ = ["verdict_grid", "verdict_sets_grid"]


def verdict_grid(verdicts: Sequence[Verdict]) -> Grid:
    """List claims and verdicts, one row for each claim and model.

    Parameters
    ----------
    verdicts
        In their order.
    """
    return Grid(
        name="verdicts",
        title="Verdicts",
        caption=(
            "Each claim, what the paper's own numbers say, what ours say, and the "
            "verdict by a rule that was fixed before the run."
        ),
        columns=(
            Column("Claim"),
            Column("Model"),
            Column("Verdict"),
            Column("Paper's numbers"),
            Column("Ours"),
            Column("Why"),
        ),
        rows=tuple(
            (
                Entry(each.claim, detail=each.quote),
                Entry(model_title(each)),
                Entry(each.verdict, detail=each.rule, emphasis=True),
                Entry(each.paper or "no claim of the paper"),
                Entry(each.ours),
                Entry(each.explanation),
            )
            for each in verdicts
        ),
    )


def verdict_sets_grid(verdict: Verdict) -> Grid:
    """List the sets behind a verdict.

    Parameters
    ----------
    verdict
        Which.
    """
    b, a = verdict.columns
    model = model_title(verdict)
    names = [each.data for each in verdict.sets]
    return Grid(
        name=f"verdict-{verdict.name}-{verdict.network}-{verdict.epochs or 'any'}",
        title=f"{verdict.name}, {model}: {verdict.verdict}",
        caption=verdict.claim,
        columns=(
            Column("Data set"),
            Column(b, numeric=True),
            Column(a, numeric=True),
            Column("Difference", numeric=True),
            Column("p", numeric=True),
            Column("Result"),
            Column("Repeats", numeric=True),
            Column("Note"),
        ),
        rows=tuple(_row(each, names) for each in verdict.sets),
        notes=(verdict.rule, verdict.explanation),
    )


def model_title(verdict: Verdict) -> str:
    """Name network and epochs of a verdict."""
    name = network_title(verdict.network)
    if verdict.epochs is None:
        return name
    return f"{name}, {epochs_text(verdict.epochs)}"


def _row(each: SetComparison, names: Sequence[str]) -> tuple[Entry, ...]:
    words = {"unclear": "unclear", "lower": "clearly lower", "higher": "clearly higher"}
    return (
        Entry(data_title(each.data, names)),
        number(each.b),
        number(each.a),
        number(each.test.difference),
        Entry(f"{each.test.p:.2g}", each.test.p, f"t = {each.test.t:.3g}"),
        Entry(words[each.direction]),
        Entry(str(each.repeats), each.repeats),
        Entry(each.note),
    )
