"""The examples that recalibrate other libraries' models, each run as a user would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from last_line import assert_calibrated

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = [
    "recalibrate_arrays.py",
    "recalibrate_scipy.py",
    "recalibrate_gaussian_process.py",
    "recalibrate_ngboost.py",
    "recalibrate_skpro.py",
]


@pytest.mark.parametrize("name", NAMES)
def test_recalibration_ends_calibrated(name: str) -> None:
    command = [sys.executable, str(EXAMPLES / name)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    text = result.stdout
    found = re.search(r"calibration error (\S+) -> (\S+)", text)
    assert found, text
    before, after = map(float, found.groups())
    assert after < before / 2
    assert_calibrated(text)  # skpro's own intervals in its example
