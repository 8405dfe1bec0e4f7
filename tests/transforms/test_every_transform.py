"""What every transform must do. A new one is tested by one line in ``EXAMPLES``."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calibrant import InputError, UnsupportedError
from calibrant.contracts import TargetTransform
from calibrant.transforms import TRANSFORMS, from_functions, from_json

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
        with pytest.raises(UnsupportedError, match=r"code is not data.*TRANSFORMS"):
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


@pytest.mark.parametrize("name", TRANSFORMS)
def test_targets_of_other_shapes_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"shape \(n,\).*squeeze"):
        TRANSFORMS[name]().fit(SHARES[:, None])
    with pytest.raises(InputError, match="finite"):
        TRANSFORMS[name]().fit([0.5, math.nan])


@pytest.mark.parametrize("name", ["log", "box_cox"])
def test_targets_that_are_not_positive_are_counted(name: str) -> None:
    y = torch.tensor([3.0, 0.0, -1.0, 2.0])
    with pytest.raises(InputError, match=r"2 of 4 targets are <= 0. Use 'yeo_johnson'"):
        TRANSFORMS[name]().fit(y)
    with pytest.raises(InputError, match="strictly between 0 and inf"):
        EXAMPLES[name][0].forward(y)


def test_targets_on_a_bound_are_sent_to_the_truncated_law() -> None:
    with pytest.raises(InputError, match=r"1 of 2 targets are >= 1.*bounds=.*Truncat"):
        TRANSFORMS["logit"]().fit([1.0, 0.5])
    with pytest.raises(InputError, match="1 of 2 targets are <= 0"):
        TRANSFORMS["logit"]().fit([0.0, 0.5])
    for low, high in ((1.0, 1.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(InputError, match="finite with low < high"):
            TRANSFORMS["logit"](low=low, high=high)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[1]", "JSON of a list"),
        ('{"format": "calibrant recalibrator"}', "its format is 'calibrant recal"),
        ('{"format": "calibrant transform", "version": 9}', "version 9"),
        (
            '{"format": "calibrant transform", "version": 1, "name": "square"}',
            "a transform called 'square'",
        ),
        (
            '{"format": "calibrant transform", "version": 1, "name": "box_cox", '
            '"options": {"power": null}, "state": {"power": 1.0}}',
            "'box_cox' is damaged",
        ),
        (
            '{"format": "calibrant transform", "version": 1, "name": "box_cox", '
            '"options": {}, "state": {"power": NaN}}',
            "NaN is not a number",
        ),
    ],
)
def test_wrong_text_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
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
