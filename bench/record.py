"""What a run has found: a file that grows, and a table."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.machine import revision

__all__ = ["Record", "listing"]


class Record:
    """What a run has found so far, in a file that is written after each step.

    Parameters
    ----------
    path
        The file.
    fresh
        Forget what is in it.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        self.found: dict[str, Any] = {"started": _now(), "revision": revision()}
        if path.is_file() and not fresh:
            before = json.loads(path.read_text("utf-8"))
            if before["revision"] != self.found["revision"]:
                raise SystemExit(
                    f"{path} was begun with {before['revision']} of the code, and this "
                    f"is {self.found['revision']}. Begin anew: --fresh"
                )
            self.found = before

    def get(self, part: str, key: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return what is known under a key, or find it out and keep it."""
        known = self.found.setdefault(part, {})
        if key not in known:
            known[key] = make()
            self.write()
        return known[key]

    def finish(self) -> None:
        """Say that all is done, and keep the run under the time it started."""
        self.found["finished"] = _now()
        self.write()
        name = self.found["started"].replace(":", "")[:15] + ".json"
        self.path = self.path.replace(self.path.with_name(name))

    def write(self) -> None:
        """Replace the file by a whole new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_suffix(".part")
        half.write_text(json.dumps(self.found, indent=1) + "\n", "utf-8")
        half.replace(self.path)


def listing(record: Record) -> Table:
    """Make the table of all ratios."""
    table = Table(title="Ratios of best times in one run", title_justify="left")
    for column in ("work", "against", "target", "measured", "middle 80 %", "met"):
        table.add_column(column, justify="right" if column == "measured" else "left")
    marks = {True: "yes", False: "NO", None: ""}
    for each in record.found.get("contests", {}).values():
        spread = f"{each['low']:.3g} to {each['high']:.3g}"
        table.add_row(
            each["work"],
            each["against"],
            each["goal"],
            each["text"],
            spread,
            marks[each["met"]],
        )
    return table


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
