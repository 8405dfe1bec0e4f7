"""The status: every rule by laws whose fault is known, and by PIT values by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from calibrant.metrics.evaluate import evaluate
from calibrant.metrics.scorecard import Scorecard
from calibrant.report.own._shape import shape_words
from calibrant.report.own.diagnosis import FEWEST_ROWS, diagnose
from own_contents import N, card_of, gridded, of_law, with_group


def _even(n: int, low: float = 0.0, high: float = 1.0) -> tuple[float, ...]:
    """n values at equal distances, none of them at an end."""
    return tuple((low + (high - low) * (np.arange(n) + 0.5) / n).tolist())


#: Far from the middle, and yet always within the 90 % interval.
HUMPS = (*_even(N // 2, 0.1, 0.2), *_even(N // 2, 0.8, 0.9))


def _with(card: Scorecard, name: str, **more: Any) -> Scorecard:
    """The card with one measure changed."""
    measures = [
        replace(each, **more) if each.name == name else each for each in card.measures
    ]
    return replace(card, measures=tuple(measures))


@pytest.mark.parametrize("law", ["narrow", "wide", "shifted"])
def test_a_known_fault_is_named(law: str) -> None:
    found = diagnose(of_law(law).card)
    assert found.status == law
    assert found.seen
    assert found.everywhere
    assert found.chance < 0.001
    assert found.sure


def test_a_good_model_is_trusted_whatever_it_predicts() -> None:
    for contents in (of_law("good"), gridded()):
        found = diagnose(contents.card)
        assert (found.status, found.seen, found.everywhere) == ("trusted", False, False)


def test_lean_and_reach_are_standard_deviations_of_a_perfect_model() -> None:
    even = diagnose(card_of(_even(N)))
    assert even.lean == pytest.approx(0, abs=1e-9)
    assert even.reach == pytest.approx(0, abs=1e-9)
    # All values in the upper half: mean 3/4, and |2u - 1| still even over [0, 1].
    upper = diagnose(card_of(_even(N, 0.5)))
    assert upper.lean == pytest.approx(0.25 * np.sqrt(12 * N))
    assert upper.reach == pytest.approx(0, abs=1e-9)
    assert upper.status == "shifted"
    assert upper.gap == pytest.approx(
        np.sqrt(1 / 12), rel=0.01
    )  # of the gaps p and 1 - p


def test_too_few_rows_cannot_tell_but_a_gross_fault_is_seen() -> None:
    assert FEWEST_ROWS == 30
    assert diagnose(card_of(_even(FEWEST_ROWS - 1))).status == "few"
    assert diagnose(card_of(_even(FEWEST_ROWS))).status == "trusted"
    assert diagnose(card_of(_even(5, 0.999, 1.0))).status == "shifted"


def test_coverage_alone_decides_where_the_rest_is_usual() -> None:
    values = np.array(_even(N))
    distance = np.abs(2 * values - 1)
    just_inside = (distance > 0.84) & (distance < 0.9)
    out = values.copy()
    out[just_inside] = np.where(out[just_inside] < 0.5, 0.045, 0.955)
    narrow = diagnose(card_of(tuple(out.tolist())))
    assert abs(narrow.reach) < 1.96
    assert narrow.status == "narrow"
    assert narrow.chance < 0.05
    just_outside = distance > 0.9
    out = values.copy()
    out[just_outside] = np.where(out[just_outside] < 0.5, 0.06, 0.94)
    wide = diagnose(card_of(tuple(out.tolist())))
    assert abs(wide.reach) < 1.96
    assert wide.status == "wide"


def test_a_law_of_another_shape_is_neither_narrow_nor_wide() -> None:
    humps = diagnose(card_of(HUMPS))
    assert humps.reach > 1.96
    assert humps.status == "misshapen"
    # Close to the middle, and yet too often outside.
    tails = (*_even(50, 0.0, 0.02), *_even(312, 0.3, 0.7), *_even(50, 0.98, 1.0))
    assert diagnose(card_of(tails)).status == "misshapen"


def test_what_many_rows_make_visible_need_not_matter() -> None:
    card = _with(card_of(_even(N)), "calibration_error", p_value=0.01)
    found = diagnose(card)
    assert (found.seen, found.status) == (True, "trusted")
    off = diagnose(_with(card, "coverage_90", value=0.93, high=0.92, p_value=0.02))
    assert (off.status, off.chance, off.sure) == ("wide", 0.01, False)


def test_a_group_counts_only_if_chance_does_not_explain_it_and_it_matters() -> None:
    card = with_group().card
    found = diagnose(card)
    assert found.status == "uneven"
    assert found.group is not None
    assert (found.group.key, found.group.group.label) == ("kind", "villa")
    assert found.sure == (found.group.p_value < 0.01)
    assert card.worst is not None
    chance = replace(card, worst=replace(card.worst, p_value=0.05))
    assert diagnose(chance).status == "trusted"
    small = replace(
        card.worst.group, calibration_error=card.worst.group.floor, coverage_90=0.89
    )
    slight = replace(card, worst=replace(card.worst, group=small))
    assert diagnose(slight).group is None
    assert diagnose(replace(card, worst=None)).group is None


def test_measures_without_a_floor_are_no_fault() -> None:
    card = card_of(_even(40))
    bare = _with(card, "coverage_90", low=None, high=None, p_value=None)
    assert diagnose(bare).status == "trusted"


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ("narrow", "(a U)"),
        ("wide", "(a hump)"),
        ("shifted", "rise from left to right (a slope): targets lie higher"),
        ("good", "all bars lie within the band"),
    ],
)
def test_the_histogram_is_read_as_found(law: str, words: str) -> None:
    histogram = {"low": 0, "high": 99, "counts": [50, 60]}
    assert words in shape_words(of_law(law).card, histogram)


def test_bars_outside_the_band_are_counted_where_nothing_else_is_wrong() -> None:
    histogram = {"low": 10, "high": 20, "counts": [9, 15, 21]}
    words = shape_words(of_law("good").card, histogram)
    assert words.startswith("Here 2 of 3 bars leave the band")
    low = shape_words(card_of(_even(N, 0.0, 0.5)), histogram)
    assert "fall from left to right" in low
    assert "lower than predicted" in low
    words = shape_words(card_of(HUMPS), histogram)
    assert "neither a slope nor a plain U or hump" in words


def test_intervals_that_err_on_different_sides_have_the_wrong_shape() -> None:
    """Too few targets near the middle, and too few far out: between the two."""
    steps = np.linspace(0, 1, 4000)
    distance = np.interp(steps, [0, 0.45, 0.93, 1], [0, 0.5, 0.9, 1])
    pit = 0.5 + 0.5 * distance * np.where(np.arange(4000) % 2, 1, -1)
    pit[:80] = 0.6  # leans a little, which does not matter beside the rest
    targets = norm.ppf(pit.clip(1e-6, 1 - 1e-6))
    card = evaluate((np.zeros(4000), np.ones(4000)), targets)
    assert card["coverage_50"] < 0.48
    assert card["coverage_90"] > 0.92
    assert diagnose(card).status == "misshapen"
