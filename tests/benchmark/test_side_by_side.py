"""Many models in one stack: each is that of its own rows."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils import check_random_state

from calibrant import CalibratedRegressor, InputError
from calibrant.benchmark.side_by_side import fit_side_by_side
from calibrant.training.history import InterruptedWarning
from calibrant.training.loop import Trainer

random = np.random.default_rng(0)
X = random.normal(size=(60, 3))
Y = X[:, 0] + 0.3 * random.normal(size=60)
PARTS = [np.arange(0, 40), np.arange(20, 60), np.arange(10, 50)]


def paper(network: Any = "deep_ensemble", **changes: Any) -> CalibratedRegressor:
    return CalibratedRegressor.paper(network, **({"epochs": 3} | changes))


@pytest.mark.parametrize("network", ["deep_ensemble", "mc_dropout"])
def test_a_stack_of_one_is_the_estimator(network: str) -> None:
    model = paper(network, random_state=4)
    seed = int(check_random_state(4).randint(2**31 - 1))
    alone = model.fit(X[PARTS[0]], Y[PARTS[0]]).predict_distribution(X)
    stacked = fit_side_by_side(model, X, Y, PARTS[:1], seed=seed)[3].distribution(X, 0)
    # The whole table brings the inputs to order 1, so the last digits differ.
    torch.testing.assert_close(stacked.mean, alone.mean, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(stacked.stddev, alone.stddev, atol=1e-4, rtol=1e-3)


def test_a_model_knows_its_own_rows_only() -> None:
    changed = Y.copy()
    changed[50:] += 100
    before, after = (
        fit_side_by_side(paper(), X, y, PARTS, seed=1)[3] for y in (Y, changed)
    )
    for number in (0, 2):  # their rows end before 50
        first, other = before.distribution(X, number), after.distribution(X, number)
        assert torch.equal(first.mean, other.mean)
    assert not torch.equal(
        before.distribution(X, 1).mean, after.distribution(X, 1).mean
    )


def test_an_earlier_epoch_is_a_shorter_training() -> None:
    both = fit_side_by_side(paper(), X, Y, PARTS, seed=1, epochs=(5, 2))
    short = fit_side_by_side(paper(epochs=2), X, Y, PARTS, seed=1)
    assert sorted(both) == [2, 5]
    assert torch.equal(
        both[2].distribution(X, 1).mean, short[2].distribution(X, 1).mean
    )
    assert not torch.equal(
        both[2].distribution(X, 1).mean, both[5].distribution(X, 1).mean
    )


def test_masks_of_each_row_are_those_of_ordinary_dropout() -> None:
    fitted = fit_side_by_side(paper("mc_dropout"), X, Y, PARTS, seed=1)[3]
    twins = np.repeat(X[:1], 4000, axis=0)
    shared = fitted.distribution(twins, 0)
    assert shared.mean.unique().numel() == 1

    def own(seed: int) -> torch.Tensor:
        masks = torch.Generator().manual_seed(seed)
        return fitted.distribution(twins, 0, masks=masks).mean

    assert own(0).unique().numel() > 100
    assert torch.equal(own(0), own(0))
    assert not torch.equal(own(0), own(1))
    # Ten passes of a quarter dropped: the mean of rows is that of many passes.
    error = own(0).std() / 4000**0.5
    assert abs(own(0).mean() - own(1).mean()) < 5 * error * 2**0.5


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"strength": "auto"}, {}, r"(?s)got .*strength=.auto"),
        ({"patience": 3}, {}, r"(?s)got .*patience=3"),
        ({"recalibrate_on": "train"}, {}, r"(?s)got .*on=.train"),
        ({"schedule": "cosine"}, {"epochs": (1, 2)}, r"(?s)got .*cosine"),
        ({}, {"epochs": (0, 2)}, "at least 1"),
        ({}, {"rows": [np.arange(3), np.arange(4)]}, r"\[3, 4\] rows"),
    ],
)
def test_what_cannot_be_stacked_is_refused(
    changes: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    rows = options.pop("rows", PARTS)
    with pytest.raises(InputError, match=words):
        fit_side_by_side(paper(**changes), X, Y, rows, seed=0, **options)


def test_an_interruption_leaves_no_half_trained_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = []
    original = Trainer.step

    def step(self: Trainer, *arguments: Any) -> Any:
        steps.append(arguments)
        if len(steps) == 2:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Trainer, "step", step)
    with (
        pytest.warns(InterruptedWarning, match="after 1 of 3 epochs"),
        pytest.raises(KeyboardInterrupt),
    ):
        fit_side_by_side(paper(), X, Y, PARTS, seed=1)


def test_vast_targets_disturb_only_those_who_learn_from_them() -> None:
    far = Y.copy()
    far[55] = 1e149
    before, after = (
        fit_side_by_side(paper(), X, target, PARTS, seed=0)[3] for target in (Y, far)
    )
    assert torch.equal(before.distribution(X, 0).mean, after.distribution(X, 0).mean)
    assert after.distribution(X, 1).mean.isfinite().all()
