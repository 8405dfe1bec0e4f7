"""Use an installed calibrant as a stranger would: ``python -I tools/smoke.py``.

Core dependencies alone must do: tables in, a model, predictions, a report, a reload.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

_COMMANDS = (
    "--version",
    "methods",
    "datasets yacht --new 0.3",
    "fit yacht.csv --target residuary_resistance --out model --epochs 5",
    "predict model yacht-new.csv -o out.csv --coverage 0.9",
    "evaluate model yacht-new.csv",
    "info model",
)


def main() -> int:
    """Run every command in a folder of its own, then read what it left."""
    source = Path(__file__).resolve().parents[1] / "src"
    with tempfile.TemporaryDirectory() as folder:
        for command in _COMMANDS:
            line = [sys.executable, "-I", "-m", "calibrant", *command.split()]
            print("calibrant", command)
            subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        import calibrant

        if source in Path(calibrant.__file__).resolve().parents:
            print("this is the source tree, not an installed package", file=sys.stderr)
            return 1
        model = calibrant.TableModel.load(Path(folder) / "model")
        rows = (Path(folder) / "out.csv").read_text().splitlines()
        print(f"{type(model).__name__} from {calibrant.__file__}")
        print(f"{len(rows) - 1} predictions: {rows[0]}")
        report = Path(folder) / "model" / "report.html"
        print(f"{report.name}: {report.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
