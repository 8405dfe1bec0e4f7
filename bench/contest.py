"""A contest: two ways to the same result, taken in turns, and the ratio of their times.

Times of a shared machine mean little, their ratio within one run much more. So both
ways run alternately in one process, and the best time of each counts. The ratio of each
round is kept as well: its spread tells how much the machine was disturbed. What is over
in no time is repeated within a round, so that each finds its own caches, and until the
round lasts many steps of the clock, which moves by 4 ms on some machines.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

__all__ = [
    "Contest",
    "Goal",
    "Outcome",
    "Stated",
    "at_least",
    "at_most",
    "best_seconds",
    "share_at_most",
]

#: Seconds, and steps of the clock, that a round takes at least.
_ROUND = 0.02
_STEPS = 50
#: A clock that shows the same for so many looks does not move.
_LOOKS = 2_000_000

#: Runs the work once. Its result is used for nothing, unless it is a ``Stated`` time.
Work = Callable[[], object]


class Stated(float):
    """Seconds that work says of itself: a part of it that stands for the whole."""


@dataclass(frozen=True)
class Goal:
    """What is to be reached.

    Attributes
    ----------
    number
        The bound, None for a number that is told without one.
    kind
        ``faster``: the other's time over ours, at least the bound. ``within``: ours
        over the other's, at most. ``added``: what ours adds to the other's, at most.
        ``share``: the share of a limit that is reached, at least.
    """

    number: float | None
    kind: str = "faster"

    def value(self, ours: float, other: float, scale: float) -> float:
        """Turn two times into the number that is compared with the bound."""
        if self.kind in ("faster", "share"):
            return scale * other / ours
        return ours / other - (1 if self.kind == "added" else 0)

    def met(self, value: float) -> bool | None:
        """Tell whether a value reaches the bound, None without a bound."""
        if self.number is None:
            return None
        if self.kind in ("faster", "share"):
            return value >= self.number
        return value <= self.number

    def text(self, value: float) -> str:
        """Write a value as people say it."""
        if self.kind == "added":
            return f"{100 * value:+.1f} %"
        if self.kind == "share":
            return f"{100 * value:.0f} %"
        digits = max(0, 2 - math.floor(math.log10(max(value, 1e-9))))
        return f"{value:,.{min(digits, 3)}f}x" if value < 1000 else f"{value:,.0f}x"

    def __str__(self) -> str:
        """Return the bound as people say it."""
        if self.number is None:
            return ""
        sign = ">=" if self.kind in ("faster", "share") else "<="
        if self.kind == "added":
            return f"{sign} +{100 * self.number:g} %"
        if self.kind == "share":
            return f"{sign} {100 * self.number:g} %"
        return f"{sign} {self.number:g}x"


def at_least(number: float | None = None) -> Goal:
    """Be so many times as fast."""
    return Goal(number)


def at_most(number: float | None = None) -> Goal:
    """Take at most so many times as long."""
    return Goal(number, "within")


def share_at_most(number: float | None = None) -> Goal:
    """Add at most this share."""
    return Goal(number, "added")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a contest showed.

    Attributes
    ----------
    work, against, goal, note
        Those of the contest.
    value, low, high
        The number, from the best times; and the middle 80 % of the rounds' own.
    ours_seconds, other_seconds
        The best times.
    difference
        Largest difference of the results, None where they are not comparable.
    rounds
        How often each has run.
    met
        Whether the goal is reached, None without a goal.
    threads
        How many threads of torch the other had to choose from.
    """

    work: str
    against: str
    goal: str
    text: str
    value: float
    low: float
    high: float
    ours_seconds: float
    other_seconds: float
    difference: float | None
    rounds: int
    met: bool | None
    threads: tuple[int, ...]
    note: str


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Two ways to one result.

    Attributes
    ----------
    work, against
        What is done, and what it is compared with.
    goal
        What is to be reached.
    ours, other
        Both ways.
    difference
        Largest difference between their results, where they are comparable.
    tolerance
        The largest one that counts as agreement.
    scale
        Factor of the ratio, where both do not do the same amount of work.
    seconds, rounds
        Go on for so long, but for at least and at most so many rounds. Longer work is
        disturbed less.
    threads
        Threads of torch that the other may have: its best time counts. Ours runs with
        torch's default, as it would for a user.
    once
        The work takes so long that a round is one run of it, without a warm-up.
    repeats
        How often ours is then run in a round, whose mean counts.
    note
        What a reader should know.
    """

    work: str
    against: str
    goal: Goal
    ours: Work
    other: Work
    difference: Callable[[], float] | None = None
    tolerance: float = 1e-6
    scale: float = 1.0
    seconds: float = 6.0
    rounds: tuple[int, int] = (5, 400)
    threads: tuple[int, ...] = field(default_factory=lambda: both_threads())
    once: bool = False
    repeats: int = 1
    note: str = ""

    def run(self) -> Outcome:
        """Check that both agree, then let them take turns."""
        found = self._agreement()
        default = torch.get_num_threads()
        mine, theirs = self.repeats, 1
        if not self.once:
            mine, theirs = _repeats(self.ours), _repeats(self.other)
        ours: list[float] = []
        others = {threads: list[float]() for threads in self.threads}
        stop = time.perf_counter() + self.seconds
        try:
            while len(ours) < self.rounds[0] or (
                time.perf_counter() < stop and len(ours) < self.rounds[1]
            ):
                for threads, times in others.items():
                    torch.set_num_threads(threads)
                    times.append(_seconds(self.other, theirs))
                torch.set_num_threads(default)
                ours.append(_seconds(self.ours, mine))
        finally:
            torch.set_num_threads(default)
        other = min(others.values(), key=min)
        return self._outcome(ours, other, found)

    def _agreement(self) -> float | None:
        """Run both once, which warms them up, and compare what they return."""
        if self.difference is None:
            return None
        found = float(self.difference())
        if not found <= self.tolerance:
            raise AssertionError(
                f"{self.work}: the results differ by {found:.3g}, more than "
                f"{self.tolerance:g}. A comparison of speeds would mean nothing."
            )
        return found

    def _outcome(
        self, ours: list[float], other: list[float], difference: float | None
    ) -> Outcome:
        if not (min(ours) and min(other)):
            raise RuntimeError(
                f"{self.work}: a round was shorter than a step of the clock. "
                "Leave once=True out, so that the work is repeated."
            )

        def value(mine: float, theirs: float) -> float:
            return self.goal.value(mine, theirs, self.scale)

        rounds = [value(*pair) for pair in zip(ours, other, strict=True)]
        best = value(min(ours), min(other))
        low, high = np.quantile(rounds, [0.1, 0.9])
        return Outcome(
            work=self.work,
            against=self.against,
            goal=str(self.goal),
            text=self.goal.text(best),
            value=best,
            low=float(low),
            high=float(high),
            ours_seconds=min(ours),
            other_seconds=min(other),
            difference=difference,
            rounds=len(rounds),
            met=self.goal.met(best),
            threads=self.threads,
            note=self.note,
        )


def both_threads() -> tuple[int, ...]:
    """One thread, and as many as torch takes by itself."""
    return tuple(sorted({1, torch.get_num_threads()}))


def best_seconds(work: Work, *, rounds: int = 1, seconds: float = 0.0) -> float:
    """Best time of work, of at least so many rounds and for so many seconds."""
    repeats = _repeats(work)
    stop, times = time.perf_counter() + seconds, list[float]()
    while len(times) < rounds or time.perf_counter() < stop:
        times.append(_seconds(work, repeats))
    return min(times)


def _repeats(work: Work) -> int:
    """How often work is done in a round, after a first time that warms up."""
    least = max(_ROUND, _STEPS * _clock_step())
    if _seconds(work, 1) > max(1, least):
        return 1
    repeats = 1
    while repeats * _seconds(work, repeats) < least:
        repeats *= 2
    return repeats


def _clock_step() -> float:
    """The least step of the clock, in seconds, of some that it makes."""
    steps = []
    for _ in range(5):
        start = time.perf_counter()
        looks = (time.perf_counter() - start for _ in range(_LOOKS))
        steps.append(next((step for step in looks if step > 0), 0.0))
    if not min(steps):
        raise RuntimeError(
            f"the clock does not move: it shows the same {_LOOKS:,} times in a row. "
            "Nothing can be timed on this machine."
        )
    return min(steps)


def _seconds(work: Work, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        result = work()
        if isinstance(result, Stated):
            return float(result)
    return (time.perf_counter() - start) / repeats
