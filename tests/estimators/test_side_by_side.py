"""Many models in one stack: each as if it were alone."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils import check_random_state

from calibrant import CalibratedRegressor, InputError
from calibrant.estimators.side_by_side import fit_side_by_side
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
    stacked = fit_side_by_side(model, X, Y, PARTS[:1], seed=seed)[3].law(X, 0)
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
        law, other = before.law(X, number), after.law(X, number)
        assert torch.equal(law.mean, other.mean)
    assert not torch.equal(before.law(X, 1).mean, after.law(X, 1).mean)


def test_an_earlier_epoch_is_a_shorter_training() -> None:
    both = fit_side_by_side(paper(), X, Y, PARTS, seed=1, epochs=(5, 2))
    short = fit_side_by_side(paper(epochs=2), X, Y, PARTS, seed=1)
    assert sorted(both) == [2, 5]
    assert torch.equal(both[2].law(X, 1).mean, short[2].law(X, 1).mean)
    assert not torch.equal(both[2].law(X, 1).mean, both[5].law(X, 1).mean)


def test_masks_of_each_row_are_those_of_ordinary_dropout() -> None:
    fitted = fit_side_by_side(paper("mc_dropout"), X, Y, PARTS, seed=1)[3]
    twins = np.repeat(X[:1], 4000, axis=0)
    shared = fitted.law(twins, 0)
    assert shared.mean.unique().numel() == 1

    def own(seed: int) -> torch.Tensor:
        masks = torch.Generator().manual_seed(seed)
        return fitted.law(twins, 0, masks=masks).mean

    assert own(0).unique().numel() > 100
    assert torch.equal(own(0), own(0))
    assert not torch.equal(own(0), own(1))
    # Ten passes of a quarter dropped: the mean of rows is that of many passes.
    error = own(0).std() / 4000**0.5
    assert abs(own(0).mean() - own(1).mean()) < 5 * error * 2**0.5


def test_an_ensemble_has_no_masks() -> None:
    fitted = fit_side_by_side(paper(), X, Y, PARTS, seed=1)[3]
    with_masks = fitted.law(X, 0, masks=torch.Generator())
    assert torch.equal(fitted.law(X, 0).mean, with_masks.mean)


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"strength": "auto"}, {}, "got strength='auto'"),
        ({"patience": 3}, {}, "got patience=3"),
        ({"recalibrate_on": "train"}, {}, "got recalibrate_on='train'"),
        ({"schedule": "cosine"}, {"epochs": (1, 2)}, "got schedule='cosine'"),
        ({}, {"epochs": (0, 2)}, "at least 1"),
        ({}, {"rows": [np.arange(3), np.arange(4)]}, r"got \[3, 4\] rows"),
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
