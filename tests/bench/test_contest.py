"""Contests are decided by ratios, and their plain references compute the same."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.distributions import Normal

from bench import contest as contest_module
from bench import plain
from bench.contest import (
    Contest,
    Goal,
    Stated,
    at_least,
    at_most,
    best_seconds,
    share_at_most,
)
from bench.contests.training import stack_epoch
from bench.record import Record
from calibrant.learners.mlp import DeepEnsemble, GaussianHead
from calibrant.regularizers import cumulative_kl
from calibrant.sorting import neural_sort


def contest(goal: Goal, mine: float, theirs: float, **changes: object) -> Contest:
    made: dict[str, object] = {
        "work": "work",
        "against": "another",
        "goal": goal,
        "ours": lambda: Stated(mine),
        "other": lambda: Stated(theirs),
        "rounds": (3, 3),
        "once": True,
        "threads": (1,),
    }
    return Contest(**(made | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("goal", "ours", "other", "value", "text", "met"),
    [
        (at_least(10), 0.1, 2.0, 20.0, "20.0x", True),
        (at_least(10), 0.1, 0.9, 9.0, "9.00x", False),
        (at_least(500), 0.001, 2.0, 2000.0, "2,000x", True),
        (at_least(), 0.1, 0.2, 2.0, "2.00x", None),
        (at_most(3), 0.3, 0.2, 1.5, "1.50x", True),
        (at_most(0.15), 0.3, 1.0, 0.3, "0.300x", False),
        (share_at_most(0.12), 1.1, 1.0, 0.1, "+10.0 %", True),
        (share_at_most(0.12), 1.2, 1.0, 0.2, "+20.0 %", False),
        (Goal(0.45, "share"), 1.0, 0.5, 0.5, "50 %", True),
    ],
)
def test_what_the_numbers_mean(
    goal: Goal, ours: float, other: float, value: float, text: str, met: bool | None
) -> None:
    outcome = contest(goal, ours, other).run()
    assert outcome.value == pytest.approx(value)
    assert outcome.low == pytest.approx(value)
    assert outcome.high == pytest.approx(value)
    assert (outcome.text, outcome.met, outcome.rounds) == (text, met, 3)


def test_the_best_of_both_counts_and_each_thread_count_is_tried() -> None:
    threads, before = [], torch.get_num_threads()
    times = iter([3.0, 2.0, 5.0, 1.0])
    ours = iter([0.5, 0.25])

    def other() -> Stated:
        threads.append(torch.get_num_threads())
        return Stated(next(times))

    outcome = contest(
        at_least(), 0, 0, ours=lambda: Stated(next(ours)), other=other,
        rounds=(2, 2), threads=(1, 2),
    ).run()  # fmt: skip
    assert threads == [1, 2, 1, 2]
    assert outcome.other_seconds == 1.0
    assert outcome.value == 4.0
    assert torch.get_num_threads() == before


def test_different_results_are_not_timed() -> None:
    with pytest.raises(AssertionError, match=r"results differ by 0\.5"):
        contest(at_least(), 1, 1, difference=lambda: 0.5, tolerance=0.1).run()
    with pytest.raises(AssertionError, match="results differ by nan"):
        contest(at_least(), 1, 1, difference=lambda: float("nan")).run()


class FakeClock:
    """A clock that moves by steps, and work that takes a known time by it."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 1.0, step

    def perf_counter(self) -> float:
        self.now += 1e-6  # so long takes a look at it
        return self.now // self.step * self.step

    def work(self, seconds: float, calls: list[float]) -> None:
        calls.append(seconds)
        self.now += seconds


@pytest.mark.parametrize("step", [1e-7, 0.004, 0.0156])
def test_short_work_is_repeated_until_the_clock_can_tell(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, calls = FakeClock(step), list[float]()
    monkeypatch.setattr(contest_module, "time", clock)
    ours, other = (partial(clock.work, each, calls) for each in (2e-5, 3e-4))
    outcome = contest(
        at_least(), 0, 0, ours=ours, other=other, once=False, seconds=0.0
    ).run()
    assert outcome.value == pytest.approx(15, rel=0.05)
    assert outcome.ours_seconds == pytest.approx(2e-5, rel=0.05)
    assert best_seconds(ours, rounds=3) == pytest.approx(2e-5, rel=0.05)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    path, made = tmp_path / "out" / "unfinished.json", []

    def find(value: int) -> int:
        made.append(value)
        return value

    first = Record(path, fresh=False)
    assert first.get("part", "a", partial(find, 1)) == 1
    second = Record(path, fresh=False)
    assert second.get("part", "a", partial(find, 2)) == 1
    assert second.get("part", "b", partial(find, 3)) == 3
    assert made == [1, 3]
    second.finish()
    assert not path.exists()
    kept = json.loads(second.path.read_text("utf-8"))
    assert kept["part"] == {"a": 1, "b": 3}
    assert kept["finished"] >= kept["started"]
    assert Record(path, fresh=True).get("part", "a", partial(find, 4)) == 4


def test_plain_regularizers_are_those_of_the_library() -> None:
    pit = torch.rand(200, generator=torch.Generator().manual_seed(0)).double()
    expected = cumulative_kl(pit)
    torch.testing.assert_close(plain.cumulative_kl(pit), expected)
    ours = neural_sort(pit)
    for published in (False, True):
        sort = partial(plain.neural_sort, published=published)
        torch.testing.assert_close(sort(pit), ours)
        relaxed = cumulative_kl(pit, sort=neural_sort)
        found = plain.cumulative_kl(pit, sort=sort)
        torch.testing.assert_close(found, relaxed, atol=5e-4, rtol=0)


def test_plain_networks_compute_what_a_stack_computes() -> None:
    x, y = (part.double() for part in plain.rows(60))
    member = plain.Member(x, y)
    member.network.double()
    stack = DeepEnsemble(x.shape[1], members=1, head=GaussianHead(floor=plain.FLOOR))
    linear = [each for each in member.network if isinstance(each, torch.nn.Linear)]
    with torch.no_grad():
        for place, each in enumerate(linear):
            stack.stack.weights[place][0] = each.weight.T
            stack.stack.biases[place][0, 0] = each.bias
    law, ours = member.predictive(x), stack(x)
    torch.testing.assert_close(ours.mean[0], law.loc)
    torch.testing.assert_close(ours.stddev[0], law.scale)
    pooled = plain.predictive(
        torch.stack([law.loc, law.loc + 1]), law.scale.expand(2, -1)
    )
    assert isinstance(pooled, Normal)
    torch.testing.assert_close(pooled.variance, law.variance + 0.25)


def test_plain_training_lowers_its_loss() -> None:
    torch.manual_seed(0)
    x, y = plain.rows(256)
    x, y = x.double(), y.double()
    member = plain.Member(
        x, y, dropout=0.1, strength=1.0, adversarial=True, learning_rate=1e-2
    )
    member.network.double()
    before = -member.predictive(x).log_prob(y).mean()
    for _ in range(30):
        member.epoch(64)
    assert -member.predictive(x).log_prob(y).mean() < before - 0.1
    assert callable(stack_epoch(members=2, strength=1.0, adversarial=True))
