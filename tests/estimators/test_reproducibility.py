"""Seeds, the global state, and Ctrl-C."""

import random as python_random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.model_selection import cross_val_score
from torch import Tensor, nn

from calibrant.estimators import CalibratedRegressor
from calibrant.training import EpochState, InterruptedWarning

Make = Callable[..., CalibratedRegressor]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Dropping(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = nn.functional.dropout(x, 0.2, training=self.training)
        mean, spread = self.layer(kept).unbind(-1)
        return mean, nn.functional.softplus(spread) + 1e-3


NETWORKS: list[dict[str, Any]] = [
    {"network": "deep_ensemble"},
    {"network": "mc_dropout", "passes": 2},
    {"network": Dropping},
]


@pytest.mark.parametrize("settings", NETWORKS)
def test_seeds(settings: dict[str, Any], cheap: Make, line: Rows) -> None:
    x, y = line
    first, again, other = (
        cheap(epochs=2, **settings, random_state=seed).fit(x, y).predict_interval(x)
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


@pytest.mark.parametrize("settings", NETWORKS)
def test_the_global_state_is_untouched(
    settings: dict[str, Any], cheap: Make, line: Rows
) -> None:
    x, y = line
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index] # noqa: NPY002
    plain = python_random.getstate()
    model = cheap(epochs=2, **settings).fit(x, y)
    model.sample(x, 3, random_state=0)
    model.predict_interval(x)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # type: ignore[index] # noqa: NPY002
    assert python_random.getstate() == plain


def test_without_a_seed_fits_differ(cheap: Make, line: Rows) -> None:
    x, y = line
    first, second = (
        cheap(epochs=1, random_state=None).fit(x, y).predict_quantiles(x)
        for _ in range(2)
    )
    assert (first != second).any()


def test_a_random_state_moves_on(cheap: Make, line: Rows) -> None:
    x, y = line
    state = np.random.RandomState(0)
    model = cheap(epochs=1, random_state=state)
    first = model.fit(x, y).predict_quantiles(x)
    assert (model.fit(x, y).predict_quantiles(x) != first).any()


@pytest.mark.slow
def test_another_process_finds_the_same() -> None:
    code = (
        "import numpy as np, torch; torch.set_default_dtype(torch.float64);"
        "from calibrant import CalibratedRegressor as C;"
        "x = np.random.default_rng(0).standard_normal((40, 2));"
        "m = C(epochs=2, members=1, folds=2, hidden=(8,), random_state=0);"
        "print(m.fit(x, x[:, 0]).predict_quantiles(x).tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    x = np.random.default_rng(0).standard_normal((40, 2))
    model = CalibratedRegressor(
        epochs=2, members=1, folds=2, hidden=(8,), random_state=0
    )
    expected = model.fit(x, x[:, 0]).predict_quantiles(x)
    found = np.frombuffer(bytes.fromhex(done.stdout.strip())).reshape(40, 5)
    np.testing.assert_array_equal(found, expected)


class Interrupting:
    """Press Ctrl-C after some epochs of a training."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.calls = 0

    def __call__(self, state: EpochState) -> None:
        self.calls += 1
        if state.epoch == self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("settings", NETWORKS)
def test_ctrl_c_leaves_a_usable_model(
    settings: dict[str, Any], cheap: Make, line: Rows
) -> None:
    x, y = line
    model = cheap(epochs=50, callbacks=[Interrupting(2)], **settings)
    with (
        pytest.warns(InterruptedWarning, match="after 2 of 50 epochs"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(x, y)
    assert all(history.interrupted for history in model.history_)
    assert np.isfinite(model.predict_interval(x)).all()


def test_ctrl_c_before_an_epoch_is_finished_leaves_no_model(
    cheap: Make, line: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("calibrant.training.loop.Trainer.epoch", stop)
    model = cheap()
    with pytest.warns(InterruptedWarning), pytest.raises(KeyboardInterrupt):
        model.fit(*line)
    assert not hasattr(model, "model_")


def test_ctrl_c_ends_a_cross_validation(cheap: Make, line: Rows) -> None:
    seen: list[int] = []

    def stop(state: EpochState) -> None:
        seen.append(state.epoch)
        if state.epoch == 2:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning), pytest.raises(KeyboardInterrupt):
        cross_val_score(cheap(epochs=3, callbacks=[stop]), *line, cv=3)
    assert seen == [1, 2]  # and no other fold was trained


def test_ctrl_c_ends_a_sweep(cheap: Make, line: Rows) -> None:
    x, y = line
    callback = Interrupting(2)
    model = cheap(
        epochs=5, strength="auto", strength_grid=(0, 1, 2), callbacks=[callback]
    )
    with pytest.warns(InterruptedWarning), pytest.raises(KeyboardInterrupt):
        model.fit(x, y)
    assert callback.calls == 2
    assert model.strength_path_.strengths.tolist() == [0.0]
    assert model.strength_ == 0.0
    assert np.isfinite(model.predict_interval(x)).all()


def test_a_callback_can_end_it(cheap: Make, line: Rows) -> None:
    model = cheap(epochs=9, callbacks=[lambda state: state.epoch == 3]).fit(*line)
    assert len(model.history_[0].loss) == 3
    assert not model.history_[0].interrupted
