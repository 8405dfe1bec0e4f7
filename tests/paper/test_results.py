"""Arms from records: means, deviations, unfinished repeats, and the paired tests."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from calibrant import InputError
from calibrant.paper.ledger import LEVELS, Arm, Cell
from calibrant.paper.results import (
    ArmResults,
    FoldTable,
    Number,
    by_arm,
    compare,
    corrected_t_test,
    over_sets,
    signed_rank_test,
)
from page_records import measured


def only(
    numbers: dict[tuple[int, int], float], split: str = "unshuffled"
) -> ArmResults:
    """An arm of five folds, one of the fixed split, whose RMSE is given."""
    folds = 1 if split == "fixed" else 5
    arm = Arm(data="yacht", split=split, folds=folds, network="mc_dropout")
    cells = [Cell(**vars(arm), repeat=r, fold=f) for r, f in numbers]
    sizes = {"train_rows": 80, "test_rows": 20, "curve": tuple(range(1, LEVELS + 1))}
    records = [
        measured(cell, rmse=rmse, **sizes)
        for cell, rmse in zip(cells, numbers.values(), strict=True)
    ]
    return by_arm(records[::-1])[arm]


def table(
    numbers: dict[tuple[int, int], float], split: str = "unshuffled"
) -> FoldTable:
    found = only(numbers, split).table("rmse")
    assert found is not None
    return found


PLACES = [(repeat, fold) for repeat in range(3) for fold in range(5)]


def test_mean_over_folds_then_deviation_over_repeats() -> None:
    # Repeat r, fold f: 10 r + f. Means over folds 2, 12, 22.
    known = only({(r, f): 10.0 * r + f for r, f in PLACES})
    found = known.number("rmse")
    assert found.mean == pytest.approx(12)
    assert found.std == pytest.approx(math.sqrt(200 / 3))  # ddof 0
    assert (found.over, known.state) == ("3 repeats", "3 repeats")
    one = only({(0, f): float(f) for f in range(5)}).number("rmse")
    assert one == Number(2.0, pytest.approx(math.sqrt(2)), "5 folds, 1 repeat")


def test_only_whole_repeats_count() -> None:
    known = only({(r, f): 1.0 + 99 * r for r, f in PLACES[:8]})
    assert known.number("rmse").mean == 1.0
    assert known.state == "1 repeat, 3 more cells of unfinished ones"
    known = only(dict.fromkeys(PLACES[:3], 1.0))
    assert (known.repeats, known.table("rmse")) == ([], None)
    assert known.state == "partial: 3 of 5 folds"


def test_an_infinite_number_has_no_deviation() -> None:
    known = only(dict.fromkeys(PLACES, 1.0) | {(1, 1): math.inf})
    assert known.number("rmse") == Number(math.inf, None, "3 repeats")


def test_curve_pools_the_counts_of_all_rows() -> None:
    cell = Cell(data="a", folds=2, network="mc_dropout")
    few = measured(cell, test_rows=20, curve=tuple(range(1, 21)))
    many = measured(dataclasses.replace(cell, fold=1), test_rows=60, curve=(60,) * 20)
    (known,) = by_arm([many, few]).values()
    assert known.curve() == pytest.approx([(60 + j) / 80 for j in range(1, 21)])
    assert known.curve(0) == pytest.approx([j / 20 for j in range(1, 21)])
    assert few.curve_gap == pytest.approx(0.0)
    low = dataclasses.replace(few, curve=(0,) * LEVELS)
    assert low.curve_gap == pytest.approx(sum(range(1, 21)) / 400)


def test_repeats_on_the_same_folds_are_averaged_and_others_are_not() -> None:
    numbers = {(r, f): float(10 * r + f) for r, f in PLACES}
    same = table(numbers)
    assert same.independent() == [10, 11, 12, 13, 14]
    assert same.overlap == 0.25
    assert len(table(numbers, "shuffled").independent()) == 15
    fixed = table({(0, 0): 1.0, (1, 0): 2.0}, "fixed")
    assert (fixed.overlap, fixed.independent()) == (0.0, [1.0, 2.0])


def test_compared_on_common_repeats_of_the_same_folds_only() -> None:
    a = table({(r, f): 1.0 + f for r, f in PLACES})
    b = table({(r, f): 2.0 + f + r for r in (1, 4) for f in range(5)})
    found = compare(b, a)
    assert found is not None
    assert (found.repeats, found.b, found.a) == (1, 5.0, 3.0)
    assert found.test.difference == 2.0
    assert found.direction == "higher"
    other = table({(7, f): 1.0 for f in range(5)})
    shuffled = table(dict.fromkeys(PLACES, 1.0), "shuffled")
    assert [compare(x, a) for x in (None, other, shuffled)] == [None] * 3


def test_infinite_values_are_worse_than_finite_ones() -> None:
    finite = table(dict.fromkeys(PLACES[:5], 1.0))
    endless = table(dict.fromkeys(PLACES[:5], 1.0) | {(0, 2): math.inf})
    pairs = ((endless, finite), (finite, endless), (endless, endless))
    found = [comparison for pair in pairs if (comparison := compare(*pair))]
    assert [c.direction for c in found] == ["higher", "lower", "unclear"]
    assert over_sets(found[2:], ratio=False).sets == 0


def test_paired_test_by_hand() -> None:
    # Mean -5, variance 10/4 = 2.5, factor 1/5 + 1/4 = 0.45.
    test = corrected_t_test([-3, -4, -5, -6, -7], overlap=0.25)
    assert test.t == pytest.approx(-5 / math.sqrt(0.45 * 2.5))
    assert test.p == pytest.approx(2 * stats.t.cdf(test.t, 4))
    assert (test.difference, test.direction) == (-5, "lower")
    assert corrected_t_test([3, 4, 5, 6, 7], overlap=0.25).direction == "higher"


def test_without_overlap_it_is_the_plain_t_test() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 12)
    plain = stats.ttest_1samp(values, 0.0)
    test = corrected_t_test(values.tolist(), overlap=0.0)
    assert (test.t, test.p) == pytest.approx((plain.statistic, plain.pvalue))


def test_paired_test_at_its_limits() -> None:
    assert corrected_t_test([4.0], overlap=0.25).direction == "unclear"
    assert corrected_t_test([0.1 + 0.2] * 5, overlap=0.25).p == 0.0
    assert corrected_t_test([-2.0] * 5, overlap=0.25).direction == "lower"
    assert corrected_t_test([0.0] * 5, overlap=0.25).p == 1.0
    for bad in ([], [1.0, math.inf], [math.nan, 0.0]):
        with pytest.raises(InputError, match="at least one difference, all finite"):
            corrected_t_test(bad, overlap=0.25)


def rejections(correlation: float, *, overlap: float) -> float:
    """Share of simulated sets without any difference that come out clear."""
    random = np.random.default_rng(1)
    shared = random.normal(size=(4000, 1)) * math.sqrt(correlation)
    own = random.normal(size=(4000, 5)) * math.sqrt(1 - correlation)
    found = [corrected_t_test(row, overlap=overlap).p < 0.05 for row in shared + own]
    return float(np.mean(found))


def test_level_when_folds_are_as_correlated_as_their_rows() -> None:
    # n_test / n = 1/5 is the correlation that the correction stands for: exactly 5 %.
    assert rejections(0.2, overlap=0.25) == pytest.approx(0.05, abs=0.012)
    # The plain test would call one set in six; independent folds make ours careful.
    assert rejections(0.2, overlap=0.0) > 0.12
    assert rejections(0.0, overlap=0.25) < 0.03


@pytest.mark.parametrize("seed", range(5))
def test_signed_ranks_against_scipy(seed: int) -> None:
    values = np.random.default_rng(seed).normal(-0.4, 1, 9)
    test = signed_rank_test(values.tolist())
    other = stats.wilcoxon(values, method="exact")
    assert test.p == pytest.approx(other.pvalue)
    assert min(test.lower_ranks, test.higher_ranks) == other.statistic


def test_signed_ranks_with_ties_zeros_and_infinity() -> None:
    # Ranks of 1, 1, 1 are 2 each; all signs are minus in 1 of 8 cases.
    test = signed_rank_test([-1.0, 0.0, -1.0, -1.0])
    assert (test.lower_ranks, test.higher_ranks, test.sets) == (6.0, 0.0, 3)
    assert (test.p, test.direction) == (2 / 8, "unclear")
    assert signed_rank_test([-math.inf, -1, -2, -3, -4, -5]).direction == "lower"
    assert signed_rank_test([0.0, 0.0]).p == 1.0
    with pytest.raises(InputError, match="needs numbers"):
        signed_rank_test([math.nan])


def test_five_sets_are_never_enough_and_six_are() -> None:
    assert signed_rank_test([-1, -2, -3, -4, -5]).direction == "unclear"
    assert signed_rank_test([1, 2, 3, 4, 5, 6]).direction == "higher"
