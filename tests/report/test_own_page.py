"""The page on own data without a browser: whole, escaped, the same each time."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import InputError
from calibrant.distributions.empirical import Empirical
from calibrant.metrics.scorecard import evaluate
from calibrant.report.contents import ColumnLine, OwnReport
from calibrant.report.own_page import write_own_page
from calibrant.report.words import headline, measure_sections, status_view, tiles
from own_contents import (
    HOSTILE,
    N,
    card_of,
    gridded,
    hostile,
    of_law,
    predictions,
    recalibrated,
    report,
    with_group,
)
from sound_html import SoundPage

DASH, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
HUMPS = (*np.linspace(0.1, 0.2, N // 2), *np.linspace(0.8, 0.9, N // 2))
SECTIONS = [
    "verdict",
    "curve",
    "histogram",
    "intervals",
    "groups",
    "advice",
    "numbers",
    "made",
]


def _write(folder: Path, contents: OwnReport) -> str:
    page = write_own_page(folder / "new" / "report.html", contents)
    return page.read_text(encoding="utf-8")


def _data(text: str) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', text)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def _body(text: str) -> str:
    """The page without style, data and scripts."""
    return text.split("</style>")[1].split('<script type="application/json"')[0]


def _words(text: str) -> str:
    """What a reader reads, without tags."""
    plain = re.sub(r"<[^>]*>", "", _body(text)).replace("\N{NO-BREAK SPACE}", " ")
    return " ".join(plain.replace("&nbsp;", " ").split())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    contents = replace(
        recalibrated(),
        notes=("2 cells could not be read.",),
        training={"loss": [3.0, 2.0, 1.0]},
    )
    return _write(tmp_path_factory.mktemp("own"), contents)


def test_nothing_is_fetched_and_nothing_runs_from_attributes(whole: str) -> None:
    page = SoundPage(whole)
    loads = [
        value or ""
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in {"src", "href", "srcset", "data", "action", "poster"}
    ]
    assert loads
    assert all(value.startswith(("#", "data:")) for value in loads)
    assert not [n for _, a in page.elements for n in a if n.startswith("on")]
    (policy,) = [v for v in page.values("content") if "default-src" in v]
    assert policy.startswith("default-src 'none'")
    style = whole.split("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style


def test_the_page_is_sound_html_in_the_order_of_its_bar(whole: str) -> None:
    page = SoundPage(whole)
    names = page.values("id")
    assert len(names) == len(set(names))
    assert set(page.values("aria-labelledby")) <= set(names)
    assert {value[1:] for value in page.values("href") if value[0] == "#"} <= set(names)
    assert [a["id"] for tag, a in page.elements if tag == "section"] == SECTIONS
    heads = [tag for tag, _ in page.elements if tag in {"h1", "h2"}]
    assert heads == ["h1", *["h2"] * 7]
    assert whole.startswith("<!DOCTYPE html>")
    assert "Skip to the verdict" in whole


def test_before_and_after_stand_side_by_side(whole: str) -> None:
    words = _words(whole)
    assert "The recalibrated 90 % intervals covered 89.3 % of 412 unseen rows" in words
    assert "Before recalibration they covered 64.6 %." in words
    assert "87.1 to 92.7 %; before: 64.6 %" in words
    assert (
        "the calibration error expected under perfect calibration; before: 19.3 "
        f"{TIMES}" in words
    )
    assert _data(whole)["curve"]["before"] is not None


def test_notes_columns_training_and_settings_are_told(whole: str) -> None:
    page = SoundPage(whole)
    assert "2 cells could not be read." in page.text("li")
    assert "one feature for each of 3 names" in page.text("td")
    assert "training-chart" in page.values("id")
    command = "calibrant fit houses.csv --target price --seed 0"
    assert command in page.text("code")
    assert command not in page.text("dd")
    assert "calibrant 0.1, torch 2" in page.text("dd")
    assert "epochs: 100\nnetwork: mlp" in page.text("pre")


def test_the_same_contents_give_the_same_bytes(tmp_path: Path) -> None:
    one = _write(tmp_path / "a", of_law("good"))
    of_law.cache_clear()
    assert _write(tmp_path / "b", of_law("good")) == one


@pytest.mark.parametrize(
    ("law", "kind", "sentence", "badge"),
    [
        (
            "good",
            "fit",
            "Your 90 % intervals covered 89.3 % of 412 unseen rows",
            "trusted",
        ),
        (
            "narrow",
            "evaluate",
            "Your 90 % intervals covered 64.6 % of 412 la",
            "narrow",
        ),
        ("wide", "compare", "The 90 % intervals covered 99.8 % of 412 rows;", "wide"),
        (
            "shifted",
            "fit",
            "a perfectly calibrated model would cover 87.1 to 92.7 %.",
            "shifted",
        ),
    ],
)
def test_the_verdict_is_a_sentence_and_a_status(
    law: str, kind: Any, sentence: str, badge: str
) -> None:
    contents = replace(of_law(law), kind=kind)
    assert sentence in headline(contents)
    assert status_view(contents)["key"] == badge


def test_the_status_says_what_it_means() -> None:
    assert (
        "(perfectly calibrated: 78.8 to 100.0 %)" in status_view(with_group())["words"]
    )
    shifted = status_view(of_law("shifted"))["words"]
    assert "of the targets lie above the predicted median" in shifted
    assert "rounded to steps of 1" in status_view(gridded())["words"]
    low = card_of(tuple((i + 0.5) / (2 * N) for i in range(N)))
    below = status_view(replace(of_law("good"), card=low))["words"]
    assert "100.0 % of the targets lie below" in below
    tails = (*(0.001,) * 50, *np.linspace(0.3, 0.7, N - 100), *(0.999,) * 50)
    heavy = replace(of_law("good"), card=card_of(tuple(map(float, tails))))
    assert "wrong shape: the 50 % intervals covered 75." in status_view(heavy)["words"]
    humps = card_of(tuple(map(float, HUMPS)))
    other = status_view(replace(of_law("good"), card=humps))["words"]
    assert "the 90 % intervals covered 100.0 % (perfectly calibrated: 87.1" in other


def test_what_may_be_chance_is_said_carefully() -> None:
    pit = [(i + 0.5) / N for i in range(N)]
    pit[:8], pit[-8:] = [0.06] * 8, [0.94] * 8
    view = status_view(replace(of_law("good"), card=card_of(tuple(pit))))
    assert view["words"].startswith("Perhaps the 90 % intervals are too wide")
    assert "up to 2.2 % of perfectly calibrated models look as bad" in view["words"]
    assert view["title"] == "Perhaps too wide"
    assert view["look"] == "noise"


def test_many_rows_may_show_what_does_not_matter() -> None:
    contents = of_law("good")
    seen = tuple(replace(each, p_value=0.001) for each in contents.card.measures)
    view = status_view(replace(contents, card=replace(contents.card, measures=seen)))
    assert view["key"] == "trusted"
    assert "too small to change a decision" in view["words"]


def test_tiles_mark_what_chance_does_not_explain() -> None:
    good, narrow = tiles(of_law("good")), tiles(of_law("narrow"))
    assert len(good) == 8
    assert [tile["off"] for tile in good] == [False] * 8
    assert [tile["off"] for tile in narrow] == [True] * 4 + [False] * 3 + [True]
    gauge = good[2]["gauge"]
    # 412 rows: 87.1 to 92.7 %; the wider half is 2.9 points, 2.5 of which fit.
    assert gauge["start"] == pytest.approx(50 - 50 / 2.5)
    assert gauge["start"] < gauge["spot"] < gauge["start"] + gauge["width"]
    assert narrow[2]["gauge"]["spot"] == pytest.approx(50 - 50 / 1.15, abs=0.01)
    assert good[4]["value"] == "79.82"


def test_a_width_without_numbers_is_a_dash() -> None:
    contents = of_law("good", 4)
    nothing = np.full(4, np.nan)
    rows = replace(contents.predictions, low_90=nothing)
    assert tiles(replace(contents, predictions=rows))[4]["value"] == DASH


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    text = _write(tmp_path, hostile())
    page = SoundPage(text)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"img", "object", "iframe"}
    links = [a["href"] or "" for tag, a in page.elements if tag == "a"]
    assert all(link.startswith("#") for link in links)
    assert [
        a for tag, a in page.elements if tag in {"i", "b"} and "class" not in a
    ] == []
    assert not [n for _, a in page.elements for n in a if n.startswith("on")]
    shown = HOSTILE.replace("\u202e", "�").replace("\x00", "�")
    for tag in ("dd", "th", "td", "li", "pre", "code", "span"):
        assert any(shown in each for each in page.texts[tag]), tag
    assert "\u202e" not in text
    assert "� half a pair" in text
    data = _data(text)
    assert data["target"]["name"].startswith("<i>price</i> ccc")
    assert "<" not in json.dumps(text.split('id="data">')[1].split("</script>")[0])
    assert len(data["columns"]) == 4
    assert max(len(column["name"]) for column in data["columns"]) == 240
    assert max(len(column["short"]) for column in data["columns"]) <= 21


def test_of_very_many_columns_the_worst_are_shown(tmp_path: Path) -> None:
    contents = of_law("good")
    groups = contents.card.groups["kind"]
    many = {f"column {i}": groups for i in range(200)}
    card = replace(contents.card, groups={**many, "lonely": groups[:1]})
    line = ColumnLine(name="a", kind="numbers", used=True, done="scaled")
    text = _write(tmp_path, replace(contents, card=card, columns=(line,) * 16))
    words = _words(text)
    assert "The chart has the 30 columns of 200 that stand out most." in words
    assert "292 more of 600 groups" in words
    assert "All 16 columns" in words
    assert "lonely" not in words
    assert len(_data(text)["columns"]) == 30
    assert len(_data(text)["rows"]["row"]) == 400
    assert len(text.split('id="data">')[1].split("</script>")[0]) < 60_000


def test_without_groups_the_page_says_so(tmp_path: Path) -> None:
    n = 4
    mean, spread = np.zeros(n), np.ones(n)
    y = np.array([-1.0, 0.0, 0.5, 1.0])
    contents = report(
        evaluate((mean, spread), y),
        predictions(mean, spread, y),
        columns=(),
        settings={"empty": "  "},
    )
    assert contents.card.worst is None
    text = _write(tmp_path, contents)
    assert "No column makes two groups of rows" in text
    assert 'id="group-chart"' not in text
    assert 'id="training-chart"' not in text
    assert "What was done with each column" not in text
    assert "Command that reproduces" not in text
    assert "All 4 rows, in the order" in _words(text)


def test_the_worst_group_knows_of_the_rest(tmp_path: Path) -> None:
    words = _words(_write(tmp_path, with_group()))
    assert "Of 11 groups, the one where “kind” is villa stands out most" in words
    assert "corrected for searching all groups)." in words
    assert "fix that first" not in words
    narrow = _words(_write(tmp_path, of_law("narrow")))
    assert "But all rows together have a fault: fix that first." in narrow
    good = _words(_write(tmp_path, of_law("good")))
    assert "Chance explains it (p = 1)" in good


def test_one_row_is_singular(tmp_path: Path) -> None:
    one = np.array([1.0])
    contents = report(evaluate((one, one), one), predictions(one, one, one))
    words = _words(_write(tmp_path, contents))
    assert "100.0 % of 1 unseen row; a perfectly calibrated model" in words
    assert "on 1 row " in words
    assert "All 1 row, in the order" in words


def test_the_table_of_rows_follows_the_file(tmp_path: Path) -> None:
    text = _write(tmp_path, of_law("narrow")).split("Rows by their number")[-1]
    table = text.split("</table>")[0]
    numbers = [int(cell) for cell in re.findall(r'<th scope="row">(\d+)<', table)]
    assert numbers == sorted(numbers)
    assert len(numbers) == 400
    assert table.count(">yes<") + table.count(">no<") == 400


def test_what_a_law_cannot_give_is_a_dash_with_the_reason(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    law, y = Empirical(draw.standard_normal((20, 40))), draw.standard_normal(40)
    zero, one = np.zeros(40), np.ones(40)
    contents = report(evaluate(law, y), predictions(zero, one, y), kind="compare")
    page = SoundPage(_write(tmp_path, contents))
    assert "log_prob needs a density" in page.text("td")
    (score,) = [
        line
        for part in measure_sections(contents.card)
        for line in part["lines"]
        if line["title"] == "Negative log-likelihood"
    ]
    assert (score["value"], score["perfect"], score["p"]) == (DASH, "", "")


def test_every_measure_is_said_in_words_and_explained() -> None:
    contents = recalibrated()
    sections = measure_sections(contents.card, contents.before)
    lines: list[dict[str, str]] = [line for part in sections for line in part["lines"]]
    assert len(lines) == len(contents.card.measures) + 1
    assert not [line["title"] for line in lines if "_" in line["title"]]
    assert all(line["meaning"] for line in lines)
    held = next(
        line for line in lines if line["title"] == "Coverage of the 90 % intervals"
    )
    assert (held["value"], held["before"]) == ("89.3 %", "64.6 %")
    assert held["perfect"] == "87.1 to 92.7 %"
    assert not held["off"]


@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_missing_package_names_the_extra(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = of_law("good", 4)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.offline", None)
    with pytest.raises(InputError, match=rf"needs {package}.*calibrant\[report\]"):
        write_own_page(tmp_path / "report.html", contents)
    assert not list(tmp_path.iterdir())
