"""What to do: each rule gives its advice, and no other."""

from dataclasses import replace

import pytest

from calibrant.metrics.pit import TargetGrid
from calibrant.metrics.scorecard import Scorecard
from calibrant.metrics.verdict import fault_words
from calibrant.report.words import Advice, advice
from own_contents import N, card_of, gridded, of_law, with_group

RECALIBRATE = "calibrant recalibrate model/ recent.csv --out model2/"


def _titles(given: tuple[Advice, ...]) -> list[str]:
    return [each.title for each in given]


def _without(card: Scorecard, name: str) -> Scorecard:
    """The card with one measure that the law could not give."""
    nan = float("nan")
    measures = [
        replace(each, value=nan) if each.name == name else each
        for each in card.measures
    ]
    return replace(card, measures=tuple(measures))


@pytest.mark.parametrize(
    ("law", "titles"),
    [
        ("good", ["Use the intervals as they are", "Keep monitoring"]),
        ("narrow", ["Recalibrate to widen the intervals", "Or train for calibration"]),
        ("wide", ["Recalibrate to tighten the intervals"]),
        ("shifted", ["Find out what changed", "Recalibrate until then"]),
    ],
)
def test_each_status_has_its_advice(law: str, titles: list[str]) -> None:
    assert _titles(advice(of_law(law).card, kind="fit")) == titles


def test_commands_are_those_of_the_kind() -> None:
    card = of_law("narrow").card
    (one,) = advice(card, kind="evaluate")
    assert one.command == RECALIBRATE
    assert "at least 147 labeled, unseen rows" in one.text
    (fix,) = advice(card, kind="compare")
    assert fix.command.endswith("--std sigma --fix fixed.csv")
    (again,) = advice(card, kind="recalibrate")
    assert again.title == "Recalibrate on other rows to widen the intervals"
    assert "too few, or unlike these" in again.text


def test_watching_names_the_check_of_the_command_line() -> None:
    good = of_law("good").card
    watch = advice(good, kind="evaluate")[-1]
    assert watch.command == (
        "calibrant evaluate model/ labeled.csv --require-coverage 0.9 --tolerance 0.03"
    )
    assert "412 rows determine the 90 % coverage within 2.9 points" in watch.text
    assert "at least 393 rows" in watch.text
    assert advice(good, kind="compare")[-1].command.startswith("calibrant compare")


def test_few_rows_are_told_how_many_are_needed() -> None:
    card = card_of((0.1, 0.3, 0.5, 0.7, 0.9))
    (one,) = advice(card, kind="fit")
    assert one.title == "Evaluate on more rows"
    assert (
        "147 rows determine that within 5 points, 393 within 3, and 892 within 2"
        in one.text
    )
    assert "60.0 to 100.0 %" in one.text
    assert one.command == "calibrant evaluate model/ labeled.csv"
    assert advice(card, kind="compare")[0].command.startswith("calibrant compare")


def test_a_shift_says_its_side_and_size() -> None:
    card = of_law("shifted").card
    assert "too low, by " in advice(card, kind="fit")[0].text
    assert "too low. Most often" in advice(_without(card, "bias"), kind="fit")[0].text
    low = tuple((i + 0.5) / (2 * N) for i in range(N))
    assert "too high" in advice(card_of(low), kind="fit")[0].text


def test_another_shape_is_mended_by_recalibration() -> None:
    humps = tuple(0.1 + i / (5 * N) for i in range(N // 2))
    card = card_of((*humps, *(1 - each for each in humps)))
    (one,) = advice(card, kind="fit")
    assert one.title == "Recalibrate to change the shape"


def test_a_group_is_named_unless_all_rows_have_a_fault() -> None:
    card = with_group().card
    group, _ = advice(card, kind="fit")
    assert group.title == "Be careful with one group"
    assert "Where “kind” is villa, the 90 % intervals covered 51.5 %" in group.text
    assert card.worst is not None
    spread = replace(card, worst=replace(card.worst, key="predicted spread"))
    assert advice(spread, kind="fit")[0].title.startswith("Do not trust the diff")
    narrow = of_law("narrow").card
    assert narrow.worst is not None
    assert narrow.worst.p_value < 0.05
    assert "Be careful with one group" not in _titles(advice(narrow, kind="fit"))


@pytest.mark.parametrize(
    ("below", "words"),
    [
        (0.8, "80.0 % of the targets of 40 rows there lie below the predicted median"),
        (0.25, "75.0 % of the targets of 40 rows there lie above the predicted median"),
        (0.5, "the calibration error of 40 rows there is 3.0 times its expected"),
    ],
)
def test_a_fault_of_a_group_is_named_by_what_is_off(below: float, words: str) -> None:
    worst = with_group().card.worst
    assert worst is not None
    group = replace(
        worst.group,
        rows=40,
        coverage_90=0.9,
        coverage_50=0.5,
        below_median=below,
        calibration_error=0.3,
        floor=0.1,
    )
    assert fault_words(group).startswith(words)


def test_rounded_and_capped_targets_are_told_apart() -> None:
    card = gridded().card
    titles = _titles(advice(card, kind="fit"))
    assert titles[1:] == ["Note that the target is not continuous", "Keep monitoring"]
    text = advice(card, kind="fit")[1].text
    assert "rounded to steps of 1" in text
    assert "beyond" not in text
    for cap in (TargetGrid(upper_cap=10.0), TargetGrid(lower_cap=0.0)):
        capped = replace(card, grid=cap)
        assert "beyond it cannot be judged" in advice(capped, kind="fit")[1].text


def test_what_is_seen_but_does_not_matter_is_said() -> None:
    card = of_law("good").card
    measures = tuple(
        replace(each, p_value=0.01) if each.name == "calibration_error" else each
        for each in card.measures
    )
    first = advice(replace(card, measures=measures), kind="fit")[0]
    assert "too small to change a decision" in first.text


def test_a_fault_that_may_be_chance_is_measured_again_first() -> None:
    pit = [(i + 0.5) / N for i in range(N)]
    pit[30:38], pit[-38:-30] = [0.04] * 8, [0.96] * 8
    first, then, _ = advice(card_of(tuple(pit)), kind="fit")
    assert first.title == "Evaluate on more rows first"
    assert first.text.startswith("Up to 2.1 % of perfectly calibrated models look")
    assert then.command == RECALIBRATE


def test_a_recalibration_is_judged_by_what_was_before() -> None:
    good, narrow = of_law("good").card, of_law("narrow").card
    first = advice(good, kind="recalibrate", before=narrow)[0]
    assert first.title == "Use the recalibrated model"
    assert "from 19.3 to 0.3 times" in first.text
    assert "from 64.6 % to 89.3 %" in first.text
    worse = advice(narrow, kind="recalibrate", before=of_law("wide").card)[0]
    assert worse.title in {"Use the recalibrated model", "Keep what you had"}
    same = advice(narrow, kind="recalibrate", before=narrow)[0]
    assert same.title == "Keep what you had"
    assert "did not help" in same.text
    needless = advice(narrow, kind="recalibrate", before=good)[0]
    assert needless.title == "Keep what you had"
    assert "no fault before" in needless.text
