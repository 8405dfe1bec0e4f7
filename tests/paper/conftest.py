"""Small tables and plans that run in a second."""

from pathlib import Path

import numpy as np
import pytest

from calibrant.paper.plan import Plan, Study


def write_table(path: Path, rows: int, seed: int) -> str:
    """Write a CSV of two features and a target with noise; return its path."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 2))
    y = x[:, 0] - x[:, 1] + 0.3 * random.normal(size=rows)
    table = np.column_stack([x, y])
    np.savetxt(path, table, delimiter=",", header="first,second,target", comments="")
    return str(path)


def make_tables(folder: Path) -> tuple[str, str]:
    """Two generated sets; the folds of one differ by a row."""
    return (
        write_table(folder / "even.csv", 40, 0),
        write_table(folder / "odd.csv", 41, 1),
    )


def make_plan(tables: tuple[str, str]) -> Plan:
    """Both networks, two folds, two epochs, two repeats, and our default."""
    paper = Study(
        data=tables,
        epochs=(2,),
        recalibrations=("none", "isotonic"),
        folds=2,
        repeats=2,
    )
    default = Study(
        data=tables[:1],
        networks=("default",),
        strengths=(1.0,),
        epochs=(2,),
        recalibrations=("out_of_fold",),
        split="shuffled",
        folds=2,
    )
    return Plan(studies=(paper, default), seed=5, name="tiny")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return make_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def tiny_plan(tables: tuple[str, str]) -> Plan:
    return make_plan(tables)
