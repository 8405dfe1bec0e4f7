"""The rules of ``docs/verdicts.md``, on comparisons made by hand."""

import pytest

from calibrant.paper.claims import count_rule, much_more_rule, named_rule
from calibrant.paper.results import PairedTest, SetComparison


def made(*results: tuple[str, float, float, float]) -> list[SetComparison]:
    """Comparisons from name, B, A and p-value."""
    return [
        SetComparison(name, b, a, 1, PairedTest(b - a, b - a, p, 5))
        for name, b, a, p in results
    ]


def test_count_rule_room_grows_with_the_claim() -> None:
    lower = [(f"set {i}", 1.0, 2.0 + 0.1 * i, 0.01) for i in range(8)]
    sets = made(*lower, ("against", 2.1, 2.0, 0.01), ("unclear", 2.02, 2.0, 0.6))
    assert count_rule(sets, of_ten=10).verdict == "does not hold"
    assert count_rule(sets, of_ten=9).verdict == "holds"
    # Of nine sets or fewer a tenth is no whole set.
    assert count_rule(sets[:9], of_ten=9).verdict == "does not hold"
    assert count_rule([], of_ten=9).verdict == "not run"


def test_named_rule_needs_more_than_half_and_nothing_against() -> None:
    half = made(("a", 1.0, 2.0, 0.01), ("b", 1.0, 2.0, 0.5))
    assert named_rule(half, claimed="lower").verdict == "within noise"
    more = [*half, *made(("c", 1.0, 2.0, 0.01))]
    assert named_rule(more, claimed="lower").verdict == "holds"
    against = [*more, *made(("d", 3.0, 2.0, 0.01))]
    assert named_rule(against, claimed="lower").verdict == "does not hold"
    assert named_rule(more, claimed="higher").verdict == "does not hold"
    assert named_rule([], claimed="lower").verdict == "not run"


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [(2.0, "holds"), (1.2, "does not hold"), (0.5, "does not hold")],
)
def test_much_more_means_by_half(ratio: float, outcome: str) -> None:
    sets = made(*((f"set {i}", ratio * (1 + i), 1.0 + i, 0.01) for i in range(7)))
    assert much_more_rule(sets).verdict == outcome
    unclear = made(*((f"{i}", 1 + (-1) ** i * 0.1, 1.0, 0.5) for i in range(7)))
    assert much_more_rule(unclear).verdict == "within noise"
    assert much_more_rule([]).verdict == "not run"
