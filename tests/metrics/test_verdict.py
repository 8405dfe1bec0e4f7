"""The verdict: what it says of models whose fault is known, and every rule by hand."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, laplace, norm

from calibrant.metrics.calibration import calibration_curve, calibration_error
from calibrant.metrics.floors import noise_floor
from calibrant.metrics.scorecard import Measure, Scorecard, evaluate
from calibrant.metrics.verdict import FEWEST_ROWS, SURE, diagnose, group_chance
from calibrant.report.words import advice, shape_words
from own_contents import N, card_of, gridded, of_law, with_group

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
SIZES = (30, 100, 300, 1000, 10_000, 100_000)
#: What is said of a fault over all rows.
NAMES = ("too narrow", "too wide", "biased, too low", "biased, too high", "shape")
CALM = ("No sign of a fault:", "too small to change a decision")
#: PIT values of Gaussian predictions (one Laplace) with a fault, the name of the fault,
#: and the rows from which on it is named every time.
MODELS: dict[str, tuple[Draw, str, int]] = {
    "narrow": (lambda rng, n: _gaussian(rng.normal(size=n) / 0.8), NAMES[0], 1000),
    "very narrow": (lambda rng, n: _gaussian(rng.normal(size=n) / 0.3), NAMES[0], 30),
    "wide": (lambda rng, n: _gaussian(rng.normal(size=n) / 1.25), NAMES[1], 1000),
    "wide, not Gaussian": (
        lambda rng, n: np.asarray(laplace.cdf(rng.laplace(size=n) / 1.25)),
        NAMES[1],
        10_000,
    ),
    "low": (lambda rng, n: _gaussian(rng.normal(size=n) + 0.4), NAMES[2], 300),
    "high": (lambda rng, n: _gaussian(rng.normal(size=n) - 0.4), NAMES[3], 300),
    "no tails": (
        lambda rng, n: _gaussian(rng.uniform(-(3**0.5), 3**0.5, size=n)),
        NAMES[4],
        1000,
    ),
    # As many beyond the 90 % intervals as there should be, and more in the middle.
    "heavy tails": (
        lambda rng, n: _gaussian(rng.standard_t(2, size=n) * 1.6449 / 2.92),
        NAMES[4],
        10_000,
    ),
    "skewed": (lambda rng, n: _gaussian(rng.exponential(size=n) - 1), NAMES[4], 1000),
}


def _gaussian(z: Floats) -> Floats:
    return np.asarray(norm.cdf(z))


def _card(pit: Floats) -> Scorecard:
    """A card with no more than the verdict needs."""
    n, distance = len(pit), np.abs(2 * pit - 1)
    values = {at: float((distance <= at / 100).mean()) for at in (50, 90)}
    floors = {at: noise_floor("coverage", n=n, coverage=at / 100) for at in values}
    error, floor = calibration_error(pit), noise_floor(n=n)
    measures = [
        Measure(f"coverage_{at}", "coverage", values[at], low=of.low, high=of.high)
        for at, of in floors.items()
    ]
    chance = floor.p_value(error)
    measures.append(
        Measure("calibration_error", "", error, floor=floor.expectation, p_value=chance)
    )
    nominal, observed = (tuple(part.tolist()) for part in calibration_curve(pit))
    curve = (nominal, observed)
    return Scorecard(n, tuple(measures), None, {}, None, None, curve, {"pit": pit})


@cache
def _truth(model: str) -> dict[str, bool]:
    """What may be said of a model: its coverages and its place, from many rows."""
    pit = MODELS[model][0](np.random.default_rng(0), 400_000)
    distance = np.abs(2 * pit - 1)
    gaps = {at: float((distance <= at / 100).mean()) - at / 100 for at in (50, 90)}
    below = float((pit < 0.5).mean()) - 0.5
    return {
        "50 % intervals are too narrow": gaps[50] < 0,
        "50 % intervals are too wide": gaps[50] > 0,
        "90 % intervals are too narrow": gaps[90] < 0,
        "90 % intervals are too wide": gaps[90] > 0,
        "shifted, too low": below < 0,
        "shifted, too high": below > 0,
        "wrong shape": MODELS[model][1] == "shape",
    }


@pytest.mark.parametrize("model", MODELS)
def test_the_sentence_names_the_fault_that_was_built_in(model: str) -> None:
    draw, name, enough = MODELS[model]
    said: Counter[str] = Counter()
    for n in SIZES:
        runs = 2 if n > 1000 else 12
        for run in range(runs):
            card = _card(draw(np.random.default_rng([run, n]), n))
            words, sure = card.verdict(), diagnose(card).sure
            _check_against_numbers(card, words)
            for claim, true in _truth(model).items():
                said["true" if true else "surely false" if sure else "false"] += (
                    claim in words
                )
            if n >= enough:
                assert name in words, (n, words)
                assert sure
    assert said["surely false"] == 0
    # Signs of another fault are chance, as those of perfect models.
    assert said["false"] <= 0.03 * (said["true"] + said["false"]) + 1


@pytest.mark.parametrize("n", [30, 144, 1000, 100_000])
def test_perfect_models_are_left_alone_at_the_stated_rate(n: int) -> None:
    runs = 20 if n > 1000 else 250
    signs = faults = 0
    for run in range(runs):
        card = _card(np.random.default_rng([run, n]).random(n))
        words, found = card.verdict(), diagnose(card)
        _check_against_numbers(card, words)
        assert found.everywhere == any(name in words for name in NAMES)
        signs += found.everywhere
        faults += found.everywhere and found.sure
    # Three standard deviations of what is counted beyond the stated 10 % and 2 %.
    assert signs <= runs * 0.1 + 3 * (runs * 0.09) ** 0.5
    assert faults <= runs * 0.02 + 3 * (runs * 0.0196) ** 0.5
    if n == 100_000:
        assert signs == 0


def _check_against_numbers(card: Scorecard, words: str) -> None:
    """No word may contradict the numbers of the same rows."""
    if CALM[0] in words:
        measure = card.measure("coverage_90")
        assert measure.low is not None
        assert measure.high is not None
        assert measure.low <= measure.value <= measure.high, words
    for at, least in ((50, 0.03), (90, 0.02)):
        gap = card[f"coverage_{at}"] - at / 100
        if "biased" not in words and "wrong shape" not in words:
            assert f"{at} % intervals are too wide" not in words or gap > least
            assert f"{at} % intervals are too narr" not in words or gap < -least
    if "they are safe" in words or "Do not rely" in words:
        assert abs(card["coverage_90"] - 0.9) > 0.02


@pytest.mark.parametrize("n", [10_000, 100_000])
def test_a_fault_that_changes_no_decision_is_not_shouted(n: int) -> None:
    """A spread that is 3 % too small: the 90 % intervals cover 88.9 %."""
    for run in range(3):
        rng = np.random.default_rng([run, n])
        card = _card(_gaussian(rng.normal(size=n) / 0.97))
        assert diagnose(card).seen
        assert diagnose(card).status == "trusted"
        assert CALM[1] in card.verdict()


def test_a_group_whose_90_percent_intervals_are_right_may_be_used() -> None:
    """Of 40,000 rows half have wide 50 % intervals, and 90 % in the 90 % ones."""
    rng = np.random.default_rng(0)
    side = np.arange(40_000) % 2
    pit = rng.random(40_000)
    near = (side == 1) & (abs(pit - 0.5) < 0.4) & (rng.random(40_000) < 0.18)
    pit[near] = 0.5 + (pit[near] - 0.5) / 2
    group = evaluate((np.zeros(40_000), np.ones(40_000)), norm.ppf(pit), groups=side)
    assert group.worst is not None
    assert group.worst.group.coverage_90 == pytest.approx(0.9, abs=0.005)
    (found,) = [
        each
        for each in advice(group, kind="fit")
        if each.title == "Be careful with one group"
    ]
    assert "the 50 % intervals covered 5" in found.text
    assert "do not rely" not in found.text


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
    off = diagnose(_with(card, "coverage_90", value=384 / N))
    assert (off.status, off.off, off.sure) == ("wide", (90,), False)
    # Twice the probability of at least 384 of 412, on both sides.
    assert off.chance == pytest.approx(4 * binom.sf(383, N, 0.9))


def test_a_group_counts_only_if_chance_does_not_explain_it_and_it_matters() -> None:
    card = with_group().card
    found = diagnose(card)
    assert found.status == "uneven"
    assert found.group is not None
    assert (found.group.key, found.group.group.label) == ("kind", "villa")
    assert found.sure
    assert card.worst is not None
    # A coverage of 51.5 % is found whatever the calibration error says.
    assert group_chance(replace(card.worst, p_value=1.0)) < 1e-6
    group = card.worst.group
    usual = replace(group, coverage_90=30 / 33)
    chance = replace(card, worst=replace(card.worst, group=usual, p_value=0.6 * SURE))
    assert diagnose(chance).status == "trusted"
    small = replace(
        group,
        calibration_error=group.floor,
        coverage_90=0.89,
        coverage_50=0.5,
        below_median=0.5,
    )
    slight = replace(card, worst=replace(card.worst, group=small, p_value=0.001))
    assert diagnose(slight).group is None
    assert diagnose(replace(card, worst=None)).group is None


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


def test_intervals_that_are_far_too_narrow_are_not_called_a_shape() -> None:
    z = np.random.default_rng(3).standard_normal(2000)
    skewed = z - 0.2 * (z**2 - 1) - 0.05
    card = evaluate((np.zeros(2000), np.full(2000, 0.6)), skewed)
    assert card["coverage_90"] < 0.75
    assert "are too narrow" in card.verdict()
    assert "Do not rely on them" in card.verdict()
