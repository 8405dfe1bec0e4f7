"""What is known about finished predictions of a folder: by which model, of what."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FolderLedger", "Made", "signature"]

# The underscore hides it from readers of folders of Parquet files.
LEDGER = "_predictions.jsonl"


def signature(path: Path) -> dict[str, int] | None:
    """Return what changes when a file does, None if there is none.

    Size and time of writing, as rsync and make go by: to read a billion rows only to
    find out that nothing is to be done would be slow.
    """
    try:
        about = path.stat()
    except OSError:
        return None
    return {"bytes": about.st_size, "modified": about.st_mtime_ns}


@dataclass(frozen=True)
class Made:
    """What predictions were made by.

    Attributes
    ----------
    model
        SHA-256 of its description, which holds that of its arrays.
    options
        Of the predictions, as JSON holds them.
    """

    model: str
    options: Mapping[str, Any]


class FolderLedger:
    """One line of JSON for each finished file; the last line of a file counts.

    A line that is cut, because a process was killed, only means that its file is done
    again.

    Parameters
    ----------
    folder
        With the predictions.
    made
        What they are made by now.
    """

    def __init__(self, folder: Path, made: Made) -> None:
        self._folder, self._made = folder, made
        self._path = folder / LEDGER
        self._lines = _read(self._path)

    def finished(self, source: Path) -> dict[str, Any] | None:
        """Return the line of a file that needs not be done again."""
        line = self._lines.get(source.name)
        wanted = {**vars(self._made), "input": signature(source)}
        if line is None or not self._is_ours(source.name):
            return None
        alike = all(line.get(name) == value for name, value in wanted.items())
        return line if alike else None

    def remove_former(self, sources: list[Path]) -> int:
        """Remove what other models, options or inputs have made, and count it.

        Otherwise a file that fails now would leave a former model's predictions.
        """
        removed = 0
        for source in sources:
            if self.finished(source) is None and self._is_ours(source.name):
                (self._folder / source.name).unlink()
                removed += 1
        return removed

    def orphans(self, sources: list[Path]) -> list[str]:
        """Name predictions whose inputs are no longer there."""
        known = {source.name for source in sources}
        return [n for n in self._lines if n not in known and self._is_ours(n)]

    def add(self, name: str, about: Mapping[str, Any]) -> None:
        """Write the line of a finished file.

        Parameters
        ----------
        name
            Of the file.
        about
            What is known of it: ``input`` and ``output``, both signatures, and more.
        """
        line = {"file": name, **about, **vars(self._made)}
        before = "" if _ends_well(self._path) else "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{before}{json.dumps(line)}\n")
        self._lines[name] = line

    def _is_ours(self, name: str) -> bool:
        """Whether a file of predictions is as this ledger says."""
        found = signature(self._folder / name)
        return found is not None and self._lines.get(name, {}).get("output") == found


def _read(path: Path) -> dict[str, dict[str, Any]]:
    lines: dict[str, dict[str, Any]] = {}
    if not path.exists():
        return lines
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
            lines[str(line["file"])] = {**line, "rows": int(line["rows"])}
        except (ValueError, LookupError, TypeError):
            continue
    return lines


def _ends_well(path: Path) -> bool:
    """Whether a file ends with the end of a line; a killed process leaves a part."""
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
