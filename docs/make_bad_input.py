"""Write the table of bad input, ``docs/bad_input.md``, by running all of it.

    python docs/make_bad_input.py

The cases are those of ``tests/support/bad_input``; ``tests/commands/test_bad_input.py``
holds every line of the table to what is printed.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "bad_input.md"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from bad_input import GROUPS, Case  # noqa: E402
from bad_input.case import make_model, printed, run_case  # noqa: E402
from bad_input.page import page, row  # noqa: E402


def line(case: Case, model: Path) -> str:
    """Run a case, and return its line of the table."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        return row(case, printed(case, run_case(case, model, place), place))


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as name:
        model = make_model(Path(name))
        groups = {
            heading: [line(case, model) for case in cases]
            for heading, cases in GROUPS.items()
        }
    PAGE.write_text(page(groups), encoding="utf-8")


if __name__ == "__main__":
    main()
