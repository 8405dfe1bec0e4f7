"""Write ``docs/examples.md``, which shows every file of ``examples``.

python docs/make_examples.py          # write
python docs/make_examples.py --check  # fail if the page is not up to date

The files themselves are read when the site is built.
"""

import argparse
import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "examples.md"

HEAD = """# Examples

<!-- Written by docs/make_examples.py from the files of examples. -->

Whole programs, in the folder `examples`. Each runs as it is, and the tests run it.
"""


def section(path: Path) -> str:
    """Return what the file says of itself, and a reference to its text."""
    module = ast.parse(path.read_text("utf-8"))
    words = ast.get_docstring(module) or ""
    first = " ".join(words.split("\n\n", 1)[0].split())
    include = f'--8<-- "examples/{path.name}"'
    return f"## {path.name}\n\n{first}\n\n``` {{.python}}\n{include}\n```\n"


def page() -> str:
    """Make the whole page."""
    files = sorted((ROOT / "examples").glob("[!_]*.py"))
    return "\n".join([HEAD, *(section(path) for path in files)])


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
