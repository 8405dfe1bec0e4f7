"""The two tests behind the verdicts, against hand, scipy and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from calibrant._checks import InputError
from calibrant.paper.statistics import corrected_t_test, signed_rank_test


def test_by_hand() -> None:
    # Mean -5, variance 10/4 = 2.5, factor 1/5 + 1/4 = 0.45.
    test = corrected_t_test([-3, -4, -5, -6, -7], overlap=0.25)
    assert test.t == pytest.approx(-5 / math.sqrt(0.45 * 2.5))
    assert test.p == pytest.approx(2 * stats.t.cdf(test.t, 4))
    assert test.difference == -5
    assert test.direction == "lower"
    assert corrected_t_test([3, 4, 5, 6, 7], overlap=0.25).direction == "higher"


def test_without_overlap_it_is_the_plain_t_test() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 12)
    plain = stats.ttest_1samp(values, 0.0)
    test = corrected_t_test(values.tolist(), overlap=0.0)
    assert test.t == pytest.approx(plain.statistic)
    assert test.p == pytest.approx(plain.pvalue)


def test_limits() -> None:
    assert corrected_t_test([4.0], overlap=0.25).direction == "unclear"
    assert corrected_t_test([0.1 + 0.2] * 5, overlap=0.25).p == 0.0
    assert corrected_t_test([-2.0] * 5, overlap=0.25).direction == "lower"
    assert corrected_t_test([0.0] * 5, overlap=0.25).p == 1.0
    for bad in ([], [1.0, math.inf], [math.nan, 0.0]):
        with pytest.raises(InputError, match="at least one difference, all finite"):
            corrected_t_test(bad, overlap=0.25)


def rejections(correlation: float, *, overlap: float, folds: int = 5) -> float:
    """Share of simulated sets without any difference that come out clear."""
    random = np.random.default_rng(1)
    sets = 4000
    shared = random.normal(size=(sets, 1)) * math.sqrt(correlation)
    own = random.normal(size=(sets, folds)) * math.sqrt(1 - correlation)
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
    assert test.p == 2 / 8
    assert test.direction == "unclear"
    assert signed_rank_test([-math.inf, -1, -2, -3, -4, -5]).direction == "lower"
    assert signed_rank_test([0.0, 0.0]).p == 1.0
    assert signed_rank_test([]).sets == 0
    with pytest.raises(InputError, match="needs numbers"):
        signed_rank_test([math.nan])


def test_five_sets_are_never_enough_and_six_are() -> None:
    assert signed_rank_test([-1, -2, -3, -4, -5]).direction == "unclear"
    assert signed_rank_test([-1, -2, -3, -4, -5, -6]).direction == "lower"
    assert signed_rank_test([1, 2, 3, 4, 5, 6]).direction == "higher"
