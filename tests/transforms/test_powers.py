"""The learned powers against scipy, and the map beyond the training targets."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from calibrant import BoxCoxTransform, InputError, YeoJohnsonTransform
from calibrant.transforms import TRANSFORMS, from_functions, from_json

RANDOM = np.random.default_rng(0)
SKEWED = {
    "gamma": RANDOM.gamma(2.0, size=400) + 1e-3,
    "lognormal": np.exp(RANDOM.normal(size=400)),
    "heavy": 1 / RANDOM.gamma(3.0, size=400),
    "square": np.sqrt(RANDOM.normal(10, 1, size=400)),
}


@pytest.mark.parametrize("name", SKEWED)
def test_box_cox_learns_the_power_that_scipy_learns(name: str) -> None:
    y = SKEWED[name]
    box_cox = BoxCoxTransform().fit(y)
    image, power = stats.boxcox(y)
    if abs(power) < 5:
        assert abs(box_cox.power - power) < 1e-4
    assert (
        stats.boxcox_llf(box_cox.power, y)
        >= stats.boxcox_llf(np.clip(power, -5, 5), y) - 1e-6
    )
    if abs(power) < 5:
        # scipy's image but for the unit of the targets.
        own = box_cox.forward(y).numpy()
        assert abs(np.corrcoef(own, image)[0, 1] - 1) < 1e-9


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_the_power_does_not_depend_on_the_unit(size: float) -> None:
    power = BoxCoxTransform().fit(SKEWED["gamma"]).power
    assert abs(BoxCoxTransform().fit(size * SKEWED["gamma"]).power - power) < 1e-6
    power = YeoJohnsonTransform().fit(SKEWED["gamma"]).power
    moved = YeoJohnsonTransform().fit(size * (SKEWED["gamma"] - 3.0)).power
    assert abs(moved - power) < 1e-5


def test_box_cox_is_its_formula_on_the_training_targets() -> None:
    y = torch.tensor([1.0, 2.0, 4.0, 16.0])
    scale = float(y.log().mean().exp())
    for power in (-2.0, -0.3, 0.7, 3.0):
        box_cox = BoxCoxTransform(power=power).fit(y)
        expected = ((y / scale) ** power - 1) / power
        torch.testing.assert_close(box_cox.forward(y), expected)
        slope = (y / scale) ** (power - 1) / scale
        torch.testing.assert_close(box_cox.log_derivative(y), slope.log())


@pytest.mark.parametrize(("power", "end"), [(2.0, 1.0), (-2.0, 16.0)])
def test_box_cox_goes_on_with_its_slope_where_the_formula_would_end(
    power: float, end: float
) -> None:
    box_cox = BoxCoxTransform(power=power).fit([1.0, 2.0, 4.0, 16.0])
    near = torch.tensor([end * (1 - 1e-9), end * (1 + 1e-9)])
    torch.testing.assert_close(*box_cox.forward(near), rtol=0, atol=1e-6)
    torch.testing.assert_close(*box_cox.log_derivative(near), rtol=0, atol=1e-6)
    # Images beyond the end of the formula, -1 / power, have targets.
    beyond = torch.tensor([-1 / power - math.copysign(5.0, power)])
    y = box_cox.inverse(beyond)
    assert 0 < float(y) < math.inf
    torch.testing.assert_close(box_cox.forward(y), beyond)


def test_box_cox_is_linear_above_and_log_linear_below() -> None:
    y = [1.0, 2.0, 4.0, 16.0]
    above = BoxCoxTransform(power=-1.0).fit(y).forward([100.0, 200.0, 300.0])
    torch.testing.assert_close(above[2] - above[1], above[1] - above[0])
    below = BoxCoxTransform(power=1.0).fit(y).forward([1e-3, 1e-2, 1e-1])
    torch.testing.assert_close(below[2] - below[1], below[1] - below[0])


def test_box_cox_refuses_powers_that_floats_cannot_hold() -> None:
    with pytest.raises(InputError, match="power must be a finite number"):
        BoxCoxTransform(power=math.inf)
    with pytest.raises(InputError, match=r"at most 0.6.*Leave it None"):
        BoxCoxTransform(power=3.0).fit([1e-200, 1e200])
    assert abs(BoxCoxTransform().fit([1e-200, 1.0, 1e200]).power) < 0.7
    with pytest.raises(InputError, match="damaged: its parameters must be finite"):
        from_json(
            '{"format": "calibrant transform", "version": 1, "name": "box_cox", '
            '"options": {}, "state": {"power": 1, "log_scale": 1e999, "edge": 0}}'
        )


@pytest.mark.parametrize("name", SKEWED)
@pytest.mark.parametrize("sign", [1, -1])
def test_yeo_johnson_is_scipys_on_standardized_targets(name: str, sign: int) -> None:
    y = sign * SKEWED[name]
    transform = YeoJohnsonTransform().fit(y)
    low, center, high = np.quantile(y, [0.25, 0.5, 0.75], method="nearest")
    t = (y - center) / (high - low)
    torch.testing.assert_close(
        transform.forward(y),
        torch.from_numpy(stats.yeojohnson(t, lmbda=transform.power)),
    )
    best = float(np.clip(stats.yeojohnson_normmax(t), 0, 2))
    assert abs(transform.power - best) < 1e-4


def test_yeo_johnson_of_mirrored_targets_is_mirrored() -> None:
    y = SKEWED["gamma"][:399]
    power = YeoJohnsonTransform().fit(y).power
    assert power < 1
    assert abs(YeoJohnsonTransform().fit(-y).power - (2 - power)) < 1e-6


def test_yeo_johnson_refuses_powers_whose_images_end() -> None:
    for power in (-0.5, 2.5, math.nan):
        with pytest.raises(InputError, match=r"power must lie in \[0, 2\].*box_cox"):
            YeoJohnsonTransform(power=power)
    text = YeoJohnsonTransform(power=1.0).fit([1.0, 2.0, 3.0]).to_json()
    for change, message in (
        (('"center": 2.0', '"center": 1e999'), "center must be finite"),
        (('"scale": ', '"scale": -'), "scale must be a finite number above 0"),
    ):
        assert change[0] in text
        with pytest.raises(InputError, match=message):
            from_json(text.replace(*change))


def test_an_outlier_that_no_square_holds_is_fitted() -> None:
    y = np.append(SKEWED["gamma"], 1e250)
    assert YeoJohnsonTransform().fit(y).forward(y).isfinite().all()


@pytest.mark.parametrize("name", ["box_cox", "yeo_johnson"])
def test_an_unfitted_power_says_so(name: str) -> None:
    with pytest.raises(InputError, match=f"'{name}' must be fitted.*training targets"):
        TRANSFORMS[name]().forward([1.0])
    with pytest.raises(InputError, match="must be fitted"):
        TRANSFORMS[name]().to_json()


def test_functions_that_do_not_fit_each_other_are_refused() -> None:
    y = [0.5, 1.0, 2.0]
    with pytest.raises(InputError, match="increase strictly"):
        from_functions(torch.neg, torch.neg, torch.zeros_like).fit(y)
    with pytest.raises(InputError, match="inverse must undo forward"):
        from_functions(torch.asinh, torch.exp, torch.zeros_like).fit(y)
    with pytest.raises(InputError, match="logarithm of forward's derivative"):
        from_functions(torch.asinh, torch.sinh, torch.zeros_like).fit(y)
    with pytest.raises(InputError, match="support must be"):
        from_functions(torch.asinh, torch.sinh, torch.abs, support=(1.0, 1.0))
    # Without a gradient only the two others can be checked.
    rounded = from_functions(lambda v: v.detach(), torch.clone, torch.zeros_like)
    assert rounded.fit(y).forward(y).tolist() == y
