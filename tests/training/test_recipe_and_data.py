"""What can be asked of a training, and what it is asked with."""

import math
from typing import Any

import pytest
import torch

from calibrant import InputError, Recipe, TrainingData


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epochs": 0}, "epochs must be a whole number >= 1, got 0"),
        ({"epochs": 10.0}, r"epochs must be a whole number >= 1, got 10\.0"),
        ({"epochs": None}, "epochs must be a whole number"),
        ({"batch_size": math.nan}, "batch_size must be a whole number"),
        ({"patience": -1}, "patience must be a whole number"),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number above 0"),
        ({"gradient_clip": math.inf}, "gradient_clip must be a finite number above 0"),
        ({"weight_decay": -1}, "weight_decay must be finite and at least 0, got -1"),
        ({"adversarial": math.nan}, "adversarial must be finite and at least 0"),
        ({"strength": [1, math.inf]}, "strength must be finite, one number or one"),
        ({"strength": [[1.0]]}, "strength must be finite, one number or one"),
        ({"optimizer": "sgd"}, 'optimizer must be "adam" or "adamw", got \'sgd\''),
        ({"conditional": "spread"}, "conditional must be a list of keys out of spread"),
        ({"conditional": ["features"]}, r"got \['features'\]"),
    ],
)
def test_refuses_what_makes_no_sense(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Recipe(**options)


def data(**options: Any) -> TrainingData:
    parts = {
        "x": torch.zeros(4, 2),
        "y": torch.zeros(2, 4),
        "rows": [torch.arange(4), torch.arange(2)],
    }
    return TrainingData(**{**parts, **options})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"x": torch.zeros(4)}, r"got x \(4,\), y \(2, 4\) and 2 entries"),
        ({"y": torch.zeros(4)}, r"y \(members, n\)"),
        ({"y": torch.zeros(0, 4), "rows": []}, "and 0 entries"),
        (
            {"rows": [torch.arange(4), torch.arange(0)]},
            r"rows must hold at least one row for each of the 2 members, got \[4, 0\]",
        ),
        ({"held_out": [torch.arange(4)]}, r"held_out must hold at least .* got \[4\]"),
        (
            {"held_out": [torch.arange(4), torch.arange(5)]},
            "int64 from 0 to 3, got .*4",
        ),
        ({"rows": [torch.tensor([-1])] * 2}, "rows must hold numbers of rows, .* -1"),
        ({"rows": [torch.ones(4, dtype=torch.bool)] * 2}, "int64 .* got torch.bool"),
        ({"regularized": [torch.arange(3), torch.arange(0)]}, "regularized must hold"),
        ({"weights": torch.ones(3)}, r"weights must have shape \(4,\)"),
        ({"weights": torch.tensor([1.0, -1, 1, 1])}, "finite and at least 0"),
        ({"weights": torch.tensor([1.0, torch.nan, 1, 1])}, "finite and at least 0"),
        ({"weights": torch.tensor([0.0, 0, 1, 1])}, "at least one row of each member"),
    ],
)
def test_refuses_rows_that_do_not_fit(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        data(**options)
