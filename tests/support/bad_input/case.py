"""One kind of bad input, and what the command line does with it."""

import contextlib
import hashlib
import io
import json
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bad_input.houses import houses
from calibrant.commands.app import main

__all__ = [
    "TINY",
    "Case",
    "Content",
    "Outcome",
    "make_model",
    "printed",
    "run_case",
    "run_command",
]

Content = str | bytes | Callable[[Path], None]
#: Training that takes a moment; what is learned does not matter here.
TINY = "--learners network --epochs 1 --members 1 --hidden 4 --test 0"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command with bad input.

    Attributes
    ----------
    kind
        What is bad, in words; each of them once.
    command
        As it is typed behind ``calibrant``.
    says
        Words that must be in what is printed.
    code
        Exit code: 2 for a refusal.
    files
        Files to make first, by name: text, bytes, or what makes them at a path. A
        model in ``model/`` and its table ``houses.csv`` are there anyway.
    makes
        Files and folders that are there afterwards and were not before.
    column
        Column of the table whose treatment is what is printed (with ``--json``).
    alike
        Whether the predictions in ``out.csv`` are those of the sound ``houses.csv``.
    """

    kind: str
    command: str
    says: str
    code: int = 2
    files: Mapping[str, Content] = field(default_factory=dict)
    makes: tuple[str, ...] = ()
    column: str | None = None
    alike: bool = False


@dataclass(frozen=True)
class Outcome:
    """Exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


def make_model(folder: Path) -> Path:
    """Train the small model that the cases use; its table is beside it."""
    with contextlib.chdir(folder):
        Path("houses.csv").write_text(houses(), encoding="utf-8")
        # Without a recalibrator, because models without one are quick.
        done = run_command(
            f"fit houses.csv --target price --drop id --recalibrator none {TINY}"
        )
    if done.code:
        raise RuntimeError(done.err)
    return folder / "model"


def run_case(case: Case, model: Path, folder: Path) -> Outcome:
    """Make the files of a case in an empty folder, and run its command there."""
    shutil.copytree(model, folder / "model")
    (folder / "houses.csv").write_text(houses(), encoding="utf-8")
    for name, content in case.files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(place)
        else:
            place.write_bytes(content.encode() if isinstance(content, str) else content)
    before = _listing(folder)
    with contextlib.chdir(folder):
        done = run_command(case.command)
    after = _listing(folder)
    made = {name.split("/")[0] for name in after.keys() - before.keys()}
    if made != set(case.makes) or before.items() - after.items():
        lost = sorted(name for name, _ in before.items() - after.items())
        raise AssertionError(f"{case.kind}: made {sorted(made)}, changed {lost}")
    return done


def run_command(command: str) -> Outcome:
    """Run ``calibrant`` in this process, as the console would."""
    out, err, former = io.StringIO(), io.StringIO(), (sys.argv, warnings.formatwarning)
    sys.argv = ["calibrant", *shlex.split(command)]
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as left:
        code = left.code
    finally:
        sys.argv, warnings.formatwarning = former
    return Outcome(int(code or 0), out.getvalue(), err.getvalue())  # type: ignore[call-overload]


def printed(case: Case, done: Outcome, folder: Path) -> str:
    """Return the lines that say what was made of the input, free of temporary paths."""
    text = done.err.strip()
    if case.column is not None:
        columns = {each["name"]: each for each in json.loads(done.out)["columns"]}
        text = f"{case.column}: {columns[case.column]['done']}"
    for place in (folder.resolve(), folder):
        text = text.replace(f"{place}{os.sep}", "").replace(str(place), ".")
    return text


def _listing(folder: Path) -> dict[str, str]:
    """All files and folders below, hidden ones too, with what is in them."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(
            path.read_bytes() if path.is_file() else b"folder"
        ).hexdigest()
        for path in sorted(folder.rglob("*"))
    }
