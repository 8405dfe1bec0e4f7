"""The notebook runs from its first cell to its last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


@pytest.mark.filterwarnings("ignore")  # those of the notebook's own machinery
def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(TOUR, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        startup_timeout=600,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()


def test_its_outputs_are_stored_and_small() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any("image/png" in out.get("data", {}) for c in code for out in c.outputs)
    errors = [out for c in code for out in c.outputs if out.output_type == "error"]
    assert not errors
    assert TOUR.stat().st_size < 300_000
