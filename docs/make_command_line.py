"""Write ``docs/command_line.md`` from the commands themselves.

python docs/make_command_line.py          # write
python docs/make_command_line.py --check  # fail if the page is not up to date

Texts and defaults are those that ``--help`` shows.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from calibrant.commands.app import app

PAGE = Path(__file__).parent / "command_line.md"

HEAD = """# Command line

<!-- Written by docs/make_command_line.py. -->

From a table to calibrated predictions, without a line of Python. To begin with:
[from a CSV file](quick_start_csv.md). What happens with input that is not as it should
be stands in [bad input](bad_input.md).

`calibrant --help` lists the commands, `calibrant COMMAND --help` says what one takes,
`calibrant --version` prints the version, and `calibrant --install-completion` lets the
shell complete commands, options and columns of your file.

Exit codes: 0 if all went well, 1 if `evaluate --require-coverage` is not met or if
`fit` has written the model but no room was left for its report, 2 for a mistake in the
command or in a file (one line says what to do, and nothing is written), 130 after
Ctrl-C (0 if `fit` could keep what it had learned, and a note says so).
"""


def default(option: Any) -> str:  # noqa: ANN401  (a parameter of typer's command)
    """Return what holds if an option is left out, or nothing."""
    shown = getattr(option, "show_default", True)
    if isinstance(shown, str):
        return f"`{shown}`"
    if not shown or option.default is False or option.default in (None, "", ()):
        return ""
    return f"`{getattr(option.default, 'value', option.default)}`"


def names(option: Any) -> str:  # noqa: ANN401
    """Return how an option is written."""
    if option.param_type_name == "argument":
        return f"`{option.name.upper()}`"
    return ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))


def table(options: list[Any]) -> Iterator[str]:
    """Yield the lines that tell of some options."""
    yield "| option | what it does | default |"
    yield "|:--|:--|:--|"
    for each in options:
        text = " ".join((each.help or "").split()).replace("|", "\\|")
        if each.required:
            text += " Must be given."
        yield f"| {names(each)} | {text} | {default(each)} |"
    yield ""


def section(name: str, command: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield the lines of one command."""
    arguments = " ".join(
        each.name.upper() if each.required else f"[{each.name.upper()}]"
        for each in command.params
        if each.param_type_name == "argument"
    )
    yield f"## calibrant {name}\n"
    yield "```text\n" + " ".join(f"calibrant {name} {arguments} [OPTIONS]".split())
    yield "```\n"
    for paragraph in (command.help or "").split("\n\n"):
        text = " ".join(paragraph.split())
        if text.startswith("Example: "):
            yield f"```text\n{text.removeprefix('Example: ')}\n```\n"
        else:
            yield f"{text}\n"
    panels: dict[str, list[Any]] = {}
    for each in command.params:
        if each.name == "help" or getattr(each, "hidden", False):
            continue
        panels.setdefault(getattr(each, "rich_help_panel", None) or "", []).append(each)
    for panel, options in panels.items():
        if panel:
            yield f"**{panel}**\n"
        yield from table(options)


def page() -> str:
    """Make the whole page."""
    lines = [HEAD]
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        lines += section(name, command)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or say that it is out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    text = page()
    if given.check:
        fresh = PAGE.is_file() and PAGE.read_text("utf-8") == text
        if not fresh:
            sys.stdout.write(f"Out of date: python docs/{Path(__file__).name}\n")
        return int(not fresh)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
