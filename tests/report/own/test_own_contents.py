"""Contents that do not fit are refused, with the rule."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from calibrant import InputError
from calibrant.report.own.contents import Predictions
from own_contents import of_law


def test_predictions_have_one_shape() -> None:
    rows = of_law("good").predictions
    with pytest.raises(InputError, match=r"arrays of one shape \(n,\), got .*y \(3,\)"):
        replace(rows, y=np.zeros(3))
    flat: dict[str, Any] = {each.name: np.zeros((2, 2)) for each in fields(Predictions)}
    with pytest.raises(InputError, match=r"row \(2, 2\)"):
        Predictions(**flat)


def test_predictions_fit_the_card() -> None:
    contents = of_law("good")
    with pytest.raises(InputError, match="each of the 412 rows of the card, got 5"):
        replace(contents, predictions=of_law("good", 5).predictions)


def test_the_kind_is_a_command() -> None:
    wrong: Any = "predict"
    with pytest.raises(InputError, match=r"fit, evaluate, .*, got 'predict'"):
        replace(of_law("good"), kind=wrong)
