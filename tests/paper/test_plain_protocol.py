"""The independent implementation runs, and agrees with the stack."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

from calibrant.paper.jobs import jobs_of, run_job
from calibrant.paper.plan import Study

SCRIPT = Path(__file__).parents[2] / "bench" / "plain_protocol.py"


@pytest.mark.slow
def test_plain_modules_and_the_stack_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    torch.set_default_dtype(torch.float32)  # as outside of the tests
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "yacht", "--repeats", "2"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    torch.set_num_threads(threads)
    shown = capsys.readouterr().out.splitlines()
    plain = [float(line[18:].split("±")[0]) for line in shown]
    study = Study(data=("yacht",), networks=("mc_dropout",), strengths=(0,), repeats=2)
    records = [r for job in jobs_of(study.cells(), (), seed=0) for r in run_job(job, 0)]
    ours = [
        sum(getattr(record, name) for record in records) / len(records)
        for name in ("calibration_error", "rmse", "nll")
    ]
    # Deviations over repeats are about 7, 0.17 and 0.02.
    assert ours == [
        pytest.approx(plain[0], abs=25),
        pytest.approx(plain[1], abs=0.6),
        pytest.approx(plain[2], abs=0.1),
    ]
