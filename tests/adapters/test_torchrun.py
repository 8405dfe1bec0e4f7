"""``examples/fit_with_torchrun.py`` as its text says."""

import os
import subprocess
import sys
from pathlib import Path

from calibrant import load
from last_line import assert_calibrated

EXAMPLE = Path(__file__).parents[2] / "examples" / "fit_with_torchrun.py"


def test_two_processes_fit_one_model(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", str(EXAMPLE)],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The 90 % intervals covered") == 1
    assert_calibrated(done.stdout)
    assert load(tmp_path / "model").fitted_parameters_["distributed"]
