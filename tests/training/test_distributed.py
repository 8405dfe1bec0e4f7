"""Several processes learn what one learns from all of their rows."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import rank_jobs
from calibrant import CalibratedRegressor, QuantileRegularizer
from calibrant.validation import InputError

SCRIPT = Path(rank_jobs.__file__)
# Far above what any job takes: a process that hangs is a failure.
_PATIENCE = 600


class Outcome:
    """Results and exit codes of several processes."""

    def __init__(self, folder: Path, error: str) -> None:
        self.folder, self.error = folder, error
        self.codes: list[int] = json.loads((folder / "codes.json").read_text())

    def tensors(self, rank: int) -> dict[str, Tensor]:
        path = self.folder / f"{rank}.safetensors"
        assert path.exists(), self.error
        return load_file(path)

    def survivors(self) -> dict[int, dict[str, str]]:
        """What all say but the first, which is killed at the end."""
        assert self.codes == [-signal.SIGKILL] + [0] * (len(self.codes) - 1), self.error
        return {
            rank: json.loads((self.folder / f"{rank}.json").read_text())
            for rank in range(1, len(self.codes))
        }


@pytest.fixture(scope="module", params=[2, 4], ids=lambda size: f"{size} processes")
def together(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    folder = tmp_path_factory.mktemp("together")
    process = subprocess.Popen(
        [sys.executable, "-W", "error", SCRIPT, str(request.param), str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, error = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return Outcome(folder, error)


pytestmark = pytest.mark.slow


def near(found: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [*rank_jobs.MAKERS])
def test_gradients_and_weights_are_those_of_the_joined_batch(
    together: Outcome, name: str
) -> None:
    regularizer = rank_jobs.MAKERS[name]()
    expected = rank_jobs.stepped(
        rank_jobs.network(), regularizer, rank_jobs.rows(), 1 / rank_jobs.N
    )
    for rank in range(len(together.codes)):
        found = together.tensors(rank)
        for key, value in expected.items():
            near(found[f"{name}: {key}"], value)


def test_switched_off_a_process_sees_its_own_rows(together: Outcome) -> None:
    regularizer = rank_jobs.MAKERS["default"]()
    expected = rank_jobs.stepped(
        rank_jobs.network(), regularizer, rank_jobs.rows(), 1 / rank_jobs.N
    )
    for key, value in expected.items():
        near(together.tensors(0)[f"alone: {key}"], value)


def test_the_training_loop_gives_the_weights_of_one_process(together: Outcome) -> None:
    expected = rank_jobs.member_weights()
    first = together.tensors(0)
    for key, value in expected.items():
        near(first[f"train: {key}"], value, 1e-7)
    for rank in range(1, len(together.codes)):
        for key, value in together.tensors(rank).items():
            if key.startswith("train: stack"):
                assert value.equal(first[key])  # all processes hold the same


def test_the_estimator_predicts_what_that_of_one_process_predicts(
    together: Outcome,
) -> None:
    expected = rank_jobs.estimator_predictions(random_state=0)
    for rank in range(len(together.codes)):
        near(together.tensors(rank)["estimator"], expected, 1e-3)  # float32 networks


def test_a_module_of_ones_own_is_the_same_in_all_processes(together: Outcome) -> None:
    first = together.tensors(0)
    own = [key for key in first if key.startswith("own: ")]
    assert "own: layers.1.running_mean" in own
    for rank in range(1, len(together.codes)):
        for key in own:
            assert together.tensors(rank)[key].equal(first[key])


def test_a_fault_of_one_process_is_told_by_all(together: Outcome) -> None:
    for rank, texts in together.survivors().items():
        own = "InputError" if rank == 1 else "LostRankError: rank 1 refused its batch"
        assert texts["one bad batch"].startswith(own)
        assert "must differ in their number of rows only" in texts["another shape"]
        assert "no process has any" in texts["no rows at all"]
        assert "n rows on the last axis" in texts["columns"]
        assert texts["second derivatives"].startswith("UnsupportedError")
        for key in ("other rows", "other groups", "other settings", "other generators"):
            assert "those of rank 1 are not those of rank 0" in texts[key]
        assert texts["own fault"].startswith("RuntimeError")


def test_a_killed_process_ends_the_others_with_an_error(together: Outcome) -> None:
    for texts in together.survivors().values():
        assert texts["death"].startswith("LostRankError: the processes could not")
        assert "another one has ended" in texts["death"]


def test_a_process_that_does_not_come_ends_the_others_in_time(
    together: Outcome,
) -> None:
    # The last one does not come, and the first one's words die with it.
    texts = together.survivors()
    for rank in range(1, len(together.codes) - 1):
        assert texts[rank]["absence"].startswith("LostRankError")
        assert "timeout of the process group" in texts[rank]["absence"]


def test_without_a_group_it_must_be_made_first() -> None:
    predictive = torch.distributions.Normal(torch.zeros(4), 1.0)
    with pytest.raises(InputError, match="needs a process group"):
        QuantileRegularizer(distributed=True)(predictive, torch.zeros(4))


def test_without_torchrun_the_estimator_says_how_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = (values.numpy() for values in rank_jobs.rows())
    with pytest.raises(InputError, match="torchrun --nproc-per-node 2"):
        CalibratedRegressor(epochs=1, distributed=True).fit(x, y)
    # A worker of joblib inherits what torchrun told its parent.
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")
    with pytest.raises(InputError, match=r"LokyProcess-1.*n_jobs=1"):
        CalibratedRegressor(epochs=1, distributed=True).fit(x, y)
