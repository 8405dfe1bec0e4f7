"""The page without a browser: self-contained, escaped, sound HTML, any part missing."""

import errno
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibrant import InputError
from calibrant.paper.claims import verdicts
from calibrant.paper.ledger import Record
from calibrant.paper.page import (
    chart_data,
    count_words,
    effects,
    grid_view,
    how_it_ran,
    number_text,
    plain_words,
    tiles,
    write_page,
)
from calibrant.paper.results import by_arm, data_title, settings
from calibrant.paper.tables import Column, Entry, Grid
from calibrant.report.html import json_text
from page_records import at, five, folds, pair, record
from sound_html import SoundPage

HOSTILE = "</script><b onload=x>&\"'"
COMMAND = "calibrant reproduce --profile paper"


def _grid(*rows: tuple[Entry, ...]) -> Grid:
    return Grid(
        name="table1",
        title="Table 1",
        caption="Ours beside theirs.",
        columns=(Column("set"), Column("base", "error", True), Column("QR", "error")),
        rows=rows,
        notes=("A note.",),
    )


def _write(path: Path, records: Iterable[Record], **more: Any) -> str:
    known = list(records)
    options: dict[str, Any] = {
        "grids": [],
        "verdicts": verdicts(known),
        "about": {},
    } | more
    return write_page(path, records=known, **options).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    sweep = [record(strength=s, fold=f) for s in (1.0, 5.0) for f in range(2)]
    return _write(
        tmp_path_factory.mktemp("page") / "new" / "report.html",
        pair("concrete", 10.0, 5.0) + sweep,
        grids=[_grid((Entry("yacht"), Entry("5.4", 5.4, "1 repeat", True), Entry("")))],
        about={"Command": "calibrant reproduce", "Plan": "one\ntwo"},
    )


def test_nothing_is_fetched_and_nothing_runs_from_attributes(whole: str) -> None:
    page = SoundPage(whole)
    loads = [
        value
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in {"src", "href", "srcset", "data", "action", "poster"}
    ]
    assert loads
    assert all((value or "").startswith(("#", "data:")) for value in loads)
    assert not [n for _, a in page.elements for n in a if n.startswith("on")]
    (policy,) = [v for v in page.values("content") if "default-src" in v]
    assert policy.startswith("default-src 'none'")
    assert "@import" not in whole.split("</style>")[0]
    assert "url(" not in whole.split("</style>")[0]


def test_the_page_is_sound_html(whole: str) -> None:
    page = SoundPage(whole)
    names = page.values("id")
    assert len(names) == len(set(names))
    for attribute in ("for", "aria-labelledby", "list"):
        assert set(page.values(attribute)) <= set(names)
    assert {value[1:] for value in page.values("href") if value[0] == "#"} <= set(names)
    heads = [tag for tag, _ in page.elements if tag in {"h1", "h2"}]
    assert heads == ["h1", *["h2"] * 6]
    assert whole.startswith("<!DOCTYPE html>")
    for kind in ("select", "input"):
        assert all("id" in a for tag, a in page.elements if tag == kind)


def test_sections_follow_the_order_of_the_bar(whole: str) -> None:
    page = SoundPage(whole)
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert sections == [
        "summary",
        "verdicts",
        "tables",
        "curves",
        "sweep",
        "errata",
        "run",
    ]
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links[1:] == [f"#{name}" for name in sections]


def test_tables_carry_values_details_and_emphasis(whole: str) -> None:
    assert '<td class="number edge" data-value="5.4" title="1 repeat"><strong>' in whole
    assert '<th scope="colgroup" colspan="2"><span>error</span></th>' in whole
    assert '<th scope="row">yacht</th>' in whole
    assert "<li>A note.</li>" in whole


def test_data_is_json_with_every_setting(whole: str) -> None:
    text = whole.split('id="data">')[1].split("</script>")[0]
    data = json.loads(text)
    (setting,) = data["settings"]
    labels = [arm["label"] for arm in setting["arms"]]
    assert labels == ["Base", "QR, λ = 1", "QR, λ = 5", "QR, λ = 20"]
    assert (setting["foldRows"], setting["allRows"]) == (40, 80)
    assert set(data["bands"]) == {"40", "80"}
    assert setting["arms"][0]["curve"] == data["levels"]
    assert data["effects"][0]["rows"][0]["base"]["mean"] == 10.0


def test_infinity_is_null_with_a_text() -> None:
    records = [replace(r, nll=float("inf")) for r in folds(record())]
    data = json.loads(json_text(chart_data(settings(by_arm(records)))))
    number = data["settings"][0]["arms"][0]["numbers"]["nll"]
    assert number == {"mean": None, "deviation": None, "text": "∞"}
    assert number_text(-float("inf")) == "\N{MINUS SIGN}∞"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    records = pair(HOSTILE, 10.0, 5.0)
    known = [replace(r, host=HOSTILE, versions=HOSTILE) for r in records]
    text = _write(
        tmp_path / "report.html",
        known,
        grids=[_grid((Entry(HOSTILE), Entry(HOSTILE, 1.0, HOSTILE), Entry(HOSTILE)))],
        verdicts=[replace(v, claim=HOSTILE, ours=HOSTILE) for v in verdicts(known)],
        about={HOSTILE: HOSTILE, "block": f"{HOSTILE}\n{HOSTILE}"},
    )
    page = SoundPage(text)
    assert "onload" not in {name for _, a in page.elements for name in a}
    assert "</script><b" not in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["settings"][0]["data"] == HOSTILE


def test_nothing_at_all_says_what_fills_it(tmp_path: Path) -> None:
    text = _write(tmp_path / "report.html", [], verdicts=[])
    page = SoundPage(text)
    assert text.count(COMMAND) == 6
    assert not [tag for tag, _ in page.elements if tag in {"select", "table"}]
    assert len(text) < 100_000  # the charting library is left out


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in (package, f"{package}.offline"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf'{package}.*pip install "calibrant\[rep'):
        _write(tmp_path / "report.html", folds(record()))


def test_numbers_of_folds_are_told_apart_and_both_are_there() -> None:
    two = pair("concrete", 10.0, 5.0)
    data = chart_data(settings(by_arm(two + five(two))))
    protocols = [each["protocol"] for each in data["settings"]]
    assert protocols == [
        "file order, 100 epochs",
        "file order, 2 folds, 100 epochs",
    ]
    # Five folds are the paper's, so that they are what the summary speaks of.
    ((effect,),) = effects(settings(by_arm(five(two) + two))).values()
    assert effect.setting.key.folds == 5


def test_without_the_papers_splits_our_questions_come_first(tmp_path: Path) -> None:
    records = at(five(pair("fish", 10.0, 5.0)), split="shuffled")
    text = _write(tmp_path / "report.html", records)
    section = text.split('<section id="verdicts"')[1].split("</section>")[0]
    questions = section.index("Questions of our own")
    folded = section.index('<details class="idle">')
    assert questions < folded
    assert section[:folded].count("not run here on its splits") == 1
    assert "verdicts on claims of the paper, " not in text
    judged = _write(tmp_path / "paper.html", five(pair("fish", 10.0, 5.0)))
    assert '<details class="idle">' not in judged


def test_other_data_than_the_papers_get_no_hint_that_does_not_help(
    tmp_path: Path,
) -> None:
    text = _write(tmp_path / "report.html", folds(record("own.csv")))
    assert "at three strengths or more" in text
    assert COMMAND not in text
    assert COMMAND in _write(tmp_path / "fish.html", folds(record("fish")))


def test_the_chart_says_what_its_deviations_are_over(tmp_path: Path) -> None:
    one = pair("concrete", 10.0, 5.0)
    text = _write(tmp_path / "report.html", one)
    assert "<td>2 folds, 1 repeat</td>" in text
    assert "population standard deviation (ddof 0)" in text
    text = _write(tmp_path / "two.html", one + at(one, repeat=1))
    assert "<td>2 repeats</td>" in text


def test_files_of_one_name_have_titles_of_their_own() -> None:
    assert data_title("d/my_nice.csv#y") == "my_nice (y)"
    assert data_title("z.csv.gz") == "z"
    names = ["a/t.csv", "b/t.csv", "t.csv", "x/b/t.csv", "b/t.csv#y", "b/t.csv.gz"]
    titles = [data_title(name, names) for name in names]
    assert len(set(titles)) == len(names)
    assert titles[0] == "a/t"
    assert titles[4] == "t (y)"
    records = pair("a/t.csv", 10.0, 5.0) + pair("b/t.csv", 10.0, 5.0)
    assert [setting.title for setting in settings(by_arm(records))] == ["a/t", "b/t"]
    assert how_it_ran(records)["Data sets"] == "a/t, b/t"


def test_a_full_disk_leaves_the_page_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    before = _write(path, folds(record()))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"report\.html cannot be written: No space"):
        _write(path, folds(record("yacht")))
    assert path.read_text("utf-8") == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_the_first_head_of_a_grouped_table_is_one_column_wide() -> None:
    columns = (Column("a"), Column("b"), Column("c", "group"), Column("d", "group"))
    view = grid_view(Grid(name="g", title="", caption="", columns=columns, rows=()))
    assert view["groups"] == [("", 1), ("", 1), ("group", 2)]
    assert view["classes"] == ["", "edge", "edge", ""]


def test_how_it_ran_adds_up() -> None:
    facts = how_it_ran(pair("fish", 1.0, 1.0) + pair("yacht", 1.0, 1.0))
    assert facts["Cells"].startswith("8 ")
    assert facts["Data sets"] == "Fish, Yacht"
    assert facts["Computing time"] == "12.0 minutes"
    assert facts["Seeds"] == "1 different, 7 to 7"
    hours = [replace(record(), seconds=9000.0)]
    assert how_it_ran(hours)["Computing time"] == "2.5 hours"


def test_counts_of_verdicts_are_a_sentence() -> None:
    every = ["holds", "does not hold", "does not hold", "within noise", "not run"]
    assert count_words(every) == (
        "Of 5 verdicts on claims of the paper, 1 read “holds”, 2 “does not hold”, "
        "1 “within noise”, 1 “not run”."
    )
    assert count_words([]) == ""


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
    ((effect,),) = effects(settings(by_arm(others + records))).values()
    assert effect.means("calibration_error") == (10.0, 5.0)


def test_tiles_take_the_median_and_count_verdicts() -> None:
    found = effects(settings(by_arm(pair("a", 10.0, 5.0) + pair("b", 4.0, 8.0))))
    values = [value for value, _ in tiles(found, ["holds", "not run", "holds"])]
    assert values == ["1 of 2", "+25.0 %", "+0.0 %", "2 of 2"]
    assert tiles({}, []) == []


def test_shuffled_folds_are_named_and_not_mixed_with_the_papers() -> None:
    paper = pair("fish", 10.0, 5.0)
    other = at(pair("yacht", 10.0, 20.0), split="shuffled")
    ((effect,),) = effects(settings(by_arm(paper + other))).values()
    assert effect.setting.key.data == "fish"
    assert [
        row["data"]
        for row in chart_data(settings(by_arm(paper + other)))["effects"][0]["rows"]
    ] == ["Fish"]
    found = effects(settings(by_arm(other)))
    assert plain_words(found)[0].startswith(
        "On shuffled folds, which the paper does not use (but 2 folds), quantile"
    )
    assert "on shuffled folds" in tiles(found, [])[0][1]


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
