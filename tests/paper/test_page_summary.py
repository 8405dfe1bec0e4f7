"""The page's summary in words and tiles."""

from dataclasses import replace

from calibrant.paper.claims import verdicts
from calibrant.paper.page import chart_data, effects, plain_words, tiles
from calibrant.paper.results import by_arm, settings
from page_records import at, five, pair


def test_words_count_what_improved_and_name_what_did_not() -> None:
    records = pair("fish", 10.0, 5.0, rmse=1.1) + pair("yacht", 20.0, 10.0)
    words = plain_words(effects(settings(by_arm(records + pair("kin8nm", 4.0, 5.0)))))
    assert words[0] == (
        "On folds in file order, as in the paper (but 2 folds), quantile "
        "regularization (λ = 20) with MC dropout lowered the mean calibration error "
        "on 2 of 3 data sets and raised it on 1 (median change "
        "\N{MINUS SIGN}50.0 %)."
    )
    assert "rose on Kin8nm with MC dropout (4 to 5)" in words[1]
    assert "by +0.0 % at the median and by +10.0 % at worst (Fish with MC" in words[2]
    assert "more than twice that floor in 0 of 3 comparisons" in words[3]
    everywhere = plain_words(effects(settings(by_arm(records))))
    assert everywhere[1] == "On no set was the mean error higher with it."


def test_words_compare_in_the_setting_nearest_to_the_paper() -> None:
    records = pair("fish", 10.0, 5.0)
    others = [
        replace(r, cell=replace(r.cell, split="shuffled"), calibration_error=99.0)
        for r in records
    ] + [
        replace(r, cell=replace(r.cell, epochs=64), calibration_error=99.0)
        for r in records
    ]
    (effect,) = effects(settings(by_arm(others + records)))
    assert effect.means("calibration_error") == (10.0, 5.0)


def test_tiles_take_the_median_and_count_verdicts() -> None:
    found = effects(settings(by_arm(pair("a", 10.0, 5.0) + pair("b", 4.0, 8.0))))
    values = [tile.value for tile in tiles(found, ["holds", "not run", "holds"])]
    assert values == ["1 of 2", "+25.0 %", "+0.0 %", "2 of 2"]
    assert tiles([], []) == []


def test_shuffled_folds_are_named_and_not_mixed_with_the_papers() -> None:
    paper = pair("fish", 10.0, 5.0)
    other = at(pair("yacht", 10.0, 20.0), split="shuffled")
    (effect,) = effects(settings(by_arm(paper + other)))
    assert effect.setting.key.data == "fish"
    assert [
        row["data"]
        for row in chart_data(settings(by_arm(paper + other)))["effects"][0]["rows"]
    ] == ["Fish"]
    found = effects(settings(by_arm(other)))
    assert plain_words(found)[0].startswith(
        "On shuffled folds, which the paper does not use (but 2 folds), quantile"
    )
    assert "on shuffled folds" in tiles(found, [])[0].text


def test_the_lead_carries_the_verdict() -> None:
    few = five(pair("fish", 10.0, 5.0))
    words = plain_words(effects(settings(by_arm(few))), verdicts(few))[0]
    assert words.endswith(
        "change \N{MINUS SIGN}50.0 %): by the paired tests this is within noise."
    )
    names = ("fish", "yacht", "boston", "concrete", "airfoil", "kin8nm")
    many = [r for name in names for r in five(pair(name, 10.0, 5.0))]
    words = plain_words(effects(settings(by_arm(many))), verdicts(many))[0]
    assert words.endswith("the claim that it lowers it holds.")
    raised = [r for name in names for r in five(pair(name, 5.0, 10.0))]
    words = plain_words(effects(settings(by_arm(raised))), verdicts(raised))[0]
    assert words.endswith("the claim that it lowers it does not hold.")
    own = five(pair("own.csv", 10.0, 5.0))
    assert "paired" not in plain_words(effects(settings(by_arm(own))), verdicts(own))[0]
