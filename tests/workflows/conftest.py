"""One small model of a table, for tests that only ask it."""

from pathlib import Path

import pytest

from calibrant.workflows.fit_table import TableFit, fit_table
from homes import TINY, homes


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> TableFit:
    """A model, its scorecard and its folder."""
    out = tmp_path_factory.mktemp("fitted") / "model"
    return fit_table(homes(300), target="price", out=out, **TINY)


@pytest.fixture(scope="session")
def folder(fitted: TableFit) -> Path:
    """The folder of that model."""
    assert fitted.folder is not None
    return fitted.folder
