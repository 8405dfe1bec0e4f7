"""Recalibrators as text."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from calibrant import InputError
from calibrant.recalibration import RECALIBRATORS, from_json
from calibrant.recalibration.maps import (
    EmpiricalRecalibrator,
    IsotonicRecalibrator,
    SmoothRecalibrator,
)

GOOD = json.loads(EmpiricalRecalibrator().fit_pit([0.1, 1 / 3]).to_json())


def test_options_come_back() -> None:
    isotonic = from_json(IsotonicRecalibrator(floor=0.25).fit_pit([0.5]).to_json())
    smooth = from_json(SmoothRecalibrator(knots=2).fit_pit([0.5, 0.6]).to_json())
    assert isinstance(isotonic, IsotonicRecalibrator)
    assert isinstance(smooth, SmoothRecalibrator)
    assert isotonic.floor == 0.25
    assert smooth.knots == 2
    assert repr(smooth) == "SmoothRecalibrator(knots=2) [fitted]"


def test_every_bit_of_a_float_survives() -> None:
    values = [0.1, 1 / 3, 2 / 3, 1 - 2**-53, 5e-324]
    knots = EmpiricalRecalibrator().fit_pit(values).unit_map.knots
    text = EmpiricalRecalibrator().fit_pit(values).to_json()
    restored = from_json(text)
    assert isinstance(restored, EmpiricalRecalibrator)
    assert restored.unit_map.knots.tolist() == knots.tolist()
    assert knots[1] == 5e-324


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"cannot be read as JSON"),
        ("{", r"complete; it cannot be read as JSON"),
        ("[1, 2]", r"got JSON of a list"),
        ('{"weights": [1]}', r"format 'calibrant recalibrator'.*format is None"),
        (json.dumps(GOOD | {"version": 2}), r"version 2.*reads 1.*newer one"),
        (json.dumps(GOOD | {"version": None}), r"version None"),
        (json.dumps(GOOD | {"name": "magic"}), r"called 'magic'.*isotonic.*RECALIB"),
        (json.dumps(GOOD | {"name": ["beta"]}), r"called \['beta'\]"),
        (json.dumps(GOOD | {"state": 3}), r"'empirical' is damaged"),
        (json.dumps(GOOD | {"options": None}), r"'empirical' is damaged"),
        (json.dumps(GOOD).replace("0.1,", "NaN,"), r"NaN is not a number of JSON"),
        (json.dumps(GOOD).replace("0.1,", "0.9,"), r"must increase strictly"),
    ],
)
def test_other_texts_are_refused(text: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        from_json(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read as JSON"):
        from_json(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scale", {"factor": -1.0}),
        ("conformal_interval", {"coverages": [0.9, 0.1]}),
        ("conformal_interval", {"used": "auto"}),
        ("beta", {"lower": 0.0}),
    ],
)
def test_impossible_states_are_refused(name: str, change: dict[str, object]) -> None:
    part: Any = RECALIBRATORS[name]()
    content = json.loads(part.fit(([0.0, 0.0], [1.0, 1.0]), [0.3, -2.0]).to_json())
    content["state"] |= change
    with pytest.raises(InputError, match=f"'{name}' is damaged"):
        from_json(json.dumps(content))


def test_your_own_part_can_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        @classmethod
        def from_state(
            cls, options: Mapping[str, Any], state: Mapping[str, Any]
        ) -> "Nothing":
            del options, state
            return cls()

    monkeypatch.setitem(RECALIBRATORS, "nothing", Nothing)
    assert isinstance(from_json(json.dumps(GOOD | {"name": "nothing"})), Nothing)
