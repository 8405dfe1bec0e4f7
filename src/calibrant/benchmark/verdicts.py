"""Every claim with its verdict, from records."""

from collections.abc import Iterable

from calibrant.benchmark._own_questions import own_verdicts
from calibrant.benchmark._paper_claims import table_verdicts
from calibrant.benchmark._sweeps import sweep_verdicts
from calibrant.benchmark.claims import CLAIMS
from calibrant.benchmark.comparison import SetComparison
from calibrant.benchmark.records import Record
from calibrant.benchmark.verdict import Outcome, Verdict
from calibrant.benchmark.view import TEXT_EPOCHS, View, paper_models

__all__ = ["Outcome", "SetComparison", "Verdict", "verdicts"]


def verdicts(records: Iterable[Record]) -> tuple[Verdict, ...]:
    """Judge each claim of the paper, and our own questions where they were run.

    The rules stand in ``docs/verdicts.md``. What was not run says so: each claim of the
    paper has a verdict for MC dropout and for ensembles at 100 epochs in any case.

    Parameters
    ----------
    records
        In any order; any may be missing.

    Returns
    -------
    tuple[Verdict, ...]
        Claims in the order of the rules, for each the models; then our questions.

    Examples
    --------
    >>> every = verdicts([])
    >>> {verdict.verdict for verdict in every}
    {'not run'}
    >>> every[0].name, every[0].network
    ('qr-error', 'mc_dropout')
    >>> every[0].paper
    'Lower on 10 of 10 sets, by more than 2.3 standard errors on 5.'
    """
    view = View(records)
    paper = [
        verdict
        for model in paper_models(view)
        for verdict in (*table_verdicts(view, model), *sweep_verdicts(view, model))
        if model.epochs == TEXT_EPOCHS or verdict.verdict != "not run"
    ]
    order = list(CLAIMS)
    paper.sort(key=lambda verdict: order.index(verdict.name))
    return (*paper, *own_verdicts(view))
