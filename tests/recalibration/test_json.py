"""Recalibrators as text: options come back, forged and damaged texts are refused."""

import json
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


def test_options_and_every_bit_come_back() -> None:
    isotonic = from_json(IsotonicRecalibrator(floor=0.25).fit_pit([0.5]).to_json())
    smooth = from_json(SmoothRecalibrator(knots=2).fit_pit([0.5, 0.6]).to_json())
    assert isinstance(isotonic, IsotonicRecalibrator)
    assert isotonic.floor == 0.25
    assert repr(smooth) == "SmoothRecalibrator(knots=2) [fitted]"
    fitted = EmpiricalRecalibrator().fit_pit([0.1, 1 / 3, 1 - 2**-53, 5e-324])
    restored = from_json(fitted.to_json())
    assert isinstance(restored, EmpiricalRecalibrator)
    assert restored.unit_map.knots.tolist() == fitted.unit_map.knots.tolist()
    assert fitted.unit_map.knots[1] == 5e-324


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", r"complete; it cannot be read as JSON"),
        ("[" * 100_000, r"cannot be read as JSON"),
        (None, "cannot be read as JSON"),
        ("[1, 2]", r"got JSON of a list"),
        ('{"weights": [1]}', r"format 'calibrant recalibrator'.*format is None"),
        (json.dumps(GOOD | {"version": 2}), r"version 2.*reads 1.*newer one"),
        (json.dumps(GOOD | {"version": None}), r"version None"),
        (json.dumps(GOOD | {"name": "magic"}), r"called 'magic'.*isotonic.*RECALIB"),
        (json.dumps(GOOD | {"name": ["beta"]}), r"called \['beta'\]"),
        (json.dumps(GOOD | {"state": 3}), r"'empirical' is damaged"),
        (json.dumps(GOOD | {"options": None}), r"'empirical' is damaged"),
        (json.dumps(GOOD).replace("0.1,", "NaN,"), r"NaN is not a number of JSON"),
    ],
)
def test_other_texts_are_refused(text: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        from_json(text)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("isotonic", {"knots": [0.0, 0.9, 0.5, 1.0]}),
        ("isotonic", {"knots": [0.0, 1e999]}),
        ("isotonic", {"heights": [0.0, 0.5, 0.2, 1.0]}),
        ("isotonic", {"heights": None}),
        ("isotonic", {"heights": [10**400]}),
        ("isotonic", {"floor": 1e999}),
        ("isotonic", {"floor": 0.99}),
        ("empirical", {"spread": 0.0}),
        ("empirical", {"spread": 1e999}),
        ("smooth", {"slopes": [-1.0]}),
        ("smooth", {"places": [1e999]}),
        ("beta", {"lower": 0.0}),
        ("beta", {"shift": 1e999}),
        ("scale", {"factor": -1.0}),
        ("scale", {"factor": 1e999}),
        ("conformal_interval", {"coverages": [0.9, 0.1]}),
        ("conformal_interval", {"coverages": [0.1, 1.1]}),
        ("conformal_interval", {"bounds": [0.1, 1e999]}),
        ("conformal_interval", {"bounds": [-0.3, 2.0]}),
        ("conformal_interval", {"coverages": [], "bounds": []}),
        ("conformal_interval", {"used": "auto"}),
        ("conformal_interval", {"used": ["quantile"]}),
    ],
)
def test_impossible_states_are_refused(name: str, change: dict[str, object]) -> None:
    part: Any = RECALIBRATORS[name]()
    content = json.loads(part.fit(([0.0, 0.0], [1.0, 1.0]), [0.3, -2.0]).to_json())
    content["state"] |= change
    text = json.dumps(content).replace("Infinity", "1e999")  # read as a number
    with pytest.raises(InputError, match=f"'{name}' is damaged"):
        from_json(text)


def test_your_own_part_can_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        @classmethod
        def from_state(cls, options: object, state: object) -> "Nothing":
            del options, state
            return cls()

    monkeypatch.setitem(RECALIBRATORS, "nothing", Nothing)
    assert isinstance(from_json(json.dumps(GOOD | {"name": "nothing"})), Nothing)
