"""The page in a real browser: charts, controls, keyboard, phone, light and dark."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from browser_tab import Open, Tab
from calibrant.paper.claims import verdicts
from calibrant.paper.ledger import LEVELS, Cell, Record
from calibrant.paper.page import write_page
from calibrant.paper.tables import Column, Entry, Grid
from page_records import measured

SWEEP = (0.0, 1.0, 5.0, 20.0, 50.0)


def _record(cell: Cell) -> Record:
    rows = 40
    lift = 8 / (1 + cell.strength / 10) * (-1) ** cell.fold
    lift *= 1.5 if cell.recalibration == "isotonic" else 1
    steps = [rows * level / LEVELS for level in range(1, LEVELS + 1)]
    curve = tuple(max(0, min(rows, round(step + lift))) for step in steps[:-1])
    return measured(
        cell,
        calibration_error=60 / (1 + cell.strength / 10) + cell.fold,
        rmse=8 + 0.01 * cell.strength,
        nll=float("inf") if cell.recalibration == "isotonic" else 3.5,
        curve=(*curve, rows),
    )


def _records() -> list[Record]:
    models = [
        (data, "mc_dropout", strength, "none")
        for data in ("concrete", "yacht")
        for strength in SWEEP
    ]
    models += [("concrete", "mc_dropout", s, "isotonic") for s in (0.0, 20.0)]
    models += [("fish", "deep_ensemble", s, "none") for s in (0.0, 20.0)]
    five = [
        Cell(
            data=data,
            network=network,
            regularizer="cumulative_kl" if strength else "none",
            strength=strength,
            recalibration=recalibration,
            fold=fold,
        )
        for data, network, strength, recalibration in models
        for fold in range(5)
    ]
    two = [replace(c, folds=2) for c in five if c.data == "yacht" and c.fold < 2]
    return [_record(cell) for cell in [*five, *two]]


def _grid() -> Grid:
    """A table that is wider than a phone."""
    columns = [
        Column(f"column {each}", f"group {each // 3}", True) for each in range(9)
    ]
    values = {"yacht": 5.4, "fish": 1.8, "concrete": 10.25}
    rows = [
        (Entry(name), *(Entry(f"{value} ± 0.1", value, "5 repeats") for _ in columns))
        for name, value in values.items()
    ]
    rows.append((Entry("year"), *(Entry("not run") for _ in columns)))
    return Grid(
        name="table-1",
        title="Table 1",
        caption="Ours.",
        columns=(Column("set"), *columns),
        rows=tuple(rows),
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = _records()
    return write_page(
        tmp_path_factory.mktemp("report") / "report.html",
        records=records,
        grids=[_grid()],
        verdicts=verdicts(records),
        about={"Plan": "one\ntwo"},
    )


@pytest.fixture(scope="module")
def opened(open_file: Open, report: Path) -> Open:
    return partial(open_file, report, "#curve-chart .scatterlayer .js-line")


@pytest.fixture(scope="module")
def tab(opened: Open) -> Tab:
    """One page for the tests that leave its charts as they are."""
    return opened()


def test_all_charts_are_drawn_without_network_or_complaints(tab: Tab) -> None:
    charts = [chart.get_attribute("id") for chart in tab.page.locator(".chart").all()]
    assert len(charts) == 7
    tab.is_sound()


def test_selects_change_the_curve_and_narrow_each_other(opened: Open) -> None:
    tab = opened()
    assert tab.page.locator("#curve-data").input_value() == "concrete"
    before = tab.lines("curve-chart")
    tab.choose("curve-view", "gap")
    assert tab.lines("curve-chart") != before
    tab.choose("curve-data", "fish")
    assert tab.page.locator("#curve-network").input_value() == "deep_ensemble"
    assert "Fish, Deep ensemble" in tab.label("curve-chart")
    assert tab.complaints == []


def test_both_numbers_of_folds_can_be_reached(opened: Open) -> None:
    tab = opened()
    tab.choose("curve-data", "yacht")
    texts = tab.page.locator("#curve-protocol option").all_inner_texts()
    assert texts == ["file order, 100 epochs", "file order, 2 folds, 100 epochs"]
    rows = tab.page.locator("#curve-all-rows")
    assert rows.inner_text() == "on all 200 rows"
    tab.choose("curve-protocol", texts[1])
    assert rows.inner_text() == "on all 80 rows"
    # The longest text is not cut: it is narrower than what the select has for it.
    room, needed = tab.page.locator("#curve-protocol").evaluate(
        """(node) => {
          const look = getComputedStyle(node);
          const brush = document.createElement("canvas").getContext("2d");
          brush.font = look.font;
          const arrow = 20;
          const space = node.clientWidth - arrow
            - parseFloat(look.paddingLeft) - parseFloat(look.paddingRight);
          return [space, brush.measureText(node.selectedOptions[0].text).width];
        }"""
    )
    assert needed <= room
    assert tab.complaints == []


def test_strengths_folds_and_recalibrated_models_can_be_added(opened: Open) -> None:
    tab = opened()
    cards = tab.page.locator("#curve-cards .card b")
    assert cards.all_inner_texts() == ["Base", "QR, λ = 20"]
    start = len(tab.lines("curve-chart"))
    tab.page.get_by_label("QR, λ = 5", exact=True).check()
    assert len(tab.lines("curve-chart")) == start + 1
    tab.page.locator("#curve-recalibrated").check()
    assert "Base + isotonic on train" in cards.all_inner_texts()
    assert "NLL ∞" in tab.page.locator("#curve-cards").inner_text()
    models = len(tab.lines("curve-chart")) - start + 2
    tab.page.locator("#curve-folds").check()
    assert len(tab.lines("curve-chart")) == start - 2 + 6 * models
    tab.page.locator("#curve-recalibrated").uncheck()
    assert cards.all_inner_texts() == ["Base", "QR, λ = 5", "QR, λ = 20"]


def test_numbers_of_a_chart_stand_in_a_table(tab: Tab) -> None:
    tab.page.locator("#curves .numbers summary").click()
    heads = tab.page.locator("#curve-table th[scope=col]").all_inner_texts()
    assert heads == ["Promised", "Base", "QR, λ = 20", "Perfect, one fold of 40"]
    assert tab.page.locator("#curve-table tbody tr").count() == LEVELS
    tab.page.locator("#sweep .numbers summary").click()
    rows = tab.page.locator("#sweep-table tbody th").all_inner_texts()
    assert rows == ["0", "1", "5", "20", "50"]


def test_hovering_tells_numbers(tab: Tab) -> None:
    text = tab.hover("curve-chart", ".nsewdrag >> nth=0", ".legendtext")
    assert "Base : 0." in text


def test_the_slider_moves_by_keyboard_and_updates_the_numbers(opened: Open) -> None:
    tab = opened()
    slider, value = (
        tab.page.locator("#sweep-strength"),
        tab.page.locator("#sweep-value"),
    )
    assert value.inner_text() == "= 20"
    ring = tab.page.locator("#sweep-error .trace").nth(1).locator("path.point")
    before = ring.get_attribute("transform")
    curve = tab.lines("sweep-curve")
    slider.focus()
    tab.page.keyboard.press("ArrowRight")
    assert value.inner_text() == "= 50"
    assert slider.get_attribute("aria-valuetext") == "λ = 50"
    numbers = tab.page.locator("#sweep-numbers").inner_text()
    assert "12.00 ± 1.41" in numbers
    assert "against λ = 0" in numbers
    assert ring.get_attribute("transform") != before
    assert tab.lines("sweep-curve") != curve
    tab.page.keyboard.press("Home")
    assert value.inner_text() == "= 0"
    tab.choose("sweep-data", "yacht")
    assert value.inner_text() == "= 20"
    options = tab.page.locator("#sweep-data option").all_inner_texts()
    assert options == ["Concrete", "Yacht"]
    assert tab.complaints == []


def test_buttons_sort_tables(tab: Tab) -> None:
    table = tab.page.locator("table.sortable")
    head, names = (
        table.locator("thead tr").last.locator("th"),
        table.locator("tbody th"),
    )
    button = head.nth(1).locator("button")
    button.focus()
    tab.page.keyboard.press("Enter")
    assert names.all_inner_texts() == ["fish", "yacht", "concrete", "year"]
    assert head.nth(1).get_attribute("aria-sort") == "ascending"
    tab.page.keyboard.press("Space")
    assert names.all_inner_texts() == ["concrete", "yacht", "fish", "year"]
    assert head.nth(1).get_attribute("aria-sort") == "descending"
    head.nth(0).locator("button").click()
    assert names.all_inner_texts() == ["concrete", "fish", "yacht", "year"]
    assert head.nth(1).get_attribute("aria-sort") == "none"
    table.locator("tbody td").first.click()
    detail = tab.page.locator(".entry-detail")
    assert detail.inner_text() == "concrete, column 0: 5 repeats"


def test_dark_follows_the_system_and_the_button(opened: Open) -> None:
    light, dark = opened(), opened(dark=True)
    assert light.background() != dark.background()
    button = light.page.locator("#theme")
    line = light.page.locator("#curve-chart .scatterlayer .js-line").last
    color = line.evaluate("node => node.style.stroke")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert light.background() == dark.background()
    assert line.evaluate("node => node.style.stroke") != color
    dark.page.locator("#theme").click()
    assert dark.background() != light.background()
    assert light.complaints + dark.complaints == []


def test_a_phone_scrolls_tables_but_not_the_page(opened: Open) -> None:
    tab = opened(width=390)
    widths = tab.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert widths[0] <= widths[1] == 390
    region = tab.page.locator("#tables .scroll")
    assert region.evaluate("node => node.scrollWidth > node.clientWidth")
    # Names of groups are whole, at the start and in the middle of the second group.
    groups = tab.page.locator("#tables .groups th span")
    for place, group in ((0, groups.nth(0)), (400, groups.nth(1))):
        region.evaluate("(node, left) => { node.scrollLeft = left; }", place)
        name, outer = group.bounding_box(), region.bounding_box()
        first = tab.page.locator("#tables tbody th").first.bounding_box()
        assert name is not None
        assert outer is not None
        assert first is not None
        assert name["x"] >= first["x"] + first["width"]
        assert name["x"] + name["width"] <= outer["x"] + outer["width"]
    assert tab.complaints == []


def test_tab_reaches_every_control_and_shows_where_it_is(opened: Open) -> None:
    tab = opened()
    seen = tab.reached_by_tab("theme")
    script = "getComputedStyle(document.activeElement).outlineStyle"
    assert tab.page.evaluate(script) == "solid"
    seen |= tab.reached_by_tab("sweep-strength")
    wanted = {"skip", "theme", "scroll", "sweep-data", "sweep-strength"}
    assert seen >= wanted | {"curve-data", "curve-view", "curve-folds"}
