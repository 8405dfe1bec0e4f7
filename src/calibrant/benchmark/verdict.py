"""What a verdict is, and the rules that give one: ``docs/verdicts.md`` as code."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from calibrant.benchmark._paired import SetsTest
from calibrant.benchmark.comparison import SetComparison, over_sets

__all__ = [
    "Outcome",
    "Ruling",
    "Tally",
    "Verdict",
    "count_rule",
    "much_more_rule",
    "named_rule",
    "tally",
]

Outcome = Literal["holds", "does not hold", "within noise", "not run"]
#: Sets that a test over sets needs to reach 5 % at all.
FEWEST_SETS = 6
#: Ratio of errors that counts as "much more".
MUCH = 1.5


@dataclass(frozen=True)
class Ruling:
    """What a rule says: the verdict, our counts, and why."""

    verdict: Outcome
    ours: str
    why: str
    over: SetsTest | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim and what the records say about it.

    Attributes
    ----------
    name
        Of the claim, as in ``docs/verdicts.md``.
    source
        ``"paper"`` for its claims, ``"own"`` for our questions.
    network, epochs
        Which models it is about; empty and None where that is part of the claim.
    claim
        In our words.
    quote
        In the paper's words; empty for our questions.
    rule
        In one line.
    paper
        What the paper's own numbers say.
    ours
        What our numbers say: counts.
    columns
        What B and A of each set are.
    sets
        Each set that was run.
    over
        The test over sets, where the rule has one.
    verdict
        holds, does not hold, within noise, or not run.
    explanation
        Why, in plain words.
    """

    name: str
    source: Literal["paper", "own"]
    network: str
    epochs: int | None
    claim: str
    quote: str
    rule: str
    paper: str
    ours: str
    columns: tuple[str, str]
    sets: tuple[SetComparison, ...]
    over: SetsTest | None
    verdict: Outcome
    explanation: str


@dataclass(frozen=True)
class Tally:
    """Names of sets by what they show."""

    lower: tuple[str, ...]
    higher: tuple[str, ...]
    clearly_lower: tuple[str, ...]
    clearly_higher: tuple[str, ...]
    sets: int

    def __str__(self) -> str:
        """Return the counts as a sentence's part."""
        return self.told("lower", "higher")

    def told(self, below: str, above: str) -> str:
        """Return the counts in other words than lower and higher."""
        return (
            f"{below} on {len(self.lower)} of {self.sets} "
            f"{'set' if self.sets == 1 else 'sets'} (clearly on "
            f"{len(self.clearly_lower)}), {above} on {len(self.higher)} (clearly on "
            f"{len(self.clearly_higher)})"
        )


def tally(comparisons: Iterable[SetComparison]) -> Tally:
    """Count the sets where B is lower or higher than A, and where clearly so."""
    every = list(comparisons)

    def names(fits: Callable[[SetComparison], bool]) -> tuple[str, ...]:
        return tuple(each.data for each in every if fits(each))

    return Tally(
        lower=names(lambda each: each.sign < 0),
        higher=names(lambda each: each.sign > 0),
        clearly_lower=names(lambda each: each.direction == "lower"),
        clearly_higher=names(lambda each: each.direction == "higher"),
        sets=len(every),
    )


def count_rule(
    comparisons: Sequence[SetComparison], *, of_ten: int, ratio: bool = True
) -> Ruling:
    """Judge "B is lower than A on so many of ten sets".

    Parameters
    ----------
    comparisons
        One for each set that was run.
    of_ten
        What is claimed; one clear exception for each missing tenth of the sets is
        allowed, rounded down.
    ratio
        How the test over sets orders sets: see ``over_sets``.
    """
    if not comparisons:
        return _not_run()
    counts, over = tally(comparisons), over_sets(comparisons, ratio=ratio)
    allowed = counts.sets * (10 - of_ten) // 10
    against = counts.clearly_higher
    if len(against) > allowed:
        room = f"the claim leaves room for {allowed}" if allowed else "none is allowed"
        why = (
            f"Clearly higher on {_these(against)}, and {room}. "
            f"{_together(over, counts.sets)}"
        )
        return Ruling("does not hold", str(counts), why, over)
    why = _together(over, counts.sets)
    if against:
        why += f" Clearly higher on {_these(against)}, for which the claim leaves room."
    outcomes: dict[str, Outcome] = {
        "lower": "holds",
        "higher": "does not hold",
        "unclear": "within noise",
    }
    return Ruling(outcomes[over.direction], str(counts), why, over)


def named_rule(
    comparisons: Sequence[SetComparison], *, claimed: Literal["lower", "higher"]
) -> Ruling:
    """Judge a claim about sets that the paper names: B is lower (or higher) than A.

    Parameters
    ----------
    comparisons
        One for each of these sets that was run.
    claimed
        Which direction.
    """
    if not comparisons:
        return _not_run()
    counts = tally(comparisons)
    sides = (counts.clearly_lower, counts.clearly_higher)
    support, against = sides if claimed == "lower" else sides[::-1]
    ours = f"of the sets that the claim names: {counts}"
    if against:
        opposite = "higher" if claimed == "lower" else "lower"
        why = f"Clearly {opposite} on {_these(against)}."
        return Ruling("does not hold", ours, why)
    if 2 * len(support) > counts.sets:
        why = f"Clearly {claimed} on {_these(support)}; clearly otherwise on none."
        return Ruling("holds", ours, why)
    why = (
        f"Clearly {claimed} on {_these(support)}, which is not more than half of "
        f"{counts.sets}, and clearly otherwise on none."
    )
    return Ruling("within noise", ours, why)


def much_more_rule(comparisons: Sequence[SetComparison]) -> Ruling:
    """Judge "B is much higher than A".

    Parameters
    ----------
    comparisons
        One for each set that was run.
    """
    if not comparisons:
        return _not_run()
    counts, over = tally(comparisons), over_sets(comparisons, ratio=True)
    ratios = [each.b / each.a if each.a else float("inf") for each in comparisons]
    median = statistics.median(ratios)
    ours = f"{counts}; median ratio {median:.2f}"
    lower, higher = counts.clearly_lower, counts.clearly_higher
    why = _together(over, counts.sets)
    if lower and len(lower) >= len(higher):
        why += (
            f" Clearly lower on {_these(lower)}, clearly higher on {_these(higher)}: "
            "not fewer."
        )
        return Ruling("does not hold", ours, why, over)
    if over.direction == "higher" and median < MUCH:
        why += f" But the median ratio {median:.2f} is below {MUCH:g}: not much more."
        return Ruling("does not hold", ours, why, over)
    outcomes: dict[str, Outcome] = {
        "lower": "does not hold",
        "higher": "holds",
        "unclear": "within noise",
    }
    return Ruling(outcomes[over.direction], ours, why, over)


def _not_run() -> Ruling:
    return Ruling("not run", "nothing yet", "No set that it speaks of is finished.")


def _together(over: SetsTest, sets: int) -> str:
    if sets < FEWEST_SETS:
        few = "Only one set is" if sets == 1 else f"Only {sets} sets are"
        return f"{few} finished: a test over sets needs {FEWEST_SETS}."
    if over.direction == "unclear":
        return f"The sets together show no clear direction (p = {over.p:.2g})."
    return f"Over the sets together it is {over.direction} (p = {over.p:.2g})."


def _these(names: Sequence[str]) -> str:
    if not names:
        return "no set"
    # The path of a file stays as it is.
    listed = ", ".join(n if "." in n else n.replace("_", " ") for n in names)
    return f"{len(names)} {'set' if len(names) == 1 else 'sets'} ({listed})"
