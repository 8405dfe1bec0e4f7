"""What every transform must do, a line in ``EXAMPLES`` each; learned powers beside."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from calibrant import InputError, UnsupportedError
from calibrant.protocols import TargetTransform
from calibrant.transforms import (
    TRANSFORMS,
    BoxCoxTransform,
    YeoJohnsonTransform,
    from_functions,
    from_json,
)

POSITIVE = torch.exp(
    torch.randn(200, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
)
SHARES = torch.sigmoid(POSITIVE.log())


def _fitted(name: str, y: Tensor, **options: Any) -> Any:
    return TRANSFORMS[name](**options).fit(y)


EXAMPLES: dict[str, tuple[TargetTransform, Tensor]] = {
    "identity": (_fitted("identity", POSITIVE), POSITIVE),
    "log": (_fitted("log", POSITIVE), POSITIVE),
    "box_cox": (_fitted("box_cox", POSITIVE), POSITIVE),
    "box_cox up": (_fitted("box_cox", POSITIVE, power=2.0), POSITIVE),
    "box_cox down": (_fitted("box_cox", POSITIVE, power=-1.5), POSITIVE),
    "box_cox log": (_fitted("box_cox", POSITIVE, power=0.0), POSITIVE),
    "box_cox near 0": (_fitted("box_cox", POSITIVE, power=-1e-9), POSITIVE),
    "yeo_johnson": (_fitted("yeo_johnson", POSITIVE - 1), POSITIVE - 1),
    "yeo_johnson 0": (_fitted("yeo_johnson", POSITIVE, power=0), POSITIVE),
    "yeo_johnson 2": (_fitted("yeo_johnson", POSITIVE, power=2), POSITIVE),
    "logit": (_fitted("logit", SHARES), SHARES),
    "logit wide": (
        _fitted("logit", 30 * SHARES - 10, low=-10, high=20),
        30 * SHARES - 10,
    ),
    "functions": (
        from_functions(torch.asinh, torch.sinh, lambda y: -0.5 * torch.log1p(y**2)).fit(
            POSITIVE
        ),
        POSITIVE,
    ),
}


@pytest.fixture(params=EXAMPLES.values(), ids=EXAMPLES.keys())
def example(request: pytest.FixtureRequest) -> tuple[TargetTransform, Tensor]:
    return request.param


def test_every_transform_of_the_table_has_an_example() -> None:
    assert {name.split()[0] for name in EXAMPLES} - {"functions"} == set(TRANSFORMS)


@pytest.mark.parametrize("name", EXAMPLES)
@given(z=st.floats(-20, 20))
def test_forward_undoes_inverse_on_the_whole_line(name: str, z: float) -> None:
    transform, _ = EXAMPLES[name]
    asked = torch.tensor(z)
    y = transform.inverse(asked)
    low, _ = transform.support
    if y in transform.support:  # so near to an end that the target rounds to it
        assert math.isfinite(low)
        assert abs(z) > 3
        return
    slope = float(transform.log_derivative(y).exp())
    rounding = 8 * slope * abs(float(y)) * 2.3e-16
    assert abs(float(transform.forward(y)) - z) <= 1e-9 + rounding


def test_inverse_undoes_forward(example: tuple[TargetTransform, Tensor]) -> None:
    transform, y = example
    torch.testing.assert_close(transform.inverse(transform.forward(y)), y)
    shaped = y[:198].reshape(2, 3, 33)
    assert transform.forward(shaped).shape == (2, 3, 33)
    assert transform.inverse(shaped).dtype == torch.float64
    assert transform.forward(shaped.float()).dtype == torch.float64


def test_it_increases_and_reaches_the_whole_line(
    example: tuple[TargetTransform, Tensor],
) -> None:
    transform, _ = example
    z = torch.linspace(-30, 30, 301)
    y = transform.inverse(z)
    assert (y.diff() >= 0).all()
    assert not y.isnan().any()
    ends = transform.inverse(torch.tensor([-math.inf, math.inf]))
    assert tuple(ends.tolist()) == transform.support


def test_the_log_derivative_is_that_of_forward(
    example: tuple[TargetTransform, Tensor],
) -> None:
    transform, y = example
    point = transform.inverse(torch.linspace(-4, 4, 41)).requires_grad_()
    (slope,) = torch.autograd.grad(transform.forward(point).sum(), point)
    torch.testing.assert_close(transform.log_derivative(point.detach()), slope.log())
    assert torch.autograd.gradcheck(transform.forward, [y[:5].requires_grad_()])
    z = torch.linspace(-3, 3, 8).requires_grad_()
    assert torch.autograd.gradcheck(transform.inverse, [z])


def test_json_keeps_every_bit(example: tuple[TargetTransform, Tensor]) -> None:
    transform, y = example
    if transform is EXAMPLES["functions"][0]:
        with pytest.raises(UnsupportedError, match=r"cannot be stored.*TRANSFORMS"):
            transform.to_json()
        return
    restored = from_json(transform.to_json())
    assert type(restored) is type(transform)
    assert torch.equal(restored.forward(y), transform.forward(y))
    assert torch.equal(restored.inverse(y), transform.inverse(y))
    assert torch.equal(restored.log_derivative(y), transform.log_derivative(y))
    assert restored.to_json() == transform.to_json()
    assert repr(restored) == repr(transform)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("size", [1e-200, 1e-3, 1e200])
def test_the_unit_of_the_targets_does_not_hurt(name: str, size: float) -> None:
    options = {"low": 0.0, "high": size} if name == "logit" else {}
    y = size * (SHARES if name == "logit" else POSITIVE)
    transform = TRANSFORMS[name](**options).fit(y)
    torch.testing.assert_close(
        transform.inverse(transform.forward(y)), y, rtol=1e-9, atol=0
    )
    assert transform.log_derivative(y).isfinite().all()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_equal_targets_and_a_single_one_can_be_fitted(name: str) -> None:
    for y in (torch.full((5,), 0.3), torch.tensor([0.3])):
        transform = TRANSFORMS[name]().fit(y)
        around = torch.tensor([0.2, 0.3, 0.4])
        back = transform.inverse(transform.forward(around))
        torch.testing.assert_close(back, around)


def test_targets_on_a_bound_are_sent_to_bounds() -> None:
    with pytest.raises(InputError, match=r"2 of 3 targets do not.*bounds="):
        TRANSFORMS["logit"]().fit([1.0, 0.5, 0.0])
    for low, high in ((1.0, 1.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(InputError, match="finite with low < high"):
            TRANSFORMS["logit"](low=low, high=high)


FITTED = {
    "box_cox": BoxCoxTransform(power=1.0).fit([1.0, 2.0, 3.0]).to_json(),
    "yeo_johnson": YeoJohnsonTransform(power=1.0).fit([1.0, 2.0, 3.0]).to_json(),
    "logit": TRANSFORMS["logit"]().fit([0.5]).to_json(),
}


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("box_cox", {"power": "x"}, "could not convert"),
        ("box_cox", {"power": math.inf}, "parameters must be finite"),
        ("box_cox", {"log_scale": math.inf}, "parameters must be finite"),
        ("box_cox", {"power": 1000.0}, "must be at most"),
        ("yeo_johnson", {"center": math.inf}, "parameters must be finite"),
        ("yeo_johnson", {"scale": -1.0}, "scale must be a finite number above 0"),
        ("yeo_johnson", {"power": 3.0}, r"power must lie in \[0, 2\]"),
        ("logit", {"low": 2.0}, "low < high"),
    ],
)
def test_forged_states_are_refused(
    name: str, change: dict[str, object], match: str
) -> None:
    content = json.loads(FITTED[name])
    content["options" if name == "logit" else "state"] |= change
    text = json.dumps(content).replace("Infinity", "1e999")  # read as a number
    with pytest.raises(InputError, match=rf"'{name}' is damaged.*{match}"):
        from_json(text)


def test_your_own_class_can_be_stored_once_it_is_in_the_table() -> None:
    class Doubled(type(TRANSFORMS["identity"]())):  # type: ignore[misc]
        name = "doubled"

    text = Doubled().to_json()
    with pytest.raises(InputError, match="Put your own into TRANSFORMS"):
        from_json(text)
    TRANSFORMS["doubled"] = Doubled
    try:
        assert isinstance(from_json(text), Doubled)
    finally:
        del TRANSFORMS["doubled"]


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


def test_box_cox_refuses_powers_that_floats_cannot_hold() -> None:
    with pytest.raises(InputError, match="power must be a finite number"):
        BoxCoxTransform(power=math.inf)
    with pytest.raises(InputError, match=r"at most 0.6.*Leave it None"):
        BoxCoxTransform(power=3.0).fit([1e-200, 1e200])
    assert abs(BoxCoxTransform().fit([1e-200, 1.0, 1e200]).power) < 0.7


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


def test_yeo_johnson_refuses_powers_whose_images_end() -> None:
    for power in (-0.5, 2.5):
        with pytest.raises(InputError, match=r"power must lie in \[0, 2\].*box_cox"):
            YeoJohnsonTransform(power=power)


@pytest.mark.parametrize("name", ["box_cox", "yeo_johnson"])
def test_an_unfitted_power_says_so(name: str) -> None:
    with pytest.raises(
        InputError, match=f"{name} transform must be fitted.*training targets"
    ):
        TRANSFORMS[name]().forward([1.0])
    with pytest.raises(InputError, match="must be fitted"):
        TRANSFORMS[name]().to_json()


def test_functions_that_do_not_fit_each_other_are_refused() -> None:
    y = [0.5, 1.0, 2.0]
    with pytest.raises(InputError, match="increase strictly"):
        from_functions(torch.neg, torch.neg, torch.zeros_like).fit(y)
    with pytest.raises(InputError, match="inverse must undo forward"):
        from_functions(torch.asinh, torch.exp, torch.zeros_like).fit(y)
    with pytest.raises(InputError, match="that of forward's slope"):
        from_functions(torch.asinh, torch.sinh, torch.zeros_like).fit(y)
    with pytest.raises(InputError, match="support must be"):
        from_functions(torch.asinh, torch.sinh, torch.abs, support=(1.0, 1.0))
