"""Run the notebook ``docs/tour.ipynb``, and store what it shows.

    python docs/make_tour.py

The texts and the code are edited in the notebook itself.
"""

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TOUR = Path(__file__).parent / "tour.ipynb"


def main() -> None:
    """Execute all cells in an empty folder, and write the notebook."""
    notebook = nbformat.read(TOUR, as_version=4)
    with tempfile.TemporaryDirectory() as place:
        resources = {"metadata": {"path": place}}
        NotebookClient(notebook, timeout=300, resources=resources).execute()
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    notebook.metadata = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, TOUR)


if __name__ == "__main__":
    main()
