"""One small model for all tests of bad input."""

from pathlib import Path

import pytest

from bad_input.case import make_model


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
