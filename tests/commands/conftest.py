"""Small models, for tests that only ask them."""

from pathlib import Path

import pytest

from bad_input.case import make_model
from calibrant.commands.fit import TableFit, fit_table
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


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model of houses; ``houses.csv`` is beside it. Never written to."""
    return make_model(tmp_path_factory.mktemp("small_model"))


@pytest.fixture(scope="session")
def sound_predictions(
    small_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """What the model predicts for the sound table."""
    from calibrant import predict_table

    out = tmp_path_factory.mktemp("sound") / "out.csv"
    predict_table(small_model, small_model.parent / "houses.csv", out, progress=False)
    return out.read_text(encoding="utf-8")
