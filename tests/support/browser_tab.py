"""An open page in a browser, and what a test does with it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["Open", "Tab"]

NAMELESS = """[...document.querySelectorAll("select, input, button")]
  .filter((each) => each.offsetParent && !(each.labels?.length
    || each.textContent.trim() || each.ariaLabel))
  .map((each) => each.outerHTML)"""


@dataclass
class Tab:
    """An open page, with everything that it complained of or asked for."""

    page: "Page"
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def texts(self, place: str) -> list[str]:
        return self.page.locator(place).all_text_contents()

    def label(self, name: str) -> str:
        return self.page.locator(f"#{name}").get_attribute("aria-label") or ""

    def lines(self, chart: str) -> list[str]:
        lines = self.page.locator(f"#{chart} .scatterlayer .js-line")
        return [line.get_attribute("d") or "" for line in lines.all()]

    def choose(self, select: str, value: str) -> None:
        self.page.locator(f"#{select}").select_option(value)

    def hover(self, chart: str, mark: str, label: str) -> str:
        """Point at a mark of a chart, and return what is said of it."""
        place = self.page.locator(f"#{chart} {mark}")
        place.scroll_into_view_if_needed()
        place.hover(force=True)
        text = self.page.locator(f"#{chart} .hoverlayer {label}")
        text.first.wait_for()
        return " ".join(text.all_text_contents())

    def background(self) -> str:
        script = "getComputedStyle(document.body).backgroundColor"
        return str(self.page.evaluate(script))

    def reached_by_tab(self, last: str) -> set[str]:
        """Press Tab until the control with this name, and return all on the way."""
        script = "document.activeElement.id || document.activeElement.className"
        seen: set[str] = set()
        for _ in range(120):
            self.page.keyboard.press("Tab")
            seen.add(str(self.page.evaluate(script)))
            if last in seen:
                break
        return seen

    def is_sound(self) -> None:
        """Charts fit their frames and have names, controls too, nothing is fetched."""
        for chart in self.page.locator(".chart").all():
            assert chart.locator(".scatterlayer path, .barlayer path").count() > 0
            box = chart.locator("svg.main-svg").first.bounding_box()
            outer = chart.bounding_box()
            assert box is not None
            assert outer is not None
            assert box["width"] <= outer["width"] + 1
            assert box["height"] <= outer["height"] + 1
            assert chart.get_attribute("aria-label")
        assert self.page.evaluate(NAMELESS) == []
        assert self.complaints == []
        assert all(url.startswith(("file:", "data:")) for url in self.requests)


Open = Callable[..., Tab]
