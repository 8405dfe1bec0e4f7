"""The page on own data in a real browser: charts, controls, looks, hostile names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser_tab import Open, Tab
from calibrant.report.own_page import write_own_page
from own_contents import N, gridded, hostile, of_law, recalibrated, with_group

CHARTS = ("curve-chart", "histogram-chart", "rows-chart", "group-chart")
CONTENTS = {
    "group": with_group,
    "before": lambda: replace(recalibrated(), training={"loss": [3.0, 2.0, 1.0]}),
    "hostile": hostile,
    "gridded": gridded,
    "two": lambda: of_law("good", 2),
    "endless": lambda: replace(
        of_law("narrow"),
        predictions=replace(of_law("narrow").predictions, high_90=np.full(N, np.inf)),
    ),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("own")
    return {
        name: write_own_page(folder / f"{name}.html", make())
        for name, make in CONTENTS.items()
    }


@pytest.fixture
def opened(open_file: Open, pages: dict[str, Path]) -> Open:
    def opened(name: str, **look: Any) -> Tab:
        return open_file(pages[name], "#rows-chart .scatterlayer .trace", **look)

    return opened


@pytest.mark.parametrize("name", list(CONTENTS))
def test_all_charts_are_drawn_without_network_or_complaints(
    opened: Open, name: str
) -> None:
    tab = opened(name)
    more = ["training-chart"] if name in {"before", "hostile"} else []
    for chart in (*CHARTS, *more):
        assert tab.page.locator(f"#{chart}").count() == 1
    tab.is_sound()


def test_selects_change_the_charts(opened: Open) -> None:
    tab = opened("group")
    columns = tab.texts("#group-column option")
    assert columns[0] == "kind"
    assert set(columns) == {"kind", "size", "predicted spread"}
    assert tab.label("group-chart").startswith("covered by 90 % intervals, by kind: ")
    assert tab.texts("#group-chart .ytick text") == ["flat ", "house ", "villa "]
    tab.page.locator("#group-column").select_option(label="size")
    assert len(tab.texts("#group-chart .ytick text")) == 4
    tab.page.locator("#group-measure").select_option("below")
    assert tab.label("group-chart").startswith("targets below the predicted median, ")
    line = tab.page.locator("#curve-chart .scatterlayer .js-line").last
    before = line.get_attribute("d")
    tab.page.locator("#curve-view").select_option("gap")
    assert line.get_attribute("d") != before
    title = tab.page.locator("#rows-chart .xtitle")
    assert title.text_content() == "rows, by predicted median"
    tab.page.locator("#rows-view").select_option("scatter")
    assert title.text_content() == "predicted median of price"
    assert tab.complaints == []


def test_a_row_tells_its_number_target_and_intervals(opened: Open) -> None:
    tab = opened("two")
    text = tab.hover("rows-chart", ".scatterlayer path.point >> nth=-1", ".hovertext")
    assert text.startswith("Row ")
    for part in ("target ", "median ", "50 %: ", "90 %: "):
        assert part in text


def test_an_interval_without_an_end_says_so(opened: Open) -> None:
    tab = opened("endless")
    tab.page.locator("#intervals .numbers summary").click()
    assert tab.page.locator("#intervals td", has_text="∞").count() == 400
    mark = ".scatterlayer path.point >> nth=200"
    assert tab.hover("rows-chart", mark, ".hovertext").endswith("to ∞")


def test_hostile_names_are_shown_and_not_interpreted(opened: Open) -> None:
    tab = opened("hostile")
    tab.page.locator("#group-column").select_option(label="<b>bold</b>")
    ticks = tab.texts("#group-chart .ytick text")
    assert any(text.startswith("<img src=x") for text in ticks)
    assert tab.page.locator("#group-chart .ytick text tspan").count() == 0
    assert tab.texts("#rows-chart .ytitle")[0].startswith("<i>price</i>"[:10])
    assert tab.texts("#training-chart .legendtext")[0].startswith("</script>")
    assert tab.page.locator("svg a, main img, main a:not([href^='#'])").count() == 0
    text = tab.hover("group-chart", ".scatterlayer path.point >> nth=0", ".hovertext")
    assert text.startswith("<b>bold</b>")
    assert "href='javascript:x'" in text
    assert "%{x}" in text
    assert tab.complaints == []


def test_dark_follows_the_system_and_the_button(opened: Open) -> None:
    light, dark = opened("group"), opened("group", dark=True)
    assert light.background() != dark.background()
    line = light.page.locator("#curve-chart .scatterlayer .js-line").last
    color = line.evaluate("node => node.style.stroke")
    light.page.locator("#theme").click()
    assert light.background() == dark.background()
    assert line.evaluate("node => node.style.stroke") != color
    assert light.complaints + dark.complaints == []


@pytest.mark.parametrize("name", ["before", "hostile", "two"])
def test_a_phone_scrolls_tables_but_not_the_page(opened: Open, name: str) -> None:
    tab = opened(name, width=390)
    tab.page.evaluate(
        "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
    )
    widths = tab.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert widths[0] <= widths[1] == 390
    assert tab.complaints == []


def test_every_control_is_reached_by_tab(opened: Open) -> None:
    seen = opened("group").reached_by_tab("copy-button")
    wanted = {"theme", "curve-view", "rows-view", "group-column", "group-measure"}
    assert seen >= wanted | {"skip", "scroll", "copy-button"}


def test_a_command_is_copied_or_marked(opened: Open) -> None:
    tab = opened("group")
    box = tab.page.locator("#made .copy")
    box.locator("button").click()
    box.locator("button", has_text="ed").wait_for()
    if box.locator("button").text_content() == "Marked":
        marked = tab.page.evaluate("String(window.getSelection())")
        assert marked.strip() == "calibrant fit houses.csv --target price --seed 0"


def test_groups_are_sorted_by_their_heads(opened: Open) -> None:
    tab = opened("group")
    table = tab.page.locator("#groups table").first
    table.locator("thead button", has_text="Rows").click()
    rows = [
        int(text) for text in table.locator("tbody td:nth-child(3)").all_inner_texts()
    ]
    assert rows == sorted(rows)
