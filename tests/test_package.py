"""The package as a whole: lazy imports, public names, tables."""

import importlib
import runpy
import subprocess
import sys

import pytest

import calibrant
from calibrant.registry import Table


@pytest.mark.parametrize(
    "statement",
    [
        "import calibrant",
        "import calibrant; calibrant.__version__",
        "from calibrant.registry import SORTERS; list(SORTERS)\n"
        "from calibrant.regularizers import REGULARIZERS; list(REGULARIZERS)",
        "from calibrant.distributions import DISTRIBUTIONS; list(DISTRIBUTIONS)",
        "from calibrant.learners import HEADS, NETWORKS; list(HEADS), list(NETWORKS)",
        "import sys; sys.argv = ['calibrant', '--help']\n"
        "import calibrant.commands.app as c\ntry: c.main()\nexcept SystemExit: pass",
    ],
    ids=["import", "version", "names", "distributions", "networks", "help"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(statement: str) -> None:
    heavy = ["torch", "numpy", "scipy", "pandas", "matplotlib", "sklearn"]
    code = f"{statement}\nimport sys\nassert not set({heavy}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    "room",
    [""]
    + [
        f".{room}"
        for room in (
            "commands",
            "data",
            "distributions",
            "estimators",
            "learners",
            "metrics",
            "paper",
            "recalibration",
            "regularizers",
            "tables",
            "training",
        )
    ],
)
def test_every_public_name_loads_and_has_a_docstring(room: str) -> None:
    package = importlib.import_module(f"calibrant{room}")
    assert package.__all__
    for name in package.__all__:
        part = getattr(package, name)
        assert part is not None
        if callable(part):
            assert part.__doc__, name


def test_the_root_offers_few_names_and_knows_no_others() -> None:
    assert len(calibrant.__all__) <= 40
    with pytest.raises(AttributeError, match="quantile_regulariser"):
        _ = calibrant.quantile_regulariser  # type: ignore[attr-defined]


def test_runs_as_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["calibrant", "--version"])
    with pytest.raises(SystemExit):
        runpy.run_module("calibrant", run_name="__main__")
    assert calibrant.__version__ in capsys.readouterr().out


def test_a_table_takes_your_own_part_and_names_the_nearest() -> None:
    table: Table[object] = Table("root", {"square": "math:sqrt"})
    assert len(table) == 1
    table["cube"] = abs
    assert table["cube"] is abs
    assert "Table of roots: square, cube" in repr(table)
    del table["cube"]
    assert "cube" not in table
    with pytest.raises(KeyError, match="Did you mean 'square'"):
        table["sqare"]
    with pytest.raises(KeyError, match="no root is called 'x'; there are square"):
        table["x"]
