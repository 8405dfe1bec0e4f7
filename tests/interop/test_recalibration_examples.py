"""The examples that recalibrate other libraries' models, each run as a user would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["arrays", "scipy", "gaussian_process", "ngboost", "skpro"]


@pytest.mark.parametrize("name", NAMES)
def test_recalibration_lowers_the_calibration_error(name: str) -> None:
    script = EXAMPLES / f"recalibrate_{name}.py"
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    found = re.search(r"calibration error (\S+) -> (\S+)", result.stdout)
    assert found, result.stdout
    before, after = map(float, found.groups())
    assert after < before / 2
